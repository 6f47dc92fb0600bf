"""Whether a pod uses more GPU memory than its budget (module budget), with the figures. Pure.

What a simulated pod uses is its annotation `gpuaas.dev/gpu-memory-used`; it may use the budgets of its devices together,
and of a device without a budget, a card of its own, what that has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.holding import Held

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


def budget_of(devices: Sequence[Held]) -> int:
    """MiB over all devices of the pod; 0 where nothing is known of them."""
    return sum({one.id: one.budget or one.memory for one in devices}.values())


def excess_of(devices: Sequence[Held], used: str | None) -> Excess | None:
    """What the pod uses beyond its budget, or None."""
    found, budget = mebibytes(used), budget_of(devices)
    if found is None or not budget or found <= budget:
        return None
    first = devices[0]
    shared = f"one of {first.shares} shares of {first.memory} MiB; " if first.shares else ""
    return Excess(found, budget, f"{shared}GPU {first.index}, {first.card}")
