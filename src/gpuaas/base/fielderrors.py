"""What is wrong with one field of an object, in Kubernetes' words and order of words.

A `FieldError` knows its path (`spec.containers[0].name`), its kind and its text; validation functions return lists of
them and never raise, so that a user sees everything that is wrong at once.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

_REMEMBERED: Final = 512  # characters of a path


@dataclass(frozen=True, slots=True)
class FieldError:
    reason: str  # the cause's machine-readable reason, e.g. FieldValueInvalid
    path: str
    body: str  # the message without the path: 'Invalid value: "x": must be …'

    def __str__(self) -> str:
        return f"{self.path}: {self.body}" if self.path else f"<nil>: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, _join("Required value", detail))


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, _join(f"Invalid value: {show(value)}", detail))


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, _join(f"Invalid value: {show(value)}", detail))


def not_supported(path: str, value: Any, allowed: Sequence[str], *, in_order: bool = False) -> FieldError:
    """`in_order`: what is allowed is named in the order given, not by name."""
    supported = ", ".join(f'"{choice}"' for choice in (allowed if in_order else sorted(allowed)))
    detail = f"supported values: {supported}" if supported else ""
    return FieldError("FieldValueNotSupported", path, _join(f"Unsupported value: {show(value)}", detail))


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {show(value)}")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, _join("Forbidden", detail))


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    noun = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {noun}")


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, f"Not found: {show(value)}")


def internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, f"Internal error: {detail}")


def show(value: Any) -> str:
    """A value as messages print it: strings quoted, numbers and booleans plain, the rest as JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote(text: str) -> str:
    """Text in quotes, escaped as Go does it."""
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return '"' + "".join(_ESCAPES.get(ord(char)) or _visible(char) for char in text) + '"'


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def child(path: str, *steps: str | int) -> str:
    """`child("spec", "containers", 0, "name")` is `spec.containers[0].name`.

    Remembered: rules name the place they look at before they know that all is well there, for every object the same. A path through a key that a client chose may be long.
    """
    return _child(path, *steps) if len(path) <= _REMEMBERED else _child.__wrapped__(path, *steps)


@lru_cache(maxsize=4_096)
def _child(path: str, *steps: str | int) -> str:
    for step in steps:
        if isinstance(step, int):
            path = f"{path}[{step}]"
        else:
            path = f"{path}.{step}" if path else step
    return path


def keyed(path: str, key: str) -> str:
    """`keyed("metadata.labels", "a/b")` is `metadata.labels[a/b]`: an entry of a map."""
    return f"{path}[{key}]"


def _join(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head
