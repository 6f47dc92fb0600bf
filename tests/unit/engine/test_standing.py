"""How queues stand: what their statuses say about pending, running, used, borrowed and shares."""

from __future__ import annotations

from gpuaas.engine.standing import Used, cohort_share, local_standing, queue_standing, waiting_order
from gpuaas.engine.values import LocalQueue

from .builders import Lab, cohort, queue


def lab_with_a_borrower() -> Lab:
    lab = Lab(cohort("inner", "outer"), queue("a", 2, "inner"), queue("b", 4, "outer"))
    lab.tell(LocalQueue("ns", "other", "a"))
    lab.run("w", "a", 3)
    lab.run("o", "other", 1)
    lab.submit("too-big", "a", 3)
    lab.submit("behind", "other", 3)
    lab.settle()
    return lab


def test_a_cluster_queue() -> None:
    found = queue_standing(lab_with_a_borrower().engine, "a")
    assert found is not None
    assert (found.pending, found.inadmissible, found.reserving, found.inactive) == (2, 2, 2, None)
    assert found.used == (Used("default", "gpu", 4, 2),)
    assert found.weighted_share == 334, "borrows 2 of the 6 lendable, in thousandths, rounded up"


def test_a_local_queue_and_the_order_in_which_all_wait() -> None:
    lab = lab_with_a_borrower()
    found = local_standing(lab.engine, "ns/other")
    assert found is not None
    assert (found.pending, found.reserving, found.used) == (1, 1, (Used("default", "gpu", 1, 0),))
    assert waiting_order(lab.engine, "a") == [("ns/too-big", "ns/a", 0, 0), ("ns/behind", "ns/other", 1, 0)]


def test_cohorts_have_shares_too() -> None:
    engine = lab_with_a_borrower().engine
    assert cohort_share(engine, "inner") == 334
    assert cohort_share(engine, "outer") == 0
    assert cohort_share(engine, "nowhere") is None


def test_queues_nobody_knows() -> None:
    engine = Lab().engine
    assert queue_standing(engine, "x") is None
    assert local_standing(engine, "ns/x") is None
    assert waiting_order(engine, "x") == []
