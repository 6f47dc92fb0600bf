"""Whatever is asked of whatever nodes: nobody is placed twice, no place holds more than it has, requests are honoured."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from gpuaas.engine.checks import fingerprint
from gpuaas.engine.items import Item
from gpuaas.engine.topology import Placed, Places, with_pod
from gpuaas.engine.topology_fit import Ask
from gpuaas.engine.topology_values import HOSTNAME, Node, Topology, TopologyRequest
from gpuaas.engine.values import Flavor, PodSet

from .builders import Lab, queue

LEVELS = ("block", "rack", HOSTNAME)


@st.composite
def fleets(draw: st.DrawFn) -> list[Node]:
    nodes = []
    for block in range(draw(st.integers(1, 2))):
        for rack in range(draw(st.integers(1, 3))):
            for host in range(draw(st.integers(1, 3))):
                name = f"b{block}-r{rack}-n{host}"
                labels = (("block", f"b{block}"), (HOSTNAME, name), ("rack", f"b{block}-r{rack}"))
                nodes.append(Node(name, labels, (("gpu", draw(st.integers(0, 8))), ("pods", draw(st.integers(1, 6))))))
    return nodes


@st.composite
def requests(draw: st.DrawFn) -> TopologyRequest | None:
    level = st.sampled_from(LEVELS)
    kind = draw(st.sampled_from(["none", "required", "preferred", "unconstrained", "slices"]))
    slices = ((draw(level), draw(st.integers(1, 3))),) if kind == "slices" or draw(st.booleans()) else ()
    match kind:
        case "none":
            return None
        case "required":
            return TopologyRequest(required=draw(level), slices=slices)
        case "preferred":
            return TopologyRequest(preferred=draw(level), slices=slices)
        case "unconstrained":
            return TopologyRequest(unconstrained=True)
        case _:
            return TopologyRequest(slices=slices)


workloads = st.tuples(st.integers(1, 8), st.integers(0, 4), requests(), st.integers(0, 2), st.booleans())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(fleets(), st.lists(workloads, min_size=1, max_size=12))
def test_places_hold_what_they_can_and_requests_are_honoured(
    nodes: list[Node], asked: list[tuple[int, int, TopologyRequest | None, int, bool]]
) -> None:
    lab = Lab(Topology("topo", LEVELS), *nodes)
    lab.tell(Flavor("l4", topology="topo"), queue("q", {"l4": 1000}, within="LowerPriority"), queue("r", {"l4": 1000}))
    for index, (count, gpus, request, priority, finish_one) in enumerate(asked):
        # A count that is no multiple of the slice is refused before it gets here.
        whole = count * request.slices[0][1] if request is not None and request.slices else count
        sets = (PodSet("main", whole, (("gpu", gpus),), topology=request),)
        lab.submit(f"w{index}", "qr"[index % 2], pod_sets=sets, priority=priority)
        before = fingerprint(lab.engine)
        with lab.engine.what_if() as trial:
            trial.cycle(lab.now)
        assert fingerprint(lab.engine) == before
        lab.settle()
        if finish_one and lab.running():
            lab.finish(min(lab.running()))
            lab.settle()
        assert_rooms_suffice(lab, nodes)
        for item in lab.engine.running():
            assert_honoured(item)


@st.composite
def groups(draw: st.DrawFn) -> list[Ask]:
    """The pod sets of a workload: some on their own, or a leader and its workers."""
    led = draw(st.booleans())
    request = draw(requests())
    if led and request is not None:
        request = replace(request, group="together")
    sizes = (1, draw(st.integers(1, 6))) if led else (draw(st.integers(1, 6)),)
    asks = []
    for index, count in enumerate(sizes):
        whole = count * request.slices[0][1] if count > 1 and request is not None and request.slices else count
        pod_set = PodSet(f"set{index}", whole, (("gpu", draw(st.integers(0, 2))),), topology=request)
        asks.append(Ask(index, pod_set, whole, with_pod(pod_set.requests), "l4", request is None))
    return asks


def fleet(nodes: list[Node], *, balanced: bool) -> Places:
    places = Places({"l4": Flavor("l4", topology="topo")})
    places.balanced = balanced
    places.learn(Topology("topo", LEVELS))
    for node in nodes:
        places.learn(node)
    return places


STEPS = st.tuples(st.integers(0, 2), st.sampled_from(["look", "look, empty", "take", "take", "take", "leave"]))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(fleets(), st.tuples(groups(), groups(), groups()), st.lists(STEPS, min_size=6, max_size=24), st.booleans())
def test_what_was_counted_before_changes_no_answer(
    nodes: list[Node], kinds: tuple[list[Ask], ...], steps: list[tuple[int, str]], balanced: bool
) -> None:
    long_lived = fleet(nodes, balanced=balanced)
    taken: list[list[Placed]] = []
    for kind, what in steps:
        asks, empty = kinds[kind], what == "look, empty"
        fresh = fleet(nodes, balanced=balanced)
        for placed in taken:
            fresh.add(placed)
        found = long_lived.find({"l4": asks}, empty)
        assert found == fresh.find({"l4": asks}, empty)
        if what == "take" and found.failure is None:
            given = found.domains.items()
            taken.append([one for index, at in given for one in long_lived.at("l4", at, asks[index].pod_set)])
            long_lived.add(taken[-1])
        elif what == "leave" and taken:
            long_lived.remove(taken.pop(0))


def assert_rooms_suffice(lab: Lab, nodes: list[Node]) -> None:
    capacity = {(node.name,): dict(node.allocatable) for node in nodes}
    for (_, identity), used in lab.engine.places.usage().items():
        for resource, amount in used.items():
            if resource != "pods":
                assert 0 <= amount <= capacity[identity].get(resource, 0)


def assert_honoured(item: Item) -> None:
    (pod_set,) = item.workload.pod_sets
    (admitted,) = item.admission or ()
    domains = dict(admitted.domains or ())
    assert sum(domains.values()) == pod_set.count, "every pod has a place"
    request = pod_set.topology
    if request is None:
        return
    if request.required is not None:
        assert len({at(name, request.required) for (name,) in domains}) == 1, "all within one domain of the level"
    for level, size in request.slices:
        per: dict[str, int] = {}
        for (name,), count in domains.items():
            per[at(name, level)] = per.get(at(name, level), 0) + count
        assert all(count % size == 0 for count in per.values()), "slices are not torn apart"


def at(host: str, level: str) -> str:
    return "-".join(host.split("-")[: LEVELS.index(level) + 1])
