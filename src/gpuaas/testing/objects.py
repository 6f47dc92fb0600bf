"""Builders of common objects: the fields a test speaks of, and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object, Resource
from gpuaas.runtime.metadata import controller_reference

Owner = tuple[Resource, Mapping[str, Any]]


def metadata(
    name: str,
    namespace: str = "default",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    owner: Owner | None = None,
) -> Object:
    made: Object = {"name": name}
    if namespace:
        made["namespace"] = namespace
    if labels:
        made["labels"] = dict(labels)
    if annotations:
        made["annotations"] = dict(annotations)
    if finalizers:
        made["finalizers"] = list(finalizers)
    if owner:
        made["ownerReferences"] = [controller_reference(owner[1], owner[0])]
    return made


def config_map(name: str, namespace: str = "default", *, data: Mapping[str, str] | None = None, **meta: Any) -> Object:
    return {"metadata": metadata(name, namespace, **meta), "data": dict(data or {})}


def secret(name: str, namespace: str = "default", *, type: str = "Opaque", **meta: Any) -> Object:
    return {"metadata": metadata(name, namespace, **meta), "type": type}


def namespace(name: str, **meta: Any) -> Object:
    return {"metadata": metadata(name, "", **meta)}


def service_account(name: str, namespace: str = "default", **meta: Any) -> Object:
    return {"metadata": metadata(name, namespace, **meta)}


def node(
    name: str, *, labels: Mapping[str, str] | None = None, taints: Sequence[Object] = (), ready: bool = True
) -> Object:
    made: Object = {
        "metadata": metadata(name, "", labels=labels),
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }
    if taints:
        made["spec"]["taints"] = list(taints)
    return made


def pod(
    name: str,
    namespace: str = "default",
    *,
    node: str = "",
    phase: str = "Pending",
    requests: Mapping[str, str] | None = None,
    ready: bool = False,
    **meta: Any,
) -> Object:
    made: Object = {
        "metadata": metadata(name, namespace, **meta),
        "spec": pod_spec(requests=requests),
        "status": {"phase": phase},
    }
    if node:
        made["spec"]["nodeName"] = node
    if ready:
        made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def pod_spec(*, image: str = "busybox", requests: Mapping[str, str] | None = None, restart: str = "Always") -> Object:
    container: Object = {"name": "main", "image": image}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    return {"containers": [container], "restartPolicy": restart}


def template(labels: Mapping[str, str], *, image: str = "busybox", restart: str = "Always") -> Object:
    return {"metadata": {"labels": dict(labels)}, "spec": pod_spec(image=image, restart=restart)}


def replica_set(name: str, replicas: int, namespace: str = "default", **meta: Any) -> Object:
    return {
        "metadata": metadata(name, namespace, **meta),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template({"app": name}),
        },
    }


def deployment(name: str, replicas: int, namespace: str = "default", *, image: str = "busybox", **spec: Any) -> Object:
    return {
        "metadata": metadata(name, namespace),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template({"app": name}, image=image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


def stateful_set(
    name: str, replicas: int, namespace: str = "default", *, image: str = "busybox", **spec: Any
) -> Object:
    return {
        "metadata": metadata(name, namespace),
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template({"app": name}, image=image),
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def daemon_set(name: str, namespace: str = "default", *, image: str = "busybox", **spec: Any) -> Object:
    return {
        "metadata": metadata(name, namespace),
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template({"app": name}, image=image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def job(
    name: str, namespace: str = "default", *, parallelism: int = 1, completions: int | None = 1, **spec: Any
) -> Object:
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    made: Object = {
        "parallelism": parallelism,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": f"uid-of-{name}"}},
        "template": template(
            {**labels, "batch.kubernetes.io/controller-uid": f"uid-of-{name}", "controller-uid": f"uid-of-{name}"},
            restart="Never",
        ),
        **spec,
    }
    if completions is not None:
        made["completions"] = completions
    return {"metadata": metadata(name, namespace, labels=labels), "spec": made}


def cron_job(name: str, schedule: str, namespace: str = "default", **spec: Any) -> Object:
    return {
        "metadata": metadata(name, namespace),
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": template({}, restart="Never")}},
            **spec,
        },
    }
