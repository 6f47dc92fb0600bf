"""What devices take of a quota that is not one for each: of a counter that parts of a card share, or of a capacity that
several may have at the same time.

Of the devices that would do, the one that takes most counts, as often as one is asked for: it is not known yet which it
will be. A capacity is taken as it was asked for, rounded up to what the device gives, or as the device says itself.
"""

from __future__ import annotations

from gpuaas.base.fielderrors import FieldError, internal, invalid
from gpuaas.base.quantity import NANO, Quantity, parse_quantity
from gpuaas.kueue.dra.rules import CAPACITY, Source
from gpuaas.kueue.resources import Object

MOST = 2**63 - 1


class Refused(Exception):
    """Why a claim cannot be counted."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(_aggregate(errors))
        self.errors = errors


def taken_of(source: Source, devices: list[Object], exactly: Object, path: str) -> Quantity:
    """What a request takes, given the devices that would do; `path` is where it stands."""
    count = exactly.get("count", 0)
    if len(devices) < count:
        words = f"insufficient matching devices for {source.kind} driver: {len(devices)} device(s) match but {count} requested"
        raise Refused([internal(path, words)])
    amounts = (
        _capacities(source, devices, exactly, path) if source.kind == CAPACITY else _counters(source, devices, path)
    )
    return Quantity(min(MOST, max(0, *amounts) * max(1, count)) * NANO)


def _counters(source: Source, devices: list[Object], path: str) -> list[int]:
    found = [
        parse_quantity(str(each["counters"][source.name].get("value", "0"))).value
        for device in devices
        for each in device.get("consumesCounters") or ()
        if source.name in (each.get("counters") or {})
    ]
    if not found:
        words = f'matched devices have no consumesCounters entry for counter "{source.name}"'
        raise Refused([internal(path, words)])
    return found


def _capacities(source: Source, devices: list[Object], exactly: Object, path: str) -> list[int]:
    asked = ((exactly.get("capacity") or {}).get("requests") or {}).get(source.name)
    offers = [device["capacity"][source.name] for device in devices if source.name in (device.get("capacity") or {})]
    if not offers:
        raise Refused([internal(path, f'matched devices have no capacity dimension "{source.name}"')])
    given = [amount for offer in offers if (amount := _given(offer, asked)) is not None]
    if not given:
        words = "capacity request cannot be satisfied by any matched device's RequestPolicy for dimension"
        raise Refused([invalid(path, None, f'{words} "{source.name}"')])
    return given


def _given(offer: Object, asked: str | None) -> int | None:
    """How much a device gives to who asks for so much, or for nothing in particular; None: not that much."""
    policy = offer.get("requestPolicy") or {}
    wanted = _value(asked if asked is not None else policy.get("default", offer.get("value", "0")))
    if policy.get("validValues"):
        return next((value for value in map(_value, policy["validValues"]) if value >= wanted), None)
    bounds = policy.get("validRange")
    if bounds is None:
        return wanted
    least, step = bounds.get("min"), bounds.get("step")
    if least is not None:
        wanted = max(wanted, _value(least))
        if step is not None and _value(step) > 0:
            wanted = _value(least) - (_value(least) - wanted) // _value(step) * _value(step)
    return None if bounds.get("max") is not None and wanted > _value(bounds["max"]) else wanted


def _value(amount: object) -> int:
    return parse_quantity(str(amount)).value


def _aggregate(errors: list[FieldError]) -> str:
    words = list(dict.fromkeys(map(str, errors)))
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"
