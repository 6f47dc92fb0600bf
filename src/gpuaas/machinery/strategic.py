"""Strategic merge patches: merge patches that know which lists are maps, from the schema's merge keys.

A patch may hold directives: `$patch` replaces or deletes a map or an item, `$retainKeys` clears all other keys,
`$deleteFromPrimitiveList/<field>` takes items out of a list of scalars, `$setElementOrder/<field>` orders a list. The
object and the patch are never changed; the result shares what it can with both. Errors are kube-apiserver's, some of
which it gives without a reason (`PatchFailed`). Custom resources do not have such patches.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, cast

from gpuaas.base.duplicates import identity
from gpuaas.base.errors import ApiError, BadRequest
from gpuaas.machinery.jsonpatch import PatchRefused, json_kind
from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.gotext import type_name, verb_v

Map = dict[str, Any]

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_PREFIX: Final = "$deleteFromPrimitiveList"
ORDER_PREFIX: Final = "$setElementOrder"
_NOT_KEPT: Final = object()
_HEAD: Final = -1
_END: Final = -2


class PatchFailed(ApiError):
    """A patch that cannot be applied. Kubernetes answers 500 without a reason; it is the client's mistake."""

    code, reason = 400, "BadRequest"


def apply_strategic_patch(obj: Mapping[str, Any], patch: Any, schema: Schema) -> Map:
    """The object after the patch."""
    original = cast("Map", obj)
    if patch is None:
        return original
    if not isinstance(patch, dict):
        raise BadRequest(f"json: cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}")
    return _merge_maps(original, patch, schema)


def _merge_maps(original: Map, patch: Map, schema: Schema) -> Map:
    if DIRECTIVE in patch:
        return _directed(patch)
    result = _retained(original, patch) if RETAIN_KEYS in patch else dict(original)
    done = {RETAIN_KEYS}
    for key, order in patch.items():
        if key.startswith(ORDER_PREFIX):
            done |= {key, _merge_in_order(result, patch, key, order, schema)}
    for key, value in patch.items():
        if key in done:
            continue
        if key.startswith(DELETE_PREFIX):
            _delete_from(result, _field_of(key, DELETE_PREFIX, "primitive"), value, schema)
        else:
            _merge_key(result, key, value, schema)
    return result


def _directed(patch: Map) -> Map:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise PatchFailed(f"unknown patch type: {verb_v(other)} in map: {verb_v(patch)}")


def _retained(original: Map, patch: Map) -> Map:
    keep = patch[RETAIN_KEYS]
    if not isinstance(keep, list):
        raise BadRequest("invalid patch format of retainKeys")
    kept = set(map(identity, keep))
    for key, value in patch.items():
        if key == RETAIN_KEYS or value is None or key.startswith((DELETE_PREFIX, ORDER_PREFIX)):
            continue
        if key not in kept:
            raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in kept}


def _field_of(key: str, prefix: str, what: str) -> str:
    directive, slash, field = key.partition("/")
    if not slash or directive != prefix:
        raise BadRequest(f"invalid patch format of {what} list")
    return field


def _merge_key(result: Map, key: str, value: Any, schema: Schema) -> None:
    if value is None:
        result.pop(key, None)
        return
    old = result.get(key, _NOT_KEPT)
    if type_name(old) != type_name(value) or not isinstance(value, dict | list) or old is _NOT_KEPT:
        taken = _without_directives(_without_nulls(value))
        if taken is _NOT_KEPT:
            result.pop(key, None)
        else:
            result[key] = taken
        return
    child = lookup(schema, key)
    strategy = _strategy(child)
    if isinstance(value, dict):
        result[key] = value if strategy == "replace" else _merge_maps(old, value, child)
    else:
        result[key] = _merge_lists(old, value, child) if strategy == "merge" else value


def _delete_from(result: Map, key: str, items: Any, schema: Schema) -> None:
    if items is None:
        result.pop(key, None)
        return
    old = result.get(key)
    if not isinstance(old, list) or not isinstance(items, list) or not (old or items):
        return
    child = lookup(schema, key)
    if _element_type(old, items) == "map[string]interface {}":
        result[key] = _merge_lists(old, items, child)
    else:
        gone = set(map(identity, items))
        result[key] = [item for item in old if identity(item) not in gone]


