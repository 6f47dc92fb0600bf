"""Where pods go: levels, slices, leaders, nodes that do not count, and what happens when nothing is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuaas.engine.changes import Gone
from gpuaas.engine.constraints import Taint, Toleration
from gpuaas.engine.topology_values import HOSTNAME, Node, Topology, TopologyRequest
from gpuaas.engine.values import Check, Flavor, PodSet

from .builders import Lab, admitted, passed, preempted, queue

RACK = "rack"
LEVELS = ("block", RACK, HOSTNAME)


def node(name: str, gpus: int = 4, pods: int = 110, **more: Any) -> Node:
    """`b1-r2-n3` is node n3 of rack r2 in block b1."""
    block, rack, _ = name.split("-")
    labels = (("block", block), (HOSTNAME, name), (RACK, f"{block}-{rack}"), *more.pop("labels", ()))
    return Node(name, tuple(sorted(labels)), (("gpu", gpus), ("pods", pods)), **more)


def fleet(*nodes: Node, levels: tuple[str, ...] = LEVELS, **policy: Any) -> Lab:
    lab = Lab(Topology("topo", levels), *nodes)
    lab.tell(Flavor("l4", topology="topo"), queue("q", {"l4": 100}, **policy))
    return lab


def places(lab: Lab, name: str, pod_set: str = "main") -> dict[str, int]:
    (given,) = [p for p in lab.engine.items[f"ns/{name}"].admission if p.name == pod_set]
    return {"/".join(values): count for values, count in given.domains}


TWO_RACKS = [node(f"b1-r{r}-n{n}") for r in (1, 2) for n in (1, 2)]


@pytest.mark.parametrize(
    ("request_", "count", "expected"),
    [
        pytest.param(TopologyRequest(required=RACK), 2, {"b1-r1-n1": 1, "b1-r1-n2": 1}, id="a rack that holds all"),
        pytest.param(
            TopologyRequest(required="block"), 4, {f"b1-r{r}-n{n}": 1 for r in (1, 2) for n in (1, 2)}, id="a block"
        ),
        pytest.param(
            TopologyRequest(preferred=RACK),
            3,
            {"b1-r1-n1": 1, "b1-r1-n2": 1, "b1-r2-n1": 1},
            id="more than a rack, if need be",
        ),
        pytest.param(None, 3, {"b1-r1-n1": 1, "b1-r1-n2": 1, "b1-r2-n1": 1}, id="nothing asked, still placed"),
        pytest.param(
            TopologyRequest(slices=((RACK, 2),)),
            4,
            {f"b1-r{r}-n{n}": 1 for r in (1, 2) for n in (1, 2)},
            id="pairs, each in a rack",
        ),
    ],
)
def test_pods_of_four_gpus_on_nodes_of_four(
    request_: TopologyRequest | None, count: int, expected: dict[str, int]
) -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("w", "q", 4, count=count, topology=request_)
    assert places(lab, "w") == expected


@pytest.mark.parametrize(
    ("request_", "count", "words"),
    [
        (TopologyRequest(required=RACK), 3, 'topology "topo" allows to fit only 2 out of 3 pod(s)'),
        (TopologyRequest(preferred=RACK), 5, 'topology "topo" allows to fit only 4 out of 5 pod(s)'),
        (
            TopologyRequest(required=RACK, slices=((RACK, 3),)),
            3,
            'topology "topo" doesn\'t allow to fit any of 1 slice(s)',
        ),
        (
            TopologyRequest(required=RACK, slices=(("block", 2),)),
            2,
            "podset slice topology block is above the podset topology rack",
        ),
    ],
)
def test_what_fits_nowhere_is_told_why(request_: TopologyRequest, count: int, words: str) -> None:
    lab = fleet(*TWO_RACKS)
    lab.submit("w", "q", 4, count=count, topology=request_)
    message = passed(lab.cycle(), "w").message
    assert message == f"couldn't assign flavors to pod set main: {words}"
    assert lab.why("w").token.value == "TopologyPlacementFailed"


def test_the_tightest_rack_that_is_enough_is_taken() -> None:
    lab = fleet(node("b1-r1-n1", 8), node("b1-r2-n1", 4))
    lab.run("small", "q", 4, topology=TopologyRequest(required=RACK))
    assert places(lab, "small") == {"b1-r2-n1": 1}


def test_what_earlier_workloads_use_is_gone_until_they_finish() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.run("first", "q", 4)
    lab.submit("second", "q", 4)
    message = passed(lab.cycle(), "second").message
    assert message.endswith('doesn\'t allow to fit any of 1 pod(s). Total nodes: 1; excluded: resource "gpu": 1')
    lab.finish("first")
    lab.settle()
    assert lab.running() == {"second"}


def test_a_node_full_of_pods_is_full() -> None:
    lab = fleet(node("b1-r1-n1", 8, pods=1))
    lab.run("one", "q", 1)
    lab.submit("two", "q", 1)
    assert 'resource "pods": 1' in passed(lab.cycle(), "two").message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"taints": (Taint("maint", "x", "NoSchedule"),)}, 'taint "maint=x:NoSchedule": 1'),
        ({"usable": False}, "no topology domains at level: kubernetes.io/hostname"),
        ({"other_usage": (("gpu", 3),)}, 'resource "gpu": 1'),
    ],
)
def test_nodes_that_do_not_count(changed: dict[str, Any], words: str) -> None:
    lab = fleet(node("b1-r1-n1", 4, **changed))
    lab.submit("w", "q", 2)
    assert words in passed(lab.cycle(), "w").message


def test_tolerations_of_the_pods_or_of_the_flavor_open_a_tainted_node() -> None:
    taint = Taint("maint", "x", "NoSchedule")
    lab = fleet(node("b1-r1-n1", 4, taints=(taint,)))
    lab.run("w", "q", 2, tolerations=(Toleration("maint", "Exists"),))
    lab.tell(Flavor("l4", topology="topo", tolerations=(Toleration("maint", "Exists"),)))
    lab.run("v", "q", 2)


def test_a_node_that_comes_back_wakes_who_waits_for_it() -> None:
    lab = fleet(node("b1-r1-n1", 4, usable=False))
    lab.submit("w", "q", 4)
    lab.settle()
    lab.tell(node("b1-r1-n1", 4))
    lab.settle()
    assert lab.running() == {"w"}
    lab.tell(Gone("Node", "b1-r1-n1"))
    assert lab.running() == {"w"}, "a node that goes takes nobody along by itself"


def test_the_leader_of_a_group_stays_with_its_workers() -> None:
    lab = fleet(node("b1-r1-n1", 4), node("b1-r1-n2", 4), node("b1-r2-n1", 4), node("b1-r2-n2", 4), node("b1-r2-n3", 1))
    group = TopologyRequest(required=RACK, group="g")
    sets = (PodSet("leader", 1, (("gpu", 1),), topology=group), PodSet("workers", 2, (("gpu", 4),), topology=group))
    lab.run("w", "q", pod_sets=sets)
    assert places(lab, "workers".removesuffix("orkers"), "workers") == {"b1-r2-n1": 1, "b1-r2-n2": 1}
    assert places(lab, "w", "leader") == {"b1-r2-n3": 1}


def test_quota_without_a_place_makes_somebody_leave() -> None:
    lab = fleet(node("b1-r1-n1", 4), node("b1-r2-n1", 4), within="LowerPriority")
    lab.run("a", "q", 3)
    lab.run("b", "q", 3)
    lab.submit("w", "q", 4, priority=5)
    plan = lab.cycle()
    assert preempted(plan) == {"b": "InClusterQueue"}
    lab.release(plan)
    lab.settle()
    assert "w" in lab.running()
    assert places(lab, "w") == {"b1-r2-n1": 1}


def test_two_queues_that_want_the_same_place_in_one_cycle_both_find_one() -> None:
    lab = fleet(node("b1-r1-n1", 4), node("b1-r2-n1", 4))
    lab.tell(queue("other", {"l4": 100}))
    lab.submit("one", "q", 4)
    lab.submit("two", "other", 4)
    lab.cycle()
    assert {*places(lab, "one"), *places(lab, "two")} == {"b1-r1-n1", "b1-r2-n1"}


def test_who_was_admitted_in_this_cycle_leaves_for_nobody_before_the_next() -> None:
    lab = Lab(Topology("topo", LEVELS), replace(node("b1-r1-n1"), allocatable=(("cpu", 8), ("gpu", 4), ("pods", 9))))
    own = {"l4": {"cpu": 2, "gpu": 4}}
    lab.tell(Flavor("l4", topology="topo"), queue("a", own, "co"), queue("b", own, "co", reclaim="Any"))
    lab.run("busy", "a", {"cpu": 2})
    lab.tell(queue("a", {"l4": {"cpu": 1, "gpu": 4}}, "co"))
    lab.submit("first", "a", {"gpu": 4})
    lab.submit("second", "b", {"cpu": 1, "gpu": 4})
    plan = lab.cycle()
    assert (set(admitted(plan)), preempted(plan)) == ({"first"}, {}), "second had its eye on the same node"


def test_a_host_used_through_one_flavor_is_used_in_every_flavor_that_has_it() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(Flavor("same", topology="topo"), queue("other", {"same": 100}))
    lab.run("one", "q", 4)
    lab.submit("two", "other", 4)
    lab.settle()
    assert lab.pending() == {"two"}


def test_a_strict_queue_of_another_cohort_takes_the_place_of_one_that_finishes() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(queue("other", {"l4": 100}, strict=True))
    lab.run("one", "q", 4)
    lab.submit("two", "other", 4)
    lab.settle()
    lab.finish("one")
    lab.settle()
    assert lab.running() == {"two"}


@pytest.mark.parametrize(
    ("topology", "request_", "words"),
    [
        (None, TopologyRequest(required=RACK), 'Flavor "l4" does not support TopologyAwareScheduling'),
        ("topo", TopologyRequest(required="zone"), 'Flavor "l4" does not contain the requested level'),
    ],
)
def test_flavors_that_cannot_place_as_asked(topology: str | None, request_: TopologyRequest, words: str) -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(Flavor("l4", topology=topology))
    lab.submit("w", "q", 1, topology=request_)
    assert passed(lab.cycle(), "w").message.endswith(words)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("topo", "no TAS flavor assigned"),
        (None, "workload requires Topology, but there is no TAS cache information"),
    ],
)
def test_pods_that_ask_for_a_place_and_for_nothing_else_get_no_flavor_that_has_one(
    topology: str | None, words: str
) -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(Flavor("l4", topology=topology))
    lab.submit("w", "q", {}, topology=TopologyRequest(required=RACK))
    assert passed(lab.cycle(), "w").message == f"failed to assign flavors to pod set main: {words}"


def test_pods_that_ask_for_nothing_of_what_the_queue_does_not_have_are_admitted_without_a_place() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.run("w", "q", {"license": 0})
    (given,) = lab.engine.items["ns/w"].admission
    assert (given.flavors, given.domains) == ((), None)


def test_a_leader_that_asks_for_nothing_fits_nowhere_in_its_turn() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    group = TopologyRequest(required=RACK, group="g")
    sets = (PodSet("leader", 1, (), topology=group), PodSet("workers", 2, (("gpu", 1),), topology=group))
    lab.submit("w", "q", pod_sets=sets)
    assert passed(lab.cycle(), "w").message == "Workload no longer fits after processing another workload"
    assert lab.pending() == {"w"}


def test_pod_sets_of_two_flavors_each_find_hosts_of_their_own_flavor() -> None:
    lab = Lab(Topology("topo", LEVELS), *(node(f"b1-{pool}-n1", labels=(("pool", pool),)) for pool in ("l4", "h100")))
    lab.tell(*(Flavor(pool, (("pool", pool),), topology="topo") for pool in ("l4", "h100")))
    lab.tell(queue("q", {"l4": 4, "h100": 4}))
    lab.run("w", "q", pod_sets=(PodSet("first", 1, (("gpu", 4),)), PodSet("second", 1, (("gpu", 4),))))
    assert places(lab, "w", "first") == {"b1-l4-n1": 1}
    assert places(lab, "w", "second") == {"b1-h100-n1": 1}


def test_in_a_queue_with_other_flavors_too_a_flavor_with_a_topology_is_only_for_those_that_ask() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(queue("mixed", {"l4": 10, "plain": 10}))
    lab.submit("w", "mixed", 1)
    assert dict(lab.cycle().admissions[0].pod_sets[0].flavors) == {"gpu": "plain"}


def test_a_queue_whose_topology_is_missing_admits_nothing() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    lab.tell(Gone("Topology", "topo"))
    lab.submit("w", "q", 1)
    lab.settle()
    assert lab.queue("q").inactive == (
        "TopologyNotFound",
        'Can\'t admit new workloads: there is no Topology "topo" for TAS flavor "l4".',
    )
    lab.tell(Topology("topo", LEVELS))
    lab.settle()
    assert lab.running() == {"w"}


def test_where_a_check_provisions_nodes_places_are_chosen_later() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    check = Check("prov", controller="kueue.x-k8s.io/provisioning-request")
    lab.tell(queue("q", {"l4": 100}, checks=(check,)))
    lab.submit("w", "q", 1)
    (given,) = lab.cycle().admissions[0].pod_sets
    assert given.delayed
    assert given.domains is None
    assert lab.engine.place("ns/w") == ("", "")
    assert places(lab, "w") == {"b1-r1-n1": 1}
    lab.engine.validate()


def test_places_that_are_gone_by_then_are_told() -> None:
    lab = fleet(node("b1-r1-n1", 4))
    check = Check("prov", controller="kueue.x-k8s.io/provisioning-request")
    lab.tell(queue("q", {"l4": 100}, checks=(check,)), queue("other", {"l4": 100}))
    lab.run("w", "q", 4)
    lab.run("first", "other", 4)
    name, words = lab.engine.place("ns/w")
    assert name == "main"
    assert words.startswith('topology "topo" doesn\'t allow to fit any of 1 pod(s)')
    assert lab.running() == {"w", "first"}


def test_the_pods_of_a_slice_that_grows_stay_and_only_new_ones_are_placed() -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("old", "q", 4, count=2)
    assert places(lab, "old") == {"b1-r1-n1": 1, "b1-r1-n2": 1}
    lab.run("new", "q", 4, count=4, replaces="ns/old")
    assert places(lab, "new") == {f"b1-r{r}-n{n}": 1 for r in (1, 2) for n in (1, 2)}
    assert lab.running() == {"new"}


def test_a_slice_that_finds_no_place_for_its_new_pods_waits() -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("old", "q", 4, count=3)
    lab.run("other", "q", 2)
    lab.submit("new", "q", 4, count=4, replaces="ns/old")
    assert 'topology "topo"' in passed(lab.cycle(), "new").message
    lab.finish("other")
    lab.settle()
    assert lab.running() == {"new"}


def test_a_slice_that_grows_in_one_pod_set_and_shrinks_in_another_keeps_the_first_places_of_that() -> None:
    lab = fleet(*TWO_RACKS)
    two = (PodSet("a", 2, (("gpu", 4),)), PodSet("b", 1, (("gpu", 4),)))
    lab.run("old", "q", pod_sets=two)
    lab.run("new", "q", pod_sets=(replace(two[0], count=1), replace(two[1], count=2)), replaces="ns/old")
    assert places(lab, "new", "a") == {"b1-r1-n1": 1}
    assert places(lab, "new", "b") == {"b1-r2-n1": 1, "b1-r2-n2": 1}


def test_places_that_are_gone_are_not_kept() -> None:
    lab = fleet(*TWO_RACKS)
    lab.run("old", "q", 4, count=1)
    lab.tell(Gone("Node", "b1-r1-n1"))
    lab.run("new", "q", 4, count=2, replaces="ns/old")
    assert "b1-r1-n1" not in places(lab, "new")
