"""What a node says about its cards: capacity, allocatable and labels, derived from cards plus NVIDIA's configuration.

Capacity counts every card, allocatable those that take work. Resources and labels that this derives belong to it:
`stale` names those of a node that are no longer derived, so that the writer removes them and nothing is offered twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.jsontext import read_json
from gpuaas.devices.cards import Card
from gpuaas.devices.inventory import is_named
from gpuaas.devices.labels import Machine, labels
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, load

CONFIG: Final = "gpuaas.dev/device-plugin-config"  # annotation of a node: the configuration in force
MOST_REPLICAS: Final = 1024
_MOST_ENTRIES: Final = 32
_PRESENT: Final = "nvidia.com/gpu.present"
_OURS: Final = re.compile(
    r"nvidia\.com/(cuda\.(driver|runtime|driver-version|runtime-version)\.[a-z]+|(mig|mps)\.capable|mig\.strategy|vgpu\.present"
    r"|gpu\.(present|machine|mode|clique|family|compute\.(major|minor))"
    r"|(gpu|mig-[^/]+)\.(product|count|replicas|sharing-strategy|memory|multiprocessors|slices\.[a-z]+|engines\.[a-z]+))"
)
_RESOURCE: Final = re.compile(r"nvidia\.com/(gpu|mig-[0-9][^/]*)(\.shared)?")


@dataclass(frozen=True, slots=True)
class Advertised:
    offer: Offer
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]


def advertise(cards: tuple[Card, ...], config: PluginConfig, machine: Machine) -> Advertised:
    """Raises ConfigError where NVIDIA's programs would not start."""
    if not cards:
        return Advertised({}, {}, {}, {})
    whole = offer(cards, config)
    working = {name: sum(not device.card.unhealthy for device in devices.values()) for name, devices in whole.items()}
    capacity = {name: str(len(devices)) for name, devices in whole.items()}
    allocatable = {name: str(count) for name, count in working.items()}
    return Advertised(whole, capacity, allocatable, _labels(cards, config, machine))


def _labels(cards: tuple[Card, ...], config: PluginConfig, machine: Machine) -> dict[str, str]:
    # A card the driver lost has no name any more; the others speak for the node.
    known = tuple(card for card in cards if card.product.compute != (0, 0) or not card.unhealthy) or cards
    found = {_PRESENT: "true", **labels(known, config, machine)}
    if not all(map(is_named, cards)):  # a fleet that gives a number alone says nothing about the product
        for key in ("product", "family", "compute.major", "compute.minor"):
            found.pop(f"nvidia.com/gpu.{key}", None)
    if not any(card.memory_mib for card in cards):
        found.pop("nvidia.com/gpu.memory", None)
    return found


def is_device_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


def stale_resources(known: Iterable[str], derived: Mapping[str, str]) -> list[str]:
    return [name for name in known if is_device_resource(name) and name not in derived]


def stale_labels(known: Iterable[str], derived: Mapping[str, str]) -> list[str]:
    return [name for name in known if _OURS.fullmatch(name) and name not in derived]


def check_size(config: PluginConfig) -> None:
    """Every replica is a device in memory, so their number is limited. Raises ConfigError."""
    for section, sharing in (("timeSlicing", config.time_slicing), ("mps", config.mps)):
        entries = sharing.resources if sharing is not None else ()
        if len(entries) > _MOST_ENTRIES:
            raise ConfigError(
                f"sharing.{section}.resources has {len(entries)} entries, at most {_MOST_ENTRIES} are allowed"
            )
        for number, entry in enumerate(entries):
            if entry.replicas > MOST_REPLICAS:
                at = f"sharing.{section}.resources[{number}].replicas"
                raise ConfigError(f"{at} is {entry.replicas}, at most {MOST_REPLICAS} are allowed")


def document_of(config: PluginConfig) -> dict[str, Any]:
    """The configuration as a document that `load` reads back: what decides the offer, without the rest."""
    flags: dict[str, Any] = {"migStrategy": config.mig_strategy}
    if config.mps_root:
        flags["mpsRoot"] = config.mps_root
    if config.device_id_strategy != "uuid":
        flags["plugin"] = {"deviceIDStrategy": config.device_id_strategy}
    sharing: dict[str, Any] = {}
    for section, found in (("timeSlicing", config.time_slicing), ("mps", config.mps)):
        if found is not None and found.resources:
            sharing[section] = {
                "renameByDefault": found.rename_by_default,
                "failRequestsGreaterThanOne": found.fail_requests_greater_than_one,
                "resources": [{"name": entry.name, "replicas": entry.replicas} for entry in found.resources],
            }
    return {"version": "v1", "flags": flags} | ({"sharing": sharing} if sharing else {})


def default_config(cards: tuple[Card, ...]) -> PluginConfig:
    """Where nothing is configured: cards with MIG on offer their slices by profile, and none of them as a whole card."""
    return PluginConfig(mig_strategy="mixed" if any(card.mig for card in cards) else "none")


def keep(config: PluginConfig, source: str, *, says_strategy: bool = True) -> str:
    """The text of the annotation CONFIG. `source`: the ConfigMap and key it comes from. `says_strategy`: whether the MIG
    strategy was configured; if not, it follows the cards, also when their layout changes later."""
    document = document_of(config)
    if not says_strategy:
        del document["flags"]["migStrategy"]
    kept: dict[str, Any] = {"source": source, "document": document}
    if config.only_cards:
        kept["cards"] = sorted(config.only_cards)
    return json.dumps(kept, separators=(",", ":"), sort_keys=True)


def config_in_force(text: str, cards: tuple[Card, ...] = ()) -> PluginConfig | None:
    """The configuration a node's annotation keeps, for its cards; None where it keeps none that can be read."""
    if not text:
        return None
    try:
        kept = read_json(text)
        document = kept["document"]
        found = replace(load(document), only_cards=frozenset(map(str, kept.get("cards") or ())))
        check_size(found)
        said = "migStrategy" in document["flags"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if said else with_default_strategy(found, cards)


def with_default_strategy(config: PluginConfig, cards: tuple[Card, ...]) -> PluginConfig:
    return replace(config, mig_strategy=default_config(cards).mig_strategy)
