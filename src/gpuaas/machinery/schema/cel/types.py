"""The types of CEL: what a schema's values are in an expression, and which type may stand for which.

`of_schema` gives the type of a place in a custom resource; fields of objects are reached by their escaped names
(`foo__dash__bar`, `__namespace__`). `assign` decides whether a value of one type may be passed where another is wanted,
binding type parameters on the way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.machinery.schema.cel.syntax import RESERVED


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    name: str
    params: "tuple[Type, ...]" = ()
    fields: "Mapping[str, tuple[str, Type]] | None" = None  # escaped name → (name in the object, type)
    list_type: str = ""  # set or map: such lists are equal in any order
    list_keys: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        if self.params and not self.name.startswith("type-param"):
            return f"{self.name}({', '.join(str(param) for param in self.params)})"
        return self.name


INT, UINT, DOUBLE, BOOL = Type("int"), Type("uint"), Type("double"), Type("bool")
STRING, BYTES, NULL, DYN = Type("string"), Type("bytes"), Type("null"), Type("dyn")
TIMESTAMP, DURATION, TYPE = Type("timestamp"), Type("duration"), Type("type")
QUANTITY, URL, IP, CIDR = Type("kubernetes.Quantity"), Type("kubernetes.URL"), Type("net.IP"), Type("net.CIDR")
SEMVER, FORMAT = Type("kubernetes.Semver"), Type("kubernetes.NamedFormat")
ERROR = Type("!error!")
A, B = Type("A"), Type("B")  # type parameters


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def meets_text(type_: Type) -> bool:
    """Whether a value of this type, or a part of it, is text in JSON and something else in CEL."""
    if type_ in (TIMESTAMP, DURATION, BYTES):
        return True
    parts = (part for _, part in type_.fields.values()) if type_.fields is not None else type_.params
    return any(meets_text(part) for part in parts)


_NULLABLE: Final = frozenset((TIMESTAMP, DURATION, QUANTITY, URL, IP, CIDR, SEMVER, FORMAT))

Bindings = dict[Type, Type]


def assign(wanted: Type, given: Type, bound: Bindings) -> bool:
    """Whether `given` may stand where `wanted` is asked for."""
    if wanted is A or wanted is B:
        known = bound.get(wanted)
        if known is None:
            bound[wanted] = given
            return True
        if known in (DYN, NULL) and assign(given, known, bound):
            bound[wanted] = DYN if known is DYN else given
            return True
        return assign(known, given, bound)
    if wanted is given or wanted in (DYN, ERROR) or given in (DYN, ERROR) or given is A or given is B:
        return True
    if NULL in (wanted, given):
        other = given if wanted is NULL else wanted
        return other in _NULLABLE or other.fields is not None or other.name == "optional_type"
    if wanted.fields is not None or given.fields is not None:
        return wanted.name == given.name and wanted.fields is given.fields
    return (
        wanted.name == given.name
        and len(wanted.params) == len(given.params)
        and all(assign(*pair, bound) for pair in zip(wanted.params, given.params, strict=True))
    )


def substitute(type_: Type, bound: Bindings) -> Type:
    if type_ is A or type_ is B:
        return bound.get(type_, DYN)
    if type_.params and type_.fields is None:
        return Type(type_.name, tuple(substitute(param, bound) for param in type_.params))
    return type_


_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_SPECIAL: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def escape(name: str) -> str | None:
    """How a property is called in an expression; None when it cannot be."""
    if name in _WORDS:
        return f"__{name}__"
    escaped = re.sub("__|[./-]", lambda found: dict(_SPECIAL)[found.group()], name)
    return escaped if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", escaped) else None


_FORMATS: Final = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_META: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}


def of_schema(source: Mapping[str, Any], name: str = "selfType", *, resource: bool = False) -> Type | None:
    """The type of a place, None where rules cannot see anything. `resource`: it is the root of an object."""
    if source.get("x-kubernetes-int-or-string"):
        return DYN
    match source.get("type", ""):
        case "string":
            return _FORMATS.get(source.get("format", ""), STRING)
        case "integer":
            return INT
        case "number":
            return DOUBLE
        case "boolean":
            return BOOL
        case "array":
            item = of_schema(source.get("items") or {}, f"{name}.@idx")
            if item is None:
                return None
            keys = tuple(source.get("x-kubernetes-list-map-keys", ()))
            return Type("list", (item,), list_type=source.get("x-kubernetes-list-type", ""), list_keys=keys)
        case "object":
            return _object(source, name, resource=resource or bool(source.get("x-kubernetes-embedded-resource")))
        case _:
            return None


def _object(source: Mapping[str, Any], name: str, *, resource: bool) -> Type | None:
    extra = source.get("additionalProperties")
    if isinstance(extra, Mapping):
        value = of_schema(extra, f"{name}.@elem")
        return map_of(STRING, value) if value is not None else None
    if extra is True:
        return map_of(STRING, DYN)
    properties = dict(source.get("properties", {}))
    if resource:
        properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _META}
    fields: dict[str, tuple[str, Type]] = {}
    for key, place in properties.items():
        escaped = escape(key)
        type_ = of_schema(place, f"{name}.{key}")
        if escaped is not None and type_ is not None:
            fields[escaped] = key, type_
            if key in RESERVED:  # reserved as variables only: self.namespace is fine as well
                fields[key] = key, type_
    return Type(name, fields=fields)
