"""Events are forgotten an hour after they were last told of. The real server does this in its storage.

There are more events than anything else and nobody waits for their end, so they are not followed one by one: now and
then all are looked over, page by page, by their metadata, and only those that may be old enough are read.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import EVENTS
from gpuaas.runtime.controller import Controller
from gpuaas.runtime.metadata import uid_of

KEEP_SECONDS: Final = 3600.0
_LOOK_EVERY: Final = 60.0
_PAGE: Final = 200

_log = logging.getLogger(__name__)


def expires_at(event: Mapping[str, Any], now: float) -> float:
    """An hour after it was last told of; a time in the future, by a clock that goes wrong, does not count."""
    series = event.get("series") or {}
    told = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    moments = [parse_rfc3339(moment) for moment in told if moment]
    return max([_made(event), *(moment for moment in moments if moment <= now)]) + KEEP_SECONDS


class EventTtlController(Controller):
    name = "event-ttl-controller"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.clock.sleep(_LOOK_EVERY)
            try:
                await self._look_over()
            except (ApiError, OSError) as error:
                _log.debug("%s: %s", self.name, error)  # the next time begins anew

    async def _look_over(self) -> None:
        more = ""
        while True:
            page = await self.client.list(EVENTS, limit=_PAGE, continue_=more, outline=True)
            now = self.clock.now()
            for event in page.items:
                if _made(event) + KEEP_SECONDS <= now:
                    await self._forget_if_old(event)
            more = page.continue_
            if not more:
                return
            await self.clock.sleep(0)  # others come first

    async def _forget_if_old(self, outline: Object) -> None:
        name, namespace = outline["metadata"]["name"], outline["metadata"]["namespace"]
        try:
            event = await self.client.get(EVENTS, name, namespace)
            now = self.clock.now()
            if expires_at(event, now) <= now:
                revision = event["metadata"]["resourceVersion"]
                await self.client.delete(EVENTS, name, namespace, uid=uid_of(event), resource_version=revision)
        except (NotFound, Conflict):
            pass  # gone already, or told of again


def _made(event: Mapping[str, Any]) -> float:
    return parse_rfc3339(event["metadata"]["creationTimestamp"])
