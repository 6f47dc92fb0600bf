"""A workload's status and its `WorkloadState`: conditions, checks and counters read into the engine's state machine and back.

Reading and writing cancel: what a transition left alone is written exactly as it was found, times included, so that a
patch says only what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.engine.lifecycle import CheckStatus, Flag, WorkloadState
from gpuaas.engine.values import Millis

Object = dict[str, Any]
View = Mapping[str, Any]

_CONDITIONS = {
    "reserved": "QuotaReserved",
    "admitted": "Admitted",
    "evicted": "Evicted",
    "preempted": "Preempted",
    "requeued": "Requeued",
    "pods_ready": "PodsReady",
    "deactivation": "DeactivationTarget",
}


def workload_state_of(workload: View) -> WorkloadState:
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    conditions = conditions_of(workload)
    requeue = status.get("requeueState") or {}
    stats = (status.get("schedulingStats") or {}).get("evictions") or ()
    most = spec.get("maximumExecutionTimeSeconds")
    assignments = (status.get("admission") or {}).get("podSetAssignments") or ()
    return WorkloadState(
        active=spec.get("active", True),
        **{name: _flag(conditions.get(kind)) for name, kind in _CONDITIONS.items()},
        finished=is_true(conditions.get("Finished")),
        checks=tuple(_check(each) for each in status.get("admissionChecks") or ()),
        topology_pending=any(
            each.get("delayedTopologyRequest") == "Pending" and not each.get("topologyAssignment")
            for each in assignments
        ),
        unhealthy=tuple(each["name"] for each in status.get("unhealthyNodes") or ()),
        requeue_count=requeue.get("count", 0),
        requeue_at=_millis(requeue.get("requeueAt")),
        executed=status.get("accumulatedPastExecutionTimeSeconds", 0) * 1000,
        max_execution=None if most is None else most * 1000,
        cluster=status.get("clusterName"),
        nominated=tuple(status.get("nominatedClusterNames") or ()),
        evictions=tuple((each["reason"], each.get("underlyingCause", ""), each["count"]) for each in stats),
    )


def status_with(
    workload: View, state: WorkloadState, admission: Object | None = None, before: WorkloadState | None = None
) -> Object:
    """The workload's status after it came to this `state` (from `before`, where that has been read already); `admission`
    when quota was given just now."""
    status = {**(workload.get("status") or {})}
    before = before or workload_state_of(workload)
    conditions = conditions_of(workload)
    generation = workload["metadata"].get("generation", 1)
    for name, kind in _CONDITIONS.items():
        flag: Flag | None = getattr(state, name)
        if flag == getattr(before, name):
            continue
        if flag is None:
            conditions.pop(kind, None)
        else:
            conditions[kind] = _condition(kind, flag, conditions.get(kind), generation)
    _set(status, "conditions", list(conditions.values()))
    if state.checks != before.checks:
        found = {each["name"]: each for each in status.get("admissionChecks") or ()}
        _set(status, "admissionChecks", [_check_object(each, found.get(each.name)) for each in state.checks])
    if (state.requeue_count, state.requeue_at) != (before.requeue_count, before.requeue_at):
        _set(status, "requeueState", _requeue_state(state))
    if _is_on(before.admitted) and not _is_on(state.admitted):
        status["accumulatedPastExecutionTimeSeconds"] = (
            state.executed // 1000
        )  # a round that ended counts, however short
    elif state.executed != before.executed:
        _set(status, "accumulatedPastExecutionTimeSeconds", state.executed // 1000)
    if state.evictions != before.evictions:
        status["schedulingStats"] = {**(status.get("schedulingStats") or {}), "evictions": _stats(state)}
    if state.unhealthy != before.unhealthy:
        _set(status, "unhealthyNodes", [{"name": name} for name in state.unhealthy])
    _set(status, "clusterName", state.cluster)
    _set(status, "nominatedClusterNames", list(state.nominated))
    if admission is not None:
        status["admission"] = admission
        status.pop("resourceRequests", None)  # what it uses says it now
    elif state.reserved is not None and not state.reserved.status:
        status.pop("admission", None)
    return status


def with_pending(workload: View, message: str, now: Millis, reason: str = "Pending") -> WorkloadState:
    """Looked at and not admitted: the reason upstream writes, and the sentence why."""
    state = workload_state_of(workload)
    found = state.reserved
    since = found.since if found is not None and not found.status else now
    return replace(state, reserved=Flag(False, reason, message[:32_768], since))


def pending_status(workload: View, message: str, now: Millis, reason: str = "Pending") -> Object:
    """The status of one that was looked at and not admitted; it says of which generation, even in the same words."""
    status = status_with(workload, with_pending(workload, message, now, reason))
    seen = {"observedGeneration": workload["metadata"].get("generation", 1)}
    status["conditions"] = [
        {**each, **seen} if each["type"] == "QuotaReserved" else each for each in status["conditions"]
    ]
    return status


def conditions_of(workload: View) -> dict[str, Object]:
    return {each["type"]: each for each in (workload.get("status") or {}).get("conditions") or ()}


def holds(workload: View, condition: str) -> bool:
    """Whether this condition is true, where nothing else is asked."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each.get("status") == "True" for each in conditions)


