"""The GPU products this package knows, and the MIG profiles of those that can be partitioned.

Measured on NVIDIA's software or read from hardware, except where `measured` is False: those rows come from published
tables. A product is looked up by the name NVML reports (`NVIDIA H200`), by its key here (`H200-SXM5-141GB`) or by the
name of its node label (`NVIDIA-H200`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpuaas.devices.mig_profile import ProfileName, parse_profile

COMPUTE_CLASS: Final = 0x030200  # PCI class of cards without a display output
GRAPHICS_CLASS: Final = 0x030000


@dataclass(frozen=True, slots=True)
class Engines:
    copy: int
    decoder: int
    encoder: int
    jpeg: int
    ofa: int


@dataclass(frozen=True)
class MigProfile:
    """One GPU instance profile of a product. `starts` are the memory slots it may begin at; it covers `size` of them."""

    name: str
    nvml: int  # NVML's GPU_INSTANCE_PROFILE number, also the order in which NVIDIA's software walks profiles
    id: int  # the id nvidia-smi shows
    max: int
    multiprocessors: int
    engines: Engines
    memory_mib: int
    starts: tuple[int, ...]
    size: int

    @cached_property
    def parsed(self) -> ProfileName:
        return parse_profile(self.name)

    @property
    def slices(self) -> int:
        return self.parsed.slices


@dataclass(frozen=True)
class Product:
    key: str
    name: str
    memory_mib: int
    compute: tuple[int, int]
    pci_id: int
    pci_class: int = COMPUTE_CLASS
    profiles: tuple[MigProfile, ...] = ()  # in NVML's order
    mode_change_needs_reset: bool = False  # Ampere: switching MIG mode takes effect at a GPU reset
    slots: int = 0  # memory slots MIG placements are counted in
    nvlink: str = "none"  # how cards of this product are usually wired: all, pairs or none
    measured: bool = True

    @property
    def mig_capable(self) -> bool:
        return bool(self.profiles)

    @property
    def label(self) -> str:
        return label_of(self.name)

    @cached_property
    def by_name(self) -> Mapping[str, MigProfile]:
        return {profile.name: profile for profile in self.profiles}

    @property
    def whole(self) -> int:
        """Compute slices of the whole card: 7, or 4 on the A30."""
        return max((profile.slices for profile in self.profiles), default=1)


def label_of(name: str) -> str:
    """A product's name as a label value: characters a label cannot hold are dropped, spaces become `-`."""
    return "-".join(re.sub(r"[^A-Za-z0-9\-_. ]", "", name).split())


def _ampere(decoders: tuple[int, ...]) -> tuple[Engines, ...]:
    copies = (1, 2, 3, 4, 7, 1, 1)
    return tuple(
        Engines(copy, decoder, 0, int(at in (4, 5)), int(at in (4, 5)))
        for at, (copy, decoder) in enumerate(zip(copies, decoders, strict=True))
    )


_A100_40: Final = _ampere((0, 1, 2, 2, 5, 1, 1))
_A100_80: Final = _ampere((1, 1, 2, 2, 5, 1, 1))
_HOPPER: Final = tuple(
    Engines(copy, decoder, 0, decoder, int(at in (4, 5)))
    for at, (copy, decoder) in enumerate(((1, 1), (2, 2), (3, 3), (4, 4), (8, 7), (1, 1), (1, 1)))
)
_BLACKWELL: Final = tuple(Engines(copy, 1, 0, 1, int(at in (4, 5))) for at, copy in enumerate((2, 3, 6, 8, 16, 2, 2)))
_AMPERE_SMS: Final = (14, 28, 42, 56, 98, 14, 14)
_HOPPER_SMS: Final = (16, 32, 60, 64, 132, 16, 26)
_BLACKWELL_SMS: Final = (18, 36, 70, 72, 148, 18, 30)


def _seven(
    names: str, memory: tuple[int, int, int, int], sms: tuple[int, ...], engines: tuple[Engines, ...]
) -> tuple[MigProfile, ...]:
    """Profiles of a card with 7 compute slices and 8 memory slots. `names`: gigabytes of 1g, 1g double memory, 3g and 7g;
    `memory`: MiB of the same. 2g has the memory of the double 1g, 4g that of 3g."""
    one, double, half, whole = names.split()
    small, pair, quad, full = memory
    everywhere, even = tuple(range(7)), (0, 2, 4, 6)
    rows = (
        (f"1g.{one}gb", 0, 19, 7, small, everywhere, 1),
        (f"2g.{double}gb", 1, 14, 3, pair, even[:3], 2),
        (f"3g.{half}gb", 2, 9, 2, quad, (0, 4), 4),
        (f"4g.{half}gb", 3, 5, 1, quad, (0,), 4),
        (f"7g.{whole}gb", 4, 0, 1, full, (0,), 8),
        (f"1g.{one}gb+me", 7, 20, 1, small, everywhere, 1),
        (f"1g.{double}gb", 9, 15, 4, pair, even, 2),
    )
    return tuple(
        MigProfile(name, nvml, shown, most, sms[at], engines[at], mib, starts, size)
        for at, (name, nvml, shown, most, mib, starts, size) in enumerate(rows)
    )


