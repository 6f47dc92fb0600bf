"""The v2 document as protobuf says what the JSON says. The reader here knows only the wire format and field numbers."""

from collections.abc import Iterator
from typing import Any

from gpuaas.machinery.openapi_wire import v2_protobuf


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            yield key >> 3, value
        elif key & 7 == 1:
            yield key >> 3, data[at : at + 8]
            at += 8
        else:
            assert key & 7 == 2
            size, at = varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
    assert at == len(data)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def message(data: bytes) -> dict[int, list[Any]]:
    made: dict[int, list[Any]] = {}
    for number, value in fields(data):
        made.setdefault(number, []).append(value)
    return made


def walk(data: bytes, *numbers: int) -> Any:
    """The first value found by following field numbers."""
    for number in numbers:
        data = message(data)[number][0]
    return data


WIDGET = {
    "type": "object",
    "description": "A widget.",
    "required": ["spec"],
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9, "minLength": 300}}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "free": {"type": "object", "additionalProperties": True},
        "map": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Other"}},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Widget", "version": "v1"}],
}
PATCH = {
    "operationId": "patchWidget",
    "parameters": [
        {"name": "body", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Patch"}},
        {"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": True},
        {"name": "name", "in": "path", "type": "string", "required": True},
    ],
    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Widget"}}},
    "x-kubernetes-group-version-kind": {"group": "", "kind": "Widget", "version": "v1"},
}
DOCUMENT = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": "1"},
    "paths": {"/widgets/{name}": {"patch": PATCH}},
    "definitions": {"Widget": WIDGET},
}


def test_a_definition_keeps_its_name_its_text_and_its_properties() -> None:
    named = message(walk(v2_protobuf(DOCUMENT), 9, 1))
    schema = message(named[2][0])
    assert named[1] == [b"Widget"]
    assert (schema[4], schema[19]) == ([b"A widget."], [b"spec"])
    assert walk(schema[22][0], 1) == b"object"
    names = [walk(entry, 1) for entry in message(schema[25][0])[1]]
    assert names == [b"spec", b"tags", b"free", b"map"]


def test_numbers_flags_items_and_maps_are_where_they_belong() -> None:
    properties = message(walk(v2_protobuf(DOCUMENT), 9, 1, 2, 25))[1]
    spec, tags, free, mapped = (message(message(entry)[2][0]) for entry in properties)
    size = message(walk(spec[25][0], 1, 2))
    assert size[7] == [b"\x00\x00\x00\x00\x00\x00\x22\x40"]
    assert size[11 + 1] == [300]
    assert walk(tags[23][0], 1, 22, 1) == b"string"
    assert walk(tags[31][0], 1) == b"x-kubernetes-list-type"
    assert walk(tags[31][0], 2, 2) == b'"set"'
    assert walk(free[21][0], 2) == 1
    assert walk(mapped[21][0], 1, 1) == b"#/definitions/Other"


def test_an_operation_tells_its_kind_and_its_parameters() -> None:
    path = message(walk(v2_protobuf(DOCUMENT), 8, 2))
    assert path[1] == [b"/widgets/{name}"]
    operation = message(walk(path[2][0], 8))
    body, query, place = (message(message(each)[1][0]) for each in operation[8])
    assert walk(body[1][0], 2) == b"body"
    assert walk(body[1][0], 5, 1) == b"#/definitions/Patch"
    assert walk(query[2][0], 3, 4) == b"fieldValidation"
    assert walk(query[2][0], 3, 6) == b"string"
    assert walk(place[2][0], 4, 4) == b"name"
    assert walk(operation[13][0], 2, 2) == b'{"group":"","kind":"Widget","version":"v1"}'
    assert walk(operation[9][0], 1, 1) == b"200"
    assert walk(operation[9][0], 1, 2, 1, 2, 1, 1) == b"#/definitions/Widget"
