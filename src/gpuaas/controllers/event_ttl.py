"""Events are deleted an hour after they last occurred. The real server does this in its storage.

There are more events than anything else and their end is not urgent, so no view of them is kept: of each only where
it is and when it was made, in a heap. Once an hour has passed it is read again, and only then is it known whether it was
updated since.

An hour of events has no bound of its own: at ten jobs a second it is a gigabyte. So a cluster keeps at most `MOST`; beyond
that the oldest go, of the namespaces that have the most of them, so that one tenant's jobs do not push out what others read.
"""

import asyncio
import contextlib
import heapq
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import EVENTS
from gpuaas.runtime.controller import Deps, Loop
from gpuaas.runtime.metadata import uid_of

KEEP_SECONDS: Final = 3600.0
MOST = 20_000  # about 35 MB of memory
_KEPT_OF_MOST: Final = 0.9  # when there are more, so that there is something to do only now and then
_AT_ONCE: Final = 32
_LOOK_EVERY: Final = 60.0
_TRY_AGAIN: Final = 5.0
_LEFT_IN_HEAP: Final = 1_000

_log = logging.getLogger(__name__)


def expires_at(event: Mapping[str, Any], now: float) -> float:
    """An hour after it last occurred; a time in the future, from a wrong clock, does not count."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    moments = [parse_rfc3339(moment) for moment in times if moment]
    return max([_made(event), *(moment for moment in moments if moment <= now)]) + KEEP_SECONDS


def level(sizes: Sequence[int], most: int) -> int:
    """The most that each may keep, so that all of them together keep no more than `most`: the small ones keep all."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= most:
            low = middle
        else:
            high = middle - 1
    return low


class EventTtlController(Loop):
    name = "event-ttl-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._due: list[tuple[float, str, str]] = []
        self._known: dict[str, dict[str, float]] = {}  # when each was made, by namespace and name
        self._count = 0
        self._too_many = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._forget())
            group.create_task(self._bound())

    async def _follow(self) -> None:
        while True:
            try:
                events = self.client.watch(EVENTS, outline=True)
                async with contextlib.aclosing(events) as stream:
                    async for kind, event in stream:
                        self._note(kind, event)
            except (ApiError, OSError) as error:
                _log.debug("%s: %s", self.name, error)
            await self.clock.sleep(_TRY_AGAIN)

    def _note(self, kind: str, event: Object) -> None:
        if kind == "BOOKMARK":
            return
        namespace, name = sys.intern(event["metadata"]["namespace"]), event["metadata"]["name"]
        if kind == "DELETED":
            self._drop(namespace, name)
        elif name not in self._known.get(namespace, ()):
            made = _made(event)
            self._known.setdefault(namespace, {})[name] = made
            self._count += 1
            heapq.heappush(self._due, (made + KEEP_SECONDS, namespace, name))
            if self._count > MOST:
                self._too_many.set()

    def _drop(self, namespace: str, name: str) -> None:
        names = self._known.get(namespace)
        if names is None or names.pop(name, None) is None:
            return
        self._count -= 1
        if not names:
            del self._known[namespace]
        if len(self._due) > 2 * self._count + _LEFT_IN_HEAP:  # most of it has gone
            self._due = [one for one in self._due if one[2] in self._known.get(one[1], ())]
            heapq.heapify(self._due)

    async def _bound(self) -> None:
        while True:
            await self._too_many.wait()
            self._too_many.clear()
            kept = level([len(names) for names in self._known.values()], int(MOST * _KEPT_OF_MOST))
            surplus = [
                (namespace, name)
                for namespace, names in self._known.items()
                for name in heapq.nsmallest(len(names) - kept, names, key=names.__getitem__)
            ]
            for start in range(0, len(surplus), _AT_ONCE):
                await asyncio.gather(*(self._remove(*each) for each in surplus[start : start + _AT_ONCE]))

    async def _remove(self, namespace: str, name: str) -> None:
        try:
            await self.client.delete(EVENTS, name, namespace)
        except NotFound:
            pass
        except (ApiError, OSError) as error:
            _log.debug("%s: %s", self.name, error)
            return
        self._drop(namespace, name)

    async def _forget(self) -> None:
        while True:
            await self.clock.sleep(_LOOK_EVERY)
            while self._due and self._due[0][0] <= self.clock.now():
                _, namespace, name = heapq.heappop(self._due)
                if name in self._known.get(namespace, ()):
                    await self._look_at(namespace, name)

    async def _look_at(self, namespace: str, name: str) -> None:
        now = self.clock.now()
        try:
            event = await self.client.get(EVENTS, name, namespace)
            expires = expires_at(event, now)
            if expires <= now:
                revision = event["metadata"]["resourceVersion"]
                await self.client.delete(EVENTS, name, namespace, uid=uid_of(event), resource_version=revision)
                return
        except NotFound:
            return
        except Conflict:
            expires = now  # it occurred again meanwhile
        except (ApiError, OSError) as error:
            _log.debug("%s: %s", self.name, error)
            expires = now + _TRY_AGAIN
        heapq.heappush(self._due, (max(expires, now + _TRY_AGAIN), namespace, name))


def _made(event: Mapping[str, Any]) -> float:
    return parse_rfc3339(event["metadata"]["creationTimestamp"])