def lookup(schema: Schema, key: str) -> Schema:
    """The place of a field that both sides have, and that therefore must be one."""
    child = schema.properties.get(key)
    if child is not None:
        return child
    if schema.additional is not None and not schema.properties:
        raise PatchFailed("merging an object in json but data type is not struct, instead is: map")
    struct = schema.name.rpartition(".")[2]
    raise PatchFailed(f'unable to find api field in struct {struct} for the json field "{key}"')


def _strategy(schema: Schema) -> str:
    """What is left of a patch strategy besides retainKeys."""
    strategies = [each for each in schema.patch_strategy.split(",") if each]
    if len(strategies) > 2 or (len(strategies) == 2 and "retainKeys" not in strategies):
        raise PatchFailed(f"unexpected patch strategy: {verb_v(strategies)}")
    return next((each for each in strategies if each != "retainKeys"), "")


def _merge_in_order(result: Map, patch: Map, key: str, order: Any, schema: Schema) -> str:
    """Merge one list and order it as its `$setElementOrder` says; returns the field that is done."""
    if not isinstance(order, list):
        raise PatchFailed(f"expected a []interface {{}}, but received a {type_name(order)}")
    field = _field_of(key, ORDER_PREFIX, "setElementOrder")
    old, new = result.get(field, _NOT_KEPT), patch.get(field, _NOT_KEPT)
    for found in (old, new):
        if found is not _NOT_KEPT and not isinstance(found, list):
            raise PatchFailed(f"expected a []interface {{}}, but received a {type_name(found)}")
    child = lookup(schema, field)
    strategy = _strategy(child)
    _check_order([] if new is _NOT_KEPT else new, order, child.patch_key)
    if old is _NOT_KEPT and new is _NOT_KEPT:
        return field
    if new is _NOT_KEPT:
        merged = old
    elif old is _NOT_KEPT:
        merged = _without_directives(new)
    else:
        merged = _merge_lists(old, new, child) if strategy == "merge" else new
    live = [] if old is _NOT_KEPT else old
    maps = _element_type(live, [] if new is _NOT_KEPT else new) == "map[string]interface {}"
    result[field] = _ordered(merged, order, live, child.patch_key, maps=maps)
    return field


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must be among those of the order, in the same order; deletions do not count."""
    if not items or not order:
        return
    left = [item for item in items if not merge_key or _directive_of(item) != "delete"]
    at = place = 0
    while at < len(left) and place < len(order):
        if isinstance(left[at], dict) and DIRECTIVE in left[at]:
            at += 1
            continue
        at += _key_of(left[at], merge_key) == _key_of(order[place], merge_key)
        place += 1
    if at < len(left):
        shown = f"{verb_v(items)}\n doesn't match {ORDER_PREFIX} list:\n{verb_v(order)}\n"
        raise PatchFailed(f"The order in patch list:\n{shown}")


def _directive_of(item: Any) -> Any:
    if not isinstance(item, dict):
        raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    return item.get(DIRECTIVE)


def _key_of(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    if not isinstance(item, dict):
        raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    if merge_key not in item:
        raise PatchFailed(f"map: {verb_v(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _merge_lists(old: list[Any], new: list[Any], schema: Schema) -> list[Any]:
    """Two lists merged by their merge key, or as sets of scalars."""
    if not old and not new:
        return old
    merge_key = schema.patch_key
    if _element_type(old, new) != "map[string]interface {}":
        known = {identity(item): item for item in reversed([*old, *new])}  # the first of its like counts
        there = set(map(identity, old))
        merged = [*old, *(item for key, item in reversed(known.items()) if key not in there)]
        return _ordered(merged, new, old, "", maps=False)
    if not merge_key:
        raise PatchFailed("cannot merge lists without merge key for struct")
    old, new = _without_special_items(old, new, merge_key)
    merged = list(old)
    at = {identity(each[merge_key]): place for place, each in reversed([*enumerate(old)]) if merge_key in each}
    for item in new:
        place = at.setdefault(identity(_key_of(item, merge_key)), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = _merge_maps(merged[place], item, schema.items or Schema())
    return _ordered(merged, new, old, merge_key, maps=True)


def _without_special_items(old: list[Any], new: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Both lists after the `$patch` items of the new one have done their work."""
    plain = [item for item in new if DIRECTIVE not in item]
    replaces = False
    gone: set[Hashable] = set()
    for item in new:
        match item.get(DIRECTIVE, _NOT_KEPT):
            case "delete":
                gone.add(identity(_key_of(item, merge_key)))
            case "replace":
                replaces = True
            case "merge":
                raise PatchFailed("merging lists cannot yet be specified in the patch")
            case other if other is not _NOT_KEPT:
                raise PatchFailed(f"unknown patch type: {verb_v(other)} in map: {verb_v(item)}")
    if gone:
        old = [each for each in old if merge_key not in each or identity(each[merge_key]) not in gone]
    return (plain, []) if replaces else (old, plain)


