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
    Life,
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
class Surroundings:
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

    life: Life
    event: str = ""
    words: str = ""
    warning: bool = False
    again_at: Millis | None = None


def next_step(life: Life, around: Surroundings, rules: ReadyRules | None, now: Millis, jitter: float = 0.0) -> Step:
    """The next step that is due. Ask again after taking it: each takes one."""
    if life.finished:
        return Step(life)
    for look in (_retry_delay, _activity, _restarts, _gates, _checks_and_admission):
        step = look(life, around, now)
        if step is not None:
            return step
    if not is_true(life.reserved):
        return Step(life)
    return _while_reserved(life, around, rules, now, jitter)


def backoff(count: int, rules: ReadyRules, jitter: float = 0.0) -> Millis:
    """How long to stay away after being put back for the n-th time: doubling, up to a most."""
    wait = min(rules.backoff_base << (count - 1), rules.backoff_max)
    return round(wait * (1 + jitter))


def _retry_delay(life: Life, _: Surroundings, now: Millis) -> Step | None:
    """A check that wants to be asked again later keeps the workload out until then."""
    delays = [c.since + c.requeue_after for c in life.checks if c.state == "Retry" and c.requeue_after is not None]
    latest = max(delays, default=now)
    if latest > now and (life.requeue_at is None or latest > life.requeue_at):
        return Step(replace(life, requeue_at=latest))
    return None


def _activity(life: Life, around: Surroundings, now: Millis) -> Step | None:
    if not life.active:
        return _deactivate(life, around, now)
    if is_true(life.deactivation):
        return Step(replace(life, active=False))
    if life.requeue_at is not None and not is_true(life.reserved):
        if life.requeue_at > now:
            return Step(life, again_at=life.requeue_at)
        return Step(replace(life, requeue_at=None))
    if life.requeued is not None and not life.requeued.status:
        match life.requeued.reason:
            case "Deactivated":
                flag = Flag(True, "Reactivated", "The workload was reactivated", now)
                return Step(replace(life, requeued=flag))
            case "PodsReadyTimeout" | "AdmissionCheck":
                if life.requeue_at is not None and life.requeue_at > now:
                    return Step(life, again_at=life.requeue_at)
                flag = Flag(True, "BackoffFinished", "The workload backoff was finished", now)
                return Step(replace(life, requeued=flag, requeue_at=None))
    return None


def _deactivate(life: Life, around: Surroundings, now: Millis) -> Step | None:
    """Deactivated: evicted at once, and the requeue count restarts. A workload without quota gets no eviction."""
    if is_true(life.evicted):
        return Step(replace(life, requeue_count=0, requeue_at=None))
    target = life.deactivation
    cause = target.reason if is_true(target) and target is not None else ""
    message = "The workload is deactivated" + (f" due to {target.message}" if cause and target is not None else "")
    gone = evict(life, DEACTIVATED, message, now, cause, lasting=around.lasting)
    gone = replace(gone, deactivation=None, requeue_count=0, requeue_at=None)
    event = f"EvictedDueToDeactivated{f'DueTo{cause}' if cause else ''}" if is_true(life.reserved) else ""
    return Step(gone, event, message)


