"""Events are forgotten an hour after they were last told of. The real server does this in its storage.

There are more events than anything else and nobody waits for their end, so no view of them is kept: of each only where
it is and when it was made, in a heap. Once an hour has passed it is read again, and only then is it known whether it was
told of since.
"""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import EVENTS
from gpuaas.runtime.controller import Deps, Loop
from gpuaas.runtime.metadata import uid_of

KEEP_SECONDS: Final = 3600.0
_LOOK_EVERY: Final = 60.0
_TRY_AGAIN: Final = 5.0

_log = logging.getLogger(__name__)


def expires_at(event: Mapping[str, Any], now: float) -> float:
    """An hour after it was last told of; a time in the future, by a clock that goes wrong, does not count."""
    series = event.get("series") or {}
    told = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    moments = [parse_rfc3339(moment) for moment in told if moment]
    return max([_made(event), *(moment for moment in moments if moment <= now)]) + KEEP_SECONDS


class EventTtlController(Loop):
    name = "event-ttl-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._due: list[tuple[float, str, str]] = []
        self._known: set[tuple[str, str]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._forget())

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
        where = event["metadata"]["namespace"], event["metadata"]["name"]
        if kind == "DELETED":
            self._known.discard(where)
        elif where not in self._known:
            self._known.add(where)
            heapq.heappush(self._due, (_made(event) + KEEP_SECONDS, *where))

    async def _forget(self) -> None:
        while True:
            await self.clock.sleep(_LOOK_EVERY)
            while self._due and self._due[0][0] <= self.clock.now():
                _, namespace, name = heapq.heappop(self._due)
                if (namespace, name) in self._known:
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
            expires = now  # told of again meanwhile
        except (ApiError, OSError) as error:
            _log.debug("%s: %s", self.name, error)
            expires = now + _TRY_AGAIN
        heapq.heappush(self._due, (max(expires, now + _TRY_AGAIN), namespace, name))


def _made(event: Mapping[str, Any]) -> float:
    return parse_rfc3339(event["metadata"]["creationTimestamp"])
