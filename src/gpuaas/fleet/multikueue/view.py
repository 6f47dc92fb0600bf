"""A view of one resource on a worker, limited by labels: listed, then kept fresh by a watch.

`runtime.informer` retries by itself; a RemoteView raises, so that its Worker can mark the connection lost and choose when
to dial again. The objects it has seen stay readable until then.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.kueue.integrations.keys import WORKLOAD
from gpuaas.kueue.multikueue.owners import workload_named
from gpuaas.runtime.metadata import Key, annotations_of, key_of

Changed = Callable[[Resource, Object], None]
_PAGE = 500
_LONGEST = 60.0  # seconds of one watch
_BETWEEN = 0.2


class RemoteView:
    def __init__(self, client: Client, resource: Resource, labels: str, changed: Changed, clock: Clock) -> None:
        self.resource = resource
        self._clock = clock
        self._client = client
        self._labels = labels
        self._changed = changed
        self._objects: dict[Key, Object] = {}
        self._by_workload: dict[Key, set[Key]] = {}
        self._resume = ""

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get(Key(namespace, name))

    def all(self) -> list[Object]:
        return list(self._objects.values())

    def of_workload(self, namespace: str, name: str) -> list[Object]:
        """Jobs made for a workload, or pods started for one."""
        found = self._by_workload.get(Key(namespace, name), ())
        return [self._objects[key] for key in sorted(found)]

    async def open(self) -> None:
        """Everything as it is now; raises what keeps it from being read."""
        found: dict[Key, Object] = {}
        more = ""
        while True:
            page = await self._client.list(self.resource, labels=self._labels, limit=_PAGE, continue_=more)
            found |= {key_of(item): _kept(item) for item in page.items}
            more = page.continue_
            if not more:
                break
        self._resume = page.resource_version
        for key in [key for key in self._objects if key not in found]:
            self._put(key, None)
        for key, obj in found.items():
            self._put(key, obj)

    async def follow(self) -> None:
        """Until the worker cannot be reached. A watch is ended every so often and resumed where it stood, because a
        stream that is open and brings nothing may be dead on the way."""
        while True:
            early = False
            watching = asyncio.ensure_future(self._watch())
            waiting = asyncio.ensure_future(self._clock.sleep(_LONGEST))
            try:
                await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
                early = not waiting.done()
                if watching.done():
                    await watching
            except ApiError as error:
                if error.code != 410:
                    raise
                await self.open()
            finally:
                watching.cancel()
                waiting.cancel()
                await asyncio.gather(watching, waiting, return_exceptions=True)
            if early:
                await self._clock.sleep(_BETWEEN)  # a server that ends each watch at once is not asked all the time

    async def _watch(self) -> None:
        events = self._client.watch(self.resource, resource_version=self._resume, labels=self._labels)
        async with contextlib.aclosing(events) as stream:
            async for kind, obj in stream:
                match kind:
                    case "ADDED" | "MODIFIED":
                        self._put(key_of(obj), _kept(obj))
                    case "DELETED":
                        self._put(key_of(obj), None)
                self._resume = obj["metadata"].get("resourceVersion") or self._resume

    def forget(self, namespace: str, name: str) -> None:
        """Drops an object that was just deleted, before its DELETED event arrives."""
        key = Key(namespace, name)
        self._index(key, self._objects.pop(key, None), None)

    def _index(self, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = (None if obj is None else _workload_of(obj) for obj in (old, new))
        if before == after:
            return
        if before is not None:
            keys = self._by_workload.get(before, set())
            keys.discard(key)
            if not keys:
                self._by_workload.pop(before, None)
        if after is not None:
            self._by_workload.setdefault(after, set()).add(key)

    def _put(self, key: Key, new: Object | None) -> None:
        old = self._objects.get(key)
        if old is not None and new is not None and _version(old) == _version(new):
            return
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new
        self._index(key, old, new)
        shown = new or old
        if shown is not None:
            self._changed(self.resource, shown)


def _workload_of(obj: Object) -> Key | None:
    name = workload_named(obj) or annotations_of(obj).get(WORKLOAD, "")
    return Key(obj["metadata"].get("namespace", ""), name) if name else None


def _version(obj: Object) -> tuple[Any, Any]:
    return obj["metadata"].get("uid"), obj["metadata"].get("resourceVersion")


def _kept(obj: Object) -> Object:
    if "managedFields" not in obj["metadata"]:
        return obj
    return {**obj, "metadata": {key: each for key, each in obj["metadata"].items() if key != "managedFields"}}
