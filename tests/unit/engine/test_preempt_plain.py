"""Where queues stand directly below one cohort and lend everything, victims are found by adding up. They are the same, in
the same order, as those that are found by taking one after the other out of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.engine import nominate, preempt
from gpuaas.engine.changes import Finished, Released
from gpuaas.engine.preempt import Hunt, Target

from .builders import Lab, cohort, queue

RESOURCES = ("cpu", "gpu")
QUEUES = ("a", "b", "c")
within = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
reclaims = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any", "Any"])


@contextmanager
def compared(seen: list[list[Target]]) -> Iterator[None]:
    """Every search in a plain cohort is made both ways; `seen` gets what was found."""
    classical, is_plain = nominate.classical, preempt._is_plain

    def both_ways(hunt: Hunt) -> list[Target]:
        found = classical(hunt)
        if is_plain(hunt):
            preempt._is_plain = lambda _: False
            try:
                assert found == classical(hunt)
            finally:
                preempt._is_plain = is_plain
            seen.append(found)
        return found

    nominate.classical = both_ways
    try:
        yield
    finally:
        nominate.classical = classical


@st.composite
def labs(draw: st.DrawFn) -> Lab:
    def limits() -> dict[str, tuple[int, int | None]]:
        return {r: (draw(st.integers(0, 6)), draw(st.none() | st.integers(0, 9))) for r in RESOURCES}

    return Lab(
        cohort("all", limits={"default": {r: draw(st.integers(0, 4)) for r in RESOURCES}}),
        *(
            queue(
                name, {"default": limits()}, cohort="all", within=draw(within), reclaim=draw(reclaims),
                borrow_within=draw(st.booleans()), threshold=draw(st.none() | st.integers(0, 2)),
                strict=draw(st.booleans()),
            )
            for name in QUEUES
        ),
    )  # fmt: skip


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_adding_up_finds_the_victims_that_taking_out_one_by_one_finds(data: st.DataObject) -> None:
    lab = data.draw(labs())
    leaving: list[str] = []
    with compared([]):
        for number in range(data.draw(st.integers(1, 40))):
            requests = {r: data.draw(st.integers(0, 5)) for r in RESOURCES}
            into = data.draw(st.sampled_from(QUEUES))
            lab.submit(f"w{number}", into, requests, priority=data.draw(st.integers(0, 3)))
            plan = lab.cycle()
            leaving += [victim.key for victim in plan.preemptions]
            match data.draw(st.integers(0, 5)):
                case 0 if leaving:
                    lab.engine.apply(Released(leaving.pop(0)))
                case 1 if leaving:
                    lab.engine.apply(Finished(leaving.pop()))
                case 2:
                    go_on(lab)
                    leaving.clear()


def go_on(lab: Lab) -> None:
    """Some cycles: two workloads may take each other's place for ever, as they do upstream, where each of them borrows."""
    for _ in range(20):
        if lab.engine.unsettled():
            lab.release(lab.cycle())


def crowd() -> Lab:
    """Two queues run many small ones on borrowed quota; the third has its nominal quota, and something of its own."""
    lab = Lab(
        cohort("all"),
        *(queue(name, (10, 20), cohort="all", within="LowerPriority", reclaim="Any") for name in QUEUES),
    )
    lab.run("own", "c", 1)
    for number in range(29):
        lab.run(f"w{number}", "ab"[number % 2], 1)
    return lab


@pytest.mark.parametrize(
    ("gpus", "victims"),
    [
        (1, ["w28"]),
        (3, ["w26", "w27", "w28"]),
        (9, ["w20", "w21", "w22", "w23", "w24", "w25", "w26", "w27", "w28"]),
        (10, ["own", "w20", "w21", "w22", "w23", "w24", "w25", "w26", "w27", "w28"]),
    ],
)
def test_no_more_leave_than_are_needed_and_the_own_ones_last(gpus: int, victims: list[str]) -> None:
    lab, seen = crowd(), list[list[Target]]()
    lab.submit("large", "c", gpus, priority=1)
    with compared(seen):
        plan = lab.cycle()
    assert sorted(victim.key.removeprefix("ns/") for victim in plan.preemptions) == victims
    assert any(seen)


def test_the_last_one_taken_comes_to_stand_where_a_spared_one_stood() -> None:
    lab = Lab(cohort("all"), queue("a", 1, cohort="all"), queue("c", 10, cohort="all", reclaim="Any"))
    for name, gpus in (("first", 5), ("second", 5), ("spared", 1)):
        lab.run(name, "a", gpus)
    lab.submit("large", "c", 10)
    with compared([]):
        plan = lab.cycle()
    assert [victim.key for victim in plan.preemptions] == ["ns/first", "ns/second"]
