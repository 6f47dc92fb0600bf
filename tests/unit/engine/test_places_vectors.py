"""Pods are placed, and those of a failed node moved, as the real scheduler was measured to do it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuaas.engine.constraints import Requirement
from gpuaas.engine.topology import Found, Places, with_pod
from gpuaas.engine.topology_fit import Ask
from gpuaas.engine.topology_values import HOSTNAME, Node, Topology, TopologyRequest
from gpuaas.engine.values import Flavor, PodSet

with gzip.open(Path(__file__).parent / "vectors" / "places.jsonl.gz", "rt", encoding="utf-8") as lines:
    VECTORS: list[dict[str, Any]] = [json.loads(line) for line in lines]


def fleet(vector: dict[str, Any]) -> Places:
    places = Places({"l4": Flavor("l4", topology="default")})
    places.balanced = vector["balanced"]
    places.learn(Topology("default", tuple(vector["levels"])))
    for each in vector["nodes"]:
        labels = {"block": each["block"], "rack": each["rack"], "zone": each["zone"], HOSTNAME: each["name"]}
        places.learn(Node(each["name"], tuple(sorted(labels.items())), (("gpu", each["gpus"]), ("pods", 20))))
    return places


def ask(index: int, asked: dict[str, Any]) -> Ask:
    slices = tuple((label, size) for label, size in asked.get("slices") or ())
    request = TopologyRequest(
        asked.get("required"), asked.get("preferred"), asked.get("unconstrained", False), slices, asked.get("group")
    )
    zone = asked.get("prefersZone")
    liked = ((5, (Requirement("zone", "In", (zone,)),)),) if zone else ()
    topology = request if request.explicit else None
    pod_set = PodSet(asked["name"], asked["count"], (("gpu", asked["gpus"]),), topology=topology, preferred=liked)
    return Ask(index, pod_set, asked["count"], with_pod(pod_set.requests), "l4", topology is None)


def shown(found: Found, asks: list[Ask]) -> dict[str, Any] | str:
    if found.failure is not None:
        return found.failure[2]
    return {
        asks[index].pod_set.name: [[list(values), count] for values, count in domains]
        for index, domains in found.domains.items()
    }


def measured(told: dict[str, Any]) -> dict[str, Any] | str:
    return next((words for words in told.values() if isinstance(words, str)), told)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_places_as_measured(vector: dict[str, Any]) -> None:
    places = fleet(vector)
    asks = [ask(index, asked) for index, asked in enumerate(vector["podSets"])]
    found = places.find({"l4": asks})
    assert shown(found, asks) == measured(vector["placed"])
    if "failed" not in vector:
        return
    for index, domains in found.domains.items():
        places.add(places.at("l4", domains, asks[index].pod_set))
    failed = vector["failed"]
    places.forget("Node", failed)
    hit = {index for index, domains in found.domains.items() if any(values[-1] == failed for values, _ in domains)}
    moved = places.relocate({"l4": [each for each in asks if each.index in hit]}, found.domains, failed)
    assert shown(moved, asks) == measured(vector["replaced"])
