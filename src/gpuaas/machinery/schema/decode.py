"""Reading built-in kinds as Go structs do: one walk that types, prunes, canonicalises and defaults an object.

`normalize` turns plain JSON into the tree the API keeps: unknown fields are left out and reported, nulls vanish,
quantities and times get their canonical spelling, zero values are dropped or written as `Schema.zero` says, and static
defaults are filled in. The result is a fresh tree and normalising it again changes nothing. A value of the wrong type
raises `BadRequest` in the words of kube-apiserver. Each schema node becomes one function on first use.

What a strict client hears about unknown and duplicate fields is in module strict; custom resources are read by module
structural.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.errors import BadRequest
from gpuaas.machinery.schema.model import MISSING, Schema
from gpuaas.machinery.schema.scalars import (
    Unreadable,
    canonical_bytes,
    canonical_micro_time,
    canonical_quantity,
    canonical_time,
    json_type,
)
from gpuaas.machinery.schema.strict import unknown_fields

# A decoder takes the value and a list; it appends to the list when it left an unknown field out.
Decoder = Callable[[Any, list[str]], Any]


@dataclass(frozen=True, slots=True)
class Decoded:
    obj: dict[str, Any]
    unknown: list[str]  # paths such as spec.template.spec.containers[0].x


def normalize(schema: Schema, obj: dict[str, Any], *, keep_unknown: bool = False) -> Decoded:
    """The canonical tree of `obj`. With `keep_unknown` (kinds that are only stored), unknown fields survive."""
    lost: list[str] = []
    try:
        fresh = decoder(schema, keep_unknown)(obj, lost)
    except Unreadable as problem:
        raise _refusal(schema, obj, problem.message) from None
    except NotOfType as problem:
        raise _refusal(schema, obj, str(problem)) from None
    return Decoded(fresh, unknown_fields(schema, obj) if lost else [])


def _refusal(schema: Schema, obj: Any, why: str) -> BadRequest:
    kind = obj.get("kind") if isinstance(obj, dict) else None
    version = str(obj.get("apiVersion", "")).rpartition("/")[2] if isinstance(obj, dict) else ""
    target = _type_name(schema) or kind
    return BadRequest(f'{kind or target} in version "{version}" cannot be handled as a {target}: {why}')


class NotOfType(Exception):
    """A value of the wrong JSON type. Objects on the way out add where it was."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__()
        self.found = found
        self.wanted = wanted
        self.struct = ""
        self.path: list[str] = []  # innermost first

    def inside(self, schema: Schema, key: str) -> None:
        if not self.path:
            self.struct = _type_name(schema)
        self.path.append(key)
        place = schema.properties.get(key)
        if place is not None and place.embedded_in:
            self.path.append(place.embedded_in)

    def __str__(self) -> str:
        if not self.path:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.wanted}"
        place = ".".join([self.struct, *reversed(self.path)])
        return f"json: cannot unmarshal {self.found} into Go struct field {place} of type {self.wanted}"


def _type_name(schema: Schema) -> str:
    return schema.name.rpartition(".")[2]


def _go_type(schema: Schema) -> str:
    """How Go calls the type. Named strings (v1.PullPolicy) are known only where the schema says so."""
    if schema.go_type:
        return schema.go_type
    if schema.name:
        return ".".join(schema.name.split(".")[-2:])
    match schema.type:
        case "array":
            return f"[]{_go_type(schema.items)}" if schema.items else "[]interface {}"
        case "object" if schema.additional:
            return f"map[string]{_go_type(schema.additional)}"
        case "integer":
            return schema.format or "int64"
        case "number":
            return "float64"
        case "boolean":
            return "bool"
        case "string":
            return "[]uint8" if schema.format == "byte" else "string"
        case _:
            return "interface {}"


