"""The in-process client: the same protocol as over HTTPS, without the wire.

Objects it returns are the store's own; callers never change them. Every call goes through the same verbs as a request does,
as a user of its own who may do everything, so that controllers cannot do what a client could not.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gpuaas.apiserver import delete, read, write
from gpuaas.apiserver.catalogue import Resource as Stored
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.eviction import evict
from gpuaas.apiserver.logs import LogOptions
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.select import predicate
from gpuaas.apiserver.subresources import bind
from gpuaas.base.errors import BadRequest, Expired, PathNotFound
from gpuaas.client.protocol import Listing, Object, PatchKind, Propagation, Resource, Served, WatchEvent
from gpuaas.store import Compacted, Entry

_FORMS = {
    PatchKind.JSON: "json",
    PatchKind.MERGE: "merge",
    PatchKind.STRATEGIC: "strategic",
    PatchKind.APPLY: "apply",
}


class _Metadata(msgspec.Struct, rename="camel"):
    """Without who owns which field: often the larger half, and passed over unread."""

    name: Any = UNSET
    generate_name: Any = UNSET
    namespace: Any = UNSET
    uid: Any = UNSET
    resource_version: Any = UNSET
    generation: Any = UNSET
    creation_timestamp: Any = UNSET
    deletion_timestamp: Any = UNSET
    deletion_grace_period_seconds: Any = UNSET
    labels: Any = UNSET
    annotations: Any = UNSET
    owner_references: Any = UNSET
    finalizers: Any = UNSET


class _Outline(msgspec.Struct):
    metadata: _Metadata


_outline = msgspec.json.Decoder(_Outline).decode


class LocalClient:
    def __init__(self, cluster: Cluster, user: User, manager: str) -> None:
        self._cluster = cluster
        self._user = user
        self._manager = manager

    def _op(
        self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = "", **query: str
    ) -> Operation:
        found = self._cluster.catalogue.find(resource.group, resource.version, resource.plural)
        if found is None:
            raise PathNotFound
        options = {key: value for key, value in query.items() if value}
        return Operation(
            self._cluster, found[0], found[1], verb, self._user, namespace if found[0].namespaced else "", name, subresource,
            options, manager=self._manager, in_process=True,
        )  # fmt: skip

    def _shown(self, op: Operation, outcome: Outcome) -> Object:
        obj = dict(outcome.obj) if not isinstance(outcome.obj, dict) else outcome.obj
        return obj if outcome.converted else op.resource.from_hub(obj, op.version)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        op = self._op("get", resource, namespace, name, subresource)
        return self._shown(op, read.get(op))

    def under_way(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        op = self._op("get", resource, namespace, name)
        entry = self._cluster.store.latest(op.key)
        return None if entry is None else op.resource.from_hub(entry.obj, op.version)

    def hasten(self) -> None:
        self._cluster.store.hasten()

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        outline: bool = False,
    ) -> Listing:
        op = self._op(
            "list", resource, namespace, labelSelector=labels, fieldSelector=fields, limit=str(limit or ""),
            resourceVersion=resource_version, **{"continue": continue_},
        )  # fmt: skip
        entries, metadata = read.page(op)
        items = [_seen(op, entry, outline=outline) for entry in entries]
        return Listing(items, metadata["resourceVersion"], metadata.get("continue", ""))

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        outline: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        op = self._op("watch", resource, namespace, labelSelector=labels, fieldSelector=fields)
        matches = predicate(op)
        store = self._cluster.store
        where = op.resource.range(op.namespace)
        since = int(resource_version or 0)
        if not since:
            since = store.revision
            for entry in store.list(where):
                if matches is None or matches(entry.obj):
                    yield WatchEvent("ADDED", _seen(op, entry, outline=outline))
        try:
            watch = store.watch(where, min(since, store.revision))
        except Compacted as gone:
            raise Expired(str(gone)) from None
        self._cluster.watching(op.resource, watch.close)
        try:
            while events := await watch.next():
                for event in events:
                    kind = _as_seen(event, matches)
                    if kind:
                        seen = _named(op, event.entry) if kind == "DELETED" else _seen(op, event.entry, outline=outline)
                        yield WatchEvent(kind, seen)
        except Compacted as gone:
            raise Expired(str(gone)) from None
        finally:
            self._cluster.not_watching(op.resource, watch.close)
            watch.close()

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        op = self._op("create", resource, namespace, name if subresource else "", subresource)
        op.dry_run, op.manager = dry_run, field_manager or op.manager
        if subresource:
            await _posted(op, obj)
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return self._shown(op, await write.create(op, obj))

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        op = self._op("update", resource, namespace, obj["metadata"]["name"], subresource)
        op.dry_run, op.manager = dry_run, field_manager or op.manager
        if (
            subresource == "status"
            and op.version is op.resource.hub
            and (op.resource.bundled or not op.resource.custom)
        ):
            return self._shown(op, await write.write_status(op, obj["metadata"], obj.get("status") or {}))
        return self._shown(op, await write.update(op, obj))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        op = self._op("patch", resource, namespace, name, subresource)
        op.dry_run, op.manager, op.force = dry_run, field_manager or op.manager, force
        return self._shown(op, await write.patch(op, _FORMS[kind], patch))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        op = self._op("delete", resource, namespace, name)
        op.dry_run = dry_run
        return self._shown(op, await delete.delete(op, _delete_body(propagation, uid, resource_version, grace)))

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        op = self._op("deletecollection", resource, namespace, labelSelector=labels, fieldSelector=fields)
        op.dry_run = dry_run
        entries, _ = read.page(op)
        options = delete.delete_options(op, _delete_body(propagation, "", "", grace))
        await delete.delete_all(op, entries, options)

    async def log(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        pod = await self.get(Resource("", "v1", "pods"), name, namespace)
        if self._cluster.logs is None:
            return
        since = self._cluster.clock.now() - since_seconds if since_seconds is not None else None
        options = LogOptions(container, follow, previous, timestamps, tail_lines, since)
        async for piece in self._cluster.logs.read(pod, options):
            yield piece


class LocalDiscovery:
    """What the cluster serves, from its own catalogue."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def resources(self) -> Sequence[Served]:
        return [_served(resource) for resource in self._cluster.catalogue.resources() if not resource.hub.kind.virtual]

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._cluster.catalogue.on_change(changed)


