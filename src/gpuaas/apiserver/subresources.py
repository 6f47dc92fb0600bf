"""Subresources with rules of their own, and the kinds that are questions: eviction, binding, token, reviews.

`status` is not here: it is an ordinary write that changes only status (module write). Scale and logs have modules.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver import read, write
from gpuaas.apiserver.bodies import read_object, read_write
from gpuaas.apiserver.codec import negotiate
from gpuaas.apiserver.eviction import evict
from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.logs import log
from gpuaas.apiserver.objectmeta import metadata, place
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.parts import PARTS
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.apiserver.scale import scale
from gpuaas.apiserver.streaming.connect import connect
from gpuaas.apiserver.typemeta import check_kind, check_type
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid, NotImplementedHere
from gpuaas.base.fielderrors import required
from gpuaas.machinery import ssa
from gpuaas.machinery.schema.model import Schema

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

Handler = Callable[["Server", Operation, RequestInfo, Request], Answer | Awaitable[Answer]]

_TOKEN_REQUEST = "io.k8s.api.authentication.v1.TokenRequest"
CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})
"""Connections to what runs behind an object."""


def find(op: Operation) -> Handler | None:
    """The handler of the operation's subresource, or None where there is none of that name."""
    kind, name = op.kind, op.subresource
    if name == "scale" and kind.scale is not None:
        return scale
    if name not in kind.subresources:
        return None
    if name in CONNECTS:
        return connect if kind.kind == "Pod" and name != "proxy" else not_connected
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


def not_connected(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer:
    op.latest()
    raise NotImplementedHere(
        f"{op.subresource} is not offered by this server: nothing listens behind {op.kind.kind} {op.name}"
    )


def part(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
    """Writes that go to the object as a whole but are granted on their own."""
    wanted = negotiate(request.header(b"accept"))
    if op.verb == "get":
        return server.answer(op, read.get(op), wanted)
    form, body = read_write(op, request.body, request.header(b"content-type"))
    pending = write.update(op, body) if form == "update" else write.patch(op, form, body)
    return server.written(op, pending, wanted)


# Eviction, binding, tokens.


def eviction(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    body = _created(op, request, "Eviction")
    return _evicted(server, op, evict(op, body.get("deleteOptions")), negotiate(request.header(b"accept")))


def _created(op: Operation, request: Request, kind: str) -> Object:
    """What was posted to a subresource: an object of the kind it takes, for the object it belongs to."""
    body = read_object(request.body, request.header(b"content-type"), kind)
    check_kind(body, kind)
    meta = metadata(body)
    place(op, meta)
    if kind != "TokenRequest" and (meta.get("name") or op.name) != op.name:
        raise BadRequest(f"name in URL does not match name in {kind} object")
    return body


async def _evicted(server: "Server", op: Operation, pending: Awaitable[Outcome], wanted: Any) -> Answer:
    await pending
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return server.answer(op, Outcome(status, status=201, converted=True), wanted)


def binding(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    body = _created(op, request, "Binding")
    return _evicted(server, op, bind(op, body), negotiate(request.header(b"accept")))


def bind(op: Operation, body: Object) -> Awaitable[Outcome]:
    """Give the pod the node that a Binding names."""
    target = body.get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not node:
        raise Invalid("", "Binding", op.name, [required("target.name")])
    pod = op.latest().obj
    refusal = _not_bindable(pod, op.name)
    if refusal:
        raise Conflict("", "pods/binding", op.name, refusal)
    bound = _bound(pod, str(node), op.cluster.clock.now())
    for check in op.cluster.admission.bindings:
        check(op, bound, str(node))
    return write.put(op, bound, 201)


def pod_binding(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Awaitable[Answer]:
    """The old way to the same: a Binding that names its pod itself."""
    body = check_type(op, read_object(request.body, request.header(b"content-type"), op.kind.kind))
    name = metadata(body).get("name")
    found = op.cluster.catalogue.find("", "v1", "pods")
    assert found is not None
    if not isinstance(name, str) or not name:
        raise Invalid("", "Binding", "", [required("metadata.name", "name or generateName is required")])
    pod, version = found
    of_pod = Operation(
        op.cluster, pod, version, "create", op.user, op.namespace, name, "binding", op.query,
        dry_run=op.dry_run, manager=op.manager, warnings=op.warnings,
    )  # fmt: skip
    return binding(server, of_pod, info, request)


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
    sent = check_type(op, read_object(request.body, request.header(b"content-type"), op.kind.kind))
    body, _ = op.version.read(sent)
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
