"""Merging a configuration into an object: what it speaks of is taken from it, everything else stays.

Nothing is removed here (module removal does that) and nothing is copied that does not change. Items of a list keep
the object's order where the configuration has none of its own, and follow the configuration's where it has.
"""

from collections import deque
from typing import Any

from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom

_ABSENT = object()


def merge(atom: Atom, live: Any, config: Any) -> Any:
    """The merged value. Both sides are valid by the atom; only `live` may hold several items of one key."""
    node = atom.for_value(config)
    if type(node) is MapAtom:
        old = live if isinstance(live, dict) else None
        new = config if isinstance(config, dict) else None
        if node.atomic or not (old or new):
            return config
        return _maps(node, old or {}, new or {})
    if type(node) is ListAtom:
        before = live if isinstance(live, list) else None
        after = config if isinstance(config, list) else None
        if not node.associative or not (before or after):
            return config
        return _lists(node, before or [], after or [])
    return config


def _maps(node: MapAtom, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    result = dict(live)
    for key, value in config.items():
        if key not in live:
            result[key] = value
        elif live[key] is not value:
            result[key] = merge(node.child(key)[1], live[key], value)
    return result


def _lists(node: ListAtom, live: list[Any], config: list[Any]) -> list[Any]:
    left = [node.element(item) for item in live]
    right = [node.element(item) for item in config]
    ours: dict[str, Any] = {}
    for element, item in zip(left, live, strict=True):
        ours[element] = None if element in ours else item  # several of one key are not merged with
    theirs = dict(zip(right, config, strict=True))

    def both(element: str) -> Any:
        old = ours.get(element, _ABSENT)
        return theirs[element] if old is _ABSENT else merge(node.item, old, theirs[element])

    return _interleave(left, right, live, theirs.keys(), ours.keys(), both)


def _interleave(left: list[str], right: list[str], live: list[Any], theirs: Any, ours: Any, both: Any) -> list[Any]:
    """Walk both lists at once: shared items in the configuration's order, the others near their old neighbours."""
    result: list[Any] = []
    shared = deque(element for element in right if element in ours)
    wanted = shared.popleft() if shared else None
    merged: set[str] = set()
    at_left = at_right = 0
    while at_left < len(left) or at_right < len(right):
        if at_left < len(left) and at_right < len(right):
            element = left[at_left]
            if element == right[at_right]:
                merged.add(element)
                result.append(both(element))
                at_left += 1
                at_right += 1
                wanted = shared.popleft() if shared else None
                continue
            if element in theirs and wanted is not None and wanted != element:
                at_left += 1  # shared, but another one comes first
                continue
        if at_left < len(left):
            element = left[at_left]
            if element not in theirs:
                result.append(live[at_left])
                at_left += 1
                continue
            if element in merged:
                at_left += 1
        if at_right < len(right):
            element = right[at_right]
            merged.add(element)
            result.append(both(element))
            at_right += 1
            if element == wanted:
                wanted = shared.popleft() if shared else None
    return result
