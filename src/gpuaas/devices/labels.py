"""Node labels of GPU feature discovery, for a node's cards under a configuration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gpuaas.devices.cards import Card, MigDevice, mig_devices
from gpuaas.devices.offer import GPU
from gpuaas.devices.plugin_config import ConfigError, PluginConfig
from gpuaas.devices.products import COMPUTE_CLASS, GRAPHICS_CLASS, family_of, label_of

Labels = dict[str, str]
_VGPU: Final = "nvidia.com/vgpu.present"
_NO_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Machine:
    """What of the machine, beside its cards, shows in labels. `cuda` is NVML's number: 12080 for 12.8."""

    driver: str
    cuda: int
    name: str = "unknown"


def labels(cards: tuple[Card, ...], config: PluginConfig, machine: Machine) -> Labels:
    """Raises ConfigError where feature discovery would fail."""
    if not cards:
        return {_VGPU: "false"}
    found = {"nvidia.com/gpu.machine": label_of(machine.name), **_versions(machine)}
    found["nvidia.com/mig.capable"] = _truth(any(card.product.mig_capable for card in cards))
    found["nvidia.com/mps.capable"] = _truth(_mps_capable(cards, config))
    found |= _full_cards(cards, config)
    found |= _mig(cards, config)
    found["nvidia.com/gpu.mode"] = _mode(cards)
    found |= _clique(cards)
    found[_VGPU] = "false"
    return found


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _versions(machine: Machine) -> Labels:
    parts = machine.driver.split(".")
    if len(parts) not in (2, 3):
        raise ConfigError(
            "error creating labeler: failed to construct version labeler: error getting driver version: Version"
            f' "{machine.driver}" does not match format "X.Y[.Z]"'
        )
    major, minor, revision = (*parts, "")[:3]
    cuda_major, cuda_minor = str(machine.cuda // 1000), str(machine.cuda % 1000 // 10)
    return {
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime.major": cuda_major,
        "nvidia.com/cuda.runtime.minor": cuda_minor,
        "nvidia.com/cuda.driver-version.major": major,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        "nvidia.com/cuda.driver-version.full": machine.driver,
        "nvidia.com/cuda.runtime-version.major": cuda_major,
        "nvidia.com/cuda.runtime-version.minor": cuda_minor,
        "nvidia.com/cuda.runtime-version.full": f"{cuda_major}.{cuda_minor}",
    }


def _mps_capable(cards: tuple[Card, ...], config: PluginConfig) -> bool:
    if config.strategy != "mps":
        return False
    if any(card.mig for card in cards):
        raise ConfigError(
            "error creating labeler: error creating sharing labeler: failed to check MPS-capable: MPS sharing is not"
            " supported for mig devices"
        )
    return True


def _mode(cards: tuple[Card, ...]) -> str:
    classes = {card.product.pci_class for card in cards}
    if len(classes) > 1:
        return "unknown"
    return {COMPUTE_CLASS: "compute", GRAPHICS_CLASS: "graphics"}.get(classes.pop(), "unknown")


def _full_cards(cards: tuple[Card, ...], config: PluginConfig) -> Labels:
    """Cards with MIG on count without sharing; a model with MIG off overrides them. Of several models the last by index
    is shown: the original chooses at random."""
    counts = Counter(card.name for card in cards)
    found: Labels = {}
    for card in sorted(cards, key=lambda card: not card.mig):
        found |= {
            **_base(GPU, config if not card.mig else None, counts[card.name], (card.name,)),
            f"{GPU}.memory": str(card.memory_mib),
            f"{GPU}.family": family_of(card.product.compute),
            f"{GPU}.compute.major": str(card.product.compute[0]),
            f"{GPU}.compute.minor": str(card.product.compute[1]),
        }
    return found


def _base(resource: str, config: PluginConfig | None, count: int, parts: tuple[str, ...]) -> Labels:
    """`config` is None where sharing does not apply."""
    shared = config.shared(resource) if config else None
    replicas = 0 if config is None else shared.replicas if shared else 1
    names = [label_of(part) for part in parts]
    if shared and not shared.rename:
        names.append("SHARED")
    return {
        f"{resource}.product": "-".join(names),
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(replicas),
        f"{resource}.sharing-strategy": config.strategy if config and replicas > 1 else "none",
    }


def _mig(cards: tuple[Card, ...], config: PluginConfig) -> Labels:
    match config.mig_strategy:
        case "none":
            return {}
        case "single":
            return {"nvidia.com/mig.strategy": "single", **_single(cards, config)}
        case "mixed":
            return {"nvidia.com/mig.strategy": "mixed", **_mixed(cards, config)}
        case other:
            raise ConfigError(
                "error creating labeler: error creating resource labeler: failed to construct MIG resource labeler:"
                f" unknown strategy: {other}"
            )


def _single(cards: tuple[Card, ...], config: PluginConfig) -> Labels:
    enabled = [card for card in cards if card.mig]
    if not enabled:
        return {}
    devices = list(mig_devices(cards))
    valid = all(card.devices for card in enabled) and len(enabled) == len(cards)
    if valid and len({mig.profile for _, mig in devices}) == 1:
        card, mig = devices[0]
        return _slice(GPU, card, mig, len(devices), config)
    return {
        f"{GPU}.product": f"{label_of(enabled[0].name)}-MIG-INVALID",
        f"{GPU}.count": "0",
        f"{GPU}.replicas": "0",
        f"{GPU}.sharing-strategy": "",
        f"{GPU}.memory": "0",
    }


def _mixed(cards: tuple[Card, ...], config: PluginConfig) -> Labels:
    counts = Counter(mig.profile for _, mig in mig_devices(cards))
    first: dict[str, tuple[Card, MigDevice]] = {}
    for card, mig in mig_devices(cards):
        first.setdefault(mig.profile, (card, mig))
    found: Labels = {}
    for profile, (card, mig) in first.items():
        # Labels name the real profile, also where the resource has another name.
        found |= _slice(f"nvidia.com/mig-{profile.replace('+', '.')}", card, mig, counts[profile], config)
    return found


def _slice(resource: str, card: Card, mig: MigDevice, count: int, config: PluginConfig) -> Labels:
    profile = card.profile(mig)
    found = _base(resource, config, count, (card.name, "MIG", mig.profile.replace("+", ".")))
    if profile is None:
        return found
    engines = profile.engines
    values = {
        "memory": profile.memory_mib,
        "multiprocessors": profile.multiprocessors * mig.parsed.compute // mig.parsed.slices,
        "slices.gi": mig.parsed.slices,
        "slices.ci": mig.parsed.compute,
        "engines.copy": engines.copy,
        "engines.decoder": engines.decoder,
        "engines.encoder": engines.encoder,
        "engines.jpeg": engines.jpeg,
        "engines.ofa": engines.ofa,
    }
    return found | {f"{resource}.{key}": str(value) for key, value in values.items()}


def _clique(cards: tuple[Card, ...]) -> Labels:
    joined = {
        (card.fabric.cluster, card.fabric.clique)
        for card in cards
        if card.fabric and card.fabric.state == "completed" and card.fabric.cluster != _NO_CLUSTER
    }
    if len(joined) != 1:
        return {}
    cluster, clique = joined.pop()
    return {"nvidia.com/gpu.clique": f"{cluster}.{clique}"}
