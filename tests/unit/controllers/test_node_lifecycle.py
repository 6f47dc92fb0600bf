"""What becomes of nodes that fall silent, and of the pods on them."""

from typing import Any

import pytest

from gpuaas.client.resources import LEASES, NODES, PODS
from gpuaas.controllers.node_lifecycle import (
    NodeLifecycleController,
    PodGarbageCollector,
    TaintEvictionController,
    orphans,
)
from gpuaas.controllers.node_lifecycle.eviction import leaves_at
from gpuaas.controllers.node_lifecycle.health import wanted_taints
from gpuaas.testing.objects import node, pod
from gpuaas.testing.time import Stage, scenario, stage

UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
TOLERATES_A_WHILE = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}]


def beat(on: Stage, name: str) -> None:
    moment = str(on.clock.now())
    on.cluster.put(LEASES, {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": moment}})


def keys(taints: Any) -> list[tuple[str, str]]:
    return [(one["key"].rpartition("/")[2], one["effect"]) for one in taints or ()]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (node("n"), None),
        (node("n", ready=False), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), []),
        ({**node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), "status": {}}, []),
        (node("n", taints=[{"key": "mine", "effect": "NoSchedule"}]), None),
        ({**node("n"), "spec": {"unschedulable": True}}, [("unschedulable", "NoSchedule")]),
    ],
    ids=["ready", "not ready", "ready again", "never heard of", "others' taints stay", "cordoned"],
)
def test_conditions_become_taints(made: Any, expected: Any) -> None:
    found = wanted_taints(made, 0.0)
    assert (None if found is None else keys(found)) == expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [([], 100.0), ([{"operator": "Exists"}], None), (TOLERATES_A_WHILE, 400.0)],
    ids=["at once", "never", "after a while"],
)
def test_when_a_pod_leaves(tolerations: Any, expected: float | None) -> None:
    assert leaves_at([UNREACHABLE], tolerations, 100.0) == expected


@scenario
async def test_a_node_that_never_spoke_becomes_unknown_after_the_grace_period() -> None:
    async with stage(NodeLifecycleController) as on:
        on.cluster.put(NODES, {**node("n"), "status": {}})
        await on.advance(40)
        assert not (on.cluster.read(NODES, "n").get("spec") or {}).get("taints")
        await on.advance(20)
        found = on.cluster.read(NODES, "n")
        assert {(one["status"], one["reason"]) for one in found["status"]["conditions"]} == {
            ("Unknown", "NodeStatusNeverUpdated")
        }
        assert keys(found["spec"]["taints"]) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]


@pytest.mark.parametrize("status", [{}, {"conditions": [{"type": "Ready", "status": "True"}]}], ids=["bare", "ready"])
@scenario
async def test_who_makes_a_node_in_several_steps_is_not_written_over_in_between(status: Any) -> None:
    new = {**node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), "status": status}
    async with stage(NodeLifecycleController) as on:
        on.cluster.put(NODES, new)
        await on.advance(0.1)
        found = on.cluster.read(NODES, "n")
        assert keys(found["spec"]["taints"]) == [("not-ready", "NoSchedule")]
        on.cluster.set_status(NODES, "n", conditions=[{"type": "Ready", "status": "True"}])
        await on.settle()
        assert keys(on.cluster.read(NODES, "n")["spec"]["taints"]) == [("not-ready", "NoSchedule")]
        await on.advance(0.2)
        assert not on.cluster.read(NODES, "n")["spec"].get("taints")


@scenario
async def test_a_node_that_never_speaks_loses_the_taint_it_was_born_with() -> None:
    new = {**node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), "status": {}}
    async with stage(NodeLifecycleController) as on:
        on.cluster.put(NODES, new)
        await on.advance(0.3)
        assert not on.cluster.read(NODES, "n")["spec"].get("taints")


@scenario
async def test_a_silent_node_becomes_unknown_and_its_pods_leave_when_their_patience_ends() -> None:
    async with stage(NodeLifecycleController, TaintEvictionController) as on:
        on.cluster.put(NODES, node("n"))
        patient = pod("patient", node="n", phase="Running", ready=True)
        patient["spec"]["tolerations"] = TOLERATES_A_WHILE
        on.cluster.put(PODS, patient)
        for _ in range(10):
            beat(on, "n")
            await on.advance(10)
        assert not on.cluster.read(NODES, "n")["spec"].get("taints")
        await on.advance(60)
        found = on.cluster.read(NODES, "n")
        ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert keys(found["spec"]["taints"]) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
        assert "Normal NodeNotReady node/n Node n status is now: NodeNotReady" in on.cluster.events()
        there = on.cluster.read(PODS, "patient", "default")
        assert there["status"]["conditions"][0]["status"] == "False"
        assert "deletionTimestamp" not in there["metadata"]
        await on.advance(300)
        assert on.cluster.read(PODS, "patient", "default")["metadata"]["deletionTimestamp"]
        assert "Normal TaintManagerEviction pod/patient Marking for deletion Pod default/patient" in on.cluster.events()


