"""A Swagger 2.0 document as protobuf: the only form in which kubectl asks for it.

It does so for kinds it does not find in the v3 documents (a `List`, an unknown kind), and for older servers. The
messages are those of gnostic's openapi.v2, here as tables of field numbers; what a table does not name is left out.
The document itself is made in module openapi.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Encode = Callable[[Any], bytes]
_EXTENSION: Final = "x-"


def v2_protobuf(document: Mapping[str, Any]) -> bytes:
    return _DOCUMENT(document)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _sized(number: int, encode: Encode) -> Encode:
    tag = _tag(number, 2)

    def field(value: Any) -> bytes:
        body = encode(value)
        return tag + _varint(len(body)) + body

    return field


def _each(field: Encode) -> Encode:
    return lambda values: b"".join([field(value) for value in values])


def _text(value: Any) -> bytes:
    return str(value).encode()


def _flag(number: int) -> Encode:
    tag = _tag(number, 0)
    return lambda value: tag + (b"\x01" if value else b"\x00")


def _whole(number: int) -> Encode:
    tag = _tag(number, 0)
    return lambda value: tag + _varint(int(value))


def _double(number: int) -> Encode:
    tag = _tag(number, 1)
    return lambda value: tag + struct.pack("<d", value)


def _string(number: int) -> Encode:
    return _sized(number, _text)


def _strings(number: int) -> Encode:
    return _each(_string(number))


def _message(fields: Mapping[str, Encode], extensions: int = 0) -> Encode:
    """A message by its keys; keys that begin with x- go to the field for extensions, if it has one."""
    extension = _sized(extensions, _named(_any)) if extensions else None

    def encode(value: Mapping[str, Any]) -> bytes:
        parts: list[bytes] = []
        for key, held in value.items():
            field = fields.get(key)
            if field is not None:
                parts.append(field(held))
            elif extension is not None and key.startswith(_EXTENSION):
                parts.append(extension((key, held)))
        return b"".join(parts)

    return encode


def _named(encode: Encode) -> Encode:
    """A pair of name and value: how this format writes an entry of a map."""
    name, value = _string(1), _sized(2, encode)
    return lambda pair: name(pair[0]) + value(pair[1])


def _map(number: int, encode: Encode) -> Encode:
    field = _sized(number, _named(encode))
    return lambda entries: b"".join([field(pair) for pair in entries.items()])


def _later(name: str) -> Encode:
    """A message that holds itself, found by its name when it is first needed."""
    return lambda value: _BY_NAME[name](value)


def _any(value: Any) -> bytes:
    """Any value as YAML text; JSON is YAML."""
    return _YAML(json.dumps(value, separators=(",", ":")))


_schema: Final = _later("Schema")


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


_ONE_SCHEMA: Final = _sized(1, _schema)
_ONE_FLAG: Final = _flag(2)
_ONE_STRING: Final = _string(1)
_YAML: Final = _string(2)


def _items(value: Any) -> bytes:
    return b"".join([_ONE_SCHEMA(item) for item in _as_list(value)])


def _types(value: Any) -> bytes:
    return b"".join([_ONE_STRING(item) for item in _as_list(value)])


def _additional(value: Any) -> bytes:
    return _ONE_FLAG(value) if isinstance(value, bool) else _ONE_SCHEMA(value)


_SCHEMA: Final = _message(
    {
        "$ref": _string(1),
        "format": _string(2),
        "title": _string(3),
        "description": _string(4),
        "default": _sized(5, _any),
        "multipleOf": _double(6),
        "maximum": _double(7),
        "exclusiveMaximum": _flag(8),
        "minimum": _double(9),
        "exclusiveMinimum": _flag(10),
        "maxLength": _whole(11),
        "minLength": _whole(12),
        "pattern": _string(13),
        "maxItems": _whole(14),
        "minItems": _whole(15),
        "uniqueItems": _flag(16),
        "maxProperties": _whole(17),
        "minProperties": _whole(18),
        "required": _strings(19),
        "enum": _each(_sized(20, _any)),
        "additionalProperties": _sized(21, _additional),
        "type": _sized(22, _types),
        "items": _sized(23, _items),
        "allOf": _each(_sized(24, _schema)),
        "properties": _sized(25, _map(1, _schema)),
    },
    extensions=31,
)
_BY_NAME: Final[dict[str, Encode]] = {"Schema": _SCHEMA}

_BODY: Final = _message(
    {
        "description": _string(1),
        "name": _string(2),
        "in": _string(3),
        "required": _flag(4),
        "schema": _sized(5, _SCHEMA),
    },
    extensions=6,
)
# A parameter of the path or of a header; one of the query has another field before its type.
_PLACED: Final = _message(
    {
        "required": _flag(1),
        "in": _string(2),
        "description": _string(3),
        "name": _string(4),
        "type": _string(5),
        "format": _string(6),
        "uniqueItems": _flag(19),
    },
    extensions=22,
)
_QUERY: Final = _message(
    {
        "required": _flag(1),
        "in": _string(2),
        "description": _string(3),
        "name": _string(4),
        "type": _string(6),
        "format": _string(7),
        "uniqueItems": _flag(20),
    },
    extensions=23,
)


_PLACES: Final[Mapping[str, Encode]] = {
    "body": _sized(1, _sized(1, _BODY)),
    "header": _sized(1, _sized(2, _sized(1, _PLACED))),
    "query": _sized(1, _sized(2, _sized(3, _QUERY))),
    "path": _sized(1, _sized(2, _sized(4, _PLACED))),
}


def _parameter(value: Mapping[str, Any]) -> bytes:
    return _PLACES[value["in"]](value)


_RESPONSE: Final = _message({"description": _string(1), "schema": _sized(2, _sized(1, _SCHEMA))}, extensions=5)
_OPERATION: Final = _message(
    {
        "tags": _strings(1),
        "summary": _string(2),
        "description": _string(3),
        "operationId": _string(5),
        "produces": _strings(6),
        "consumes": _strings(7),
        "parameters": _each(_sized(8, _parameter)),
        "responses": _sized(9, _map(1, _sized(1, _RESPONSE))),
        "schemes": _strings(10),
        "deprecated": _flag(11),
    },
    extensions=13,
)
_PATH: Final = _message(
    {
        "get": _sized(2, _OPERATION),
        "put": _sized(3, _OPERATION),
        "post": _sized(4, _OPERATION),
        "delete": _sized(5, _OPERATION),
        "options": _sized(6, _OPERATION),
        "head": _sized(7, _OPERATION),
        "patch": _sized(8, _OPERATION),
        "parameters": _each(_sized(9, _parameter)),
    },
    extensions=10,
)
_API_KEY: Final = _message({"type": _string(1), "name": _string(2), "in": _string(3), "description": _string(4)})
_DOCUMENT: Final = _message(
    {
        "swagger": _string(1),
        "info": _sized(2, _message({"title": _string(1), "version": _string(2), "description": _string(3)})),
        "paths": _sized(8, _map(2, _PATH)),
        "definitions": _sized(9, _map(1, _SCHEMA)),
        "security": _each(_sized(12, _map(1, _strings(1)))),
        "securityDefinitions": _sized(13, _map(1, _sized(2, _API_KEY))),
    },
    extensions=16,
)
