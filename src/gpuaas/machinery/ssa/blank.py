"""The object a kind starts from before anything is set: what Go's empty value of the type encodes as.

Creating an object is changing it from this one, and a struct that is always there was not added by anybody; that is
why `f:spec` of a pod has no "." and `f:ports` has one. Fields are present where the schema says that Go always writes
them (`Schema.zero`); lists and maps among them are null. Custom resources start from nothing.
"""

from typing import Any

from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.atoms import ZERO, Atom


def blank_of(atom: Atom) -> dict[str, Any]:
    """The empty object of a root type; made once for each."""
    if atom.blank is None:
        atom.blank = _struct(atom.schema) if atom.schema is not None else {}
    result: dict[str, Any] = atom.blank
    return result


def _struct(schema: Schema) -> dict[str, Any]:
    return {name: _zero(child) for name, child in schema.properties.items() if child.zero in ("always", "null")}


def _zero(schema: Schema) -> Any:
    if schema.zero == "null":
        return None
    if schema.properties:
        return _struct(schema)
    return ZERO.get(schema.type)
