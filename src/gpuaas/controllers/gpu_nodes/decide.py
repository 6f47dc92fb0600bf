"""What a node with cards should look like under NVIDIA's configuration. Pure.

Sharing: the node's label `nvidia.com/device-plugin.config` names a key of the ConfigMap; without the label the policy's
default counts, else a key named `default`, else the only one. A mistake leaves the node as it is.

MIG: the label `nvidia.com/mig.config` names a configuration. It is checked as a whole before any card is changed: what
mig-parted would get wrong (a card left empty, an unknown profile reported as success) ends in state `failed` with the
reason. A card whose layout must change and that pods still hold takes no new work, and changes when they are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuaas.controllers.gpu_nodes.surface import Surface
from gpuaas.devices.advertise import Advertised, advertise, config_in_force, default_config, keep, with_default_strategy
from gpuaas.devices.cards import Card
from gpuaas.devices.inventory import layout_of, with_layout, without_mig
from gpuaas.devices.labels import Machine
from gpuaas.devices.mig_apply import generate
from gpuaas.devices.mig_config import Entry, MigConfigError, select
from gpuaas.devices.mps import daemons
from gpuaas.devices.plugin_config import ConfigError, PluginConfig

KEY_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
STATE_LABEL: Final = "nvidia.com/mig.config.state"
PENDING, SUCCESS, FAILED = "pending", "success", "failed"
CHANGING: Final = "its MIG layout is to change"
_SHOWN: Final = 8  # names listed in a message


@dataclass(frozen=True, slots=True)
class Chosen:
    config: PluginConfig
    text: str = ""  # of the annotation; empty for the default
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Mig:
    """`state` is the state label's value, empty where there is nothing to say."""

    cards: tuple[Card, ...]
    state: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    cards: tuple[Card, ...]
    advertised: Advertised
    text: str
    problem: str
    mig: Mig
    is_configured: bool  # a policy names a configuration


def decide(
    cards: tuple[Card, ...],
    machine: Machine,
    labels: Mapping[str, str],
    surface: Surface,
    kept: str,
    holders: Mapping[str, Sequence[str]],
    *,
    may_change: bool,
    settled: bool = True,
) -> Decision:
    """`kept`: the annotation of the configuration in force. `holders`: pods by card. `may_change`: whether a MIG layout
    is the cluster's to set. `settled`: whether its cards have been closed long enough for every holder to be seen."""
    mig = mig_of(cards, labels, surface, holders, may_change=may_change, settled=settled)
    chosen = config_of(mig.cards, labels, surface, kept)
    try:
        advertised = advertise(mig.cards, chosen.config, machine)
        daemons(advertised.offer, chosen.config)
    except ConfigError as error:
        before = config_in_force(kept, mig.cards) or default_config(mig.cards)
        chosen = Chosen(before, kept, f"{_where(surface, labels)}{error}")
        try:
            advertised = advertise(mig.cards, before, machine)
        except ConfigError:  # what was in force does not suit the cards as they are now
            chosen = Chosen(default_config(mig.cards), "", chosen.problem)
            advertised = advertise(mig.cards, chosen.config, machine)
    is_configured = surface.policy is not None and bool(surface.policy.config)
    return Decision(mig.cards, advertised, chosen.text, chosen.problem, mig, is_configured)


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
        return "", f"{who}: ConfigMap {surface.source} has no key {asked}; it has: {_names(surface.keys)}"
    if "default" in surface.keys:
        return "default", ""
    return (next(iter(surface.keys)), "") if len(surface.keys) == 1 else ("", "")


def _none_chosen(surface: Surface) -> str:
    return (
        f"ConfigMap {surface.source} has several keys ({_names(surface.keys)}) and none is chosen: nothing is shared;"
        f" set the node's label {KEY_LABEL}, or spec.devicePlugin.config.default of the ClusterPolicy"
    )


def _where(surface: Surface, labels: Mapping[str, str]) -> str:
    key, _ = key_of(labels, surface) if surface.policy is not None else ("", "")
    return f"ConfigMap {surface.source}, key {key}: " if key else ""