_A30: Final = (
    MigProfile("1g.6gb", 0, 19, 4, 14, Engines(1, 0, 0, 0, 0), 5836, (0, 1, 2, 3), 1),
    MigProfile("2g.12gb", 1, 14, 2, 28, Engines(2, 2, 0, 0, 0), 11672, (0, 2), 2),
    MigProfile("4g.24gb", 3, 5, 1, 56, Engines(4, 4, 0, 1, 1), 23344, (0,), 4),
    MigProfile("1g.6gb+me", 7, 20, 1, 14, Engines(1, 1, 0, 1, 1), 5836, (0, 1, 2, 3), 1),
    MigProfile("2g.12gb+me", 8, 21, 1, 28, Engines(2, 2, 0, 1, 1), 11672, (0, 2), 2),
)
_FORTY: Final = _seven("5 10 20 40", (4864, 9856, 19968, 40192), _AMPERE_SMS, _A100_40)
_EIGHTY: Final = _seven("10 20 40 80", (9856, 19968, 40192, 80384), _AMPERE_SMS, _A100_80)
_H100: Final = _seven("10 20 40 80", (9984, 20096, 40448, 81152), _HOPPER_SMS, _HOPPER)
_H100_NVL: Final = _seven("12 24 47 94", (11008, 22272, 46848, 93952), _HOPPER_SMS, _HOPPER)
_H200: Final = _seven("18 35 71 141", (16384, 33280, 71424, 143360), _HOPPER_SMS, _HOPPER)
_B200: Final = _seven("23 45 90 180", (22144, 44672, 90112, 182272), _BLACKWELL_SMS, _BLACKWELL)
_GB200: Final = _seven("23 47 93 186", (22656, 46336, 93696, 188416), _BLACKWELL_SMS, _BLACKWELL)

PRODUCTS: Final[Mapping[str, Product]] = {
    product.key: product
    for product in (
        Product("A30-24GB", "NVIDIA A30", 24576, (8, 0), 0x20B710DE, profiles=_A30, mode_change_needs_reset=True, slots=4),
        *(
            Product(key, name, mib, (8, 0), pci, profiles=profiles, mode_change_needs_reset=True, slots=8, nvlink=wiring)
            for key, name, mib, pci, profiles, wiring in (
                ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 40960, 0x20B010DE, _FORTY, "all"),
                ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 81920, 0x20B210DE, _EIGHTY, "all"),
                ("A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", 40960, 0x20F110DE, _FORTY, "none"),
                ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe", 81920, 0x20B510DE, _EIGHTY, "none"),
            )
        ),
        Product("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 81559, (9, 0), 0x233010DE, profiles=_H100, slots=8, nvlink="all"),
        Product(
            "H100-NVL-94GB", "NVIDIA H100 NVL", 95830, (9, 0), 0x232110DE, profiles=_H100_NVL, slots=8, nvlink="pairs",
            measured=False,
        ),
        Product("H200-SXM5-141GB", "NVIDIA H200", 143771, (9, 0), 0x233510DE, profiles=_H200, slots=8, nvlink="all"),
        Product("B200-SXM6-180GB", "NVIDIA B200", 183359, (10, 0), 0x290110DE, profiles=_B200, slots=8, nvlink="all"),
        Product(
            "GB200-186GB", "NVIDIA GB200", 189471, (10, 0), 0x294110DE, profiles=_GB200, slots=8, nvlink="all",
            measured=False,
        ),
        Product("L40S-48GB", "NVIDIA L40S", 46068, (8, 9), 0x26B910DE),
        Product("L4-24GB", "NVIDIA L4", 23034, (8, 9), 0x27B810DE),
        Product("T4-16GB", "Tesla T4", 15360, (7, 5), 0x1EB810DE),
        Product("V100-SXM2-32GB", "Tesla V100-SXM2-32GB", 32768, (7, 0), 0x1DB510DE, nvlink="all"),
        Product("V100-SXM2-16GB", "Tesla V100-SXM2-16GB", 16384, (7, 0), 0x1DB110DE, nvlink="all", measured=False),
        Product("A10-24GB", "NVIDIA A10", 23028, (8, 6), 0x223610DE),
        Product("A10G-24GB", "NVIDIA A10G", 23028, (8, 6), 0x223710DE, measured=False),
        Product("P100-PCIE-16GB", "Tesla P100-PCIE-16GB", 16384, (6, 0), 0x15F810DE),
        Product("RTX6000-ADA", "NVIDIA RTX 6000 Ada Generation", 49140, (8, 9), 0x26B110DE, GRAPHICS_CLASS),
        Product("RTX-A6000", "NVIDIA RTX A6000", 49140, (8, 6), 0x223010DE, GRAPHICS_CLASS, nvlink="pairs", measured=False),
        Product("RTX-4090", "NVIDIA GeForce RTX 4090", 24564, (8, 9), 0x268410DE, GRAPHICS_CLASS, measured=False),
        Product("RTX-3090", "NVIDIA GeForce RTX 3090", 24576, (8, 6), 0x220410DE, GRAPHICS_CLASS, nvlink="pairs", measured=False),
    )
}  # fmt: skip

_BY_NAME: Final = {
    spelled: product
    for product in PRODUCTS.values()
    for spelled in (product.key.lower(), product.name.lower(), product.label.lower())
}


def find(name: str) -> Product | None:
    """The product of this key, NVML name or label value, in any case; None where it is not in the table."""
    return _BY_NAME.get(name.strip().lower())


_FAMILIES: Final = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
}


def family_of(compute: tuple[int, int]) -> str:
    """The architecture of a compute capability, as GPU feature discovery names it."""
    match compute:
        case (7, minor):
            return "volta" if minor < 5 else "turing"
        case (8, minor):
            return "ampere" if minor < 9 else "ada-lovelace"
        case (major, _):
            return _FAMILIES.get(major, "undefined")
