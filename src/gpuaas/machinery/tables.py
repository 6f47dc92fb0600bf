"""Tables: what `kubectl get` shows. Columns and cells are made here, on the server, as kube-apiserver does.

Built-in kinds compute their cells in code (`Kind.row`); custom resources read them with JSONPath (`Column.path`).
Ages are relative to the `now` that is passed in.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.api.kinds import Column, Kind
from gpuaas.base.clock import parse_rfc3339
from gpuaas.machinery.jsonpath import parse_path, printed

NAME: Final = Column("Name", format="name", description="The name of the object, unique in its namespace for its kind.")
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
    made["columnDefinitions"] = [_definition(column) for column in (NAME, *kind.columns)] if headers else None
    made["rows"] = [{"cells": cells(kind, obj, now), "object": _carried(obj, include)} for obj in objects]
    return made


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
    """The cells of a row, name first."""
    name = obj.get("metadata", {}).get("name", "")
    if kind.row is not None:
        return [name, *kind.row(obj, now)]
    return [name, *(cell(column, obj, now) for column in kind.columns)]


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
            return age(value, now)
        case _:
            return None


def age(timestamp: str | None, now: float) -> str:
    """How long ago an RFC 3339 time was: 5m, 3h12m, 2d5h."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration(now - parse_rfc3339(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Two units while the smaller one still matters, one after that."""
    if seconds <= -2:
        return "<invalid>"
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    days = hours // 24
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def short_duration(seconds: float) -> str:
    """One unit only: how kubectl shows times in passing (the last restart of a pod)."""
    if seconds <= -2:
        return "<invalid>"
    whole = max(0, int(seconds))
    for size, unit, limit in ((1, "s", 60), (60, "m", 3600), (3600, "h", 86_400), (86_400, "d", 31_536_000)):
        if whole < limit:
            return f"{whole // size}{unit}"
    return f"{whole // 31_536_000}y"
