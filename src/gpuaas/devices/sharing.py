"""How a node's cards are shared where `gpuaas share` says it, and whom a change of sharing displaces. Pure.

The node's annotation `gpuaas.dev/sharing` is `{"strategy": "time-slicing" | "mps" | "none", "replicas": N}`, with `cards`
(UUIDs) where only some of them are shared. It counts before NVIDIA's configuration on that node. Where all cards are
shared they keep the resource name `nvidia.com/gpu`; where only some are, these offer `nvidia.com/gpu.shared`, so that who
asks for `nvidia.com/gpu` still gets a whole card.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gpuaas.base.jsontext import read_json
from gpuaas.devices.advertise import MOST_REPLICAS, config_in_force, default_config
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import Held
from gpuaas.devices.mps import daemons
from gpuaas.devices.offer import GPU, Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, SharedResource, Sharing, check_flags

ANNOTATION: Final = "gpuaas.dev/sharing"
_MPS_ROOT: Final = "/run/nvidia/mps"
_LONGEST: Final = 1 << 16
Strategy = Literal["time-slicing", "mps", "none"]
Ids = Sequence[tuple[str, str]]  # resource and id of devices


class WishError(ValueError):
    """The annotation cannot be; the text names the field."""


@dataclass(frozen=True, slots=True)
class Wish:
    strategy: Strategy
    replicas: int = 0
    cards: frozenset[str] = frozenset()  # empty: all

    def document(self) -> str:
        shown: dict[str, object] = {"strategy": self.strategy}
        if self.strategy != "none":
            shown["replicas"] = self.replicas
        return json.dumps(shown | ({"cards": sorted(self.cards)} if self.cards else {}), separators=(",", ":"))


def read_wish(text: str) -> Wish | None:
    """None where nothing is said. Raises WishError."""
    if not text:
        return None
    try:
        found = read_json(text, _LONGEST)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise WishError('must be JSON such as {"strategy":"time-slicing","replicas":4}')
    strategy, replicas, cards = found.get("strategy"), found.get("replicas", 0), found.get("cards") or []
    if strategy not in ("time-slicing", "mps", "none"):
        raise WishError(f"strategy is {str(strategy)[:40]!r}, must be time-slicing, mps or none")
    if not isinstance(cards, list) or not all(isinstance(one, str) for one in cards):
        raise WishError("cards must be a list of UUIDs")
    if strategy == "none":
        return Wish("none", 0, frozenset(cards))
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 2 <= replicas <= MOST_REPLICAS:
        raise WishError(f"replicas is {str(replicas)[:40]}, must be from 2 to {MOST_REPLICAS}")
    return Wish(strategy, replicas, frozenset(cards))


def config_of(wish: Wish, cards: tuple[Card, ...]) -> PluginConfig:
    """The configuration of the device plugin that does what was wished for. Raises WishError."""
    known = {card.uuid for card in cards}
    if missing := sorted(wish.cards - known):
        raise WishError(f"cards: the node has no card {missing[0]}")
    plain = default_config(cards)
    if wish.strategy == "none":
        return plain
    some = bool(wish.cards) and wish.cards != known
    entry = SharedResource(GPU, wish.replicas, f"{GPU}.shared" if some else "")
    sharing = Sharing((entry,), rename_by_default=some, fail_requests_greater_than_one=wish.strategy == "mps")
    only = wish.cards if some else frozenset[str]()
    if wish.strategy == "mps":
        return replace(plain, mps=sharing, mps_root=_MPS_ROOT, only_cards=only)
    return replace(plain, time_slicing=sharing, only_cards=only)


def with_card(before: Wish | None, wanted: Wish, card: str, known: Collection[str]) -> Wish:
    """What is shared on the node once one card is (or is not any more). Cards of one node are shared alike. Raises
    WishError where they would not be."""
    shared = set[str]()
    if before is not None and before.strategy != "none":
        shared = set(before.cards or known)
    others = shared - {card}
    if wanted.strategy == "none":
        return replace(before, cards=frozenset(others)) if before is not None and others else Wish("none")
    if before is not None and others and (before.strategy, before.replicas) != (wanted.strategy, wanted.replicas):
        raise WishError(
            f"{len(others)} other cards of the node are shared by {before.strategy} x {before.replicas}:"
            " cards of one node are shared alike"
        )
    return replace(wanted, cards=frozenset(others | {card}))


def check(wish: Wish, cards: tuple[Card, ...]) -> None:
    """Whether NVIDIA's programs would start with it. Raises WishError with their reason."""
    config = config_of(wish, cards)
    try:
        check_flags(config)
        daemons(offer(cards, config), config)
    except ConfigError as error:
        raise WishError(str(error)) from None


# -- Whom a change displaces --------------------------------------------------------------------------------------------


def displaced(
    cards: Iterable[Card],
    before: PluginConfig,
    after: PluginConfig,
    offered: Offer,
    holders: Mapping[str, Sequence[tuple[str, Ids]]],
) -> dict[str, set[str]]:
    """By card, the pods that hold a device there which is not offered any more, or is shared in another way.
    `holders`: by card, pods with their devices there."""
    as_before = before.strategy == after.strategy
    ids = {(resource, id_) for resource, devices in offered.items() for id_ in devices}
    found: dict[str, set[str]] = {}
    for card in cards:
        for pod, devices in holders.get(card.uuid, ()):
            if any(held not in ids or not (as_before or "::" not in held[1]) for held in devices):
                found.setdefault(card.uuid, set()).add(pod)
    return found


def in_force(text: str, cards: tuple[Card, ...]) -> PluginConfig:
    """What the node's annotation of the configuration in force says, or the default."""
    return config_in_force(text, cards) or default_config(cards)


def offered_with(cards: tuple[Card, ...], config: PluginConfig) -> Offer:
    """Nothing where the plugin would not start."""
    try:
        return offer(cards, config)
    except ConfigError:
        return {}


def wish_for(cards: tuple[Card, ...], config: PluginConfig, text: str, wanted: Wish, card: Card | None = None) -> Wish:
    """What the node's annotation becomes when all its cards, or one, are to be shared so. `config`: what is in force;
    `text`: the annotation now. Raises WishError where it cannot be."""
    try:
        before = read_wish(text)
    except WishError:
        before = None
    shared = config.sharing.resources
    if before is None and shared:  # by NVIDIA's configuration
        before = Wish("mps" if config.strategy == "mps" else "time-slicing", shared[0].replicas, config.only_cards)
    wish = wanted if card is None else with_card(before, wanted, card.uuid, [one.uuid for one in cards])
    check(wish, cards)
    return wish


def displaced_pods(
    cards: tuple[Card, ...], config: PluginConfig, held: Mapping[str, Sequence[Held]], wish: Wish
) -> list[str]:
    """The pods that hold what the wish takes away. `held`: by pod, its devices on the node."""
    after = config_of(wish, cards)
    holders: dict[str, list[tuple[str, Ids]]] = {}
    for pod, devices in held.items():
        for uuid in {one.card for one in devices}:
            listed = [(one.resource, one.id) for one in devices if one.card == uuid]
            holders.setdefault(uuid, []).append((pod, listed))
    found = displaced(cards, config, after, offered_with(cards, after), holders)
    return sorted({pod for pods in found.values() for pod in pods})