def _names(names: Mapping[str, object]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "") or "none"


# -- MIG ----------------------------------------------------------------------------------------------------------------


def mig_of(
    cards: tuple[Card, ...],
    labels: Mapping[str, str],
    surface: Surface,
    holders: Mapping[str, Sequence[str]],
    *,
    may_change: bool,
    settled: bool = True,
) -> Mig:
    open_again = tuple(replace(card, unhealthy="") if card.unhealthy == CHANGING else card for card in cards)
    wanted = labels.get(MIG_LABEL, "")
    if not wanted or not cards:
        return Mig(open_again)
    try:
        targets = _targets(open_again, _entries(open_again, wanted, surface))
    except ValueError as error:
        return Mig(open_again, FAILED, f"{MIG_LABEL}={wanted}: {error}")
    changed = [card for card in open_again if _differs(card, targets[card.index])]
    if not changed:
        return Mig(open_again, SUCCESS, f"{MIG_LABEL}={wanted} is in force")
    if not may_change:
        text = "gpuaas does not change the MIG layout of a real card; use nvidia-smi mig, then restart gpuaas"
        return Mig(open_again, FAILED, f"{MIG_LABEL}={wanted}: {text}")
    blockers = sorted({pod for card in changed for pod in holders.get(card.uuid, ())})
    if blockers or not settled or labels.get(STATE_LABEL) != PENDING:  # said first, then done
        closing = {card.uuid for card in changed}
        closed = tuple(replace(c, unhealthy=c.unhealthy or CHANGING) if c.uuid in closing else c for c in open_again)
        return Mig(closed, PENDING, _waiting(wanted, blockers))
    return Mig(tuple(targets[card.index] for card in open_again), SUCCESS, f"{MIG_LABEL}={wanted} is in force")


def _waiting(wanted: str, blockers: Sequence[str]) -> str:
    if not blockers:
        return f"{MIG_LABEL}={wanted} is being applied"
    more = f" and {len(blockers) - _SHOWN} more" if len(blockers) > _SHOWN else ""
    namespace, _, name = blockers[0].partition("/")
    return (
        f"{MIG_LABEL}={wanted} waits for pods on the cards: {', '.join(blockers[:_SHOWN])}{more};"
        f" to end one: kubectl delete pod -n {namespace} {name}"
    )


def _differs(card: Card, target: Card) -> bool:
    return card.mig != target.mig or layout_of(card) != layout_of(target)


def _entries(cards: tuple[Card, ...], wanted: str, surface: Surface) -> tuple[Entry, ...]:
    if surface.mig_problem:
        raise MigConfigError(surface.mig_problem)
    configs = surface.mig if surface.mig is not None else generate(card.product for card in cards)
    try:
        return select(configs, wanted)
    except MigConfigError as error:
        raise MigConfigError(f"{error}; there are: {_names(configs)}") from None


def _targets(cards: tuple[Card, ...], entries: Sequence[Entry]) -> dict[int, Card]:
    """Every card as the entries want it; those they do not name stay. Raises ValueError where one cannot be so."""
    targets = {card.index: card for card in cards}
    for entry in entries:
        matched = [card for card in cards if entry.matches(card.index, card.product.pci_id)]
        capable = [card for card in matched if card.product.mig_capable]
        if entry.enabled and matched and (not capable or (entry.indices is not None and len(capable) < len(matched))):
            lacking = next(card for card in matched if not card.product.mig_capable)
            raise MigConfigError(f"card {lacking.index} ({lacking.name}) cannot be partitioned: it has no MIG")
        for card in capable:
            targets[card.index] = _target(card, entry)
    return targets


def _target(card: Card, entry: Entry) -> Card:
    if not entry.enabled:
        return without_mig(card)
    try:
        return with_layout(card, entry.devices or {})
    except ValueError as error:
        known = ", ".join(profile.name for profile in card.product.profiles)
        raise MigConfigError(f"card {card.index}: {error}; its profiles: {known}") from None
