"""A workload's life as a pure state machine: reserved, checked, admitted, evicted, released, queued again.

Each transition takes a state and gives the next one; nothing is written anywhere. Which transition is due is decided in
`supervise`; what waiting means for the order in a queue is `values.Workload`'s. Reasons and messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuaas.engine.check_conflicts import PROVISIONING
from gpuaas.engine.values import Check, CheckState, Millis

PREEMPTED = "Preempted"
NODE_FAILURES = "NodeFailures"
PODS_READY_TIMEOUT = "PodsReadyTimeout"
ADMISSION_CHECK = "AdmissionCheck"
DEACTIVATED = "Deactivated"
QUEUE_STOPPED = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED = "LocalQueueStopped"

RETURNS_AT_ONCE = frozenset({PREEMPTED, NODE_FAILURES})
"""Evictions after which the workload queues again without anybody having to let it in."""


@dataclass(frozen=True, slots=True)
class CheckStatus:
    name: str
    state: CheckState = "Pending"
    message: str = ""
    since: Millis = 0
    retry_count: int | None = None
    requeue_after: Millis | None = None
    updates: tuple[object, ...] = ()
    """What a ready check adds to the pods; kept as it is."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A condition that is true or false for a reason, since a moment."""

    status: bool
    reason: str
    message: str = ""
    since: Millis = 0


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """Where a workload stands. None means the condition was never written."""

    active: bool = True
    reserved: Flag | None = None
    admitted: Flag | None = None
    evicted: Flag | None = None
    preempted: Flag | None = None
    requeued: Flag | None = None
    pods_ready: Flag | None = None
    deactivation: Flag | None = None
    finished: bool = False
    checks: tuple[CheckStatus, ...] = ()
    topology_pending: bool = False
    """A place is still to be chosen, once the checks are ready."""
    unhealthy: tuple[str, ...] = ()
    """Nodes it has places on and that failed."""
    requeue_count: int = 0
    requeue_at: Millis | None = None
    executed: Millis = 0
    """How long it has been admitted in earlier rounds."""
    max_execution: Millis | None = None
    cluster: str | None = None
    nominated: tuple[str, ...] = ()
    evictions: tuple[tuple[str, str, int], ...] = ()
    """(reason, cause, how often)"""

    @property
    def holds_quota(self) -> bool:
        """Whether the scheduler counts it: not once it is deactivated or finished, whatever still runs."""
        return is_true(self.reserved) and self.active and not self.finished

    @property
    def backing_off(self) -> bool:
        """Kept out by its `Requeued` condition, whatever `requeue_at` says."""
        return self.requeued is not None and not self.requeued.status


def is_true(flag: Flag | None) -> bool:
    return flag is not None and flag.status


def reserve(state: WorkloadState, cluster_queue: str, required: Iterable[str], now: Millis) -> WorkloadState:
    """Quota is reserved; if every required check is already listed, admission follows from their states."""
    known = {check.name for check in state.checks}
    state = replace(
        state,
        reserved=Flag(True, "QuotaReserved", f"Quota reserved in ClusterQueue {cluster_queue}", now),
        evicted=_previously(state.evicted, now),
        preempted=_previously(state.preempted, now),
    )
    return sync_admitted(state, now) if known.issuperset(required) else state


def sync_admitted(state: WorkloadState, now: Millis) -> WorkloadState:
    """Admitted is: quota reserved, every listed check ready, and a place for all pods. Written only when it changes."""
    reserved = is_true(state.reserved)
    ready = all(check.state == "Ready" for check in state.checks)
    wanted = reserved and ready and not state.topology_pending
    if wanted == is_true(state.admitted):
        return state
    if wanted:
        return replace(state, admitted=Flag(True, "Admitted", "The workload is admitted", now))
    assert state.admitted is not None
    executed = state.executed + (now - state.admitted.since) // 1000 * 1000
    return replace(state, admitted=_not_admitted(reserved, ready, now), executed=executed)


def sync_checks(state: WorkloadState, required: Iterable[str], now: Millis) -> WorkloadState:
    """List exactly the required checks, by name; new ones are pending."""
    names = sorted(required)
    known = {check.name: check for check in state.checks}
    checks = tuple(known.get(name, CheckStatus(name, since=now)) for name in names)
    return state if checks == state.checks else replace(state, checks=checks)


