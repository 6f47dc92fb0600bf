"""Checks of single values: `type`, `format`, `enum`, bounds, lengths and patterns, in kube-openapi's words.

Each `*_check` function makes a check from a schema, or None where the schema says nothing of that sort. How the checks
of the parts of an object are put together is in module keywords.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, invalid, show, too_long, type_invalid
from gpuaas.machinery.schema.formats import format_check, is_recognized
from gpuaas.machinery.schema.gopattern import BadPattern, go_regex
from gpuaas.machinery.schema.paths import Path, text_of

# What a check gets: the value, its old value (MISSING when there is none to compare with), the path, the errors so far.
Check = Callable[[Any, Any, Path, list[FieldError]], None]


def field_of(name: str) -> str:
    return name or "<nil>"


def message(path: Path, value: Any, words: str) -> FieldError:
    name = text_of(path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return invalid(field_of(name), value, f"{name} in body {words}")


def unplaced(detail: str) -> FieldError:
    """Errors the original reports without a field."""
    return invalid("<nil>", "", detail)


def json_kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


_NUMBER_FORMATS: Final = {"integer": "int64", "number": "float64"}


def types_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    if source.get("x-kubernetes-int-or-string"):
        return "integer", "string"
    return (source["type"],) if source.get("type") else ()


_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


INT64: Final = 1 << 63
"""Go decodes an integer beyond as a float, which counts as an integer only where it is exact."""


def classes_of(types: Sequence[str]) -> frozenset[type]:
    """The Python types that certainly are of one of the types."""
    return frozenset(each for name in types for each in _CLASSES.get(name, ()))


def format_of(source: Mapping[str, Any]) -> str:
    """The format, if it is one that counts for the type."""
    types = types_of(source)
    kind = types[0] if len(types) == 1 else ""
    name = source.get("format", "")
    return name if name and is_recognized(kind, name) else ""


def type_check(source: Mapping[str, Any]) -> Check | None:
    types, form = types_of(source), format_of(source)
    if not types and not form:
        return None
    nullable = bool(source.get("nullable"))
    joined = ",".join(types)
    accepted = classes_of(types)

    def wrong(path: Path, wanted: str, found: str, errors: list[FieldError]) -> None:
        name = text_of(path)
        errors.append(type_invalid(field_of(name), found, f'{name} in body must be of type {wanted}: "{found}"'))

    def check(value: Any, _old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ in accepted and (value.__class__ is not int or -INT64 <= value < INT64):
            return
        kind = "number" if value.__class__ is int and value.__class__ in accepted else json_kind(value)
        if value is None:
            if types and not nullable:
                wrong(path, joined, "null", errors)
            return
        if kind == "number" and "integer" in types and value == int(value) and abs(value) < _EXACT:
            return
        if form and kind not in ("string", "array"):
            wrong(path, form, _NUMBER_FORMATS.get(kind, ""), errors)
        elif types and not (form and "integer" not in types and "number" not in types):
            wrong(path, joined, kind, errors)

    return check


_EXACT: Final = 1 << 53  # integers below are exact in a float


def string_check(source: Mapping[str, Any]) -> Check | None:
    longest, shortest = source.get("maxLength"), source.get("minLength")
    pattern = source.get("pattern", "")
    form = format_of(source)
    has_format = format_check(source.get("type", ""), form) if form else None
    if longest is None and shortest is None and not pattern and has_format is None:
        return None
    matches = _matcher(pattern) if pattern else None

    def check(value: Any, _old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is not str:
            return
        if longest is not None and len(value) > longest:
            errors.append(too_long(field_of(text_of(path)), longest))
        elif shortest is not None and len(value) < shortest:
            errors.append(message(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            errors.append(message(path, value, f"should match '{pattern}'"))
        if has_format is not None and not has_format(value):
            name = text_of(path)
            detail = f"{name} in body must be of type {form}: {show(value)}"
            errors.append(type_invalid(field_of(name), value, detail))

    return check


def _matcher(pattern: str) -> Callable[[str], Any]:
    try:
        return go_regex(pattern).search
    except BadPattern:  # refused when the definition was made; an older one matches nothing
        return lambda _: None


def number_check(source: Mapping[str, Any]) -> Check | None:
    types, form = types_of(source), format_of(source)
    kind = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    bounds = [
        part for part in (_multiple_check(source), _minimum_check(source), _maximum_check(source)) if part is not None
    ]
    if kind != "integer" and not bounds:
        return None
    limit = 1 << (31 if form == "int32" else 63)
    described = f"{kind} with format {form}" if form else f"{kind} (default format)"

    def check(value: Any, _old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is not int and value.__class__ is not float:
            return
        if kind == "integer" and not (-limit <= value < limit and value == int(value)):
            errors.append(unplaced(f"Checked value must be of type {described} in {text_of(path)}"))
        for part in bounds:
            words = part(value)
            if words:
                errors.append(message(path, value, words))

    return check


def _multiple_check(source: Mapping[str, Any]) -> Callable[[Any], str] | None:
    factor = source.get("multipleOf")
    if factor is None or factor <= 0:
        return None

    def words(value: Any) -> str:
        if isinstance(value, int) and float(factor).is_integer():
            whole = value % int(factor) == 0
        else:
            ratio = 1 / factor * value if factor < 1 else value / factor
            whole = abs(ratio - round(ratio)) < 1e-9
        return "" if whole else f"should be a multiple of {go_number(factor)}"

    return words


def _minimum_check(source: Mapping[str, Any]) -> Callable[[Any], str] | None:
    least = source.get("minimum")
    if least is None:
        return None
    if source.get("exclusiveMinimum"):
        return lambda value: "" if value > least else f"should be greater than {go_number(least)}"
    return lambda value: "" if value >= least else f"should be greater than or equal to {go_number(least)}"


def _maximum_check(source: Mapping[str, Any]) -> Callable[[Any], str] | None:
    most = source.get("maximum")
    if most is None:
        return None
    if source.get("exclusiveMaximum"):
        return lambda value: "" if value < most else f"should be less than {go_number(most)}"
    return lambda value: "" if value <= most else f"should be less than or equal to {go_number(most)}"


def go_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e21 else repr(number)


def enum_check(source: Mapping[str, Any]) -> Check | None:
    allowed = source.get("enum")
    if not allowed:
        return None
    texts = [choice if isinstance(choice, str) else json.dumps(choice, separators=(",", ":")) for choice in allowed]
    listed = ", ".join(f'"{text}"' for text in texts)
    strings = frozenset(choice for choice in allowed if isinstance(choice, str))

    def check(value: Any, _old: Any, path: Path, errors: list[FieldError]) -> None:
        if value.__class__ is str:
            if value in strings:
                return
        elif value is not None and any(_equal(value, choice) for choice in allowed):
            return
        body = f"Unsupported value: {show(value)}: supported values: {listed}"
        errors.append(FieldError("FieldValueNotSupported", field_of(text_of(path)), body))

    return check


def _equal(value: Any, choice: Any) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)
