"""Reading a configuration by its type: is it allowed (`validate`), and which fields does it speak of (`field_set`).

Applying says: these fields shall be so. A struct that is only on the way to a field is not itself spoken of, an entry
of a map or an item of a list is. Comparing two objects is another question (module compare).
"""

from typing import Any

from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom, ScalarAtom, TypedError
from gpuaas.machinery.ssa.elements import show
from gpuaas.machinery.ssa.fieldset import EMPTY, LEAF, FieldSet, in_order, node_of
from gpuaas.machinery.ssa.gotext import to_json, type_name, verb_v

Problems = list[tuple[str, str]]
_EXACTLY = {"string": str, "numeric": int, "boolean": bool}  # the types that need no second look


def validate(atom: Atom, value: Any, *, duplicates: bool = False) -> None:
    """Raise TypedError with everything that is wrong. `duplicates`: items of one key may occur more than once."""
    problems = _problems(atom, value, duplicates)
    if problems:
        raise TypedError(problems)


def _problems(atom: Atom, value: Any, duplicates: bool) -> Problems:
    """What is wrong with a place, by paths from there on: most often nothing, so no path is made on the way down."""
    if value is None:
        return []
    node = atom.for_value(value)
    if type(node) is ScalarAtom:
        return _scalar_problems(node, value)
    if type(node) is MapAtom:
        if not isinstance(value, dict):
            return [("", f"expected map, got &{{{verb_v(value)}}}")]
        return _map_problems(node, value, duplicates)
    assert isinstance(node, ListAtom)
    if not isinstance(value, list):
        return [("", f"expected list, got &{{{verb_v(value)}}}")]
    return _list_problems(node, value, duplicates)


def _map_problems(node: MapAtom, value: dict[str, Any], duplicates: bool) -> Problems:
    problems: Problems = []
    for key in sorted(value):
        element, atom = node.child(key)
        if key not in node.fields and node.element is None:
            return [*problems, (show(element), "field not declared in schema")]
        found = _problems(atom, value[key], duplicates)
        if found:
            problems += _below(element, found)
    return problems


def _list_problems(node: ListAtom, value: list[Any], duplicates: bool) -> Problems:
    problems: Problems = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if node.associative:
            try:
                element = node.element(item)
            except ValueError as problem:
                return [*problems, ("", f"element {index}: {problem}")]
            if element in seen and not duplicates:
                problems.append(("", f"duplicate entries for key {show(element)}"))
            seen.add(element)
        found = _problems(node.item, item, duplicates)
        if found:
            problems += _below(element, found)
    return problems


def _below(element: str, problems: Problems) -> Problems:
    prefix = show(element)
    return [(prefix + path, text) for path, text in problems]


def _scalar_problems(node: ScalarAtom, value: Any) -> Problems:
    if type(value) is _EXACTLY.get(node.kind):
        return []
    text = _scalar_problem(node.kind, value)
    return [("", text)] if text else []


def _scalar_problem(kind: str, value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "numeric" if not number:
            return f"expected numeric (int or float), got {type_name(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{verb_v(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{verb_v(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """`%#v` of an unstructured value."""
    match value:
        case dict():
            inner = ", ".join(f"{to_json(key)}:{_go_syntax(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
        case None:
            return "interface {}(nil)"
        case _:
            return to_json(value)


def field_set(atom: Atom, value: Any) -> FieldSet:
    """The fields a valid value speaks of."""
    node = _spoken(atom, value)
    return EMPTY if node is None else node


def _spoken(atom: Atom, value: Any) -> FieldSet | None:
    """The node of a place, without deciding whether the place itself is a member; None if nothing in it is."""
    node = atom.for_value(value)
    if type(node) is MapAtom:
        if node.atomic:
            return LEAF
        return _spoken_map(node, value) if isinstance(value, dict) else None
    if type(node) is ListAtom:
        if not node.associative:
            return LEAF
        return _spoken_list(node, value) if isinstance(value, list) else None
    return LEAF


def _spoken_map(node: MapAtom, value: dict[str, Any]) -> FieldSet | None:
    result: FieldSet = {}
    for key in sorted(value):
        element, atom = node.child(key)
        below = value[key]
        if type(below) is not dict and type(below) is not list:
            result[element] = LEAF  # a scalar, or a null, which is one wherever it is
            continue
        found = _spoken(atom, below)
        if below == {} or key not in node.fields:
            found = _with_self(found)
        if found is not None:
            result[element] = found
    return result or None


def _spoken_list(node: ListAtom, value: list[Any]) -> FieldSet | None:
    result: FieldSet = {}
    for item in value:
        element = node.element(item)
        result[element] = LEAF if element in result else _with_self(_spoken(node.item, item))
    return in_order(result) or None


def _with_self(found: FieldSet | None) -> FieldSet:
    if not found or "." in found:
        return found or LEAF
    return node_of(True, found) or LEAF
