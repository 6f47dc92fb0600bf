"""visibility.kueue.x-k8s.io: who waits in a queue, and at which place, answered from the engine and never stored."""

from collections.abc import Mapping
from typing import Any

from gpuaas.api.kinds import Kind
from gpuaas.api.kueue.visibility import DEFAULT_LIMIT, GROUP, VERSIONS
from gpuaas.apiserver.catalogue import BuiltinVersion, Resource
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import negotiate
from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.apiserver.server import Server
from gpuaas.base.errors import MethodNotAllowed, NotFound
from gpuaas.controllers.kueue import KueueCore

_MOST = 100_000
_PENDING = "pendingworkloads"


def mount_visibility(cluster: Cluster, core: KueueCore) -> None:
    for plural, kind, namespaced in (("clusterqueues", "ClusterQueue", False), ("localqueues", "LocalQueue", True)):
        versions = {
            version: BuiltinVersion(
                Kind(GROUP, version, kind, plural, namespaced, "", verbs=(), subresources=(_PENDING,)),
                cluster.schemas.named,
            )
            for version in VERSIONS
        }
        cluster.catalogue.add(Resource(versions, VERSIONS[0]))
        cluster.extra_subresources[GROUP, plural, _PENDING] = _handler(core)


def _handler(core: KueueCore) -> Any:
    def handle(server: Server, op: Operation, info: RequestInfo, request: Request) -> Answer:
        if op.verb != "get":
            raise MethodNotAllowed
        limit = info.number("limit")
        offset = max(info.number("offset") or 0, 0)
        most = DEFAULT_LIMIT if limit is None else min(max(limit, 0), _MOST)
        found = _local(core, op) if op.resource.namespaced else core.pending(op.name)
        if found is None:
            raise NotFound(op.resource.group, op.resource.plural, op.name)
        summary: dict[str, Any] = {
            "kind": "PendingWorkloadsSummary",
            "apiVersion": op.kind.api_version,
            "metadata": {},
            "items": found[offset : offset + most],
        }
        return server.answer(op, Outcome(summary, converted=True), negotiate(request.header(b"accept")))

    return handle


def _local(core: KueueCore, op: Operation) -> list[Mapping[str, Any]] | None:
    """The queue's own workloads among those of its ClusterQueue, or None if there is no such LocalQueue."""
    queue = core.cluster_queue_of(op.namespace, op.name)
    if queue is None:
        return None
    return [
        each
        for each in core.pending(queue) or []
        if each["localQueueName"] == op.name and each["metadata"]["namespace"] == op.namespace
    ]
