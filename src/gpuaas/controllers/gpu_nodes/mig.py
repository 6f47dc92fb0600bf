"""The MIG layout a node's label asks for, and the next step towards it. Pure.

The label `nvidia.com/mig.config` names a configuration. It is checked as a whole before any card is touched: what
mig-parted would get wrong (a card left empty, an unknown profile reported as success) ends in state `failed` with the
reason. Cards whose layout must change are closed and the pods on them asked to leave; when they are gone and the cards
have been closed long enough for every holder to be seen, one card after the other is changed. If a card cannot be changed,
those that were are given their old layouts back. Every step is a state that is written before the next one begins (module
change), so that it does not matter where the controller is killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpuaas.controllers.gpu_nodes.change import APPLYING, DRAINING, FAILED, REVERTING, Change
from gpuaas.controllers.gpu_nodes.surface import Surface
from gpuaas.devices import faults
from gpuaas.devices.cards import Card
from gpuaas.devices.faults import Faults
from gpuaas.devices.inventory import layout_of, with_layout, without_mig
from gpuaas.devices.mig_apply import CardState, apply, generate
from gpuaas.devices.mig_config import Entry, MigConfigError, select

MIG_LABEL: Final = "nvidia.com/mig.config"
STATE_LABEL: Final = "nvidia.com/mig.config.state"
PENDING, SUCCESS, FAILURE = "pending", "success", "failed"
CHANGING: Final = "its MIG layout is to change"
SHOWN: Final = 8  # names listed in a message


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds something of a card: `namespace/name`, and the ids of its devices there by resource."""

    pod: str
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What is so now, besides the cards: who holds them, what is broken, what is under way."""

    holders: Mapping[str, Sequence[Holder]] = field(default_factory=dict)  # by card
    faults: Faults = field(default_factory=dict)
    now: float = 0.0
    deadline: float = 600.0  # seconds that pods are waited for
    settled: bool = True  # cards have been closed long enough for every holder to be seen
    may_change: bool = True  # the layout is the cluster's to set
    strict: bool = False  # exactly as NVIDIA's mig-manager
    sharing: str = ""  # the node's annotation by `gpuaas share`


@dataclass(frozen=True, slots=True)
class Mig:
    """`state` is the state label's value, empty where there is nothing to report. `leaving`: pods that are to go, why."""

    cards: tuple[Card, ...]
    state: str = ""
    message: str = ""
    change: Change | None = None
    leaving: Mapping[str, str] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether the next step needs no one's doing."""
        return self.state == PENDING


def mig_of(
    cards: tuple[Card, ...], labels: Mapping[str, str], surface: Surface, change: Change | None, at: Moment
) -> Mig:
    """`cards`: as they are, closed only where they are ill."""
    wanted = labels.get(MIG_LABEL, "")
    under_way = change is not None and change.step in (APPLYING, REVERTING)
    if change is not None and under_way and (not wanted or (change.step == REVERTING and change.goal == wanted)):
        return _revert(cards, change, at)
    if not wanted or not cards:
        return Mig(cards)
    if at.strict:
        return _as_mig_manager(cards, wanted, surface, at)
    failed = change is not None and change.step == FAILED and change.goal == wanted
    if failed and labels.get(STATE_LABEL) in (FAILURE, PENDING):
        assert change is not None
        return Mig(cards, FAILURE, change.message, change)
    try:
        targets = _targets(cards, _entries(cards, wanted, surface))
    except ValueError as error:
        message = f"{MIG_LABEL}={wanted}: {error}"
        if change is not None and under_way:
            return _revert(cards, Change(wanted, REVERTING, at.now, change.before, message), at)
        return Mig(cards, FAILURE, message)
    changed = [card for card in cards if _differs(card, targets[card.index])]
    if not changed:
        return Mig(cards, SUCCESS, f"{MIG_LABEL}={wanted} is in force")
    if not at.may_change:
        text = "gpuaas does not change the MIG layout of a real card; use nvidia-smi mig, then restart gpuaas"
        return Mig(cards, FAILURE, f"{MIG_LABEL}={wanted}: {text}")
    if change is None or change.step == FAILED or change.goal != wanted:
        # A goal that replaces another in the middle keeps what that one would have gone back to.
        before = change.before if change is not None and under_way else {}
        change = Change(wanted, APPLYING if before else DRAINING, at.now, before)
    return _proceed(cards, changed, targets, labels, change, at)


def _proceed(
    cards: tuple[Card, ...],
    changed: Sequence[Card],
    targets: Mapping[int, Card],
    labels: Mapping[str, str],
    change: Change,
    at: Moment,
) -> Mig:
    closing = {card.uuid for card in changed} | set(change.before)
    blockers = sorted({one.pod for card in changed for one in at.holders.get(card.uuid, ())})
    words = f"{MIG_LABEL}={change.goal}"
    if blockers and at.now - change.since > at.deadline:
        message = f"{_waiting(words, blockers)}; given up after {at.deadline:.0f} s, the cards are as they were"
        if change.before:
            return _revert(cards, replace(change, step=REVERTING, message=message), at)
        return Mig(cards, FAILURE, message, replace(change, step=FAILED, message=message))
    if blockers or not at.settled or labels.get(STATE_LABEL) != PENDING:  # reported first, then done
        leaving = dict.fromkeys(blockers, f"the MIG layout of its card changes to {change.goal}")
        message = _waiting(words, blockers) if blockers else f"{words} is being applied"
        return Mig(closed(cards, closing), PENDING, message, change, leaving)
    card = changed[0]
    if (problem := _cannot_change(card, at.faults)) is not None:
        message = f"{words}: card {card.index} could not be changed: {problem}; every card has its old layout again"
        return _revert(cards, replace(change, step=REVERTING, message=message), at)
    after = tuple(_with_layout_of(targets[one.index], one) if one is card else one for one in cards)
    if len(changed) == 1:
        return Mig(after, SUCCESS, f"{words} is in force")
    before = {card.uuid: layout_of(card) if card.mig else None, **change.before}
    message = f"{words} is being applied: {len(changed) - 1} cards are left"
    return Mig(closed(after, closing), PENDING, message, replace(change, step=APPLYING, before=before))