def decoder(schema: Schema, keep_unknown: bool = False) -> Decoder:
    """The function of a node, made on first use; a node that contains itself finds its own function by name."""
    slot = "decode-keep" if keep_unknown else "decode"
    known: Decoder | None = schema.compiled.get(slot)
    if known is not None:
        return known
    compiled = schema.compiled
    compiled[slot] = lambda value, lost: compiled[slot](value, lost)
    made = _make(schema, keep_unknown)
    compiled[slot] = made
    return made


def _make(schema: Schema, keep: bool) -> Decoder:
    if schema.int_or_string:
        return _decode_int_or_string
    if is_quantity(schema):
        return _with_type(canonical_quantity)
    if schema.name.endswith(".FieldsV1"):
        return _decode_shared
    if schema.objects is not None:
        return _union(schema, schema.objects, keep)
    match schema.type:
        case "string" if schema.format == "date-time":
            return _with_type(canonical_micro_time if _is_micro(schema) else canonical_time)
        case "string" if schema.format == "byte":
            return _with_type(canonical_bytes)
        case "string":
            return _plain(schema, str)
        case "boolean":
            return _plain(schema, bool)
        case "integer":
            return _integer(schema)
        case "number":
            return _number(schema)
        case "array":
            return _array(schema, keep)
        case _ if schema.properties:
            return _object(schema, keep)
        case "object" if schema.additional is not None and not schema.preserve_unknown:
            return _map(schema, keep)
        case _:
            return _decode_raw


def is_quantity(schema: Schema) -> bool:
    return schema.format == "quantity" or schema.name.endswith(".resource.Quantity")


def _is_micro(schema: Schema) -> bool:
    return schema.name.endswith(".MicroTime")


def copy_json(value: Any) -> Any:
    """A tree that shares no dict or list with `value`."""
    if value.__class__ is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if value.__class__ is list:
        return [copy_json(item) for item in value]
    return value


def _decode_raw(value: Any, _lost: list[str]) -> Any:
    return copy_json(value)


def _decode_shared(value: Any, _lost: list[str]) -> Any:
    """Sets of owned fields are never changed, only replaced, and are half of many an object: copying would be waste."""
    return value


def _decode_int_or_string(value: Any, _lost: list[str]) -> Any:
    if value.__class__ is str or (value.__class__ is int and -(1 << 31) <= value < 1 << 31):
        return value
    raise NotOfType(_found_for_number(value), "int32")


def _found_for_number(value: Any) -> str:
    """A number that does not fit is shown with its digits."""
    return f"number {value}" if json_type(value) == "number" else json_type(value)


def _union(schema: Schema, objects: Schema, keep: bool) -> Decoder:
    """An object, or a list of objects, or something else that the name of the type says."""
    convert = decoder(objects, keep)
    or_bool = schema.name.endswith("OrBool")

    def decode(value: Any, lost: list[str]) -> Any:
        if value.__class__ is dict:
            return convert(value, lost)
        if or_bool and value.__class__ is not bool:
            raise Unreadable("boolean or JSON schema expected")
        if value.__class__ is list:
            return [convert({} if item is None else item, lost) for item in value]
        return value if or_bool else None  # Go takes anything else for nothing

    return decode


def _with_type(canonical: Callable[[Any], Any]) -> Decoder:
    def decode(value: Any, _lost: list[str]) -> Any:
        try:
            return canonical(value)
        except Unreadable as problem:
            if not problem.wrong_type:
                raise
            raise NotOfType(json_type(value), problem.wrong_type) from None

    return decode


def _plain(schema: Schema, wanted: type) -> Decoder:
    def decode(value: Any, _lost: list[str]) -> Any:
        if value.__class__ is wanted:
            return value
        raise NotOfType(json_type(value), _go_type(schema))

    return decode


def _integer(schema: Schema) -> Decoder:
    bits = 32 if schema.format == "int32" else 64
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def decode(value: Any, _lost: list[str]) -> Any:
        if value.__class__ is int and low <= value <= high:
            return value
        raise NotOfType(_found_for_number(value), _go_type(schema))

    return decode