def _restarts(life: Life, around: Surroundings, now: Millis) -> Step | None:
    if life.requeued is None or life.requeued.status:
        return None
    if life.requeued.reason == LOCAL_QUEUE_STOPPED and around.local_stop is StopPolicy.NONE:
        return Step(
            replace(
                life,
                requeued=Flag(True, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped", now),
            )
        )
    if life.requeued.reason == QUEUE_STOPPED and around.cluster_stop is StopPolicy.NONE:
        return Step(
            replace(
                life,
                requeued=Flag(True, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped", now),
            )
        )
    return None


def _gates(life: Life, around: Surroundings, now: Millis) -> Step | None:
    said = life.reserved is not None and life.reserved.reason == GATED
    if around.gates and not said:
        flag = Flag(False, GATED, f"Admission is gated by: {around.gates}", now)
        return Step(replace(life, reserved=flag), GATED, f"Workload admission is gated by: {around.gates}")
    if said and not around.gates:
        flag = Flag(False, "Pending", "AdmissionGatedBy cleared, waiting for quota reservation", now)
        words = "Admission gate cleared, workload is now admissible"
        return Step(replace(life, reserved=flag), "AdmissionGateCleared", words)
    return None


def _checks_and_admission(life: Life, around: Surroundings, now: Millis) -> Step | None:
    if around.cluster_queue is not None and around.cluster_stop is not None:
        listed = sync_checks(life, around.required_checks, now)
        if listed is not life:
            return Step(listed)
    if is_true(life.admitted) and is_true(life.reserved):
        return None  # whatever its checks say now: who is to go is evicted, and admitted until it has gone
    synced = sync_admitted(life, now)
    if synced is life:
        return None
    if is_true(synced.admitted):
        assert life.reserved is not None
        waited = (now - life.reserved.since) // 1000
        return Step(
            synced,
            "Admitted",
            f"Admitted by ClusterQueue {around.cluster_queue}, wait time since reservation was {waited}s",
        )
    return Step(synced)


def _while_reserved(life: Life, around: Surroundings, rules: ReadyRules | None, now: Millis, jitter: float) -> Step:
    if not is_true(life.evicted):
        failed = _failed_checks(life, around, now)
        if failed is not None:
            return failed
    stopped = _stopped(life, around, now)
    if stopped is not None:
        return stopped
    if is_true(life.evicted):
        return Step(life)
    unready = None if rules is None else _readiness(life, around, rules, now, jitter)
    if unready is not None and unready.again_at is None:
        return unready
    overtime = _execution_time(life, now)
    if overtime is not None and overtime.again_at is None:
        return overtime
    moments = [s.again_at for s in (unready, overtime) if s is not None and s.again_at is not None]
    return Step(life, again_at=min(moments, default=None))


def _failed_checks(life: Life, around: Surroundings, now: Millis) -> Step | None:
    rejected = [c for c in life.checks if c.state == "Rejected"]
    if rejected:
        if is_true(life.deactivation):
            return None
        message = _check_words(rejected, "Rejected")
        flag = Flag(True, ADMISSION_CHECK, message, now)
        return Step(replace(life, deactivation=flag), "AdmissionCheckRejected", f"Deactivated due to {message}", True)
    retried = [c for c in life.checks if c.state == "Retry"]
    if retried:
        message = f"Evicted due to {_check_words(retried, 'Retry')}"
        gone = evict(life, ADMISSION_CHECK, message, now, lasting=around.lasting)
        return Step(gone, "EvictedDueToAdmissionCheck", message)
    return None


def _check_words(checks: list[CheckStatus], state: str) -> str:
    listed = "; ".join(f'"{c.name}" ({c.message})' if c.message else f'"{c.name}"' for c in checks)
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {listed}"


def _stopped(life: Life, around: Surroundings, now: Millis) -> Step | None:
    """A stopped queue takes back what is not admitted yet; one that drains evicts what is."""
    for kind, name, stop, reason in (
        ("LocalQueue", around.local_queue, around.local_stop, LOCAL_QUEUE_STOPPED),
        ("ClusterQueue", around.cluster_queue, around.cluster_stop, QUEUE_STOPPED),
    ):
        if is_true(life.admitted):
            if stop is StopPolicy.HOLD_AND_DRAIN and not is_true(life.evicted):
                message = f"The {kind} is stopped"
                gone = evict(life, reason, message, now, lasting=around.lasting)
                return Step(gone, f"EvictedDueTo{reason}", message)
        elif stop is None:
            return Step(give_up(life, "Inadmissible", f"{kind} {name} is terminating or missing", now))
        elif stop is not StopPolicy.NONE:
            return Step(give_up(life, "Inadmissible", f"{kind} {name} is stopped", now))
    return None


def _readiness(life: Life, around: Surroundings, rules: ReadyRules, now: Millis, jitter: float) -> Step | None:
    """Pods that do not become ready, or do not recover, in time: away with it for a while, or for good."""
    admitted, ready = life.admitted, life.pods_ready
    if admitted is None or not admitted.status or is_true(ready):
        return None
    if ready is not None and ready.reason == "WaitForRecovery":
        if rules.recovery_timeout is None:
            return None
        cause, deadline = "WaitForRecovery", ready.since + rules.recovery_timeout
    else:
        cause, deadline = "WaitForStart", admitted.since + rules.timeout
    if now < deadline:
        return Step(life, again_at=deadline)
    count = life.requeue_count + 1
    if rules.backoff_limit is not None and count > rules.backoff_limit:
        if is_true(life.deactivation):
            return None
        message = "exceeding the maximum number of re-queuing retries"
        return Step(replace(life, deactivation=Flag(True, "RequeuingLimitExceeded", message, now)))
    message = f"Exceeded the PodsReady timeout {around.name}"
    gone = evict(life, PODS_READY_TIMEOUT, message, now, cause, lasting=around.lasting)
    until = max(now + backoff(count, rules, jitter), life.requeue_at or 0)
    return Step(replace(gone, requeue_count=count, requeue_at=until), "EvictedDueToPodsReadyTimeout", message)


def _execution_time(life: Life, now: Millis) -> Step | None:
    admitted, most = life.admitted, life.max_execution
    if admitted is None or not admitted.status or most is None:
        return None
    deadline = admitted.since + most - life.executed
    if now < deadline:
        return Step(life, again_at=deadline)
    if is_true(life.deactivation):
        return None
    flag = Flag(True, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time", now)
    words = f"The maximum execution time ({most // SECOND}s) exceeded"
    return Step(replace(life, deactivation=flag, executed=0), "MaximumExecutionTimeExceeded", words, True)
