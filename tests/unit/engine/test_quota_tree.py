"""Quota in a tree: what is local, what is lent, what is in debt. The worked examples of the reference, to the number."""

from __future__ import annotations

import pytest

from gpuaas.engine.amounts import UNLIMITED
from gpuaas.engine.tree import lowest_fit
from gpuaas.engine.values import StopPolicy

from .builders import GPU, Lab, cohort, queue


def test_a_lending_limit_keeps_the_rest_local_and_a_borrowing_limit_caps_what_is_taken() -> None:
    lab = Lab(queue("a", (10, 5, 4), "co"), queue("b", 10, "co"))
    a, b, fr = lab.queue("a"), lab.queue("b"), lab.fr()
    assert (a.local[fr], a.parent.subtree[fr]) == (6, 14)
    assert (lab.free("a"), lab.free("b")) == (15, 14)
    assert (a.potential[fr], b.potential[fr]) == (15, 14)
    lab.run("a8", "a", 8)
    assert (a.parent.usage[fr], lab.free("a"), lab.free("b")) == (2, 7, 12)
    lab.run("b12", "b", 12)
    assert (a.parent.usage[fr], lab.free("a"), lab.free("b")) == (14, 0, 0), "a's unused 2 of nominal are lent out"
    lab.finish("a8")
    assert (a.parent.usage[fr], lab.free("a"), lab.free("b")) == (12, 8, 2)


def test_the_quota_that_is_left_is_told_by_flavor_and_of_no_queue_that_admits_nothing() -> None:
    lab = Lab(queue("a", (10, 5, 4), "co"), queue("b", 10, "co"), queue("held", 10, stop=StopPolicy.HOLD))
    lab.run("a8", "a", 8)
    flavor = next(iter(lab.engine.left("a") or {}))[0]
    assert lab.engine.left("a") == {(flavor, GPU): lab.free("a")} == {(flavor, GPU): 7}
    assert lab.engine.left("held") is None
    assert lab.engine.left("unknown") is None


@pytest.fixture
def hierarchy() -> Lab:
    return Lab(
        cohort("left", "root", (4, 6, 2)), cohort("right", "root"),
        queue("a", 10, "left"), queue("b", 0, "left"), queue("c", 20, "right"),
    )  # fmt: skip


def test_cohorts_lend_their_subtree_and_heights_count_levels(hierarchy: Lab) -> None:
    fr = hierarchy.fr()
    left, right = hierarchy.queue("a").parent, hierarchy.queue("c").parent
    assert (left.subtree[fr], left.local[fr], right.subtree[fr], left.parent.subtree[fr]) == (14, 12, 20, 22)
    assert (left.height, left.parent.height) == (1, 2)
    assert [hierarchy.free(name) for name in "abc"] == [20, 20, 22]
    assert [hierarchy.queue(name).potential[fr] for name in "abc"] == [20, 20, 22]


@pytest.mark.parametrize(
    ("name", "amount", "level", "more_above"),
    [("b", 1, 1, True), ("a", 10, 0, True), ("a", 11, 2, False), ("c", 20, 0, True), ("c", 21, 2, False)],
)
def test_borrowing_levels_are_heights_of_the_lowest_subtree_that_fits(
    hierarchy: Lab, name: str, amount: int, level: int, more_above: bool
) -> None:
    hierarchy.run("b13", "b", 13)
    left, fr = hierarchy.queue("b").parent, hierarchy.fr()
    assert (left.usage[fr], left.parent.usage[fr]) == (13, 1)
    assert [hierarchy.free(name) for name in "abc"] == [7, 7, 21]
    assert lowest_fit(hierarchy.queue(name), fr, amount) == (level, more_above)


def test_what_the_root_has_left_is_all_that_anybody_can_take(hierarchy: Lab) -> None:
    hierarchy.run("b13", "b", 13)
    hierarchy.run("c20", "c", 20)
    assert [hierarchy.free(name) for name in "abc"] == [1, 1, 1]


def test_an_ancestor_in_debt_takes_even_from_a_queues_own_lendable_quota() -> None:
    lab = Lab(queue("a", 10, "co"), queue("b", (10, None, 3), "co"))
    lab.run("a13", "a", 13)
    assert (lab.free("a"), lab.free("b")) == (0, 7)
    lab.tell(queue("a", 5, "co"))
    assert lab.free("a") == -5, "clamped only where it is asked for"
    assert lab.free("b") == 2, "b is idle with nominal 10, and only its local part is safe"
    lab.submit("b3", "b", 3)
    assert lab.settle()[-1].admissions == []
    lab.submit("b2", "b", 2)
    lab.settle()
    assert lab.running() == {"a13", "b2"}


def test_a_queue_without_cohort_has_its_nominal_and_nothing_else() -> None:
    lab = Lab(queue("alone", 4))
    lab.run("w", "alone", 3)
    assert lab.free("alone") == 1


def test_unlimited_quota_stays_unlimited_through_sums_and_loans() -> None:
    lab = Lab(queue("a", UNLIMITED, "co"), queue("b", (2**63 - 2, None, None), "co"), queue("c", (0, 7, None), "co"))
    assert lab.queue("a").parent.subtree[lab.fr()] == UNLIMITED
    lab.run("big", "a", 2**62)
    assert lab.free("c") == 7
    lab.run("c7", "c", 7)
    assert lab.free("a") > 2**63


def test_stopping_a_queue_leaves_its_unused_quota_to_the_others() -> None:
    from gpuaas.engine.values import StopPolicy

    lab = Lab(queue("a", 10, "co"), queue("b", 10, "co", stop=StopPolicy.HOLD))
    assert lab.free("a") == 20
    lab.submit("w", "b", 1)
    assert not lab.engine.has_heads(), "a stopped queue has no heads"
    assert lab.why("w").token.value == "Suspended"


def test_cohorts_that_name_each_other_in_a_circle_admit_nothing_until_repaired() -> None:
    lab = Lab(cohort("x", "y"), cohort("y", "x"), queue("a", 10, "x"))
    lab.submit("w", "a", 1)
    assert lab.cycle().admissions == []
    lab.tell(cohort("y"))
    lab.settle()
    assert lab.running() == {"w"}
