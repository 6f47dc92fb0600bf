"""The functions and operators of CEL: for each name its signatures, and for each signature what to run.

One table serves the checker (which signature fits?) and the evaluator (what runs?). This module holds operators,
conversions, lists, maps, optionals and times; text functions and Kubernetes' own are in their modules, which add to
the same table.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from gpuaas.base.numbers import parse_integer
from gpuaas.machinery.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    optional_of,
)
from gpuaas.machinery.schema.cel.values import (
    NONE,
    CelError,
    Opt,
    Span,
    TypeValue,
    UInt,
    contains,
    equal,
    kind_of,
    parse_span,
    show_double,
    show_span,
    show_time,
)
from gpuaas.machinery.schema.scalars import Unreadable, parse_time


@dataclass(frozen=True, slots=True)
class Overload:
    args: tuple[Type, ...]  # with the target first, for methods
    result: Type
    run: Callable[..., Any]
    method: bool = False


FUNCTIONS: Final[dict[str, list[Overload]]] = {}


def add(name: str, args: tuple[Type, ...], result: Type, run: Callable[..., Any], *, method: bool = False) -> None:
    FUNCTIONS.setdefault(name, []).append(Overload(args, result, run, method))


_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def _int(number: int) -> int:
    if not _LOW <= number <= _HIGH:
        raise CelError("integer overflow")
    return number


def _uint(number: int) -> UInt:
    if not 0 <= number < 1 << 64:
        raise CelError("unsigned integer overflow")
    return UInt(number)


def _divide(first: int, second: int) -> int:
    if second == 0:
        raise CelError("division by zero")
    quotient = abs(first) // abs(second)
    return _int(quotient if (first < 0) == (second < 0) else -quotient)


def _modulo(first: int, second: int) -> int:
    if second == 0:
        raise CelError("modulus by zero")
    rest = abs(first) % abs(second)
    return -rest if first < 0 else rest


def _divide_double(first: float, second: float) -> float:
    if second == 0:
        return float("nan") if first == 0 or first != first else float("inf") * (1 if first > 0 else -1)
    return first / second


def _arithmetic() -> None:
    for type_, whole in ((INT, _int), (UINT, _uint)):
        add("_+_", (type_, type_), type_, lambda a, b, w=whole: w(a + b))
        add("_-_", (type_, type_), type_, lambda a, b, w=whole: w(a - b))
        add("_*_", (type_, type_), type_, lambda a, b, w=whole: w(a * b))
        add("_/_", (type_, type_), type_, lambda a, b, w=whole: w(_divide(a, b)))
        add("_%_", (type_, type_), type_, lambda a, b, w=whole: w(_modulo(a, b)))
    add("_+_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a + b)
    add("_-_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b)
    add("_*_", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * b)
    add("_/_", (DOUBLE, DOUBLE), DOUBLE, _divide_double)
    add("_+_", (STRING, STRING), STRING, lambda a, b: a + b)
    add("_+_", (BYTES, BYTES), BYTES, lambda a, b: a + b)
    add("_+_", (list_of(A), list_of(A)), list_of(A), lambda a, b: a + b)
    add("_+_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: a + _delta(b))
    add("_+_", (DURATION, TIMESTAMP), TIMESTAMP, lambda a, b: b + _delta(a))
    add("_+_", (DURATION, DURATION), DURATION, lambda a, b: Span(_int(a.nanos + b.nanos)))
    add("_-_", (TIMESTAMP, TIMESTAMP), DURATION, lambda a, b: _span(a - b))
    add("_-_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: a - _delta(b))
    add("_-_", (DURATION, DURATION), DURATION, lambda a, b: Span(_int(a.nanos - b.nanos)))
    add("-_", (INT,), INT, lambda a: _int(-a))
    add("-_", (DOUBLE,), DOUBLE, lambda a: -a)


def _delta(span: Span) -> timedelta:
    return timedelta(microseconds=span.nanos / 1000)


def _span(delta: timedelta) -> Span:
    return Span((delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000)


def _comparisons() -> None:
    numbers = (INT, UINT, DOUBLE)
    pairs = [(a, b) for a in numbers for b in numbers]
    pairs += [(type_, type_) for type_ in (BOOL, STRING, BYTES, TIMESTAMP, DURATION)]
    for pair in pairs:
        add("_<_", pair, BOOL, lambda a, b: a < b)
        add("_<=_", pair, BOOL, lambda a, b: a <= b)
        add("_>_", pair, BOOL, lambda a, b: a > b)
        add("_>=_", pair, BOOL, lambda a, b: a >= b)
    add("_==_", (A, A), BOOL, equal)
    add("_!=_", (A, A), BOOL, lambda a, b: not equal(a, b))
    add("!_", (BOOL,), BOOL, lambda a: not a)
    add("@in", (A, list_of(A)), BOOL, lambda item, items: contains(items, item))
    add("@in", (A, map_of(A, B)), BOOL, lambda key, entries: key in entries)


def _index(items: list[Any], at: float) -> Any:
    if at != int(at) or not 0 <= at < len(items):
        raise CelError(f"index out of bounds: {at}")
    return items[int(at)]


def _entry(entries: dict[Any, Any], key: Any) -> Any:
    try:
        return entries[key]  # a map may have an answer for keys it has not
    except KeyError:
        raise CelError(f"no such key: {key}") from None


def _optional_index(items: list[Any], at: int) -> Opt:
    return Opt(True, items[at]) if 0 <= at < len(items) else NONE


def _optional_entry(entries: dict[Any, Any], key: Any) -> Opt:
    return Opt(True, entries[key]) if key in entries else NONE


def _containers() -> None:
    for type_ in (STRING, BYTES, list_of(A), map_of(A, B)):
        add("size", (type_,), INT, len)
        add("size", (type_,), INT, len, method=True)
    add("_[_]", (list_of(A), INT), A, _index)
    add("_[_]", (map_of(A, B), A), B, _entry)
    add("_[?_]", (list_of(A), INT), optional_of(A), _optional_index)
    add("_[?_]", (map_of(A, B), A), optional_of(B), _optional_entry)
    for name in ("_[_]", "_[?_]"):  # an index into an optional is optional
        add(name, (optional_of(list_of(A)), INT), optional_of(A), _through(_optional_index))
        add(name, (optional_of(map_of(A, B)), A), optional_of(B), _through(_optional_entry))


def _through(index: Callable[[Any, Any], Opt]) -> Callable[[Opt, Any], Opt]:
    return lambda opt, key: index(opt.value, key) if opt.present else NONE


def _to_int(text: str) -> int:
    try:
        return _int(parse_integer(text))
    except ValueError:
        raise CelError("type conversion error from 'string' to 'int'") from None


def _to_double(text: str) -> float:
    try:
        if not text.isascii() or "_" in text or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise CelError("type conversion error from 'string' to 'double'") from None


def _truncated(number: float) -> int:
    if number != number or not _LOW < number < _HIGH:
        raise CelError("integer overflow")
    return int(number)


_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


def _to_bool(text: str) -> bool:
    if text not in _BOOLEANS:
        raise CelError("type conversion error from 'string' to 'bool'")
    return _BOOLEANS[text]


def read_time(text: str) -> datetime:
    try:
        return parse_time(text)
    except Unreadable as problem:
        raise CelError(problem.message) from None


def _to_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _conversions() -> None:
    integers: tuple[tuple[Type, Callable[[Any], int]], ...] = (
        (INT, int),
        (UINT, int),
        (DOUBLE, _truncated),
        (STRING, _to_int),
    )
    for type_, run in integers:
        add("int", (type_,), INT, run)
        add("uint", (type_,), UINT, lambda value, run=run: _uint(run(value)))
    add("int", (TIMESTAMP,), INT, lambda moment: int(moment.timestamp()))
    for type_, convert in ((INT, float), (UINT, float), (DOUBLE, float), (STRING, _to_double)):
        add("double", (type_,), DOUBLE, convert)
    add("bool", (BOOL,), BOOL, bool)
    add("bool", (STRING,), BOOL, _to_bool)
    add("string", (BOOL,), STRING, lambda value: "true" if value else "false")
    texts: tuple[tuple[Type, Callable[[Any], str]], ...] = (
        (INT, str),
        (UINT, lambda number: str(int(number))),
        (STRING, str),
        (DOUBLE, show_double),
        (BYTES, _to_text),
        (TIMESTAMP, show_time),
        (DURATION, show_span),
    )
    for type_, show in texts:
        add("string", (type_,), STRING, show)
    add("bytes", (BYTES,), BYTES, bytes)
    add("bytes", (STRING,), BYTES, lambda text: text.encode("utf-8"))
    add("timestamp", (STRING,), TIMESTAMP, read_time)
    add("timestamp", (TIMESTAMP,), TIMESTAMP, lambda moment: moment)
    add("duration", (STRING,), DURATION, parse_span)
    add("duration", (DURATION,), DURATION, lambda span: span)
    add("dyn", (A,), DYN, lambda value: value)
    add("type", (A,), TYPE, lambda value: TypeValue("null_type" if value is None else kind_of(value)))


def _unwrapped(options: list[Any]) -> list[Any]:
    return [each.value for each in options if each.present]


def _optionals() -> None:
    add("optional.of", (A,), optional_of(A), lambda value: Opt(True, value))
    add("optional.none", (), optional_of(A), lambda: NONE)
    add("optional.ofNonZeroValue", (A,), optional_of(A), lambda value: Opt(True, value) if value else NONE)
    add("hasValue", (optional_of(A),), BOOL, lambda opt: opt.present, method=True)
    add("value", (optional_of(A),), A, lambda opt: opt.got, method=True)
    add("orValue", (optional_of(A), A), A, lambda opt, other: opt.value if opt.present else other, method=True)
    unwrapped = [("optional.unwrap", False), ("unwrapOpt", True)]
    for name, method in unwrapped:
        add(name, (list_of(optional_of(A)),), list_of(A), _unwrapped, method=method)
    add(
        "or",
        (optional_of(A), optional_of(A)),
        optional_of(A),
        lambda opt, other: opt if opt.present else other,
        method=True,
    )


_TIME_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: (moment.weekday() + 1) % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}


_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")


def _in_zone(moment: datetime, zone: str) -> datetime:
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return moment.astimezone(timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes)))
    try:
        return moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError):
        raise CelError(f"unknown time zone {zone}") from None


def _times() -> None:
    for name, part in _TIME_PARTS.items():
        add(name, (TIMESTAMP,), INT, part, method=True)
        add(name, (TIMESTAMP, STRING), INT, lambda moment, zone, part=part: part(_in_zone(moment, zone)), method=True)
    for name, unit in (("getHours", 3_600), ("getMinutes", 60), ("getSeconds", 1)):
        add(name, (DURATION,), INT, lambda span, unit=unit: int(span.nanos / 1e9 / unit), method=True)
    add("getMilliseconds", (DURATION,), INT, lambda span: int(span.nanos / 1e6), method=True)


for _section in (_arithmetic, _comparisons, _containers, _conversions, _optionals, _times):
    _section()
