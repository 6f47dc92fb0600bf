"""A cluster in memory that speaks the client protocol: enough of an API server to test controllers against.

It keeps what controllers rely on: one revision counter for everything, optimistic concurrency, watches that resume or
are too old, the split of spec and status, generation, finalizers, graceful deletion of bound pods. It validates
nothing and knows no defaults; the real rules are the API server's and are tested there.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuaas.base.clock import Clock, VirtualClock, rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, BadRequest, Conflict, Expired, NotFound
from gpuaas.base.ids import IdSource, SeededIds
from gpuaas.base.selectors import parse_fields, parse_labels
from gpuaas.client import resources as builtin
from gpuaas.client.protocol import Listing, Object, PatchKind, Propagation, Resource, Served, WatchEvent
from gpuaas.testing.algebra import copy_tree, json_patched, merged, path_value

_VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
_NO_STATUS = frozenset(
    {
        "configmaps",
        "secrets",
        "events",
        "leases",
        "serviceaccounts",
        "clusterroles",
        "endpoints",
        "endpointslices",
        "controllerrevisions",
    }
)
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
BUILT_IN = tuple(value for value in vars(builtin).values() if isinstance(value, Resource))


@dataclass(frozen=True, slots=True)
class Write:
    """One accepted write, for tests that count them."""

    verb: str
    resource: str
    key: str


@dataclass(slots=True)
class _Watcher:
    type_id: tuple[str, str]
    namespace: str
    selects: Callable[[Object], bool]
    queue: "asyncio.Queue[WatchEvent | ApiError | None]" = field(default_factory=asyncio.Queue)


class FakeCluster:
    """Both `Client` and `Discovery`. The synchronous methods (`put`, `read`, `all`) are the test's own hands."""

    def __init__(
        self, clock: Clock | None = None, ids: IdSource | None = None, resources: Sequence[Resource] = BUILT_IN
    ) -> None:
        self.clock = clock or VirtualClock()
        self.ids = ids or SeededIds()
        self.writes: list[Write] = []
        self.logs: dict[str, list[bytes]] = {}  # what the pods have said, by namespace/name
        self.revision = 0
        self.tokens = 0  # that service accounts were given
        self._resources = {(resource.group, resource.plural): resource for resource in resources}
        self._objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = defaultdict(dict)
        self._history: list[tuple[int, tuple[str, str], WatchEvent]] = []
        self._compacted = 0
        self._watchers: list[_Watcher] = []
        self._published: list[tuple[Object, bytes]] = []
        self.faults: list[tuple[str, str, Exception]] = []  # not raised yet
        self._listeners: list[Callable[[], None]] = []

    # The test's hands

    def put(self, resource: Resource, obj: Object) -> Object:
        """Make the object exist exactly so (status included), as if it had always been there."""
        known = self._bucket(resource).get(_place(obj))
        if known is None:
            return self._add(resource, obj, obj["metadata"].get("namespace") or "")
        metadata = {**obj["metadata"], "uid": known["metadata"]["uid"]}
        return self._store(resource, {**obj, "metadata": metadata}, known)

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete, as a user does with no options."""
        self._begin_deletion(resource, self.read(resource, name, namespace), None, None)

    def read(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found = self._bucket(resource).get((namespace if resource.namespaced else "", name))
        if found is None:
            raise NotFound(resource.group, resource.plural, name)
        return found

    def exists(self, resource: Resource, name: str, namespace: str = "") -> bool:
        return (namespace if resource.namespaced else "", name) in self._bucket(resource)

    def all(self, resource: Resource, namespace: str = "") -> list[Object]:
        found = self._bucket(resource).items()
        return [obj for (where, _), obj in sorted(found) if not namespace or where == namespace]

    def set_status(self, resource: Resource, name: str, namespace: str = "", **status: Any) -> Object:
        """What a kubelet or another outsider would write."""
        known = self.read(resource, name, namespace)
        return self._store(resource, {**known, "status": {**known.get("status", {}), **status}}, known)

    def events(self, namespace: str = "") -> list[str]:
        """`Type Reason kind/name message`, in order of their recording."""
        recorded = sorted(
            self.all(builtin.EVENTS, namespace), key=lambda event: int(event["metadata"]["name"].rsplit(".", 1)[1], 16)
        )
        return [
            f"{event['type']} {event['reason']} {event['involvedObject']['kind'].lower()}/"
            f"{event['involvedObject']['name']} {event['message']}"
            for event in recorded
        ]

    def fail_next(self, verb: str, resource: Resource, error: Exception) -> None:
        """The next such request is answered with this error, or breaks down with it."""
        self.faults.append((verb, resource.plural, error))

    def disconnect(self) -> None:
        """End every open watch, as a restarting server does."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)
        self._watchers.clear()

    def compact(self) -> None:
        """Forget the past: a watch that wants to resume is too old."""
        self._history.clear()
        self._compacted = self.revision

    def serve(self, resource: Resource) -> None:
        self._resources[(resource.group, resource.plural)] = resource
        self._tell()

    def unserve(self, resource: Resource) -> None:
        self._resources.pop((resource.group, resource.plural), None)
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def check_untouched(self) -> None:
        """Objects are shared by reference: none may have changed since it was published."""
        for obj, as_published in self._published:
            if msgspec.json.encode(obj) != as_published:
                metadata = obj["metadata"]
                raise AssertionError(f"{obj.get('kind')} {metadata['name']} was changed in place: {obj}")

    # Discovery

    async def resources(self) -> Sequence[Served]:
        return [Served(resource, _VERBS) for resource in self._resources.values()]

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    # Client

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        await self._arrive("get", resource)
        return self.read(resource, name, namespace)

    def under_way(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return None  # as over the wire: who must come second waits for the first

    def hasten(self) -> None:
        """Nothing is written later than at once here."""

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
        await self._arrive("list", resource)
        selects = _selector(labels, fields)
        found = [obj for obj in self.all(resource, namespace) if selects(obj)]
        start = int(continue_ or 0)
        end = start + limit if limit else len(found)
        return Listing(found[start:end], str(self.revision), str(end) if end < len(found) else "")

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
        await self._arrive("watch", resource)
        watcher = _Watcher((resource.group, resource.plural), namespace, _selector(labels, fields))
        if resource_version:
            since = int(resource_version)
            if since < self._compacted:
                raise Expired(f"too old resource version: {since} ({self._compacted})")
            for revision, type_id, event in self._history:
                if revision > since:
                    _offer(watcher, type_id, event)
        else:
            for obj in self.all(resource):
                _offer(watcher, watcher.type_id, WatchEvent("ADDED", obj))
        self._watchers.append(watcher)
        try:
            while (news := await watcher.queue.get()) is not None:
                if isinstance(news, ApiError):
                    raise news
                yield news
        finally:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

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
        await self._arrive("create", resource)
        if subresource:
            return self._post(resource, name, namespace, subresource, obj)
        metadata = dict(obj["metadata"])
        if not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + self.ids.suffix()
        new = {**obj, "metadata": metadata}
        if (namespace if resource.namespaced else "", metadata["name"]) in self._bucket(resource):
            raise AlreadyExists(resource.group, resource.plural, metadata["name"])
        if resource.plural not in _NO_STATUS and resource not in (builtin.NAMESPACES, builtin.NODES):
            new.pop("status", None)
        if dry_run:
            return new
        self._note("create", resource, namespace, metadata["name"])
        return self._add(resource, new, namespace)

    def _post(self, resource: Resource, name: str, namespace: str, subresource: str, obj: Object) -> Object:
        old = self.read(resource, name, namespace)
        match subresource:
            case "binding" if not old["spec"].get("nodeName") and not old["metadata"].get("deletionTimestamp"):
                self._note("create binding", resource, namespace, name)
                others = [one for one in old.get("status", {}).get("conditions", ()) if one["type"] != "PodScheduled"]
                conditions = [*others, {"type": "PodScheduled", "status": "True"}]
                status = {**old.get("status", {}), "conditions": conditions}
                bound = {**old["spec"], "nodeName": obj["target"]["name"]}
                self._store(resource, {**old, "spec": bound, "status": status}, old)
            case "eviction":
                self._begin_deletion(resource, old, None, None)
            case "token":
                seconds = (obj.get("spec") or {}).get("expirationSeconds") or 3600
                self.tokens += 1
                status = {"token": f"token-{self.tokens}", "expirationTimestamp": rfc3339(self.clock.now() + seconds)}
                return {**obj, "status": status}
            case _:
                raise self._stale(resource, old)
        return {"kind": "Status", "status": "Success"}

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
        await self._arrive("update", resource)
        old = self.read(resource, obj["metadata"]["name"], namespace)
        expected = obj["metadata"].get("resourceVersion")
        if expected and expected != old["metadata"]["resourceVersion"]:
            raise self._stale(resource, old)
        return self._write(resource, old, copy_tree(obj), subresource, "update", dry_run=dry_run)

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
        await self._arrive("patch", resource)
        old = self.read(resource, name, namespace)
        if isinstance(patch, Mapping):
            for part in ("resourceVersion", "uid"):
                expected = patch.get("metadata", {}).get(part)
                if expected and expected != old["metadata"][part]:
                    raise self._stale(resource, old)
            new = merged(old, patch)
        elif kind is PatchKind.JSON:
            new = json_patched(old, patch)
        else:
            raise BadRequest("a list is only a JSON patch")
        return self._write(resource, old, new, subresource, "patch", dry_run=dry_run)

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
        await self._arrive("delete", resource)
        old = self.read(resource, name, namespace)
        if uid and uid != old["metadata"]["uid"]:
            raise Conflict(resource.group, resource.plural, name, f"the UID in the precondition ({uid}) does not match")
        if resource_version and resource_version != old["metadata"]["resourceVersion"]:
            raise Conflict(resource.group, resource.plural, name, "the ResourceVersion in the precondition is old")
        if not dry_run:
            self._note("delete", resource, namespace, name)
            self._begin_deletion(resource, old, propagation, grace)
        return old

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
        listing = await self.list(resource, namespace, labels=labels, fields=fields)
        for obj in listing.items:
            where = obj["metadata"].get("namespace") or ""
            await self.delete(
                resource, obj["metadata"]["name"], where, propagation=propagation, grace=grace, dry_run=dry_run
            )

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
        self.read(builtin.PODS, name, namespace)
        for line in self.logs.get(f"{namespace}/{name}", ()):
            yield line

    # Inside

    async def _arrive(self, verb: str, resource: Resource) -> None:
        await asyncio.sleep(0)  # as on a network, others may come in between
        if (resource.group, resource.plural) not in self._resources:
            raise NotFound(resource.group, resource.plural, "")
        for index, (at, plural, error) in enumerate(self.faults):
            if at == verb and plural == resource.plural:
                del self.faults[index]
                raise error

    def _bucket(self, resource: Resource) -> dict[tuple[str, str], Object]:
        return self._objects[(resource.group, resource.plural)]

    def _stale(self, resource: Resource, old: Object) -> Conflict:
        return Conflict(
            resource.group,
            resource.plural,
            old["metadata"]["name"],
            "the object has been modified; please apply your changes to the latest version and try again",
        )

    def _note(self, verb: str, resource: Resource, namespace: str, name: str) -> None:
        self.writes.append(Write(verb, resource.plural, f"{namespace}/{name}" if namespace else name))

    def _add(self, resource: Resource, obj: Object, namespace: str) -> Object:
        metadata = {
            "uid": self.ids.uid(),
            "creationTimestamp": rfc3339(self.clock.now()),
            "generation": 1,
            **obj["metadata"],
        }
        if resource.namespaced:
            metadata["namespace"] = namespace or metadata.get("namespace") or "default"
        new = {"apiVersion": resource.api_version, "kind": resource.kind, **copy_tree(obj), "metadata": metadata}
        if resource is builtin.NAMESPACES:
            new.setdefault("spec", {"finalizers": ["kubernetes"]})
            new.setdefault("status", {"phase": "Active"})
        return self._publish(resource, new, "ADDED")

    def _write(
        self, resource: Resource, old: Object, new: Object, subresource: str, verb: str, *, dry_run: bool
    ) -> Object:
        match subresource:
            case "status":
                # As in the real server, annotations may ride along with a status.
                annotations = new["metadata"].get("annotations")
                metadata = {**old["metadata"], **({"annotations": annotations} if annotations else {})}
                new = {**old, "metadata": metadata, "status": new.get("status", {})}
            case "finalize":
                new = {**old, "spec": {**old.get("spec", {}), "finalizers": new["spec"].get("finalizers") or []}}
            case _ if resource.plural not in _NO_STATUS and "status" in old:
                new = {**new, "status": old["status"]}
            case _ if resource.plural not in _NO_STATUS:
                new.pop("status", None)
        if dry_run:
            return new
        self._note(
            f"{verb} {subresource}".strip(), resource, old["metadata"].get("namespace", ""), old["metadata"]["name"]
        )
        return self._store(resource, new, old)

    def _store(self, resource: Resource, new: Object, old: Object) -> Object:
        metadata = {**new["metadata"]}
        for kept in ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation"):
            if kept in old["metadata"]:
                metadata[kept] = old["metadata"][kept]
        if new.get("spec") != old.get("spec"):
            metadata["generation"] = old["metadata"].get("generation", 1) + 1
        new = {**new, "metadata": metadata}
        if new == old:
            return old
        if (
            metadata.get("deletionTimestamp")
            and not _held(resource, new)
            and not metadata.get("deletionGracePeriodSeconds")
        ):
            self._publish(resource, new, "DELETED")
            return new
        return self._publish(resource, new, "MODIFIED")

    def _begin_deletion(
        self, resource: Resource, old: Object, propagation: Propagation | None, grace: int | None
    ) -> None:
        finalizers = [name for name in old["metadata"].get("finalizers", ()) if name not in (ORPHAN, FOREGROUND)]
        match propagation:
            case Propagation.ORPHAN:
                finalizers.append(ORPHAN)
            case Propagation.FOREGROUND:
                finalizers.append(FOREGROUND)
            case None:
                finalizers = list(old["metadata"].get("finalizers", ()))
        metadata = {**old["metadata"], "finalizers": finalizers}
        if not finalizers:
            del metadata["finalizers"]
        seconds = self._grace(resource, old, grace)
        metadata.setdefault("deletionTimestamp", rfc3339(self.clock.now() + seconds))
        metadata["deletionGracePeriodSeconds"] = seconds
        new = {**old, "metadata": metadata}
        if resource is builtin.NAMESPACES:
            new["status"] = {**new.get("status", {}), "phase": "Terminating"}
        if _held(resource, new) or seconds:
            if new != old:
                self._publish(resource, new, "MODIFIED")
        else:
            self._publish(resource, new, "DELETED")

    def _grace(self, resource: Resource, old: Object, grace: int | None) -> int:
        if resource is not builtin.PODS or not old.get("spec", {}).get("nodeName"):
            return 0
        if old.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        default: int = old["spec"].get("terminationGracePeriodSeconds", 30)
        return default if grace is None else grace

    def _publish(self, resource: Resource, obj: Object, kind: str) -> Object:
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        if kind == "DELETED":
            self._bucket(resource).pop(_place(obj), None)
        else:
            self._bucket(resource)[_place(obj)] = obj
        self._published.append((obj, msgspec.json.encode(obj)))
        event = WatchEvent(kind, obj)
        type_id = (resource.group, resource.plural)
        self._history.append((self.revision, type_id, event))
        for watcher in self._watchers:
            _offer(watcher, type_id, event)
        return obj


def _offer(watcher: _Watcher, type_id: tuple[str, str], event: WatchEvent) -> None:
    if watcher.type_id != type_id:
        return
    if watcher.namespace and event.object["metadata"].get("namespace") != watcher.namespace:
        return
    if watcher.selects(event.object):
        watcher.queue.put_nowait(event)


def _place(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def _held(resource: Resource, obj: Mapping[str, Any]) -> bool:
    if obj["metadata"].get("finalizers"):
        return True
    return resource is builtin.NAMESPACES and bool(obj.get("spec", {}).get("finalizers"))


def _selector(labels: str, fields: str) -> Callable[[Object], bool]:
    wanted = parse_labels(labels)
    terms = parse_fields(fields)

    def selects(obj: Object) -> bool:
        if not wanted.matches(obj["metadata"].get("labels")):
            return False
        return all((str(path_value(obj, term.path) or "") == term.value) is term.equal for term in terms)

    return selects
