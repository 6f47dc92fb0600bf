"""The variables by which a container gets its cards and keeps to its memory budgets. Pure.

Where a pod has a budget, three layers keep it. The preloaded library (native/gpu_memory.c) refuses an allocation beyond it
in the process that asks, for all processes of the pod together, and shows the budget as the card, so that frameworks need
no setting of their own. Where the library could not be built, frameworks that know a limit are given their part of the
card, unless the container sets that variable itself. On a card shared by MPS its server refuses what one process has
beyond the budget. What passes all of them is stopped from outside (gpu_guard).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuaas.devices.budget import budgets_of
from gpuaas.devices.holding import Held, variables

_NONE: Final = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
_MIB: Final = 1 << 20
_TORCH: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_JAX: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
MPS: Final = "mps"


@dataclass(frozen=True, slots=True)
class Provision:
    """What this machine has for its pods."""

    library: Path | None = None  # the preloaded library
    pipes: Mapping[str, Path] | None = None  # MPS pipe directories by card


def cards_by_mps(held: Sequence[Held]) -> list[str]:
    return list(dict.fromkeys(one.card for one in held if one.sharing == MPS))


def container_variables(
    held: Sequence[Held], container: str, own: Mapping[str, str], folder: Path, provision: Provision
) -> dict[str, str]:
    """`held`: of the whole pod. `own`: what the container's environment has so far. `folder`: of the pod. They are set
    after its own, so that no pod can name a card it was not given; a container without devices sees none."""
    found = variables(held, container)
    if not found:
        return dict(_NONE)
    uuids = list(dict.fromkeys(one.uuid for one in held if one.container == container))
    budgets = budgets_of(held)
    by_mps = [one for one in held if one.container == container and one.sharing == MPS]
    if by_mps and provision.pipes:
        found |= _of_mps(by_mps[0], budgets, provision.pipes)
    if any(uuid in budgets for uuid in uuids):
        found |= _of_budgets(held, uuids, budgets, own, folder, provision)
    return found


def _of_mps(held: Held, budgets: Mapping[str, int], pipes: Mapping[str, Path]) -> dict[str, str]:
    """Each card has a daemon of its own, in which it is device 0; a container has one share of one card."""
    pipe = pipes.get(held.card)
    if pipe is None:
        return {}
    limit = budgets.get(held.uuid, 0) // _MIB
    limited = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={limit}M"} if limit else {}
    return {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)} | limited


def _of_budgets(
    held: Sequence[Held],
    uuids: Sequence[str],
    budgets: Mapping[str, int],
    own: Mapping[str, str],
    folder: Path,
    provision: Provision,
) -> dict[str, str]:
    amounts = [budgets.get(uuid, 0) for uuid in uuids]
    if provision.library is not None:
        # Devices are numbered as the container sees them: containers with the same devices share one account.
        account = hashlib.sha256(",".join(uuids).encode()).hexdigest()[:12]
        preloaded = [str(provision.library), *filter(None, [own.get("LD_PRELOAD")])]
        return {
            "LD_PRELOAD": ":".join(preloaded),
            "GPUAAS_GPU_MEMORY": ",".join(map(str, amounts)),
            "GPUAAS_GPU_MEMORY_FILE": str(folder / f"gpu-memory-{account}"),
        }
    memory = {one.uuid: one.memory * _MIB for one in held}
    parts = [amount / memory[uuid] for uuid, amount in zip(uuids, amounts, strict=True) if amount and memory.get(uuid)]
    if not parts:
        return {}
    part = f"{min(parts):.3f}"
    environment: dict[str, str] = {}
    if not any(name in own for name in _TORCH):
        environment[_TORCH[0]] = f"per_process_memory_fraction:{part}"
    if _JAX not in own:
        environment[_JAX] = part.removeprefix("0")
    return environment
