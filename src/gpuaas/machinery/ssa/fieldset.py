"""Sets of field paths, held as the very tree that fieldsV1 is on the wire.

A `FieldSet` is a dict from element to the set below it. A node that is empty, or has the entry ".", is itself a
member of the set; a node with neither only leads to members. Sets are never changed once made, so that they may share
branches with each other and with stored objects; the keys of every node are in Kubernetes' order, so that writing a
set out is writing the dict. A set without members is the empty dict.
"""

from collections.abc import Iterator
from typing import Any

from gpuaas.machinery.ssa.elements import canonical, order, show, text_order

FieldSet = dict[str, Any]

LEAF: FieldSet = {}  # shared by all sets: a member with nothing below it
EMPTY: FieldSet = {}


def is_member(node: FieldSet) -> bool:
    return not node or "." in node


def node_of(member: bool, children: FieldSet) -> FieldSet | None:
    """A node from its two facts; None if nothing is left of it."""
    if not member:
        return children or None
    return {".": LEAF, **children} if children else LEAF


def in_order(node: FieldSet) -> FieldSet:
    """The same node with its keys sorted; most are already."""
    if len(node) < 2:
        return node
    keys = sorted(node)
    if keys[-1] > "g":  # keys, values and indices: there the order of texts is not that of elements
        keys.sort(key=text_order(keys) or order)
    return {key: node[key] for key in keys}


def insert(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    """The set with one more path. The empty path is the object itself, which has no owner."""
    return union(fields, from_paths([path]))


def from_paths(paths: list[tuple[str, ...]]) -> FieldSet:
    """A new set of these paths."""
    root: FieldSet = {}
    for path in paths:
        root = union(root, _one_path(path))
    return root


def _one_path(path: tuple[str, ...]) -> FieldSet:
    node = LEAF
    for element in reversed(path):
        node = {element: node}
    return node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    if not right:
        return left
    result = dict(left)
    grown = False
    for element, theirs in right.items():
        ours = result.get(element)
        if ours is None:
            grown = True
            result[element] = theirs
        elif ours is not theirs:
            result[element] = union_nodes(ours, theirs)
    return in_order(result) if grown else result


def union_nodes(ours: FieldSet, theirs: FieldSet) -> FieldSet:
    if not ours:
        return theirs if not theirs or "." in theirs else {".": LEAF, **theirs}
    if not theirs:
        return ours if "." in ours else {".": LEAF, **ours}
    return union(ours, theirs)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of both."""
    result: FieldSet = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None or element == ".":
            continue
        both = is_member(ours) and is_member(theirs)
        node = node_of(both, intersection(ours, theirs) if ours and theirs else EMPTY)
        if node is not None:
            result[element] = node
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of left that are not members of right; a parent in right does not take its children along."""
    return _difference(left, right, recursive=False)


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of left that neither are members of right nor lie below one."""
    return _difference(left, right, recursive=True)


def _difference(left: FieldSet, right: FieldSet, *, recursive: bool) -> FieldSet:
    """`left` itself if nothing of it goes, so that callers see by identity whether anything changed."""
    shared = left.keys() & right.keys()
    shared.discard(".")  # a node's own membership is its parent's business
    if not shared:
        return left
    changes: dict[str, FieldSet | None] = {}
    for element in shared:
        ours, theirs = left[element], right[element]
        rest = _difference_nodes(ours, theirs, recursive=recursive)
        if rest is not ours:
            changes[element] = rest
    if not changes:
        return left
    replaced = ((element, changes.get(element, node)) for element, node in left.items())
    return {element: node for element, node in replaced if node is not None}


def _difference_nodes(ours: FieldSet, theirs: FieldSet, *, recursive: bool) -> FieldSet | None:
    goes = is_member(theirs)
    if goes and recursive:
        return None
    was = is_member(ours)
    below = _difference(ours, theirs, recursive=recursive)
    if below is ours and not (was and goes):
        return ours
    return node_of(was and not goes, _children(below))


def _children(node: FieldSet) -> FieldSet:
    if "." not in node:
        return node
    return {element: below for element, below in node.items() if element != "."}


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    node = fields
    for element in path:
        below = node.get(element)
        if below is None:
            return False
        node = below
    return bool(path) and is_member(node)


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member, the members of a node before what lies below them (the order conflicts are listed in)."""
    for element, node in fields.items():
        if element != "." and is_member(node):
            yield (*prefix, element)
    for element, node in fields.items():
        if node and element != ".":
            yield from paths(node, (*prefix, element))


def show_path(path: tuple[str, ...]) -> str:
    """`.spec.containers[name="a"].image`."""
    return "".join(map(show, path))


def parse(tree: Any) -> FieldSet:
    """A set that a client wrote: elements made canonical and sorted, unknown sorts skipped.

    Raises ValueError with the reason where the tree is no set.
    """
    if tree is None:
        return EMPTY
    node = _parse_node(tree)
    return _children(node)


def _parse_node(tree: Any) -> FieldSet:
    if not isinstance(tree, dict):
        raise ValueError(f"expected an object, found {tree!r}")
    result: FieldSet = {}
    for key, below in tree.items():
        if key == ".":
            result["."] = LEAF
            continue
        element = canonical(key)
        if element is not None:
            result[element] = _parse_node(below)
    return in_order(result) if result.keys() - {"."} else LEAF
