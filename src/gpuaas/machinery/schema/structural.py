"""Reading custom resources: pruning and defaulting by a structural schema.

`read` is what a write goes through: unknown fields are left out and reported, nulls that may not be are dropped or
defaulted, defaults are filled in, and metadata (of the object and of embedded ones) is read like that of built-in
kinds. `prune` and `apply_defaults` are its two halves. The result is a fresh tree; doing it again changes nothing.

Whether the values are right is module validation's question, whether the schema itself is, module definition's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from gpuaas.base.errors import BadRequest
from gpuaas.base.fielderrors import show
from gpuaas.machinery.schema.decode import Decoded, NotOfType, copy_json, decoder
from gpuaas.machinery.schema.model import MISSING, Schema
from gpuaas.machinery.schema.paths import NO_PATH, Path
from gpuaas.machinery.schema.scalars import Unreadable
from gpuaas.machinery.schema.strict import first_paths, unknown_fields

META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))

# A reader takes the value and the list of lost things, and gives the new value.
Reader = Callable[[Any, list[str]], Any]


@dataclass(frozen=True, slots=True)
class _Mode:
    name: str
    prunes: bool
    defaults: bool
    drops_nulls: bool = True


_MOST_PRUNED: Final = 1000  # paths, of which a client hears the first hundred in their order
_LONGEST_INTEGER: Final = 1e21  # what is larger, Go writes with an exponent
_PRUNE: Final = _Mode("prune", prunes=True, defaults=False)
_DEFAULT: Final = _Mode("default", prunes=False, defaults=True)
_READ: Final = _Mode("read", prunes=True, defaults=True)
_APPLIED: Final = _Mode("applied", prunes=True, defaults=True, drops_nulls=False)


def read(schema: Schema, obj: dict[str, Any], *, metadata: Schema | None = None, applied: bool = False) -> Decoded:
    """Prune and default `obj`; with the schema of ObjectMeta, metadata is typed and pruned as well.

    The nulls of one that is `applied` stay, for validation to complain of: who applies them wants to own them.
    """
    lost: list[str] = []
    fresh = _reader(schema, _APPLIED if applied else _READ, root=True)(obj, lost)
    unknown = _pruned_paths(schema, obj) if lost else []
    if metadata is not None:
        meta_unknown = _read_metadata(schema, fresh, metadata)
        if meta_unknown:
            unknown = sorted([*unknown, *meta_unknown])
    return Decoded(fresh, unknown)


def prune(schema: Schema, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The object without the fields its schema does not know, and their paths, sorted."""
    lost: list[str] = []
    fresh = _reader(schema, _PRUNE, root=True)(obj, lost)
    return fresh, _pruned_paths(schema, obj) if lost else []


def apply_defaults(schema: Schema, obj: dict[str, Any]) -> dict[str, Any]:
    """The object with defaults filled in and without nulls where null is neither allowed nor defaulted."""
    fresh: dict[str, Any] = _reader(schema, _DEFAULT, root=True)(obj, [])
    return fresh


def _reader(schema: Schema, mode: _Mode, *, root: bool = False) -> Reader:
    slot = f"{mode.name}-root" if root else mode.name
    known: Reader | None = schema.compiled.get(slot)
    if known is not None:
        return known
    compiled = schema.compiled
    compiled[slot] = lambda value, lost: compiled[slot](value, lost)
    made = _make(schema, mode, root=root)
    compiled[slot] = made
    return made


def _make(schema: Schema, mode: _Mode, *, root: bool) -> Reader:
    """Objects and lists are walked by what the value is, not by what the schema says: validation comes later."""
    walk_object = _object_reader(schema, mode, root=root)
    walk_list = _list_reader(schema, mode)

    def run(value: Any, lost: list[str]) -> Any:
        if value.__class__ is dict:
            return walk_object(value, lost)
        if value.__class__ is list:
            return walk_list(value, lost)
        return value if value.__class__ is not float else whole(value)

    return run


def _object_reader(schema: Schema, mode: _Mode, *, root: bool) -> Reader:
    fields = {key: (_reader(place, mode), *_null_rule(place, mode)) for key, place in schema.properties.items()}
    extra = schema.additional
    others = (_reader(extra, mode), *_null_rule(extra, mode)) if extra is not None else None
    keeps = schema.preserve_unknown or not mode.prunes
    keeps_meta = root or schema.embedded
    defaults = [
        (key, place.default, _reader(place, mode))
        for key, place in schema.properties.items()
        if mode.defaults and place.default is not MISSING and place.default is not None
    ]

    def run(value: dict[str, Any], lost: list[str]) -> Any:
        out: dict[str, Any] = {}
        for key, item in value.items():
            known = fields.get(key) or others
            if known is None:
                if keeps or (keeps_meta and key in META_FIELDS):
                    out[key] = _copy(item)
                else:
                    lost.append(key)
                continue
            walk, drops_null, null_default = known
            if item is None:
                if not drops_null:
                    out[key] = None if null_default is MISSING else walk(null_default, lost)
            elif item.__class__ is dict or item.__class__ is list:
                out[key] = copy_json(item) if keeps_meta and key == "metadata" else walk(item, lost)
            else:
                out[key] = item if item.__class__ is not float else whole(item)
        for key, default, walk in defaults:
            if key not in out:
                out[key] = walk(default, [])
        return out

    return run


