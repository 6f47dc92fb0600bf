"""Pods that prefer a level are spread evenly over as few places as hold them, where that is asked for."""

from __future__ import annotations

import pytest

from gpuaas.engine.topology_values import HOSTNAME, Node, Topology, TopologyRequest
from gpuaas.engine.values import Flavor, PodSet

from .builders import Lab, queue
from .test_topology import LEVELS, RACK, node, places

FOUR = (node("b1-r1-x1", 12), node("b1-r1-x2", 12), node("b1-r2-x3", 14), node("b1-r2-x4", 6))


def even(*nodes: Node) -> Lab:
    lab = Lab(Topology("topo", LEVELS), *nodes, balanced=True)
    lab.tell(Flavor("l4", topology="topo"), queue("q", {"l4": 1000}))
    return lab


@pytest.mark.parametrize(
    ("nodes", "request_", "count", "expected"),
    [
        pytest.param(
            FOUR,
            TopologyRequest(preferred=RACK, slices=((HOSTNAME, 4),)),
            16,
            {"b1-r1-x1": 8, "b1-r1-x2": 8},
            id="the rack that can do it evenly, not the one it would fill best",
        ),
        pytest.param(
            tuple(node(f"b1-r1-n{n}", 4) for n in range(1, 5)),
            TopologyRequest(preferred=RACK),
            6,
            {"b1-r1-n1": 3, "b1-r1-n2": 3},
            id="three and three, not four and two",
        ),
        pytest.param(
            (node("b1-r1-n1", 4), node("b1-r1-n2", 1)),
            TopologyRequest(preferred=RACK),
            5,
            {"b1-r1-n1": 4, "b1-r1-n2": 1},
            id="as even as it can be",
        ),
        pytest.param(
            FOUR,
            TopologyRequest(required=RACK),
            20,
            {"b1-r2-x3": 14, "b1-r2-x4": 6},
            id="what is required is placed as ever",
        ),
    ],
)
def test_workers(nodes: tuple[Node, ...], request_: TopologyRequest, count: int, expected: dict[str, int]) -> None:
    lab = even(*nodes)
    lab.run("w", "q", 1, count=count, topology=request_)
    assert places(lab, "w") == expected


def test_a_leader_goes_with_one_of_the_shares() -> None:
    lab = even(*FOUR)
    leader = PodSet("leader", 1, (("gpu", 1),), topology=TopologyRequest(preferred=RACK, group="g"))
    asked = TopologyRequest(preferred=RACK, slices=((HOSTNAME, 5),), group="g")
    lab.run("w", "q", pod_sets=(leader, PodSet("worker", 30, (("gpu", 1),), topology=asked)))
    assert places(lab, "w", "leader") == {"b1-r1-x1": 1}
    assert places(lab, "w", "worker") == {"b1-r1-x1": 10, "b1-r1-x2": 10, "b1-r2-x3": 10}


def test_what_does_not_fit_still_says_why() -> None:
    lab = even(node("b1-r1-n1", 2))
    lab.submit("w", "q", 1, count=3, topology=TopologyRequest(preferred=RACK))
    lab.settle()
    assert lab.running() == set()
