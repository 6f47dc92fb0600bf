"""How much of a card's memory a pod may use: its memory budget. Pure.

A replica of a shared card has an equal part of what the driver leaves of the card's memory, or what the pod asks for in
its annotation `gpuaas.dev/gpu-memory` (an amount for each card). Budgets on one card never sum above that memory: where
a pod asks for more than its part, the others' parts have to be left. A pod with a whole card has no budget unless it
asks for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from gpuaas.base.quantity import parse_quantity

if TYPE_CHECKING:
    from gpuaas.devices.holding import Held
    from gpuaas.devices.offer import Device

ANNOTATION: Final = "gpuaas.dev/gpu-memory"
_MIB: Final = 1 << 20
_RESERVED_MIB: Final = 640  # what the driver keeps of a large card: 615 MiB were measured on an H200
_RESERVED_PART: Final = 32  # and of a small one
_LEAST_MIB: Final = 64
_SHOWN: Final = 64  # characters of what the annotation says


class BudgetError(ValueError):
    """The annotation cannot be met, ever; the text says what it says and what is possible."""


def asked_mib(annotations: Mapping[str, str]) -> int:
    """What the pod asks for of each card; 0 where it does not. Raises BudgetError."""
    text = annotations.get(ANNOTATION, "")
    if not text:
        return 0
    try:
        found = parse_quantity(text).value // _MIB
    except ValueError:
        raise BudgetError(
            f'annotation {ANNOTATION} is "{text[:_SHOWN]}", an amount such as 12Gi was expected'
        ) from None
    if found < _LEAST_MIB:
        raise BudgetError(f"annotation {ANNOTATION} is {text[:_SHOWN]}, at least {_LEAST_MIB}Mi are needed")
    return found


def reserved_mib(device: Device) -> int:
    """What the driver keeps for itself."""
    if device.card.reserved_mib and device.mig is None:
        return device.card.reserved_mib
    return usually_reserved_mib(memory_mib(device))


def usually_reserved_mib(memory: int) -> int:
    """What a driver keeps of that much memory, where it was not asked."""
    return min(_RESERVED_MIB, memory // _RESERVED_PART)


def memory_mib(device: Device) -> int:
    """Of the card, or of the slice."""
    if device.mig is None:
        return device.card.memory_mib
    shape = device.card.profile(device.mig)
    return shape.memory_mib if shape is not None else 0


def usable_mib(device: Device) -> int:
    return memory_mib(device) - reserved_mib(device)


def share_mib(device: Device, asked: int) -> int:
    """The budget of one who gets this device; 0 for all of it. Raises BudgetError where it can never be given."""
    usable = usable_mib(device)
    if asked and usable and asked > usable:
        name = device.card.name or "card"
        raise BudgetError(
            f"annotation {ANNOTATION} asks for {asked} MiB of a {name}, which has {usable} MiB for programs"
        )
    if asked:
        return asked
    return usable // device.replicas if device.is_replica else 0


def room_mib(device: Device, held: Iterable[Held]) -> int:
    """What the budgets given on this device leave of it."""
    return usable_mib(device) - sum(one.budget for one in held if one.uuid == device.uuid)


def budgets_of(held: Iterable[Held]) -> dict[str, int]:
    """Of one pod, in bytes by the UUID of the card or slice. Only where all that it holds of it has a budget."""
    found: dict[str, int] = {}
    for one in held:
        if one.budget:
            found[one.uuid] = found.get(one.uuid, 0) + one.budget * _MIB
    return found
