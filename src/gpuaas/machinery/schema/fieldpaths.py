"""Paths inside a schema as rules and selectable fields write them: `.spec.replicas`, `.labels['a/b']`.

`walk_path` follows one through a schema and gives the place it leads to; `normalized_path` says how field errors write
it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_STEP: Final = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def walk_path(source: Mapping[str, Any], path: str, *, brackets: bool = True) -> tuple[str, Mapping[str, Any]]:
    """The path as field errors write it, and the schema it leads to. Raises ValueError with words if it leads nowhere."""
    at, written = 0, ""
    place: Any = source
    while at < len(path):
        found = _STEP.match(path, at)
        if not found:
            raise ValueError(f"expected [ or . but got: {path[at:]}")
        if found.group(1) is None and not brackets:
            raise ValueError("array notation is not allowed")
        name = found.group(1) or re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape.group(1), ""), found.group(2))
        if place.get("properties"):
            if name not in place["properties"]:
                raise ValueError("does not refer to a valid field")
            written = f"{written}.{name}" if written else name
            place = place["properties"][name]
        elif isinstance(place.get("additionalProperties"), Mapping):
            written = f"{written}[{name}]"
            place = place["additionalProperties"]
        else:
            raise ValueError("does not refer to a valid field")
        at = found.end()
    return written, place


def normalized_path(source: Mapping[str, Any], path: str) -> str | None:
    """None when the path leads nowhere."""
    try:
        return walk_path(source, path)[0]
    except ValueError:
        return None
