"""Tables: what `kubectl get` shows. Columns and cells are made here, on the server, as kube-apiserver does.

Built-in kinds compute their cells in code (`Kind.row`); custom resources read them with JSONPath (`Column.path`).
Ages are relative to the `now` that is passed in.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.api.durations import age
from gpuaas.api.kinds import Column, Kind
from gpuaas.machinery.jsonpath import parse_path, printed

NAME: Final = Column("Name", format="name", description="The name of the object, unique in its namespace for its kind.")
UNKNOWN: Final = "<unknown>"
# What a custom resource shows when its definition names no columns.
AGE: Final = Column(
    "Age",
    type="date",
    description="How long ago the object was created.",
    path=".metadata.creationTimestamp",
)


def table(
    kind: Kind,
    objects: Iterable[Mapping[str, Any]],
    *,
    now: float,
    include: str = "Metadata",
    metadata: Mapping[str, Any] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """A meta.k8s.io/v1 Table. `include` says what each row carries along: None, Metadata or Object; `metadata` is the
    list's (resourceVersion, continue, …); `headers` is off for all but the first table of a watch."""
    made: dict[str, Any] = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": dict(metadata or {})}
    made["columnDefinitions"] = _definitions(kind) if headers else None
    made["rows"] = [{"cells": cells(kind, obj, now), "object": _carried(obj, include)} for obj in objects]
    return made


def _definitions(kind: Kind) -> list[dict[str, Any]]:
    return [_definition(column) for column in (kind.columns if kind.whole_row else (NAME, *kind.columns))]


def _definition(column: Column) -> dict[str, Any]:
    description = column.description
    if not description and column.path:
        description = f"Custom resource definition column (in JSONPath format): {column.path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": description,
        "priority": column.priority,
    }


def _carried(obj: Mapping[str, Any], include: str) -> Any:
    match include:
        case "None":
            return None
        case "Object":
            return obj
        case _:
            return partial_metadata(obj)


def partial_metadata(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def cells(kind: Kind, obj: Mapping[str, Any], now: float) -> list[Any]:
    """The cells of a row, name first unless the kind says otherwise."""
    name = obj.get("metadata", {}).get("name", "")
    if kind.row is None:
        return [name, *(cell(column, obj, now) for column in kind.columns)]
    try:
        row = kind.row(obj, now)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        row = [UNKNOWN] * len(kind.columns)  # one object that cannot be shown does not hide the others
        if kind.whole_row:
            row[-1] = name
    return row if kind.whole_row else [name, *row]


def cell(column: Column, obj: Mapping[str, Any], now: float) -> Any:
    """A cell read by JSONPath; None where there is nothing, or nothing of the column's type."""
    try:
        found = parse_path(column.path).find(obj)
    except ValueError:
        return None
    if not found:
        return None
    value = found[0]
    match column.type:
        case "string":
            return printed(value)
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _age(value, now)
        case _:
            return None


def _age(timestamp: str, now: float) -> str:
    try:
        return age(timestamp, now)
    except ValueError:
        return "<invalid>"
