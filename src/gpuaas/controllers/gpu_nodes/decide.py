"""What a node with cards should look like under NVIDIA's configuration. Pure.

Sharing: the node's label `nvidia.com/device-plugin.config` names a key of the ConfigMap; without the label the policy's
default counts, else a key named `default`, else the only one. A mistake leaves the node as it is. A configuration that
takes devices away which pods hold comes into force when these pods have left: they are asked to, and their cards take no
new work until then. The MIG layout is module mig's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpuaas.controllers.gpu_nodes.change import FAILED, NONE, Change, Changes
from gpuaas.controllers.gpu_nodes.mig import Mig, Moment, closed, listed, mig_of, names_of
from gpuaas.controllers.gpu_nodes.surface import Surface
from gpuaas.devices import sharing
from gpuaas.devices.advertise import Advertised, advertise, config_in_force, default_config, keep, with_default_strategy
from gpuaas.devices.cards import Card
from gpuaas.devices.foreign import is_ill
from gpuaas.devices.labels import Machine
from gpuaas.devices.mps import daemons
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, check_flags

KEY_LABEL: Final = "nvidia.com/device-plugin.config"
SHARING_CHANGES: Final = "its sharing is to change"


@dataclass(frozen=True, slots=True)
class Chosen:
    config: PluginConfig
    text: str = ""  # of the annotation; empty for the default
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`waits`: why a configuration is not in force yet. `leaving`: pods that are to go, and why."""

    cards: tuple[Card, ...]
    advertised: Advertised
    text: str
    problem: str
    mig: Mig
    is_configured: bool  # a policy names a configuration
    changes: Changes = NONE
    waits: str = ""
    leaving: Mapping[str, str] = field(default_factory=dict)
    ill: tuple[Card, ...] = ()


def decide(
    cards: tuple[Card, ...],
    machine: Machine,
    labels: Mapping[str, str],
    surface: Surface,
    kept: str,
    changes: Changes,
    at: Moment,
) -> Decision:
    """`cards`: closed only where they are ill or others use them. `kept`: the annotation of the configuration in force."""
    ill = tuple(card for card in cards if is_ill(card))
    mig = mig_of(cards, labels, surface, changes.mig, at)
    chosen, advertised = _advertised(mig.cards, machine, labels, surface, kept, at.sharing)
    drained = _Sharing(mig.cards)
    if chosen.text != kept and not at.strict:
        drained = _drained(mig.cards, kept, chosen, advertised.offer, changes.sharing, at)
    if drained.waits or drained.problem:
        before = config_in_force(kept, mig.cards) or default_config(mig.cards)
        chosen = Chosen(before, kept, drained.problem)
        advertised = advertise(drained.cards, before, machine)
    leaving = {
        one.pod: f"card {card.index} is ill: {card.unhealthy}" for card in ill for one in at.holders.get(card.uuid, ())
    }
    return Decision(
        drained.cards,
        advertised,
        chosen.text,
        chosen.problem,
        mig,
        bool(at.sharing) or (surface.policy is not None and bool(surface.policy.config)),
        Changes(mig.change, drained.change),
        drained.waits,
        {**drained.leaving, **mig.leaving, **leaving},
        ill,
    )


def _advertised(
    cards: tuple[Card, ...], machine: Machine, labels: Mapping[str, str], surface: Surface, kept: str, wish: str
) -> tuple[Chosen, Advertised]:
    """The configuration asked for, or the one before where that one cannot be; and what the node then offers."""
    chosen = _wished(cards, wish, kept) if wish else config_of(cards, labels, surface, kept)
    try:
        advertised = advertise(cards, chosen.config, machine)
        daemons(advertised.offer, chosen.config)
    except ConfigError as error:
        before = config_in_force(kept, cards) or default_config(cards)
        where = f"annotation {sharing.ANNOTATION}: " if wish else _where(surface, labels)
        chosen = Chosen(before, kept, f"{where}{error}")
        try:
            advertised = advertise(cards, before, machine)
        except ConfigError:  # what was in force does not suit the cards as they are now
            chosen = Chosen(default_config(cards), "", chosen.problem)
            advertised = advertise(cards, chosen.config, machine)
    return chosen, advertised


def _wished(cards: tuple[Card, ...], wish: str, kept: str) -> Chosen:
    try:
        found = sharing.read_wish(wish)
        assert found is not None
        config = sharing.config_of(found, cards)
        check_flags(config)
    except (sharing.WishError, ConfigError) as error:
        before = config_in_force(kept, cards) or default_config(cards)
        return Chosen(before, kept, f"annotation {sharing.ANNOTATION}: {error}")
    return Chosen(config, keep(config, "gpuaas share", says_strategy=False))


