"""Which node a pod gets, and what is said when none takes it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.nodefit.book import Book, book_of, place_of, read_pod
from gpuaas.nodefit.constraints import Tolerations, tolerates
from gpuaas.nodefit.place import Placed, Unplaced, place

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
TOLERATES = [{"key": GPU, "operator": "Exists"}]
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
)


def node(name: str, *, gpu: int = 0, cpu: str = "8", labels: Any = None, taints: Any = (), **spec: Any) -> Any:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "10", **({GPU: str(gpu)} if gpu else {})}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": amounts},
    }


def pod(
    name: str, *, on: str = "", labels: Any = None, priority: int = 0, namespace: str = "default", **spec: Any
) -> Any:
    requests = spec.pop("requests", {})
    made = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], "priority": priority, **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }
    if on:
        made["spec"]["nodeName"] = on
    return made


def book(*objects: Any) -> Book:
    pods = [one for one in objects if "containers" in one["spec"]]
    return book_of([one for one in objects if "containers" not in one["spec"]], pods)


def put(asked: Any, *objects: Any) -> str:
    verdict = place(read_pod(asked), book(*objects))
    return verdict.node if isinstance(verdict, Placed) else verdict.message


def required(*expressions: Any) -> Any:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def apart(**labels: str) -> Any:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def beside(key: str = "zone", **labels: str) -> Any:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str = "zone", skew: int = 1, **labels: str) -> Any:
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": {"matchLabels": labels}}]


A, B = node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"})

FITS = {
    "the only node": (pod("p"), [A], "a"),
    "the node with room": (pod("p", requests={"cpu": "6"}), [A, B, pod("x", on="a", requests={"cpu": "4"})], "b"),
    "the node its selector names": (pod("p", nodeSelector={"zone": "2"}), [A, B], "b"),
    "a node its affinity allows": (
        pod("p", affinity=required({"key": "zone", "operator": "NotIn", "values": ["1"]})),
        [A, B],
        "b",
    ),
    "the node whose taint it tolerates": (
        pod("p", tolerations=TOLERATES, requests={GPU: "1"}),
        [node("t", gpu=1, taints=[TAINT])],
        "t",
    ),
    "a cordoned node, for who tolerates that": (
        pod("p", tolerations=[{"operator": "Exists"}]),
        [node("c", unschedulable=True)],
        "c",
    ),
    "cards are packed": (
        pod("p", requests={GPU: "1"}),
        [node("a", gpu=8), node("b", gpu=8), pod("x", on="b", requests={GPU: "4"})],
        "b",
    ),
    "who asks for no card stays away from cards": (pod("p"), [node("a", gpu=8), node("z")], "z"),
    "the emptier node": (pod("p", requests={"cpu": "1"}), [A, B, pod("x", on="a", requests={"cpu": "2"})], "b"),
    "beside the pod it wants": (
        pod("p", affinity=beside(app="db")),
        [A, B, pod("x", on="b", labels={"app": "db"})],
        "b",
    ),
    "the first of a group that wants to be together": (
        pod("p", labels={"app": "db"}, affinity=beside(app="db")),
        [A, B],
        "a",
    ),
    "away from its like": (
        pod("p", labels={"app": "w"}, affinity=apart(app="w")),
        [A, B, pod("x", on="a", labels={"app": "w"})],
        "b",
    ),
    "away from who does not want it": (
        pod("p", labels={"app": "w"}),
        [A, B, pod("x", on="a", affinity=apart(app="w"))],
        "b",
    ),
    "where its like are fewest": (
        pod("p", labels={"app": "w"}, topologySpreadConstraints=spread(app="w")),
        [A, B, pod("x", on="a", labels={"app": "w"})],
        "b",
    ),
    "a finished pod takes nothing": (
        pod("p", requests={"cpu": "8"}),
        [A, {**pod("x", on="a", requests={"cpu": "8"}), "status": {"phase": "Succeeded"}}],
        "a",
    ),
}


@pytest.mark.parametrize(("asked", "objects", "expected"), FITS.values(), ids=FITS)
def test_a_pod_gets(asked: Any, objects: Any, expected: str) -> None:
    assert put(asked, *objects) == expected


REFUSED = {
    "no nodes at all": (pod("p"), [], "no nodes available to schedule pods"),
    "taints and missing cards, counted": (
        pod("p", requests={GPU: "4"}, tolerations=[{"key": GPU, "operator": "Exists"}]),
        [
            node("a", gpu=4, taints=[TAINT]),
            pod("x", on="a", requests={GPU: "2"}),
            node("b", taints=[{"key": "other", "effect": "NoSchedule"}]),
            node("c", taints=[{"key": "other", "effect": "NoExecute"}]),
        ],
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s). "
        "no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling.",
    ),
    "more than the node ever has": (
        pod("p", requests={"cpu": "100", "memory": "1Ti"}),
        [A],
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. " + NOT_HELPFUL.format(1),
    ),
    "a selector nobody meets": (
        pod("p", nodeSelector={"zone": "9"}),
        [A, B],
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. " + NOT_HELPFUL.format(2),
    ),
    "an empty affinity term": (
        pod("p", affinity=required()),
        [A],
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. " + NOT_HELPFUL.format(1),
    ),
    "cordoned": (
        pod("p"),
        [node("c", unschedulable=True)],
        "0/1 nodes are available: 1 node(s) were unschedulable. " + NOT_HELPFUL.format(1),
    ),
    "the node of plain processes": (
        pod("p"),
        [node("m", taints=[{"key": "gpuaas.dev/process-only", "effect": "NoSchedule"}])],
        "0/1 nodes are available: 1 node(s) run only pods of runtime class gpuaas-process. " + NOT_HELPFUL.format(1),
    ),
    "who must not preempt": (
        pod("p", requests={"cpu": "8"}, priority=5, preemptionPolicy="Never"),
        [A, pod("x", on="a", requests={"cpu": "1"})],
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "nobody to be beside": (
        pod("p", affinity=beside(app="db")),
        [A],
        "0/1 nodes are available: 1 node(s) didn't match pod affinity rules. " + NOT_HELPFUL.format(1),
    ),
    "no label to spread over": (
        pod("p", topologySpreadConstraints=spread("rack", app="w")),
        [A],
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label). "
        + NOT_HELPFUL.format(1),
    ),
    "ports taken": (
        pod("p", containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        [A, pod("x", on="a", containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}])],
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. "
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
}


@pytest.mark.parametrize(("asked", "objects", "expected"), REFUSED.values(), ids=REFUSED)
def test_no_node_takes(asked: Any, objects: Any, expected: str) -> None:
    assert put(asked, *objects) == expected


def test_too_many_pods_on_a_node() -> None:
    full = [pod(f"x{number}", on="a") for number in range(10)]
    assert "1 Too many pods" in put(pod("p"), A, *full)


def test_the_least_important_pods_make_room() -> None:
    there = [
        pod("low", on="a", requests={"cpu": "4"}, priority=1),
        pod("middle", on="a", requests={"cpu": "4"}, priority=5),
        pod("other", on="b", requests={"cpu": "8"}, priority=9),
    ]
    verdict = place(read_pod(pod("p", requests={"cpu": "4"}, priority=10)), book(A, B, *there))
    assert isinstance(verdict, Unplaced)
    assert verdict.eviction is not None
    assert verdict.eviction.node == "a"
    assert [one.name for one in verdict.eviction.victims] == ["low"]


def test_trying_a_preemption_leaves_the_book_as_it_was() -> None:
    asked = book(A, pod("x", on="a", requests={"cpu": "5"}), pod("y", on="a", requests={"cpu": "3"}))
    place(read_pod(pod("p", requests={"cpu": "4"}, priority=10)), asked)
    found = asked.place("a")
    assert found is not None
    assert found.used == {"cpu": 8000}
    assert set(found.pods) == {"x", "y"}


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=40))
def test_what_is_used_is_the_sum_and_never_above_what_there_is(wants: list[tuple[int, int]]) -> None:
    nodes = book(node("a", gpu=8), node("b", gpu=4, cpu="16"), node("c"))
    for number, (cpu, gpu) in enumerate(wants):
        ask = read_pod(pod(f"p{number}", requests={"cpu": str(cpu), **({GPU: str(gpu)} if gpu else {})}))
        verdict = place(ask, nodes)
        if isinstance(verdict, Placed):
            nodes.assume(ask, verdict.node)
        if number % 3 == 0:
            nodes.drop_pod(f"p{number // 2}")
    for one in nodes.places():
        for name, used in one.used.items():
            assert used == sum(ask.requests.get(name, 0) for ask in one.pods.values())
            assert 0 <= used <= one.allocatable.get(name, 0)


def test_a_pod_that_cannot_be_read_takes_no_room_and_keeps_nobody_from_theirs() -> None:
    unreadable = [pod(f"u{each}", on="a") for each in range(3)]
    unreadable[0]["spec"]["containers"] = "no list"
    unreadable[1]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "no quantity"}
    unreadable[2]["spec"]["priority"] = "high"
    assert put(pod("p", requests={"cpu": "1"}), node("a"), *unreadable) == "a"
    assert list(place_of(node("a"), [*unreadable, pod("q", on="a")]).pods) == ["q"]


@pytest.mark.parametrize(
    ("taint", "tolerations"),
    [
        (taint, tolerations)
        for taint in ({"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"})
        for tolerations in (
            [],
            [{"operator": "Exists"}],
            [{"operator": "Exists", "effect": "NoSchedule"}],
            [{"key": "a", "operator": "Exists"}],
            [{"key": "b", "operator": "Exists"}],
            [{"key": "a", "value": "x"}],
            [{"key": "a", "operator": "Equal", "value": "y"}, {"key": "a", "effect": "NoExecute"}],
            [{"operator": "Equal", "value": "x"}],
            [{"key": "a", "operator": "Lt", "value": "x"}],
            [{"key": "b", "value": "x"}, {"key": "a", "value": "x", "effect": "NoSchedule"}],
        )
    ],
)
def test_compiled_tolerations_mean_the_same_as_each_held_against_the_taint(taint: Any, tolerations: Any) -> None:
    one_by_one = any(tolerates(each, taint) for each in tolerations)
    assert Tolerations(tolerations).cover(taint) == one_by_one
