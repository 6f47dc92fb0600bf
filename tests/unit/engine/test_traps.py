"""The traps of the reference, section 12.3, each as a sentence: what an engine gets wrong if it is written from memory.

The number in a test's name is the trap's. Those about flavors, victims and shares that need a table have one in their own
module; here is the shortest case that bites.
"""

from __future__ import annotations

from dataclasses import replace

from gpuaas.engine import lifecycle
from gpuaas.engine.changes import Evicted, Finished, Released, Reserved
from gpuaas.engine.checks import fingerprint
from gpuaas.engine.constraints import Requirement
from gpuaas.engine.lifecycle import CheckStatus, Flag, WorkloadState
from gpuaas.engine.nominate import largest_feasible
from gpuaas.engine.tree import lowest_fit
from gpuaas.engine.values import Flavor, LocalQueue, Namespace, PodSet, PodSetAdmission

from .builders import Lab, admitted, cohort, flavors, passed, preempted, queue


def test_01_quota_counts_from_reservation_until_release_but_not_once_finished() -> None:
    lab = Lab(queue("q", 4))
    lab.run("w", "q", 4)
    lab.engine.apply(Evicted("ns/w", "Preempted"))
    assert lab.free("q") == 0, "told to leave, still there"
    lab.engine.apply(Released("ns/w"))
    assert lab.free("q") == 4
    lab.settle()
    assert lab.free("q") == 0, "it waited, and was admitted again"
    lab.engine.apply(Finished("ns/w"))
    assert lab.free("q") == 4


def test_01_a_deactivated_workload_holds_no_quota_even_while_its_pods_run() -> None:
    state = lifecycle.reserve(WorkloadState(), "q", (), 0)
    assert state.holds_quota
    assert not replace(state, active=False).holds_quota


def test_02_available_is_negative_at_ancestors_and_clamped_only_at_the_queue() -> None:
    lab = Lab(queue("a", 10, "co"), queue("b", (10, None, 3), "co"))
    lab.run("a13", "a", 13)
    lab.tell(queue("a", 5, "co"))
    assert lab.queue("a").parent.available(lab.fr()) == -5
    assert lab.free("b") == 2


def test_03_what_a_cohort_keeps_is_its_subtree_minus_its_lending_limit() -> None:
    lab = Lab(cohort("inner", "outer", (1, None, 4)), queue("a", 10, "inner"), queue("b", 0, "outer"))
    inner = lab.queue("a").parent
    assert inner.local[lab.fr()] == 11 - 4, "not 1 - 4"
    assert lab.free("b") == 4


def test_04_the_borrowing_level_is_a_height_so_that_nearer_quota_goes_first() -> None:
    lab = Lab(
        cohort("inner", "outer"), queue("far", 0, "outer"), queue("near", 0, "inner"), queue("lender", 1, "inner"),
    )  # fmt: skip
    assert lowest_fit(lab.queue("near"), lab.fr(), 1) == (1, True)
    assert lowest_fit(lab.queue("far"), lab.fr(), 1) == (2, False)
    lab.submit("far1", "far", 1, priority=1000)
    lab.submit("near1", "near", 1, priority=0)
    assert set(admitted(lab.cycle())) == {"near1"}, "level before priority"


def test_05_where_the_search_may_stop_the_current_flavor_wins_over_a_better_one_before() -> None:
    """The first flavor would need borrowing and is passed; the second needs preempting and is allowed to stop there."""
    lab = Lab(
        queue("q", {"first": 0, "second": 4}, "co", within="LowerPriority", borrow_stops=False, preempt_stops=True),
        queue("lender", {"first": 4, "second": 0}, "co"),
    )
    workload = lab.workload("low", "q", 4)
    lab.engine.apply(
        Reserved(workload, "q", (PodSetAdmission("main", (("gpu", "second"),), (("gpu", 4),), 1),), lab.now)
    )
    lab.submit("w", "q", 4, priority=9)
    assert preempted(lab.cycle()) == {"low": "InClusterQueue"}


def test_06_every_head_is_judged_on_the_same_state_and_only_its_turn_shows_what_others_took() -> None:
    lab = Lab(queue("a", 0, "co"), queue("b", 0, "co"), queue("lender", 4, "co"))
    lab.submit("first", "a", 4)
    lab.submit("second", "b", 4)
    plan = lab.cycle()
    assert set(admitted(plan)) == {"first"}
    assert passed(plan, "second").message == "Workload no longer fits after processing another workload"