@scenario
async def test_a_node_written_by_hand_stays_as_it_was_written() -> None:
    async with stage(NodeLifecycleController) as on:
        on.cluster.put(NODES, node("ready"))
        on.cluster.put(NODES, node("broken", ready=False))
        await on.advance(600)
        states = {
            name: on.cluster.read(NODES, name)["status"]["conditions"][0]["status"] for name in ("ready", "broken")
        }
        assert states == {"ready": "True", "broken": "False"}


@scenario
async def test_a_node_that_is_heard_of_again_loses_its_taints() -> None:
    async with stage(NodeLifecycleController) as on:
        on.cluster.put(NODES, node("n"))
        beat(on, "n")
        await on.advance(120)
        assert on.cluster.read(NODES, "n")["spec"]["taints"]
        beat(on, "n")
        on.cluster.set_status(NODES, "n", conditions=[{"type": "Ready", "status": "True"}])
        await on.settle()
        assert not on.cluster.read(NODES, "n")["spec"].get("taints")


@scenario
async def test_pods_of_a_node_that_is_gone_end_after_a_quarantine() -> None:
    async with stage(PodGarbageCollector) as on:
        on.cluster.put(NODES, node("n"))
        on.cluster.put(PODS, pod("p", node="n", phase="Running"))
        await on.settle()
        on.cluster.remove(NODES, "n")
        await on.advance(30)
        assert on.cluster.exists(PODS, "p", "default")
        await on.advance(30)
        assert not on.cluster.exists(PODS, "p", "default")


def to_go(name: str, on: str | None = None, *, held: bool = True) -> Any:
    made = pod(name, node=on or "", phase="Running" if on else "Pending")
    made["metadata"]["finalizers"] = ["example.com/mine"] if held else []
    return made


@scenario
async def test_a_pod_that_is_held_and_never_was_on_a_node_has_failed_when_it_is_to_go() -> None:
    async with stage(PodGarbageCollector) as on:
        for name in ("asked", "left alone"):
            on.cluster.put(PODS, to_go(name))
        on.cluster.put(NODES, node("n"))
        on.cluster.put(PODS, to_go("placed", "n"))
        for name in ("asked", "placed"):
            await on.cluster.delete(PODS, name, "default")
        await on.advance(10)
        assert on.cluster.read(PODS, "asked", "default")["status"]["phase"] == "Pending"
        await on.advance(15)
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in on.cluster.all(PODS)}
        assert phases == {"asked": "Failed", "left alone": "Pending", "placed": "Running"}


@scenario
async def test_who_says_that_a_machine_is_off_frees_the_pods_that_are_to_leave_it() -> None:
    async with stage(PodGarbageCollector) as on:
        off = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]
        on.cluster.put(NODES, node("said", ready=False, taints=off))
        on.cluster.put(NODES, node("speaks", taints=off))
        on.cluster.put(NODES, node("silent", ready=False))
        for where in ("said", "speaks", "silent"):
            on.cluster.put(PODS, to_go(where, where, held=False))
            on.cluster.put(PODS, to_go(f"stays-{where}", where, held=False))
            await on.cluster.delete(PODS, where, "default", grace=30)
        await on.advance(1)
        left = {each["metadata"]["name"] for each in on.cluster.all(PODS)}
        assert left == {"speaks", "silent", "stays-said", "stays-speaks", "stays-silent"}


@scenario
async def test_of_pods_that_have_ended_the_oldest_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "MOST_ENDED", 3)
    async with stage(PodGarbageCollector) as on:
        for number in range(5):
            made = pod(f"p{number}", phase="Succeeded" if number % 2 else "Failed")
            made["metadata"]["creationTimestamp"] = f"2026-01-01T00:0{number}:00Z"
            on.cluster.put(PODS, made)
        on.cluster.put(PODS, pod("runs", phase="Running"))
        await on.advance(60)
        names = sorted(one["metadata"]["name"] for one in on.cluster.all(PODS, "default"))
        assert names == ["p2", "p3", "p4", "runs"]
