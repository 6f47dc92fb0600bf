"""Subresources with rules of their own, and the kinds that are questions: scale, log, eviction, binding, token, reviews.

`status` is not here: it is an ordinary write that changes only status (module write).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object, Scale
from gpuaas.apiserver import delete, read, write
from gpuaas.apiserver.catalogue import check_type
from gpuaas.apiserver.codec import PATCH_TYPES, decode_body, decode_json, negotiate
from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.logs import log
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.parts import PARTS
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid, MethodNotAllowed, NotImplementedHere, UnsupportedMediaType
from gpuaas.base.fielderrors import invalid, required
from gpuaas.base.selectors import from_label_selector
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.mergepatch import apply_merge_patch

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

Handler = Callable[["Server", Operation, RequestInfo, Request], Answer | Awaitable[Answer]]

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
    if op.verb != "create":
        raise MethodNotAllowed
    body = decode_body(request.body, request.header(b"content-type"))
    if not isinstance(body, dict) or body.get("kind") not in (None, "Eviction"):
        raise BadRequest("an Eviction (policy/v1) is expected")
    name = (body.get("metadata") or {}).get("name") or op.name
    if name != op.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    return _evicted(server, op, delete.delete(op, body.get("deleteOptions")), negotiate(request.header(b"accept")))


async def _evicted(server: "Server", op: Operation, pending: Awaitable[Outcome], wanted: Any) -> Answer:
    await pending
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return server.answer(op, Outcome(status, status=201, converted=True), wanted)


def binding(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    if op.verb != "create":
        raise MethodNotAllowed
    body = decode_body(request.body, request.header(b"content-type"))
    target = body.get("target") if isinstance(body, dict) else None
    node = target.get("name") if isinstance(target, dict) else None
    if not node:
        raise Invalid("", "Binding", op.name, [required("target.name")])
    entry = op.latest()
    pod = entry.obj
    if pod["spec"].get("nodeName"):
        raise Conflict(
            "", "pods/binding", op.name, f'pod {op.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        )
    if pod["metadata"].get("deletionTimestamp"):
        raise Conflict("", "pods/binding", op.name, f"pod {op.name} is being deleted, cannot be assigned to a host")
    bound = _bound(pod, str(node), op.cluster.clock.now())
    return _evicted(server, op, write.put(op, bound, 201), negotiate(request.header(b"accept")))


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
    if op.verb != "create":
        raise MethodNotAllowed
    body = decode_body(request.body, request.header(b"content-type"))
    entry = op.latest()
    made = server.access[op.cluster.name].request_token(op.namespace, entry.obj, body)
    return server.answer(op, Outcome(made, status=201, converted=True), negotiate(request.header(b"accept")))


# Questions.


def review(server: "Server", op: Operation, request: Request) -> Outcome:
    body = check_type(decode_body(request.body, request.header(b"content-type")), op.kind)
    answer = server.access[op.cluster.name].review(op.user, op.resource.plural, op.namespace, body)
    return Outcome(answer, status=201, converted=True)


def _form_and_body(op: Operation, request: Request) -> tuple[str, Any]:
    media = request.header(b"content-type").partition(";")[0].strip().lower()
    match op.verb:
        case "update":
            return "update", decode_body(request.body, media)
        case "patch" if media in PATCH_TYPES:
            return PATCH_TYPES[media], decode_json(request.body)
        case "patch":
            raise UnsupportedMediaType(f"a patch of type {media or 'nothing'} is not known")
        case _:
            raise MethodNotAllowed
