"""What is due for a workload now: the one next step, in upstream's order of looking.

A step is either a new state with the words to tell people, or the moment to look again. Deadlines (back-off, readiness,
execution time) are numbers compared with a given now; nothing here waits. The transitions themselves are `lifecycle`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuaas.engine.lifecycle import (
    ADMISSION_CHECK,
    DEACTIVATED,
    LOCAL_QUEUE_STOPPED,
    PODS_READY_TIMEOUT,
    QUEUE_STOPPED,
    CheckStatus,
    Flag,
    WorkloadState,
    evict,
    give_up,
    is_true,
    sync_admitted,
    sync_checks,
)
from gpuaas.engine.values import Millis, StopPolicy

SECOND: Millis = 1000
GATED = "AdmissionGated"


@dataclass(frozen=True, slots=True)
class ReadyRules:
    """waitForPodsReady: how long pods may take, and what follows when they do not come."""

    timeout: Millis = 30 * 60 * SECOND
    recovery_timeout: Millis | None = 30 * 60 * SECOND
    backoff_base: Millis = 60 * SECOND
    backoff_max: Millis = 3600 * SECOND
    backoff_limit: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadContext:
    """What a workload's queues say about it."""

    name: str
    local_queue: str
    cluster_queue: str | None
    required_checks: frozenset[str] = frozenset()
    local_stop: StopPolicy | None = StopPolicy.NONE
    """None: the LocalQueue does not exist."""
    cluster_stop: StopPolicy | None = StopPolicy.NONE
    gates: str = ""
    """Who keeps it from being admitted, as its annotation says."""
    lasting: frozenset[str] = frozenset()
    """The checks of which an eviction leaves more than their names (`lifecycle.lasting_checks`)."""


@dataclass(frozen=True, slots=True)
class Step:
    """The new state and what to tell people about it; or nothing new, and when to look again."""

    state: WorkloadState
    event: str = ""
    words: str = ""
    warning: bool = False
    again_at: Millis | None = None


def next_step(
    state: WorkloadState, around: WorkloadContext, rules: ReadyRules | None, now: Millis, jitter: float = 0.0
) -> Step:
    """The next step that is due. Ask again after taking it: each takes one."""
    if state.finished:
        return Step(state)
    for look in (_retry_delay, _activity, _restarts, _gates, _checks_and_admission):
        step = look(state, around, now)
        if step is not None:
            return step
    if not is_true(state.reserved):
        return Step(state)
    return _while_reserved(state, around, rules, now, jitter)


def backoff(count: int, rules: ReadyRules, jitter: float = 0.0) -> Millis:
    """How long to stay away after being put back for the n-th time: doubling, up to a most."""
    wait = min(rules.backoff_base << (count - 1), rules.backoff_max)
    return round(wait * (1 + jitter))


def _retry_delay(state: WorkloadState, _: WorkloadContext, now: Millis) -> Step | None:
    """A check that wants to be asked again later keeps the workload out until then."""
    delays = [c.since + c.requeue_after for c in state.checks if c.state == "Retry" and c.requeue_after is not None]
    latest = max(delays, default=now)
    if latest > now and (state.requeue_at is None or latest > state.requeue_at):
        return Step(replace(state, requeue_at=latest))
    return None


