"""Taking fields out of an object, and the sets that say which.

`remove` drops what a set names and shares the rest. `with_named_fields` adds to a set the structs on the way to its
members, so that a struct goes with its last field instead of staying behind empty.
"""

from typing import Any

from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom
from gpuaas.machinery.ssa.fieldset import LEAF, FieldSet, is_member


def remove(atom: Atom, value: Any, fields: FieldSet) -> Any:
    """The value without these fields; None where nothing is left."""
    node = atom.for_value(value)
    if type(node) is MapAtom:
        if not isinstance(value, dict) or not value or node.atomic:
            return None
        return _from_map(node, value, fields)
    if type(node) is ListAtom:
        if not isinstance(value, list) or not value or not node.associative:
            return None
        return _from_list(node, value, fields)
    return value


def _from_map(node: MapAtom, value: dict[str, Any], fields: FieldSet) -> dict[str, Any] | None:
    result: dict[str, Any] = {}
    for key, below in value.items():
        element, atom = node.child(key)
        named = fields.get(element)
        if named is None:
            result[key] = below
        elif not is_member(named):
            result[key] = remove(atom, below, named)
    return result or None


def _from_list(node: ListAtom, value: list[Any], fields: FieldSet) -> list[Any] | None:
    result: list[Any] = []
    for item in value:
        named = fields.get(node.element(item))
        if named is None:
            result.append(item)
        elif not is_member(named):
            result.append(remove(node.item, item, named))
    return result or None


def with_named_fields(atom: Atom | None, fields: FieldSet) -> FieldSet:
    """The set with every declared field that leads to a member made a member itself."""
    result: FieldSet = {}
    for element, node in fields.items():
        if element == "." or not node:
            result[element] = node
            continue
        below = with_named_fields(_child(atom, element), node)
        declared = atom is not None and atom.map is not None and element[0] == "f" and element[2:] in atom.map.fields
        result[element] = {".": LEAF, **below} if declared and "." not in below else below
    return result


def _child(atom: Atom | None, element: str) -> Atom | None:
    if atom is None:
        return None
    if element[0] == "f" and atom.map is not None:
        known = element[2:] in atom.map.fields or atom.map.element is not None
        return atom.map.child(element[2:])[1] if known else None
    if element[0] == "k" and atom.list is not None:
        return atom.list.item
    return None
