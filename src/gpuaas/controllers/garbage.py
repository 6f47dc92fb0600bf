"""Garbage collection by owner references: an object whose owners are all gone goes too.

Background: the owner goes, its dependents follow. Foreground: the owner waits (finalizer `foregroundDeletion`) until
the dependents that block it are gone. Orphan: the dependents lose the reference first (finalizer `orphan`). An owner
is absent only when the server says so, never because the view lacks it. A namespaced owner counts only within its own
namespace. The collector follows every resource that can be listed, watched and deleted, as discovery tells of them.
"""

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.informer import Handler, Informer
from gpuaas.runtime.metadata import finalizers_of, is_deleting, key_of, owners_of, uid_of

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
REMEMBERED_ABSENT = 4096
LOOK_AGAIN = 5.0


class Item(NamedTuple):
    resource: Resource
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner references of one object, by what became of the owners."""

    solid: Sequence[Object] = ()
    dangling: Sequence[Object] = ()
    waiting: Sequence[Object] = ()  # in foreground deletion: they wait for this very object
    unseen: bool = False  # one exists that the view does not show yet: were it deleted now, no news might tell


class Nothing(NamedTuple): ...


class RemoveFinalizer(NamedTuple):
    finalizer: str


class OrphanDependents(NamedTuple): ...


class VisitDependents(NamedTuple): ...


class DropReferences(NamedTuple):
    uids: frozenset[str]


class Delete(NamedTuple):
    propagation: Propagation
    unblock: bool = False  # a circle of foreground deletions is broken by making the references non-blocking


Action = Nothing | RemoveFinalizer | OrphanDependents | VisitDependents | DropReferences | Delete


def decide_leaving(obj: Mapping[str, Any], dependents: Iterable[Mapping[str, Any]]) -> Action:
    """For an object that is being deleted."""
    finalizers = finalizers_of(obj)
    if ORPHAN in finalizers:
        return OrphanDependents()
    if FOREGROUND not in finalizers:
        return Nothing()
    if any(_blocks(dependent, uid_of(obj)) for dependent in dependents):
        return VisitDependents()
    return RemoveFinalizer(FOREGROUND)


def decide_staying(obj: Mapping[str, Any], owners: Owners, dependents: Sequence[Mapping[str, Any]]) -> Action:
    """For an object without deletionTimestamp: does an owner still exist?"""
    if owners.solid:
        gone = frozenset(reference["uid"] for reference in (*owners.dangling, *owners.waiting))
        return DropReferences(gone) if gone else Nothing()
    if owners.waiting and dependents:
        return Delete(Propagation.FOREGROUND, unblock=any(_deletes_dependents(one) for one in dependents))
    finalizers = finalizers_of(obj)
    if ORPHAN in finalizers:
        return Delete(Propagation.ORPHAN)
    if FOREGROUND in finalizers:
        return Delete(Propagation.FOREGROUND)
    return Delete(Propagation.BACKGROUND)


def _blocks(dependent: Mapping[str, Any], owner_uid: str) -> bool:
    return any(ref["uid"] == owner_uid and ref.get("blockOwnerDeletion") for ref in owners_of(dependent))


def _deletes_dependents(obj: Mapping[str, Any]) -> bool:
    return is_deleting(obj) and FOREGROUND in finalizers_of(obj)


class GarbageCollector(Controller):
    name = "garbage-collector-controller"
    component = "garbage-collector-controller"
    workers = 8
    patient = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._discovery = deps.discovery
        self._handlers: dict[Resource, Handler] = {}
        self._views: dict[Resource, Informer] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._dependents: defaultdict[str, set[Item]] = defaultdict(set)
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._changed = asyncio.Event()
        deps.discovery.subscribe(self._changed.set)

    async def run(self) -> None:
        await self._discover()
        await self._all_synced()
        discovering = asyncio.get_running_loop().create_task(self._rediscover())
        try:
            await super().run()
        finally:
            discovering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await discovering

    # Which resources there are

    async def _rediscover(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._discover()
            except ApiError:
                await self.clock.sleep(1.0)
                self._changed.set()

    async def _discover(self) -> None:
        self._changed.clear()
        served = await self._discovery.resources()
        self._by_kind = {(one.resource.group, one.resource.kind): one.resource for one in served}
        wanted = {
            one.resource
            for one in served
            if one.allows("delete", "list", "watch") and (one.resource.group, one.resource.plural) not in IGNORED
        }
        for resource in self._handlers.keys() - wanted:
            del self._views[resource]
            await self.informers.release(resource, self._handlers.pop(resource))
        for resource in wanted - self._handlers.keys():
            self._watch(resource)

    def _watch(self, resource: Resource) -> None:
        def changed(old: Object | None, new: Object | None) -> None:
            self._observe(resource, old, new)

        self._handlers[resource] = changed
        view = self._views[resource] = self.informers.outline(resource)
        view.subscribe(changed)

    async def _all_synced(self) -> None:
        for view in list(self._views.values()):
            await view.synced()

    def _view(self, resource: Resource, namespace: str, name: str) -> Object | None:
        view = self._views.get(resource)
        return view.get(namespace if resource.namespaced else "", name) if view is not None else None

    # What the news means

    def _observe(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        before = owners_of(old) if old is not None else ()
        after = owners_of(new) if new is not None else ()
        if before or after:
            self._relink(resource, old, new, before, after)
        if new is None:
            self._departed(old)
            return
        if after and before != after:
            self.queue.add(_item(resource, new))
        if is_deleting(new) and finalizers_of(new):
            item = _item(resource, new)
            if FOREGROUND in finalizers_of(new) and not (old is not None and _deletes_dependents(old)):
                self._queue_all(self._dependents.get(item.uid, ()))
            self.queue.add(item)

    def _relink(
        self,
        resource: Resource,
        old: Object | None,
        new: Object | None,
        before: Sequence[Object],
        after: Sequence[Object],
    ) -> None:
        item = _item(resource, new if new is not None else old)  # type: ignore[arg-type] # one of them is there
        owners = {reference["uid"] for reference in after}
        blocked = {reference["uid"] for reference in after if reference.get("blockOwnerDeletion")}
        for reference in after:
            self._dependents[reference["uid"]].add(item)
        for reference in before:
            uid = reference["uid"]
            if uid not in owners:
                self._unlink(uid, item)
            if uid not in blocked:
                self._queue_waiting(reference, item)

    def _unlink(self, owner_uid: str, item: Item) -> None:
        dependents = self._dependents.get(owner_uid)
        if dependents is not None:
            dependents.discard(item)
            if not dependents:
                del self._dependents[owner_uid]

    def _queue_waiting(self, reference: Object, dependent: Item) -> None:
        """An owner in foreground deletion may be free now."""
        found = self._viewed(reference, dependent.namespace)
        if found is not None and is_deleting(found[1]):
            self.queue.add(_item(*found))

    def _departed(self, old: Object | None) -> None:
        if old is None:
            return
        uid = uid_of(old)
        dependents = self._dependents.get(uid)
        if dependents:
            self._remember_absent(uid)
            self._queue_all(dependents)

    def _queue_all(self, items: Iterable[Item]) -> None:
        for item in list(items):
            self.queue.add(item)

    def _remember_absent(self, uid: str) -> None:
        self._absent[uid] = None
        if len(self._absent) > REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    # What is done about one object

    def subject_of(self, key: Item) -> Object | None:
        return self._view(key.resource, key.namespace, key.name)

    async def reconcile(self, key: Item) -> Requeue | None:
        obj = self._view(key.resource, key.namespace, key.name)
        if obj is None or uid_of(obj) != key.uid:
            return None
        dependents = self._dependents_of(key)
        owners = Owners()
        if is_deleting(obj):
            action = decide_leaving(obj, dependents)
        elif owners_of(obj):
            classified = await self._classify(key, obj)
            if classified is None:
                return None
            owners = classified
            action = decide_staying(obj, owners, dependents)
        else:
            return None
        with contextlib.suppress(NotFound):
            await self._perform(action, key, obj)
        return Requeue(LOOK_AGAIN) if owners.unseen else None

    def _dependents_of(self, item: Item) -> list[Object]:
        found = []
        for dependent in self._dependents.get(item.uid, ()):
            obj = self._view(dependent.resource, dependent.namespace, dependent.name)
            if obj is not None and uid_of(obj) == dependent.uid:
                found.append(obj)
        return found

    async def _classify(self, item: Item, obj: Object) -> Owners | None:
        """None where the references make no sense: a cluster-scoped object cannot have a namespaced owner."""
        solid, dangling, waiting, unseen = [], [], [], False
        for reference in owners_of(obj):
            resource = self._resolve(reference)
            if resource.namespaced and not item.namespace:
                return None
            owner = await self._find(reference, resource, item)
            if owner is None:
                dangling.append(reference)
                self._report_stranger(item, obj, reference, resource)
            elif _deletes_dependents(owner):
                waiting.append(reference)
            else:
                solid.append(reference)
                unseen = unseen or (resource in self._handlers and self._viewed(reference, item.namespace) is None)
        return Owners(solid, dangling, waiting, unseen)

    def _resolve(self, reference: Object) -> Resource:
        group = reference["apiVersion"].rpartition("/")[0]
        resource = self._by_kind.get((group, reference["kind"]))
        if resource is None:
            # It may be a kind that is yet to come; the queue asks again later and later.
            raise NotFound(group, reference["kind"], reference["name"])
        return resource

    async def _find(self, reference: Object, resource: Resource, item: Item) -> Object | None:
        if reference["uid"] in self._absent:
            return None
        viewed = self._viewed(reference, item.namespace)
        if viewed is not None:
            return viewed[1]
        try:
            owner = await self.client.get(resource, reference["name"], item.namespace if resource.namespaced else "")
        except NotFound:
            return None
        return owner if uid_of(owner) == reference["uid"] else None

    def _viewed(self, reference: Object, namespace: str) -> tuple[Resource, Object] | None:
        group = reference["apiVersion"].rpartition("/")[0]
        resource = self._by_kind.get((group, reference["kind"]))
        if resource is None:
            return None
        owner = self._view(resource, namespace, reference["name"])
        return (resource, owner) if owner is not None and uid_of(owner) == reference["uid"] else None

    def _report_stranger(self, item: Item, obj: Object, reference: Object, resource: Resource) -> None:
        """The owner exists, but in another namespace: say so, because the object is about to be deleted for it."""
        if not resource.namespaced or resource not in self._handlers:
            return
        if any(uid_of(one) == reference["uid"] for one in self._views[resource].all()):
            owner = (
                f"[{reference['apiVersion']}/{reference['kind']}, namespace: {item.namespace}, "
                f"name: {reference['name']}, uid: {reference['uid']}]"
            )
            message = f'ownerRef {owner} does not exist in namespace "{item.namespace}"'
            self.recorder.event(item.resource, obj, WARNING, "OwnerRefInvalidNamespace", message)

    async def _perform(self, action: Action, item: Item, obj: Object) -> None:
        match action:
            case RemoveFinalizer(finalizer):
                await self._remove_finalizer(item, obj, finalizer)
            case OrphanDependents():
                for dependent in sorted(self._dependents.get(item.uid, ()), key=lambda one: one[1:]):
                    await self._orphan(dependent, item.uid)
                await self._remove_finalizer(item, obj, ORPHAN)
            case VisitDependents():
                self._queue_all(self._dependents.get(item.uid, ()))
            case DropReferences(uids):
                await self._drop_references(item, obj, uids)
            case Delete(propagation, unblock):
                if unblock:
                    obj = await self._unblock(item, obj)
                await self._delete(item, obj, propagation)

    async def _orphan(self, dependent: Item, owner_uid: str) -> None:
        with contextlib.suppress(NotFound):
            obj = await self.client.get(dependent.resource, dependent.name, dependent.namespace)
            if uid_of(obj) == dependent.uid:
                await self._drop_references(dependent, obj, frozenset({owner_uid}))

    async def _drop_references(self, item: Item, obj: Object, uids: frozenset[str]) -> None:
        left = [reference for reference in owners_of(obj) if reference["uid"] not in uids]
        if len(left) != len(owners_of(obj)):
            await self._patch_metadata(item, obj, {"ownerReferences": left or None})

    async def _unblock(self, item: Item, obj: Object) -> Object:
        free = [{**reference, "blockOwnerDeletion": False} for reference in owners_of(obj)]
        return await self._patch_metadata(item, obj, {"ownerReferences": free})

    async def _remove_finalizer(self, item: Item, obj: Object, finalizer: str) -> None:
        left = [name for name in finalizers_of(obj) if name != finalizer]
        await self._patch_metadata(item, obj, {"finalizers": left or None})

    async def _patch_metadata(self, item: Item, obj: Object, metadata: Object) -> Object:
        expected = {"uid": item.uid, "resourceVersion": obj["metadata"]["resourceVersion"]}
        patch = {"metadata": {**expected, **metadata}}
        return await self.client.patch(item.resource, item.name, patch, item.namespace)

    async def _delete(self, item: Item, obj: Object, propagation: Propagation) -> None:
        revision = obj["metadata"]["resourceVersion"]
        try:
            await self.client.delete(
                item.resource,
                item.name,
                item.namespace,
                propagation=propagation,
                uid=item.uid,
                resource_version=revision,
            )
        except Conflict:
            latest = await self.client.get(item.resource, item.name, item.namespace)
            if uid_of(latest) != item.uid or owners_of(latest) != owners_of(obj):
                raise
            # Only something else about it changed: a busy object must not escape for that.
            await self.client.delete(item.resource, item.name, item.namespace, propagation=propagation, uid=item.uid)


def _item(resource: Resource, obj: Mapping[str, Any]) -> Item:
    return Item(resource, *key_of(obj), uid_of(obj))