def test_07_who_is_skipped_comes_again_at_once_who_does_not_fit_is_parked() -> None:
    lab = Lab(queue("a", 0, "co"), queue("b", 0, "co"), queue("lender", 4, "co"))
    lab.submit("first", "a", 4)
    lab.submit("second", "b", 4)
    lab.cycle()
    assert lab.engine.has_heads(), "skipped: back at the head"
    lab.cycle()
    assert not lab.engine.has_heads(), "judged on its own it does not fit: parked"
    lab.finish("first")
    assert set(admitted(lab.cycle())) == {"second"}


def test_08_who_needs_preemption_and_finds_nobody_keeps_its_nominal_room_free() -> None:
    def lab(reclaim: str) -> Lab:
        found = Lab(queue("a", 4, "co", reclaim=reclaim), queue("b", 0, "co"))
        found.run("keeps", "a", 1, priority=100)
        found.submit("waits", "a", 4, priority=50)
        found.submit("borrower", "b", 3)
        return found

    blocked, open_ = lab("LowerPriority"), lab("Any")
    assert admitted(blocked.cycle()) == {}, "3 of a's 4 are free, and kept for a"
    assert set(admitted(open_.cycle())) == {"borrower"}, "a could reclaim them any time"


def test_09_under_nominal_leaves_the_request_out_and_within_nominal_counts_it() -> None:
    """Classical: a queue at 9 of 10 is under nominal, so that reclaiming without borrowing is tried first."""
    lab = Lab(queue("a", 10, "co", reclaim="Any"), queue("b", 0, "co"), queue("c", 4, "co"))
    lab.run("a9", "a", 9)
    lab.run("b5", "b", 5)
    lab.submit("a1", "a", 1)
    assert preempted(lab.cycle()) == {"b5": "InCohortReclamation"}
    fair = Lab(queue("a", 10, "co", reclaim="Any"), queue("b", 0, "co"), queue("c", 4, "co"), fair=True)
    fair.run("a9", "a", 9)
    fair.run("b5", "b", 5)
    fair.submit("a2", "a", 2)
    assert set(preempted(fair.cycle()).values()) <= {"InCohortFairSharing"}, "with the request it borrows"


def test_10_a_queue_back_within_its_quota_gives_nothing_more() -> None:
    lab = Lab(queue("a", 8, "co", reclaim="Any"), queue("b", 4, "co"), queue("c", 0, "co"))
    for name in ("b1", "b2", "b3"):
        lab.run(name, "b", 2)
    lab.run("c1", "c", 6, priority=9)
    lab.submit("w", "a", 8)
    assert preempted(lab.cycle()) == {"b3": "InCohortReclamation", "c1": "InCohortReclamation"}


def test_11_the_last_victim_taken_is_never_spared() -> None:
    lab = Lab(queue("q", 6, within="LowerPriority"))
    lab.run("one", "q", 1, priority=2)
    lab.run("five", "q", 5, priority=1)
    lab.submit("w", "q", 1, priority=9)
    assert preempted(lab.cycle()) == {"five": "InClusterQueue"}, "first in order, enough, and so the last taken"


def test_12_fair_sharing_ignores_borrow_within_cohort() -> None:
    lab = Lab(*(queue(n, 0, "co", reclaim="Any") for n in "ab"), cohort("co", None, 2), fair=True)
    lab.run("a1", "a")
    lab.run("a2", "a")
    lab.submit("b1", "b")
    assert preempted(lab.cycle()) == {"a2": "InCohortFairSharing"}


def test_13_newer_means_created_later_not_admitted_later() -> None:
    lab = Lab(queue("q", 4, within="LowerOrNewerEqualPriority"))
    late_admitted = lab.workload("old", "q", 2)
    lab.run("new", "q", 2)
    lab.engine.apply(late_admitted)
    lab.settle()
    assert lab.running() == {"old", "new"}
    between = lab.workload("between", "q", 2, created=late_admitted.created + 1)
    lab.engine.apply(between)
    assert set(preempted(lab.cycle())) == {"new"}, "old was admitted last and is spared: it was created first"


def test_14_eviction_counts_retries_of_checks_that_retried_and_forgets_those_of_ready_ones() -> None:
    checks = (CheckStatus("ready", "Ready", retry_count=2), CheckStatus("retry", "Retry", retry_count=2))
    state = lifecycle.evict(WorkloadState(checks=checks), "AdmissionCheck", "because", 5)
    assert {c.name: c.retry_count for c in state.checks} == {"ready": None, "retry": 3}
    assert {c.state for c in state.checks} == {"Pending"}


