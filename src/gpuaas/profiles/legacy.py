"""Older and mistaken shapes of a HardwareProfile, read as the current one, with a line for each field that was moved.

Public manifests hold three of them: the dashboard's own kind (`dashboard.opendatahub.io/v1alpha1`, with `displayName`,
`description`, `enabled`, `nodeSelector` and `tolerations` in its spec), the same fields under the current apiVersion, and
fields no version had (`resourceLimits`, `allocationStrategy`, `identifiers[].count`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.profiles.paths import Object

API: Final = "infrastructure.opendatahub.io/v1"
OLD_GROUP: Final = "dashboard.opendatahub.io"
DISPLAY_NAME: Final = "opendatahub.io/display-name"
DESCRIPTION: Final = "opendatahub.io/description"
DISABLED: Final = "opendatahub.io/disabled"
_TYPES: Final = {"cpu": "CPU", "memory": "Memory"}
_MOVED: Final = (
    "displayName",
    "description",
    "enabled",
    "resourceLimits",
    "allocationStrategy",
    "nodeSelector",
    "tolerations",
)
_LIST: Final = 100  # items of a list that are looked at; longer ones are the schema's to judge


def convert(obj: Object) -> tuple[Object, list[str]]:
    """The profile in its current shape, and a sentence for each field that was read as another. What is already right,
    or of a type that means nothing here, stays as it is."""
    spec = obj.get("spec")
    metadata = obj.get("metadata")
    if not isinstance(spec, Mapping) or not isinstance(metadata, Mapping):
        return obj, []
    moved: list[str] = []
    annotations = _annotations(spec, metadata, moved)
    kept = {key: value for key, value in spec.items() if key not in _MOVED or not _is_read(key, value)}
    if (listed := _identifiers(spec, moved)) is not None:
        kept["identifiers"] = listed
    if (scheduling := _scheduling(spec, moved)) is not None:
        kept["scheduling"] = scheduling
    if not moved and obj.get("apiVersion", "").startswith("infrastructure."):
        return obj, []
    named = {**metadata, **({"annotations": annotations} if annotations else {})}
    return {**obj, "apiVersion": _api(obj), "metadata": named, "spec": kept}, moved


def _api(obj: Object) -> Any:
    found = obj.get("apiVersion")
    return API if str(found).startswith(f"{OLD_GROUP}/") else found


def _is_read(key: str, value: Any) -> bool:
    match key:
        case "displayName" | "description":
            return isinstance(value, str)
        case "enabled":
            return isinstance(value, bool)
        case "nodeSelector" | "allocationStrategy":
            return isinstance(value, Mapping)
        case _:
            return isinstance(value, list) and len(value) <= _LIST


def _annotations(spec: Object, metadata: Object, moved: list[str]) -> dict[str, Any]:
    annotations = dict(metadata.get("annotations") or {})
    for field, name in (("displayName", DISPLAY_NAME), ("description", DESCRIPTION), ("enabled", DISABLED)):
        value = spec.get(field)
        if field not in spec or not _is_read(field, value):
            continue
        text = json.dumps(not value) if isinstance(value, bool) else value
        annotations[name] = text
        moved.append(f"spec.{field} is read as metadata.annotations[{name}]: {json.dumps(text)}")
    return annotations


def _identifiers(spec: Object, moved: list[str]) -> list[Any] | None:
    """None where nothing changes."""
    listed = spec.get("identifiers")
    given: Sequence[Any] = listed if isinstance(listed, list) and len(listed) <= _LIST else ()
    found = [_identifier(one, index, moved) if isinstance(one, Mapping) else one for index, one in enumerate(given)]
    limits = spec.get("resourceLimits")
    if isinstance(limits, list) and len(limits) <= _LIST:
        found += [_limit(one, index, moved) for index, one in enumerate(limits) if isinstance(one, Mapping)]
    return None if found == list(given) else found


def _identifier(one: Object, index: int, moved: list[str]) -> Object:
    if "count" not in one and {"minCount", "defaultCount", "displayName"} <= one.keys():
        return one
    count = one.get("count", one.get("defaultCount", one.get("minCount", 1)))
    usual = one.get("defaultCount", count)
    least = one.get("minCount", usual)
    name = str(one.get("identifier", ""))
    read: dict[str, Any] = {key: value for key, value in one.items() if key != "count"}
    read = {"displayName": name, **read, "minCount": least, "defaultCount": usual}
    if "count" in one:
        read.setdefault("maxCount", count)
    filled = ", ".join(f"{key}: {json.dumps(value)}" for key, value in read.items() if one.get(key) != value)
    what = "count is read as" if "count" in one else "is completed with"
    moved.append(f"spec.identifiers[{index}] ({name}) {what} {filled}")
    return read


def _limit(one: Object, index: int, moved: list[str]) -> Object:
    name = str(one.get("name", ""))
    usual = one.get("default", one.get("max"))
    read: dict[str, Any] = {"displayName": name.capitalize(), "identifier": name, "minCount": one.get("min", usual)}
    read["defaultCount"] = usual
    if "max" in one:
        read["maxCount"] = one["max"]
    if name in _TYPES:
        read["resourceType"] = _TYPES[name]
    moved.append(f"spec.resourceLimits[{index}] is read as an item of spec.identifiers: {json.dumps(read)}")
    return read


def _scheduling(spec: Object, moved: list[str]) -> Object | None:
    """None where nothing changes. A queue and node settings exclude each other: the queue decides."""
    current = spec.get("scheduling")
    strategy = spec.get("allocationStrategy")
    queue = ""
    if isinstance(strategy, Mapping) and isinstance(strategy.get("localQueue"), Mapping):
        queue = str(strategy["localQueue"].get("name") or "")
    if queue and current is None:
        read: dict[str, Any] = {"type": "Queue", "kueue": {"localQueueName": queue}}
        moved.append(f"spec.allocationStrategy is read as spec.scheduling: {json.dumps(read)}")
        _say_dropped(spec, moved)
        return read
    node = {key: spec[key] for key in ("nodeSelector", "tolerations") if key in spec and _is_read(key, spec[key])}
    if not any(node.values()):
        return None
    if current is not None:
        _say_dropped(spec, moved)
        return None
    verb = "is" if len(node) == 1 else "are"
    moved.append(f"{' and '.join(f'spec.{key}' for key in node)} {verb} read as spec.scheduling.node, with type Node")
    return {"type": "Node", "node": {key: value for key, value in node.items() if value}}


def _say_dropped(spec: Object, moved: list[str]) -> None:
    moved.extend(
        f"spec.{key} is left out: a profile with a queue places nothing itself, the queue's flavors do"
        for key in ("nodeSelector", "tolerations")
        if spec.get(key)
    )
