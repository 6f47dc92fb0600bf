"""A workload's state: admission checks, eviction, back-off, readiness and execution time, step by step in given time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuaas.engine.lifecycle import (
    CheckState,
    CheckStatus,
    Flag,
    WorkloadState,
    evict,
    is_true,
    lasting_checks,
    release,
    required_checks,
    reserve,
    set_check,
    sync_checks,
)
from gpuaas.engine.supervise import ReadyRules, Step, WorkloadContext, backoff, next_step
from gpuaas.engine.values import Check, StopPolicy

SECOND = 1000
MINUTE = 60 * SECOND
HERE = WorkloadContext("ns/w", "lq", "cq")
CHECKED = replace(HERE, required_checks=frozenset({"prov"}))
RULES = ReadyRules()


def admitted(state: WorkloadState = WorkloadState(), at: int = 0) -> WorkloadState:  # noqa: B008
    state = reserve(state, "cq", (), at)
    assert is_true(state.admitted)
    return state


def step(state: WorkloadState, now: int, around: WorkloadContext = HERE, rules: ReadyRules | None = RULES) -> Step:
    return next_step(state, around, rules, now)


def settled(
    state: WorkloadState, now: int, around: WorkloadContext = HERE, rules: ReadyRules | None = RULES
) -> WorkloadState:
    for _ in range(20):
        found = next_step(state, around, rules, now)
        if found.state == state:
            return state
        state = found.state
    raise AssertionError("does not settle")


def test_without_checks_a_reservation_is_an_admission() -> None:
    assert reserve(WorkloadState(), "cq", (), 7).admitted == Flag(True, "Admitted", "The workload is admitted", 7)


def test_a_required_check_that_is_not_listed_yet_holds_admission_back() -> None:
    state = reserve(WorkloadState(), "cq", ("prov",), 0)
    assert state.admitted is None
    state = settled(state, 1, CHECKED)
    assert state.checks == (CheckStatus("prov", since=1),)
    state = set_check(state, CheckStatus("prov", "Ready"))
    done = step(state, 9 * SECOND, CHECKED)
    assert is_true(done.state.admitted)
    assert done.words == "Admitted by ClusterQueue cq, wait time since reservation was 9s"


def test_a_check_that_wants_a_retry_evicts_and_keeps_the_workload_away_as_long_as_it_said() -> None:
    state = settled(reserve(WorkloadState(), "cq", ("prov",), 0), 0, CHECKED)
    state = set_check(state, CheckStatus("prov", "Retry", "no capacity", since=0, requeue_after=90 * SECOND))
    state = settled(state, 1, CHECKED)
    assert state.requeue_at == 90 * SECOND
    assert state.evicted is not None
    assert state.evicted.message == 'Evicted due to AdmissionCheck in Retry state: "prov" (no capacity)'
    assert state.checks[0].message == "Reset to Pending after eviction. Previously: Retry"
    state = release(state, 2)
    assert state.backing_off
    assert step(state, 3).again_at == 90 * SECOND
    state = settled(state, 90 * SECOND, CHECKED)
    assert state.requeued == Flag(True, "BackoffFinished", "The workload backoff was finished", 90 * SECOND)


def test_a_rejected_check_deactivates() -> None:
    state = settled(reserve(WorkloadState(), "cq", ("prov",), 0), 0, CHECKED)
    state = set_check(state, CheckStatus("prov", "Rejected", "quota revoked"))
    told = step(state, 1, CHECKED)
    assert (told.event, told.warning) == ("AdmissionCheckRejected", True)
    state = settled(told.state, 1, CHECKED)
    assert not state.active
    assert state.evicted is not None
    assert state.evicted.reason == "DeactivatedDueToAdmissionCheck"
    assert state.evicted.message.endswith('AdmissionCheck in Rejected state: "prov" (quota revoked)')


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(admitted(), "EvictedDueToDeactivated", id="what it held is taken back"),
        pytest.param(WorkloadState(), "", id="it held nothing that could be taken back"),
    ],
)
def test_only_who_loses_quota_is_told_of_being_deactivated(state: WorkloadState, event: str) -> None:
    told = step(replace(state, active=False), 1)
    assert told.state.evicted == Flag(True, "Deactivated", "The workload is deactivated", 1)
    assert told.event == event


def test_retries_are_forgotten_when_one_that_was_put_back_is_deactivated() -> None:
    waiting = replace(evict(admitted(), "PodsReadyTimeout", "", 1), requeue_count=2, requeue_at=90 * SECOND)
    state = settled(replace(waiting, active=False), 2)
    assert (state.requeue_count, state.requeue_at) == (0, None)


@pytest.mark.parametrize(
    ("check_state", "counted"), [("Retry", 2), ("Rejected", None), ("Ready", None), ("Pending", 1)]
)
def test_what_an_eviction_leaves_of_the_retries_a_check_has_counted(
    check_state: CheckState, counted: int | None
) -> None:
    state = settled(reserve(WorkloadState(), "cq", ("prov",), 0), 0, CHECKED)
    state = set_check(state, CheckStatus("prov", check_state, retry_count=1))
    assert evict(state, "Preempted", "", 1).checks[0].retry_count == counted


@pytest.mark.parametrize(("check_state", "counted"), [("Retry", 2), ("Rejected", 1), ("Ready", 1), ("Pending", 1)])
def test_what_the_autoscalers_check_counted_and_adds_to_pods_outlives_an_eviction(
    check_state: CheckState, counted: int
) -> None:
    state = settled(reserve(WorkloadState(), "cq", ("prov",), 0), 0, CHECKED)
    state = set_check(state, CheckStatus("prov", check_state, retry_count=1, updates=("labels",)))
    lasting = lasting_checks([Check("prov", controller="kueue.x-k8s.io/provisioning-request"), Check("other")])
    [left] = evict(state, "Preempted", "", 1, lasting=lasting).checks
    assert (left.state, left.retry_count, left.updates) == ("Pending", counted, ("labels",))


@pytest.mark.parametrize("check_state", ["Pending", "Ready"])
def test_who_runs_goes_on_when_its_queue_asks_for_one_more_check(check_state: str) -> None:
    state = settled(admitted(), MINUTE, CHECKED)
    assert state.checks == (CheckStatus("prov", since=MINUTE),)
    state = settled(set_check(state, CheckStatus("prov", check_state)), 2 * MINUTE, CHECKED)
    assert is_true(state.admitted)


def test_who_runs_stays_admitted_until_it_has_left_when_a_check_takes_its_word_back() -> None:
    state = settled(set_check(settled(admitted(), 1, CHECKED), CheckStatus("prov", "Retry")), 2, CHECKED)
    assert state.evicted is not None
    assert state.evicted.message == 'Evicted due to AdmissionCheck in Retry state: "prov"'
    assert is_true(state.admitted)


def test_which_checks_apply_depends_on_the_flavors_assigned() -> None:
    checks = (Check("all"), Check("spot", frozenset({"spot"})))
    flavors = frozenset({"spot", "ondemand"})
    assert required_checks(checks, None, flavors) == {"all"}
    assert required_checks(checks, frozenset({"ondemand"}), flavors) == {"all"}
    assert required_checks(checks, frozenset({"spot"}), flavors) == {"all", "spot"}


def test_checks_no_longer_required_are_dropped_and_the_rest_is_listed_by_name() -> None:
    state = WorkloadState(checks=(CheckStatus("z", "Ready"), CheckStatus("old")))
    assert [c.name for c in sync_checks(state, ("z", "a"), 0).checks] == ["a", "z"]


def test_preempted_it_queues_again_at_its_old_place_with_its_quota_given_back_only_on_release() -> None:
    state = evict(admitted(), "Preempted", "make room", 10, rule="InClusterQueue")
    assert state.holds_quota
    assert is_true(state.admitted)
    state = release(state, 12 * SECOND)
    assert not state.holds_quota
    assert not state.backing_off
    assert state.executed == 12 * SECOND, "whole seconds admitted, being evicted included"
    again = reserve(state, "cq", (), 20 * SECOND)
    assert again.evicted == Flag(False, "QuotaReserved", "Previously: make room", 20 * SECOND)
    assert again.preempted is not None
    assert not again.preempted.status


@pytest.mark.parametrize(
    ("count", "seconds"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1920), (7, 3600), (8, 3600)]
)
def test_back_off_doubles_up_to_an_hour(count: int, seconds: int) -> None:
    assert backoff(count, RULES) == seconds * SECOND


def test_pods_that_do_not_become_ready_in_time_send_the_workload_away_and_the_fourth_time_for_good() -> None:
    rules = replace(RULES, backoff_limit=3)
    state, now, waits = WorkloadState(), 0, []
    for _ in range(3):
        state = admitted(replace(state, requeued=None), now)
        assert step(state, now, rules=rules).again_at == now + 30 * MINUTE
        now += 30 * MINUTE
        state = step(state, now, rules=rules).state
        assert state.evicted is not None
        assert state.evicted.message == "Exceeded the PodsReady timeout ns/w"
        assert state.requeue_at is not None
        waits.append((state.requeue_at - now) // SECOND)
        state = release(state, now)
        now = state.requeue_at or now
        state = settled(state, now, rules=rules)
        assert not state.backing_off
    assert waits == [60, 120, 240]
    state = admitted(state, now)
    state = settled(state, now + 30 * MINUTE, rules=rules)
    assert not state.active
    assert state.evicted is not None
    assert state.evicted.reason == "DeactivatedDueToRequeuingLimitExceeded"
    assert state.requeue_count == 0, "deactivation starts the count anew"


def test_pods_lost_later_have_the_recovery_time() -> None:
    state = replace(admitted(), pods_ready=Flag(False, "WaitForRecovery", since=50 * MINUTE))
    assert step(state, 60 * MINUTE).again_at == 80 * MINUTE
    assert step(state, 80 * MINUTE).state.evictions == (("PodsReadyTimeout", "WaitForRecovery", 1),)
    assert step(state, 80 * MINUTE, rules=replace(RULES, recovery_timeout=None)).again_at is None


def test_ready_pods_have_no_deadline() -> None:
    state = replace(admitted(), pods_ready=Flag(True, "Started"))
    assert step(state, 10**9) == Step(state)


def test_execution_time_counts_admitted_time_of_all_rounds() -> None:
    state = replace(
        admitted(WorkloadState(max_execution=100 * SECOND, executed=40 * SECOND)), pods_ready=Flag(True, "Started")
    )
    assert step(state, 0).again_at == 60 * SECOND
    over = step(state, 60 * SECOND)
    assert (over.event, over.words) == ("MaximumExecutionTimeExceeded", "The maximum execution time (100s) exceeded")
    state = settled(over.state, 60 * SECOND)
    assert state.evicted is not None
    assert state.evicted.reason == "DeactivatedDueToMaximumExecutionTimeExceeded"


@pytest.mark.parametrize(
    ("stop", "admitted_evicted", "reserved_given_up"),
    [
        (StopPolicy.NONE, False, False),
        (StopPolicy.HOLD, False, True),
        (StopPolicy.HOLD_AND_DRAIN, True, True),
        (None, False, True),
    ],
)
@pytest.mark.parametrize(
    ("field", "reason"), [("local_stop", "LocalQueueStopped"), ("cluster_stop", "ClusterQueueStopped")]
)
def test_stopping_a_queue(
    field: str, reason: str, stop: StopPolicy | None, admitted_evicted: bool, reserved_given_up: bool
) -> None:
    around = replace(CHECKED, **{field: stop})
    runs = step(replace(admitted(), checks=(CheckStatus("prov", "Ready"),)), 1, around).state
    assert is_true(runs.evicted) == admitted_evicted
    if admitted_evicted:
        assert runs.evicted is not None
        assert runs.evicted.reason == reason
    waits = reserve(WorkloadState(checks=(CheckStatus("prov"),)), "cq", ("prov",), 0)
    assert is_true(step(waits, 1, around).state.reserved) != reserved_given_up


@pytest.mark.parametrize(("field", "reason"), [("local_stop", "LocalQueue"), ("cluster_stop", "ClusterQueue")])
def test_what_a_stopped_queue_drained_comes_back_when_it_is_started_again(field: str, reason: str) -> None:
    drained = settled(admitted(), 1, replace(HERE, **{field: StopPolicy.HOLD_AND_DRAIN}))
    state = release(drained, 2)
    assert settled(state, 3, replace(HERE, **{field: StopPolicy.HOLD_AND_DRAIN})).backing_off
    state = settled(state, 4, HERE)
    assert state.requeued is not None
    assert state.requeued.reason == f"{reason}Restarted"


def test_deactivated_by_hand_and_activated_again() -> None:
    state = settled(replace(admitted(), active=False), 1)
    assert state.evicted is not None
    assert state.evicted.message == "The workload is deactivated"
    state = release(state, 2)
    state = settled(replace(state, active=True), 3)
    assert state.requeued == Flag(True, "Reactivated", "The workload was reactivated", 3)


def test_a_place_still_to_be_chosen_holds_admission_back() -> None:
    state = reserve(WorkloadState(topology_pending=True), "cq", (), 0)
    assert not is_true(state.admitted)
    assert is_true(step(replace(state, topology_pending=False), 5).state.admitted)


def test_a_finished_workload_is_left_alone() -> None:
    state = replace(admitted(), finished=True, active=False)
    assert step(state, 10**9) == Step(state)


def test_a_gate_is_named_until_it_is_lifted_and_then_quota_is_waited_for() -> None:
    gated = step(WorkloadState(), 0, replace(HERE, gates="acme.io/budget"))
    assert gated.state.reserved == Flag(False, "AdmissionGated", "Admission is gated by: acme.io/budget", 0)
    assert (gated.event, gated.words) == ("AdmissionGated", "Workload admission is gated by: acme.io/budget")
    assert step(gated.state, 1, replace(HERE, gates="acme.io/budget")).state == gated.state
    lifted = step(gated.state, 2)
    assert lifted.state.reserved == Flag(False, "Pending", "AdmissionGatedBy cleared, waiting for quota reservation", 2)
    assert lifted.event == "AdmissionGateCleared"


def test_a_back_off_ends_at_its_time_even_before_the_quota_is_given_back() -> None:
    gone = evict(admitted(), "PodsReadyTimeout", "too slow", 0)
    gone = replace(gone, requeued=Flag(False, "PodsReadyTimeout", "too slow", 0), requeue_count=2, requeue_at=MINUTE)
    assert step(gone, SECOND) == Step(gone, again_at=MINUTE)
    over = step(gone, MINUTE).state
    assert over.requeued is not None
    assert (over.requeued.reason, over.requeue_at, over.requeue_count) == ("BackoffFinished", None, 2)