def _element_type(*lists: list[Any]) -> str:
    """The one Go type of all items."""
    names = {type_name(item) for items in lists for item in items}
    if "[]interface {}" in names:
        raise PatchRefused("lists of lists are not supported")
    if len(names) > 1:
        raise PatchFailed(f"list element types are not identical: {verb_v(list(lists))}")
    if not names:
        raise PatchFailed("no elements in any of the given slices")
    return names.pop()


def _ordered(merged: list[Any], order: list[Any], live: list[Any], merge_key: str, *, maps: bool) -> list[Any]:
    """Items of the patch as `order` has them, the server's own between them as they were."""
    keys = [_key_of(item, merge_key if maps else "") for item in order]
    wanted = set(map(identity, keys))
    theirs: list[Any] = []
    own: list[Any] = []
    for item in merged:
        (theirs if identity(_key_of(item, merge_key if maps else "")) in wanted else own).append(item)
    places = _places(item.get(merge_key) if maps and isinstance(item, dict) else item for item in live)
    wishes = _places(keys)

    def position(item: Any, among: Mapping[Hashable, int]) -> int:
        return among.get(identity(item.get(merge_key) if maps else item), -1)

    left = deque(_sorted_by(own, [position(item, places) for item in own]))
    right = deque(_sorted_by(theirs, [position(item, wishes) for item in theirs]))
    result: list[Any] = []
    while left and right:
        one, two = position(left[0], places), position(right[0], places)
        result.append(left.popleft() if 0 <= one < two else right.popleft())
    return [*result, *left, *right]


def _places(keys: Iterable[Any]) -> dict[Hashable, int]:
    """Where each key is first."""
    found: dict[Hashable, int] = {}
    for index, key in enumerate(keys):
        found.setdefault(identity(key), index)
    return found


def _sorted_by(items: list[Any], places: list[int]) -> list[Any]:
    """As insertion sort leaves them, because the order is partial and Kubernetes' result depends on how it sorts: an
    item without a place (-1) goes to the front, any other behind the last one that is not after it and before whatever
    follows that. The same without moving items: each is linked behind its predecessor at the time of its insertion."""
    ranked = sorted((index for index, place in enumerate(places) if place >= 0), key=places.__getitem__)
    before = dict(zip(ranked, [_HEAD, *ranked], strict=False))
    behind = dict(zip([_HEAD, *ranked], [*ranked, _END], strict=True))
    predecessor: dict[int, int] = {}
    for index in reversed(range(len(items))):  # the last inserted first: the rest is what was there before it
        if index in before:
            left, right = before[index], behind[index]
            predecessor[index], behind[left], before[right] = left, right, left
    follows = {_HEAD: _END}
    for index in range(len(items)):
        at = predecessor.get(index, _HEAD)
        follows[index], follows[at] = follows[at], index
    result = []
    index = follows[_HEAD]
    while index != _END:
        result.append(items[index])
        index = follows[index]
    return result


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(below) for key, below in value.items() if below is not None}
        case list():
            return [_without_nulls(item) for item in value]
        case _:
            return value


def _without_directives(value: Any) -> Any:
    """The value without maps that are only instructions; _NOT_KEPT if it is one itself."""
    match value:
        case dict() if DIRECTIVE in value:
            return _NOT_KEPT
        case dict():
            pairs = ((key, _without_directives(below)) for key, below in value.items())
            return {key: below for key, below in pairs if below is not _NOT_KEPT}
        case list():
            kept = (_without_directives(item) for item in value)
            return [item for item in kept if item is not _NOT_KEPT]
        case _:
            return value
