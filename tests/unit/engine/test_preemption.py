"""Who has to leave: the classical rules of the reference's worked examples, and what is never done."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from gpuaas.engine.changes import Released
from gpuaas.engine.nominate import largest_feasible

from .builders import Lab, admitted, cohort, passed, preempted, queue


def reclaiming(**policy: object) -> Lab:
    """A (nominal 10) runs a1 of 4; B (nominal 10) runs b1, b2, b3 of 5 each, of priorities 100, 50, 50."""
    lab = Lab(
        queue("A", 10, "co", within="LowerPriority", reclaim="Any", **policy),
        queue("B", 10, "co"),
    )
    lab.run("b1", "B", 5, priority=100)
    lab.run("b2", "B", 5, priority=50)
    lab.run("a1", "A", 4, priority=10)
    lab.run("b3", "B", 5, priority=50)
    assert lab.free("A") == 1
    return lab


def test_a_queue_below_nominal_takes_back_what_others_borrowed_whatever_their_priority() -> None:
    lab = reclaiming()
    lab.submit("a2", "A", 6, priority=0)
    assert preempted(lab.cycle()) == {"b3": "InCohortReclamation"}


def test_nobody_is_preempted_for_borrowing_unless_the_policy_says_so() -> None:
    lab = reclaiming()
    lab.submit("a2", "A", 8, priority=0)
    plan = lab.cycle()
    assert preempted(plan) == {}
    assert admitted(plan) == {}
    assert passed(plan, "a2").token.value == "WaitingForQuota"


def test_borrowing_within_the_cohort_takes_lower_priorities_while_they_borrow_and_then_ones_own() -> None:
    lab = reclaiming(borrow_within=True)
    lab.submit("a2", "A", 8, priority=60)
    assert preempted(lab.cycle()) == {"b3": "InCohortReclaimWhileBorrowing", "a1": "InClusterQueue"}


def test_above_the_threshold_only_what_fits_without_borrowing_may_be_taken() -> None:
    lab = reclaiming(borrow_within=True, threshold=40)
    lab.submit("a2", "A", 8, priority=60)
    assert preempted(lab.cycle()) == {"b3": "InCohortReclamation", "a1": "InClusterQueue"}


@pytest.mark.parametrize(
    ("policy", "priority", "victims"),
    [
        pytest.param("Never", 100, set(), id="never"),
        pytest.param("LowerPriority", 50, {"low"}, id="only lower priorities"),
        pytest.param("LowerPriority", 10, set(), id="not equal ones"),
        pytest.param("LowerOrNewerEqualPriority", 10, set(), id="nor equal ones that are older"),
    ],
)
def test_within_a_queue(policy: str, priority: int, victims: set[str]) -> None:
    lab = Lab(queue("q", 4, within=policy))
    lab.run("low", "q", 4, priority=10)
    lab.submit("w", "q", 4, priority=priority)
    assert set(preempted(lab.cycle())) == victims


def test_an_equal_priority_that_is_newer_gives_way_to_an_older_one() -> None:
    lab = Lab(queue("q", 4, within="LowerOrNewerEqualPriority"))
    old = lab.workload("old", "q", 4, priority=10)
    lab.run("new", "q", 4, priority=10)
    lab.engine.apply(old)
    assert preempted(lab.cycle()) == {"new": "InClusterQueue"}


def test_victims_are_the_lowest_in_priority_then_the_latest_admitted() -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    for name, priority in (("a", 5), ("b", 1), ("c", 1), ("d", 3)):
        lab.run(name, "q", 1, priority=priority)
    lab.submit("w", "q", 2, priority=9)
    assert preempted(lab.cycle()) == {"b": "InClusterQueue", "c": "InClusterQueue"}
    assert list(preempted(lab.cycle())) == [], "they are leaving already: nobody else is asked"


def test_whoever_need_not_leave_is_spared() -> None:
    """The small one goes first and is not enough; once the large one goes too, the small one may stay."""
    lab = Lab(queue("q", 6, within="LowerPriority"))
    lab.run("large", "q", 5, priority=1)
    lab.run("small", "q", 1, priority=0)
    lab.submit("w", "q", 5, priority=9)
    assert preempted(lab.cycle()) == {"large": "InClusterQueue"}


def test_a_place_nearer_to_the_quota_beats_priority() -> None:
    """Quota of ones own subtree is taken back from a cousin of any priority; a sibling's is not."""
    lab = Lab(
        cohort("near", "root"), cohort("far", "root"),
        queue("mine", 0, "near", reclaim="Any"), queue("sibling", 4, "near"), queue("cousin", 0, "far"),
    )  # fmt: skip
    lab.run("c", "cousin", 4, priority=100)
    lab.submit("w", "mine", 4, priority=0)
    assert preempted(lab.cycle()) == {"c": "InCohortReclamation"}


def test_a_workload_waits_for_the_victims_it_has_and_asks_nobody_else() -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("low", "q", 4)
    lab.submit("w", "q", 4, priority=5)
    first = lab.cycle()
    assert passed(first, "w").message.endswith(". Pending the preemption of 1 workload(s)")
    again = lab.cycle()
    assert preempted(again) == {}
    assert not lab.engine.unsettled(), "nothing to look at until the victim is gone"
    lab.release(first)
    assert set(admitted(lab.cycle())) == {"w"}


