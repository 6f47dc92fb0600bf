"""Counts as the dashboard's forms read them: a number and a unit from a short list, in JavaScript's number rules."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Unit:
    name: str
    suffix: str
    weight: int


CPU: Final = (Unit("Cores", "", 1000), Unit("Milicores", "m", 1))
MEMORY_CHOICES: Final = tuple(
    Unit(f"{prefix}iB", f"{prefix}i", 1024**power)
    for prefix, power in (("E", 6), ("P", 5), ("T", 4), ("G", 3), ("M", 2))
)
MEMORY: Final = (
    *(
        unit
        for prefix, power in (("E", 6), ("P", 5), ("T", 4), ("G", 3), ("M", 2), ("K", 1))
        for unit in (Unit(f"{prefix}B", prefix, 1000**power), Unit(f"{prefix}iB", f"{prefix}i", 1024**power))
    ),
    Unit("B", "", 1),
)
OTHER: Final = (Unit("Other", "", 1),)


class WrongUnitError(ValueError):
    pass


def split(text: str, units: tuple[Unit, ...], *, strict: bool = False) -> tuple[float | None, Unit]:
    """The number and unit of a text. A bare unit has no number; without `strict` what cannot be read is one of the first
    unit. Raises WrongUnitError with it."""
    if (bare := next((unit for unit in units if unit.suffix == text), None)) is not None:
        return None, bare
    found = re.match(r"([0-9]*\.?[0-9]*)(.*)", text) if "\n" not in text else None
    if found is None or not found[1]:
        if strict:
            raise WrongUnitError("The resource count is in an invalid format.")
        return 1, units[0]
    unit = next((unit for unit in units if unit.suffix == found[2]), None)
    if unit is None and strict:
        raise WrongUnitError("The resource count has the wrong unit.")
    return _decimal(found[1]), unit or units[0]


def _decimal(text: str) -> float:
    return math.nan if text == "." else float(text)


def larger(one: str, two: str, units: tuple[Unit, ...], *, or_equal: bool = False) -> bool:
    first, unit = split(one, units)
    second, other = split(two, units)
    delta = (first or 0) * unit.weight - (second or 0) * other.weight
    return delta >= 0 if or_equal else delta > 0


def number(value: Any) -> float:
    """JavaScript's Number(): NaN for what is no number, 0 for blank text."""
    match value:
        case bool() | int() | float():
            return float(value)
        case str():
            text = value.strip()
            if not text:
                return 0.0
            if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
                return float(text)
            if re.fullmatch(r"0[xX][0-9A-Fa-f]+|0[oO][0-7]+|0[bB][01]+", text):
                return float(int(text, 0))
            if re.fullmatch(r"[+-]?Infinity", text):
                return math.inf if text[0] != "-" else -math.inf
    return math.nan


def show(value: float | None) -> str:
    """A number as JavaScript prints it."""
    if value is None:
        return ""
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e21 else repr(float(value))


def text_of(value: Any) -> str:
    """JavaScript's String()."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return show(value)
        case None:
            return "undefined"
        case _:
            return str(value)


def readable(count: Any, resource_type: str | None) -> Any:
    """A count with the name of its unit, for CPU and memory."""
    units = {"CPU": CPU, "Memory": MEMORY}.get(resource_type or "")
    if units is None:
        return count
    value, unit = split(text_of(count), units)
    return f"{show(value)} {unit.name}"
