"""Small values that objects are made of: numbers or percentages, hashes of templates, statuses without zeros."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gpuaas.client.protocol import Object

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: a hash must not read as a word
_PRIME, _OFFSET = 0x01000193, 0x811C9DC5


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """An int as it is, `"25%"` as that part of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        return int(value)
    part = int(value[:-1]) * total
    return -(-part // 100) if round_up else part // 100


def template_hash(template: Mapping[str, Any], collisions: int | None = None) -> str:
    """A short, stable name for a template: FNV-1a of its canonical JSON, in letters fit for names.

    Kubernetes hashes a dump of Go's memory layout; the form is the same, the value is not.
    """
    data = msgspec.json.encode(template, order="deterministic")
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return safe_letters(str(value))


def revision_hash(data: Mapping[str, Any], collisions: int) -> str:
    """The name of a ControllerRevision, equal to the real controller's: FNV-1 of JSON as Go writes it."""
    text = msgspec.json.encode(data, order="deterministic").decode()
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    value = _OFFSET
    for byte in text.encode() + str(collisions).encode():
        value = ((value * _PRIME) & 0xFFFFFFFF) ^ byte
    return safe_letters(str(value))


def safe_letters(text: str) -> str:
    return "".join(_ALPHABET[ord(char) % len(_ALPHABET)] for char in text)


def without_zeros(fields: Mapping[str, Any], *always: str) -> Object:
    """What Go's omitempty leaves: no 0, "", None or empty list, except the fields that are always written."""
    return {key: value for key, value in fields.items() if key in always or value not in (None, 0, "", [], {})}