def _null_rule(place: Schema, mode: _Mode) -> tuple[bool, Any]:
    """Whether a null is dropped, and what stands in for it (MISSING: the null stays)."""
    if not mode.defaults or place.nullable or _is_anything(place):
        return False, MISSING
    if place.default is MISSING or place.default is None:
        return mode.drops_nulls, MISSING
    return False, place.default


def _is_anything(place: Schema) -> bool:
    """`additionalProperties: true` has no schema for its values, so nothing is said about their nulls."""
    return place.preserve_unknown and not place.source


def _list_reader(schema: Schema, mode: _Mode) -> Reader:
    items = schema.items
    if items is None:
        return _lose_fields if mode.prunes and not schema.preserve_unknown else lambda value, _lost: _copy(value)
    walk = _reader(items, mode)
    stand_in = items.default if mode.defaults and not items.nullable and items.default is not MISSING else None

    def run(value: list[Any], lost: list[str]) -> Any:
        return [walk(stand_in if item is None else item, lost) for item in value]

    return run


def _copy(value: Any) -> Any:
    if value.__class__ is dict:
        return {key: _copy(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_copy(item) for item in value]
    return value if value.__class__ is not float else whole(value)


def whole(number: float) -> float:
    """1.0 is written as 1 by Go, whatever its type, and is an integer from then on."""
    if not isfinite(number):  # too large: it could not be encoded again
        raise BadRequest("json: cannot unmarshal number into Go value of type float64: value out of range")
    return int(number) if number.is_integer() and abs(number) < _LONGEST_INTEGER else number


def _lose_fields(value: Any, lost: list[str]) -> Any:
    """A list without a schema for its items: objects in it have no known field."""
    if value.__class__ is dict:
        lost.extend(value)
        return {}
    if value.__class__ is list:
        return [_lose_fields(item, lost) for item in value]
    return value


def _pruned_paths(schema: Schema, obj: Mapping[str, Any]) -> list[str]:
    return sorted(first_paths(_pruned(schema, obj, NO_PATH, root=True), _MOST_PRUNED))


def _pruned(schema: Schema | None, value: Any, path: Path, *, root: bool = False) -> Iterator[Path]:
    match value:
        case dict():
            for key, item in value.items():
                if key in META_FIELDS and (root or (schema is not None and schema.embedded)):
                    continue
                place = (schema.properties.get(key) or schema.additional) if schema is not None else None
                if place is not None:
                    yield from _pruned(place, item, (path, key))
                elif schema is None or not schema.preserve_unknown:
                    yield path, key
        case list() if schema is None or schema.items is not None or not schema.preserve_unknown:
            for index, item in enumerate(value):
                yield from _pruned(schema.items if schema is not None else None, item, (path, index))


def _read_metadata(schema: Schema, obj: dict[str, Any], metadata: Schema) -> list[str]:
    """Type and prune metadata in place (the tree is ours), of the root and of every embedded resource."""
    unknown: list[str] = []
    if "metadata" in obj:
        unknown.extend(f"metadata.{path}" for path in unknown_fields(metadata, obj["metadata"]))
        obj["metadata"] = _decode_metadata(metadata, obj["metadata"], obj, "")
    if has_embedded(schema):
        _read_embedded(schema, obj, "", obj, metadata, unknown)
    return unknown


def _decode_metadata(metadata: Schema, value: Any, obj: dict[str, Any], path: str) -> Any:
    try:
        return decoder(metadata)(value, [])
    except (Unreadable, NotOfType) as problem:
        why = f"{path}: Invalid value: {show(in_order(value))}: {problem}" if path else str(problem)
        raise _refusal(obj, why) from None


def _refusal(obj: dict[str, Any], why: str) -> BadRequest:
    kind, version = obj.get("kind"), str(obj.get("apiVersion", "")).rpartition("/")[2]
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def in_order(value: Any) -> Any:
    """The value with the keys of its objects sorted: how Go prints a map."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def has_embedded(schema: Schema) -> bool:
    """Whether some place below holds an embedded resource; remembered, because nearly no schema has one."""
    known: bool | None = schema.compiled.get("embedded")
    if known is None:
        below = [*schema.properties.values(), schema.items, schema.additional]
        known = schema.embedded or any(has_embedded(place) for place in below if place is not None)
        schema.compiled["embedded"] = known
    return known


def _read_embedded(
    schema: Schema, value: Any, path: str, obj: dict[str, Any], metadata: Schema, unknown: list[str]
) -> None:
    if isinstance(value, dict):
        for key in ("apiVersion", "kind"):
            if schema.embedded and not isinstance(value.get(key, ""), str):
                raise _refusal(obj, f"{path}.{key}: Invalid value: {show(in_order(value[key]))}: must be a string")
        if schema.embedded and "metadata" in value:
            where = f"{path}.metadata"
            unknown.extend(f"{where}.{name}" for name in unknown_fields(metadata, value["metadata"]))
            value["metadata"] = _decode_metadata(metadata, value["metadata"], obj, where)
        for key, item in value.items():
            place = schema.properties.get(key) or schema.additional
            if place is not None and has_embedded(place):
                _read_embedded(place, item, f"{path}.{key}" if path else key, obj, metadata, unknown)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            _read_embedded(schema.items, item, f"{path}[{index}]", obj, metadata, unknown)
