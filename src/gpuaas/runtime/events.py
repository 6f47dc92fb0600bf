"""Events for people: what a controller did, recorded once and counted after that.

Kubernetes has two ways to do so, and its components one of the two each. The older: the same event again raises the
count of the first one; more than ten within ten minutes that differ only in their message become one "(combined from
similar events)"; one source may tell 25 things about one object, then one each five minutes. The newer (`series`), of
Kueue and the scheduler: what is done with one state of an object for one reason is one event with the first words; done
again it is a series, whose count is written at the second and when nothing has come for six minutes. Recording never
waits and never fails a reconcile: it is written behind.
"""

import asyncio
import logging
import platform
from collections import OrderedDict
from collections.abc import Awaitable, Callable, ItemsView, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gpuaas.base.clock import Clock, rfc3339, rfc3339_micro
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import EVENTS

NORMAL, WARNING = "Normal", "Warning"

SIMILAR_LIMIT = 10
SIMILAR_WINDOW = 600.0
BURST = 25
REFILL = 1 / 300.0
REMEMBERED = 4096
QUEUE_LIMIT = 20_000  # about 25 MB
AT_ONCE = 8
SERIES_END = 360.0

_log = logging.getLogger(__name__)
V = TypeVar("V")


class Recorder:
    """Records in the name of one component."""

    def __init__(self, sink: "EventSink", component: str, *, series: bool = False) -> None:
        self._sink = sink
        self._component = component
        self._series = series

    def event(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        type: str,
        reason: str,
        message: str,
        *,
        action: str = "",
    ) -> None:
        """`action`: what was done, where that has a name of its own; only a series shows it."""
        metadata = obj["metadata"]
        involved = {
            "kind": resource.kind,
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
            "uid": metadata.get("uid"),
            "apiVersion": resource.api_version,
            "resourceVersion": metadata.get("resourceVersion"),
        }
        said = {key: value for key, value in involved.items() if value}
        self._sink.record(_Said(self._component, said, type, reason, message, self._series, action or reason))


@dataclass(frozen=True, slots=True)
class _Said:
    component: str
    involved: Mapping[str, str]
    type: str
    reason: str
    message: str
    series: bool
    action: str

    @property
    def about(self) -> tuple[str, ...]:
        involved = (self.involved.get(part, "") for part in ("kind", "namespace", "name", "uid", "apiVersion"))
        return (self.component, *involved, self.type)


@dataclass(slots=True)
class _Similar:
    since: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Tokens:
    left: float
    at: float


@dataclass(slots=True)
class _Written:
    name: str
    namespace: str
    count: int
    written_count: int = 0
    last: float = 0.0  # of a series


class Correlator:
    """Decides what becomes of an event: nothing, a new one, or a count on an earlier one. Pure but for its memory."""

    def __init__(self) -> None:
        self._tokens: _Recent[_Tokens] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._written: _Recent[_Written] = _Recent()
        self._in_series: _Recent[_Written] = _Recent()
        self._last_nano = 0

    def correlate(self, said: _Said, now: float) -> "_Verdict | None":
        return self._series(said, now) if said.series else self._counted(said, now)

    def ended(self, now: float) -> "list[_Written]":
        """The series that have ended with a count that is not written yet. A later event starts a new series."""
        over = [(key, one) for key, one in self._in_series.items() if now - one.last > SERIES_END]
        for key, _ in over:
            self._in_series.drop(key)
        return [one for _, one in over if one.count > max(one.written_count, 1)]

    def _series(self, said: _Said, now: float) -> "_Verdict | None":
        key = (*said.about, said.reason, said.action, said.involved.get("resourceVersion", ""))
        earlier = self._in_series.get(key)
        if earlier is None or now - earlier.last > SERIES_END:
            earlier = _Written(self._name(said, now), said.involved.get("namespace") or "default", 1, last=now)
            self._in_series.put(key, earlier)
            return _Verdict(earlier, new=True, message=said.message, key=key)
        earlier.count += 1
        earlier.last = now
        return _Verdict(earlier, new=False, message=said.message, key=key) if earlier.count == 2 else None

    def _counted(self, said: _Said, now: float) -> "_Verdict | None":
        message, key = self._aggregate(said, now)
        earlier = self._written.get(key)
        if earlier is not None:
            earlier.count += 1  # what is not written now is still counted
        if not self._spend(said, now):
            return None
        if earlier is not None:
            return _Verdict(earlier, new=False, message=message, key=key)
        written = _Written(self._name(said, now), said.involved.get("namespace") or "default", 1)
        self._written.put(key, written)
        return _Verdict(written, new=True, message=message, key=key)

    def forget(self, verdict: "_Verdict") -> None:
        """The earlier event is not there any more: the next one starts a new series."""
        self._written.drop(verdict.key)
        self._in_series.drop(verdict.key)

    def _aggregate(self, said: _Said, now: float) -> tuple[str, tuple[str, ...]]:
        group = (*said.about, said.reason)
        similar = self._similar.get(group)
        if similar is None or now - similar.since > SIMILAR_WINDOW:
            similar = _Similar(now)
            self._similar.put(group, similar)
        similar.messages.add(said.message)
        similar.since = now
        if len(similar.messages) < SIMILAR_LIMIT:
            return said.message, (*group, said.message)
        similar.messages.pop()
        return f"(combined from similar events): {said.message}", group

    def _spend(self, said: _Said, now: float) -> bool:
        tokens = self._tokens.get(said.about)
        if tokens is None:
            tokens = _Tokens(BURST, now)
            self._tokens.put(said.about, tokens)
        tokens.left = min(BURST, tokens.left + (now - tokens.at) * REFILL)
        tokens.at = now
        if tokens.left < 1:
            return False
        tokens.left -= 1
        return True

    def _name(self, said: _Said, now: float) -> str:
        nano = max(int(now * 1e9), self._last_nano + 1)  # the clock may stand still, names may not
        self._last_nano = nano
        return f"{said.involved['name']}.{nano:x}"


