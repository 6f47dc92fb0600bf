"""A node's cards and what NVIDIA's software sees on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gpuaas.devices.geometry import profile_of
from gpuaas.devices.mig_profile import ProfileName, parse_profile
from gpuaas.devices.products import MigProfile, Product


@dataclass(frozen=True)
class MigDevice:
    """A MIG device: a compute instance in a GPU instance. `index` is its place in NVML's list of the card."""

    uuid: str
    index: int
    profile: str
    start: int | None = None  # the first memory slot of its GPU instance, where it is known

    @cached_property
    def parsed(self) -> ProfileName:
        return parse_profile(self.profile)


@dataclass(frozen=True, slots=True)
class Fabric:
    """NVSwitch fabric membership as NVML reports it."""

    cluster: str
    clique: int
    state: str = "completed"


@dataclass(frozen=True)
class Card:
    """A physical GPU. `memory_mib` and `name` override the product's, for what NVML says about this one card."""

    index: int
    uuid: str
    product: Product
    mig: bool = False
    devices: tuple[MigDevice, ...] = ()
    name_override: str = ""
    memory_override_mib: int = 0
    minor: int | None = None
    fabric: Fabric | None = None
    nvlinks: tuple[int, ...] = field(default=())  # NVLinks to the card of each index
    pcie: tuple[int, ...] = field(default=())  # NVML's topology level to the card of each index
    numa: int | None = None
    reserved_mib: int = 0  # of its memory, what the driver keeps; 0 where that is not known
    unhealthy: str = ""  # why the card takes no work; empty while it is healthy

    @property
    def name(self) -> str:
        return self.name_override or self.product.name

    @property
    def memory_mib(self) -> int:
        return self.memory_override_mib or self.product.memory_mib

    def profile(self, device: MigDevice) -> MigProfile | None:
        return profile_of(self.product, device.profile)


def mig_devices(cards: tuple[Card, ...]) -> Iterator[tuple[Card, MigDevice]]:
    for card in cards:
        if card.mig:
            for device in card.devices:
                yield card, device
