"""Whether queues can admit anything: upstream's Active conditions, worked out from the objects a queue refers to."""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.engine.check_conflicts import faults
from gpuaas.engine.forest import CYCLE
from gpuaas.kueue.quotas import cluster_queue

View = Mapping[str, Any]
Find = Callable[[str], View | None]
Active = tuple[bool, str, str]
"""Status, reason and message of the condition."""

NO_CLUSTER_QUEUE = "Can't submit new workloads to clusterQueue"


def cluster_queue_active(queue: View, flavors: Find, checks: Find, topologies: Find, cohorts: Find) -> Active:
    if queue["metadata"].get("deletionTimestamp"):
        return False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    why: list[tuple[str, str]] = []
    if stopped(queue):
        why.append(("Stopped", "is stopped"))
    missing = [name for name in flavor_names(queue) if flavors(name) is None]
    if missing:
        why.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
    why += _checks(queue, checks)
    for name in flavor_names(queue):
        topology = ((flavors(name) or {}).get("spec") or {}).get("topologyName")
        if topology and topologies(topology) is None:
            why.append(("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{name}"'))
    if _cyclic((queue.get("spec") or {}).get("cohortName"), cohorts):
        why.append(CYCLE)
    if not why:
        return True, "Ready", "Can admit new workloads"
    return False, why[0][0], f"Can't admit new workloads: {', '.join(words for _, words in why)}."


def local_queue_active(queue: View, cluster_queue: View | None, active: Active) -> Active:
    """`active`: of the ClusterQueue, if there is one."""
    if stopped(queue):
        return False, "Stopped", "LocalQueue is stopped"
    if cluster_queue is None:
        return False, "ClusterQueueDoesNotExist", NO_CLUSTER_QUEUE
    if not active[0]:
        return False, "ClusterQueueIsInactive", NO_CLUSTER_QUEUE
    return True, "Ready", "Can submit new workloads to localQueue"


def stopped(queue: View) -> bool:
    return ((queue.get("spec") or {}).get("stopPolicy") or "None") != "None"


def flavor_names(queue: View) -> list[str]:
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group.get("flavors") or ()]


def check_names(queue: View) -> list[str]:
    strategy = (queue.get("spec") or {}).get("admissionChecksStrategy") or {}
    return [rule["name"] for rule in strategy.get("admissionChecks") or ()]


def _cyclic(cohort: str | None, cohorts: Find) -> bool:
    seen: set[str] = set()
    while cohort:
        if cohort in seen:
            return True
        seen.add(cohort)
        cohort = ((cohorts(cohort) or {}).get("spec") or {}).get("parentName")
    return False


def _checks(queue: View, checks: Find) -> list[tuple[str, str]]:
    names = sorted(check_names(queue))
    if not names:
        return []
    known = {name: found for name in names if (found := checks(name)) is not None}
    why: list[tuple[str, str]] = []
    missing = [name for name in names if name not in known]
    if missing:
        why.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"))
    values = [each for each in cluster_queue(queue, known).checks if each.name in known]
    idle = sorted(each.name for each in values if not each.active)
    if idle:
        why.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(idle)}"))
    return why + faults(values, flavor_names(queue))