def _number(schema: Schema) -> Decoder:
    def decode(value: Any, _lost: list[str]) -> Any:
        if value.__class__ is int or value.__class__ is float:
            return value
        raise NotOfType(json_type(value), _go_type(schema))

    return decode


def _array(schema: Schema, keep: bool) -> Decoder:
    items = schema.items or Schema()
    convert = decoder(items, keep)
    plain = _plain_type(items)
    null = _zero_maker(items, keep)

    def decode(value: Any, lost: list[str]) -> Any:
        if value.__class__ is not list:
            raise NotOfType(json_type(value), _go_type(schema))
        return [item if item.__class__ is plain else null() if item is None else convert(item, lost) for item in value]

    return decode


def _map(schema: Schema, keep: bool) -> Decoder:
    values = schema.additional or Schema()
    convert = decoder(values, keep)
    plain = _plain_type(values)
    null = _zero_maker(values, keep)

    def decode(value: Any, lost: list[str]) -> Any:
        if value.__class__ is not dict:
            raise NotOfType(json_type(value), _go_type(schema))
        return {
            key: item if item.__class__ is plain else null() if item is None else convert(item, lost)
            for key, item in value.items()
        }

    return decode


_NEVER: Final = type("_Never", (), {})


def _plain_type(schema: Schema) -> type:
    """The Python type whose values are taken as they are, so that the caller need not call the decoder."""
    if schema.int_or_string or is_quantity(schema):
        return _NEVER
    match schema.type:
        case "string" if schema.format not in ("date-time", "byte"):
            return str
        case "boolean":
            return bool
        case _:
            return _NEVER


def _object(schema: Schema, keep: bool) -> Decoder:
    fields = {
        key: (_plain_type(place), decoder(place, keep), place.zero == "drop")
        for key, place in schema.properties.items()
    }
    absent = _absent_makers(schema, keep)
    extra = decoder(schema.additional, keep) if schema.additional is not None else _decode_raw
    preserve = keep or schema.preserve_unknown or schema.additional is not None

    def decode(value: Any, lost: list[str]) -> Any:
        if value.__class__ is not dict:
            raise NotOfType(json_type(value), _go_type(schema))
        out: dict[str, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                known = fields.get(key)
                if known is None:
                    if preserve:
                        out[key] = extra(item, lost)
                    else:
                        lost.append(key)
                    continue
                plain, convert, drop = known
                if item.__class__ is plain:
                    if item or not drop:
                        out[key] = item
                elif item is not None:
                    item = convert(item, lost)
                    if (item or not drop) and item is not None:
                        out[key] = item
        except NotOfType as problem:
            problem.inside(schema, key)
            raise
        for name, make in absent:
            if name not in out:
                out[name] = make()
        return out

    return decode


def _absent_makers(schema: Schema, keep: bool) -> list[tuple[str, Callable[[], Any]]]:
    """What to write for fields that are not there: defaults, and the zero values Go always writes."""
    makers: list[tuple[str, Callable[[], Any]]] = []
    for key, place in schema.properties.items():
        if place.default is not MISSING and place.default is not None:
            makers.append((key, _default_maker(place, keep)))
        elif place.zero == "always":
            makers.append((key, _zero_maker(place, keep)))
    return makers


def _default_maker(place: Schema, keep: bool) -> Callable[[], Any]:
    default = place.default
    convert = decoder(place, keep)
    if isinstance(default, dict | list):
        return lambda: convert(default, [])
    return lambda: default


def _zero_maker(place: Schema, keep: bool) -> Callable[[], Any]:
    """Go's zero value of a place, as JSON: null for lists, maps and times, an empty object for structs."""
    if place.int_or_string:
        return lambda: 0
    if is_quantity(place):
        return lambda: "0"
    match place.type:
        case "string":
            return lambda: None if place.format == "date-time" else ""
        case "boolean":
            return lambda: False
        case "integer" | "number":
            return lambda: 0
        case _ if place.properties:
            convert = decoder(place, keep)
            return lambda: convert({}, [])
        case _:
            return lambda: None