@pytest.mark.parametrize(
    ("feasible_up_to", "asked", "found"),
    [(7, [7, 9, 8], 7), (5, [7, 5, 6], 5), (3, [7, 5, 4], None), (10, [7, 9, 10], 10)],
)
def test_reduced_counts_are_searched_by_halving(feasible_up_to: int, asked: list[int], found: int | None) -> None:
    tried: list[int] = []

    def feasible(counts: tuple[int, ...]) -> object | None:
        tried.append(counts[0])
        return counts[0] if counts[0] <= feasible_up_to else None

    assert largest_feasible(((10, 4),), feasible) == found  # type: ignore[arg-type]
    assert tried == asked


def test_a_workload_starts_with_fewer_pods_where_it_says_it_can() -> None:
    lab = Lab(queue("q", 7))
    lab.submit("w", "q", 1, count=10, min_count=4)
    plan = lab.cycle()
    assert plan.admissions[0].pod_sets[0].count == 7
    assert plan.admissions[0].pod_sets[0].usage == (("gpu", 7),)


def test_who_found_no_victim_looks_again_when_a_running_workload_loses_priority() -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("first", "q", 4, priority=10)
    running = lab.engine.items["ns/first"].workload
    lab.submit("second", "q", 4, priority=10)
    lab.settle()
    lab.engine.apply(replace(running, priority=1))
    assert preempted(lab.cycle()) == {"first": "InClusterQueue"}


@pytest.mark.parametrize("first", [False, True])
def test_one_that_waits_for_its_victims_may_go_before_those_that_would_slip_in(first: bool) -> None:
    """Its victims leave one by one: what the first leaves is kept for it only where that is asked for."""
    lab = Lab(preemptors_first=first)
    policy = {"within": "LowerPriority", "reclaim": "LowerPriority", "borrow_within": True}
    lab.tell(*(queue(name, nominal, "all", **policy) for name, nominal in (("a", 1), ("b", 3), ("c", 1))))
    lab.run("wl-a", "a", 1, priority=5)
    lab.run("wl-b", "b", 4, priority=5)
    lab.submit("wl-c", "c", 1, priority=1)
    lab.cycle()
    lab.submit("big", "a", 5, priority=10)
    assert set(preempted(lab.cycle())) == {"wl-a", "wl-b"}
    lab.cycle()
    lab.tell(Released("ns/wl-b"))
    for _ in range(3):
        lab.cycle()
    assert ("wl-c" in lab.running()) is not first
    lab.tell(Released("ns/wl-a"))
    for _ in range(3):
        lab.cycle()
    assert ("big" in lab.running()) is first


@pytest.mark.parametrize(("again", "victims"), [(False, 1), (True, 2)])
def test_two_that_want_the_same_victim_may_find_one_each_in_one_look(again: bool, victims: int) -> None:
    lab = Lab(*(queue(name, 2, "all", reclaim="Any") for name in ("a", "b", "c")), looks_again=again)
    for number in range(3):
        lab.run(f"b{number}", "b", 2)
    lab.submit("wl-a", "a", 2)
    lab.submit("wl-c", "c", 2)
    assert len(preempted(lab.cycle())) == victims
    lab.settle()
    lab.tell(*(Released(key) for key, item in lab.engine.items.items() if item.evicted))
    lab.settle()
    assert {"wl-a", "wl-c"} <= lab.running()


def test_one_that_fits_once_the_victim_of_another_is_gone_waits_for_that_and_takes_nobody() -> None:
    lab = Lab(*(queue(name, 2, "all", reclaim="Any") for name in ("a", "b", "c")), looks_again=True)
    lab.run("b", "b", 6)
    lab.submit("wl-a", "a", 2)
    lab.submit("wl-c", "c", 2)
    plan = lab.cycle()
    assert set(preempted(plan)) == {"b"}
    words = {passed.key: passed.words for passed in plan.skipped}
    later = "Workload has overlapping preemption targets with another workload"
    assert f"{later}, but will fit after these preemptions complete" in words.values()
    lab.release(plan)
    lab.settle()
    assert lab.running() == {"wl-a", "wl-c"}


def test_decisions_leave_nothing_to_the_garbage_collector() -> None:
    lab = reclaiming()
    lab.submit("a2", "A", 6, priority=0)
    lab.submit("a3", "A", 40, priority=0)
    gc.collect()
    gc.disable()
    try:
        lab.cycle()
        lab.cycle()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_who_waits_in_a_queue_above_all_it_may_borrow_lets_its_victims_free_less_for_others_in_the_cycle() -> None:
    lab = Lab(queue("over", 6, "co"), queue("taker", 6, "co", reclaim="Any"), queue("third", 0, "co"))
    lab.run("big", "over", 6)
    lab.tell(queue("over", (2, 2), "co"))
    lab.submit("taken", "taker", 6)
    lab.submit("more", "over", 1, priority=10)
    lab.submit("late", "third", 2)
    plan = lab.cycle()
    assert preempted(plan) == {"big": "InCohortReclamation"}
    assert passed(plan, "late").message == "Workload no longer fits after processing another workload"
    lab.release(plan)
    lab.settle()
    assert lab.running() == {"taken", "more"}