def test_15_a_workload_that_was_not_requeued_waits_whatever_its_requeue_time_says() -> None:
    lab = Lab(queue("q", 4))
    lab.submit("w", "q", parked=True, requeue_at=0)
    lab.settle()
    assert lab.pending() == {"w"}
    lab.amend("w", parked=False)
    lab.settle()
    assert lab.running() == {"w"}


def test_16_no_namespace_selector_selects_no_namespace() -> None:
    lab = Lab(queue("q", 4, namespaces=None))
    lab.submit("w", "q")
    plan = lab.cycle()
    assert passed(plan, "w").message == "workload namespace doesn't match ClusterQueue selector"
    lab.tell(queue("q", 4, namespaces=(Requirement("team", "In", ("a",)),)))
    lab.settle()
    assert lab.pending() == {"w"}
    lab.tell(Namespace("ns", (("team", "a"),)))
    lab.settle()
    assert lab.running() == {"w"}


def test_17_only_labels_the_flavor_has_itself_count_and_an_empty_alternative_lets_all_through() -> None:
    lab = Lab(queue("q", {"l4": 4}))
    lab.tell(Flavor("l4", node_labels=(("gpu", "l4"),)))
    lab.run("zone", "q", node_selector=(("zone", "x"),))
    lab.run("or", "q", affinity=((Requirement("gpu", "In", ("h100",)),), (Requirement("zone", "Exists"),)))
    lab.submit("h100", "q", node_selector=(("gpu", "h100"), ("zone", "x")))
    assert passed(lab.cycle(), "h100").message.endswith("flavor l4 doesn't match node affinity")


def test_18_what_is_freed_wakes_the_whole_tree_and_nothing_else() -> None:
    lab = Lab(queue("a", 2, "co"), queue("b", 2, "co"), queue("alone", 1))
    lab.run("a4", "a", 4)
    lab.run("x", "alone")
    for name in ("b1", "alone1"):
        lab.submit(name, name.removesuffix("1"))
    lab.settle()
    lab.finish("a4")
    plan = lab.cycle()
    assert plan.heads == 1
    assert set(admitted(plan)) == {"b1"}


def test_19_partial_admission_can_miss_a_count_that_would_do() -> None:
    """Between 10 and 4 pods, 9 would do, but 7 does not: the halving search never looks at 9 and settles for 5."""
    found = largest_feasible(((10, 4),), lambda counts: counts[0] if counts[0] in {9, 5, 4} else None)  # type: ignore[arg-type]
    assert found == 5


def test_20_eviction_clears_the_cluster_a_workload_was_sent_to() -> None:
    state = WorkloadState(cluster="worker-1", nominated=("worker-1", "worker-2"), reserved=Flag(True, "QuotaReserved"))
    state = lifecycle.evict(state, "AdmissionCheck", "Admitting remote lost", 0)
    assert (state.cluster, state.nominated) == (None, ())


def test_identical_workloads_are_parked_together_and_only_the_first_is_told_why() -> None:
    lab = Lab(queue("q", 1))
    for i in range(100):
        lab.submit(f"w{i:03}", "q", 2)
    plan = lab.cycle()
    assert [p.key for p in plan.skipped] == ["ns/w000"]
    assert not lab.engine.has_heads()
    assert lab.queue("q").pending.inadmissible() == 100


def test_a_flush_does_not_wake_a_namespace_the_queue_does_not_select() -> None:
    """Workloads of one shape are parked together; what belongs to another namespace stays out when the others wake."""
    lab = Lab(queue("q", 2, namespaces=(Requirement("team", "In", ("a",)),)))
    lab.tell(Namespace("ns", (("team", "a"),)), Namespace("other"), LocalQueue("other", "q", "q"))
    lab.run("runs", "q", 2)
    mine = lab.submit("mine", "q", 2)
    lab.engine.apply(replace(mine, namespace="other", uid="other", created=mine.created + 1))
    lab.settle()
    assert lab.queue("q").pending.inadmissible() == 2
    lab.finish("runs")
    assert [plan.heads for plan in lab.settle()] == [1, 0], "one head, and not a second"
    assert {item.key for item in lab.engine.running()} == {"ns/mine"}


