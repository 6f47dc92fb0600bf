"""What is free for a user: the smaller of quota and nodes, by flavor; and what fits on one node."""

from __future__ import annotations

import time

import pytest

from gpuaas.views.free import MOST_QUEUES, NodeOffer, UsableQueue, free_rows, stock_of

GPU = "nvidia.com/gpu"
KINDS = {"h200": {"kind": "h200"}, "l4": {"kind": "l4"}, "any": {}, "spot": {"kind": "h200", "spot": "true"}}


def offer(kind: str, free: int, total: int = 8, *, usable: bool = True, **labels: str) -> NodeOffer:
    return NodeOffer(kind.upper(), {"kind": kind, **labels}, {GPU: (total, free)}, usable=usable)


def left(**flavors: int) -> dict[tuple[str, str], int]:
    return {(name, GPU): amount for name, amount in flavors.items()}


HALF_FREE = [offer("h200", 4), offer("h200", 4), offer("h200", 4), offer("h200", 4)]
MINE = [UsableQueue("team", "lq", "cq")]
CASES = {
    "quota is the limit": (HALF_FREE, left(h200=3), (32, 16, 4, 3, 3)),
    "nodes are the limit: 16 free, none placeable for 16": (HALF_FREE, left(h200=100), (32, 16, 4, 16, 4)),
    "no quota is left": (HALF_FREE, left(h200=0), (32, 16, 4, 0, 0)),
    "no queue admits": (HALF_FREE, None, (32, 16, 4, 0, 0)),
    "a flavor of other nodes": (HALF_FREE, left(l4=9), (32, 16, 4, 0, 0)),
    "a flavor that is not there": (HALF_FREE, left(gone=9), (32, 16, 4, 0, 0)),
    "a flavor without labels is for all": (HALF_FREE, left(any=9), (32, 16, 4, 9, 4)),
    "flavors of the same nodes do not make more of them": (HALF_FREE, left(any=12, h200=12), (32, 16, 4, 16, 4)),
    "flavors add up": (
        [offer("h200", 8), offer("h200", 2, spot="true")],
        left(h200=4, spot=9),
        (16, 10, 8, 6, 4),
    ),
    "nodes that take no pods": ([offer("h200", 8, usable=False), offer("h200", 1)], left(h200=9), (16, 1, 1, 1, 1)),
    "another resource": (HALF_FREE, {("h200", "cpu"): 9}, (32, 16, 4, 0, 0)),
    "no nodes": ([], left(h200=9), None),
}


@pytest.mark.parametrize(("nodes", "quota", "found"), CASES.values(), ids=CASES)
def test_what_is_free(
    nodes: list[NodeOffer], quota: dict[tuple[str, str], int] | None, found: tuple[int, ...] | None
) -> None:
    rows = free_rows(stock_of(nodes, KINDS), MINE, {} if quota is None else {"cq": quota})
    if found is None:
        assert rows == []
        return
    (row,) = rows
    assert (row.product, row.resource) == ("H200", GPU)
    assert (row.total, row.free, row.largest, row.for_you, row.largest_for_you) == found


def test_slices_and_shares_are_parts_of_cards() -> None:
    slices = NodeOffer("A100", {}, {"nvidia.com/mig-1g.5gb": (56, 56)})
    shared = NodeOffer("L4", {}, {GPU: (3, 3), f"{GPU}.shared": (4, 4)}, shares={f"{GPU}.shared": 4})
    rows = free_rows(stock_of([slices, shared], {}), [], {})
    assert [(row.resource, row.total, row.cards) for row in rows] == [
        ("nvidia.com/mig-1g.5gb", 56, "8"),
        (GPU, 3, "3"),
        (f"{GPU}.shared", 4, "1"),
    ]


def test_products_have_rows_of_their_own() -> None:
    nodes = [offer("l4", 2), offer("h200", 8)]
    rows = free_rows(stock_of(nodes, KINDS), MINE, {"cq": left(l4=1, h200=2)})
    assert [(row.product, row.free, row.for_you) for row in rows] == [("H200", 8, 2), ("L4", 2, 1)]


def test_the_best_queue_counts_not_their_sum() -> None:
    """One job goes through one queue, and queues of a cohort share what they have."""
    queues = [UsableQueue("a", "x", "small"), UsableQueue("b", "y", "big"), UsableQueue("c", "z", "none")]
    quotas = {"small": left(h200=2), "big": left(h200=7), "none": left(h200=0)}
    (row,) = free_rows(stock_of(HALF_FREE, KINDS), queues, quotas)
    assert (row.for_you, row.largest_for_you) == (7, 4)
    assert [(each.namespace, each.queue, each.cluster_queue, each.free, each.largest) for each in row.queues] == [
        ("b", "y", "big", 7, 4),
        ("a", "x", "small", 2, 2),
    ]


def test_a_user_of_many_queues_sees_the_best() -> None:
    queues = [UsableQueue("ns", f"q{number:03}", f"cq{number}") for number in range(100)]
    quotas = {f"cq{number}": left(h200=number) for number in range(100)}
    (row,) = free_rows(stock_of(HALF_FREE, KINDS), queues, quotas)
    assert len(row.queues) == MOST_QUEUES
    assert row.queues[0].queue == "q016", "of those that are limited by nodes alone, the first by name"


def test_a_flavor_for_each_host_costs_what_its_hosts_cost() -> None:
    """The classes of nodes are as many as the nodes, and so are the flavors: looking at each pair would take minutes."""
    hosts = 4_000
    nodes = [offer("h200", 4, host=f"n{number}") for number in range(hosts)]
    flavors = {f"f{number}": {"host": f"n{number}"} for number in range(hosts)}
    started = time.process_time()
    stock = stock_of(nodes, flavors)
    assert time.process_time() - started < 5
    assert all(sums["H200", GPU].free == 4 for sums in stock.by_flavor.values())
