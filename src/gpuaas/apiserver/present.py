"""How an answer looks: the object itself, only its metadata, or a table row, in JSON or YAML.

Objects already in the wanted form are never encoded again: their stored bytes are the answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.api.kinds import Column, Object
from gpuaas.apiserver.codec import Wanted, encode_as
from gpuaas.apiserver.operation import Operation, Outcome

_NAME_COLUMN = Column("Name", "string", "name", "The name, unique within its namespace")


def outcome_body(op: Operation, outcome: Outcome, wanted: Wanted) -> bytes:
    obj = outcome.obj
    if outcome.converted:
        return encode_as(wanted, obj, pretty=_pretty(op))
    if not wanted.form and wanted.media == "json" and outcome.raw is not None and op.version is op.resource.hub:
        return outcome.raw if not _pretty(op) else encode_as(wanted, obj, pretty=True)
    return encode_as(wanted, shaped(op, obj, wanted), pretty=_pretty(op))


def shaped(op: Operation, obj: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
    """One object in the form asked for."""
    match wanted.form:
        case "Table":
            return table(op, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, wanted)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return partial(obj, wanted.version)
        case _:
            return op.resource.from_hub(dict(obj), op.version)


def partial(obj: Mapping[str, Any], version: str = "v1") -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def table(
    op: Operation,
    objects: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, Any],
    wanted: Wanted,
    *,
    definitions: bool = True,
) -> Object:
    include = op.query.get("includeObject", "Metadata")
    now = op.cluster.clock.now()
    rows: list[Object] = []
    columns, row, whole = op.version.columns(), op.version.row, op.kind.whole_row
    for hub_obj in objects:
        obj = op.resource.from_hub(dict(hub_obj), op.version)
        cells = row(obj, now)
        shown: Object = {"cells": cells if whole else [obj["metadata"]["name"], *cells]}
        match include:
            case "None":
                shown["object"] = None
            case "Object":
                shown["object"] = obj
            case _:
                shown["object"] = partial(obj, wanted.version)
        rows.append(shown)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{wanted.version}",
        "metadata": dict(metadata),
        "columnDefinitions": _definitions(columns, whole) if definitions else [],
        "rows": rows,
    }


def _definitions(columns: tuple[Column, ...], whole: bool) -> list[Object]:
    return [_definition(column) for column in (columns if whole else (_NAME_COLUMN, *columns))]


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _pretty(op: Operation) -> bool:
    return op.query.get("pretty", "") in ("1", "true")