def _activity(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    if not state.active:
        return _deactivate(state, around, now)
    if is_true(state.deactivation):
        return Step(replace(state, active=False))
    if state.requeue_at is not None and not is_true(state.reserved):
        if state.requeue_at > now:
            return Step(state, again_at=state.requeue_at)
        return Step(replace(state, requeue_at=None))
    if state.requeued is not None and not state.requeued.status:
        match state.requeued.reason:
            case "Deactivated":
                flag = Flag(True, "Reactivated", "The workload was reactivated", now)
                return Step(replace(state, requeued=flag))
            case "PodsReadyTimeout" | "AdmissionCheck":
                if state.requeue_at is not None and state.requeue_at > now:
                    return Step(state, again_at=state.requeue_at)
                flag = Flag(True, "BackoffFinished", "The workload backoff was finished", now)
                return Step(replace(state, requeued=flag, requeue_at=None))
    return None


def _deactivate(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    """Deactivated: evicted at once, and the requeue count restarts. A workload without quota gets no eviction."""
    if is_true(state.evicted):
        return Step(replace(state, requeue_count=0, requeue_at=None))
    target = state.deactivation
    cause = target.reason if is_true(target) and target is not None else ""
    message = "The workload is deactivated" + (f" due to {target.message}" if cause and target is not None else "")
    gone = evict(state, DEACTIVATED, message, now, cause, lasting=around.lasting)
    gone = replace(gone, deactivation=None, requeue_count=0, requeue_at=None)
    event = f"EvictedDueToDeactivated{f'DueTo{cause}' if cause else ''}" if is_true(state.reserved) else ""
    return Step(gone, event, message)


def _restarts(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    if state.requeued is None or state.requeued.status:
        return None
    if state.requeued.reason == LOCAL_QUEUE_STOPPED and around.local_stop is StopPolicy.NONE:
        return Step(
            replace(
                state,
                requeued=Flag(True, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped", now),
            )
        )
    if state.requeued.reason == QUEUE_STOPPED and around.cluster_stop is StopPolicy.NONE:
        return Step(
            replace(
                state,
                requeued=Flag(True, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped", now),
            )
        )
    return None


def _gates(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    said = state.reserved is not None and state.reserved.reason == GATED
    if around.gates and not said:
        flag = Flag(False, GATED, f"Admission is gated by: {around.gates}", now)
        return Step(replace(state, reserved=flag), GATED, f"Workload admission is gated by: {around.gates}")
    if said and not around.gates:
        flag = Flag(False, "Pending", "AdmissionGatedBy cleared, waiting for quota reservation", now)
        words = "Admission gate cleared, workload is now admissible"
        return Step(replace(state, reserved=flag), "AdmissionGateCleared", words)
    return None


def _checks_and_admission(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    if around.cluster_queue is not None and around.cluster_stop is not None:
        listed = sync_checks(state, around.required_checks, now)
        if listed is not state:
            return Step(listed)
    if is_true(state.admitted) and is_true(state.reserved):
        return None  # whatever its checks say now: who is to go is evicted, and admitted until it has gone
    synced = sync_admitted(state, now)
    if synced is state:
        return None
    if is_true(synced.admitted):
        assert state.reserved is not None
        waited = (now - state.reserved.since) // 1000
        return Step(
            synced,
            "Admitted",
            f"Admitted by ClusterQueue {around.cluster_queue}, wait time since reservation was {waited}s",
        )
    return Step(synced)


def _while_reserved(
    state: WorkloadState, around: WorkloadContext, rules: ReadyRules | None, now: Millis, jitter: float
) -> Step:
    if not is_true(state.evicted):
        failed = _failed_checks(state, around, now)
        if failed is not None:
            return failed
    stopped = _stopped(state, around, now)
    if stopped is not None:
        return stopped
    if is_true(state.evicted):
        return Step(state)
    unready = None if rules is None else _readiness(state, around, rules, now, jitter)
    if unready is not None and unready.again_at is None:
        return unready
    overtime = _execution_time(state, now)
    if overtime is not None and overtime.again_at is None:
        return overtime
    moments = [s.again_at for s in (unready, overtime) if s is not None and s.again_at is not None]
    return Step(state, again_at=min(moments, default=None))


def _failed_checks(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    rejected = [c for c in state.checks if c.state == "Rejected"]
    if rejected:
        if is_true(state.deactivation):
            return None
        message = _check_words(rejected, "Rejected")
        flag = Flag(True, ADMISSION_CHECK, message, now)
        return Step(replace(state, deactivation=flag), "AdmissionCheckRejected", f"Deactivated due to {message}", True)
    retried = [c for c in state.checks if c.state == "Retry"]
    if retried:
        message = f"Evicted due to {_check_words(retried, 'Retry')}"
        gone = evict(state, ADMISSION_CHECK, message, now, lasting=around.lasting)
        return Step(gone, "EvictedDueToAdmissionCheck", message)
    return None


def _check_words(checks: list[CheckStatus], state: str) -> str:
    listed = "; ".join(f'"{c.name}" ({c.message})' if c.message else f'"{c.name}"' for c in checks)
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {listed}"


def _stopped(state: WorkloadState, around: WorkloadContext, now: Millis) -> Step | None:
    """A stopped queue takes back what is not admitted yet; one that drains evicts what is."""
    for kind, name, stop, reason in (
        ("LocalQueue", around.local_queue, around.local_stop, LOCAL_QUEUE_STOPPED),
        ("ClusterQueue", around.cluster_queue, around.cluster_stop, QUEUE_STOPPED),
    ):
        if is_true(state.admitted):
            if stop is StopPolicy.HOLD_AND_DRAIN and not is_true(state.evicted):
                message = f"The {kind} is stopped"
                gone = evict(state, reason, message, now, lasting=around.lasting)
                return Step(gone, f"EvictedDueTo{reason}", message)
        elif stop is None:
            return Step(give_up(state, "Inadmissible", f"{kind} {name} is terminating or missing", now))
        elif stop is not StopPolicy.NONE:
            return Step(give_up(state, "Inadmissible", f"{kind} {name} is stopped", now))
    return None


def _readiness(
    state: WorkloadState, around: WorkloadContext, rules: ReadyRules, now: Millis, jitter: float
) -> Step | None:
    """Pods that do not become ready, or do not recover, in time: away with it for a while, or for good."""
    admitted, ready = state.admitted, state.pods_ready
    if admitted is None or not admitted.status or is_true(ready):
        return None
    if ready is not None and ready.reason == "WaitForRecovery":
        if rules.recovery_timeout is None:
            return None
        cause, deadline = "WaitForRecovery", ready.since + rules.recovery_timeout
    else:
        cause, deadline = "WaitForStart", admitted.since + rules.timeout
    if now < deadline:
        return Step(state, again_at=deadline)
    count = state.requeue_count + 1
    if rules.backoff_limit is not None and count > rules.backoff_limit:
        if is_true(state.deactivation):
            return None
        message = "exceeding the maximum number of re-queuing retries"
        return Step(replace(state, deactivation=Flag(True, "RequeuingLimitExceeded", message, now)))
    message = f"Exceeded the PodsReady timeout {around.name}"
    gone = evict(state, PODS_READY_TIMEOUT, message, now, cause, lasting=around.lasting)
    until = max(now + backoff(count, rules, jitter), state.requeue_at or 0)
    return Step(replace(gone, requeue_count=count, requeue_at=until), "EvictedDueToPodsReadyTimeout", message)


def _execution_time(state: WorkloadState, now: Millis) -> Step | None:
    admitted, most = state.admitted, state.max_execution
    if admitted is None or not admitted.status or most is None:
        return None
    deadline = admitted.since + most - state.executed
    if now < deadline:
        return Step(state, again_at=deadline)
    if is_true(state.deactivation):
        return None
    flag = Flag(True, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time", now)
    words = f"The maximum execution time ({most // SECOND}s) exceeded"
    return Step(replace(state, deactivation=flag, executed=0), "MaximumExecutionTimeExceeded", words, True)