def is_true(condition: View | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def is_kept_out(conditions: Mapping[str, View]) -> bool:
    """Deactivated by a check or a limit: Kueue's own way back is only for what a user deactivated."""
    requeued = conditions.get("Requeued") or {}
    return requeued.get("status") == "False" and str(requeued.get("reason")).startswith("DeactivatedDueTo")


def _flag(condition: View | None) -> Flag | None:
    if condition is None:
        return None
    since = _millis(condition.get("lastTransitionTime")) or 0
    return Flag(condition.get("status") == "True", condition.get("reason", ""), condition.get("message", ""), since)


def _is_on(flag: Flag | None) -> bool:
    return flag is not None and flag.status


def _condition(kind: str, flag: Flag, before: View | None, generation: int) -> Object:
    """The time of a condition is when its status last changed, not its words."""
    status = "True" if flag.status else "False"
    kept = before is not None and before.get("status") == status
    since = before["lastTransitionTime"] if kept and before is not None else rfc3339(flag.since / 1000)
    made = {"type": kind, "status": status, "lastTransitionTime": since, "reason": flag.reason, "message": flag.message}
    # Upstream says of no generation that it was preempted.
    return made if kind == "Preempted" and flag.status else {**made, "observedGeneration": generation}


def _check(obj: View) -> CheckStatus:
    after = obj.get("requeueAfterSeconds")
    return CheckStatus(
        obj["name"],
        obj.get("state", "Pending"),
        obj.get("message", ""),
        _millis(obj.get("lastTransitionTime")) or 0,
        obj.get("retryCount"),
        None if after is None else after * 1000,
        tuple(obj.get("podSetUpdates") or ()),
    )


def _check_object(check: CheckStatus, found: View | None) -> Object:
    if found is not None and _check(found) == check:
        return dict(found)
    obj: Object = {
        "name": check.name,
        "state": check.state,
        "lastTransitionTime": rfc3339(check.since / 1000),
        "message": check.message,
    }
    if check.updates:
        obj["podSetUpdates"] = list(check.updates)
    if check.requeue_after is not None:
        obj["requeueAfterSeconds"] = check.requeue_after // 1000
    if check.retry_count is not None:
        obj["retryCount"] = check.retry_count
    return obj


def _requeue_state(state: WorkloadState) -> Object:
    requeue: Object = {}
    if state.requeue_count:
        requeue["count"] = state.requeue_count
    if state.requeue_at is not None:
        requeue["requeueAt"] = rfc3339(state.requeue_at / 1000)
    return requeue


def _stats(state: WorkloadState) -> list[Object]:
    return [{"reason": reason, "underlyingCause": cause, "count": count} for reason, cause, count in state.evictions]


def _set(status: Object, key: str, value: Any) -> None:
    """What is empty is left out."""
    if value:
        status[key] = value
    else:
        status.pop(key, None)


def _millis(timestamp: str | None) -> Millis | None:
    return None if not timestamp else round(parse_rfc3339(timestamp) * 1000)
