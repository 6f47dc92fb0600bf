"""Annotations by which a pod template asks for a place: read into a workload's request, and checked at the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, keyed, required
from gpuaas.base.jsontext import read_json
from gpuaas.base.names import is_qualified_name
from gpuaas.base.numbers import integer, is_digits, parse_integer
from gpuaas.kueue.integrations import keys

Object = dict[str, Any]
View = Mapping[str, Any]

_LAYERS = "topology constraints must contain between 1 and 3 entries"


def request(
    metadata: View | None, *, index_label: str = "", group_label: str = "", group_count: int | None = None
) -> Object | None:
    """`topologyRequest` of a pod set; the labels tell pods of one set apart."""
    notes = (metadata or {}).get("annotations") or {}
    asked: Object = {}
    if keys.REQUIRED_TOPOLOGY in notes:
        asked["required"] = notes[keys.REQUIRED_TOPOLOGY]
    elif keys.PREFERRED_TOPOLOGY in notes:
        asked["preferred"] = notes[keys.PREFERRED_TOPOLOGY]
    elif keys.UNCONSTRAINED_TOPOLOGY in notes:
        asked["unconstrained"] = parse_bool(notes[keys.UNCONSTRAINED_TOPOLOGY])
    grouped = "required" in asked or "preferred" in asked
    if keys.SLICE_LAYERS in notes:
        layers = parse_layers(notes[keys.SLICE_LAYERS])
        if layers is None:
            raise ValueError(f"annotation {keys.SLICE_LAYERS} is not a JSON array of layers")
        asked["podsetSliceRequiredTopologyConstraints"] = [{"topology": name, "size": size} for name, size in layers]
    elif keys.SLICE_TOPOLOGY in notes and keys.SLICE_SIZE in notes:
        asked["podSetSliceRequiredTopology"] = notes[keys.SLICE_TOPOLOGY]
        asked["podSetSliceSize"] = parse_integer(notes[keys.SLICE_SIZE])
    if index_label:
        asked["podIndexLabel"] = index_label
    if group_label:
        asked["subGroupIndexLabel"] = group_label
    if group_count is not None:
        asked["subGroupCount"] = group_count
    if grouped and keys.POD_SET_GROUP in notes:
        asked["podSetGroupName"] = notes[keys.POD_SET_GROUP]
    return asked or None


def parse_bool(text: str) -> bool:
    """As Go reads one."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def errors(path: str, metadata: View | None, count: int | None = None) -> list[FieldError]:
    """What is wrong with the annotations of a template at `path` (its metadata); `count` bounds the slices."""
    notes = (metadata or {}).get("annotations") or {}
    if not any(key.startswith("kueue.x-k8s.io/podset-") for key in notes):
        return []
    where = child(path, "annotations")
    found = _one_at_most(where, notes)
    for key in (keys.REQUIRED_TOPOLOGY, keys.PREFERRED_TOPOLOGY, keys.SLICE_TOPOLOGY):
        if key in notes:
            found += [invalid(keyed(where, key), notes[key], words) for words in is_qualified_name(notes[key])]
    found += _group(where, notes)
    if keys.UNCONSTRAINED_TOPOLOGY in notes:
        try:
            parse_bool(notes[keys.UNCONSTRAINED_TOPOLOGY])
        except ValueError:
            at = keyed(where, keys.UNCONSTRAINED_TOPOLOGY)
            found.append(invalid(at, notes[keys.UNCONSTRAINED_TOPOLOGY], "must be a boolean value"))
    found += _slice(where, notes)
    found += _layers(where, notes)
    if not found and count is not None:
        found = _within(where, notes, count)
    return found


def _one_at_most(where: str, notes: View) -> list[FieldError]:
    names = (keys.REQUIRED_TOPOLOGY, keys.PREFERRED_TOPOLOGY, keys.UNCONSTRAINED_TOPOLOGY)
    if sum(name in notes for name in names) < 2:
        return []
    listed = ", ".join(f'"{name}"' for name in names)
    words = f"Invalid value: must not contain more than one topology annotation: [{listed}]"
    return [FieldError("FieldValueInvalid", where, words)]


def _group(where: str, notes: View) -> list[FieldError]:
    if keys.POD_SET_GROUP not in notes:
        return []
    at, name = keyed(where, keys.POD_SET_GROUP), notes[keys.POD_SET_GROUP]
    found = [invalid(at, name, "must not be a number")] if is_digits(name) else []
    found += [
        forbidden(at, f"may not be set when '{key}' is specified")
        for key in (keys.SLICE_SIZE, keys.SLICE_TOPOLOGY)
        if key in notes
    ]
    if keys.PREFERRED_TOPOLOGY not in notes and keys.REQUIRED_TOPOLOGY not in notes:
        words = f"may not be set when neither '{keys.PREFERRED_TOPOLOGY}' nor '{keys.REQUIRED_TOPOLOGY}' is specified"
        found.append(forbidden(at, words))
    return found


