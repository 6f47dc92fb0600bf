"""A local view of one resource, kept fresh by list and watch.

The objects are the client's own, by reference, but for who owns which field, which is half of many an object and no
controller's business: they are never changed in place. A watch that ends is resumed where it stood; a revision that is gone (410)
means a new list, whose difference to the view reaches the handlers as events. Handlers are called synchronously with (old, new); None stands for absent. `caught_up` and `gone` let a writer wait
until the view contains its own writes (module writes does that for every controller).
An object that an index or a handler cannot read is set aside (module quarantine); the others' news go on.
"""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.metadata import Key, is_deleting, key_of, owners_of, revision_of, uid_of
from gpuaas.runtime.quarantine import Aside

Handler = Callable[[Object | None, Object | None], None]
Indexer = Callable[[Mapping[str, Any]], Iterable[str]]

OWNER = "owner"
NAMESPACE = "namespace"
_INFORMER = "informer"  # the component that faults of indexes are noted under

_log = logging.getLogger(__name__)


class Informer:
    def __init__(
        self, client: Client, resource: Resource, clock: Clock, *, outline: bool = False, aside: Aside | None = None
    ) -> None:
        """`outline`: of each object only its metadata is kept."""
        self._aside = aside or Aside()
        self.resource = resource
        self._outline = outline
        self._client = client
        self._clock = clock
        self._objects: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._of_owned: list[Handler] = []  # that hear only of objects that belong to another one
        self._indexers: dict[str, Indexer] = {OWNER: _owner_uids, NAMESPACE: _namespaces}
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {OWNER: {}, NAMESPACE: {}}
        self._synced = asyncio.Event()
        self._revision = 0
        self._resume = ""
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._leaving: dict[Key, list[tuple[str, bool, asyncio.Future[None]]]] = {}
        self._sequence = 0
        self._stopped = False

    # Reading

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get(Key(namespace, name))

    def all(self) -> list[Object]:
        return list(self._objects.values())

    def in_namespace(self, namespace: str) -> list[Object]:
        return self.indexed(NAMESPACE, namespace)

    def owned_by(self, uid: str) -> list[Object]:
        return self.indexed(OWNER, uid)

    def indexed(self, index: str, value: str) -> list[Object]:
        return list(self._indexes[index].get(value, {}).values())

    def count(self, index: str, value: str) -> int:
        return len(self._indexes[index].get(value, ()))

    @property
    def revision(self) -> int:
        """How far the view has come: it has changed only if this has moved."""
        return self._revision

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    # Listening

    def subscribe(self, handler: Handler, *, owned: bool = False) -> None:
        """A late handler first gets every object of the view as an addition. `owned`: only of objects that belong to others,
        before or after, which is asked once for all who want that."""
        (self._of_owned if owned else self._handlers).append(handler)
        for obj in self.all():
            if not owned or owners_of(obj):
                self._tell((handler,), None, obj)

    def unsubscribe(self, handler: Handler) -> None:
        (self._handlers if handler in self._handlers else self._of_owned).remove(handler)

    def hears(self, handler: Handler) -> bool:
        return handler in self._handlers or handler in self._of_owned

    @property
    def has_listeners(self) -> bool:
        return bool(self._handlers or self._of_owned)

    def add_index(self, index: str, indexer: Indexer) -> None:
        """`indexed(index, value)` then gives the objects for which `indexer` names the value."""
        if index in self._indexers:
            return
        self._indexers[index] = indexer
        buckets: dict[str, dict[Key, Object]] = {}
        self._indexes[index] = buckets
        for key, obj in self._objects.items():
            for value in self._values(indexer, obj):
                buckets.setdefault(value, {})[key] = obj

    async def synced(self) -> None:
        await self._synced.wait()

    async def caught_up(self, revision: int) -> None:
        """Returns once everything up to `revision` has been seen; at once where nothing keeps this view fresh."""
        if revision <= self._revision or self._stopped:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._waiting, (revision, self._sequence, waiter))
        await waiter

    async def gone(self, key: Key, uid: str, *, fully: bool = False) -> None:
        """Returns once the view shows that deletion of this object has at least begun, or `fully` happened."""
        if self._stopped or _is_gone(self._objects.get(key), uid, fully=fully):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leaving.setdefault(key, []).append((uid, fully, waiter))
        await waiter

    # Running

    async def run(self) -> None:
        """Until cancelled. Failures are waited out; the view stays as it was meanwhile."""
        backoff = Backoff(first=0.8, limit=30.0)
        try:
            while True:
                try:
                    if not self._resume:
                        await self._relist()
                    await self._follow()
                    backoff.reset()
                except ApiError as error:
                    if error.code == 410:
                        self._resume = ""
                        continue
                    _log.debug("watch of %s failed: %s", self.resource, error)
                    await self._clock.sleep(backoff.next())
                except OSError as error:
                    _log.debug("watch of %s failed: %s", self.resource, error)
                    await self._clock.sleep(backoff.next())
                except Exception:  # an unexpected fault must not leave a view that silently grows old
                    _log.exception("watch of %s failed", self.resource)
                    self._resume = ""
                    await self._clock.sleep(backoff.next())
        finally:
            self._stop()

    async def _relist(self) -> None:
        found: dict[Key, Object] = {}
        more = ""
        while True:
            page = await self._client.list(self.resource, continue_=more, outline=self._outline)
            for item in page.items:
                with self._aside.guard(_INFORMER, item):
                    found[key_of(item)] = self._kept(item)
            more = page.continue_
            if not more:
                break
        for key in [key for key in self._objects if key not in found]:
            self._put(key, None)
        for key, obj in found.items():
            self._put(key, obj)
        self._reached(page.resource_version)
        self._synced.set()

    async def _follow(self) -> None:
        events = self._client.watch(self.resource, resource_version=self._resume, outline=self._outline)
        # Closed even when a handler raises: a watch left open would keep its place on the server.
        async with contextlib.aclosing(events) as stream:
            async for kind, obj in stream:
                match kind:
                    case "ADDED" | "MODIFIED":
                        self._put(key_of(obj), self._kept(obj))
                    case "DELETED":
                        self._put(key_of(obj), None)
                self._reached(obj["metadata"].get("resourceVersion", ""))

    def _kept(self, obj: Object) -> Object:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        if not self._outline:
            return {**obj, "metadata": metadata}
        return {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": metadata}

    def _stop(self) -> None:
        self._stopped = True
        for _, _, waiter in self._waiting:
            _wake(waiter)
        for waiters in self._leaving.values():
            for _, _, waiter in waiters:
                _wake(waiter)
        self._waiting.clear()
        self._leaving.clear()

    def _reached(self, resource_version: str) -> None:
        if not resource_version:
            return
        self._resume = resource_version
        self._revision = max(self._revision, natural(resource_version) or 0)
        while self._waiting and self._waiting[0][0] <= self._revision:
            _wake(heapq.heappop(self._waiting)[2])

    def _put(self, key: Key, new: Object | None) -> None:
        old = self._objects.get(key)
        if old is None and new is None:
            return
        if old is not None and new is not None:
            if old is new or (revision_of(old) == revision_of(new) and uid_of(old) == uid_of(new)):
                return
            if uid_of(old) != uid_of(new):
                # The object under the name is another one: the first has gone, whatever the watch left out.
                self._put(key, None)
                old = None
        self._index(key, old, new)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        self._tell_leavers(key, new)
        self._tell(self._handlers, old, new)
        if self._of_owned and ((old is not None and owners_of(old)) or (new is not None and owners_of(new))):
            self._tell(self._of_owned, old, new)

    def _tell(self, handlers: Iterable[Handler], old: Object | None, new: Object | None) -> None:
        for handler in handlers:
            try:
                handler(old, new)
            except Exception as error:  # one listener's fault must not stop the others' news
                self._aside.note(_named(handler), new or old or {}, error)

    def _index(self, key: Key, old: Object | None, new: Object | None) -> None:
        for index, indexer in self._indexers.items():
            buckets = self._indexes[index]
            before = self._values(indexer, old) if old is not None else ()
            after = self._values(indexer, new) if new is not None else ()
            for value in before:
                bucket = buckets.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del buckets[value]
            if new is not None:
                for value in after:
                    buckets.setdefault(value, {})[key] = new

    def _values(self, indexer: Indexer, obj: Object) -> Iterable[str]:
        """Where the object is filed; one that cannot be read is filed nowhere."""
        try:
            return tuple(indexer(obj))
        except Exception as error:
            self._aside.note(_INFORMER, obj, error)
            return ()

    def _tell_leavers(self, key: Key, new: Object | None) -> None:
        waiters = self._leaving.get(key)
        if not waiters:
            return
        staying = []
        for uid, fully, waiter in waiters:
            if _is_gone(new, uid, fully=fully):
                _wake(waiter)
            else:
                staying.append((uid, fully, waiter))
        if staying:
            self._leaving[key] = staying
        else:
            del self._leaving[key]


class Informers:
    """The informers of one cluster, shared by everyone who asks: one for each resource, and an outline of those that
    handlers follow and none needs whole."""

    def __init__(self, client: Client, clock: Clock, aside: Aside | None = None) -> None:
        self._client = client
        self._clock = clock
        self._aside = aside or Aside()
        self._informers: dict[Resource, Informer] = {}
        self._outlines: dict[Resource, Informer] = {}
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._started = False

    def of(self, resource: Resource) -> Informer:
        """The informer of a resource; one asked for while running starts at once."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._informers[resource] = Informer(self._client, resource, self._clock, aside=self._aside)
            if self._started:
                self._launch(informer)
        return informer

    def outline(self, resource: Resource) -> Informer:
        """The same for who looks at nothing but metadata: a view of its own where there is none of whole objects."""
        informer = self._informers.get(resource) or self._outlines.get(resource)
        if informer is None:
            informer = self._outlines[resource] = Informer(
                self._client, resource, self._clock, outline=True, aside=self._aside
            )
            if self._started:
                self._launch(informer)
        return informer

    @property
    def resources(self) -> list[Resource]:
        """The resources in use."""
        return [*self._informers, *self._outlines]

    def known(self, resource: Resource) -> Informer | None:
        """The running informer of a resource in use, or None."""
        return (self._informers.get(resource) or self._outlines.get(resource)) if self._started else None

    def start(self) -> None:
        self._started = True
        for informer in self._all():
            if informer not in self._tasks:
                self._launch(informer)

    async def synced(self) -> None:
        for informer in self._all():
            await informer.synced()

    async def release(self, resource: Resource, handler: Handler) -> None:
        """The handler is done with the resource; a resource without handlers is no longer watched."""
        for informers in (self._informers, self._outlines):
            informer = informers.get(resource)
            if informer is None or not informer.hears(handler):
                continue
            informer.unsubscribe(handler)
            if informer.has_listeners:
                return
            del informers[resource]
            task = self._tasks.pop(informer, None)
            if task is not None:
                await _cancelled([task])
            return

    async def stop(self) -> None:
        self._started = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await _cancelled(tasks)

    def _all(self) -> list[Informer]:
        return [*self._informers.values(), *self._outlines.values()]

    def _launch(self, informer: Informer) -> None:
        task = asyncio.get_running_loop().create_task(informer.run(), name=f"informer {informer.resource}")
        self._tasks[informer] = task


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _named(handler: Handler) -> str:
    """Whose handler it is, for people."""
    owner = getattr(handler, "__self__", None)
    name = getattr(owner, "name", "")
    if isinstance(name, str) and name:
        return name
    module: str = getattr(handler, "__module__", "") if owner is None else type(owner).__module__
    return next(iter(module.split(".")[2:]), _INFORMER)  # gpuaas.controllers.kueue.world: kueue


def _owner_uids(obj: Mapping[str, Any]) -> Iterable[str]:
    return [reference["uid"] for reference in owners_of(obj)]


def _namespaces(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"].get("namespace") or "",)


def _is_gone(obj: Object | None, uid: str, *, fully: bool) -> bool:
    return obj is None or uid_of(obj) != uid or (is_deleting(obj) and not fully)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
