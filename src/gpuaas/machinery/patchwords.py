"""What is said of a patch whose result is no object of its kind: that result as text, and why it is none.

A merge or JSON patch is applied to text and decoded as any body is. A strategic one is applied to a tree, which other
code turns into an object, with other words for the same mistakes.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.machinery.schema.model import Schema

_WRONG_TYPE: Final = re.compile(r"json: cannot unmarshal (\w+) into Go .* of type (\S+)$")
_FOUND: Final = {"number": "int64", "array": "slice", "object": "map"}
_SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "float64"})


def patched_text(patched: Mapping[str, Any], schema: Schema, patch: Any) -> str:
    """The result of a merge or JSON patch: what the patch went through is sorted, and so are maps."""
    return json.dumps(_ordered(patched, schema, patch), separators=(",", ":"), ensure_ascii=False)


def _ordered(value: Mapping[str, Any], schema: Schema | None, patch: Any) -> dict[str, Any]:
    through = patch if isinstance(patch, dict) else {}
    places = schema.properties if schema is not None else {}
    return {
        key: _ordered(value[key], places.get(key), through[key])
        if isinstance(through.get(key), dict) and isinstance(value[key], dict)
        else _with_sorted_maps(places.get(key), value[key])
        for key in sorted(value)
    }


def restoring_problem(words: str) -> str:
    """The decoder's sentence about a value of the wrong type, in the words of the code that reads trees."""
    said = _WRONG_TYPE.search(words)
    if said is None:
        return words
    found, wanted = _FOUND.get(said[1], said[1]), said[2]
    if wanted.startswith("map["):
        return f"cannot restore map from {found}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {found}"
    if wanted == "string" and found == "int64":
        return "cannot convert int64 to string"
    return f"unrecognized type: {wanted}" if wanted in _SCALARS else f"cannot restore struct from: {found}"


def _with_sorted_maps(schema: Schema | None, value: Any) -> Any:
    if schema is None:
        return value
    if isinstance(value, list):
        return [_with_sorted_maps(schema.items, item) for item in value]
    if not isinstance(value, dict):
        return value
    if schema.additional is not None:
        return {key: _with_sorted_maps(schema.additional, value[key]) for key in sorted(value)}
    return {key: _with_sorted_maps(schema.properties.get(key), held) for key, held in value.items()}
