"""The form's check of requests and limits that a user typed, against a profile's minimum and maximum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpuaas.profiles import units
from gpuaas.profiles.inject import identifiers
from gpuaas.profiles.paths import Object


@dataclass(frozen=True, slots=True)
class FormError:
    path: str
    message: str


def check(profile: Object, resources: Object) -> list[FormError]:
    """The first mistake of each field, in order of the profile's identifiers; then a limit below its request."""
    errors: list[FormError] = []
    for identifier in identifiers(profile):
        name = str(identifier.get("identifier", ""))
        request, limit = ((resources.get(part) or {}).get(name) for part in ("requests", "limits"))
        wrong = [
            FormError(f"resources/{part}/{name}", message)
            for part, value in (("requests", request), ("limits", limit))
            if (message := _problem(identifier, value)) is not None
        ]
        errors += wrong
        if not wrong and not _covers(name, request, limit):
            message = "Limit must be greater than or equal to request"
            errors.append(FormError(f"resources/limits/{name}", message))
    return errors


def _problem(identifier: Object, value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "Invalid input"
    match identifier.get("identifier"):
        case "cpu":
            return _measured(identifier, units.text_of(value), units.CPU, "CPU")
        case "memory":
            return _measured(identifier, units.text_of(value), units.MEMORY, "Memory")
        case _:
            return _counted(identifier, value)


def _measured(identifier: Object, text: str, known: tuple[units.Unit, ...], kind: str) -> str | None:
    least, most = identifier.get("minCount"), identifier.get("maxCount")
    if units.split(text, known)[0] is None:
        return f"{kind} must be provided"
    # Blank text and a bound of 0 compare with nothing; a memory maximum that is absent reads as 1 of the largest unit.
    if text and (bound := units.text_of(least)) and units.larger(bound, text, known):
        return f"Must be at least {units.readable(least, kind)}"
    if kind == "CPU" and not most:
        return None
    if text and (bound := units.text_of(most)) and units.larger(text, bound, known):
        return f"Must not exceed {units.readable(most, kind)}"
    return None


def _counted(identifier: Object, value: Any) -> str | None:
    number = units.number(value)
    least = units.number(identifier.get("minCount"))
    most = units.number(identifier.get("maxCount"))
    if math.isnan(number):
        return "Value must be a number"
    if number < least:
        return f"Must be at least {units.show(least)}"
    if number > most:
        return f"Must not exceed {units.show(most)}"
    return None


def _covers(name: str, request: Any, limit: Any) -> bool:
    if name not in ("cpu", "memory"):
        return units.number(limit) >= units.number(request)
    one, two = units.text_of(limit), units.text_of(request)
    return (
        bool(one) and bool(two) and units.larger(one, two, units.CPU if name == "cpu" else units.MEMORY, or_equal=True)
    )