# -- Pods that hold what a new configuration does not offer ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sharing:
    cards: tuple[Card, ...]
    change: Change | None = None
    waits: str = ""
    problem: str = ""
    leaving: Mapping[str, str] = field(default_factory=dict)


def _drained(
    cards: tuple[Card, ...], kept: str, chosen: Chosen, offered: Offer, change: Change | None, at: Moment
) -> _Sharing:
    before = sharing.in_force(kept, cards)
    holders = {card: [(one.pod, one.devices) for one in found] for card, found in at.holders.items()}
    affected = sharing.displaced(cards, before, chosen.config, offered, holders)
    if not affected:
        return _Sharing(cards)
    blockers = sorted({pod for pods in affected.values() for pod in pods})
    goal = hashlib.sha256(chosen.text.encode()).hexdigest()[:16]
    if change is None or change.goal != goal:
        change = Change(goal, since=at.now)
    words = f"the new sharing configuration waits for {listed(blockers)}"
    if change.step == FAILED or at.now - change.since > at.deadline:
        words = f"{words}; given up after {at.deadline:.0f} s, it comes into force when they are gone"
        return _Sharing(cards, replace(change, step=FAILED), problem=words)
    leaving = dict.fromkeys(blockers, "the sharing of its card changes")
    ids = {(resource, id_) for resource, devices in offered.items() for id_ in devices}
    is_other = before.strategy != chosen.config.strategy
    changing = {card.uuid for card in cards} if is_other else _differing(cards, before, ids)
    return _Sharing(closed(cards, changing | set(affected), SHARING_CHANGES), change, words, leaving=leaving)


def _differing(cards: tuple[Card, ...], before: PluginConfig, ids: set[tuple[str, str]]) -> set[str]:
    """Cards of which devices are offered otherwise than now: what is given out of them meanwhile would have to go too."""
    try:
        now = offer(cards, before)
    except ConfigError:
        return {card.uuid for card in cards}
    return {
        device.card.uuid
        for resource, found in now.items()
        for id_, device in found.items()
        if (resource, id_) not in ids
    }


# -- Sharing ------------------------------------------------------------------------------------------------------------


def config_of(
    cards: tuple[Card, ...],
    labels: Mapping[str, str],
    surface: Surface,
    kept: str,
) -> Chosen:
    policy = surface.policy
    if policy is None or not policy.config:
        default = default_config(cards)
        if policy is not None and policy.mig_strategy in ("none", "single", "mixed"):
            strategy = replace(default, mig_strategy=policy.mig_strategy)
            return Chosen(strategy, keep(strategy, f"ClusterPolicy {policy.name}"))
        return Chosen(default)
    as_it_is = Chosen(config_in_force(kept, cards) or default_config(cards), kept)
    if surface.missing:
        return replace(as_it_is, problem=surface.missing)
    key, problem = key_of(labels, surface)
    if problem:
        return replace(as_it_is, problem=problem)
    if not key:
        return Chosen(default_config(cards), problem=_none_chosen(surface))
    parsed = surface.keys[key]
    if parsed.config is None:
        return replace(as_it_is, problem=f"ConfigMap {policy.config}, key {key}: {parsed.problem}")
    config = parsed.config
    if not parsed.says_strategy:
        config = with_default_strategy(config, cards)
    return Chosen(config, keep(config, f"{policy.config}/{key}", says_strategy=parsed.says_strategy))


def key_of(labels: Mapping[str, str], surface: Surface) -> tuple[str, str]:
    """The key for a node, and what is wrong with the choice; no key where none is chosen."""
    asked = labels.get(KEY_LABEL) or (surface.policy.default if surface.policy is not None else "")
    if asked:
        who = f"label {KEY_LABEL}" if labels.get(KEY_LABEL) else "ClusterPolicy spec.devicePlugin.config.default"
        if asked in surface.keys:
            return asked, ""
        return "", f"{who}: ConfigMap {surface.source} has no key {asked}; it has: {names_of(surface.keys)}"
    if "default" in surface.keys:
        return "default", ""
    return (next(iter(surface.keys)), "") if len(surface.keys) == 1 else ("", "")


def _none_chosen(surface: Surface) -> str:
    return (
        f"ConfigMap {surface.source} has several keys ({names_of(surface.keys)}) and none is chosen: nothing is shared;"
        f" set the node's label {KEY_LABEL}, or spec.devicePlugin.config.default of the ClusterPolicy"
    )


def _where(surface: Surface, labels: Mapping[str, str]) -> str:
    key, _ = key_of(labels, surface) if surface.policy is not None else ("", "")
    return f"ConfigMap {surface.source}, key {key}: " if key else ""