def _posted(op: Operation, body: Object) -> Awaitable[Outcome]:
    match op.subresource:
        case "binding":
            return bind(op, body)
        case "eviction":
            return evict(op, body.get("deleteOptions"))
        case other:
            raise BadRequest(f"{other} is not offered in process")


def _served(resource: Stored) -> Served:
    kind = resource.hub.kind
    return Served(Resource(kind.group, kind.version, kind.plural, kind.namespaced, kind.kind), frozenset(kind.verbs))


def _seen(op: Operation, entry: Entry, *, outline: bool) -> Object:
    return _outlined(op, entry) if outline else op.resource.seen(entry.obj, op.version)


def _outlined(op: Operation, entry: Entry) -> Object:
    """Nothing but metadata is decoded, and nothing is kept."""
    metadata = msgspec.to_builtins(_outline(entry.raw).metadata)
    return {"kind": op.kind.kind, "apiVersion": op.kind.api_version, "metadata": metadata}


def _named(op: Operation, entry: Entry) -> Object:
    """Which one it is, and as of when: nothing has to be decoded for that."""
    _, _, namespace, name = entry.key.split("/", 3)
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(entry.revision)}
    return {"kind": op.kind.kind, "apiVersion": op.kind.api_version, "metadata": metadata}


def _as_seen(event: Any, matches: Any) -> str:
    """The event's type for a watcher with this predicate; "" where it sees nothing."""
    if matches is None:
        return str(event.type)
    now = event.type != "DELETED" and matches(event.entry.obj)
    before = event.previous is not None and matches(event.previous.obj)
    if now:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else ""


def _delete_body(propagation: Propagation | None, uid: str, resource_version: str, grace: int | None) -> Object:
    body: Object = {}
    if propagation is not None:
        body["propagationPolicy"] = str(propagation)
    preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if preconditions:
        body["preconditions"] = preconditions
    if grace is not None:
        body["gracePeriodSeconds"] = grace
    return body
