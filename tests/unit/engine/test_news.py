"""Who is looked at again: after each change those who wait where it can matter, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuaas.engine.changes import Change, Gone, OtherUsage
from gpuaas.engine.topology_values import Topology
from gpuaas.engine.values import Flavor, LocalQueue, StopPolicy

from .builders import Lab, admitted, cohort, queue
from .test_topology import node

HERE, THERE = queue("here", {"red": 2}, "left"), queue("there", {"blue": 2}, "right")
MATE = queue("mate", {"red": 0}, "left")


def waiting_in_both() -> Lab:
    """Everything is taken in two cohorts, and somebody waits in each."""
    lab = Lab(HERE, MATE, THERE, cohort("left"), cohort("right"))
    for name in ("here", "there"):
        lab.run(f"{name}-runs", name, 2)
        lab.submit(f"{name}-waits", name, 1)
    lab.submit("mate-waits", "mate", 1)
    lab.settle()
    return lab


def looked_at(lab: Lab) -> set[str]:
    return {passed.key.removeprefix("ns/").removesuffix("-waits") for passed in lab.cycle().skipped}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(replace(HERE, weight=2.0), {"here", "mate"}, id="a queue says something new: its tree"),
        pytest.param(queue("fourth", {"blue": 0}, "right"), {"there"}, id="a queue comes to be: its tree"),
        pytest.param(queue("fourth", {"blue": 1}), set(), id="a queue of its own matters to nobody"),
        pytest.param(cohort("left", limits={"red": 0}), {"here", "mate"}, id="a cohort's quota: its tree"),
        pytest.param(cohort("left", "root"), {"here", "mate"}, id="a cohort gets a parent: the tree it is in now"),
        pytest.param(cohort("elsewhere"), set(), id="a cohort that nobody is in"),
        pytest.param(Flavor("blue", (("a", "b"),)), {"there"}, id="a flavor: who uses it"),
        pytest.param(Flavor("green"), set(), id="a flavor that nobody uses"),
        pytest.param(Gone("Flavor", "green"), set(), id="a flavor that nobody used goes"),
        pytest.param(Flavor("green", topology="t"), {"here", "mate", "there"}, id="a flavor with places: everybody"),
        pytest.param(node("b1-r1-n1", 8), set(), id="a node where nothing is placed"),
        pytest.param(Topology("t", ("rack",)), set(), id="a topology that no flavor has"),
        pytest.param(LocalQueue("ns", "more", "here"), set(), id="a way into a queue"),
        pytest.param(Gone("Namespace", "other"), set(), id="a namespace"),
    ],
)
def test_a_change_is_news_where_it_can_matter(change: Change, expected: set[str]) -> None:
    lab = waiting_in_both()
    lab.tell(change)
    assert looked_at(lab) == expected


def test_room_on_a_node_is_news_to_those_whose_flavors_are_there() -> None:
    lab = Lab(Topology("t", ("rack",)), Flavor("red", topology="t"), HERE, THERE)
    lab.tell(node("b1-r1-n1", 2))
    lab.submit("here-waits", "here", 3)
    lab.submit("there-waits", "there", 3)
    lab.settle()
    lab.tell(OtherUsage("b1-r1-n1", (), wakes=True))
    assert looked_at(lab) == {"here"}


def test_who_borrowed_and_leaves_the_cohort_leaves_room_behind() -> None:
    lab = Lab(queue("owner", {"red": 2}, "pool"), queue("guest", {"red": 0}, "pool"))
    lab.run("borrows", "guest", 2)
    lab.submit("waits", "owner", 2)
    lab.settle()
    lab.tell(queue("guest", {"red": 0}, "elsewhere"))
    assert "waits" in admitted(lab.cycle())


def test_a_cohort_that_leaves_with_what_it_borrowed_leaves_room_behind() -> None:
    lab = Lab(cohort("root", limits={"red": 2}), cohort("left", "root"), queue("guest", {"red": 0}, "left"))
    lab.tell(queue("owner", {"red": 0}, "root"))
    lab.run("borrows", "guest", 2)
    lab.submit("waits", "owner", 2)
    lab.settle()
    lab.tell(Gone("Cohort", "left"))
    assert "waits" in admitted(lab.cycle())


def test_who_leaves_with_its_own_quota_is_no_news_to_those_who_stay() -> None:
    lab = Lab(HERE, queue("other", {"red": 2}, "left"))
    lab.run("own", "other", 2)
    lab.run("runs", "here", 2)
    lab.submit("here-waits", "here", 1)
    lab.settle()
    lab.tell(queue("other", {"red": 2}))
    assert looked_at(lab) == set()


def test_a_circle_that_is_broken_opens_all_queues_that_were_in_it() -> None:
    lab = Lab(HERE, MATE, cohort("left", "right"), cohort("right"), THERE)
    lab.run("runs", "here", 2)
    lab.submit("here-waits", "here", 1)
    lab.settle()
    lab.tell(cohort("right", "left"))
    lab.settle()
    assert lab.queue("here").inactive is not None
    lab.tell(Gone("Cohort", "right"))
    assert looked_at(lab) == {"here"}


@pytest.mark.parametrize(
    "change", [Gone("LocalQueue", "ns/main"), LocalQueue("ns", "main", "main", StopPolicy.HOLD)], ids=["gone", "held"]
)
def test_when_a_local_queue_closes_whoever_stood_behind_its_head_is_next(change: Change) -> None:
    lab = Lab(queue("main", {"red": 2}, strict=True))
    lab.tell(LocalQueue("ns", "other", "main"))
    lab.run("holder", "main", 1)
    lab.submit("big", "main", 2)
    lab.submit("small", "other", 1)
    lab.settle()
    assert lab.pending() == {"big", "small"}
    lab.tell(change)
    lab.settle()
    assert "small" in lab.running()


def test_a_workload_that_went_and_came_again_as_it_was_waits_again() -> None:
    """What it left behind in the order has its rank, and is another's than its own."""
    lab = Lab(queue("q", 1))
    lab.run("holds", "q")
    others = [lab.submit(f"w{number}", "q") for number in range(4)]
    for _ in range(3):
        for workload in others:
            lab.finish(workload.name)
            lab.tell(workload)
    lab.finish("holds")
    assert list(admitted(lab.cycle())) == ["w0"]
