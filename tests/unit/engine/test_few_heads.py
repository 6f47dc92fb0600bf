"""A cycle may be told how many heads are enough: the other trees are looked at in the next ones, and none is forgotten."""

from __future__ import annotations

import pytest

from gpuaas.engine.topology_values import HOSTNAME, Topology

from .builders import Lab, cohort, queue


def told(lab: Lab, heads: int) -> tuple[list[list[str]], list[int]]:
    """Who was admitted in each cycle, and how many trees were left, until there is nothing to decide."""
    admitted, left = [], []
    while lab.engine.unsettled():
        plan = lab.engine.cycle(lab.now, heads)
        lab.engine.validate()
        admitted.append([each.key.removeprefix("ns/") for each in plan.admissions])
        left.append(plan.left)
    return admitted, left


def five_queues(**config: bool) -> Lab:
    lab = Lab(*(queue(f"q{number}", 1) for number in range(5)), **config)
    for number in range(5):
        lab.submit(f"a{number}", f"q{number}")
        lab.submit(f"b{number}", f"q{number}")
    return lab


def test_trees_are_looked_at_in_turns() -> None:
    admitted, left = told(five_queues(), 2)
    assert [sorted(each) for each in admitted[:3]] == [["a0", "a1"], ["a2", "a3"], ["a4"]]
    assert left[:2] == [3, 3]  # the first two want another look, and get it after the others
    assert not any(admitted[3:])


def test_enough_heads_is_every_tree() -> None:
    admitted, left = told(five_queues(), 100)
    assert sorted(admitted[0]) == ["a0", "a1", "a2", "a3", "a4"]
    assert not any(left)


def test_the_queues_of_one_cohort_are_never_looked_at_apart() -> None:
    lab = Lab(cohort("c"), *(queue(f"q{number}", 1, cohort="c") for number in range(5)))
    for number in range(5):
        lab.submit(f"a{number}", f"q{number}")
    admitted, _ = told(lab, 2)
    assert sorted(admitted[0]) == ["a0", "a1", "a2", "a3", "a4"]


@pytest.mark.parametrize("why", ["places", "one at a time"])
def test_where_trees_depend_on_each_other_all_are_looked_at_together(why: str) -> None:
    lab = five_queues(block_admission=why == "one at a time")
    if why == "places":
        lab.engine.apply(Topology("t", (HOSTNAME,)))
    plan = lab.engine.cycle(lab.now, 2)
    assert (plan.heads, plan.left) == (5, 0)
