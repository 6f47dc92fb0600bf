"""What is wrong with a policy's expressions, given the types of the objects it is meant for.

A policy is accepted without this: its expressions know nothing of an object before they see one. `warnings` compiles
them again with what the schemas say, for the policy's status.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.base.fielderrors import child
from gpuaas.machinery.schema.cel import Problem, Type, Unsupported, compile_expression
from gpuaas.machinery.schema.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, escape, map_of
from gpuaas.machinery.schema.decode import is_quantity
from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.schema.policies import known_types

_TEXTS: Final = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}


def warnings(
    spec: Mapping[str, Any], kinds: Sequence[tuple[str, Schema]], params: Schema | None
) -> list[dict[str, str]]:
    """`kinds` are those the policy names, as `apps/v1, Kind=Deployment`."""
    known = [(name, _types(spec, schema, params)) for name, schema in kinds]
    found: list[dict[str, str]] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for key in ("expression", "messageExpression"):
            text = validation.get(key) or ""
            problems = [f"{name}: {why}\n" for name, types in known if (why := _problem(text, types))]
            if problems:
                where = child("spec", "validations", index, key)
                found.append({"fieldRef": where, "warning": "\n".join(problems)})
    return found


def _types(spec: Mapping[str, Any], schema: Schema, params: Schema | None) -> dict[str, Type]:
    own = _Types().of(schema, "object") or DYN
    types = {**known_types(spec), "object": own, "oldObject": own}
    if "params" in types and params is not None:
        types["params"] = _Types().of(params, "params") or DYN
    fields: dict[str, tuple[str, Type]] = {}
    if spec.get("variables"):
        types["variables"] = Type("kubernetes.variables", fields=fields)
    for variable in spec.get("variables") or ():
        fields[variable["name"]] = variable["name"], _type_of(variable.get("expression") or "", types)
    return types


def _type_of(text: str, types: Mapping[str, Type]) -> Type:
    try:
        return compile_expression(text, types).type
    except (Problem, Unsupported):
        return DYN


def _problem(text: str, types: Mapping[str, Type]) -> str:
    if not text.strip():
        return ""
    try:
        compile_expression(text, types)
    except Problem as problem:
        return str(problem)
    except Unsupported:
        pass
    return ""


class _Types:
    """The types of a schema's places; a type that contains itself is anything from there on."""

    def __init__(self) -> None:
        self._known: dict[int, Type | None] = {}

    def of(self, schema: Schema, name: str) -> Type | None:
        """None where an expression cannot see the place."""
        if id(schema) not in self._known:
            self._known[id(schema)] = DYN
            self._known[id(schema)] = self._made(schema, name)
        return self._known[id(schema)]

    def _made(self, schema: Schema, name: str) -> Type | None:
        if schema.int_or_string:
            return DYN
        if is_quantity(schema):
            return None
        match schema.type:
            case "string":
                return _TEXTS.get(schema.format, STRING)
            case "integer":
                return INT
            case "number":
                return DOUBLE
            case "boolean":
                return BOOL
            case "array" if schema.items is not None:
                item = self.of(schema.items, f"{name}.@idx")
                return (
                    None
                    if item is None
                    else Type("list", (item,), list_type=schema.list_type, list_keys=schema.list_keys)
                )
            case "object" | "" if schema.properties:
                return Type(name, fields=self._fields(schema, name))
            case "object" if schema.additional is not None:
                value = self.of(schema.additional, f"{name}.@elem")
                return map_of(STRING, value) if value is not None else None
            case "object":
                return Type(name, fields={})
            case _:
                return None

    def _fields(self, schema: Schema, name: str) -> dict[str, tuple[str, Type]]:
        fields: dict[str, tuple[str, Type]] = {}
        for key, place in schema.properties.items():
            escaped, type_ = escape(key), self.of(place, f"{name}.{key}")
            if escaped is not None and type_ is not None:
                fields[escaped] = fields[key] = key, type_
        return fields
