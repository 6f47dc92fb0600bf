"""The scale subresource: one number of an object, alike for every kind that has one.

A write is made and tracked on a Scale of its own, and carried over into the object: its replicas, and who owns them.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpuaas.api.durations import age
from gpuaas.api.kinds import Column, Kind, Object, Scale
from gpuaas.apiserver import write
from gpuaas.apiserver.bodies import read_write
from gpuaas.apiserver.codec import Wanted, negotiate
from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.objectmeta import check_name, metadata, place
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.apiserver.typemeta import check_kind
from gpuaas.base.errors import BadRequest, Invalid
from gpuaas.base.fielderrors import invalid
from gpuaas.base.selectors import from_label_selector
from gpuaas.machinery import ssa, tables
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.decode import normalize

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

_SCHEMA: Final = "io.k8s.api.autoscaling.v1.Scale"
_VERSION: Final = "autoscaling/v1"
_TABLE: Final = Kind(
    "autoscaling",
    "v1",
    "Scale",
    "scales",
    namespaced=True,
    schema=_SCHEMA,
    columns=(
        Column("Desired", "integer", description="How many there should be."),
        Column("Available", "integer", description="How many there are."),
        Column("Age", description="How long ago the object was created."),
    ),
    row=lambda scale, now: [
        scale["spec"].get("replicas", 0),
        scale["status"]["replicas"],
        age(scale["metadata"].get("creationTimestamp"), now),
    ],
)


def scale(server: "Server", op: Operation, _info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
    where = op.kind.scale
    assert where is not None
    wanted = negotiate(request.header(b"accept"))
    entry = op.cluster.store.get(op.key) if op.verb == "get" else op.cluster.store.latest(op.key)
    if entry is None:
        raise op.not_found()
    old = op.resource.from_hub(entry.obj, op.version)
    if op.verb == "get":
        return _answer(server, op, _scale_of(old, where), wanted)
    form, body = read_write(op, request.body, request.header(b"content-type"), "Scale")
    scaled = _tracked(op, old, where, form, body)
    meta = {**old["metadata"]}
    sent = (scaled.get("metadata") or {}).get("resourceVersion")
    if sent:
        meta["resourceVersion"] = sent
    changed = _with_path({**old, "metadata": meta}, where.spec_path, _replicas(op, scaled))
    fresh, _ = op.version.read(changed)
    owners = (scaled.get("metadata") or {}).get("managedFields") or []
    known = old["metadata"].get("managedFields") or []
    entries = ssa.to_parent(known, owners, op.kind.api_version, _paths(op))
    fresh = op.resource.to_hub(ssa.with_managed_fields(fresh, entries), op.version)
    return _scaled(server, op, write.replace(op, fresh, entry, owned=True), where, wanted)


def _tracked(op: Operation, old: Object, where: Scale, form: str, body: Any) -> Object:
    """The Scale after the write, with those who own its replicas then."""
    live = _scale_of(old, where)
    live = ssa.with_managed_fields(live, ssa.to_scale(old["metadata"].get("managedFields") or [], _paths(op)))
    schema, now = op.cluster.schemas.named(_SCHEMA), op.cluster.clock.now()
    match form:
        case "apply":
            return ssa.apply(
                live, body, op.manager, schema,
                force=op.force, api_version=_VERSION, kind="Scale", now=now, subresource="scale",
            ).obj  # fmt: skip
        case "update":
            check_kind(body, "Scale")
            desired = {**body, "apiVersion": _VERSION, "kind": "Scale"}
        case "merge" | "strategic":
            desired = apply_merge_patch(live, body)
        case _:
            desired = apply_json_patch(live, body)
    desired = _read(op, form, desired, body)
    return ssa.track_update(live, desired, op.manager, schema, api_version=_VERSION, now=now, subresource="scale")


def _read(op: Operation, form: str, desired: Any, body: Any) -> Object:
    """The Scale a write leaves, well typed and of this object."""
    if not isinstance(desired, dict):
        raise BadRequest("the patch does not leave an object")
    try:
        read = normalize(op.cluster.schemas.named(_SCHEMA), desired).obj
    except BadRequest as problem:
        if form == "update":
            raise
        raise write.bad_patch(op, form, desired, body, problem.message.partition(": ")[2]) from None
    meta = metadata(read)
    place(op, meta)
    check_name(op, meta)
    return read


def _paths(op: Operation) -> dict[str, tuple[str, ...] | None]:
    """Where each version of the kind keeps its count."""
    kinds = [version.kind for version in op.resource.versions.values()]
    return {kind.api_version: ssa.replicas_path(kind.scale.spec_path) if kind.scale else None for kind in kinds}


async def _scaled(server: "Server", op: Operation, pending: Awaitable[Outcome], where: Scale, wanted: Wanted) -> Answer:
    outcome = await pending
    return _answer(server, op, _scale_of(op.resource.from_hub(dict(outcome.obj), op.version), where), wanted)


def _answer(server: "Server", op: Operation, shown: Object, wanted: Wanted) -> Answer:
    if wanted.form == "Table":
        revision = {"resourceVersion": shown["metadata"].get("resourceVersion", "")}
        include = op.query.get("includeObject") or "Metadata"
        shown = tables.table(_TABLE, [shown], now=op.cluster.clock.now(), include=include, metadata=revision)
    return server.answer(op, Outcome(shown, converted=True), wanted)


def _replicas(op: Operation, desired: Any) -> int:
    spec = desired.get("spec") if isinstance(desired, dict) else None
    replicas = (spec or {}).get("replicas", 0) if isinstance(spec or {}, dict) else None
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise BadRequest(f"spec.replicas must be a whole number, found {replicas!r}")
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise Invalid("autoscaling", "Scale", op.name, [error])
    return replicas


def _scale_of(obj: Mapping[str, Any], where: Scale) -> Object:
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec_replicas = _path(obj, where.spec_path)
    status: Object = {"replicas": _path(obj, where.status_path) or 0}
    selector = _path(obj, where.selector_path) if where.selector_path else None
    text = selector if isinstance(selector, str) else _selector_text(selector)
    if text:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": spec_replicas} if spec_replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if not isinstance(selector, Mapping):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    parsed = from_label_selector(selector)
    parts = []
    for requirement in sorted(parsed.requirements if parsed else (), key=lambda each: each.key):
        match requirement.operator:
            case "in" if len(requirement.values) == 1:
                parts.append(f"{requirement.key}={requirement.values[0]}")
            case "in" | "notin":
                parts.append(f"{requirement.key} {requirement.operator} ({','.join(requirement.values)})")
            case "exists":
                parts.append(requirement.key)
            case _:
                parts.append(f"!{requirement.key}")
    return ",".join(parts)


def _path(obj: Mapping[str, Any], path: str) -> Any:
    value: Any = obj
    for step in path.strip(".").split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _with_path(obj: Object, path: str, value: Any) -> Object:
    first, _, rest = path.strip(".").partition(".")
    if not rest:
        return {**obj, first: value}
    return {**obj, first: _with_path(obj.get(first) or {}, rest, value)}
