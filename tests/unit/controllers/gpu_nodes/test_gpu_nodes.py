"""Nodes with cards under NVIDIA's configuration: what they offer, what pods are given, and what a mistake changes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.apiserver.logs import LogOptions
from gpuaas.base.clock import VirtualClock
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from gpuaas.controllers.gpu_nodes import GpuNodes, NodeCards
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.executors.heartbeat import NodeKeeper
from gpuaas.executors.logs import Logs
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.owners import Owners
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.executors.simulated_logs import SimulatedLines
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map, pod
from gpuaas.testing.time import Stage, scenario, stage

POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", False, "ClusterPolicy")
NAMESPACE = "nvidia-gpu-operator"
ONE = NodeSpec("one", gpu_product="NVIDIA-L40S", gpu_count=1)
A100 = NodeSpec("a100", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2)
FOUR = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"


def crew(*specs: NodeSpec, strict: bool = False) -> list[Any]:
    def keeper(deps: Deps) -> Controller:
        return NodeKeeper(deps, specs, "simulated")

    def kubelet(deps: Deps) -> Controller:
        return SimulatedKubelet(deps, specs)

    def cards(deps: Deps) -> Controller:
        owned = {spec.name: NodeCards(spec.cards, spec.driver, fixed=spec.labels) for spec in specs if spec.gpu_count}
        return GpuNodes(deps, owned, strict=strict)

    return [keeper, kubelet, cards, PodScheduler]


@asynccontextmanager
async def playing(*specs: NodeSpec, cluster: FakeCluster | None = None) -> AsyncIterator[Stage]:
    if cluster is None:
        cluster = FakeCluster(VirtualClock())
        for served in (POLICIES, WORKLOADS, ADMISSION_CHECKS):
            cluster.serve(served)
    async with stage(*crew(*specs), cluster=cluster) as on:
        yield on


def share(on: Stage, *, default: str = "", name: str = "sharing", **data: str) -> None:
    on.cluster.put(CONFIG_MAPS, config_map(name, NAMESPACE, data=data))
    policy(on, default=default, name=name)


def policy(on: Stage, *, default: str = "", name: str = "sharing", strategy: str = "", called: str = "") -> None:
    spec: Any = {"devicePlugin": {"config": {"name": name, "default": default}}, "mig": {"strategy": strategy}}
    on.cluster.put(POLICIES, {"metadata": {"name": called or "gpu-cluster-policy"}, "spec": spec})


def offers(on: Stage, node: str, part: str = "allocatable") -> dict[str, str]:
    found = on.cluster.read(NODES, node)["status"][part]
    return {name: amount for name, amount in found.items() if name.startswith("nvidia.com/")}


def labels(on: Stage, node: str) -> dict[str, str]:
    found: dict[str, str] = on.cluster.read(NODES, node)["metadata"]["labels"]
    return found


def label(on: Stage, node: str, **values: str) -> None:
    found = on.cluster.read(NODES, node)
    changed = {
        **found["metadata"]["labels"],
        **{f"nvidia.com/{k.replace('__', '-').replace('_', '.')}": v for k, v in values.items()},
    }
    on.cluster.put(NODES, {**found, "metadata": {**found["metadata"], "labels": changed}})


def asks(name: str, count: int = 1, resource: str = "nvidia.com/gpu", script: str = "sleep 1000") -> Any:
    made = pod(name, namespace="default")
    made["spec"]["containers"][0] |= {
        "command": ["sh", "-c", script],
        "resources": {"limits": {resource: str(count)}, "requests": {resource: str(count)}},
    }
    made["spec"]["restartPolicy"] = "Never"
    return made


def stubborn(name: str, count: int = 1, *, seconds: int, resource: str = "nvidia.com/gpu") -> Any:
    """It takes its time to end."""
    made = asks(name, count, resource)
    made["metadata"]["annotations"] = {"gpuaas.dev/stop-seconds": str(seconds)}
    made["spec"]["terminationGracePeriodSeconds"] = 2 * seconds
    return made


def devices(on: Stage, name: str) -> list[str]:
    said = on.cluster.read(PODS, name, "default")["metadata"].get("annotations") or {}
    found = json.loads(said.get("gpuaas.dev/devices", "{}"))
    return [one["id"] for listed in found.values() for one in listed]


def phase(on: Stage, name: str) -> str:
    found: str = on.cluster.read(PODS, name, "default")["status"].get("phase", "Pending")
    return found


def condition(on: Stage, node: str, kind: str) -> Any:
    conditions = on.cluster.read(NODES, node)["status"]["conditions"]
    return next((one for one in conditions if one["type"] == f"gpuaas.dev/{kind}"), None)


def events(on: Stage, reason: str) -> list[Any]:
    return [one for one in on.cluster.all(EVENTS) if one["reason"] == reason]


@scenario
async def test_a_node_is_born_with_its_cards_what_they_offer_and_their_labels() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        assert offers(on, "a100") == offers(on, "a100", "capacity") == {"nvidia.com/gpu": "2"}
        found = labels(on, "a100")
        assert found["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
        assert found["nvidia.com/gpu.memory"] == "40960"
        assert found["nvidia.com/mig.capable"] == "true"
        assert found["nvidia.com/gpu.sharing-strategy"] == "none"
        shown = json.loads(on.cluster.read(NODES, "a100")["metadata"]["annotations"]["gpuaas.dev/cards"])
        assert [one["product"] for one in shown] == ["NVIDIA A100-SXM4-40GB"] * 2
        assert len({one["uuid"] for one in shown}) == 2


@scenario
async def test_a_time_sliced_card_serves_four_pods_and_a_fifth_waits() -> None:
    async with playing(ONE) as on:
        await on.advance(1)
        share(on, any=FOUR)
        await on.advance(1)
        assert offers(on, "one") == {"nvidia.com/gpu": "4"}
        found = labels(on, "one")
        assert (found["nvidia.com/gpu.product"], found["nvidia.com/gpu.replicas"]) == ("NVIDIA-L40S-SHARED", "4")
        assert (found["nvidia.com/gpu.count"], found["nvidia.com/gpu.sharing-strategy"]) == ("1", "time-slicing")
        for number in range(5):
            on.cluster.put(PODS, asks(f"p{number}"))
        await on.advance(5)
        running = [number for number in range(5) if phase(on, f"p{number}") == "Running"]
        assert len(running) == 4
        held = [devices(on, f"p{number}")[0] for number in running]
        assert len(set(held)) == 4, "each its own replica"
        assert len({one.partition("::")[0] for one in held}) == 1, "of one card"
        on.cluster.put(
            PODS,
            {
                **(gone := on.cluster.read(PODS, f"p{running[0]}", "default")),
                "status": {**gone["status"], "phase": "Succeeded"},
            },
        )
        await on.advance(10)
        assert all(phase(on, f"p{number}") == "Running" for number in range(5) if number != running[0])


@scenario
async def test_whole_cards_go_to_one_pod_each_and_come_back_when_it_ends() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        on.cluster.put(PODS, asks("a", script="sleep 30"))
        on.cluster.put(PODS, asks("b"))
        on.cluster.put(PODS, asks("c"))
        await on.advance(10)
        names = [name for name in "abc" if phase(on, name) == "Running"]
        assert len(names) == 2
        assert len({devices(on, name)[0] for name in names}) == 2
        await on.advance(60)
        if "a" in names:
            assert phase(on, "c" if "b" in names else "b") == "Running"


@scenario
async def test_nvidia_smi_in_a_pod_prints_what_it_was_given() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        on.cluster.put(PODS, asks("p", 2, script="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; sleep 100"))
        await on.advance(5)
        held = devices(on, "p")
        lines = SimulatedLines(Owners(on.deps.client, on.deps.discovery), on.deps.informers.of(PODS), on.clock, 1.0)
        logs = Logs({"simulated": lines}, on.deps.informers.of(NODES))
        found = on.cluster.read(PODS, "p", "default")
        said = b"".join([part async for part in logs.read(found, LogOptions())]).decode().splitlines()
        assert said == [
            f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {held[0]})",
            f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {held[1]})",
            ",".join(held),
        ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: v2", "key any: unknown version: v2"),
        (FOUR.replace("4", "1"), "key any: sharing.timeSlicing.resources[0]: number of replicas must be >= 2"),
        (FOUR.replace("4", "1000000"), "key any: sharing.timeSlicing.resources[0].replicas is 1000000, at most 1024 are allowed"),
        ("a: [", "key any: "),
        ("x" * 20_000, "key any: it has 20000 characters, at most 16384 are read"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_changes_nothing(text: str, words: str) -> None:
    @scenario
    async def play() -> None:
        async with playing(ONE) as on:
            await on.advance(1)
            share(on, any=FOUR)
            await on.advance(1)
            share(on, any=text)
            await on.advance(1)
            assert offers(on, "one") == {"nvidia.com/gpu": "4"}
            said = condition(on, "one", "DevicePluginConfig")
            assert said["status"] == "False"
            assert words in said["message"]
            kinds = {one["involvedObject"]["kind"] for one in events(on, "ConfigInvalid") if words in one["message"]}
            assert kinds == {"ClusterPolicy", "ConfigMap", "Node"}

    play()


@scenario
async def test_the_key_for_a_node_follows_its_label_then_the_default_then_the_only_one() -> None:
    async with playing(ONE) as on:
        await on.advance(1)
        share(on, two=FOUR.replace("4", "2"), ten=FOUR.replace("4", "10"))
        await on.advance(1)
        assert offers(on, "one") == {"nvidia.com/gpu": "1"}, "several keys and none chosen"
        assert "none is chosen" in condition(on, "one", "DevicePluginConfig")["message"]
        policy(on, default="two")
        await on.advance(1)
        assert offers(on, "one") == {"nvidia.com/gpu": "2"}
        label(on, "one", device__plugin_config="ten")
        await on.advance(1)
        assert offers(on, "one") == {"nvidia.com/gpu": "10"}
        label(on, "one", device__plugin_config="none")
        await on.advance(1)
        assert offers(on, "one") == {"nvidia.com/gpu": "10"}, "a key that is not there changes nothing"
        assert "has no key none; it has: ten, two" in condition(on, "one", "DevicePluginConfig")["message"]


@scenario
async def test_a_mig_label_partitions_the_cards_and_one_that_cannot_be_fails() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        label(on, "a100", mig_config="all-1g.5gb")
        await on.advance(1)
        assert offers(on, "a100") == {"nvidia.com/mig-1g.5gb": "14"}
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "success"
        assert labels(on, "a100")["nvidia.com/mig-1g.5gb.count"] == "14"
        label(on, "a100", mig_config="all-9g.99gb")
        await on.advance(1)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "failed"
        assert offers(on, "a100") == {"nvidia.com/mig-1g.5gb": "14"}, "the cards stay as they were"
        assert "selected mig-config not present: all-9g.99gb" in condition(on, "a100", "MigConfig")["message"]
        label(on, "a100", mig_config="all-disabled")
        await on.advance(1)
        assert offers(on, "a100") == {"nvidia.com/gpu": "2"}
        assert "nvidia.com/mig-1g.5gb.count" not in labels(on, "a100")
        assert "nvidia.com/mig-1g.5gb" not in offers(on, "a100", "capacity")


@scenario
async def test_a_card_without_mig_fails_with_the_reason() -> None:
    async with playing(ONE) as on:
        await on.advance(1)
        label(on, "one", mig_config="all-1g.5gb")
        await on.advance(1)
        assert labels(on, "one")["nvidia.com/mig.config.state"] == "failed"
        assert "no MIG-capable devices" in condition(on, "one", "MigConfig")["message"]
        assert offers(on, "one") == {"nvidia.com/gpu": "1"}


@scenario
async def test_a_layout_changes_when_the_pods_on_its_cards_are_gone() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        on.cluster.put(PODS, stubborn("p", seconds=20))
        await on.advance(3)
        assert phase(on, "p") == "Running"
        label(on, "a100", mig_config="all-balanced")
        await on.advance(3)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "pending"
        assert offers(on, "a100") == {"nvidia.com/gpu": "0"}, "cards that are to change take no work"
        assert "default/p" in condition(on, "a100", "MigConfig")["message"]
        assert on.cluster.read(PODS, "p", "default")["metadata"]["deletionTimestamp"], "it was asked to leave"
        await on.advance(60)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "success"
        assert offers(on, "a100")["nvidia.com/mig-1g.5gb"] == "4"


@scenario
async def test_what_somebody_writes_by_hand_is_put_back() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        found = on.cluster.read(NODES, "a100")
        fake = {"nvidia.com/gpu": "64", "nvidia.com/mig-1g.5gb": "7"}
        annotations = {"gpuaas.dev/cards": '[{"uuid":"GPU-x","product":"B200","memory":1}]'}
        status = {part: {**found["status"][part], **fake} for part in ("capacity", "allocatable")}
        on.cluster.put(
            NODES,
            {
                **found,
                "status": {**found["status"], **status},
                "metadata": {**found["metadata"], "annotations": annotations},
            },
        )
        await on.advance(1)
        assert offers(on, "a100") == offers(on, "a100", "capacity") == {"nvidia.com/gpu": "2"}
        kept = on.cluster.read(NODES, "a100")["metadata"]["annotations"]["gpuaas.dev/cards"]
        assert "GPU-x" not in kept


@scenario
async def test_a_node_that_has_no_cards_any_more_offers_none() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        cluster = on.cluster
    async with playing(NodeSpec("a100"), cluster=cluster) as on:
        await on.advance(1)
        assert offers(on, "a100") == offers(on, "a100", "capacity") == {}
        assert [key for key in labels(on, "a100") if key.startswith("nvidia.com/")] == []
        assert "gpuaas.dev/cards" not in (on.cluster.read(NODES, "a100")["metadata"].get("annotations") or {})


@scenario
async def test_after_a_restart_layouts_and_devices_are_as_they_were() -> None:
    cluster: FakeCluster | None = None
    async with playing(A100) as on:
        await on.advance(1)
        label(on, "a100", mig_config="all-3g.20gb")
        await on.advance(1)
        for number in range(3):
            on.cluster.put(PODS, asks(f"p{number}", resource="nvidia.com/mig-3g.20gb"))
        await on.advance(5)
        cluster, before = on.cluster, {number: devices(on, f"p{number}") for number in range(3)}
        assert len({one for held in before.values() for one in held}) == 3
    async with playing(A100, cluster=cluster) as on:
        await on.advance(2)
        assert offers(on, "a100") == {"nvidia.com/mig-3g.20gb": "4"}, "nothing is offered twice"
        assert {number: devices(on, f"p{number}") for number in range(3)} == before
        for number in (3, 4):
            on.cluster.put(PODS, asks(f"p{number}", resource="nvidia.com/mig-3g.20gb"))
        await on.advance(5)
        assert sorted(phase(on, f"p{number}") for number in (3, 4)) == ["Pending", "Running"]
        held = [one for number in range(5) for one in devices(on, f"p{number}")]
        assert len(held) == len(set(held)) == 4
