"""What mig-parted does to a node's cards: apply and assert a configuration, and generate the named defaults.

This is the original's behaviour, with what it gets wrong: a card that no arrangement fits ends up empty, and a profile
the node does not have clears the card and reports success. The product checks a configuration before it applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuaas.devices.geometry import fits, profile_of
from gpuaas.devices.mig_config import Entry, MigConfigError
from gpuaas.devices.mig_profile import parse_profile
from gpuaas.devices.products import MigProfile, Product


@dataclass(slots=True)
class CardState:
    """A card as mig-parted sees it. `pending` is the mode it will have after a reset (Ampere), None where none is due."""

    product: Product
    enabled: bool = False
    devices: dict[str, int] = field(default_factory=dict)
    pending: bool | None = None


def is_applied(cards: Sequence[CardState], entries: Sequence[Entry], *, mode_only: bool = False) -> bool:
    """`assert`: every card is matched by an entry and is as the entry wants; with `mode_only` only modes of matched ones."""
    return _modes_hold(cards, entries) and (mode_only or _devices_hold(cards, entries))


def apply(
    cards: Sequence[CardState], entries: Sequence[Entry], *, mode_only: bool = False, skip_reset: bool = False
) -> None:
    """Changes `cards` in place, as far as the original gets. Raises MigConfigError where it fails."""
    if not _modes_hold(cards, entries):
        _apply_modes(cards, entries, skip_reset=skip_reset)
    if not mode_only and not _devices_hold(cards, entries):
        _apply_devices(cards, entries)


def _walk(cards: Sequence[CardState], entries: Sequence[Entry]) -> Iterator[tuple[Entry, int, CardState]]:
    for entry in entries:
        for index, card in enumerate(cards):
            if entry.matches(index, card.product.pci_id):
                yield entry, index, card


def _modes_hold(cards: Sequence[CardState], entries: Sequence[Entry]) -> bool:
    for entry, _, card in _walk(cards, entries):
        if not card.product.mig_capable:
            if entry.enabled:
                return False
        elif entry.enabled != card.enabled:
            return False
    return True


def _devices_hold(cards: Sequence[CardState], entries: Sequence[Entry]) -> bool:
    matched = [False] * len(cards)
    for entry, index, card in _walk(cards, entries):
        if not card.product.mig_capable:
            if entry.enabled:
                return False  # NVML has no MIG mode to ask for
            matched[index] = True
        elif not entry.enabled and not card.enabled:
            matched[index] = True
        elif not card.enabled:
            return False
        else:
            matched[index] = _equal(card.devices, entry.devices or {})
    return all(matched)


def _equal(current: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """As the original compares: a profile written with a count of 0 is never found, so such an entry never holds."""
    return len(current) == len(wanted) and all(wanted.get(name, 0) == count for name, count in current.items())


def _apply_modes(cards: Sequence[CardState], entries: Sequence[Entry], *, skip_reset: bool) -> None:
    for entry, _, card in _walk(cards, entries):
        if not card.product.mig_capable:
            if entry.indices is None or not entry.enabled:
                continue
            raise MigConfigError("cannot set MIG mode on non MIG-capable GPU")
        if card.enabled:
            card.devices = {}
        if card.product.mode_change_needs_reset:
            card.pending = entry.enabled if entry.enabled != card.enabled else None
        else:
            card.enabled = entry.enabled
    if not skip_reset:
        for card in cards:
            if card.pending is not None:
                card.enabled, card.pending = card.pending, None


def _apply_devices(cards: Sequence[CardState], entries: Sequence[Entry]) -> None:
    for entry, _, card in _walk(cards, entries):
        if not card.product.mig_capable:
            if entry.indices is None or not entry.enabled:
                continue
            raise MigConfigError("cannot set MIG config on non MIG-capable GPU")
        if entry.enabled and not card.enabled:
            raise MigConfigError("unable to apply MIG config with MIG mode disabled")
        if not entry.enabled and card.enabled:
            raise MigConfigError("MIG mode is currently enabled, but the configuration specifies it should be disabled")
        if entry.enabled and not _equal(card.devices, entry.devices or {}):
            _set_devices(cards, card, entry.devices or {})


def _set_devices(cards: Sequence[CardState], card: CardState, wanted: Mapping[str, int]) -> None:
    card.devices = {}
    devices = {name: count for name, count in wanted.items() if count}
    # A name that no card of the node has makes the original read the whole list as empty. Otherwise it takes the profile
    # from the first card that has one of this name, and asks this card for the profile of that number.
    resolved = {name: _resolve(cards, name) for name in devices}
    if None in resolved.values():
        return
    here = {name: _same_number(card.product, found, name) for name, found in resolved.items() if found is not None}
    if any(name != actual for name, actual in here.items()) or not fits(card.product, devices):
        raise MigConfigError(
            "error setting MIGConfig: error attempting multiple config orderings: all orderings failed"
        )
    card.devices = {str(parse_profile(name)): count for name, count in devices.items()}


def _resolve(cards: Sequence[CardState], name: str) -> MigProfile | None:
    return next((found for card in cards if (found := profile_of(card.product, name)) is not None), None)


def _same_number(product: Product, found: MigProfile, name: str) -> str | None:
    """The device this card makes of the profile number another card gave: the same name, or something else."""
    mine = next((profile for profile in product.profiles if profile.nvml == found.nvml), None)
    return name if mine is not None and mine.name == found.name else None


# -- The named defaults -------------------------------------------------------------------------------------------------

_BALANCED = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}


def generate(products: Iterable[Product]) -> dict[str, tuple[Entry, ...]]:
    """Configurations a node gets without a file of its own: `all-disabled`, `all-enabled`, `all-balanced` and one for each
    profile with its highest count. Raises MigConfigError where no card can be partitioned."""
    capable = {product.pci_id: product for product in products if product.mig_capable}
    if not capable:
        raise MigConfigError("failed to discover MIG profiles: no MIG-capable devices found on the system")
    several = len(capable) > 1
    configs: dict[str, tuple[Entry, ...]] = {
        "all-disabled": (Entry(False, None),),
        "all-enabled": (Entry(True, {}),),
    }
    ordered = sorted(capable.values(), key=_filter_of)
    balanced = tuple(
        Entry(True, devices, filters=(_filter_of(product),) if several else ())
        for product in ordered
        if (devices := _balanced(product))
    )
    if balanced:
        configs["all-balanced"] = balanced
    for name in sorted({profile.name for product in ordered for profile in product.profiles}):
        configs[f"all-{name.replace('+', '.')}"] = tuple(_most_of(name, ordered, several=several))
    return configs


def _filter_of(product: Product) -> str:
    return f"0x{product.pci_id:X}"


def _most_of(name: str, products: Sequence[Product], *, several: bool) -> Iterator[Entry]:
    by_count: dict[int, list[str]] = {}
    for product in products:
        if (profile := product.by_name.get(name)) is not None:
            by_count.setdefault(profile.max, []).append(_filter_of(product))
    for count, filters in sorted(by_count.items()):
        yield Entry(True, {name: count}, filters=tuple(sorted(filters)) if several else ())


def _balanced(product: Product) -> dict[str, int]:
    base = [profile for profile in product.profiles if not profile.parsed.attributes]
    formula = _BALANCED.get(max((profile.slices for profile in base), default=0), {})
    found: dict[str, int] = {}
    for slices, count in formula.items():
        of_size = [profile for profile in base if profile.slices == slices]
        if not of_size:
            return {}
        found[max(of_size, key=lambda profile: profile.max).name] = count
    return found
