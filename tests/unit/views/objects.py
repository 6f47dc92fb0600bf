"""Objects for rows, made small."""

from __future__ import annotations

from typing import Any

from gpuaas.api.owner import OWNER

Object = dict[str, Any]
AT = "2026-11-15T12:00:00Z"


def workload(
    name: str,
    namespace: str = "ns",
    *,
    gpus: int = 1,
    queue: str = "lq",
    at: str = AT,
    owner: str = "",
    user: str = "",
    **more: Any,
) -> Object:
    """`conditions`: types that are True. `admitted`: the ClusterQueue it was admitted by."""
    containers = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
    references = [{"kind": "Job", "name": owner, "uid": f"uid-of-{owner}", "controller": True}] if owner else []
    status: Object = {"conditions": [_condition(each) for each in more.pop("conditions", ())]}
    if cluster_queue := more.pop("admitted", ""):
        given = [{"name": "main", "flavors": {"nvidia.com/gpu": "l4"}, "count": 1}]
        status["admission"] = {"clusterQueue": cluster_queue, "podSetAssignments": given}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": at,
            "generation": 1,
            **({"ownerReferences": references} if references else {}),
            **({"annotations": {OWNER: user}} if user else {}),
        },
        "spec": {
            "queueName": queue,
            "priority": 0,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}],
            **more,
        },
        "status": status,
    }


def _condition(kind: str) -> Object:
    kind, _, reason = kind.partition(":")
    return {"type": kind, "status": "True", "reason": reason or "R", "message": "", "lastTransitionTime": AT}


def local_queue(name: str, cluster_queue: str, namespace: str = "ns") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster_queue}}


def cluster_queue(name: str, *, used: str = "1", waiting: int = 0) -> Object:
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": 2}
    return {
        "metadata": {"name": name},
        "spec": {
            "cohortName": "all",
            "resourceGroups": [
                {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "l4", "resources": [quota]}]}
            ],
        },
        "status": {
            "conditions": [_condition("Active")],
            "pendingWorkloads": waiting,
            "flavorsReservation": [
                {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "total": used, "borrowed": "0"}]}
            ],
        },
    }


def flavor(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def node(name: str, product: str = "L4", gpus: int = 4, *, ready: bool = True, cordoned: bool = False) -> Object:
    labels = {"nvidia.com/gpu.product": product, "gpuaas.dev/executor": "simulated"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "8"},
            "conditions": [_condition("Ready")] if ready else [],
        },
    }


def pod(
    name: str,
    namespace: str = "ns",
    *,
    on: str = "",
    gpus: int = 1,
    phase: str = "Running",
    owner: str = "",
    user: str = "",
) -> Object:
    """`owner`: the uid in its reference; `user`: who created it."""
    requests = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            **({"ownerReferences": [{"uid": owner}]} if owner else {}),
            **({"annotations": {OWNER: user}} if user else {}),
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **({"nodeName": on} if on else {}),
        },
        "status": {"phase": phase},
    }
