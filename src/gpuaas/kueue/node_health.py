"""Whether a node has failed for a workload that has places on it, and which of its pods can never start there.

Follows upstream: a node that is gone, or whose Ready condition is Unknown, has failed at once; one that is not
ready, or has a taint the pods do not tolerate, once none of the pods that run there is left. What follows is the
controller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.engine.constraints import SCHEDULING_EFFECTS, first_untolerated
from gpuaas.kueue.configuration.settings import NodeRules
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.pods import has_ended, has_gate
from gpuaas.kueue.pods import taints, tolerations
from gpuaas.kueue.topology_assignment import assignments_of, hosts_in

Object = dict[str, Any]
View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    failed: bool
    stray: Sequence[Object] = ()
    """Pods bound to the node that will never start there."""


def ready_condition(node: View) -> Object | None:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Ready"), None)


def verdict(
    workload: View,
    node: View,
    rules: NodeRules,
    added: Mapping[str, Sequence[View]],
    bound: Sequence[Object],
    running: bool,
) -> Verdict:
    """`added` are the tolerations each pod set was given on top of its own; `bound` the pods whose selector names the
    node, `running` whether one of the workload's pods still runs there."""
    name = node["metadata"]["name"]
    placed = [each for each in assignments_of(workload) if name in hosts_in(each)]
    stray = [pod for pod in bound if _can_never_start(pod)]
    if not placed:
        return Verdict(False, stray)
    ready = ready_condition(node)
    if ready is None or ready.get("status") != "True":
        return Verdict(not running, stray) if rules.on_pod_termination else Verdict(True)
    found = (node.get("spec") or {}).get("taints") or ()
    if not rules.on_taints or not any(each.get("effect") in SCHEDULING_EFFECTS for each in found):
        return Verdict(False)
    tolerated = [_tolerations(workload, each["name"], added) for each in placed]
    if not all(_tolerate(each, found) for each in tolerated):
        return Verdict(not running, stray) if rules.on_pod_termination else Verdict(True)
    for_good = [[one for one in each if one.get("tolerationSeconds") is None] for each in tolerated]
    return Verdict(False) if all(_tolerate(each, found) for each in for_good) else Verdict(not running, stray)


def _can_never_start(pod: View) -> bool:
    """It waits for this one node, and nothing else holds it back."""
    waits = not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    return waits and not has_gate(pod, keys.TOPOLOGY_GATE)


def runs(pods: Iterable[View]) -> bool:
    return any(not has_ended(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods)


def _tolerations(workload: View, name: str, added: Mapping[str, Sequence[View]]) -> list[View]:
    pod_sets = {each.get("name", keys.MAIN): each for each in workload["spec"].get("podSets") or ()}
    template = (pod_sets.get(name) or {}).get("template") or {}
    return [*((template.get("spec") or {}).get("tolerations") or ()), *added.get(name, ())]


def _tolerate(found: Sequence[View], of: Sequence[View]) -> bool:
    return first_untolerated(taints(map(dict, of)), tolerations(map(dict, found))) is None
