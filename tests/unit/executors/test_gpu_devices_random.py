"""Ten thousand random submissions, ends and restarts of the control plane: no two pods ever hold one card but by sharing."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from gpuaas.devices.budget import BudgetError, usable_mib
from gpuaas.devices.holding import ANNOTATION, Held, NoDeviceError, choose, encode, held_by, requests_of
from gpuaas.devices.inventory import Pool, simulated_cards
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import PluginConfig, load

GPU = "nvidia.com/gpu"
STEPS = 10_000


class Node:
    """A node as its kubelet keeps it: what pods hold stands in their annotations; what was decided a moment ago and is in
    none yet is lost with the kubelet, together with the start of that pod."""

    def __init__(self, offered: Offer, config: PluginConfig) -> None:
        self.offered, self.config = offered, config
        self.pods: dict[int, dict[str, Any]] = {}
        self.decided: dict[int, tuple[Held, ...]] = {}

    def held(self) -> dict[int, tuple[Held, ...]]:
        return {**{number: held_by(pod) for number, pod in self.pods.items()}, **self.decided}

    def submit(self, number: int, count: int, asked: int) -> bool:
        limits = {"resources": {"limits": {GPU: str(count)}}}
        requests = requests_of({"containers": [{"name": "main", **limits}]}, self.offered)
        taken = [one for devices in self.held().values() for one in devices]
        try:
            self.decided[number] = choose(self.offered, self.config, requests, taken, asked=asked)
        except (NoDeviceError, BudgetError):
            return False
        return True

    def write(self, number: int) -> None:
        """The decision is in the pod: from then on its processes may run."""
        self.pods[number] = {"metadata": {"annotations": {ANNOTATION: encode(self.decided.pop(number))}}}

    def end(self, number: int) -> None:
        self.pods.pop(number, None)
        self.decided.pop(number, None)

    def crash(self) -> None:
        self.decided.clear()


@pytest.mark.parametrize("cards", [1, 8, 16])
@pytest.mark.parametrize("replicas", [1, 4])
def test_no_two_pods_hold_one_device_and_no_card_is_promised_twice(cards: int, replicas: int) -> None:
    document: dict[str, Any] = {"version": "v1"}
    if replicas > 1:
        document["sharing"] = {"timeSlicing": {"resources": [{"name": GPU, "replicas": replicas}]}}
    config = load(document)
    node = Node(offer(simulated_cards("n", Pool("NVIDIA-H200", cards)), config), config)
    usable = {device.uuid: usable_mib(device) for device in node.offered[GPU].values()}
    chance, started = random.Random(cards * 10 + replicas), 0
    for number in range(STEPS // 6):
        for _ in range(chance.randrange(1, 3)):
            held = node.held()
            if held and chance.random() < 0.45:
                node.end(chance.choice(list(held)))
        asked = chance.choice([0, 0, 4096, 60_000]) if replicas > 1 else 0
        if node.submit(number, chance.choice([1, 1, 1, 2, 3]), asked):
            started += 1
            if chance.random() < 0.9:
                node.write(number)
        if chance.random() < 0.02:
            node.crash()
        check(node, replicas, usable)
    assert started > 100


def check(node: Node, replicas: int, usable: dict[str, int]) -> None:
    every = [one for devices in node.held().values() for one in devices]
    assert len({one.id for one in every}) == len(every), "one device is held twice"
    assert max(Counter(one.card for one in every).values(), default=0) <= replicas
    sums: Counter[str] = Counter()
    for one in every:
        sums[one.uuid] += one.budget
    assert all(amount <= usable[uuid] for uuid, amount in sums.items()), "budgets sum above the card"
