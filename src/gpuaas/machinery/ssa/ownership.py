"""Who owns what after a change: the rules that updates and applies share.

A change takes what it modifies or adds from everybody else and removes from everybody what is gone. Managers may
speak of other versions of the kind than the request does; `Versions` shows them the change in theirs.
"""

from collections.abc import Callable
from typing import Any

from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom, atom_of
from gpuaas.machinery.ssa.blank import blank_of
from gpuaas.machinery.ssa.compare import Comparison, changed, compare, created
from gpuaas.machinery.ssa.conflicts import Conflict, Conflicting
from gpuaas.machinery.ssa.fieldset import (
    FieldSet,
    difference,
    from_paths,
    intersection,
    paths,
    recursive_difference,
    union,
)
from gpuaas.machinery.ssa.managed import Manager, Managers

Object = dict[str, Any]
# An object in another version, with that version's schema; None if there is no such version any more.
Converter = Callable[[Object, str], tuple[Object, Schema] | None]

STRIPPED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
# What identifies an object or is the server's own is never owned.
STRIPPED: FieldSet = from_paths(
    [("f:apiVersion",), ("f:kind",), ("f:metadata",)] + [("f:metadata", f"f:{name}") for name in STRIPPED_METADATA]
)


class Versions:
    """The kind in the version of the request and, by conversion, in others."""

    def __init__(self, atom: Atom, api_version: str, converter: Converter | None, reset: FieldSet) -> None:
        self.atom = atom
        self.api_version = api_version
        self._converter = converter
        self.reset = reset

    def convert(self, obj: Object, version: str, *, of: str | None = None) -> tuple[Object, Atom] | None:
        """The object in a version (`of`: the version it is in, else the request's), and the type it has there."""
        if version == (of or self.api_version) or self._converter is None:
            return obj, self.atom
        found = self._converter(obj, version)
        return None if found is None else (found[0], atom_of(found[1]))

    def compare(self, old: Object, new: Object, version: str) -> Comparison | None:
        before, after = self.convert(old, version), self.convert(new, version)
        if before is None or after is None:
            return None
        return compare(before[1], owned_part(before[0]), owned_part(after[0])).without(self.reset)

    def changed(self, old: Object, new: Object) -> FieldSet:
        """What differs, in the version of the request."""
        find = created if old is blank_of(self.atom) else changed
        return recursive_difference(find(self.atom, owned_part(old), owned_part(new)), self.reset)


def owned_part(obj: Object) -> Object:
    """The object without the fields that no manager may own."""
    root = {key: value for key, value in obj.items() if key != "apiVersion" and key != "kind"}
    metadata = obj.get("metadata") or {}
    root["metadata"] = {key: value for key, value in metadata.items() if key not in STRIPPED_METADATA}
    return root


def change(
    versions: Versions, old: Object, new: Object, managers: Managers, own: Manager | None, *, force: bool
) -> tuple[Managers, Comparison]:
    """The managers after a change by `own`, and the change. Raises Conflicting unless `force`."""
    comparison = versions.compare(old, new, versions.api_version)
    assert comparison is not None
    seen: dict[str, Comparison | None] = {versions.api_version: comparison}
    result: Managers = {}
    conflicts: list[Conflict] = []
    for manager, owned in managers.items():
        if manager == own:
            result[manager] = owned
            continue
        version = owned.api_version
        if version not in seen:
            seen[version] = versions.compare(old, new, version)
        theirs = seen[version]
        if theirs is None:  # a version that is gone takes its managers along
            continue
        taken = theirs.changed()
        if not force:
            conflicts += [Conflict(manager, path) for path in paths(intersection(owned.fields, taken))]
        left = difference(difference(owned.fields, taken), theirs.removed)
        if left:
            result[manager] = owned.holding(left)
    if conflicts:
        raise Conflicting(conflicts)
    return {manager: owned for manager, owned in result.items() if owned.fields}, comparison


def reconciled(versions: Versions, live: Object, managers: Managers) -> Managers:
    """Managers after a schema change: who owned parts of what is atomic now, owns the whole."""
    result: Managers = {}
    for manager, owned in managers.items():
        converted = versions.convert(live, owned.api_version)
        if converted is None:
            continue
        whole = _whole(converted[1], owned.fields, ())
        if not whole:
            result[manager] = owned
            continue
        roots = from_paths(whole)
        result[manager] = owned.holding(union(recursive_difference(owned.fields, roots), roots))
    return result


def _whole(atom: Atom, fields: FieldSet, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Paths of atomic places of which a set holds parts."""
    found: list[tuple[str, ...]] = []
    for element, node in fields.items():
        if not node or element == ".":
            continue
        child = _child(atom, element)
        if child is None:
            continue
        step = (*path, element)
        if _is_atomic(child):
            found.append(step)
        else:
            found += _whole(child, node, step)
    return found


def _child(atom: Atom, element: str) -> Atom | None:
    node = atom.for_null
    if type(node) is MapAtom:
        untyped = not node.fields and node.element is not None and node.element.scalar is not None and node.element.map
        if untyped or (element[2:] not in node.fields and node.element is None):
            return None
        return node.child(element[2:])[1]
    return node.item if type(node) is ListAtom else None


def _is_atomic(atom: Atom) -> bool:
    node = atom.for_null
    return (type(node) is MapAtom and node.atomic) or (type(node) is ListAtom and not node.associative)
