"""Which MIG geometry would admit most of what waits, and whom it would displace. Pure.

Candidates are the named configurations of each node with cards that can be partitioned, one node changed at a time, and
no change at all. For each the devices that would be free are counted: all of cards that change, what is not held of the
others. What waits is taken in its order and fits where each of its pods finds a node with enough of every resource. A plan
that admits no more than no change is no plan. The order of plans: most admitted, fewest pods displaced, fewest cards
changed, name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuaas.devices.advertise import with_default_strategy
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import Held
from gpuaas.devices.inventory import layout_of, with_layout, without_mig
from gpuaas.devices.mig_apply import generate
from gpuaas.devices.mig_config import Configs, MigConfigError, select
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig

MOST_NODES: Final = 64  # of which candidates are made; further nodes stay as they are
_MOST_WAITING: Final = 2000


@dataclass(frozen=True, slots=True)
class NodeCardsNow:
    """`held`: by pod, its devices on the node."""

    name: str
    cards: tuple[Card, ...]
    config: PluginConfig
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    configs: Configs | None = None  # of the operator's ConfigMap; None: those its products have


@dataclass(frozen=True, slots=True)
class Waiting:
    """`pods`: what each of its pods asks for of the cards' resources."""

    name: str
    pods: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    node: str
    config: str
    admits: tuple[str, ...]  # more than without a change
    loses: tuple[str, ...]  # would be admitted without a change, and not with it
    displaces: tuple[str, ...]
    cards: int  # that change
    offers: Mapping[str, int]


def plans(nodes: Sequence[NodeCardsNow], waiting: Sequence[Waiting]) -> list[Plan]:
    """The best first; empty where no change admits more."""
    wanted = [one for one in waiting if any(one.pods)][:_MOST_WAITING]
    free = {node.name: _free(node, node.cards) for node in nodes}
    as_it_is = set(_admitted(free, wanted))
    found: list[Plan] = []
    capable = [node for node in nodes if any(card.product.mig_capable for card in node.cards)]
    for node in capable[:MOST_NODES]:
        for name, cards in _candidates(node):
            changed = [card for card, new in zip(node.cards, cards, strict=True) if _differs(card, new)]
            after = {**free, node.name: _free(node, cards)}
            admitted = _admitted(after, wanted)
            gained = tuple(one for one in admitted if one not in as_it_is)
            lost = tuple(sorted(as_it_is - set(admitted)))
            if len(gained) <= len(lost):
                continue
            uuids = {card.uuid for card in changed}
            displaces = sorted(pod for pod, held in node.held.items() if any(one.card in uuids for one in held))
            found.append(Plan(node.name, name, gained, lost, tuple(displaces), len(changed), _offered(node, cards)))
    return sorted(found, key=lambda p: (len(p.loses) - len(p.admits), len(p.displaces), p.cards, p.node, p.config))


def change_of(node: NodeCardsNow, name: str) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """The node's cards under a named configuration, and the pods that it would displace. Raises ValueError where there is
    no such configuration, or where it cannot be."""
    configs = node.configs if node.configs is not None else generate(card.product for card in node.cards)
    cards = list(node.cards)
    for entry in select(configs, name):
        for at, card in enumerate(node.cards):
            if not entry.matches(card.index, card.product.pci_id) or not card.product.mig_capable:
                continue
            new = with_layout(card, entry.devices or {}) if entry.enabled else without_mig(card)
            cards[at] = new if _differs(card, new) else card
    changed = {old.uuid for old, new in zip(node.cards, cards, strict=True) if _differs(old, new)}
    displaces = sorted(pod for pod, held in node.held.items() if any(one.card in changed for one in held))
    return tuple(cards), tuple(displaces)


def _candidates(node: NodeCardsNow) -> list[tuple[str, tuple[Card, ...]]]:
    """Configurations that can be, and change something; of those that make the same layout the first by name."""
    try:
        configs = node.configs if node.configs is not None else generate(card.product for card in node.cards)
    except MigConfigError:
        return []
    found: dict[tuple[Card, ...], str] = {}
    for name, entries in sorted(configs.items()):
        cards = {card.index: card for card in node.cards}
        try:
            for entry in entries:
                for card in node.cards:
                    if card.product.mig_capable and entry.matches(card.index, card.product.pci_id):
                        new = with_layout(card, entry.devices or {}) if entry.enabled else without_mig(card)
                        cards[card.index] = new if _differs(card, new) else card
        except ValueError:
            continue
        layout = tuple(cards[card.index] for card in node.cards)
        if layout != node.cards:
            found.setdefault(layout, name)
    return [(name, layout) for layout, name in found.items()]


def _differs(card: Card, other: Card) -> bool:
    return card.mig != other.mig or layout_of(card) != layout_of(other)


def _free(node: NodeCardsNow, cards: tuple[Card, ...]) -> Counter[str]:
    """Devices nothing holds, by resource; none of cards that are ill."""
    known = {card.uuid: card for card in node.cards}
    changed = {card.uuid for card in cards if _differs(known[card.uuid], card)}
    taken = {one.id for held in node.held.values() for one in held if one.card not in changed}
    whole = {one.uuid for held in node.held.values() for one in held if one.card not in changed and not one.is_replica}
    found: Counter[str] = Counter()
    for resource, devices in _devices(node, cards).items():
        found[resource] = sum(
            id_ not in taken and device.uuid not in whole and not device.card.unhealthy
            for id_, device in devices.items()
        )
    return found


def _offered(node: NodeCardsNow, cards: tuple[Card, ...]) -> dict[str, int]:
    return {resource: len(devices) for resource, devices in _devices(node, cards).items() if devices}


def _devices(node: NodeCardsNow, cards: tuple[Card, ...]) -> Offer:
    try:
        return offer(cards, with_default_strategy(node.config, cards))
    except ConfigError:
        return {}


def _admitted(free: Mapping[str, Counter[str]], waiting: Sequence[Waiting]) -> list[str]:
    """First fit, linear in nodes and pods: what is free only shrinks, so a shape goes on where it fitted last."""
    left = [Counter(amounts) for amounts in free.values()]
    begins: dict[tuple[tuple[str, int], ...], int] = {}  # by shape of a pod, the first node it may still fit on
    found: list[str] = []
    for one in waiting:
        taken: list[tuple[int, Mapping[str, int]]] = []
        for pod in one.pods:
            shape = tuple(sorted(pod.items()))
            at = begins.get(shape, 0)
            while at < len(left) and any(left[at][resource] < count for resource, count in shape):
                at += 1
            begins[shape] = at
            if at == len(left):
                break
            left[at].subtract(pod)
            taken.append((at, pod))
        else:
            found.append(one.name)
            continue
        for at, pod in taken:  # all of its pods, or none
            left[at].update(pod)
            begins = {shape: min(first, at) for shape, first in begins.items()}
    return found
