"""The keywords of a schema (`type`, `enum`, `minimum`, `oneOf`, …) as functions that find what is wrong with a value.

`compile_check` makes one function of an OpenAPI dictionary; it calls the functions of its parts. They run for every
write of every custom resource, so a path is a chain of steps that becomes text only when there is an error. Messages,
and which of several failing alternatives is reported, follow kube-openapi's validator.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gpuaas.base.fielderrors import FieldError, invalid, required, show, too_many
from gpuaas.machinery.schema.model import MISSING
from gpuaas.machinery.schema.paths import NO_PATH, Path, text_of
from gpuaas.machinery.schema.valuechecks import (
    INT64,
    Check,
    classes_of,
    enum_check,
    field_of,
    format_of,
    json_kind,
    message,
    number_check,
    string_check,
    type_check,
    types_of,
    unplaced,
)

_SHORT: Final = 64
_SMALL: Final = 512  # bytes
_REMEMBERED: Final = 128  # texts or items for each place: a few kilobytes
_encode = msgspec.json.Encoder().encode


def compile_check(source: Mapping[str, Any]) -> Check:
    parts = [
        part
        for part in (
            type_check(source),
            _junctor_check(source),
            string_check(source),
            number_check(source),
            _list_check(source),
            enum_check(source),
            _object_check(source),
        )
        if part is not None
    ]
    if types_of(source) == ("string",) and (source.get("pattern") or source.get("enum") or format_of(source)):
        return _remembering(parts)
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        first, second = parts

        def check_both(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
            first(value, old, path, errors)
            second(value, old, path, errors)

        return check_both

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        for part in parts:
            part(value, old, path, errors)

    return check


def _remembering(parts: Sequence[Check]) -> Check:
    """Texts that must look a certain way are few and come again and again (reasons, types, names, moments): those found
    to be right need not be looked at again."""
    right: set[str] = set()

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is str and value in right:
            return
        before = len(errors)
        for part in parts:
            part(value, old, path, errors)
        if len(errors) == before and value.__class__ is str and len(value) <= _SHORT:
            if len(right) >= _REMEMBERED:
                right.clear()
            right.add(value)

    return check


def _list_check(source: Mapping[str, Any]) -> Check | None:
    items = source.get("items")
    least, most = source.get("minItems"), source.get("maxItems")
    if not isinstance(items, Mapping) and least is None and most is None:
        return None
    item_check = compile_check(items) if isinstance(items, Mapping) else None
    plain = _plain_type(items) if isinstance(items, Mapping) else None
    keys = tuple(source.get("x-kubernetes-list-map-keys", ())) if source.get("x-kubernetes-list-type") == "map" else ()
    right = _RightItems()

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is not list:
            return
        if item_check is not None:
            before = _by_keys(old, keys) if keys and old.__class__ is list else {}
            for index, item in enumerate(value):
                if item.__class__ is plain:
                    continue
                earlier = before.get(_keys_of(item, keys), MISSING) if before else MISSING
                if earlier is item or earlier == item or (item.__class__ is dict and right.knows(item, item_check)):
                    continue
                item_check(item, earlier, (path, index), errors)
        if least is not None and len(value) < least:
            errors.append(message(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            errors.append(too_many(field_of(text_of(path)), len(value), most))

    return check


class _RightItems:
    """The newest items of a list that were found right whatever was there before: conditions, assignments and the like
    are alike in many objects, and telling so takes a tenth of looking again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def knows(self, item: dict[str, Any], check: Check) -> bool:
        as_bytes = _encode(item)
        if as_bytes in self._known:
            return True
        if len(as_bytes) > _SMALL:
            return False
        errors: list[FieldError] = []
        check(item, MISSING, NO_PATH, errors)
        if errors:
            return False
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.add(as_bytes)
        return True


def _by_keys(items: list[Any], keys: tuple[str, ...]) -> dict[Any, Any]:
    return {_keys_of(item, keys): item for item in items if isinstance(item, Mapping)}


def _keys_of(item: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, Mapping) else None


