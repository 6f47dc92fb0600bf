"""The small checks that many rules share, each with Kubernetes' words: numbers, enumerations, names, what may not change.

Every function returns a list of errors, so that callers add them up.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.api.metadata import IMMUTABLE, NEGATIVE, View, qualified_messages
from gpuaas.base.fielderrors import FieldError, invalid, not_supported, required, show
from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain

MAX_INT32: Final = (1 << 31) - 1
NOT_POSITIVE: Final = "must be greater than zero"


def nonnegative(value: int | None, path: str) -> list[FieldError]:
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def positive(value: int | None, path: str) -> list[FieldError]:
    return [invalid(path, value, NOT_POSITIVE)] if value is not None and value <= 0 else []


def in_range(value: int, low: int, high: int, path: str) -> list[FieldError]:
    return [] if low <= value <= high else [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def port_number(value: int, path: str) -> list[FieldError]:
    return in_range(value, 1, 65_535, path)


def unchanged(new: Any, old: Any, path: str) -> list[FieldError]:
    """A field that may not change; absent and null are the same."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def one_of(value: str | None, allowed: Sequence[str], path: str, *, sort: bool = True) -> list[FieldError]:
    """A required choice. Some of Kubernetes' messages list the choices in their own order: `sort=False`."""
    if not value:
        return [required(path)]
    return known(value, allowed, path, sort=sort)


def known(value: str, allowed: Sequence[str], path: str, *, sort: bool = True) -> list[FieldError]:
    """Like `one_of`, where an empty value is wrong like any other."""
    if value in allowed:
        return []
    if sort:
        return [not_supported(path, value, allowed)]
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    return [
        FieldError("FieldValueNotSupported", path, f"Unsupported value: {show(value)}: supported values: {choices}")
    ]


def dns_label(value: str, path: str) -> list[FieldError]:
    return [invalid(path, value, message) for message in is_dns1123_label(value)]


def dns_subdomain(value: str, path: str) -> list[FieldError]:
    return [invalid(path, value, message) for message in is_dns1123_subdomain(value)]


def qualified_name(value: str, path: str) -> list[FieldError]:
    return [invalid(path, value, message) for message in qualified_messages(value)]


def port_name(value: str, path: str) -> list[FieldError]:
    messages: list[str] = []
    if len(value) > 15:
        messages.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return [invalid(path, value, message) for message in messages]


def port_number_or_name(value: int | str, path: str) -> list[FieldError]:
    return port_name(value, path) if isinstance(value, str) else port_number(value, path)


def shown_labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Labels as messages show them: in order of their keys."""
    return None if labels is None else dict(sorted(labels.items()))


def shown_selector(selector: View | None) -> dict[str, Any]:
    shown = dict(selector or {})
    if shown.get("matchLabels"):
        shown = {**shown, "matchLabels": shown_labels(shown["matchLabels"])}
    return {key: shown[key] for key in ("matchLabels", "matchExpressions") if key in shown}


def each(view: View, key: str, path: str) -> Sequence[tuple[View, str]]:
    """The items of a list with their paths."""
    items = view.get(key)
    if not items:
        return ()
    prefix = f"{path}.{key}" if path else key
    return [(item, f"{prefix}[{index}]") for index, item in enumerate(items)]
