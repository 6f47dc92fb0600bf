"""What a custom resource's subresources ask of it beyond its schema, and how errors are said when only a part is written."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.api.kinds import Scale
from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.machinery.ssa.gotext import type_name, verb_v

_STATUS_IN_BODY: Final = re.compile(r": status\.(\S+) in body ")
_MAX_INT32: Final = (1 << 31) - 1


def said_of_status(error: FieldError) -> FieldError:
    """A status that is written by itself is spoken of by itself."""
    return FieldError(error.reason, error.path, _STATUS_IN_BODY.sub(r": \1 in body ", error.body, count=1))


def scale_errors(scale: Scale, obj: Mapping[str, Any], subresource: str = "") -> list[FieldError]:
    """What the scale subresource reads must be there in its type, whatever the schema says of it."""
    errors: list[FieldError] = []
    for path in (scale.status_path,) if subresource == "status" else (scale.spec_path, scale.status_path):
        try:
            replicas = _nested(obj, path, int, "int64") or 0
        except TypeError as problem:
            errors.append(invalid(path, 0, str(problem)))
            continue
        if replicas < 0:
            errors.append(invalid(path, replicas, "should be a non-negative integer"))
        elif replicas > _MAX_INT32:
            errors.append(invalid(path, replicas, f"should be less than or equal to {_MAX_INT32}"))
    if scale.selector_path:
        try:
            _nested(obj, scale.selector_path, str, "string")
        except TypeError as problem:
            errors.append(invalid(scale.selector_path, "", str(problem)))
    return errors


def _nested(obj: Any, path: str, wanted: type, spelled: str) -> Any:
    """The value at a path, None where there is none; TypeError in Kubernetes' words where it is of another type."""
    steps = path.strip(".").split(".")
    for depth, step in enumerate(steps):
        if not isinstance(obj, Mapping):
            raise _not_a(obj, steps[:depth], "map[string]interface{}")
        if step not in obj:
            return None
        obj = obj[step]
    if not isinstance(obj, wanted) or isinstance(obj, bool):
        raise _not_a(obj, steps, spelled)
    return obj


def _not_a(value: Any, steps: Sequence[str], wanted: str) -> TypeError:
    found = f"{verb_v(value)} is of the type {type_name(value)}"
    return TypeError(f".{'.'.join(steps)} accessor error: {found}, expected {wanted}")
