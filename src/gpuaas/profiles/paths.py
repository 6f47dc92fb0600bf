"""Reading and changing nested fields of an object without touching the original: every change copies only its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]


class ShapeError(ValueError):
    """A field on the path has another type than the kind's schema gives it."""


def get(obj: Object, path: tuple[str, ...], kind: type, *, absent: Any = None) -> Any:
    """The value at the path, `absent` where the path ends early. Raises ShapeError for another type than `kind`."""
    value: Any = obj
    for at, key in enumerate(path):
        if not isinstance(value, Mapping):
            raise _wrong(path[: at + 1], value, "map[string]interface{}")
        if key not in value:
            return absent
        value = value[key]
    if not isinstance(value, kind):
        raise _wrong(path, value, "[]interface{}" if kind is list else "map[string]interface{}")
    return value


def _wrong(path: tuple[str, ...], value: Any, wanted: str) -> ShapeError:
    """In the words of Kubernetes' Go accessors, which upstream repeats to its users."""
    match value:
        case dict():
            shown = "map[" + " ".join(f"{key}:{item}" for key, item in sorted(value.items())) + "]"
            named = "map[string]interface {}"
        case list():
            shown, named = "[" + " ".join(str(item) for item in value) + "]", "[]interface {}"
        case bool():
            shown, named = str(value).lower(), "bool"
        case int():
            shown, named = str(value), "int64"
        case None:
            shown, named = "<nil>", "<nil>"
        case _:
            shown, named = str(value), "float64" if isinstance(value, float) else "string"
    return ShapeError(f".{'.'.join(path)} accessor error: {shown} is of the type {named}, expected {wanted}")


def put(obj: Object, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    key, *rest = path
    if not rest:
        return {**obj, key: value}
    inner = obj.get(key)
    if inner is not None and not isinstance(inner, Mapping):
        raise ShapeError(f"value cannot be set because .{key} is not a map")
    return {**obj, key: put(inner or {}, tuple(rest), value)}


def drop(obj: Object, path: tuple[str, ...]) -> dict[str, Any]:
    """Without the field at the path; maps on the way stay, also when they become empty."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in obj.items() if name != key}
    inner = obj.get(key)
    return {**obj, key: drop(inner, tuple(rest))} if isinstance(inner, Mapping) else dict(obj)


def annotation(obj: Object, name: str) -> str:
    return str(((obj.get("metadata") or {}).get("annotations") or {}).get(name) or "")


def label(obj: Object, name: str) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(name) or "")
