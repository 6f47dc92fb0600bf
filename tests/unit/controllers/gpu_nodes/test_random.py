"""Random submissions, ends, configurations, layouts and crashes: no device is ever in two hands.

The seed is the test's parameter, so that a failure can be played again.
"""

import json
import random
from collections import Counter
from typing import Any

import pytest
from tests.unit.controllers.gpu_nodes.test_gpu_nodes import A100, asks, crew, label, offers, policy

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Internal
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS
from gpuaas.devices.holding import Held, NoDeviceError, choose, held_by
from gpuaas.devices.inventory import Pool, simulated_cards, with_layout
from gpuaas.devices.offer import offer
from gpuaas.devices.plugin_config import PluginConfig, SharedResource, Sharing
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map
from gpuaas.testing.time import Stage, scenario, stage

POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", False, "ClusterPolicy")
RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb")
LAYOUTS = ("all-disabled", "all-1g.5gb", "all-3g.20gb", "all-balanced", "all-7g.1gb")


def wrong(held: dict[str, list[Held]]) -> list[str]:
    """By pod; replicas of one card may meet, nothing else may."""
    everything = [(name, one) for name, devices in held.items() for one in devices]
    found = [
        f"{id_} is held {count} times" for id_, count in Counter(one.id for _, one in everything).items() if count > 1
    ]
    for name, one in everything:
        for other, two in everything:
            if name < other and one.card == two.card and not (one.is_replica and two.is_replica):
                whole = one.uuid == one.card or two.uuid == two.card
                if whole or one.uuid == two.uuid:
                    found.append(f"{name} and {other} meet on {one.card}: {one.id}, {two.id}")
    return found


def running(on: Stage) -> dict[str, list[Held]]:
    pods = on.cluster.all(PODS)
    return {one["metadata"]["name"]: list(held_by(one)) for one in pods if one["status"].get("phase") == "Running"}


def layout(on: Stage) -> set[str]:
    """Every device there is."""
    cards = json.loads(on.cluster.read(NODES, "a100")["metadata"]["annotations"]["gpuaas.dev/cards"])
    slices = {each["uuid"] for card in cards for each in card.get("mig") or ()}
    return slices | {card["uuid"] for card in cards if "mig" not in card}


async def _step(on: Stage, chance: random.Random, number: int) -> None:
    if chance.random() < 0.3:  # a write in the middle of what it makes of this does not get through
        verb, resource = chance.choice((("patch", NODES), ("patch status", NODES), ("patch status", PODS)))
        on.cluster.fail_next(verb, resource, Internal("busy"))
    match chance.randrange(12):
        case 0:
            replicas = chance.choice((1, 2, 3))
            text = f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}"
            on.cluster.put(CONFIG_MAPS, config_map("sharing", "nvidia-gpu-operator", data={"any": text}))
            policy(on)
        case 1:
            label(on, "a100", mig_config=chance.choice(LAYOUTS))
        case 2:
            for one in on.cluster.all(PODS):
                if chance.random() < 0.3:
                    on.cluster.remove(PODS, one["metadata"]["name"], "default")
        case _:
            made: Any = asks(
                f"p{number}", chance.choice((1, 1, 2)), chance.choice(RESOURCES), f"sleep {chance.randrange(1, 60)}"
            )
            on.cluster.put(PODS, made)
    await on.advance(chance.choice((0.0, 0.05, 0.5, 5)))


@pytest.mark.parametrize("seed", range(8))
def test_no_device_is_in_two_hands_whatever_comes_and_whenever_it_crashes(seed: int) -> None:
    @scenario
    async def play() -> None:
        chance = random.Random(seed)
        cluster = FakeCluster(VirtualClock())
        for served in (POLICIES, WORKLOADS, ADMISSION_CHECKS):
            cluster.serve(served)
        for life in range(10):
            async with stage(*crew(A100), cluster=cluster) as on:
                for number in range(15):
                    await _step(on, chance, life * 100 + number)
                    held = running(on)
                    assert wrong(held) == []
                    there = layout(on)
                    lost = [one.uuid for devices in held.values() for one in devices if one.uuid not in there]
                    assert lost == [], "a pod on a device that does not exist"
        async with stage(*crew(A100), cluster=cluster) as on:
            label(on, "a100", mig_config="all-disabled")
            for one in on.cluster.all(PODS):
                on.cluster.remove(PODS, one["metadata"]["name"], "default")
            await on.advance(60)
            assert set(offers(on, "a100")) == {"nvidia.com/gpu"}, "in the end all is whole again"

    play()


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_requests_for_devices(seed: int) -> None:
    chance = random.Random(seed)
    cards = simulated_cards("n", Pool("NVIDIA-A100-SXM4-40GB", 4))
    cut = (*cards[:2], with_layout(cards[2], {"3g.20gb": 2}), with_layout(cards[3], {"1g.5gb": 3, "2g.10gb": 2}))
    shared = PluginConfig(mig_strategy="mixed", time_slicing=Sharing((SharedResource("nvidia.com/gpu", 3),)))
    worlds = [
        (offer(now, config), config)
        for now in (cards, cut)
        for config in (PluginConfig(mig_strategy="mixed"), shared)
    ]  # fmt: skip
    held: dict[str, list[Held]] = {}
    given = 0
    for number in range(2500):
        offered, config = chance.choice(worlds)
        if held and chance.random() < 0.45:
            del held[chance.choice(sorted(held))]
        resource = chance.choice(sorted(offered))
        taken = [one for devices in held.values() for one in devices]
        try:
            devices = choose(offered, config, {"main": {resource: chance.choice((1, 1, 2))}}, taken)
        except (NoDeviceError, ValueError):
            continue
        given += 1
        held[f"p{number}"] = list(devices)
        assert wrong(held) == []
    assert given > 500
