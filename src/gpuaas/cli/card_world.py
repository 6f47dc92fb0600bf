"""Nodes with cards as commands read them: from the annotations nodes and pods carry, through the API alone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object
    from gpuaas.devices.cards import Card
    from gpuaas.devices.holding import Held
    from gpuaas.devices.plugin_config import PluginConfig


@dataclass(frozen=True, slots=True)
class CardNode:
    """`held`: by pod (`namespace/name`), what it holds here."""

    name: str
    obj: "Object"
    cards: "tuple[Card, ...]"
    config: "PluginConfig"
    held: "dict[str, tuple[Held, ...]]"


async def card_nodes(client: "HttpClient") -> list[CardNode]:
    """By name; those that gpuaas keeps the cards of."""
    from gpuaas.client.resources import NODES, PODS
    from gpuaas.devices import inventory
    from gpuaas.devices.advertise import CONFIG
    from gpuaas.devices.holding import held_by
    from gpuaas.devices.sharing import in_force

    held: dict[str, dict[str, tuple[Held, ...]]] = {}
    for pod in (await client.list(PODS)).items:
        devices = held_by(pod)
        if devices and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            held.setdefault(pod["spec"].get("nodeName") or "", {})[name] = devices
    found: list[CardNode] = []
    for node in sorted((await client.list(NODES)).items, key=lambda one: str(one["metadata"]["name"])):
        said = node["metadata"].get("annotations") or {}
        cards = inventory.cards_shown(str(said.get(inventory.ANNOTATION) or ""))
        if cards:
            name = node["metadata"]["name"]
            found.append(CardNode(name, node, cards, in_force(str(said.get(CONFIG) or ""), cards), held.get(name, {})))
    return found


def find_target(nodes: list[CardNode], name: str) -> "tuple[CardNode, Card | None]":
    """A node by its name; a card by its UUID (or what it begins with) or as NODE:INDEX."""
    for node in nodes:
        if node.name == name:
            return node, None
    node_name, _, index = name.rpartition(":")
    found = [
        (node, card)
        for node in nodes
        for card in node.cards
        if (node.name == node_name and index == str(card.index)) or (len(name) > 4 and card.uuid.startswith(name))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise click.ClickException(f"{name} fits {len(found)} cards: write more of the UUID, or NODE:INDEX")
    known = ", ".join(node.name for node in nodes[:10]) or "none"
    raise click.ClickException(
        f"there is no node or card {name}; nodes whose cards gpuaas manages: {known} (gpuaas gpus --cards shows each card)."
        " On a cluster with NVIDIA's operator, sharing is its ClusterPolicy's: see docs/guides/cards.md"
    )


def condition(node: "Object", kind: str) -> dict[str, Any]:
    found = (node.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})
