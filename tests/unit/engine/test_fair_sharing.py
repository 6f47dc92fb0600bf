"""Fair sharing: shares, the tournament, and who gives under the two strategies. The reference's worked examples."""

from __future__ import annotations

import pytest

from gpuaas.engine.amounts import MAX_INT64
from gpuaas.engine.shares import share

from .builders import Lab, admitted, cohort, preempted, queue


def three(**more: object) -> Lab:
    """a, b, c of nominal 3 each; a runs six units, b three, c nothing."""
    policy = {"within": "LowerPriority", "reclaim": "Any", **more}
    lab = Lab(*(queue(name, 3, "co", **policy) for name in "abc"), fair=True)
    for i in range(3):
        lab.run(f"b{i}", "b")
    for i in range(6):
        lab.run(f"a{i}", "a")
    return lab


def test_a_queue_that_would_borrow_stops_where_shares_become_equal() -> None:
    lab = three()
    lab.submit("c4", "c", 4)
    assert preempted(lab.cycle()) == {}


def test_within_its_nominal_a_queue_gets_its_own_back_unconditionally() -> None:
    lab = three()
    lab.submit("c3", "c", 3)
    assert preempted(lab.cycle()) == dict.fromkeys(("a3", "a4", "a5"), "InCohortReclamation")


def test_a_larger_share_gives_way_to_a_smaller_one() -> None:
    lab = Lab(*(queue(name, 0, "co", reclaim="Any") for name in "ab"), cohort("co", None, 6), fair=True)
    for i in range(6):
        lab.run(f"a{i}", "a")
    lab.submit("b2", "b", 2)
    assert preempted(lab.cycle()) == dict.fromkeys(("a4", "a5"), "InCohortFairSharing")


@pytest.mark.parametrize(("name", "status"), [("a", 167), ("b", 84), ("c", MAX_INT64)])
def test_shares_are_borrowed_per_lendable_divided_by_weight(name: str, status: int) -> None:
    lab = Lab(
        queue("a", 6, "co", weight=1.0), queue("b", 6, "co", weight=2.0), queue("c", 0, "co", weight=0.0), cohort("co", None, 5),
        fair=True,
    )  # fmt: skip
    lab.run("a8", "a", 8)
    lab.run("b8", "b", 8)
    lab.run("c1", "c", 1)
    lab.tell(cohort("co"))
    assert share(lab.queue(name), lab.engine.forest.frs).status == status


def test_of_two_heads_the_one_that_leaves_its_queue_with_the_smaller_share_goes_first() -> None:
    lab = Lab(queue("a", 0, "co"), queue("b", 0, "co"), cohort("co", None, 4), fair=True)
    lab.run("a1", "a", 2)
    lab.submit("a2", "a", 2, priority=100)
    lab.submit("b1", "b", 2)
    assert set(admitted(lab.cycle())) == {"b1"}


def test_a_head_within_its_own_quota_goes_before_any_share() -> None:
    lab = Lab(queue("own", 2, "co"), queue("idle", 0, "co"), cohort("co", None, 0), queue("lender", 2, "co"), fair=True)
    lab.run("x", "own", {"gpu": 2})
    lab.finish("x")
    lab.submit("borrows", "idle", 4, priority=100)
    lab.submit("owns", "own", 2)
    assert set(admitted(lab.cycle())) == {"owns"}


def test_the_classical_rules_ignore_weights_and_fair_sharing_ignores_borrow_within_cohort() -> None:
    classical = Lab(
        *(queue(n, 0, "co", reclaim="Any", weight=w) for n, w in (("a", 0.0), ("b", 9.0))), cohort("co", None, 2)
    )
    classical.run("a2", "a", 2)
    classical.submit("b2", "b", 2)
    assert preempted(classical.cycle()) == {}
    fair = Lab(
        queue("a", 0, "co", reclaim="Any"), queue("b", 0, "co", reclaim="Any", borrow_within=False), cohort("co", None, 2),
        fair=True,
    )  # fmt: skip
    fair.run("a1", "a", 1)
    fair.run("a1b", "a", 1)
    fair.submit("b1", "b", 1)
    assert set(preempted(fair.cycle()).values()) == {"InCohortFairSharing"}
