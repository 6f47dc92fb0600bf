"""The hardware profiles a cluster begins with: one for CPU work, and per GPU product one for a single GPU and one for all
GPUs of a node, with that share of the node's CPU and memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.quantity import NANO, parse_quantity
from gpuaas.profiles.paths import Object

API: Final = "infrastructure.opendatahub.io/v1"
_PRODUCT: Final = "nvidia.com/gpu.product"
_NOT_TOLERATED: Final = ("node.kubernetes.io/", "gpuaas.dev/")
"""Taints of a node's health, and those whose pods bring their toleration by their runtime class."""
_GIB: Final = 1024**3
_MOST: Final = 32  # profiles; a fleet of more products is an administrator's to describe


@dataclass(frozen=True, slots=True)
class Offer:
    """What nodes of one product offer of one resource: the most of it on a node, and with each the least CPU and memory."""

    product: str
    resource: str
    count: int
    cpu: float
    memory: float  # GiB
    taints: frozenset[tuple[str, str, str]]


def default_profiles(nodes: Iterable[Object]) -> list[dict[str, Any]]:
    found = [_cpu_profile()]
    for offer in _offers(nodes):
        found.append(_gpu_profile(offer, 1))
        if offer.count > 1 and "mig" not in offer.resource:
            found.append(_gpu_profile(offer, offer.count))
    return found[:_MOST]


def _offers(nodes: Iterable[Object]) -> list[Offer]:
    """By product and resource; of nodes that differ the smaller shares, so that as many fit as there are GPUs."""
    found: dict[tuple[str, str], Offer] = {}
    for node in nodes:
        product = str((node["metadata"].get("labels") or {}).get(_PRODUCT, ""))
        for offer in _node_offers(node, product) if product else ():
            key = (product, offer.resource)
            found[key] = _both(found[key], offer) if key in found else offer
    return [found[key] for key in sorted(found)]


def _node_offers(node: Object, product: str) -> Iterable[Offer]:
    allocatable: Mapping[str, Any] = (node.get("status") or {}).get("allocatable") or {}
    cpu, memory = _whole(allocatable.get("cpu")), _whole(allocatable.get("memory")) // _GIB
    taints = frozenset(
        (str(one.get("key", "")), str(one.get("value") or ""), str(one.get("effect", "")))
        for one in (node.get("spec") or {}).get("taints") or ()
        if one.get("effect") != "PreferNoSchedule" and not str(one.get("key", "")).startswith(_NOT_TOLERATED)
    )
    for name, amount in allocatable.items():
        if name.startswith("nvidia.com/") and (count := _whole(amount)) > 0 and cpu and memory:
            yield Offer(product, name, count, cpu / count, memory / count, taints)


def _both(one: Offer, other: Offer) -> Offer:
    cpu, memory = min(one.cpu, other.cpu), min(one.memory, other.memory)
    return Offer(one.product, one.resource, max(one.count, other.count), cpu, memory, one.taints | other.taints)


def _whole(amount: Any) -> int:
    try:
        return parse_quantity(amount).nano // NANO
    except ValueError:
        return 0


def _cpu_profile() -> dict[str, Any]:
    listed = [
        {"displayName": "CPU", "identifier": "cpu", "resourceType": "CPU"} | _counts(1, 2, 4),
        {"displayName": "Memory", "identifier": "memory", "resourceType": "Memory"} | _counts("2Gi", "4Gi", "8Gi"),
    ]
    return _profile("default-profile", "Default", "CPU and memory, no GPU", {"identifiers": listed})


def _gpu_profile(offer: Offer, count: int) -> dict[str, Any]:
    """A tenth of the node's CPU and memory stays with the node."""
    cpu, memory = (max(int(amount * count * 0.9), 1) for amount in (offer.cpu, offer.memory))
    short = re.sub(r"[^a-z0-9]+", "-", offer.product.lower().removeprefix("nvidia-")).strip("-")
    part = offer.resource.removeprefix("nvidia.com/")
    what = f"{count} GPU{'s' * (count > 1)}" if part.startswith("gpu") else f"slice {part.removeprefix('mig-')}"
    name = f"{short}-{count}gpu" if part == "gpu" else f"{short}-{re.sub(r'[^a-z0-9]+', '-', part)}"
    listed = [
        {"displayName": "CPU", "identifier": "cpu", "resourceType": "CPU"} | _counts(1, cpu, cpu),
        {"displayName": "Memory", "identifier": "memory", "resourceType": "Memory"}
        | _counts("1Gi", f"{memory}Gi", f"{memory}Gi"),
        {"displayName": "GPU", "identifier": offer.resource, "resourceType": "Accelerator"}
        | _counts(count, count, count),
    ]
    node: dict[str, Any] = {"nodeSelector": {_PRODUCT: offer.product}}
    if offer.taints:
        node["tolerations"] = [_toleration(*taint) for taint in sorted(offer.taints)]
    title = f"{offer.product.replace('-', ' ')} {what}"
    spec = {"identifiers": listed, "scheduling": {"type": "Node", "node": node}}
    return _profile(name[:63].strip("-"), title, f"{what} of {offer.product}, {cpu} CPU, {memory}Gi memory", spec)


def _toleration(key: str, value: str, effect: str) -> dict[str, str]:
    found = {"key": key, "operator": "Equal", "value": value, "effect": effect}
    return found if value else {"key": key, "operator": "Exists", "effect": effect}


def _counts(least: Any, usual: Any, most: Any) -> dict[str, Any]:
    return {"minCount": least, "defaultCount": usual, "maxCount": most}


def _profile(name: str, title: str, description: str, spec: dict[str, Any]) -> dict[str, Any]:
    notes = {"opendatahub.io/display-name": title, "opendatahub.io/description": description}
    return {
        "apiVersion": API,
        "kind": "HardwareProfile",
        "metadata": {"name": name, "annotations": notes},
        "spec": spec,
    }
