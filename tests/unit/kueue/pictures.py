"""What a cluster shows of its queues and workloads, made small: the pictures that `why` is asked about."""

from __future__ import annotations

from typing import Any

from gpuaas.kueue.configuration.file import read_configuration
from gpuaas.kueue.configuration.settings import Configuration
from gpuaas.kueue.explain.snapshot import Picture
from gpuaas.kueue.explain.why import Answer, why

Object = dict[str, Any]
AT = "2026-11-15T12:00:00Z"
NOW = 1_794_744_000_000


def workload(
    name: str = "mine", gpus: int = 2, queue: str = "lq", *, selector: Object | None = None, **more: Any
) -> Object:
    containers = [{"name": "main", "resources": {"requests": {more.pop("resource", "nvidia.com/gpu"): str(gpus)}}}]
    pod: Object = {"containers": containers, **({"nodeSelector": selector} if selector else {})}
    sets = [{"name": each, "count": 1, "template": {"spec": pod}} for each in more.pop("sets", ("main",))]
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": AT,
            "generation": 1,
            "ownerReferences": [{"kind": "Job", "name": name, "uid": f"owner-{name}", "controller": True}],
        },
        "spec": {"queueName": queue, "priority": 0, "podSets": sets, **more.pop("spec", {})},
        "status": {"conditions": [condition(*each) for each in more.pop("conditions", ())], **more.pop("status", {})},
    }


def condition(kind: str, status: str = "True", reason: str = "Because", message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


def reserved(name: str, gpus: int, *conditions: tuple[str, ...], flavor: str = "l4", **more: Any) -> Object:
    given = {
        "name": "main",
        "count": 1,
        "flavors": {"nvidia.com/gpu": flavor},
        "resourceUsage": {"nvidia.com/gpu": str(gpus)},
    }
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [given]}, **more.pop("status", {})}
    return workload(name, gpus, conditions=(("QuotaReserved",), *conditions), status=status, **more)


def picture(*workloads: Object, cluster: Object | None = None, local: Object | None = None, **more: Any) -> Picture:
    quota = {"resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "l4", **quota}, {"name": "h200", **quota}]}]
    queue = {
        "metadata": {"name": "cq"},
        "spec": {"namespaceSelector": {}, "resourceGroups": groups, **(cluster or {})},
        "status": {"conditions": [condition("Active")]},
    }
    front = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq", **(local or {})}}
    return Picture(
        namespaces=[{"metadata": {"name": "ns", "labels": {"kubernetes.io/metadata.name": "ns"}}}],
        flavors=[flavor("l4", "L4"), flavor("h200", "H200")],
        cluster_queues=more.pop("cluster_queues", [queue]),
        local_queues=[front],
        workloads=list(workloads),
        nodes=more.pop("nodes", [node("n1", "L4"), node("n2", "H200")]),
        **more,
    )


def flavor(name: str, product: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"gpu": product}}}


def node(name: str, product: str) -> Object:
    return {
        "metadata": {"name": name, "labels": {"gpu": product}},
        "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "64Gi", "pods": "110"}},
    }


def ask(asked: Object, *others: Object, **more: Any) -> Answer:
    return why(picture(asked, *others, **more), asked, NOW)


def stuck(name: str, owner: str, message: str, spec: Object | None = None) -> Object:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    meta = {"name": name, "namespace": "ns", "uid": f"pod-{name}", "ownerReferences": [{"uid": owner}]}
    return {"metadata": meta, "spec": spec or {}, "status": {"conditions": [said]}}


def configured(text: str) -> Configuration:
    return read_configuration(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}").configuration
