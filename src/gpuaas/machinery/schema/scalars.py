"""Scalars that have a canonical spelling: quantities, times and bytes, read and written as the Go types do.

Each `canonical_*` function takes what JSON held and returns how the API writes it, or raises `Unreadable` with the
words Go's decoder uses. Results are remembered, because the same few strings come again and again.
"""

import binascii
import re
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from gpuaas.base.quantity import INVALID_MESSAGE, parse_quantity


class Unreadable(Exception):
    """A value its own type refuses. `wrong_type` is set when only the JSON type is wrong: then Go names the field."""

    def __init__(self, message: str, wrong_type: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.wrong_type = wrong_type


def json_type(value: Any) -> str:
    """How Go's decoder calls what it found."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def canonical_quantity(value: Any) -> str:
    if value.__class__ is str or value.__class__ is int or value.__class__ is float:
        return _quantity(value)
    raise Unreadable(INVALID_MESSAGE)


@lru_cache(maxsize=65_536, typed=True)
def _quantity(value: str | float) -> str:
    try:
        return str(parse_quantity(value))
    except ValueError as problem:
        raise Unreadable(str(problem)) from None


def canonical_time(value: Any) -> str | None:
    """metav1.Time: UTC, whole seconds. The zero time is written as null, so it is None here."""
    if value.__class__ is not str:
        raise Unreadable("", wrong_type="string")
    return _time(value) if len(value) <= _REMEMBERED else _time.__wrapped__(value)


def canonical_micro_time(value: Any) -> str | None:
    """metav1.MicroTime: UTC, always six digits after the second."""
    if value.__class__ is not str:
        raise Unreadable("", wrong_type="string")
    if _is_plain_micro_time(value):
        return value
    return _micro_time(value) if len(value) <= _REMEMBERED else _micro_time.__wrapped__(value)


def _is_plain_micro_time(text: str) -> bool:
    """Whether it is one as it is kept, which is what programs send: no two are alike, so remembering does not help."""
    try:
        moment = datetime.fromisoformat(text[:-1])
    except ValueError:
        return False
    return len(text) == 27 and moment.year > 1 and f"{moment.isoformat(timespec='microseconds')}Z" == text


_REMEMBERED: Final = 64  # characters: a fraction may have any number of digits, and what is remembered stays in memory


@lru_cache(maxsize=8_192)
def _time(text: str) -> str | None:
    moment = parse_time(text, _SECONDS_LAYOUT)
    return None if moment == _ZERO_TIME else moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


@lru_cache(maxsize=8_192)
def _micro_time(text: str) -> str | None:
    moment = parse_time(text, _MICRO_LAYOUT)
    return None if moment == _ZERO_TIME else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


_SECONDS_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)

# The elements of Go's layout in order: how it names each, what it may look like, and what is out of range.
_ELEMENTS: Final = (
    ("2006", re.compile(r"[0-9]{4}"), None, ""),
    ("-", re.compile("-"), None, ""),
    ("01", re.compile(r"[0-9]{2}"), range(1, 13), "month"),
    ("-", re.compile("-"), None, ""),
    ("02", re.compile(r"[0-9]{2}"), range(1, 32), "day"),
    ("T", re.compile("T"), None, ""),
    ("15", re.compile(r"[0-9]{1,2}"), range(24), "hour"),
    (":", re.compile(":"), None, ""),
    ("04", re.compile(r"[0-9]{2}"), range(60), "minute"),
    (":", re.compile(":"), None, ""),
    ("05", re.compile(r"[0-9]{2}"), range(60), "second"),
    (".000000", re.compile(r"\.[0-9]{6}"), None, ""),
    ("Z07:00", re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}"), None, ""),
)
_FRACTION: Final = re.compile(r"[.,][0-9]+")


def parse_time(text: str, layout: str = _SECONDS_LAYOUT) -> datetime:
    """An RFC 3339 time in UTC; raises `Unreadable` with the sentence Go's time.Parse would give."""
    return _parsed(text, layout) if len(text) <= _REMEMBERED else _parsed.__wrapped__(text, layout)


@lru_cache(maxsize=8_192)
def _parsed(text: str, layout: str) -> datetime:
    fields: dict[str, str] = {}
    at = 0
    for name, form, allowed, noun in _ELEMENTS:
        if name == ".000000" and layout == _SECONDS_LAYOUT:
            fraction = _FRACTION.match(text, at)  # a fraction is read even where the layout has none
            if fraction:
                fields[name], at = fraction.group(), fraction.end()
            continue
        found = form.match(text, at)
        if not found:
            raise Unreadable(f'parsing time "{text}" as "{layout}": cannot parse "{text[at:]}" as "{name}"')
        if allowed is not None and int(found.group()) not in allowed:
            raise Unreadable(f'parsing time "{text}": {noun} out of range')
        fields.setdefault(name, found.group())
        at = found.end()
    if at < len(text):
        raise Unreadable(f'parsing time "{text}": extra text: "{text[at:]}"')
    return _moment(text, fields)


def _moment(text: str, fields: dict[str, str]) -> datetime:
    year, month, day, hour, minute, second = (int(fields[name]) for name in ("2006", "01", "02", "15", "04", "05"))
    micros = int((fields.get(".000000", ".0")[1:7]).ljust(6, "0"))
    offset = fields["Z07:00"]
    zone: timezone = UTC
    try:
        if offset != "Z":
            away = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:6]))
            zone = timezone(-away if offset[0] == "-" else away)
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unreadable(f'parsing time "{text}": day out of range') from None


def canonical_bytes(value: Any) -> str:
    """Base64 as Go reads it: line ends are ignored, padding is not optional."""
    if value.__class__ is not str:
        raise Unreadable("", wrong_type="[]uint8")
    try:
        raw = value.encode("ascii").translate(None, b"\r\n")
        return b64encode(b64decode(raw, validate=True)).decode()
    except (binascii.Error, UnicodeEncodeError):
        raise Unreadable(f"illegal base64 data at input byte {_bad_base64_at(value)}") from None


def _bad_base64_at(text: str) -> int:
    """Where Go's decoder stops: the first character that is none of the alphabet, or the group that is incomplete."""
    found = re.search(r"[^A-Za-z0-9+/\r\n]", text)
    if found and found.group() != "=":
        return found.start()
    if found:  # padding too early, or something after it
        return found.start() if len(text[: found.start()]) % 4 < 2 else min(len(text), found.start() // 4 * 4 + 4)
    return len(text) // 4 * 4
