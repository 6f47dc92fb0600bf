"""One container's allocation: which ids may be asked for together, and what the container is given.

Environment, mounts and device nodes are those of the device plugin; a process of ours gets the same variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuaas.devices import mps
from gpuaas.devices.offer import Device, Offer
from gpuaas.devices.plugin_config import PluginConfig

_VOLUME_ROOT: Final = "/var/run/nvidia-container-devices"


class RefusedError(ValueError):
    """The plugin refuses the request; the text is the plugin's."""


@dataclass(frozen=True, slots=True)
class Mount:
    host: str
    container: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    environment: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[str, ...] = ()


def allocate(offered: Offer, config: PluginConfig, resource: str, ids: Sequence[str]) -> Allocation:
    """Raises RefusedError for ids that are not offered, or more than one where sharing allows one."""
    known = offered.get(resource, {})
    refused = f'invalid allocation request for "{resource}": invalid request: '
    for id_ in ids:
        if id_ not in known:
            raise RefusedError(f"{refused}unknown device: {id_}")
    devices = [known[id_] for id_ in ids]
    one_at_most = config.strategy == "mps" or (
        config.strategy == "time-slicing" and config.time_slicing.fail_requests_greater_than_one
    )
    if one_at_most and len(ids) > 1 and any(device.is_replica for device in devices):
        raise RefusedError(f"{refused}maximum request size for shared resources is 1; found {len(ids)}")
    return _granted(config, resource, list({device.uuid: device for device in devices}.values()))


def _granted(config: PluginConfig, resource: str, devices: list[Device]) -> Allocation:
    by_index = config.device_id_strategy == "index"
    names = [device.index if by_index else device.uuid for device in devices]
    environment: dict[str, str] = {}
    mounts: list[Mount] = []
    if config.strategy == "mps":
        pipe = f"{mps.ROOT}/{resource}/pipe"
        environment["CUDA_MPS_PIPE_DIRECTORY"] = pipe
        mounts = [
            Mount(f"{config.mps_root}/{resource}/pipe", pipe),
            Mount(f"{config.mps_root}/shm", "/dev/shm"),
        ]
    for name, on in (("GDRCOPY", config.gdrcopy), ("GDS", config.gds), ("MOFED", config.mofed)):
        if on:
            environment[f"NVIDIA_{name}"] = "enabled"
    strategies = set(config.device_list_strategy)
    if strategies <= {"cdi-annotations", "cdi-cri"}:
        return Allocation(environment, tuple(mounts))
    if "envvar" in strategies:
        environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(names)
    if "volume-mounts" in strategies:
        environment["NVIDIA_VISIBLE_DEVICES"] = _VOLUME_ROOT
        mounts += [Mount("/dev/null", f"{_VOLUME_ROOT}/{name}") for name in names]
    nodes = _nodes(devices) if config.pass_device_specs else ()
    return Allocation(environment, tuple(mounts), nodes)


def _nodes(devices: list[Device]) -> tuple[str, ...]:
    cards = dict.fromkeys(d.card.index if d.card.minor is None else d.card.minor for d in devices)
    return tuple(f"/dev/nvidia{minor}" for minor in cards)
