"""What a profile changes in a workload: resources of the main container, queue label, node selector and tolerations.

A missing request becomes the profile's default, a missing limit becomes the request; nothing is compared with minimum or
maximum. A profile with a queue sets the label and nothing about nodes; otherwise node selectors merge (the profile wins)
and its tolerations come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.quantity import from_int, parse_quantity
from gpuaas.profiles.kinds import Path, Shape
from gpuaas.profiles.paths import Object, ShapeError, drop, get, label, put

QUEUE: Final = "kueue.x-k8s.io/queue-name"
_LABELS: Final = ("metadata", "labels")
_INT32: Final = 1 << 31


class UnreadableError(ValueError):
    """The profile itself cannot be read: a count beyond 32 bits or text that is no quantity."""


def check_counts(profile: Object) -> None:
    """An integer count beyond 32 bits makes upstream's decoding of the profile fail."""
    for identifier in identifiers(profile):
        for field in ("defaultCount", "minCount", "maxCount"):
            count = identifier.get(field)
            if isinstance(count, int) and not -_INT32 <= count < _INT32:
                raise UnreadableError(
                    f"json: cannot unmarshal number {count} into Go struct field HardwareIdentifier.spec.identifiers.{field}"
                    " of type int32"
                )


def identifiers(profile: Object) -> list[Object]:
    return list((profile.get("spec") or {}).get("identifiers") or ())


def queue_of(profile: Object) -> str:
    kueue = ((profile.get("spec") or {}).get("scheduling") or {}).get("kueue") or {}
    return str(kueue.get("localQueueName") or "")


def node_of(profile: Object) -> Object:
    return ((profile.get("spec") or {}).get("scheduling") or {}).get("node") or {}


# -- Applying -----------------------------------------------------------------------------------------------------------


def apply(obj: Object, shape: Shape, profile: Object, *, changed: bool) -> tuple[Object, list[str]]:
    """The workload with the profile, and warnings about the user's values that it overwrites. `changed`: another profile
    applied before, whose scheduling goes first, the user's own with it."""
    if changed:
        obj = clear_scheduling(obj, shape)
    if identifiers(profile):
        obj = _with_resources(obj, shape, identifiers(profile))
    if queue := queue_of(profile):
        return _with_queue(obj, queue, profile, warn=not changed)
    return _with_node(obj, shape, profile, merge=not changed)


def clear_scheduling(obj: Object, shape: Shape) -> Object:
    return drop(drop(without_queue(obj), shape.node_selector), shape.tolerations)


def without_queue(obj: Object) -> Object:
    return drop(obj, (*_LABELS, QUEUE))


def _with_queue(obj: Object, queue: str, profile: Object, *, warn: bool) -> tuple[Object, list[str]]:
    current = label(obj, QUEUE)
    warnings = []
    if warn and current and current != queue:
        warnings.append(f"label '{QUEUE}' has value '{current}' {_overwritten(profile, queue)}")
    return put(obj, (*_LABELS, QUEUE), queue), warnings


def _overwritten(profile: Object, value: str) -> str:
    return f"which will be overwritten by HardwareProfile '{profile['metadata']['name']}' which has value '{value}'"


def _with_node(obj: Object, shape: Shape, profile: Object, *, merge: bool) -> tuple[Object, list[str]]:
    node, warnings = node_of(profile), []
    if selector := node.get("nodeSelector"):
        current: Mapping[str, Any] = _strings(obj, shape.node_selector) if merge else {}
        for key, value in selector.items():
            if key in current and current[key] != value:
                warnings.append(f"nodeSelector key '{key}' has value '{current[key]}' {_overwritten(profile, value)}")
        obj = put(obj, shape.node_selector, {**current, **selector})
    if listed := [_toleration(t) for t in node.get("tolerations") or ()]:
        known = {toleration_key(t) for t in listed}
        kept = get(obj, shape.tolerations, list, absent=[]) if merge else []
        own = [t for t in kept if isinstance(t, dict) and toleration_key(t) not in known]
        obj = put(obj, shape.tolerations, [*listed, *own])
    return obj, warnings


