"""The object algebra of the in-memory cluster: merge patch, JSON patch, copies. Small on purpose.

The product's own patches live in `machinery` and are judged against the real server; this is the part of them that
controllers use.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object


def copy_tree(value: Any) -> Any:
    """A copy that shares no container with the original."""
    if isinstance(value, dict):
        return {key: copy_tree(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [copy_tree(part) for part in value]
    return value


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copy_tree(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def json_patched(target: Object, operations: Sequence[Mapping[str, Any]]) -> Object:
    """RFC 6902: add, replace, remove and test."""
    result: Object = copy_tree(target)
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place: Any = result
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        _operate(place, last, operation)
    return result


def _operate(place: Any, last: str, operation: Mapping[str, Any]) -> None:
    at: Any = last
    if isinstance(place, list):
        at = len(place) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(place, list):
            place.insert(at, operation["value"])
        case "add" | "replace":
            place[at] = operation["value"]
        case "remove":
            del place[at]
        case "test":
            if place[at] != operation["value"]:
                raise ValueError(f"test of {operation['path']} failed")
        case other:
            raise ValueError(f"the in-memory cluster does not know the operation {other!r}")


def path_value(obj: Mapping[str, Any], path: str) -> Any:
    """`path_value(pod, "status.phase")`; None where something on the way is absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
