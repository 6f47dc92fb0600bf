"""An elastic job that grows: its new slice takes over what the old one holds and needs room only for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuaas.engine.changes import Evicted, Reserved
from gpuaas.engine.checks import fingerprint
from gpuaas.engine.values import PodSet, PodSetAdmission, Workload

from .builders import GPU, Lab, admitted, passed, preempted, queue


def grow(lab: Lab, name: str, of: str, to: int, queue_name: str = "q", **more: object) -> Workload:
    return lab.submit(name, queue_name, 1, count=to, replaces=f"ns/{of}", **more)


def test_a_slice_needs_room_only_for_what_it_asks_beyond_the_one_before() -> None:
    lab = Lab(queue("q", 5))
    lab.run("old", "q", 1, count=3)
    lab.run("other", "q", 1)
    grow(lab, "new", "old", 4)
    plan = lab.cycle()
    assert set(admitted(plan)) == {"new"}
    assert plan.admissions[0].replaces == "ns/old"
    assert plan.admissions[0].pod_sets == (PodSetAdmission("main", (("gpu", "default"),), (("gpu", 4),), 4),)
    assert "ns/old" not in lab.engine.items, "what it held has passed on"
    assert lab.free("q") == 0


def test_a_slice_that_has_no_room_to_grow_waits_and_leaves_the_one_before_alone() -> None:
    lab = Lab(queue("q", 5))
    lab.run("old", "q", 1, count=3)
    grow(lab, "new", "old", 6)
    plan = lab.cycle()
    assert not plan.changed
    assert "ns/old" in lab.engine.items
    assert passed(plan, "new").message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor default, 1 more needed"
    )


def test_once_room_is_there_it_is_looked_at_again() -> None:
    lab = Lab(queue("q", 4))
    lab.run("old", "q", 1, count=2)
    lab.run("other", "q", 2)
    grow(lab, "new", "old", 4)
    assert not lab.cycle().changed
    lab.finish("other")
    assert set(admitted(lab.cycle())) == {"new"}


def test_of_two_in_one_cycle_the_second_sees_what_the_first_has_taken_over_and_no_more() -> None:
    lab = Lab(queue("q", 5), queue("r", 0, "co"))
    lab.tell(queue("q", 5, "co"))
    lab.run("old", "q", 1, count=3)
    grow(lab, "new", "old", 4)
    lab.submit("one", "r", 1)
    lab.submit("two", "r", 1)
    lab.settle()
    assert lab.running() == {"new", "one"}
    assert lab.free("q") == 0


def test_a_slice_preempts_for_the_rest_alone() -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("old", "q", 1, count=2, priority=10)
    lab.run("first", "q", 1, priority=1)
    lab.run("second", "q", 1)
    grow(lab, "new", "old", 3, priority=10)
    plan = lab.cycle()
    assert preempted(plan) == {"second": "InClusterQueue"}
    lab.release(plan)
    assert set(admitted(lab.cycle())) == {"new"}
    assert lab.running() == {"new", "first"}


def test_its_pods_keep_the_flavor_they_run_in() -> None:
    lab = Lab(queue("q", {"small": 2, "large": 10}))
    lab.run("old", "q", 1, count=2)
    grow(lab, "new", "old", 3)
    plan = lab.cycle()
    assert not plan.changed
    words = passed(plan, "new").message
    assert "could not assign large flavor since the original workload is assigned: small" in words
    assert "insufficient unused quota for gpu in flavor small, 1 more needed" in words


def test_pod_sets_that_stay_as_they_are_are_not_counted_twice_and_one_may_shrink() -> None:
    lab = Lab(queue("q", 10))
    two = (PodSet("head", 1, ((GPU, 2),)), PodSet("workers", 4, ((GPU, 1),)))
    lab.run("old", "q", pod_sets=two)
    lab.submit("new", "q", pod_sets=(replace(two[0], count=3), replace(two[1], count=2)), replaces="ns/old")
    assert set(admitted(lab.cycle())) == {"new"}
    assert lab.free("q") == 2


@pytest.mark.parametrize(
    "why", ["it is unknown", "it waits itself", "it runs in another queue", "it is being evicted", "it is not of here"]
)
def test_whoever_has_nothing_to_pass_on_is_not_counted_on(why: str) -> None:
    lab = Lab(queue("q", 3), queue("r", 3))
    replaces = "ns/old"
    match why:
        case "it waits itself":
            lab.submit("old", "q", 9)
        case "it runs in another queue":
            lab.run("old", "r", 2)
        case "it is being evicted":
            lab.run("old", "q", 2)
            lab.tell(Evicted("ns/old", "Preempted"))
        case "it is not of here":
            lab.run("old", "q", 2)
            replaces = "other/old"
    lab.submit("new", "q", 1, count=2, replaces=replaces, priority=1)
    plan = lab.cycle()
    fits = why in ("it is unknown", "it waits itself", "it runs in another queue")
    assert bool(plan.admissions) is fits
    assert all(each.replaces == "" for each in plan.admissions)


def test_who_is_being_preempted_in_the_same_cycle_is_not_taken_over() -> None:
    lab = Lab(queue("q", 4, "co"), queue("r", 4, "co", reclaim="Any"))
    lab.run("old", "q", 1, count=6)
    lab.submit("claims", "r", 4)
    grow(lab, "new", "old", 7, priority=-1)
    plan = lab.cycle()
    assert preempted(plan) == {"old": "InCohortReclamation"}
    assert admitted(plan) == {}


def test_a_decision_that_could_not_be_written_is_taken_back() -> None:
    lab = Lab(queue("q", 5))
    lab.run("old", "q", 1, count=3)
    old = lab.engine.items["ns/old"]
    before = Reserved(old.workload, "q", old.admission or (), old.reserved_at or 0)
    new = grow(lab, "new", "old", 4)
    assert set(admitted(lab.cycle())) == {"new"}
    lab.finish("new")
    lab.tell(before)
    assert lab.free("q") == 2
    lab.tell(new)
    assert set(admitted(lab.cycle())) == {"new"}


def test_trying_it_out_leaves_nothing_behind() -> None:
    lab = Lab(queue("q", 5))
    lab.run("old", "q", 1, count=3)
    new = lab.workload("new", "q", 1, count=4, replaces="ns/old")
    before = fingerprint(lab.engine)
    with lab.engine.what_if() as trial:
        trial.apply(new)
        assert set(admitted(trial.cycle(lab.now))) == {"new"}
        trial.validate()
    assert fingerprint(lab.engine) == before


def test_why_a_slice_waits_is_told_of_what_it_asks_beyond_the_one_before() -> None:
    lab = Lab(queue("q", {"small": 5, "large": 50}))
    lab.run("old", "q", 1, count=3)
    lab.run("other", "q", 2)
    grow(lab, "new", "old", 4)
    lab.cycle()
    why = lab.why("new")
    numbers = {each.flavor: (each.requested, each.missing) for each in why.numbers}
    assert numbers["small"] == (1, 1)
    remedies = {each.kind: each.words for each in why.remedies}
    assert remedies["Quota"] == "1 more gpu in small", "it cannot move to the other flavor"
    assert remedies["Departures"] == "1 workload(s) leaving: ns/other", "not what it runs on"
