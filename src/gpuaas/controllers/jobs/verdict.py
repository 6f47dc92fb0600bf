"""Is the job over, and what is to be done until then: pure decisions on a `Tally`.

The order of the questions is the real controller's: what an earlier pass decided, then failures, then successes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.protocol import Object
from gpuaas.controllers.jobs.indexes import first_free
from gpuaas.controllers.jobs.policies import match_failure, match_success
from gpuaas.controllers.jobs.tally import Tally, finished_at, index_of, total_failures
from gpuaas.runtime.pods import deletion_order, is_terminating, phase_of

BACKOFF_FIRST, BACKOFF_LIMIT = 10.0, 600.0
AT_ONCE = 500

SUCCESS_CRITERIA_MET, COMPLETE = "SuccessCriteriaMet", "Complete"
FAILURE_TARGET, FAILED, SUSPENDED = "FailureTarget", "Failed", "Suspended"


class End(NamedTuple):
    """Why the job is over."""

    succeeded: bool
    reason: str
    message: str


class Failures(NamedTuple):
    """Failures in a row, for the back-off before pods are replaced."""

    row: int = 0
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    delete: Sequence[Object] = ()
    create: int = 0
    indexes: Sequence[int] = field(default_factory=tuple)  # of the pods to create, where the job is indexed
    wait: float | None = None


def find_end(tally: Tally) -> End | None:
    """What ends the job before its completions are reached."""
    known = _decided_before(tally.status)
    if known is not None:
        return known
    for pod in tally.pods:
        if tally.is_failed(pod):
            message = match_failure(tally.spec.get("podFailurePolicy"), pod).fails_job
            if message:
                return End(False, "PodFailurePolicy", message)
    limit = tally.spec.get("backoffLimit")
    if tally.failed > (6 if limit is None else limit) or _restarts_exceed(tally):
        return End(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = seconds_to_deadline(tally)
    if left is not None and left <= 0:
        return End(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _end_by_index(tally) if tally.indexed else None


def is_complete(tally: Tally, active: int) -> bool:
    if tally.completions is None:
        return tally.succeeded > 0 and active == 0
    return tally.succeeded >= tally.completions and active == 0


def decide(tally: Tally, failures: Failures) -> Plan:
    """Pods to make or to remove in a job that goes on."""
    active = tally.active
    if tally.suspended:
        return Plan(delete=_removable(tally, len(active)))
    wanted = _wanted_active(tally)
    superfluous = _removable(tally, max(0, len(active) - wanted))[:AT_ONCE]
    if superfluous:
        return Plan(delete=superfluous)
    missing = wanted - len(active) - (tally.terminating if tally.replaces_only_failed else 0)
    if missing <= 0:
        return Plan()
    wait = 0.0 if tally.limits_each_index else backoff(failures.row, failures.last, tally.now)
    if wait > 0:
        return Plan(wait=wait)
    missing = min(missing, AT_ONCE)
    return _by_index(tally, missing) if tally.indexed else Plan(create=missing)


def count_failures(before: Failures, tally: Tally) -> Failures:
    """Failures in a row after this pass; a success in between resets it."""
    failed = sorted(map(finished_at, tally.newly_failed))
    if not tally.newly_succeeded:
        return Failures(before.row + len(failed), failed[-1]) if failed else before
    success = max(map(finished_at, tally.newly_succeeded))
    after = [moment for moment in failed if moment > success]
    return Failures(len(after), after[-1]) if after else Failures()


def backoff(failures: int, last: float, now: float) -> float:
    """Seconds left before a failed pod may be replaced."""
    if failures == 0:
        return 0.0
    pause = min(BACKOFF_FIRST * 2.0 ** min(failures - 1, 30), BACKOFF_LIMIT)
    return max(0.0, pause - (now - last))


def seconds_to_deadline(tally: Tally) -> float | None:
    deadline = tally.spec.get("activeDeadlineSeconds")
    started = tally.status.get("startTime")
    if deadline is None or not started or tally.suspended:
        return None
    return parse_rfc3339(started) + float(deadline) - tally.now


def _decided_before(status: Mapping[str, Any]) -> End | None:
    for kind, succeeded in ((SUCCESS_CRITERIA_MET, True), (FAILURE_TARGET, False)):
        for condition in status.get("conditions") or ():
            if condition["type"] == kind and condition["status"] == "True":
                return End(succeeded, condition.get("reason", ""), condition.get("message", ""))
    return None


def _restarts_exceed(tally: Tally) -> bool:
    """Containers restarted in place count too, where the template restarts on failure."""
    if (tally.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = 0
    for pod in tally.pods:
        if phase_of(pod) in ("Running", "Pending"):
            status = pod.get("status") or {}
            statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
            total += sum(one.get("restartCount", 0) for one in statuses)
    limit = tally.spec.get("backoffLimit")
    limit = 6 if limit is None else limit
    return total > 0 if limit == 0 else total >= limit


def _end_by_index(tally: Tally) -> End | None:
    completions = tally.completions or 0
    if tally.limits_each_index:
        failed, most = len(tally.failed_indexes), tally.spec.get("maxFailedIndexes")
        if most is not None and failed > most:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return End(False, "MaxFailedIndexesExceeded", message)
        if failed and failed + len(tally.succeeded_indexes) >= completions:
            return End(False, "FailedIndexes", "Job has failed indexes")
    message = match_success(tally.spec.get("successPolicy"), tally.succeeded_indexes, completions)
    return End(True, "SuccessPolicy", message) if message else None


def _wanted_active(tally: Tally) -> int:
    if tally.completions is None:
        # One success means that the work is done; who still runs may finish.
        return len(tally.active) if tally.succeeded > 0 else tally.parallelism
    return max(0, min(tally.completions - tally.succeeded, tally.parallelism))


def _removable(tally: Tally, at_least: int) -> list[Object]:
    """Pods to delete: those that share an index or have none first, then the least advanced."""
    if not tally.indexed:
        return deletion_order(tally.active, tally.now)[:at_least]
    removed: list[Object] = []
    left: list[Object] = []
    by_index: dict[int, list[Object]] = {}
    for pod in tally.active:
        by_index.setdefault(index_of(pod), []).append(pod)
    for index, pods in sorted(by_index.items()):
        if not tally.is_valid(index):
            removed += pods
            continue
        *doubles, best = deletion_order(pods, tally.now)
        removed += doubles
        left.append(best)
    if len(removed) < at_least:
        removed += deletion_order(left, tally.now)[: at_least - len(removed)]
    return removed


def _by_index(tally: Tally, missing: int) -> Plan:
    taken = tally.succeeded_indexes | {index_of(pod) for pod in tally.active}
    if tally.replaces_only_failed:
        taken |= {index_of(pod) for pod in tally.pods if is_terminating(pod)}
    if tally.limits_each_index:
        taken |= tally.failed_indexes
    indexes = first_free(taken, missing, tally.completions or 0)
    if not tally.limits_each_index:
        return Plan(create=len(indexes), indexes=indexes)
    waits = {index: _index_backoff(tally, index) for index in indexes}
    now = [index for index in indexes if not waits[index]]
    if now or not waits:
        return Plan(create=len(now), indexes=now)
    return Plan(wait=min(waits.values()))


def _index_backoff(tally: Tally, index: int) -> float:
    replaced = tally.awaiting_replacement.get(index)
    if replaced is None:
        return 0.0
    return backoff(total_failures(replaced) + 1, finished_at(replaced), tally.now)
