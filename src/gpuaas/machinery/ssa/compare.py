"""What one object has that another has not: the fields removed, modified and added on the way from left to right.

Equal subtrees are passed over whole, the same object without even looking, so that the cost of a small change is the
cost of the way to it. What is on one side only is owned with everything in it (`members`).
"""

from typing import Any, NamedTuple

from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom, Node, TypedError
from gpuaas.machinery.ssa.fieldset import EMPTY, LEAF, FieldSet, in_order, recursive_difference, union, union_nodes


class Comparison(NamedTuple):
    """Three disjoint sets. As a part of a larger one, LEAF is the place itself and None is nothing."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, fields: FieldSet) -> "Comparison":
        """The comparison as if these fields and all below them did not exist."""
        if not fields:
            return self
        return Comparison(*(recursive_difference(part, fields) for part in self))

    def changed(self) -> FieldSet:
        return union(self.modified, self.added)


_Parts = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
SHAPES = 64  # sets remembered for each struct
_SAME: _Parts = (None, None, None)
_MODIFIED: _Parts = (None, LEAF, None)


def compare(atom: Atom, left: dict[str, Any], right: dict[str, Any]) -> Comparison:
    """Compare two objects of one type. Raises TypedError where a list cannot be read as its type says."""
    if left is right:
        return Comparison(EMPTY, EMPTY, EMPTY)
    removed, modified, added = _places(atom, left, right)
    return Comparison(removed or EMPTY, modified or EMPTY, added or EMPTY)


def changed(atom: Atom, left: dict[str, Any], right: dict[str, Any]) -> FieldSet:
    """`compare(...).changed()` in one go: enough while there are no owners yet, as when objects are created."""
    return _changed(atom, left, right) or EMPTY


def created(atom: Atom, blank: dict[str, Any], new: dict[str, Any]) -> FieldSet:
    """`changed` from the blank object. Many objects are created alike but for their names: their specs are looked at
    once."""
    node, spec = atom.for_dict, new.get("spec")
    if type(node) is not MapAtom or not node.fields or type(spec) is not dict:
        return changed(atom, blank, new)
    before = {"spec": blank["spec"]} if "spec" in blank else EMPTY
    found = node.specs.of(spec, lambda: _changed_map(node, before, {"spec": spec}) or EMPTY)
    others = changed(atom, blank, {key: value for key, value in new.items() if key != "spec"})
    return in_order({**others, **found})


def _changed(atom: Atom, left: Any, right: Any) -> FieldSet | None:
    node = atom.for_value(right)
    if node is not atom.for_value(left):
        _, modified, added = _places(atom, left, right)
        return _join(modified, added)
    if type(node) is MapAtom:
        old = left if type(left) is dict else EMPTY
        new = right if type(right) is dict else EMPTY
        if node.atomic or not (old or new):
            return None if left == right else LEAF
        return _changed_map(node, old, new)
    if type(node) is ListAtom and node.associative and not left and right and type(right) is list:
        return {element: below for element, below in _list_members(node, right).items() if element != "."}
    _, modified, added = _nodes(node, left, right)
    return _join(modified, added)


def _changed_map(node: MapAtom, left: dict[str, Any], right: dict[str, Any]) -> FieldSet | None:
    result: FieldSet = {}
    known = node.known
    for key in sorted(right):
        new = right[key]
        kind = type(new)
        if key not in left:
            element, atom = known.get(key) or node.child(key)
            result[element] = members(atom, new) if kind is dict or kind is list else LEAF
            continue
        old = left[key]
        if old is new or (type(old) is kind and old == new):
            continue
        element, atom = known.get(key) or node.child(key)
        found = _changed(atom, old, new)
        if found is not None:
            result[element] = found
    return result or None


def _places(atom: Atom, left: Any, right: Any) -> _Parts:
    as_left, as_right = atom.for_value(left), atom.for_value(right)
    if as_left is as_right:
        return _nodes(as_right, left, right)
    # The sort of value changed: what the old sort owned is compared as such, then the new.
    first = _nodes(as_left, left, right)
    second = _nodes(as_right, left, right)
    removed, modified, added = (_join(one, two) for one, two in zip(first, second, strict=True))
    return removed, modified, added


def _join(one: FieldSet | None, two: FieldSet | None) -> FieldSet | None:
    if one is None or two is None:
        return one if two is None else two
    return union_nodes(one, two)


def _nodes(node: Node, left: Any, right: Any) -> _Parts:
    if type(node) is MapAtom:
        old = left if type(left) is dict else EMPTY
        new = right if type(right) is dict else EMPTY
        if node.atomic or not (old or new):
            return _SAME if left == right else _MODIFIED
        return _maps(node, old, new)
    if type(node) is ListAtom:
        before = left if type(left) is list else ()
        after = right if type(right) is list else ()
        if not node.associative or not (before or after):
            return _SAME if left == right else _MODIFIED
        return _lists(node, before, after)
    if left == right and (type(left) is bool) == (type(right) is bool):
        return _SAME
    return _MODIFIED


def _maps(node: MapAtom, left: dict[str, Any], right: dict[str, Any]) -> _Parts:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    child = node.child
    for key in sorted(right):
        new = right[key]
        if key not in left:
            element, atom = child(key)
            added[element] = members(atom, new)
            continue
        old = left[key]
        if old is new or (type(old) is type(new) and old == new):
            continue
        element, atom = child(key)
        gone, other, fresh = _places(atom, old, new)
        if gone is not None:
            removed[element] = gone
        if other is not None:
            modified[element] = other
        if fresh is not None:
            added[element] = fresh
    if not left.keys() <= right.keys():
        for key in left:
            if key not in right:
                element, atom = child(key)
                removed[element] = members(atom, left[key])
        removed = in_order(removed)
    return removed or None, modified or None, added or None


def _lists(node: ListAtom, left: Any, right: Any) -> _Parts:
    old = _by_element(node, left)
    new = _by_element(node, right)
    parts: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    for element in [*old, *(each for each in new if each not in old)]:
        for part, found in zip(parts, _items(node, old.get(element, ()), new.get(element, ())), strict=True):
            if found is not None:
                part[element] = found
    removed, modified, added = (in_order(part) or None for part in parts)
    return removed, modified, added


def _items(node: ListAtom, old: Any, new: Any) -> _Parts:
    """The items of one element. Several make it a leaf: parts of duplicates cannot be owned."""
    if len(old) == 1 and len(new) == 1:
        return _SAME if old[0] is new[0] or old[0] == new[0] else _places(node.item, old[0], new[0])
    if len(old) > 1 and len(new) > 1:
        return _SAME if old == new else _MODIFIED
    return _item_members(node, old), None, _item_members(node, new)


def _item_members(node: ListAtom, items: Any) -> FieldSet | None:
    if not items:
        return None
    return LEAF if len(items) > 1 else members(node.item, items[0])


def _by_element(node: ListAtom, items: Any) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            result.setdefault(node.element(item), []).append(item)
        except ValueError as problem:
            raise TypedError([("", f"element {index}: {problem}")]) from None
    return result


def members(atom: Atom, value: Any) -> FieldSet:
    """The node of a place that is on one side only: it and everything in it."""
    kind = type(value)
    if kind is dict:
        node = atom.for_dict
        if not value or type(node) is not MapAtom or node.atomic:
            return LEAF
        return _map_members(node, value)
    if kind is list:
        listed = atom.for_list
        if not value or type(listed) is not ListAtom or not listed.associative:
            return LEAF
        return _list_members(listed, value)
    return LEAF


def _map_members(node: MapAtom, value: dict[str, Any]) -> FieldSet:
    """Creating objects spends its time here: known fields are looked up without a call, scalars need no descent, and
    structs of scalars that have the same fields share one set."""
    for below in value.values():
        kind = type(below)
        if kind is dict or kind is list:
            break
    else:
        if node.fields:
            return node.shapes.get(tuple(value)) or _shape(node, value)
    result: FieldSet = {".": LEAF}
    known = node.known
    for key in sorted(value):
        below = value[key]
        place = known.get(key) or node.child(key)
        kind = type(below)
        result[place[0]] = members(place[1], below) if kind is dict or kind is list else LEAF
    return result


def _shape(node: MapAtom, value: dict[str, Any]) -> FieldSet:
    made: FieldSet = {".": LEAF, **{node.child(key)[0]: LEAF for key in sorted(value)}}
    if len(node.shapes) < SHAPES:
        node.shapes[tuple(value)] = made
    return made


def _list_members(node: ListAtom, value: list[Any]) -> FieldSet:
    result: FieldSet = {".": LEAF}
    atom = node.item
    inner = atom.for_dict
    struct = inner if type(inner) is MapAtom and not inner.atomic else None
    for index, item in enumerate(value):
        try:
            element = node.element(item)
        except ValueError as problem:
            raise TypedError([("", f"element {index}: {problem}")]) from None
        if element in result:
            result[element] = LEAF
        elif struct is not None and item and type(item) is dict:
            result[element] = _map_members(struct, item)
        else:
            result[element] = members(atom, item)
    return in_order(result) if len(value) > 1 else result
