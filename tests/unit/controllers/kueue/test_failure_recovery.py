"""Pods on nodes that nobody reaches: those that allow it do not stay for ever."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.kueue import FailureRecovery
from gpuaas.kueue.configuration.settings import Configuration, Configured, NodeRules
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.time import Stage, scenario, stage

SAFE = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
LOST = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]


@asynccontextmanager
async def world(*, on: bool = True) -> AsyncIterator[Stage]:
    configured = Configured(Configuration(nodes=NodeRules(frees_pods=on)))
    async with stage(lambda deps: FailureRecovery(deps, configured), cluster=FakeCluster(VirtualClock())) as made:
        yield made


def node(on: Stage, *, lost: bool) -> None:
    on.cluster.put(NODES, {"metadata": {"name": "n"}, "spec": {"taints": LOST if lost else []}})


async def ending_pod(on: Stage, *, notes: dict[str, str], finalizers: tuple[str, ...] = (), **status: Any) -> None:
    """It should have ended 30 seconds after now."""
    meta = {"name": "p", "namespace": "team", "annotations": notes, "finalizers": ["hold", *finalizers]}
    pod = {"metadata": meta, "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Running", **status}}
    pod["metadata"]["deletionTimestamp"] = rfc3339(on.clock.now() + 30)
    pod["metadata"]["deletionGracePeriodSeconds"] = 30
    on.cluster.put(PODS, pod)
    await on.settle()


def told(on: Stage) -> list[str]:
    status = on.cluster.read(PODS, "p", "team").get("status") or {}
    return [each["reason"] for each in status.get("conditions") or ()]


@scenario
async def test_a_pod_that_allows_it_is_failed_and_deleted_a_minute_late() -> None:
    async with world() as on:
        node(on, lost=True)
        await ending_pod(on, notes=SAFE)
        await on.advance(89)
        assert told(on) == []
        await on.advance(2)
        assert told(on) == ["KueueForcefullyDeleted"]
        pod = on.cluster.read(PODS, "p", "team")
        assert pod["status"]["phase"] == "Failed"
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
        assert any("KueueForcefullyDeleted" in each for each in on.cluster.events("team"))


@scenario
async def test_what_has_ended_keeps_its_phase() -> None:
    async with world() as on:
        node(on, lost=True)
        await ending_pod(on, notes=SAFE, phase="Succeeded")
        await on.advance(100)
        assert on.cluster.read(PODS, "p", "team")["status"]["phase"] == "Succeeded"
        assert told(on) == ["KueueForcefullyDeleted"]


@scenario
async def test_a_node_that_falls_silent_later_counts_from_then() -> None:
    async with world() as on:
        node(on, lost=False)
        await ending_pod(on, notes=SAFE)
        await on.advance(200)
        assert told(on) == []
        node(on, lost=True)
        await on.settle()
        assert told(on) == ["KueueForcefullyDeleted"]


@pytest.mark.parametrize(
    ("gate", "notes", "lost"),
    [(False, SAFE, True), (True, {}, True), (True, SAFE, False)],
    ids=["without the gate", "that does not allow it", "whose node is there"],
)
def test_nothing_happens_to_a_pod(gate: bool, notes: dict[str, str], lost: bool) -> None:
    @scenario
    async def case() -> None:
        async with world(on=gate) as on:
            node(on, lost=lost)
            await ending_pod(on, notes=notes)
            await on.advance(500)
            assert told(on) == []

    case()
