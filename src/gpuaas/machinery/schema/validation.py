"""Whether the values of a custom resource are what its schema asks for, in kube-apiserver's words.

`validate` gives every field error at once: the schema's keywords first, then embedded resources, then duplicates in
sets and maps. With the old object, what was wrong before and has not been touched is tolerated (ratcheting), so that a
stricter schema does not lock existing objects. Rules in CEL are module rules' question, and are only asked when
`blocks_rules` finds nothing: a rule may not see values of the wrong type.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from gpuaas.api.metadata import validate_metadata
from gpuaas.base.fielderrors import FieldError, duplicate, invalid, keyed, required
from gpuaas.base.fielderrors import child as child_path
from gpuaas.base.names import is_dns1035_label, is_path_segment
from gpuaas.machinery.schema.keywords import compile_check
from gpuaas.machinery.schema.model import MISSING, Schema
from gpuaas.machinery.schema.paths import NO_PATH
from gpuaas.machinery.schema.structural import has_embedded, in_order
from gpuaas.machinery.schema.valuechecks import Check

_MOST_ERRORS: Final = 2_000
_ERROR_TEXT: Final = 1 << 20  # characters of paths and messages

_BLOCKING = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)


def validate(schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[FieldError]:
    """What is wrong with `obj`; on update, `old` is the object it replaces."""
    check: Check | None = schema.compiled.get("validate")
    if check is None:
        check = schema.compiled["validate"] = compile_check(schema.source)
    errors = _run(check, obj, MISSING if old is None else old)
    if has_embedded(schema):
        errors.extend(_check_embedded(schema, obj, ""))
    if has_list_types(schema):
        changed = obj if old is None else {key: item for key, item in obj.items() if old.get(key) != item}
        if check_lists(schema, changed) and (old is None or not check_lists(schema, old)):
            errors.extend(check_lists(schema, obj))
    return errors


def blocks_rules(errors: Sequence[FieldError]) -> FieldError | None:
    """The error that stands in for unchecked rules, when the object is too wrong to ask them."""
    if not any(error.reason in _BLOCKING for error in errors):
        return None
    return invalid(
        "<nil>",
        None,
        "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
        " validation",
    )


def check_value(source: Mapping[str, Any], value: Any, prefix: str) -> list[FieldError]:
    """The schema's keywords on a value that is not an object of its own; `prefix` is where it stands."""
    return [_placed(error, prefix) for error in _run(compile_check(source), value, MISSING)]


def _run(check: Check, value: Any, old: Any) -> list[FieldError]:
    errors = _Findings()
    with suppress(_EnoughError):  # what has been found says what is wrong
        check(value, old, NO_PATH, errors)
    if errors and old is not MISSING and old == value:
        return []
    return list(dict.fromkeys(errors))


class _EnoughError(Exception):
    """More is wrong than anybody will read."""


class _Findings(list[FieldError]):
    """The errors of one object, up to a budget: each repeats the path to its place and the value there, so that a few
    long keys would make gigabytes of them."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _ERROR_TEXT

    def append(self, error: FieldError) -> None:
        super().append(error)
        self._left -= len(error.path) + len(error.body)
        if self._left < 0 or len(self) >= _MOST_ERRORS:
            raise _EnoughError

    def extend(self, errors: Iterable[FieldError]) -> None:
        for error in errors:
            self.append(error)


def _placed(error: FieldError, prefix: str) -> FieldError:
    path = prefix if error.path == "<nil>" else f"{prefix}.{error.path}"
    return FieldError(error.reason, path, error.body)


def has_list_types(schema: Schema) -> bool:
    """Whether some list below is a set or a map; remembered."""
    known: bool | None = schema.compiled.get("list-types")
    if known is None:
        below = [*schema.properties.values(), schema.items, schema.additional]
        known = schema.list_type != "atomic" or any(has_list_types(place) for place in below if place is not None)
        schema.compiled["list-types"] = known
    return known


def _with_list_types(schema: Schema) -> dict[str, Schema]:
    """The fields that lead to a set or a map; remembered."""
    known: dict[str, Schema] | None = schema.compiled.get("list-fields")
    if known is None:
        known = {key: place for key, place in schema.properties.items() if has_list_types(place)}
        schema.compiled["list-fields"] = known
    return known


def check_lists(schema: Schema, value: Any, path: str = "") -> list[FieldError]:
    """Duplicates in lists that are sets or maps."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        fields = _with_list_types(schema)
        extra = schema.additional if schema.additional is not None and has_list_types(schema.additional) else None
        for key, item in value.items():
            place = fields.get(key)
            if place is not None:
                errors.extend(check_lists(place, item, child_path(path, key)))
            elif extra is not None and key not in schema.properties:
                errors.extend(check_lists(extra, item, keyed(path, key)))
    elif isinstance(value, list):
        if schema.list_type != "atomic":
            errors.extend(_duplicates(schema, value, path))
        if schema.items is not None and has_list_types(schema.items):
            for index, item in enumerate(value):
                errors.extend(check_lists(schema.items, item, child_path(path, index)))
    return errors


