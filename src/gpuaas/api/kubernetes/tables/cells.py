"""The small parts that rows of `kubectl get` are made of: ages, labels, selectors, containers."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.api.durations import age
from gpuaas.api.kinds import Column

View = Mapping[str, Any]
Cells = list[Any]


def columns(text: str) -> tuple[Column, ...]:
    """`columns("Ready|Count:integer|+Node")`: names, a type other than string after a colon, `+` for -o wide only."""
    return tuple(_column(part) for part in text.split("|"))


def _column(part: str) -> Column:
    name, _, kind = part.removeprefix("+").partition(":")
    kind, _, form = kind.partition("/")
    return Column(name=name, type=kind or "string", format=form, priority=1 if part.startswith("+") else 0)


def part(obj: View, *path: str) -> Any:
    """What lies at a path, or {} where nothing does: for reading on."""
    for step in path:
        obj = obj.get(step) or {}
    return obj


def object_age(obj: View, now: float) -> str:
    return age(part(obj, "metadata").get("creationTimestamp"), now)


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: View | None) -> str:
    """The query form of a label selector; "" when it has no requirement."""
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = selector.get("matchExpressions") or ()
    terms += [(expression.get("key", ""), _expression_text(expression)) for expression in expressions]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def selector_cell(selector: View | None) -> str:
    return selector_text(selector) or "<none>"


def containers_cells(pod_spec: View) -> Cells:
    containers: Sequence[View] = pod_spec.get("containers") or ()
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def condition(obj: View, kind: str) -> View:
    """The status condition of that type, {} if there is none."""
    for found in part(obj, "status").get("conditions") or ():
        if found.get("type") == kind:
            return found  # type: ignore[no-any-return]
    return {}


def is_true(obj: View, kind: str) -> bool:
    return condition(obj, kind).get("status") == "True"


def some(items: Sequence[str], limit: int, empty: str = "") -> str:
    """The first few, and how many more there are."""
    shown = ",".join(items[:limit])
    return f"{shown} + {len(items) - limit} more..." if len(items) > limit else shown or empty


def _expression_text(expression: View) -> str:
    key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
    match expression.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"
