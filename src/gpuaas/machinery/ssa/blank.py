"""The object a kind starts from before anything is set: what Go's empty value of the type encodes as.

Creating an object is changing it from this one, and a struct that is always there was not added by anybody; that is
why `f:spec` of a pod has no "." and `f:ports` has one. Fields are present where the schema says that Go always writes
them (`Schema.zero`), and required lists and maps of such types are null. Custom resources start from nothing.
"""

from typing import Any

from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.atoms import Atom

_ZERO = {"string": "", "integer": 0, "number": 0, "boolean": False}


def blank_of(atom: Atom) -> dict[str, Any]:
    """The empty object of a root type; made once for each."""
    if atom.blank is None:
        atom.blank = _struct(atom.schema) if atom.schema is not None else {}
    result: dict[str, Any] = atom.blank
    return result


def _struct(schema: Schema) -> dict[str, Any]:
    properties = schema.properties
    typed = any(child.zero for child in properties.values())
    result: dict[str, Any] = {}
    for name, child in properties.items():
        null_container = typed and name in schema.required and not child.zero and not child.properties
        if child.zero == "always" or null_container:
            result[name] = _zero(child)
    return result


def _zero(schema: Schema) -> Any:
    if schema.properties:
        return _struct(schema)
    return _ZERO.get(schema.type)
