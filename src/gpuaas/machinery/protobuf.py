"""Kubernetes' protobuf bodies, read into plain objects by schema.

Only reading: what we answer is JSON, which every client takes. The result is what the same object would have been in
JSON, zero values included; the decoder of built-in kinds then drops them as it does for any body. A body is an
envelope (`k8s\\0`, then who it is and the bytes of the object); numbers of fields come from the caller.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gpuaas.base.clock import rfc3339, rfc3339_micro
from gpuaas.machinery.schema.decode import normalize
from gpuaas.machinery.schema.model import Schema

MAGIC: Final = b"k8s\x00"
_MAX_DEPTH: Final = 64
Numbers = Callable[[str], Mapping[str, tuple[int, ...]]]
Fields = Iterator[tuple[int, Any]]


class ProtobufError(ValueError):
    """Not a body we can read."""


def unwrap(body: bytes) -> tuple[str, str, bytes]:
    """(apiVersion, kind, bytes of the object) of an envelope."""
    if not body:
        raise ProtobufError("empty data")
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(body) == len(MAGIC):
        raise ProtobufError("empty body")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(memoryview(body)[4:]):
        if number == 1:
            for inner, text in _fields(value):
                if inner == 1:
                    api_version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2:
            raw = bytes(value)
    return api_version, kind, raw


class ProtobufReader:
    """Reads messages of the types of one schema set; plans are made once per type."""

    def __init__(self, named: Callable[[str], Schema], numbers: Numbers) -> None:
        self._named = named
        self._numbers = numbers
        self._plans: dict[str, dict[int, Any]] = {}

    def read(self, name: str, data: bytes) -> dict[str, Any]:
        """A message of the named type."""
        return self._message(self._named(name), memoryview(data), 0)

    def _message(self, schema: Schema, data: memoryview, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise ProtobufError("nested too deeply")
        obj: dict[str, Any] = {}
        self._fill(obj, self._plan(schema), data, depth)
        return obj

    def _fill(self, obj: dict[str, Any], plan: dict[int, Any], data: memoryview, depth: int) -> None:
        for number, value in _fields(data):
            step = plan.get(number)
            if step is None:
                continue
            if isinstance(step, dict):  # what Go embeds: its fields are ours
                self._fill(obj, step, _bytes(value), depth + 1)
                continue
            key, place = step
            self._field(obj, key, place, value, depth)

    def _field(self, obj: dict[str, Any], key: str, place: Schema, value: Any, depth: int) -> None:
        if place.type == "array" and place.items is not None:
            obj.setdefault(key, []).append(self._value(place.items, value, depth))
        elif place.additional is not None and place.type == "object":
            name, held = self._entry(place.additional, value, depth)
            obj.setdefault(key, {})[name] = held
        else:
            read = self._value(place, value, depth)
            if read is not None:
                obj[key] = read

    def _entry(self, place: Schema, data: Any, depth: int) -> tuple[str, Any]:
        name, held = "", None
        for number, value in _fields(_bytes(data)):
            if number == 1:
                name = _text(value)
            elif number == 2:
                held = self._value(place, value, depth + 1)
        if held is None:
            held = {"string": "", "integer": 0, "array": []}.get(place.type, {})
        return name, held

    def _value(self, place: Schema, value: Any, depth: int) -> Any:
        special = _SPECIAL.get(place.name.rpartition(".")[2]) if place.name else None
        if special is not None:
            return special(place, _bytes(value))
        short = place.name.rpartition(".")[2]
        if short.startswith("JSONSchemaPropsOr"):
            return self._schema_or(place.name.removesuffix(short) + "JSONSchemaProps", short, _bytes(value), depth)
        match place.type:
            case "string":
                return base64.b64encode(_bytes(value)).decode() if place.format == "byte" else _text(value)
            case "integer":
                return _signed(value)
            case "boolean":
                return bool(_signed(value))
            case "number":
                return _double(value)
            case "array":  # a list inside a map is a message with one repeated field
                return [self._value(_items(place), item, depth + 1) for _, item in _fields(_bytes(value))]
            case _:
                return self._message(place, _bytes(value), depth + 1)

    def _schema_or(self, name: str, short: str, data: memoryview, depth: int) -> Any:
        """A schema or a list, a boolean or strings: which of the two it is, is which of the fields is there."""
        is_bool, allowed = short.endswith("OrBool"), False
        listed: list[Any] = []
        for number, value in _fields(data):
            if number == (2 if is_bool else 1):
                return self._nested(name, value, depth)
            if is_bool:
                allowed = bool(_signed(value))
            elif short.endswith("OrStringArray"):
                listed.append(_text(value))
            else:
                listed.append(self._nested(name, value, depth))
        return allowed if is_bool else listed

    def _nested(self, name: str, value: Any, depth: int) -> dict[str, Any]:
        """A schema where anything may stand: no later step knows its type and drops defaults."""
        schema = self._named(name)
        return normalize(schema, self._message(schema, _bytes(value), depth + 1)).obj

    def _plan(self, schema: Schema) -> dict[int, Any]:
        plan = self._plans.get(schema.name)
        if plan is None:
            plan = {}
            for key, path in self._numbers(schema.name).items():
                place = schema.properties.get(key)
                if place is None:
                    continue
                inner = plan
                for step in path[:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = (key, place)
            self._plans[schema.name] = plan
        return plan


def _items(place: Schema) -> Schema:
    if place.items is None:
        raise ProtobufError("a list of nothing")
    return place.items


# Types with a form of their own.


def _time(place: Schema, data: memoryview) -> str | None:
    seconds = nanos = 0
    seen = False
    for number, value in _fields(data):
        seen = True
        if number == 1:
            seconds = _signed(value)
        elif number == 2:
            nanos = _signed(value)
    if not seen or not -62_135_596_800 < seconds < 253_402_300_800:
        return None
    return rfc3339_micro(seconds + nanos / 1e9) if place.name.endswith("MicroTime") else rfc3339(seconds)


def _first_text(_place: Schema, data: memoryview) -> str:
    return next((_text(value) for number, value in _fields(data) if number == 1), "0")


def _int_or_string(_place: Schema, data: memoryview) -> int | str:
    found = dict(_fields(data))
    return _text(found.get(3, b"")) if _signed(found.get(1, 0)) == 1 else _signed(found.get(2, 0))


def _raw_json(_place: Schema, data: memoryview) -> Any:
    for number, value in _fields(data):
        if number == 1 and len(_bytes(value)):
            try:
                return json.loads(bytes(_bytes(value)))
            except ValueError as error:
                raise ProtobufError(f"embedded JSON cannot be read: {error}") from None
    return None


_SPECIAL: Final[Mapping[str, Callable[[Schema, memoryview], Any]]] = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": _first_text,
    "IntOrString": _int_or_string,
    "FieldsV1": _raw_json,
    "RawExtension": _raw_json,
    "JSON": _raw_json,
}


# The wire.


def _fields(data: memoryview) -> Fields:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            if size > end - at:
                raise ProtobufError("a field is longer than the message")
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if size > end - at:
                raise ProtobufError("a field is longer than the message")
            value, at = data[at : at + size], at + size
        else:
            raise ProtobufError(f"wire type {kind} is not used by Kubernetes")
        yield number, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    shift = result = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ProtobufError("a number does not end")


def _signed(value: Any) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a number was expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: Any) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("bytes were expected, found a number")
    return memoryview(value)


def _text(value: Any) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError:
        raise ProtobufError("a string is not UTF-8") from None


def _double(value: Any) -> float:
    data = _bytes(value)
    if len(data) != 8:
        raise ProtobufError("a double has eight bytes")
    found: float = struct.unpack("<d", data)[0]
    return found
