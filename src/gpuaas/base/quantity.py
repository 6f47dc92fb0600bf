"""Kubernetes quantities (`500m`, `1.5Gi`, `1e3`), exact: an int of nano-units and the family of its suffix.

Parsing and canonical printing follow Kubernetes: what is finer than a billionth is rounded up (away from zero), what
exceeds the largest 64-bit integer is capped, and the canonical form has no fraction and the largest suffix that keeps
the value exact. Parsed quantities are interned, because the same few strings come again and again.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

NANO = 1_000_000_000
_MAX = (1 << 63) - 1

_FORM = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_NAMES = {power: name for name, power in _BINARY.items()}

INVALID_MESSAGE = (
    "quantities must match the regular expression "
    r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    nano: int
    family: str = "decimal"  # decimal, binary or exponent: how it likes to be printed

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero)."""
        return _ceil_div(self.nano, NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up (away from zero)."""
        return _ceil_div(self.nano, 1_000_000)

    def __str__(self) -> str:
        return _format(self.nano, self.family)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.family if self.nano else other.family)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.family if self.nano else other.family)

    def __mul__(self, times: int) -> "Quantity":
        return Quantity(self.nano * times, self.family)


ZERO = Quantity(0)


def from_int(units: int, family: str = "decimal") -> Quantity:
    return Quantity(units * NANO, family)


def from_milli(thousandths: int, family: str = "decimal") -> Quantity:
    return Quantity(thousandths * 1_000_000, family)


def parse_quantity(text: str | float) -> Quantity:
    """Reads a quantity; raises ValueError with Kubernetes' words for what is none."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(INVALID_MESSAGE)
    return _parse(text if isinstance(text, str) else repr(text))


@lru_cache(maxsize=65_536)
def _parse(text: str) -> Quantity:
    found = _FORM.fullmatch(text) if len(text) <= 512 else None
    if not found:
        raise ValueError(INVALID_MESSAGE)
    sign, digits, suffix = found.groups()
    suffix = suffix or ""
    whole, _, fraction = digits.partition(".")
    mantissa = int((whole or "0") + fraction)
    scale = -len(fraction)  # the value is mantissa * 10**scale * what the suffix says
    if suffix in _BINARY:
        family, factor = "binary", 1 << (10 * _BINARY[suffix])
    elif suffix[:1] in ("e", "E") and len(suffix) > 1:
        exponent = int(suffix[1:])
        if abs(exponent) > 1_000:
            raise ValueError(INVALID_MESSAGE)
        family, factor, scale = "exponent", 1, scale + exponent
    else:
        family, factor, scale = "decimal", 1, scale + _DECIMAL[suffix]
    nano = _scaled(mantissa * factor, scale + 9)
    nano = min(nano, _MAX * NANO)
    return Quantity(-nano if sign == "-" else nano, family)


def _scaled(mantissa: int, power: int) -> int:
    """mantissa * 10**power, rounded up to a whole number."""
    if power >= 0:
        return mantissa * int(10**power)
    return -(-mantissa // int(10**-power))


def _ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _format(nano: int, family: str) -> str:
    if nano == 0:
        return "0"
    if family == "binary" and abs(nano) >= 1024 * NANO:
        return _format_binary(nano)
    power = -9
    while nano % 1000 == 0 and power < 18:
        nano //= 1000
        power += 3
    if family == "exponent":
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_NAMES[power]}"


def _format_binary(nano: int) -> str:
    units = _ceil_div(nano, NANO)
    power = 0
    while units % 1024 == 0 and power < 6:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_NAMES[power]}" if power else str(units)
