"""What a job's state means for the status of its workload: ready pods, reclaimed ones, release, and the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.engine.lifecycle import Flag, give_up, release
from gpuaas.engine.values import Millis
from gpuaas.kueue.workload_state import conditions_of, is_true, status_with, workload_state_of

Object = dict[str, Any]
View = Mapping[str, Any]

REPLACED = "WorkloadSliceReplaced"
_LONGEST = 32_768
_NOT_READY = "Not all pods are ready or succeeded"
_RECOVERING = "At least one pod has failed, waiting for recovery"
_READY = "All pods reached readiness and the workload is running"


def is_finished(workload: View) -> bool:
    return is_true(conditions_of(workload).get("Finished"))


def is_admitted(workload: View) -> bool:
    return is_true(conditions_of(workload).get("Admitted"))


def is_reserved(workload: View) -> bool:
    return is_true(conditions_of(workload).get("QuotaReserved"))


def eviction_of(workload: View) -> Object | None:
    """The Evicted condition while it holds."""
    found = conditions_of(workload).get("Evicted")
    return found if is_true(found) else None


def is_on_hold(workload: View) -> bool:
    found = conditions_of(workload).get("QuotaReserved")
    return found is not None and found["status"] == "False" and found["reason"] == "OnHold"


def with_condition(workload: View, kind: str, status: bool, reason: str, message: str, now: float) -> Object:
    """The workload's status with this condition in it; its time is kept while its status is."""
    before = dict(workload.get("status") or {})
    text = "True" if status else "False"
    found = conditions_of(workload)
    known = found.get(kind)
    since = known["lastTransitionTime"] if known is not None and known["status"] == text else rfc3339(now)
    found[kind] = {
        "type": kind,
        "status": text,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message[:_LONGEST],
        "observedGeneration": workload["metadata"].get("generation", 1),
    }
    return {**before, "conditions": list(found.values())}


def ended(workload: View, reason: str, message: str, now: float) -> Object:
    return with_condition(workload, "Finished", True, reason, message, now)


def pods_ready(workload: View, ready: bool, now: Millis) -> Object | None:
    """The status with the PodsReady condition that holds now; None if it says so already."""
    life = workload_state_of(workload)
    flag = _pods_ready(life.pods_ready, ready=ready, admitted=is_admitted(workload), now=now)
    known = life.pods_ready
    if known is not None and (known.status, known.reason) == (flag.status, flag.reason):
        return None
    return status_with(workload, replace(life, pods_ready=flag))


def _pods_ready(known: Flag | None, *, ready: bool, admitted: bool, now: Millis) -> Flag:
    if not admitted:
        return Flag(False, "WaitForStart", _NOT_READY, now)
    if ready:
        again = known is not None and known.reason in ("WaitForRecovery", "Recovered")
        return Flag(True, "Recovered" if again else "Started", _READY, now)
    if known is not None and (known.status or known.reason == "WaitForRecovery"):
        return Flag(False, "WaitForRecovery", _RECOVERING, now)
    return Flag(False, "WaitForStart", _NOT_READY, now)


def reclaimed(workload: View, counts: Mapping[str, int]) -> Object | None:
    """The status with the pods that will not run again; None if it says so already."""
    sizes = {each.get("name", "main"): each.get("count", 1) for each in workload["spec"].get("podSets") or ()}
    found = {name: min(count, sizes[name]) for name, count in counts.items() if name in sizes}
    status = dict(workload.get("status") or {})
    if found == {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}:
        return None
    status["reclaimablePods"] = [{"name": name, "count": count} for name, count in found.items()]
    if not found:
        del status["reclaimablePods"]
    return status


def released(workload: View, now: Millis, *, requeue: bool = True) -> Object:
    """The status of an evicted workload whose pods are gone; `requeue` False keeps it out of its queue."""
    life = release(workload_state_of(workload), now)
    if not requeue and life.requeued is not None:
        life = replace(life, requeued=replace(life.requeued, status=False))
    return status_with(workload, life)


def unreserved(workload: View, reason: str, message: str, now: Millis) -> Object:
    """The status of a workload that gives its quota back without being evicted."""
    return status_with(workload, give_up(workload_state_of(workload), reason, message, now))
