"""Places in a workload's status: which nodes it has pods on, whether some are still to be chosen, and the new ones.

A workload needs a second look when its checks are ready and places were left for later, or when a node it has places on
failed (`status.unhealthyNodes`). The choice is the engine's; when to look is the controllers'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuaas.engine.changes import OtherUsage
from gpuaas.engine.topology_values import HOSTNAME
from gpuaas.engine.values import PodSet, PodSetAdmission
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.pods import pod_requests, tolerations, units
from gpuaas.kueue.status import domains_of, topology_assignment
from gpuaas.kueue.workload_state import conditions_of, is_true

Object = dict[str, Any]
View = Mapping[str, Any]

_TOPOLOGY_NOTES = (
    keys.REQUIRED_TOPOLOGY,
    keys.PREFERRED_TOPOLOGY,
    keys.UNCONSTRAINED_TOPOLOGY,
    keys.SLICE_TOPOLOGY,
    keys.SLICE_LAYERS,
)


def is_placed_pod(pod: View) -> bool:
    """Whether its place is chosen by Kueue, which then counts it with its workload."""
    notes = pod["metadata"].get("annotations") or {}
    return any(name in notes for name in _TOPOLOGY_NOTES)


def takes_room(pod: View) -> bool:
    """Whether it takes anything of its node on its own account."""
    return bool(pod["spec"].get("nodeName")) and not has_ended(pod) and not is_placed_pod(pod)


def room_of(pod: View) -> dict[str, int]:
    """What it takes of its node, itself as one of `pods` included."""
    found = {name: units(name, amount) for name, amount in pod_requests(pod["spec"]).items()}
    return {name: amount for name, amount in found.items() if amount} | {"pods": 1}


def others_on_nodes(pods: Iterable[View]) -> Iterator[OtherUsage]:
    """What pods that are not placed take of each node."""
    totals: dict[str, Counter[str]] = {}
    for pod in pods:
        if takes_room(pod):
            totals.setdefault(pod["spec"]["nodeName"], Counter()).update(room_of(pod))
    for node, amounts in totals.items():
        yield OtherUsage(node, tuple(sorted(amounts.items())))


def assignments_of(workload: View) -> Sequence[Object]:
    found: Sequence[Object] = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return found


def hosts_of(workload: View) -> Iterator[str]:
    """The nodes a workload has places on, where places are nodes; each as often as it occurs."""
    for given in assignments_of(workload):
        yield from hosts_in(given)


def hosts_in(assignment: View) -> Iterator[str]:
    placed = assignment.get("topologyAssignment")
    if placed and placed["levels"][-1] == HOSTNAME:
        yield from (values[-1] for values, _ in domains_of(placed) or ())


def unhealthy_of(workload: View) -> list[str]:
    return [each["name"] for each in (workload.get("status") or {}).get("unhealthyNodes") or ()]


def failed_node_of(workload: View) -> str:
    """The failed node whose pods need other places; "" if there is none."""
    unhealthy = unhealthy_of(workload)
    if not unhealthy or not is_true(conditions_of(workload).get("Admitted")):
        return ""
    return unhealthy[0] if not set(unhealthy).isdisjoint(hosts_of(workload)) else ""


def needs_second_look(workload: View) -> bool:
    status = workload.get("status") or {}
    if not status.get("admission") or not (status.get("unhealthyNodes") or status.get("admissionChecks")):
        return False
    conditions = conditions_of(workload)
    if is_true(conditions.get("Finished")) or is_true(conditions.get("Evicted")):
        return False
    if not is_true(conditions.get("QuotaReserved")):
        return False
    return bool(failed_node_of(workload)) or _waits_for_places(workload, conditions)


def is_of_one_pod(workload: View) -> bool:
    """Made for a single pod, which cannot move, and which it does not outlive."""
    meta = workload["metadata"]
    if (meta.get("annotations") or {}).get(keys.IS_GROUP) == "true":
        return False
    owners = [(each.get("apiVersion"), each.get("kind")) for each in meta.get("ownerReferences") or ()]
    return owners == [("v1", "Pod")]


def checked_pod_sets(workload: View, pod_sets: Iterable[PodSet]) -> Iterator[PodSet]:
    """Pod sets as ready checks left them: with more selectors and tolerations."""
    updates = [
        update
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check.get("state") == "Ready"
        for update in check.get("podSetUpdates") or ()
    ]
    for pod_set in pod_sets:
        mine = [update for update in updates if update.get("name") == pod_set.name]
        if mine:
            selector = dict(pod_set.node_selector)
            tolerated = pod_set.tolerations
            for update in mine:
                selector |= update.get("nodeSelector") or {}
                tolerated += tolerations(update.get("tolerations"))
            yield replace(pod_set, node_selector=tuple(sorted(selector.items())), tolerations=tolerated)


def with_places(workload: View, given: Iterable[PodSetAdmission], levels: Mapping[str, Sequence[str]]) -> Object:
    """The workload's admission with these places; `levels` are what is recorded of each flavor's."""
    admission: Object = dict(workload["status"]["admission"])
    places = {each.name: each for each in given if each.domains is not None}
    admission["podSetAssignments"] = [
        _with(each, places.get(each["name"]), levels) for each in assignments_of(workload)
    ]
    return admission


def _with(assignment: Object, given: PodSetAdmission | None, levels: Mapping[str, Sequence[str]]) -> Object:
    if given is None or given.domains is None or domains_of(assignment.get("topologyAssignment")) == given.domains:
        return assignment
    recorded = next(levels[flavor] for _, flavor in given.flavors if flavor in levels)
    made = {**assignment, "topologyAssignment": topology_assignment(recorded, given.domains)}
    return {**made, "delayedTopologyRequest": "Ready"} if "delayedTopologyRequest" in made else made


def _waits_for_places(workload: View, conditions: Mapping[str, Object]) -> bool:
    checks = workload["status"].get("admissionChecks") or ()
    if not checks or is_true(conditions.get("Admitted")) or any(check.get("state") != "Ready" for check in checks):
        return False
    return any(
        each.get("delayedTopologyRequest") == "Pending" and not each.get("topologyAssignment")
        for each in assignments_of(workload)
    )