@dataclass(frozen=True, slots=True)
class _Verdict:
    written: _Written
    new: bool
    message: str
    key: tuple[str, ...]


@dataclass(slots=True)
class _Unwritten:
    """An event that is to be created or updated; news about it before then only change it."""

    said: _Said
    written: _Written
    message: str
    first: float
    last: float
    new: bool
    changed: bool = True


class EventSink:
    """What is recorded is judged at once and written behind: the same event again costs no second write.

    A few are written at a time, since the store commits together what comes together; while requests are served first,
    only one asks for its turn. Should more different events wait than can be kept, the newest are dropped, and said so.
    """

    def __init__(self, client: Client, clock: Clock, turn: Callable[[], Awaitable[None]] | None = None) -> None:
        self._client = client
        self._clock = clock
        self._turn = turn
        self._correlator = Correlator()
        self._unwritten: dict[str, _Unwritten] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._gate = asyncio.Lock()
        self._dropped = 0

    @property
    def idle(self) -> bool:
        return not self._unwritten

    def recorder(self, component: str, *, series: bool = False) -> Recorder:
        return Recorder(self, component, series=series)

    def record(self, said: _Said) -> None:
        now = self._clock.now()
        verdict = self._correlator.correlate(said, now)
        if verdict is None:
            return
        name = f"{verdict.written.namespace}/{verdict.written.name}"
        waiting = self._unwritten.get(name)
        if waiting is not None:
            waiting.last, waiting.changed = now, True
            if not said.series:
                waiting.message = verdict.message
            return
        if len(self._unwritten) >= QUEUE_LIMIT:
            self._drop(verdict)
            return
        self._unwritten[name] = _Unwritten(said, verdict.written, verdict.message, now, now, verdict.new)
        self._queue.put_nowait(name)

    def _drop(self, verdict: _Verdict) -> None:
        if not self._dropped:
            _log.warning("%s events wait to be written: new ones are dropped until some are", QUEUE_LIMIT)
        self._dropped += 1
        if verdict.new:
            self._correlator.forget(verdict)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._work(), name=f"events {number}")
            group.create_task(self._end_series(), name="ended series of events")

    async def _end_series(self) -> None:
        while True:
            await self._clock.sleep(SERIES_END)
            for written in self._correlator.ended(self._clock.now()):
                try:
                    await self._client.patch(EVENTS, written.name, _number(written), written.namespace)
                except (ApiError, OSError) as error:
                    _log.debug("could not tell how often %s happened: %s", written.name, error)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            event = self._unwritten[name]
            try:
                if self._turn is not None:
                    async with self._gate:
                        await self._turn()
                event.changed = False
                await self._write(event)
            except (ApiError, OSError) as error:
                _log.debug("could not record %s for %s: %s", event.said.reason, name, error)
            if event.changed:
                self._queue.put_nowait(name)
                continue
            del self._unwritten[name]
            if self._dropped and not self._unwritten:
                _log.warning("%s events were dropped", self._dropped)
                self._dropped = 0

    async def _write(self, event: _Unwritten) -> None:
        written = event.written
        if not event.new:
            patch = _number(written) if event.said.series else _counted(event)
            try:
                await self._client.patch(EVENTS, written.name, patch, written.namespace)
                return
            except ApiError as error:
                if error.code != 404:
                    raise
            # It has expired: create it again.
            written.count, event.first = 1, event.last
        event.new = False
        await self._client.create(EVENTS, _in_series(event) if event.said.series else _event(event), written.namespace)


def _number(written: _Written) -> Object:
    written.written_count = written.count
    return {"series": {"count": written.count, "lastObservedTime": rfc3339_micro(written.last)}}


def _counted(event: _Unwritten) -> Object:
    return {"count": event.written.count, "lastTimestamp": rfc3339(event.last), "message": event.message}


def _in_series(event: _Unwritten) -> Object:
    said, written = event.said, event.written
    return {
        **_told(event),
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": rfc3339_micro(event.first),
        "action": said.action,
        "reportingInstance": f"{said.component}-{platform.node()}",
        **(_number(written) if written.count > 1 else {}),
    }


def _event(event: _Unwritten) -> Object:
    return {
        **_told(event),
        "source": {"component": event.said.component},
        "firstTimestamp": rfc3339(event.first),
        "lastTimestamp": rfc3339(event.last),
        "count": event.written.count,
        "eventTime": None,
        "reportingInstance": "",
    }


def _told(event: _Unwritten) -> Object:
    said, written = event.said, event.written
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": written.name, "namespace": written.namespace},
        "involvedObject": dict(said.involved),
        "reason": said.reason,
        "message": event.message,
        "type": said.type,
        "reportingComponent": said.component,
    }


class _Recent(Generic[V]):
    """A map of the keys used last."""

    def __init__(self) -> None:
        self._map: OrderedDict[tuple[str, ...], V] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> V | None:
        value = self._map.get(key)
        if value is not None:
            self._map.move_to_end(key)
        return value

    def put(self, key: tuple[str, ...], value: V) -> None:
        self._map[key] = value
        self._map.move_to_end(key)
        if len(self._map) > REMEMBERED:
            self._map.popitem(last=False)

    def drop(self, key: tuple[str, ...]) -> None:
        self._map.pop(key, None)

    def items(self) -> ItemsView[tuple[str, ...], V]:
        return self._map.items()
