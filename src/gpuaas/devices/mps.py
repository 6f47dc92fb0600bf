"""CUDA MPS as the control daemon sets it up: one daemon a shared resource, with limits for every client."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gpuaas.devices.offer import Device, Offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig

ROOT: Final = "/mps"
AMONG: Final = (
    "gpuaas.dev/mps-among"  # annotation of a node: whose pods share a card by MPS, by default one namespace's
)
EVERYBODY: Final = "all"
_CLIENTS, _OLD_CLIENTS = 48, 16  # a server takes 48 clients from compute capability 7.5 on (so a V100 takes 16)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The limits a control daemon sets as defaults: pinned device memory by card index, and active threads in percent."""

    resource: str
    pinned_memory: dict[str, str]
    active_thread_percentage: int

    @property
    def pipe(self) -> str:
        return f"{ROOT}/{self.resource}/pipe"

    @property
    def log(self) -> str:
        return f"{ROOT}/{self.resource}/log"

    @property
    def environment(self) -> dict[str, str]:
        return {"CUDA_MPS_PIPE_DIRECTORY": self.pipe, "CUDA_MPS_LOG_DIRECTORY": self.log}


def max_clients(device: Device) -> int:
    return _CLIENTS if device.card.product.compute >= (7, 5) else _OLD_CLIENTS


def daemons(offered: Offer, config: PluginConfig) -> list[Daemon]:
    """One for each resource with replicas. Raises ConfigError for more replicas than a server takes clients."""
    if config.strategy != "mps":
        return []
    found: list[Daemon] = []
    for resource, devices in sorted(offered.items()):
        shared = [device for device in devices.values() if device.is_replica]
        if not shared:
            continue
        for device in shared:
            if device.mig is None and device.replicas > max_clients(device):
                raise ConfigError(
                    "invalid MPS configuration: invalid device maximum allowed replicas exceeded:"
                    f" {device.replicas} > {max_clients(device)}"
                )
        found.append(_daemon(resource, list(devices.values())))
    return found


def _daemon(resource: str, devices: list[Device]) -> Daemon:
    replicas = Counter(device.index for device in devices)
    memory = {device.index: _memory_mib(device) for device in devices}
    share = 100 // (len(devices) // len({device.uuid for device in devices}))
    return Daemon(resource, {i: f"{memory[i] // count}M" for i, count in sorted(replicas.items()) if memory[i]}, share)


def _memory_mib(device: Device) -> int:
    if device.mig is not None:
        profile = device.card.profile(device.mig)
        return profile.memory_mib if profile else 0
    return device.card.memory_mib
