"""Random objects of a built-in type: every field may be there, absent, null, empty or filled as its type says."""

from typing import Any

from hypothesis import strategies as st

from gpuaas.api.kubernetes import schema_source
from gpuaas.machinery.schema.model import Schema, SchemaSet

SCHEMAS = SchemaSet(schema_source)

_WORDS = ("", "a", "A b", "x/y", "a.b", "None", "Always", "1", "10.0.0.1", "25%", "*", "..", "é")
_TEXT = st.sampled_from(_WORDS)
_NUMBERS = st.sampled_from((0, 1, -1, 3, 80, 70_000, 2_147_483_647))
_QUANTITIES = st.sampled_from(("0", "1", "500m", "-1", "1Gi", 2))
_TIMES = st.sampled_from(("2026-01-01T00:00:00Z", "2025-06-01T12:00:00.000000Z"))


def objects(name: str, depth: int = 5) -> st.SearchStrategy[Any]:
    return _values(SCHEMAS.named(name), depth)


def _values(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    if schema.int_or_string:
        return st.one_of(_NUMBERS, _TEXT)
    if schema.format == "quantity":
        return _QUANTITIES
    if schema.format == "date-time":
        return _TIMES
    if schema.format == "byte":
        return st.sampled_from(("", "aGk=", "e30="))
    match schema.type:
        case "string":
            enum = schema.source.get("enum")
            return st.one_of(_TEXT, st.sampled_from(enum)) if enum else _TEXT
        case "integer" | "number":
            return _NUMBERS
        case "boolean":
            return st.booleans()
        case "array":
            assert schema.items is not None
            return st.lists(_values(schema.items, depth - 1), max_size=2) if depth > 0 else st.just([])
        case _ if schema.properties:
            return _structs(schema, depth)
        case "object" if schema.additional is not None:
            value = _values(schema.additional, depth - 1)
            return st.dictionaries(st.sampled_from(("cpu", "a", "x y")), value, max_size=2)
        case _:
            return st.just({})


def _structs(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    if depth <= 0:
        return st.just({})
    keys = sorted(key for key in schema.properties if key not in ("managedFields", "kind", "apiVersion"))

    @st.composite
    def draw_struct(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(keys), unique=True, max_size=6)) if keys else []
        wanted = {*chosen, *(key for key in ("metadata", "spec") if key in keys)}
        return {key: draw(st.one_of(_values(schema.properties[key], depth - 1), st.none())) for key in sorted(wanted)}

    return draw_struct()
