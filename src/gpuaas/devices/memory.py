"""How much GPU memory a pod may use, and whether it uses more. Pure.

A pod's budget is what its annotation `gpuaas.dev/gpu-memory` asks for, at most the memory of its devices; without one it
is its equal part of each device it holds: the whole of a card or slice of its own, the n-th part of one that n share.
What a simulated pod uses is its annotation `gpuaas.dev/gpu-memory-used`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.holding import Held

ASKED: Final = "gpuaas.dev/gpu-memory"
USED: Final = "gpuaas.dev/gpu-memory-used"
UTILIZATION: Final = "gpuaas.dev/gpu-utilization"
OVER_LIMIT: Final = "GPUMemoryOverLimit"
_MEBI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Excess:
    used: int  # MiB
    budget: int  # MiB
    where: str

    def __str__(self) -> str:
        return f"the pod uses {self.used} MiB of GPU memory, its budget is {self.budget} MiB ({self.where})"


def mebibytes(text: str | None) -> int | None:
    """A quantity of memory in MiB, rounded up; None where it is none."""
    try:
        found = parse_quantity(text) if text else None
    except ValueError:
        return None
    return -(-found.value // _MEBI) if found is not None and found.nano >= 0 else None


def budget_of(devices: Sequence[Held], asked: str | None = None) -> int:
    """MiB over all devices of the pod; 0 where nothing is known of them."""
    parts = {one.id: one.memory // max(1, one.shares) for one in devices}
    wanted = mebibytes(asked)
    if not wanted:
        return sum(parts.values())
    return min(wanted, sum({one.uuid: one.memory for one in devices}.values()))


def excess_of(devices: Sequence[Held], used: str | None, asked: str | None = None) -> Excess | None:
    """What the pod uses beyond its budget, or None."""
    found, budget = mebibytes(used), budget_of(devices, asked)
    if found is None or not budget or found <= budget:
        return None
    return Excess(found, budget, _where(devices, asked))


def _where(devices: Sequence[Held], asked: str | None) -> str:
    first = devices[0]
    at = f"GPU {first.index}, {first.card}"
    if mebibytes(asked):
        return f"annotation {ASKED}={asked}; {at}"
    if first.shares:
        return f"one of {first.shares} shares of {first.memory} MiB; {at}"
    return at
