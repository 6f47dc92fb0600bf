"""The values of CEL at run time: Python's own where they fit, and the few that need a class.

int, float, str, bytes, bool, None, list and dict stand for themselves; a timestamp is a `datetime` in UTC, an unsigned
integer a `UInt`, a duration a `Span`, an optional an `Opt`. Equality is CEL's: numbers compare across types, true is
not 1. What goes wrong in an evaluation is a `CelError` with cel-go's words.
"""

import ipaddress
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gpuaas.base.quantity import Quantity
from gpuaas.machinery.schema.cel.types import Type
from gpuaas.machinery.schema.gourl import Url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


class CelError(Exception):
    """An evaluation that has no value."""


NO_OVERLOAD: Final = "no such overload"


class UInt(int):
    """An unsigned 64-bit integer."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A duration."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Opt:
    """An optional value; `value` means nothing when it is empty."""

    present: bool
    value: Any = None

    @property
    def got(self) -> Any:
        if not self.present:
            raise CelError("optional.none() dereference")
        return self.value


NONE: Final = Opt(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str


_NUMBERS: Final = frozenset((int, float, UInt))


def equal(first: Any, second: Any) -> bool:
    kind, other = first.__class__, second.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(first == second)
    if kind is not other:
        return False
    if kind is list:
        return len(first) == len(second) and all(equal(*pair) for pair in zip(first, second, strict=True))
    if kind is dict:
        return first.keys() == second.keys() and all(equal(value, second[key]) for key, value in first.items())
    if kind is Quantity:
        return bool(first.nano == second.nano)
    if kind is Opt:
        return first.present == second.present and (not first.present or equal(first.value, second.value))
    return bool(first == second)


def contains(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


_CLASS_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    dict: "map",
    datetime: "timestamp",
    Span: "duration",
    Opt: "optional_type",
    Quantity: "kubernetes.Quantity",
    TypeValue: "type",
    Url: "kubernetes.URL",
    ipaddress.IPv4Address: "net.IP",
    ipaddress.IPv6Address: "net.IP",
    ipaddress.IPv4Interface: "net.CIDR",
    ipaddress.IPv6Interface: "net.CIDR",
    NamedFormat: "kubernetes.NamedFormat",
}


def name_class(class_: type, name: str) -> None:
    """For the libraries whose values have a class of their own."""
    _CLASS_NAMES[class_] = name


def kind_of(value: Any) -> str:
    return _CLASS_NAMES.get(value.__class__, "dyn")


def is_of(type_: Type, value: Any) -> bool:
    """Whether a value at run time is of a type (without looking inside lists and maps)."""
    if type_.name in ("dyn", "A", "B"):
        return True
    kind = kind_of(value)
    return kind == "map" if type_.fields is not None else kind == type_.name


_SPAN: Final = re.compile(r"([+-]?)((?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_SPAN_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST_SPAN: Final = 1_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


def parse_span(text: str) -> Span:
    """Go's durations: 1h30m, 250ms, -1.5s."""
    found = _SPAN.fullmatch(text)
    if not found or len(text) > _LONGEST_SPAN:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    nanos = 0
    for number, unit in _SPAN_PART.findall(found.group(2)):
        whole, _, fraction = number.partition(".")
        nanos += int(whole or 0) * _UNITS[unit] + (
            int(fraction) * _UNITS[unit] // 10 ** len(fraction) if fraction else 0
        )
    return Span(-nanos if found.group(1) == "-" else nanos)


def show_time(moment: datetime) -> str:
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    micros = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{text}{micros}Z"


def show_span(span: Span) -> str:
    seconds, nanos = divmod(abs(span.nanos), 1_000_000_000)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{'-' if span.nanos < 0 else ''}{seconds}{fraction}s"


def show_double(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    if number == int(number) and abs(number) < 1e21:
        return str(int(number))
    return re.sub(r"e([+-])([0-9])$", r"e\g<1>0\2", repr(number))