def _ratcheted(check: Check, value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
    """A part of the object: what is wrong with it does not count if it was so before, so what is as before is not
    even looked at: most of what is written is a small change of something large."""
    if old is MISSING or (old is not value and old != value):
        check(value, old, path, errors)


def _object_check(source: Mapping[str, Any]) -> Check | None:
    needed: Sequence[str] = source.get("required", ())
    least, most = source.get("minProperties"), source.get("maxProperties")
    extra = source.get("additionalProperties")
    fields = {key: (_plain_type(place), compile_check(place)) for key, place in source.get("properties", {}).items()}
    others = (_plain_type(extra), compile_check(extra)) if isinstance(extra, Mapping) else None
    if not needed and not fields and others is None and extra is not False and least is None and most is None:
        return None

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is not dict:
            return
        if least is not None and len(value) < least:
            errors.append(message(path, len(value), f"should have at least {least} properties"))
        if most is not None and len(value) > most:
            errors.append(too_many(field_of(text_of(path)), len(value), most))
        before: Mapping[str, Any] = old if old.__class__ is dict else {}
        for key, item in value.items():
            known = fields.get(key) or others
            if known is None:
                if extra is False:
                    name = text_of(path)
                    errors.append(invalid(field_of(name), key, f"{name}.{key} in body is a forbidden property"))
            elif item.__class__ is not known[0]:
                _ratcheted(known[1], item, before.get(key, MISSING), (path, key), errors)
        errors.extend(required(text_of((path, key))) for key in needed if key not in value)

    return check


def _plain_type(source: Mapping[str, Any]) -> type | None:
    """The Python type whose every value is fine here, so that the caller need not call the check."""
    said = {key for key in source if key not in _SILENT}
    if said == {"type"}:
        return {"string": str, "boolean": bool}.get(source["type"])
    return None


_SILENT: Final = frozenset(("description", "default", "title", "example", "nullable", "x-kubernetes-validations"))


def _junctor_check(source: Mapping[str, Any]) -> Check | None:
    parts = [part for part in (_any_of(source), _one_of(source), _all_of(source), _not(source)) if part is not None]
    if not parts:
        return None

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        if value is not None:
            for part in parts:
                part(value, old, path, errors)

    return check


def _any_of(source: Mapping[str, Any]) -> Check | None:
    choices = [(choice, compile_check(choice)) for choice in source.get("anyOf", ())]
    if not choices:
        return None
    # A choice that says nothing but its type is decided by that: int-or-string is everywhere.
    accepted = classes_of([choice["type"] for choice, _ in choices if set(choice) == {"type"}])

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ in accepted and (value.__class__ is not int or -INT64 <= value < INT64):
            return
        failures: list[tuple[Mapping[str, Any], list[FieldError]]] = []
        for choice, part in choices:
            found: list[FieldError] = []
            part(value, old, path, found)
            if not found:
                return
            failures.append((choice, found))
        errors.append(unplaced(f"{show(text_of(path))} must validate at least one schema (anyOf)"))
        errors.extend(_closest(failures, value))

    return check


def _one_of(source: Mapping[str, Any]) -> Check | None:
    choices = [(choice, compile_check(choice)) for choice in source.get("oneOf", ())]
    if not choices:
        return None

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        failures: list[tuple[Mapping[str, Any], list[FieldError]]] = []
        valid = 0
        for choice, part in choices:
            found: list[FieldError] = []
            part(value, old, path, found)
            if found:
                failures.append((choice, found))
            else:
                valid += 1
        if valid == 1:
            return
        outcome = f"Found {valid} valid alternatives" if valid else "Found none valid"
        text = f"{show(text_of(path))} must validate one and only one schema (oneOf). {outcome}"
        errors.append(unplaced(text))
        if not valid:
            errors.extend(_closest(failures, value))

    return check


def _all_of(source: Mapping[str, Any]) -> Check | None:
    parts = [compile_check(choice) for choice in source.get("allOf", ())]
    if not parts:
        return None

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        valid = 0
        for part in parts:
            before = len(errors)
            part(value, old, path, errors)
            valid += len(errors) == before
        if valid != len(parts):
            ending = "" if valid else ". None validated"
            errors.append(unplaced(f"{show(text_of(path))} must validate all the schemas (allOf){ending}"))

    return check


def _not(source: Mapping[str, Any]) -> Check | None:
    if not isinstance(source.get("not"), Mapping):
        return None
    part = compile_check(source["not"])

    def check(value: Any, old: Any, path: Path, errors: list[FieldError]) -> None:
        found: list[FieldError] = []
        part(value, old, path, found)
        if not found:
            errors.append(unplaced(f"{show(text_of(path))} must not validate the schema (not)"))

    return check


def _closest(failures: list[tuple[Mapping[str, Any], list[FieldError]]], value: Any) -> list[FieldError]:
    """The errors of the alternative with the most checks passed; of the first, when several have as many."""
    return max(failures, key=lambda failure: _reach(failure[0], value))[1] if failures else []


def _reach(source: Mapping[str, Any], value: Any) -> int:
    """How many checks of a schema applied to the value and its parts."""
    types = types_of(source)
    reach = 1 + (2 if types and json_kind(value) in types else 1 if types else 0)
    if isinstance(value, Mapping):
        places = source.get("properties", {})
        reach += sum(4 + _reach(places[key], item) for key, item in value.items() if key in places)
    elif isinstance(value, list) and isinstance(source.get("items"), Mapping):
        reach += sum(4 + _reach(source["items"], item) for item in value)
    return reach