def _surely_unique(schema: Schema, items: list[Any]) -> bool:
    """Items of most lists differ by one text each: a set of texts is much faster than comparing values."""
    texts = items
    if schema.list_type == "map":
        if len(schema.list_keys) != 1 or any(item.__class__ is not dict for item in items):
            return False
        key = schema.list_keys[0]
        texts = [item.get(key) for item in items]
    return all(text.__class__ is str for text in texts) and len(set(texts)) == len(texts)


def _duplicates(schema: Schema, items: list[Any], path: str) -> list[FieldError]:
    if _surely_unique(schema, items):
        return []
    if schema.list_type == "map":
        for index, item in enumerate(items):
            if item is not None and not isinstance(item, dict):
                return [invalid(child_path(path, index), item, "must be an object for an array of list-type map")]
        names: list[Any] = [
            {key: (item or {})[key] for key in schema.list_keys if key in (item or {})} for item in items
        ]
    else:
        names = items
    errors: list[FieldError] = []
    counts: dict[Any, int] = {}
    if len(names) < 2:
        return errors
    for index, name in enumerate(names):
        identity = _identity(name)
        counts[identity] = counts.get(identity, 0) + 1
        if counts[identity] == 2:  # a third time is not news
            errors.append(duplicate(child_path(path, index), in_order(name)))
    return errors


def _identity(value: Any) -> Any:
    """Something hashable that is equal exactly when the JSON values are."""
    if isinstance(value, dict):
        return "object", frozenset((key, _identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(_identity(item) for item in value)
    return type(value), value


def _check_embedded(schema: Schema, value: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if isinstance(value, Mapping):
        if schema.embedded:
            errors.extend(_check_type_meta(value, path))
            errors.extend(_check_object_meta(value, child_path(path, "metadata")))
        for key, item in value.items():
            place = schema.properties.get(key)
            if place is not None and has_embedded(place):
                errors.extend(_check_embedded(place, item, child_path(path, key)))
            elif place is None and schema.additional is not None:
                errors.extend(_check_embedded(schema.additional, item, keyed(path, key)))
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            errors.extend(_check_embedded(schema.items, item, child_path(path, index)))
    return errors


def _check_type_meta(value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("apiVersion", "kind"):
        where = child_path(path, name)
        if name not in value:
            errors.append(required(where))
        elif not value[name]:
            errors.append(invalid(where, "", "must not be empty"))
        elif name == "apiVersion" and value[name].count("/") > 1:
            errors.append(invalid(where, value[name], f"unexpected GroupVersion string: {value[name]}"))
        elif name == "kind" and (complaints := is_dns1035_label(value[name].lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(complaints)}"
            errors.append(invalid(where, value[name], detail))
    return errors


def _check_object_meta(value: Mapping[str, Any], path: str) -> list[FieldError]:
    """Of an object inside of another, which need not have a name yet. What is not of its type was dropped before."""
    said = value.get("metadata")
    if not isinstance(said, Mapping):
        return []
    metadata = {key: item for key, item in said.items() if key not in _META_TYPES or _META_TYPES[key](item)}
    metadata["name"] = metadata.get("name") or "x"
    return validate_metadata({"metadata": metadata}, bool(metadata.get("namespace")), is_path_segment, path)


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())


_META_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": lambda value: isinstance(value, str),
    "generateName": lambda value: isinstance(value, str),
    "namespace": lambda value: isinstance(value, str),
    "generation": lambda value: isinstance(value, int),
    "labels": _texts,
    "annotations": _texts,
    "finalizers": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "ownerReferences": lambda value: isinstance(value, list) and all(isinstance(item, Mapping) for item in value),
}
