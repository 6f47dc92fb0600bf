"""The whole picture of a cluster's queues as plain objects, and a fresh engine that knows it.

For questions from outside the control plane: `why`, `queues`, plans. The same engine that admits answers them, fed from
what the API shows, so that a real cluster with upstream Kueue can be asked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.quantity import NANO, parse_quantity
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.engine import Engine
from gpuaas.engine.usage_share import UsageConfig
from gpuaas.kueue import quotas
from gpuaas.kueue.configuration.settings import Configuration
from gpuaas.kueue.dra.claims import Devices
from gpuaas.kueue.dra.inventory import Listed
from gpuaas.kueue.explain.hidden_usage import unseen
from gpuaas.kueue.topology_assignment import others_on_nodes
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.kueue.workloads import Reader

Object = dict[str, Any]
View = Mapping[str, Any]


@dataclass(slots=True)
class Picture:
    """Lists as the API gives them; any of them may be empty."""

    namespaces: list[Object] = field(default_factory=list)
    flavors: list[Object] = field(default_factory=list)
    cohorts: list[Object] = field(default_factory=list)
    cluster_queues: list[Object] = field(default_factory=list)
    local_queues: list[Object] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)
    checks: list[Object] = field(default_factory=list)
    topologies: list[Object] = field(default_factory=list)
    priorities: list[Object] = field(default_factory=list)  # WorkloadPriorityClasses
    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    owners: list[Object] = field(default_factory=list)  # what stands between jobs and pods: sets, jobs, Ray clusters
    device_classes: list[Object] = field(default_factory=list)
    claim_templates: list[Object] = field(default_factory=list)
    device_slices: list[Object] = field(default_factory=list)
    hidden: frozenset[str] = frozenset()  # which of the lists the asker may not see
    partial: frozenset[str] = frozenset()  # and of which only one namespace's
    configuration: Configuration | None = None  # Kueue's own, where it can be seen

    def local_queue(self, namespace: str, name: str) -> Object | None:
        return _named(self.local_queues, name, namespace)

    def cluster_queue(self, name: str) -> Object | None:
        return _named(self.cluster_queues, name)

    def flavor(self, name: str) -> Object | None:
        return _named(self.flavors, name)

    def namespace(self, name: str) -> Object | None:
        return _named(self.namespaces, name)


def owner_of(workload: View) -> tuple[str, str]:
    """Kind and name of what the user made; the workload itself where nothing owns it."""
    for owner in workload["metadata"].get("ownerReferences") or ():
        if owner.get("controller", True):
            return str(owner["kind"]), str(owner["name"])
    return "Workload", str(workload["metadata"]["name"])


def state_of(workload: View) -> str:
    """One word: Pending, Reserved, Admitted, Running, Evicted, Inactive, Succeeded, Failed."""
    conditions = conditions_of(workload)
    if is_true(conditions.get("Finished")):
        return "Failed" if conditions["Finished"].get("reason") == "Failed" else "Succeeded"
    if is_true(conditions.get("Evicted")) and is_true(conditions.get("QuotaReserved")):
        return "Evicted"
    if not (workload.get("spec") or {}).get("active", True):
        return "Inactive"
    if is_true(conditions.get("Admitted")):
        return "Running" if is_true(conditions.get("PodsReady")) else "Admitted"
    return "Reserved" if is_true(conditions.get("QuotaReserved")) else "Pending"


def pods_of(picture: Picture, workload: View) -> list[Object]:
    """The pods that run for a workload, however many owners stand in between."""
    meta = workload["metadata"]
    family = {owner.get("uid") for owner in meta.get("ownerReferences") or ()} | {meta.get("uid", "")}
    candidates = [each for each in picture.owners if each["metadata"].get("namespace") == meta["namespace"]]
    grown = True
    while grown:
        more = {each["metadata"]["uid"] for each in candidates if _owners(each) & family} - family
        family |= more
        grown = bool(more)
    return [
        pod
        for pod in picture.pods
        if pod["metadata"].get("namespace") == meta["namespace"]
        and (
            pod["metadata"].get("uid") in family
            or _owners(pod) & family
            or (pod["metadata"].get("annotations") or {}).get("kueue.x-k8s.io/workload") == meta["name"]
        )
    ]


def _owners(obj: Object) -> set[str]:
    return {str(owner.get("uid")) for owner in obj["metadata"].get("ownerReferences") or ()}


def engine_of(picture: Picture) -> Engine:
    """An engine that stands where the cluster stands."""
    engine = Engine(_config(picture))
    reader = _reader(picture, picture.configuration or Configuration())
    checks = {obj["metadata"]["name"]: obj for obj in picture.checks}
    engine.apply(
        *map(quotas.namespace, picture.namespaces),
        *map(quotas.flavor, picture.flavors),
        *map(quotas.topology, picture.topologies),
        *map(quotas.node, picture.nodes),
        *map(quotas.cohort, picture.cohorts),
        *(quotas.cluster_queue(obj, checks) for obj in picture.cluster_queues),
        *map(quotas.local_queue, picture.local_queues),
    )
    if picture.topologies:
        engine.apply(*others_on_nodes(picture.pods))
    others = unseen(picture.cluster_queues, picture.workloads) if "workloads" in picture.partial else ()
    for obj in (*picture.workloads, *others):
        conditions = conditions_of(obj)
        if is_true(conditions.get("Finished")) or not (obj.get("spec") or {}).get("active", True):
            continue
        if is_true(conditions.get("QuotaReserved")) and (obj.get("status") or {}).get("admission"):
            engine.apply(reader.reserved(obj))
        else:
            engine.apply(reader.workload(obj))
    _take_up_usage(engine, picture.local_queues)
    return engine


def _config(picture: Picture) -> Config:
    """As Kueue is configured; what cannot be seen shows in the statuses, but for the weights of resources."""
    if picture.configuration is not None:
        return picture.configuration.engine
    fair = any((obj.get("status") or {}).get("fairSharing") for obj in picture.cluster_queues)
    usage = any(consumed(obj) is not None for obj in picture.local_queues)
    return Config(BOTH_STRATEGIES if fair else None, usage_sharing=UsageConfig() if usage else None)


def claims_devices(workload: View) -> bool:
    pod_sets = (workload.get("spec") or {}).get("podSets") or ()
    return any(((each.get("template") or {}).get("spec") or {}).get("resourceClaims") for each in pod_sets)


def _reader(picture: Picture, configuration: Configuration) -> Reader:
    """Devices count where they can be seen."""
    listed = Listed(picture.device_classes, picture.claim_templates, picture.device_slices)
    unseen_devices = picture.hidden & {"device_classes", "claim_templates", "device_slices"}
    return Reader(
        configuration.resources,
        by_creation=configuration.requeue_by_creation,
        counts=configuration.counts,
        devices=None if unseen_devices else Devices(configuration.devices, listed),
    )


def consumed(local_queue: View) -> View | None:
    """What a LocalQueue has used lately, as admission fair sharing tells it."""
    sharing = (local_queue.get("status") or {}).get("fairSharing") or {}
    status = sharing.get("admissionFairSharingStatus")
    return None if status is None else status.get("consumedResources") or {}


def _take_up_usage(engine: Engine, local_queues: list[Object]) -> None:
    if engine.ledger is None:
        return
    for obj in local_queues:
        amounts = {name: parse_quantity(amount).nano / NANO for name, amount in (consumed(obj) or {}).items()}
        engine.ledger.load(f"{obj['metadata']['namespace']}/{obj['metadata']['name']}", amounts, 0)


def _named(objects: list[Object], name: str, namespace: str = "") -> Object | None:
    for obj in objects:
        meta = obj["metadata"]
        if meta["name"] == name and meta.get("namespace", "") == namespace:
            return obj
    return None