def test_only_a_namespace_that_a_queue_selects_from_now_on_wakes_who_waits_there() -> None:
    lab = Lab(queue("q", 1, namespaces=(Requirement("team", "In", ("a",)),)))
    lab.tell(Namespace("ns", (("team", "a"),)))
    lab.submit("large", "q", 2)
    lab.settle()
    for told in (Namespace("new"), Namespace("new", (("team", "b"),)), Namespace("ns", (("team", "a"), ("more", "b")))):
        lab.tell(told)
        assert lab.cycle().skipped == [], told
    lab.tell(Namespace("ns"))
    lab.tell(Namespace("ns", (("team", "a"),)))
    assert [each.key for each in lab.cycle().skipped] == ["ns/large"]


def test_in_a_strict_queue_the_blocked_head_blocks_and_in_a_best_effort_one_it_does_not() -> None:
    for strict, running in ((True, set()), (False, {"small"})):
        lab = Lab(queue("q", 4, strict=strict))
        lab.submit("large", "q", 8)
        lab.submit("small", "q", 1)
        lab.settle()
        assert lab.running() == running


def test_whoever_has_victims_leaving_goes_before_higher_priorities_in_a_best_effort_queue() -> None:
    for strict, first in ((False, "w1"), (True, "w2")):
        lab = Lab(queue("q", 4, within="LowerPriority", strict=strict))
        lab.run("low", "q", 4)
        lab.submit("w1", "q", 4, priority=5)
        plan = lab.cycle()
        lab.submit("w2", "q", 4, priority=10)
        lab.release(plan)
        shown = lab.engine.forest.queues["q"].pending.ordered()
        assert shown[0].workload.name == first
        assert set(admitted(lab.cycle())) == {first}


def test_pods_are_counted_where_the_queue_has_quota_for_them() -> None:
    lab = Lab(queue("q", {"default": {"gpu": 100, "pods": 3}}))
    lab.submit("w", "q", 1, count=4)
    assert "insufficient quota for pods in flavor default" in passed(lab.cycle(), "w").message
    lab.submit("v", "q", 1, count=3)
    assert flavors(lab.cycle(), "v", "pods") == "default"


def test_a_later_pod_set_sees_what_an_earlier_one_of_its_workload_would_take() -> None:
    lab = Lab(queue("q", {"spot": 3, "ondemand": 3}))
    sets = (PodSet("one", 1, (("gpu", 3),)), PodSet("two", 1, (("gpu", 2),)))
    lab.submit("w", "q", pod_sets=sets)
    assert admitted(lab.cycle())["w"] == {"one": {"gpu": "spot"}, "two": {"gpu": "ondemand"}}


def test_news_of_workloads_nobody_knows_changes_nothing() -> None:
    lab = Lab(queue("q", 4))
    before = fingerprint(lab.engine)
    lab.engine.apply(Finished("ns/x"), Released("ns/x"), Evicted("ns/x", "Preempted"))
    assert fingerprint(lab.engine) == before


def test_a_workload_that_went_first_was_evicted_and_came_back_later_is_found_again() -> None:
    """It preempted (so it was taken before its turn), ran, was evicted, and waits under a new rank."""
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("low", "q", 4)
    lab.submit("mid", "q", 4, priority=1)
    lab.release(lab.cycle())
    assert "mid" in admitted(lab.cycle())
    lab.submit("high", "q", 4, priority=2)
    plan = lab.cycle()
    for victim in plan.preemptions:
        lab.engine.apply(Released(victim.key, replace(lab.engine.items[victim.key].workload, ordered_at=lab.now)))
    lab.engine.validate()
    assert "high" in admitted(lab.cycle())
    lab.settle()
    lab.finish("high")
    lab.settle()
    assert lab.running() == {"mid"}
    lab.finish("mid")
    lab.settle()
    assert lab.running() == {"low"}


def test_the_number_of_pods_is_no_reason_against_taking_back_quota() -> None:
    """Upstream counts pods when it looks for flavors and not when it looks for victims: that a workload would borrow
    pods does not keep it from what is its own of everything else."""
    reclaims = {"reclaim": "LowerPriority"}
    lab = Lab(
        cohort("c", limits={"default": {"gpu": 0, "pods": 3}}),
        queue("a", {"default": {"gpu": 4, "pods": 9}}, "c"),
        queue("b", {"default": {"gpu": 2, "pods": 2}}, "c", **reclaims),
    )
    lab.run("hog", "a", 6)
    lab.run("small", "b", 0)
    lab.submit("two", "b", 1, count=2, priority=100)
    plan = lab.cycle()
    assert preempted(plan) == {"hog": "InCohortReclamation"}
    lab.release(plan)
    assert "two" in admitted(lab.cycle())
