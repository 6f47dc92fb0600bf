"""How an answer looks: the object itself, only its metadata, or a table row, in JSON or YAML.

Objects already in the wanted form are never encoded again: their stored bytes are the answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.api.kinds import Kind, Object
from gpuaas.apiserver.codec import LINE_END, Wanted, encode_as, indented
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.base.errors import BadRequest, NotAcceptable
from gpuaas.base.fielderrors import invalid
from gpuaas.machinery import tables
from gpuaas.machinery.tables import partial_metadata


def outcome_body(op: Operation, outcome: Outcome, wanted: Wanted) -> bytes:
    obj = outcome.obj
    if outcome.converted:
        return encode_as(wanted, obj, pretty=op.pretty)
    if not wanted.form and wanted.media == "json" and outcome.raw is not None and op.version is op.resource.hub:
        return indented(outcome.raw) if op.pretty else outcome.raw + LINE_END
    return encode_as(wanted, shaped(op, obj, wanted), pretty=op.pretty)


def shaped(op: Operation, obj: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
    """One object in the form asked for."""
    match wanted.form:
        case "Table":
            revision = obj["metadata"].get("resourceVersion")
            return table(op, [obj], {"resourceVersion": revision} if revision else {}, version=wanted.version)
        case "PartialObjectMetadata":
            return partial(obj, wanted.version)
        case "PartialObjectMetadataList":
            what = "*unstructured.Unstructured" if op.resource.custom else f"*{package(op.kind)}.{op.kind.kind}"
            raise NotAcceptable(
                f"you requested PartialObjectMetadataList, but the requested object is not a list ({what})"
            )
        case _:
            return asked(op, obj)


def asked(op: Operation, obj: Mapping[str, Any]) -> Object:
    """In the version asked for."""
    return op.resource.seen(dict(obj), op.version)


def package(kind: Kind) -> str:
    """How Go calls the types of a group."""
    return kind.group.partition(".")[0] or "core"


def partial(obj: Mapping[str, Any], version: str = "v1") -> Object:
    return {**partial_metadata(obj), "apiVersion": f"meta.k8s.io/{version}"}


def table(
    op: Operation,
    objects: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, Any],
    *,
    definitions: bool = True,
    version: str = "v1",
) -> Object:
    include = op.query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        why = invalid("includeObject", include, "must be 'Metadata', 'Object', 'None', or empty")
        raise BadRequest(f"Unable to convert to Table as requested: {why}")
    resource = op.resource
    # Rows of built-in kinds are of the shape they are kept in; each version of a user's kind has columns of its own.
    kind, shown = (op.kind, (asked(op, obj) for obj in objects)) if resource.custom else (op.hub, objects)
    made = tables.table(
        kind, shown, now=op.cluster.clock.now(), include=include, metadata=metadata, headers=definitions
    )
    if include == "Object" and op.version is not resource.hub:
        made["rows"] = [{**row, "object": asked(op, row["object"])} for row in made["rows"]]
    return made if version == "v1" else _in_version(made, version, include)


def _in_version(made: Object, version: str, include: str) -> Object:
    """The older form of a table differs in what it and its rows call themselves."""
    api_version = f"meta.k8s.io/{version}"
    if include == "Metadata":
        made["rows"] = [{**row, "object": {**row["object"], "apiVersion": api_version}} for row in made["rows"]]
    return {**made, "apiVersion": api_version}
