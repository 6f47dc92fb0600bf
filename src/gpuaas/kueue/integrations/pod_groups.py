"""Which pods of a group its workload counts: kept ones, those too many, and failed ones that have been replaced.

A group's workload has the group's name and is owned by all its pods, none of them its controller. A workload of that
name which is not a group's belongs to another owner: it is neither adopted nor changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.kueue.integrations import keys, outcome
from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of, max_exec_time_of, queue_of
from gpuaas.kueue.integrations.pods import (
    can_run,
    group_pod_sets,
    has_gate,
    is_deleting,
    is_fast,
    role_of,
    total_of,
)
from gpuaas.kueue.workload_state import conditions_of

Object = dict[str, Any]
View = Mapping[str, Any]

WAITING = "WaitingForReplacementPods"
_FAILED = "PodsFailed"


@dataclass(frozen=True, slots=True)
class Fit:
    """How a group's pods fit its workload; `keeps` None: they do not, and the workload must go."""

    keeps: list[Object] | None
    excess: Sequence[Object] = ()
    replaced: Sequence[Object] = ()
    absent: int = 0


def is_group_workload(workload: View) -> bool:
    return annotations_of(workload).get(keys.IS_GROUP) == "true"


def is_abandoned(pods: Sequence[View], workload: View) -> bool:
    """All its pods were deleted. After an eviction, which deletes them too, others are waited for instead."""
    return all(map(is_deleting, pods)) and outcome.eviction_of(workload) is None and not _waits_since_eviction(workload)


def _waits_since_eviction(workload: View) -> bool:
    """It got quota by hand before the pods came that it waits for."""
    known = conditions_of(workload).get(WAITING)
    return known is not None and known["status"] == "True" and known.get("reason") != _FAILED


def fit(pods: Sequence[Object], workload: View, now: float) -> Fit:
    spec = workload["spec"]
    if spec.get("maximumExecutionTimeSeconds") != max_exec_time_of(pods[0]):
        return Fit(None)
    kept: list[Object] = []
    excess: list[Object] = []
    replaced: list[Object] = []
    absent = 0
    for pod_set in spec.get("podSets") or ():
        mine = [pod for pod in pods if role_of(pod) == pod_set["name"]]
        able = sorted((pod for pod in mine if can_run(pod)), key=_keep_first)
        failed = sorted((pod for pod in mine if not can_run(pod)), key=lambda pod: _failed_last(pod, now))
        size = pod_set.get("count", 1)
        absent += (1 if size and not able else 0) if is_fast(pods[0]) else max(0, size - len(able))
        excess += able[size:]
        left = len(failed) - max(0, min(len(failed), len(failed) + len(able) - size))
        replaced += failed[left:]
        kept += [*able[:size], *failed[:left]]
    if not kept or not _covers(workload, kept):
        return Fit(None)
    return Fit(kept, excess, replaced, absent)


def _covers(workload: View, kept: Sequence[View]) -> bool:
    """Every role is in the workload, and large enough, unless it is over anyway."""
    over = outcome.is_finished(workload)
    sizes = {each["name"]: each.get("count", 1) for each in workload["spec"].get("podSets") or ()}
    wanted = {each["name"]: each["count"] for each in group_pod_sets(kept)}
    return all(role in sizes and (over or count <= sizes[role]) for role, count in wanted.items())


def covers(workload: View, pod_sets: Sequence[View]) -> bool:
    sizes = {each["name"]: each.get("count", 1) for each in workload["spec"].get("podSets") or ()}
    over = outcome.is_finished(workload)
    return all(each["name"] in sizes and (over or each["count"] <= sizes[each["name"]]) for each in pod_sets)


def _keep_first(pod: View) -> tuple[bool, bool, float]:
    ours = keys.MANAGED in (pod["metadata"].get("finalizers") or ())
    return not ours, has_gate(pod), parse_rfc3339(pod["metadata"]["creationTimestamp"])


def _failed_last(pod: View, now: float) -> tuple[bool, float, float]:
    """Those we still hold first, and of them the one that was active last."""
    metadata = pod["metadata"]
    ours = keys.MANAGED in (metadata.get("finalizers") or ())
    gone = parse_rfc3339(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else now
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "ContainersReady" and (condition["status"], condition.get("reason")) == (
            "False",
            "PodFailed",
        ):
            gone = min(gone, parse_rfc3339(condition["lastTransitionTime"]))
    return not ours, -gone, parse_rfc3339(metadata["creationTimestamp"])


def excess_of(pods: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    """(those a new workload is made of, those too many)."""
    able = sorted((pod for pod in pods if can_run(pod)), key=_keep_first)
    total = total_of(pods[0])
    return able[:total], able[total:]


def check_complete(pods: Sequence[View], group: str) -> None:
    """Raises CannotCompose, with words, unless the group is whole and its pods agree."""
    first = pods[0]
    total = total_of(first)
    if not is_fast(first) and sum(map(can_run, pods)) < total:
        raise CannotCompose(f"'{group}' group has fewer runnable pods than expected")
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Failed":
            continue
        names = f"pods '{first['metadata']['name']}' and '{pod['metadata']['name']}' has different"
        if queue_of(pod) != queue_of(first):
            raise CannotCompose(f"{names} queue names: {queue_of(first)}!={queue_of(pod)}")
        if total_of(pod) != total:
            raise CannotCompose(f"{names} '{keys.GROUP_TOTAL}' values: {total}!={total_of(pod)}")


def shared_labels(pods: Sequence[View], copied: Sequence[str]) -> dict[str, str]:
    """The labels a group's workload takes from its pods: from whichever has them, if they agree."""
    return _shared([labels_of(pod) for pod in pods], copied, "label")


def shared_annotations(pods: Sequence[View], copied: Sequence[str]) -> dict[str, str]:
    return _shared([annotations_of(pod) for pod in pods], copied, "annotation") if copied else {}


def _shared(all_said: Sequence[Mapping[str, str]], copied: Sequence[str], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for said in all_said:
        for key in copied:
            if key in said and found.setdefault(key, said[key]) != said[key]:
                raise CannotCompose(f"constructing workload: pods have different {what} values")
    return found


def check_roles(pod_sets: Sequence[View]) -> None:
    if len(pod_sets) > keys.MAX_POD_SETS:
        raise CannotCompose(f"pod group can't include more than {keys.MAX_POD_SETS} roles")


def waiting(workload: View, absent: int, now: float) -> Object | None:
    """The status that says whether pods are missing; None if it says so already."""
    known = conditions_of(workload).get(WAITING)
    if absent > 0:
        eviction = outcome.eviction_of(workload)
        if eviction is not None:
            reason, message = eviction.get("reason", ""), eviction.get("message", "")
        elif known is not None and known["status"] == "True":
            return None
        else:
            reason, message = _FAILED, "Some Failed pods need replacement"
    elif known is None:
        return None
    else:
        reason, message = "PodsReady", "No pods need replacement"
    wanted = ("True" if absent > 0 else "False", reason, message)
    if known is not None and (known["status"], known["reason"], known["message"]) == wanted:
        return None
    if absent <= 0 and known is not None and known["status"] == "False":
        return None
    return outcome.with_condition(workload, WAITING, absent > 0, reason, message, now)
