"""MIG geometry: which sets of profiles fit on a card, and where.

A card has memory slots (8, or 4 on the A30). A GPU instance covers a run of slots that begins at one of its profile's
starts; instances must not overlap, and no profile may occur more often than its maximum. At most one instance in all may
carry the media extensions (`+me`). A set is valid exactly when such an arrangement exists; NVIDIA's driver finds one for
every valid set in some order of creation.

Compute instances (`1c.3g.20gb`) share a GPU instance: their slices sum to at most those of the instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gpuaas.devices.mig_profile import ProfileName, parse_profile
from gpuaas.devices.products import MigProfile, Product

_COMPUTE_SIZES: Final = (1, 2, 3, 4, 7)


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """A GPU instance on a card: its profile and the memory slots it covers."""

    start: int
    size: int
    profile: str


def device_names(product: Product) -> Iterable[ProfileName]:
    """Every MIG device of the product: each profile whole and with fewer compute slices, in NVIDIA's order."""
    for profile in product.profiles:
        for compute in _COMPUTE_SIZES:
            if compute <= profile.slices and not (compute == 3 and profile.slices == 4):
                name = profile.parsed
                yield ProfileName(compute, name.slices, name.gigabytes, name.attributes)


@lru_cache(maxsize=256)
def _known(product: Product) -> Mapping[ProfileName, MigProfile]:
    by_name = product.by_name
    return {name: by_name[name.gpu_instance] for name in device_names(product)}


def profile_of(product: Product, device: str) -> MigProfile | None:
    """The GPU instance profile a MIG device needs; None where the product has no such device."""
    try:
        return _known(product).get(parse_profile(device))
    except ValueError:
        return None


def instances_for(product: Product, devices: Mapping[str, int]) -> list[MigProfile] | None:
    """The GPU instances these MIG devices need; compute instances share one where they fit. None: a device is unknown."""
    compute: dict[str, list[int]] = {}
    for name, count in devices.items():
        profile = profile_of(product, name)
        if profile is None:
            return None
        compute.setdefault(profile.name, []).extend([parse_profile(name).compute] * count)
    return [
        product.by_name[name]
        for name, wanted in compute.items()
        for _ in range(_bins(wanted, product.by_name[name].slices))
    ]


def _bins(sizes: list[int], room: int) -> int:
    """The least number of instances of `room` slices that hold these. First-fit decreasing is optimal for so few sizes."""
    free: list[int] = []
    for size in sorted(sizes, reverse=True):
        at = next((i for i, left in enumerate(free) if left >= size), None)
        if at is None:
            free.append(room - size)
        else:
            free[at] -= size
    return len(free)


def arrange(
    product: Product, wanted: Sequence[MigProfile], kept: Sequence[Placement] = ()
) -> tuple[Placement, ...] | None:
    """Places for these instances beside those that are kept, or None where they do not fit."""
    counts = Counter(profile.name for profile in wanted) + Counter(placement.profile for placement in kept)
    if any(count > product.by_name[name].max for name, count in counts.items()):
        return None
    if sum(count for name, count in counts.items() if "+me" in name) > 1:
        return None
    if sum(count * product.by_name[name].slices for name, count in counts.items()) > product.whole:
        return None
    taken = 0
    for placement in kept:
        taken |= _mask(placement.start, placement.size)
    found = _search(sorted(wanted, key=lambda profile: (-profile.size, profile.nvml)), taken)
    return None if found is None else (*kept, *found)


def _search(wanted: Sequence[MigProfile], taken: int) -> tuple[Placement, ...] | None:
    """Depth first over starts, largest instance first: at most 8 slots, so the tree is small."""
    if not wanted:
        return ()
    first, *rest = wanted
    for start in first.starts:
        mask = _mask(start, first.size)
        if taken & mask:
            continue
        if (found := _search(rest, taken | mask)) is not None:
            return (Placement(start, first.size, first.name), *found)
    return None


def _mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def fits(product: Product, devices: Mapping[str, int]) -> bool:
    instances = instances_for(product, {name: count for name, count in devices.items() if count})
    return instances is not None and arrange(product, instances) is not None


def share_of(product: Product, device: str) -> float:
    """The part of the card a MIG device stands for, by its compute slices: for accounting and price."""
    profile = profile_of(product, device)
    return parse_profile(device).compute / product.whole if profile is not None else 0.0
