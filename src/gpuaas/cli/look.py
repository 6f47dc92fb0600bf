"""Gathering what the commands show: the picture of the queues, and jobs with their workloads."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuaas.admission.picture import Picture, owner_of, state_of
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import NAMESPACES, NODES, PODS

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

# What people call jobs: the word, and the kind a workload's owner has.
JOB_KINDS = {
    "job": "Job",
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "raycluster": "RayCluster",
    "rayjob": "RayJob",
    "jobset": "JobSet",
    "pytorchjob": "PyTorchJob",
    "trainjob": "TrainJob",
    "notebook": "Notebook",
    "workload": "Workload",
}


async def picture(client: "HttpClient", *, pods: bool = False) -> Picture:
    """Everything the queues depend on. What a user may not see counts as not there."""
    wanted = {
        "namespaces": NAMESPACES,
        "flavors": RESOURCE_FLAVORS,
        "cohorts": COHORTS,
        "cluster_queues": CLUSTER_QUEUES,
        "local_queues": LOCAL_QUEUES,
        "workloads": WORKLOADS,
        "checks": ADMISSION_CHECKS,
        "topologies": TOPOLOGIES,
        "nodes": NODES,
        **({"pods": PODS} if pods else {}),
    }
    found = await asyncio.gather(*(_all(client, resource) for resource in wanted.values()))
    return Picture(**dict(zip(wanted, found, strict=True)))


async def _all(client: "HttpClient", resource: Resource) -> list[Object]:
    try:
        return (await client.list(resource)).items
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise


@dataclass(frozen=True, slots=True)
class Shown:
    """A workload as `ps` shows it."""

    namespace: str
    name: str  # of what the user made
    kind: str
    queue: str
    state: str
    position: int | None
    workload: str
    created: str
    gpus: str

    @property
    def full(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def shown(workload: Object, position: int | None) -> Shown:
    meta, spec = workload["metadata"], workload.get("spec") or {}
    kind, name = owner_of(workload)
    return Shown(
        meta.get("namespace", ""),
        name,
        kind,
        spec.get("queueName", ""),
        state_of(workload),
        position,
        meta["name"],
        meta["creationTimestamp"],
        _gpus(spec),
    )


def _gpus(spec: Object) -> str:
    from gpuaas.admission.ledger import is_gpu
    from gpuaas.base.quantity import parse_quantity

    total = 0
    for pod_set in spec.get("podSets") or ():
        for container in ((pod_set.get("template") or {}).get("spec") or {}).get("containers") or ():
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                if is_gpu(name):
                    total += parse_quantity(amount).value * pod_set.get("count", 1)
    return str(total)


async def find_workload(client: "HttpClient", namespace: str, name: str) -> Object:
    """By its own name, or by the name of what it was made for: `train`, `job/train`, `raycluster/dev`."""
    kind, _, bare = name.rpartition("/")
    wanted = JOB_KINDS.get(kind.lower(), kind) if kind else ""
    found = [each for each in (await client.list(WORKLOADS, namespace)).items if _is_called(each, wanted, bare)]
    if not found:
        raise NotFound("kueue.x-k8s.io", "workloads", name)
    return max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def _is_called(workload: Object, kind: str, name: str) -> bool:
    owner_kind, owner_name = owner_of(workload)
    if workload["metadata"]["name"] == name and kind in ("", "Workload"):
        return True
    return owner_name == name and kind in ("", owner_kind)


def positions(summary: list[dict[str, Any]]) -> dict[str, int]:
    return {f"{each['namespace']}/{each['name']}": each["position"] for each in summary}
