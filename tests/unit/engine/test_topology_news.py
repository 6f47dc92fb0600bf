"""What happens to places afterwards: nodes that fail, pods of others, topologies and flavors that go and come again."""

from __future__ import annotations

import pytest

from gpuaas.engine.changes import Gone, OtherUsage
from gpuaas.engine.constraints import Requirement
from gpuaas.engine.topology_values import Topology, TopologyRequest
from gpuaas.engine.values import Flavor

from .builders import Lab
from .test_topology import LEVELS, RACK, TWO_RACKS, fleet, node, places


def gone(lab: Lab, name: str) -> None:
    lab.tell(Gone("Node", name))


@pytest.mark.parametrize(
    ("request_", "count", "failed", "expected"),
    [
        pytest.param(
            None, 1, "b1-r1-n1", {"b1-r1-n2": 1}, id="whatever was not asked for: anywhere, the fullest place first"
        ),
        pytest.param(
            TopologyRequest(required="block"),
            3,
            "b1-r1-n1",
            {"b1-r1-n2": 1, "b1-r2-n1": 1, "b1-r2-n2": 1},
            id="within the required domain",
        ),
        pytest.param(
            TopologyRequest(required=RACK), 1, "b1-r1-n1", {"b1-r1-n2": 1}, id="nothing left of it: any such domain"
        ),
        pytest.param(
            TopologyRequest(slices=((RACK, 2),)),
            2,
            "b1-r1-n1",
            "topology level not specified",
            id="half a slice has to stay with its other half",
        ),
        pytest.param(
            TopologyRequest(required=RACK),
            2,
            "b1-r1-n1",
            'topology "topo" doesn\'t allow to fit any of 1 pod(s). '
            'Total nodes: 3; excluded: resource "gpu": 1, topologyDomain: 2',
            id="nothing free where the others are",
        ),
    ],
)
def test_pods_of_a_failed_node_get_other_places(
    request_: TopologyRequest | None, count: int, failed: str, expected: dict[str, int] | str
) -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("w", "q", 4, count=count, topology=request_)
    before = places(lab, "w")
    assert failed in before
    gone(lab, failed)
    name, words = lab.engine.place("ns/w", failed=failed)
    if isinstance(expected, str):
        assert (name, words) == ("main", expected)
        assert places(lab, "w") == before
    else:
        assert (name, words) == ("", "")
        assert places(lab, "w") == expected
    lab.engine.validate()


def test_part_of_a_slice_goes_back_into_its_own_domain() -> None:
    lab = fleet(*[node(f"b1-r{r}-n{n}", 8) for r in (1, 2) for n in (1, 2, 3)])
    lab.run("w", "q", 4, count=4, topology=TopologyRequest(required="block", slices=((RACK, 4),)))
    assert places(lab, "w") == {"b1-r1-n1": 2, "b1-r1-n2": 2}
    gone(lab, "b1-r1-n1")
    assert lab.engine.place("ns/w", failed="b1-r1-n1") == ("", "")
    assert places(lab, "w") == {"b1-r1-n2": 2, "b1-r1-n3": 2}


def test_a_second_place_that_is_gone_leaves_nothing_to_mend() -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("w", "q", 4, count=2, topology=TopologyRequest(preferred=RACK))
    gone(lab, "b1-r1-n1")
    gone(lab, "b1-r1-n2")
    _, words = lab.engine.place("ns/w", failed="b1-r1-n1")
    assert words.endswith("as it contains the stale domain b1-r1-n2")


def test_pods_of_others_take_room_on_nodes() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(OtherUsage("b1-r1-n1", (("gpu", 2), ("pods", 1))))
    lab.submit("w", "q", 4)
    lab.settle()
    assert lab.running() == set()
    lab.tell(OtherUsage("b1-r1-n1", ()))
    lab.settle()
    assert lab.running() == set()  # there is room, but nobody has been told to look
    lab.tell(OtherUsage("b1-r1-n1", (), wakes=True))
    lab.settle()
    assert lab.running() == {"w"}


def test_room_others_take_is_not_counted_twice_when_the_node_itself_changes() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.run("first", "q", 1)
    lab.tell(OtherUsage("b1-r1-n1", (("gpu", 1),)))
    lab.tell(node("b1-r1-n1", 8), OtherUsage("b1-r1-n1", (("gpu", 1),)))
    lab.run("w", "q", 6)
    assert lab.running() == {"first", "w"}
    lab.submit("one more", "q", 1)
    lab.settle()
    assert lab.running() == {"first", "w"}


@pytest.mark.parametrize("kind", ["Topology", "Flavor"])
def test_what_is_held_counts_again_when_its_flavor_and_topology_are_back(kind: str) -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.run("w", "q", 4)
    lab.tell(Gone(kind, "topo" if kind == "Topology" else "l4"))  # type: ignore[arg-type]
    lab.settle()
    lab.tell(Topology("topo", LEVELS), Flavor("l4", topology="topo"))
    lab.submit("late", "q", 1)
    lab.settle()
    assert lab.running() == {"w"}
    lab.finish("w")
    lab.settle()
    assert lab.running() == {"late"}
    lab.engine.validate()


def test_nodes_the_pods_would_rather_be_on_come_first() -> None:
    near, far = (("zone", "near"),), (("zone", "far"),)
    lab = fleet(node("b1-r1-n1", 4, labels=far), node("b1-r1-n2", 8, labels=near), node("b1-r2-n1", 4, labels=near))
    wish = ((10, (Requirement("zone", "In", ("near",)),)),)
    lab.run("fits best", "q", 4, topology=TopologyRequest(required=RACK))
    assert places(lab, "fits best") == {"b1-r2-n1": 1}
    lab.run("would rather", "q", 4, preferred=wish)
    assert places(lab, "would rather") == {"b1-r1-n2": 1}
    lab.run("too many", "q", 4, count=2, preferred=wish)
    assert places(lab, "too many") == {"b1-r1-n1": 1, "b1-r1-n2": 1}