def _slice(where: str, notes: View) -> list[FieldError]:
    at = keyed(where, keys.SLICE_SIZE)
    found: list[FieldError] = []
    if keys.SLICE_SIZE in notes:
        size = _number(notes[keys.SLICE_SIZE])
        if size is None:
            found.append(invalid(at, notes[keys.SLICE_SIZE], "must be a numeric value"))
        elif size < 1:
            found.append(invalid(at, notes[keys.SLICE_SIZE], "must be greater than or equal to 1"))
    if keys.SLICE_TOPOLOGY in notes and keys.SLICE_SIZE not in notes:
        found.append(required(at, f"must be set when '{keys.SLICE_TOPOLOGY}' is specified"))
    if keys.SLICE_TOPOLOGY not in notes and keys.SLICE_SIZE in notes:
        found.append(forbidden(at, f"may not be set when '{keys.SLICE_TOPOLOGY}' is not specified"))
    return found


def _layers(where: str, notes: View) -> list[FieldError]:
    text = notes.get(keys.SLICE_LAYERS)
    if text is None:
        return []
    at = keyed(where, keys.SLICE_LAYERS)
    found = [
        forbidden(at, f"may not be set when '{key}' is specified")
        for key in (keys.SLICE_TOPOLOGY, keys.SLICE_SIZE)
        if key in notes
    ]
    if keys.POD_SET_GROUP in notes:
        words = f"may not be set when '{keys.SLICE_LAYERS}' is specified"
        found.append(forbidden(keyed(where, keys.POD_SET_GROUP), words))
    layers = parse_layers(text)
    if layers is None:
        return [*found, invalid(at, text, "must be a valid JSON array")]
    if not 1 <= len(layers) <= 3:
        return [*found, invalid(at, text, _LAYERS)]
    return found + _each_layer(at, layers)


def _each_layer(at: str, layers: Sequence[tuple[str, int]]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, (level, size) in enumerate(layers):
        found += [invalid(child(at, index, "topology"), level, words) for words in is_qualified_name(level)]
        if size < 1:
            found.append(invalid(child(at, index, "size"), size, "must be greater than or equal to 1"))
    seen: dict[str, int] = {}
    for index, (level, _) in enumerate(layers):
        if level in seen:
            found.append(duplicate(child(at, index, "topology"), f"{level} (also at index {seen[level]})"))
        seen.setdefault(level, index)
    for index, ((_, outer), (_, inner)) in enumerate(pairwise(layers), 1):
        if inner > 0 and outer % inner:
            words = f"must evenly divide the parent layer size {outer}"
            found.append(invalid(child(at, index, "size"), inner, words))
    return found


def parse_layers(text: str) -> list[tuple[str, int]] | None:
    """As Go reads an array of {topology string, size int32}; None where it is none."""
    try:
        found = read_json(text)
    except ValueError:
        return None
    layers = [_layer(each or {}) for each in found] if isinstance(found, list) else None if found is not None else []
    return None if layers is None or None in layers else [each for each in layers if each is not None]


def _layer(found: Any) -> tuple[str, int] | None:
    if not isinstance(found, dict):
        return None
    name, size = found.get("topology") or "", found.get("size") or 0
    whole = isinstance(size, int) and not isinstance(size, bool) and abs(size) < 1 << 31
    return (name, size) if isinstance(name, str) and whole else None


def _within(where: str, notes: View, count: int) -> list[FieldError]:
    words = f"must not be greater than pod set count {count}"
    size = _number(notes.get(keys.SLICE_SIZE, ""))
    if size is not None and size > count:
        return [invalid(keyed(where, keys.SLICE_SIZE), notes[keys.SLICE_SIZE], words)]
    layers = parse_layers(notes[keys.SLICE_LAYERS]) if keys.SLICE_LAYERS in notes else None
    if layers and layers[0][1] > count:
        return [invalid(keyed(where, keys.SLICE_LAYERS), layers[0][1], words)]
    return []


def group_errors(pod_sets: Sequence[View], paths: Mapping[str, str]) -> list[FieldError]:
    """Pod sets placed together come in pairs, one of them a single pod; `paths` are their annotations' by name."""
    groups: dict[str, list[View]] = {}
    for each in pod_sets:
        name = (each.get("topologyRequest") or {}).get("podSetGroupName")
        if name is not None:
            groups.setdefault(name, []).append(each)
    return [error for name, members in groups.items() for error in _pair(name, members, paths)]


def _pair(name: str, members: Sequence[View], paths: Mapping[str, str]) -> list[FieldError]:
    at = [paths[each["name"]] for each in members]
    if len(members) != 2:
        words = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
        return [invalid(keyed(path, keys.POD_SET_GROUP), name, words) for path in at]
    found: list[FieldError] = []
    counts = [each.get("count", 1) for each in members]
    if 1 not in counts:
        words = (
            "can only define groups where at least one pod set has only 1 replica, "
            f"got: {counts[0]} replica(s) and {counts[1]} replica(s) in the group"
        )
        found += [invalid(keyed(path, keys.POD_SET_GROUP), name, words) for path in at]
    asked = [each["topologyRequest"] for each in members]
    if any(asked[0].get(part) != asked[1].get(part) for part in ("required", "preferred")):
        for path, other in (at, at[::-1]):
            words = (
                f"Invalid value: must specify '{keys.REQUIRED_TOPOLOGY}' or '{keys.PREFERRED_TOPOLOGY}' topology "
                f"consistent with '{other}' in group '{name}'"
            )
            found.append(FieldError("FieldValueInvalid", path, words))
    return found


def _number(text: str) -> int | None:
    value = integer(text)
    return value if value is not None and -(2**31) <= value < 2**31 else None
