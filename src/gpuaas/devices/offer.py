"""What a node advertises: devices by resource name, under a MIG strategy and with the replicas of sharing.

Follows the device plugin: full GPUs go to `nvidia.com/gpu`; under `single` all MIG devices do too; under `mixed` each goes
to a resource named after its profile. Then each device of a shared resource is replaced by its replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpuaas.devices.cards import Card, MigDevice, mig_devices
from gpuaas.devices.plugin_config import PREFIX, ConfigError, PluginConfig

GPU: Final = "nvidia.com/gpu"
_MAP: Final = "error building device map: error building device map from config.resources: "
_VISITING: Final = (
    "error visiting devices: error visiting device: error visiting device: error visiting MIG device: error visiting"
    " MIG device: "
)


@dataclass(frozen=True, slots=True)
class Device:
    """One advertised device. `uuid` is what it is on the node; `id` adds `::N` for a replica."""

    id: str
    uuid: str
    index: str  # `0`, or `0:1` for a MIG device
    card: Card
    mig: MigDevice | None = None
    replicas: int = 0  # how many share it; 0 where it is not shared

    @property
    def is_replica(self) -> bool:
        return "::" in self.id


Offer = dict[str, dict[str, Device]]  # resource to its devices by id


def offer(cards: tuple[Card, ...], config: PluginConfig, *, anchored: bool = False) -> Offer:
    """Raises ConfigError where the plugin would not start. `anchored`: resource patterns of plugin 0.20 and later, where a
    `+me` device is a resource of its own."""
    found = _whole(cards, config)
    if config.mig_strategy != "none":
        sliced = _slices(cards, config, anchored=anchored)
        if config.mig_strategy == "single":
            _check_single(cards)
            if found and sliced:
                raise ConfigError(_MAP + "all devices on the node must be configured with the same migEnabled value")
        for resource, devices in sliced.items():
            found.setdefault(resource, {}).update(devices)
    return _replicated(found, config)


def _whole(cards: tuple[Card, ...], config: PluginConfig) -> Offer:
    devices = {
        card.uuid: Device(card.uuid, card.uuid, str(card.index), card)
        for card in cards
        if not card.mig or config.mig_strategy == "none"
    }
    return {GPU: devices} if devices else {}


def _slices(cards: tuple[Card, ...], config: PluginConfig, *, anchored: bool) -> Offer:
    found: Offer = {}
    profiles = list(dict.fromkeys(p.name for card in cards for p in card.product.profiles))
    for card, mig in mig_devices(cards):
        resource = GPU if config.mig_strategy == "single" else _resource_of(mig, profiles, anchored=anchored)
        device = Device(mig.uuid, mig.uuid, f"{card.index}:{mig.index}", card, mig)
        found.setdefault(resource, {})[device.id] = device
    return found


def _resource_of(mig: MigDevice, profiles: list[str], *, anchored: bool) -> str:
    """Plugin 0.19 looks for each profile's name anywhere in the device's, in order: `1g.5gb+me` counts as `1g.5gb`."""
    matching = (name for name in profiles if (name == mig.profile if anchored else name in mig.profile))
    name = next(matching, None)
    if name is None:
        raise ConfigError(
            _MAP + f"error building MIG device map: MIG profile '{mig.profile}' does not match any resource patterns"
        )
    return f"{PREFIX}mig-{name.replace('+', '.')}"


def _check_single(cards: tuple[Card, ...]) -> None:
    for card in cards:
        if card.mig and not card.devices:
            raise ConfigError(
                _MAP
                + "invalid MIG configuration: at least one device with migEnabled=true was not configured correctly:"
                f" error visiting device: device {card.index} has no MIG devices configured"
            )
    if len({(card.product.key, mig.profile) for card, mig in mig_devices(cards)}) > 1:
        raise ConfigError(_MAP + f"invalid MIG configuration: {_VISITING}more than one MIG device type present on node")


def _replicated(found: Offer, config: PluginConfig) -> Offer:
    shared = config.sharing.resources
    names = {entry.name for entry in shared}
    offered: Offer = {resource: devices for resource, devices in found.items() if resource not in names}
    for entry in shared:
        for device in found.get(entry.name, {}).values():
            if config.only_cards and device.card.uuid not in config.only_cards:
                offered.setdefault(entry.name, {})[device.id] = device
                continue
            into = offered.setdefault(entry.rename or entry.name, {})
            for number in range(entry.replicas):
                copy = replace(device, id=f"{device.id}::{number}", replicas=entry.replicas)
                into[copy.id] = copy
    return offered