def required_checks(
    checks: Iterable[Check], assigned: frozenset[str] | None, flavors: frozenset[str]
) -> frozenset[str]:
    """The checks that apply: to the assigned flavors, or, before there are any, those that apply whatever is assigned."""
    if assigned is None:
        return frozenset(c.name for c in checks if not c.on_flavors or c.on_flavors >= flavors)
    return frozenset(c.name for c in checks if not c.on_flavors or c.on_flavors & assigned)


def set_check(state: WorkloadState, status: CheckStatus) -> WorkloadState:
    return replace(state, checks=tuple(status if c.name == status.name else c for c in state.checks))


def lasting_checks(checks: Iterable[Check]) -> frozenset[str]:
    """The checks of which an eviction leaves more than their names.

    Upstream's controllers apply what they say, and what two of them have applied goes only when both leave it out. The
    one that asks for nodes applies a check as a whole, with what was counted and what is added to pods; who evicts
    leaves both out, and they stay. Those who answer any other check say only what they have to say.
    """
    return frozenset(check.name for check in checks if check.controller == PROVISIONING)


def evict(
    state: WorkloadState,
    reason: str,
    message: str,
    now: Millis,
    cause: str = "",
    rule: str = "",
    lasting: frozenset[str] = frozenset(),
) -> WorkloadState:
    """Evicted. It stays admitted and its quota counts until it is released."""
    shown = f"DeactivatedDueTo{cause}" if reason == DEACTIVATED and cause else reason
    return replace(
        state,
        evicted=Flag(True, shown, message, now),
        preempted=Flag(True, rule, message, now) if rule else state.preempted,
        checks=tuple(_reset(check, check.name in lasting, now) for check in state.checks),
        unhealthy=(),
        cluster=None,
        nominated=(),
        evictions=_counted(state.evictions, reason, cause),
    )


def release(state: WorkloadState, now: Millis) -> WorkloadState:
    """Its pods are gone: the quota is free, and it queues again if its eviction lets it."""
    assert state.evicted is not None
    reason, message = state.evicted.reason, state.evicted.message
    return sync_admitted(
        replace(
            state,
            requeued=Flag(reason in RETURNS_AT_ONCE, reason, message, now),
            reserved=Flag(False, "Pending", message, now),
        ),
        now,
    )


def give_up(state: WorkloadState, reason: str, message: str, now: Millis) -> WorkloadState:
    """The reservation is withdrawn without an eviction: its queue is gone or stopped before it was admitted."""
    return sync_admitted(replace(state, reserved=Flag(False, reason, message, now)), now)


def _previously(flag: Flag | None, now: Millis) -> Flag | None:
    if flag is None or not flag.status:
        return flag
    return Flag(False, "QuotaReserved", f"Previously: {flag.message}", now)


def _not_admitted(reserved: bool, ready: bool, now: Millis) -> Flag:
    match reserved, ready:
        case False, True:
            return Flag(False, "NoReservation", "The workload has no reservation", now)
        case False, False:
            message = "The workload has no reservation and not all checks ready"
            return Flag(False, "NoReservationUnsatisfiedChecks", message, now)
        case True, False:
            return Flag(False, "UnsatisfiedChecks", "The workload has not all checks ready", now)
        case _:
            message = "There are pending delayed topology requests"
            return Flag(False, "PendingDelayedTopologyRequests", message, now)


def _reset(check: CheckStatus, lasts: bool, now: Millis) -> CheckStatus:
    """Back to pending. One that asked for a retry goes on counting; what any other counted is forgotten unless it lasts."""
    if check.state == "Pending":
        return check
    retries = check.retry_count if lasts else None
    if check.state == "Retry":
        retries = (check.retry_count or 0) + 1
    message = f"Reset to Pending after eviction. Previously: {check.state}"
    updates = check.updates if lasts else ()
    return CheckStatus(check.name, "Pending", message, now, retries, check.requeue_after, updates)


def _counted(evictions: tuple[tuple[str, str, int], ...], reason: str, cause: str) -> tuple[tuple[str, str, int], ...]:
    counts = {(r, c): n for r, c, n in evictions}
    counts[reason, cause] = counts.get((reason, cause), 0) + 1
    return tuple((r, c, n) for (r, c), n in counts.items())
