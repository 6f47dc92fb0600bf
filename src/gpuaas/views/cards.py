"""Rows of cards: each card of a node as a grid of cells, split by MIG placement or by shares, with its holders.

`Cards` keeps the annotations of nodes as they are written and what pods hold; both are read when rows are made, for the
nodes of one page. Where nodes and pods have their annotations from: devices.inventory, devices.holding, devices.foreign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpuaas.devices import inventory, sharing
from gpuaas.devices.advertise import CONFIG
from gpuaas.devices.cards import Card
from gpuaas.devices.foreign import FOREIGN, foreign_processes
from gpuaas.devices.holding import Held, held_by
from gpuaas.devices.memory import USED, UTILIZATION, mebibytes
from gpuaas.devices.mig_plan import NodeCardsNow
from gpuaas.devices.offer import Device, offer
from gpuaas.devices.plugin_config import ConfigError

View = Mapping[str, Any]
_SLOTS: Final = 8
_MOST_SHARES: Final = 64  # cells of one card


class CellHolder(msgspec.Struct, rename="camel"):
    namespace: str
    pod: str
    budget: int  # MiB; 0: all of it
    used: int | None  # MiB, where it is known
    busy: str = ""  # percent, where it is known


class CardCell(msgspec.Struct, rename="camel"):
    """A part of a card that is given out: all of it, a share, or a MIG slice at its memory slots of 8."""

    name: str
    start: int
    size: int
    memory: int  # MiB
    holders: list[CellHolder]


class CardRow(msgspec.Struct, rename="camel"):
    node: str
    index: int
    uuid: str
    product: str
    memory: int
    sharing: str
    state: str  # why it takes no work; empty while it does
    cells: list[CardCell]
    more: int  # shares beyond those that are listed
    foreign: list[str]
    mig_capable: bool = False


@dataclass(slots=True)
class _Node:
    cards: str
    config: str
    sharing: str
    foreign: str


class Cards:
    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[tuple[str, str], tuple[str, str, str, str]] = {}  # node, devices, memory used, utilization
        self._on_node: dict[str, dict[tuple[str, str], None]] = {}

    def node_changed(self, name: str, obj: View | None) -> None:
        said = (obj["metadata"].get("annotations") or {}) if obj is not None else {}
        if not said.get(inventory.ANNOTATION):
            self._nodes.pop(name, None)
            return
        texts = (str(said.get(key) or "") for key in (inventory.ANNOTATION, CONFIG, sharing.ANNOTATION, FOREIGN))
        self._nodes[name] = _Node(*texts)

    def pod_changed(self, namespace: str, name: str, obj: View | None) -> None:
        key = (namespace, name)
        before = self._pods.pop(key, None)
        if before is not None:
            self._on_node[before[0]].pop(key, None)
            if not self._on_node[before[0]]:
                del self._on_node[before[0]]
        said = (obj["metadata"].get("annotations") or {}) if obj is not None else {}
        node = ((obj or {}).get("spec") or {}).get("nodeName") or ""
        over = ((obj or {}).get("status") or {}).get("phase") in ("Succeeded", "Failed")
        text = said.get("gpuaas.dev/devices")
        if text and node and not over:
            self._pods[key] = (node, str(text), str(said.get(USED) or ""), str(said.get(UTILIZATION) or "")[:8])
            self._on_node.setdefault(node, {})[key] = None

    def names(self) -> list[str]:
        return sorted(self._nodes)

    def now(self, name: str) -> tuple[NodeCardsNow, str] | None:
        """What a change of the node's cards starts from, and its annotation by `gpuaas share`."""
        node = self._nodes.get(name)
        if node is None:
            return None
        cards = inventory.cards_shown(node.cards)
        held = {"/".join(key): devices for key, (devices, *_) in self._held(name).items()}
        return NodeCardsNow(name, cards, sharing.in_force(node.config, cards), held), node.sharing

    def listed(self, names: Sequence[str], *, holders: bool = True) -> list[CardRow]:
        """Of these nodes; without `holders`, nothing about pods."""
        return [row for name in names if name in self._nodes for row in self._rows(name, holders=holders)]

    def _rows(self, name: str, *, holders: bool) -> list[CardRow]:
        node = self._nodes[name]
        cards = inventory.cards_shown(node.cards)
        config = sharing.in_force(node.config, cards)
        try:
            devices = [one for found in offer(cards, config).values() for one in found.values()]
        except ConfigError:
            devices = []
        of_card: dict[str, list[Device]] = {}
        for device in devices:
            of_card.setdefault(device.card.uuid, []).append(device)
        held: dict[str, list[CellHolder]] = {}
        for (namespace, pod), (mine, used, busy) in (self._held(name) if holders else {}).items():
            for one in mine:
                held.setdefault(one.id, []).append(CellHolder(namespace, pod, one.budget, used, busy))
        strangers: dict[str, list[str]] = {}
        for each in foreign_processes(node.foreign):
            strangers.setdefault(each.card, []).append(each.in_words)
        return [
            _row(name, card, of_card.get(card.uuid, []), config.strategy, held, strangers.get(card.uuid, []))
            for card in cards
        ]

    def _held(self, node: str) -> dict[tuple[str, str], tuple[tuple[Held, ...], int | None, str]]:
        found = {}
        for key in self._on_node.get(node, ()):
            _, text, used, busy = self._pods[key]
            devices = held_by({"metadata": {"annotations": {"gpuaas.dev/devices": text}}})
            found[key] = (devices, mebibytes(used), busy.removesuffix("%"))
        return found


def _row(
    node: str,
    card: Card,
    devices: Sequence[Device],
    strategy: str,
    held: Mapping[str, list[CellHolder]],
    foreign: list[str],
) -> CardRow:
    shares = max((device.replicas for device in devices if device.mig is None), default=0)
    how = "MIG" if card.mig else f"{strategy} x {shares}" if shares > 1 else "whole"
    cells = [_cell(card, device, held) for device in devices[:_MOST_SHARES]]
    if not cells:
        cells = [CardCell("not offered", 0, _SLOTS, card.memory_mib, [])]
    more = max(0, len(devices) - _MOST_SHARES)
    capable = card.product.mig_capable
    return CardRow(
        node, card.index, card.uuid, card.name, card.memory_mib, how, card.unhealthy, cells, more, foreign, capable
    )


def _cell(card: Card, device: Device, held: Mapping[str, list[CellHolder]]) -> CardCell:
    holders = held.get(device.id, [])
    if device.mig is None:
        memory = card.memory_mib // max(1, device.replicas)
        name = f"share {int(device.id.rpartition('::')[2]) + 1} of {device.replicas}" if device.is_replica else "card"
        return CardCell(name, 0, _SLOTS if not device.is_replica else 1, memory, holders)
    profile = card.profile(device.mig)
    scale = _SLOTS // max(1, card.product.slots or _SLOTS)
    size = (profile.size if profile is not None else 1) * scale
    start = (device.mig.start or 0) * scale
    return CardCell(device.mig.profile, start, size, profile.memory_mib if profile is not None else 0, holders)
