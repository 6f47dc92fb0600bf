"""Which devices an expression of CEL selects, as a claim, a class or Kueue's configuration writes it.

An expression knows one variable, `device`: its driver, its attributes and its capacity by domain and name. A name without
a domain is of the driver's; a domain no device has is an empty one, an unknown name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from gpuaas.base.quantity import parse_quantity
from gpuaas.machinery.schema.cel import CelError, Expression, Problem, Type, Unsupported, compile_expression
from gpuaas.machinery.schema.cel.budget import BUDGET, Budget, Exhausted
from gpuaas.machinery.schema.cel.library_formats import read_semver
from gpuaas.machinery.schema.cel.types import BOOL, DYN, QUANTITY, STRING, map_of

Object = Mapping[str, Any]

_DEVICE: Final = Type(
    "kubernetes.DRADevice",
    fields={
        "driver": ("driver", STRING),
        "attributes": ("attributes", map_of(STRING, map_of(STRING, DYN))),
        "capacity": ("capacity", map_of(STRING, map_of(STRING, QUANTITY))),
    },
)


class SelectorError(Exception):
    """An expression that could not be evaluated for a device."""


@lru_cache(maxsize=256)
def compiled(text: str) -> Expression | str:
    """The expression, or what is wrong with it."""
    try:
        expression = compile_expression(text, {"device": _DEVICE})
    except Problem as problem:
        return f"compilation failed: {problem}"
    except Unsupported as missing:
        return f"compilation failed: {missing} is not known here"
    if expression.type not in (BOOL, DYN):
        return f"must evaluate to bool or the unknown type, not {expression.type}"
    return expression


def selects(expressions: Iterable[Expression], device: Object) -> bool:
    """Whether all of them hold for what `facts` gave; `SelectorError` where one cannot be evaluated."""
    budget = Budget()
    for expression in expressions:
        budget.begin()
        try:
            found = expression.run({"device": device, BUDGET: budget})
        except CelError as error:
            raise SelectorError(str(error)) from None
        except Exhausted:
            raise SelectorError("the expression costs more than it may") from None
        budget.end()
        if not isinstance(found, bool):
            raise SelectorError("the expression did not come to true or false")
        if not found:
            return False
    return True


def facts(driver: str, device: Object) -> Object:
    """A device of a ResourceSlice as expressions see it."""
    attributes, capacity = _Domains(), _Domains()
    for name, value in (device.get("attributes") or {}).items():
        _put(attributes, name, driver, _attribute(value))
    for name, value in (device.get("capacity") or {}).items():
        _put(capacity, name, driver, parse_quantity(str((value or {}).get("value", "0"))))
    return {"driver": driver, "attributes": attributes, "capacity": capacity}


class _Domains(dict[str, dict[str, Any]]):
    """A domain that no device has is empty; it is still not among the keys."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


def _put(domains: _Domains, name: str, driver: str, value: Any) -> None:
    domain, slash, short = name.partition("/")
    domains.setdefault(domain if slash else driver, {})[short if slash else name] = value


def _attribute(value: Object) -> Any:
    for kind in ("int", "bool", "string"):
        if kind in value:
            return value[kind]
    return read_semver(str(value.get("version", "")))
