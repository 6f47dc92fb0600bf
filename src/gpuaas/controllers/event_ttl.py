"""Events are forgotten an hour after they were last told of. The real server does this in its storage."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import Conflict, NotFound
from gpuaas.client.resources import EVENTS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, uid_of

KEEP_SECONDS = 3600.0


def expires_at(event: Mapping[str, Any], now: float) -> float:
    """An hour after it was last told of; a time in the future, by a clock that goes wrong, does not count."""
    series = event.get("series") or {}
    told = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    moments = [parse_rfc3339(moment) for moment in told if moment]
    made = parse_rfc3339(event["metadata"]["creationTimestamp"])
    return max([made, *(moment for moment in moments if moment <= now)]) + KEEP_SECONDS


class EventTtlController(Controller):
    name = "event-ttl-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._events = self.follow(deps.informers.of(EVENTS))

    async def reconcile(self, key: Key) -> Requeue | None:
        event = self._events.get(*key)
        if event is None:
            return None
        now = self.clock.now()
        left = expires_at(event, now) - now
        if left > 0:
            return Requeue(left)
        try:
            revision = event["metadata"]["resourceVersion"]
            await self.client.delete(EVENTS, key.name, key.namespace, uid=uid_of(event), resource_version=revision)
        except (NotFound, Conflict):
            pass  # gone already, or told of again: then its news will come
        return None
