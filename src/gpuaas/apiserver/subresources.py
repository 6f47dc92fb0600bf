"""Subresources with rules of their own, and the kinds that are questions: scale, log, eviction, binding, token, reviews.

`status` is not here: it is an ordinary write that changes only status (module write).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object, Scale
from gpuaas.apiserver import delete, read, write
from gpuaas.apiserver.bodies import check_type, read_object, read_patch
from gpuaas.apiserver.codec import negotiate
from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.logs import log
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.parts import PARTS
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid, MethodNotAllowed, NotImplementedHere
from gpuaas.base.fielderrors import invalid, required
from gpuaas.base.selectors import from_label_selector
from gpuaas.machinery import ssa
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.model import Schema

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

Handler = Callable[["Server", Operation, RequestInfo, Request], Answer | Awaitable[Answer]]

_TOKEN_REQUEST = "io.k8s.api.authentication.v1.TokenRequest"
_CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})


def find(op: Operation) -> Handler | None:
    """The handler of the operation's subresource, or None where there is none of that name."""
    kind, name = op.kind, op.subresource
    if name == "scale" and kind.scale is not None:
        return scale
    if name not in kind.subresources:
        return None
    if name in _CONNECTS:
        return connect
    if name in PARTS:
        return part
    match name:
        case "log":
            return log
        case "eviction":
            return eviction
        case "binding":
            return binding
        case "token":
            return token
        case _:
            return op.cluster.extra_subresources.get((op.resource.group, op.resource.plural, name))


def connect(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer:
    op.latest()
    raise NotImplementedHere(
        f"{op.subresource} is not offered by this server: pods here have no container to connect to; "
        f"'kubectl logs {op.name}' shows what the pod wrote"
    )


def part(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
    """Writes that go to the object as a whole but are granted on their own."""
    wanted = negotiate(request.header(b"accept"))
    if op.verb == "get":
        return server.answer(op, read.get(op), wanted)
    form, body = _form_and_body(op, request)
    pending = write.update(op, body) if form == "update" else write.patch(op, form, body)
    return server.written(op, pending, wanted)


# Scale.


def scale(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
    where = op.kind.scale
    assert where is not None
    wanted = negotiate(request.header(b"accept"))
    entry = op.cluster.store.get(op.key) if op.verb == "get" else op.cluster.store.latest(op.key)
    if entry is None:
        raise op.not_found()
    old = op.resource.from_hub(entry.obj, op.version)
    if op.verb == "get":
        return server.answer(op, Outcome(_scale_of(old, where), converted=True), wanted)
    form, body = _form_and_body(op, request)
    current = _scale_of(old, where)
    match form:
        case "update":
            desired = body
        case "merge" | "strategic" | "apply":
            desired = apply_merge_patch(current, body)
        case _:
            desired = apply_json_patch(current, body)
    replicas = _replicas(op, desired)
    meta = {**old["metadata"]}
    sent = (desired.get("metadata") or {}).get("resourceVersion")
    if sent:
        meta["resourceVersion"] = sent
    changed = _with_path({**old, "metadata": meta}, where.spec_path, replicas)
    fresh, _ = op.version.read(changed)
    return _scaled(server, op, write.replace(op, op.resource.to_hub(fresh, op.version), entry), where, wanted)


async def _scaled(server: "Server", op: Operation, pending: Awaitable[Outcome], where: Scale, wanted: Any) -> Answer:
    outcome = await pending
    shown = _scale_of(op.resource.from_hub(dict(outcome.obj), op.version), where)
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


# Eviction, binding, tokens.


def eviction(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    body = _created(op, request, "Eviction")
    return _evicted(server, op, delete.delete(op, body.get("deleteOptions")), negotiate(request.header(b"accept")))


def _created(op: Operation, request: Request, kind: str) -> Object:
    """What was posted to a subresource: an object of the kind it takes, for the object it belongs to."""
    if op.verb != "create":
        raise MethodNotAllowed
    body = read_object(request.body, request.header(b"content-type"), kind)
    if body.get("kind") not in (None, kind):
        version = str(body.get("apiVersion", "")).rpartition("/")[2]
        raise BadRequest(f'{body["kind"]} in version "{version}" cannot be handled as a {kind}: it is of another kind')
    meta = body.get("metadata") or {}
    if not isinstance(meta, dict) or meta.get("name", op.name) != op.name:
        raise BadRequest(f"name in URL does not match name in {kind} object")
    return body


async def _evicted(server: "Server", op: Operation, pending: Awaitable[Outcome], wanted: Any) -> Answer:
    await pending
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return server.answer(op, Outcome(status, status=201, converted=True), wanted)


def binding(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    body = _created(op, request, "Binding")
    target = body.get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not node:
        raise Invalid("", "Binding", op.name, [required("target.name")])
    pod = op.latest().obj
    refusal = _not_bindable(pod, op.name)
    if refusal:
        raise Conflict("", "pods/binding", op.name, refusal)
    bound = _bound(pod, str(node), op.cluster.clock.now())
    return _evicted(server, op, write.put(op, bound, 201), negotiate(request.header(b"accept")))


def _not_bindable(pod: Mapping[str, Any], name: str) -> str:
    """Why a pod cannot be given a node, in Kubernetes' words; "" if it can."""
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Mapping[str, Any], node: str, now: float) -> Object:
    status = pod.get("status") or {}
    kept = [condition for condition in status.get("conditions") or () if condition["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": rfc3339(now)}
    return {
        **pod,
        "metadata": {**pod["metadata"]},
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*kept, scheduled]},
    }


def token(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer:
    body = _created(op, request, "TokenRequest")
    entry = op.latest()
    made = server.access[op.cluster.name].request_token(op.namespace, entry.obj, body)
    asked = {**body, "spec": {**(body.get("spec") or {}), "expirationSeconds": made["spec"]["expirationSeconds"]}}
    made = _with_owner(op, made, asked, op.cluster.schemas.named(_TOKEN_REQUEST))
    return server.answer(op, Outcome(made, status=201, converted=True), negotiate(request.header(b"accept")))


# Questions.


def review(server: "Server", op: Operation, request: Request) -> Outcome:
    body = check_type(op, read_object(request.body, request.header(b"content-type"), op.kind.kind))
    answer = server.access[op.cluster.name].review(op.user, op.resource.plural, op.namespace, body)
    return Outcome(_with_owner(op, answer, body, op.version.schema), status=201, converted=True)


def _with_owner(op: Operation, answer: Object, asked: Object, schema: Schema) -> Object:
    """An answer says who asked: the fields of the question are theirs, though nothing of it is kept."""
    tracked = ssa.track_update(
        None,
        {**asked, "metadata": {}},
        op.manager,
        schema,
        api_version=answer["apiVersion"],
        now=op.cluster.clock.now(),
        subresource=op.subresource,
    )
    return ssa.with_managed_fields(answer, (tracked.get("metadata") or {}).get("managedFields"))


def _form_and_body(op: Operation, request: Request) -> tuple[str, Any]:
    media = request.header(b"content-type")
    match op.verb:
        case "update":
            kind = "Scale" if op.subresource == "scale" else op.kind.kind
            return "update", read_object(request.body, media, kind)
        case "patch":
            return read_patch(request.body, media, custom=op.resource.custom)
        case _:
            raise MethodNotAllowed