def _revert(cards: tuple[Card, ...], change: Change, at: Moment) -> Mig:
    """One card a step gets its old layout back, once nothing holds it."""
    message = change.message or f"{MIG_LABEL}={change.goal} was withdrawn; every card has its old layout again"
    change = replace(change, step=REVERTING, message=message)
    back = {card.uuid: _restored(card, change.before[card.uuid]) for card in cards if card.uuid in change.before}
    differing = [card for card in cards if card.uuid in back and _differs(card, back[card.uuid])]
    if not differing:
        return Mig(cards, FAILURE, message, replace(change, step=FAILED, before={}))
    card = differing[0]
    holders = sorted({one.pod for one in at.holders.get(card.uuid, ())})
    if holders or not at.settled:
        leaving = dict.fromkeys(holders, "its card gets its old MIG layout back")
        return Mig(closed(cards, set(back)), PENDING, message, change, leaving)
    after = tuple(back[card.uuid] if one is card else one for one in cards)
    return Mig(closed(after, set(back)), PENDING, message, change)


def _restored(card: Card, layout: Mapping[str, int] | None) -> Card:
    if layout is None:
        return without_mig(card)
    try:
        return with_layout(card, layout)
    except ValueError:  # a record that was not ours
        return card


def _cannot_change(card: Card, found: Faults) -> str | None:
    if card.unhealthy == faults.VANISHED:
        return card.unhealthy
    return (
        "the driver refused: in use by another client"
        if any(f.fails_mig for f in faults.of_card(found, card))
        else None
    )


def closed(cards: Sequence[Card], which: set[str], why: str = CHANGING) -> tuple[Card, ...]:
    return tuple(replace(card, unhealthy=card.unhealthy or why) if card.uuid in which else card for card in cards)


def _waiting(words: str, blockers: Sequence[str]) -> str:
    return f"{words} waits for {listed(blockers)}"


def listed(pods: Sequence[str]) -> str:
    """The pods that are waited for, and the command that ends the first of them."""
    more = f" and {len(pods) - SHOWN} more" if len(pods) > SHOWN else ""
    namespace, _, name = pods[0].partition("/")
    return f"pods on the cards: {', '.join(pods[:SHOWN])}{more}; to end one: kubectl delete pod -n {namespace} {name}"


def _differs(card: Card, target: Card) -> bool:
    return card.mig != target.mig or layout_of(card) != layout_of(target)


def _with_layout_of(target: Card, card: Card) -> Card:
    return replace(target, unhealthy=card.unhealthy)


def _as_mig_manager(cards: tuple[Card, ...], wanted: str, surface: Surface, at: Moment) -> Mig:
    """Strict: what mig-parted does, its failures included. Pods are not looked for; where some hold a card that is to
    change, the driver refuses."""
    words = f"{MIG_LABEL}={wanted}"
    try:
        entries = _entries(cards, wanted, surface)
    except ValueError as error:
        return Mig(cards, FAILURE, f"{words}: {error}")
    states = [CardState(card.product, card.mig, layout_of(card)) for card in cards]
    problem = ""
    try:
        apply(states, entries)
    except MigConfigError as error:
        problem = str(error)
    after = tuple(_of_state(card, state) for card, state in zip(cards, states, strict=True))
    changed = [old for old, new in zip(cards, after, strict=True) if _differs(old, new)]
    if changed and not at.may_change:
        return Mig(cards, FAILURE, f"{words}: gpuaas does not change the MIG layout of a real card")
    busy = [card.index for card in changed if at.holders.get(card.uuid)]
    if busy:
        return Mig(cards, FAILURE, f"{words}: card {busy[0]} is in use by another client")
    if problem:
        return Mig(after, FAILURE, f"{words}: {problem}")
    return Mig(after, SUCCESS, f"{words} is in force")


def _of_state(card: Card, state: CardState) -> Card:
    if not state.enabled:
        return without_mig(card) if card.mig else card
    if card.mig and layout_of(card) == state.devices:
        return card
    return with_layout(card, state.devices)


def _entries(cards: tuple[Card, ...], wanted: str, surface: Surface) -> tuple[Entry, ...]:
    if surface.mig_problem:
        raise MigConfigError(surface.mig_problem)
    configs = surface.mig if surface.mig is not None else generate(card.product for card in cards)
    try:
        return select(configs, wanted)
    except MigConfigError as error:
        raise MigConfigError(f"{error}; there are: {names_of(configs)}") from None


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


def names_of(names: Mapping[str, object]) -> str:
    found = sorted(names)
    return ", ".join(found[:SHOWN]) + (", …" if len(found) > SHOWN else "") or "none"