def _strings(obj: Object, path: Path) -> Mapping[str, str]:
    found: Mapping[str, Any] = get(obj, path, dict, absent={})
    for key, value in found.items():
        if not isinstance(value, str):
            raise ShapeError(
                f'.{".".join(path)} accessor error: contains non-string value in the map under key "{key}"'
            )
    return found


def _toleration(toleration: Object) -> dict[str, Any]:
    """Without fields that are empty text, as they leave the original's encoder."""
    return {key: value for key, value in toleration.items() if value not in ("", None)}


def toleration_key(toleration: Object) -> tuple[str, ...]:
    """Two tolerations are one only if all five fields match; an absent operator is not `Equal` here."""
    fields = ("key", "operator", "value", "effect", "tolerationSeconds")
    return tuple(str(toleration.get(field, "")) for field in fields)


def _with_resources(obj: Object, shape: Shape, wanted: Iterable[Object]) -> Object:
    if shape.model is not None:
        model = get(obj, shape.model, dict)
        return obj if model is None else put(obj, shape.model, _container(model, wanted))
    containers: list[Any] = get(obj, shape.containers, list, absent=[])
    if not containers:
        return put(obj, shape.containers, [_container({"name": shape.main}, wanted)]) if shape.creates_main else obj
    at = main_container(containers, shape, str((obj.get("metadata") or {}).get("name", "")))
    if at is None:
        return obj
    if not isinstance(containers[at], dict):
        raise ShapeError("container is not a map[string]interface{}")
    return put(obj, shape.containers, [*containers[:at], _container(containers[at], wanted), *containers[at + 1 :]])


def main_container(containers: list[Any], shape: Shape, name: str) -> int | None:
    if not shape.main and len(containers) == 1:
        return 0
    expected = shape.main or name
    return next((i for i, c in enumerate(containers) if isinstance(c, dict) and c.get("name") == expected), None)


def _container(container: Object, wanted: Iterable[Object]) -> dict[str, Any]:
    resources = _section(container, "resources")
    requests, limits = _section(resources, "requests"), _section(resources, "limits")
    for identifier in wanted:
        name = identifier.get("identifier", "")
        if name not in requests:
            requests[name] = quantity(identifier.get("defaultCount"), name)
        limits.setdefault(name, requests[name])
    return {**container, "resources": {**resources, "requests": requests, "limits": limits}}


def _section(holder: Object, key: str) -> dict[str, Any]:
    return dict(get(holder, (key,), dict, absent={}))


def quantity(count: Any, name: str) -> str:
    """A count as a quantity in canonical form, or as it is written where Go's parser keeps the text."""
    if isinstance(count, int):
        return str(from_int(count))
    text = str(count)
    try:
        parsed = parse_quantity(text)
    except ValueError as error:
        raise UnreadableError(f"failed to convert resource quantity for {name}: {error}") from None
    return text if _is_kept(text) else str(parsed)


def _is_kept(text: str) -> bool:
    """Go keeps the text of a quantity that looks canonical: no zeros to shorten at either end, whole thousands of scale."""
    found = re.fullmatch(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))", text)
    if found is None:
        return False
    whole, fraction, binary, _, exponent = found.groups()
    digits = (whole or "0") + (fraction or "")
    if binary:
        return not fraction and len(digits) < 15 and int(digits) & 7 != 0
    scale = int(exponent or 0) - len(fraction or "")
    return scale % 3 == 0 and len(digits) < 18 and not digits.endswith("000") and digits[0] != "0"


# -- Removing -----------------------------------------------------------------------------------------------------------


def remove(obj: Object, shape: Shape, profile: Object) -> Object:
    """Without what the profile had set: its tolerations, its node selector entries and its queue label."""
    node = node_of(profile)
    known = {toleration_key(_toleration(t)) for t in node.get("tolerations") or ()}
    if known and (current := get(obj, shape.tolerations, list, absent=[])):
        kept = [t for t in current if isinstance(t, dict) and toleration_key(t) not in known]
        obj = put(obj, shape.tolerations, kept) if kept else drop(obj, shape.tolerations)
    selector = node.get("nodeSelector") or {}
    if selector and (labels := _strings(obj, shape.node_selector)):
        left = {key: value for key, value in labels.items() if selector.get(key) != value}
        obj = put(obj, shape.node_selector, left) if left else drop(obj, shape.node_selector)
    return without_queue(obj) if queue_of(profile) else obj
