"""JSON merge patches (RFC 7386): maps merge, null removes, everything else replaces.

The object and the patch are never changed; the result shares with both what it can, and is the object itself if the
patch changes nothing. Nulls inside what a patch adds are dropped, as kube-apiserver's library does it: everywhere
but in a list that replaces a map.
"""

from collections.abc import Mapping
from typing import Any, cast

from gpuaas.base.errors import BadRequest
from gpuaas.machinery.jsonpatch import json_kind


def apply_merge_patch(obj: Mapping[str, Any], patch: Any) -> dict[str, Any]:
    """The object after the patch. A patch that is not a map is refused."""
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        kind = json_kind(patch)
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    return _merged(cast("dict[str, Any]", obj), patch)


def _merged(obj: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = obj
    for key, value in patch.items():
        old = obj.get(key)
        if value is None:
            if key in obj:
                result = dict(obj) if result is obj else result
                del result[key]
            continue
        new = _replaced(old, value)
        if new is not old:
            result = dict(obj) if result is obj else result
            result[key] = new
    return result


def _replaced(old: Any, value: Any) -> Any:
    if not isinstance(old, dict):
        return old if _same(old, value) else _without_nulls(value)
    return _merged(old, value) if isinstance(value, dict) else value


def _same(old: Any, value: Any) -> bool:
    return type(old) is type(value) and isinstance(value, str | int | float) and bool(old == value)


def _without_nulls(value: Any) -> Any:
    """The value without null entries of maps; nulls that are items of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
