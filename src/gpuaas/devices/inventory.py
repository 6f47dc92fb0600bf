"""A node's cards as cluster state: simulated cards, their MIG layout, and the text they are kept as.

The cards of a node are what its fleet file or its driver says; nothing else can add one. The node's annotation
`gpuaas.dev/cards` shows them and keeps the one thing about a simulated card that changes, its MIG layout. `restored`
reads a layout back only for a card that exists and only where the geometry allows it, so an annotation edited by hand
cannot offer more than the cards have.

UUIDs are derived from the node's name, the card's index and, for MIG devices, the profile and memory slot: the same
fleet has the same devices after every start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.jsontext import read_json
from gpuaas.devices.cards import Card, MigDevice
from gpuaas.devices.geometry import Placement, arrange, fits, instances_for, profile_of
from gpuaas.devices.labels import Machine
from gpuaas.devices.mig_profile import parse_profile
from gpuaas.devices.products import Product, find, label_of

ANNOTATION: Final = "gpuaas.dev/cards"
WIRINGS: Final = ("all", "pairs", "none")
SIMULATED: Final = Machine("580.159.04", 13000, "gpuaas simulated node")
MOST_CARDS: Final = 1024
_LINKS: Final = 4  # NVLinks between two cards that are wired
_SAME_SOCKET, _OTHER_SOCKET = 40, 50  # NVML's topology levels
_UNNAMED: Final = "GPU"
_LONGEST: Final = 1 << 19  # characters of an annotation that are read


@dataclass(frozen=True, slots=True)
class Pool:
    """The cards of a simulated node as its fleet file describes them; what is empty or 0 comes from the product."""

    product: str = ""
    count: int = 0
    memory_mib: int = 0
    nvlink: str = ""
    numa: int = 1  # sockets the cards are spread over


def simulated_cards(node: str, pool: Pool) -> tuple[Card, ...]:
    product = find(pool.product) or _unknown(pool)
    wiring = pool.nvlink or product.nvlink
    domains = [index * pool.numa // pool.count for index in range(pool.count)]
    named = "" if product.label == label_of(pool.product or product.name) or find(pool.product) else pool.product
    levels = {
        domain: tuple(_SAME_SOCKET if other == domain else _OTHER_SOCKET for other in domains)
        for domain in dict.fromkeys(domains)
    }
    everywhere = (_LINKS,) * pool.count if wiring == "all" and pool.count > 1 else ()
    return tuple(
        Card(
            index,
            derived_uuid("GPU", node, index),
            product,
            name_override=named,
            memory_override_mib=0 if pool.memory_mib == product.memory_mib else pool.memory_mib,
            minor=index,
            nvlinks=_pair_links(index, pool.count) if wiring == "pairs" else everywhere,
            pcie=levels[domains[index]],
            numa=domains[index],
        )
        for index in range(pool.count)
    )


def _unknown(pool: Pool) -> Product:
    name = pool.product or _UNNAMED
    return Product(name, name, pool.memory_mib, (0, 0), 0, measured=False)


def _pair_links(index: int, count: int) -> tuple[int, ...]:
    partner = index ^ 1
    return tuple(_LINKS if other == partner else 0 for other in range(count)) if partner < count else ()


def derived_uuid(kind: str, *parts: object) -> str:
    digits = hashlib.sha256("\0".join(map(str, (kind, *parts))).encode()).hexdigest()
    return f"{kind}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def is_named(card: Card) -> bool:
    """Whether the product is known by any name: a fleet may give a number of GPUs alone."""
    return card.name != _UNNAMED


# -- MIG layout ---------------------------------------------------------------------------------------------------------


def layout_of(card: Card) -> dict[str, int]:
    found: dict[str, int] = {}
    for device in card.devices:
        found[device.profile] = found.get(device.profile, 0) + 1
    return found


def with_layout(card: Card, devices: Mapping[str, int]) -> Card:
    """The card with MIG on and these devices. Raises ValueError where they do not fit."""
    wanted = {str(parse_profile(name)): count for name, count in devices.items() if count}
    instances = instances_for(card.product, wanted)
    placed = None if instances is None else arrange(card.product, instances)
    if placed is None:
        raise ValueError(f"{_words(devices)} does not fit on a {card.name}")
    return replace(card, mig=True, devices=tuple(_devices(card, sorted(placed), wanted)))


def without_mig(card: Card) -> Card:
    return replace(card, mig=False, devices=())


def _words(devices: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in devices.items())


def _devices(card: Card, placed: Sequence[Placement], wanted: Mapping[str, int]) -> list[MigDevice]:
    """Largest compute instances first, each into the first GPU instance of its profile that has slices left."""
    room = {placement: parse_profile(placement.profile).slices for placement in placed}
    found: list[tuple[Placement, str]] = []
    for name in sorted(wanted, key=lambda name: -parse_profile(name).compute):
        parsed = parse_profile(name)
        for _ in range(wanted[name]):
            at = next(p for p in placed if p.profile == parsed.gpu_instance and room[p] >= parsed.compute)
            room[at] -= parsed.compute
            found.append((at, name))
    found.sort(key=lambda pair: pair[0].start)
    return [
        MigDevice(derived_uuid("MIG", card.uuid, name, at.start, number), number, name, at.start)
        for number, (at, name) in enumerate(found)
    ]


# -- The text -----------------------------------------------------------------------------------------------------------


def encode(cards: Sequence[Card]) -> str:
    return json.dumps([_shown(card) for card in cards], separators=(",", ":"))


def _shown(card: Card) -> dict[str, Any]:
    shown: dict[str, Any] = {"uuid": card.uuid, "product": card.name, "memory": card.memory_mib}
    if card.mig:
        shown["mig"] = [
            {"uuid": device.uuid, "profile": device.profile} | ({} if device.start is None else {"start": device.start})
            for device in card.devices
        ]
    return shown | ({"closed": card.unhealthy} if card.unhealthy else {})


def shown_cards(text: str) -> list[dict[str, Any]]:
    """What the annotation shows; nothing where it cannot be read."""
    try:
        found = read_json(text, _LONGEST)
    except ValueError:
        return []
    if not isinstance(found, list) or len(found) > MOST_CARDS:
        return []
    cards = [one for one in found if isinstance(one, dict)]
    return [one if isinstance(one.get("uuid"), str) else {**one, "uuid": ""} for one in cards]


def cards_shown(text: str) -> tuple[Card, ...]:
    """The cards an annotation shows, for who only reads: a client that plans a change, say."""
    bare = (
        Card(
            index,
            str(one.get("uuid") or ""),
            product if (product := find(name := str(one.get("product") or ""))) is not None else _unknown(Pool(name)),
            memory_override_mib=memory if isinstance(memory := one.get("memory"), int) else 0,
        )
        for index, one in enumerate(shown_cards(text))
    )
    return with_closed(restored(tuple(bare), text), text)


def restored(cards: Sequence[Card], text: str) -> tuple[Card, ...]:
    """The cards with the layout the annotation has for them, as far as it can be. Whether they take work is not read
    back: that is found again from what is so now."""
    kept = {one.get("uuid"): one for one in shown_cards(text)}
    return tuple(_restored(card, kept.get(card.uuid) or {}) for card in cards)


def with_closed(cards: Sequence[Card], text: str) -> tuple[Card, ...]:
    """The cards with the annotation's word on which of them take no work."""
    closed = {one.get("uuid"): one.get("closed") for one in shown_cards(text)}
    return tuple(
        replace(card, unhealthy=reason[:256])
        if isinstance(reason := closed.get(card.uuid), str) and reason and not card.unhealthy
        else card
        for card in cards
    )


def _restored(card: Card, kept: Mapping[str, Any]) -> Card:
    listed = kept.get("mig")
    if card.mig or not isinstance(listed, list) or not card.product.mig_capable:
        return card  # the driver's own word stands
    wanted: dict[str, int] = {}
    for one in listed[: card.product.slots]:
        profile = one.get("profile") if isinstance(one, dict) else None
        if not isinstance(profile, str) or profile_of(card.product, profile) is None:
            return card
        wanted[profile] = wanted.get(profile, 0) + 1
    return with_layout(card, wanted) if fits(card.product, wanted) else card
