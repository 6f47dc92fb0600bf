"""Server-sent events: the fragments of a page that changed, with the store's revision as id.

A channel is one page of one session at one address; all tabs that show it share its renders. While it has readers, it
is looked at whenever something that the page follows has changed, at most four times a second, and less often where
rendering takes long. It remembers for each fragment the revision at which its HTML changed last. So a reader that comes
back with the id of its last event gets what changed since, whether or not it was seen, and a reader that is slow is
passed over until it has room and then gets the same: nothing waits in memory for it. One that has no room for long is
dropped. The number of streams is bounded, in all, for each user and for each session; a session's end ends its streams.

A browser opens six connections to a host over HTTP/1.1, whatever the number of its tabs, and then waits. So over HTTP/1.1
a session has `MOST_OVER_HTTP1` streams: one more ends the oldest, whose page comes back after a while and ends another's.
All pages of many windows stay current in turns, and there is always a connection left to load a page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from gpuaas.apiserver.http import Stream, StreamWriter
from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.web.sessions import Session
from gpuaas.web.wire import NOT_KEPT, SECURITY

MOST: Final = 1_000
MOST_OF_USER: Final = 200
MOST_OF_SESSION: Final = 32
MOST_OVER_HTTP1: Final = 4
EVERY: Final = 0.25  # seconds between two looks at a page
_SHARE: Final = 4  # a round of looks is followed by so many times its length without any
_ANYWAY: Final = 10.0  # seconds after which a page is looked at though nothing it follows has changed
BEAT: Final = 10.0  # seconds between two signs of life
SLOW: Final = 30.0  # seconds that a reader may have no room
_KEPT: Final = 30.0  # seconds a channel without readers remembers
_KEPT_OF_SESSION: Final = 8  # channels without readers, of one session
PATIENCE: Final = 0.5  # seconds of the loop's time others wait for one render; a longer one goes on beside them
_log = logging.getLogger("gpuaas.web")

Render = Callable[[], Awaitable[Mapping[str, str]]]
"""The fragments of the page now, by name. Raises ApiError where it cannot be shown any more."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a channel shows, and how to find out whether it may have changed."""

    key: tuple[object, ...]
    """Equal for all tabs that show the same."""
    session: Session
    render: Render
    changed: Callable[[], int]
    """The store's revision at which something the page follows changed last."""
    revision: Callable[[], int]
    """The store's revision now."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    html: str
    revision: int  # with which it came
    number: int  # of the change, counted by its channel
    late: bool  # it changed though the store did not: another reader may have this revision without it


@dataclass(slots=True, eq=False)
class _Reader:
    writer: StreamWriter
    since: int  # the revision it came with
    sent: int = 0  # the number of the last change it has got
    waits_since: float | None = None  # when its buffers became full
    beat: float = 0.0


@dataclass(slots=True, eq=False)
class _Channel:
    source: Source
    readers: set[_Reader] = field(default_factory=set)
    fragments: dict[str, _Fragment] = field(default_factory=dict)
    changes: int = 0  # so far
    looked: int = -1  # the revision of the last look
    looked_at: float = 0.0
    left_at: float = 0.0  # when the last reader went
    looking: asyncio.Task[None] | None = None  # a render that takes long


class TooMany(Exception):
    """The text names the limit."""


class Hub:
    def __init__(self, clock: Clock, is_over: Callable[[Session], bool]) -> None:
        self._clock = clock
        self._is_over = is_over
        self._channels: dict[tuple[object, ...], _Channel] = {}
        self._readers = 0
        self._of_user: Counter[str] = Counter()
        self._crowds: dict[bytes, dict[_Reader, None]] = {}  # by session: those over HTTP/1.1, the oldest first
        self._task: asyncio.Task[None] | None = None
        self._checked = 0.0  # when the sessions were

    def __len__(self) -> int:
        return self._readers

    @property
    def channels(self) -> int:
        return len(self._channels)

    def stream(self, source: Source, since: int, *, http1: bool = False) -> Stream:
        """`since`: the revision of the page or of the last event that the browser has. `http1`: over HTTP/1.1."""
        if self._readers >= MOST:
            raise TooMany(f"{self._readers} streams are open: the limit of this server is {MOST}")
        if self._of_user[source.session.name] >= MOST_OF_USER:
            raise TooMany(f"user {source.session.name} has {MOST_OF_USER} streams: that is the limit")
        if len(source.session.ends) >= MOST_OF_SESSION:
            raise TooMany(f"this session has {len(source.session.ends)} streams: the limit is {MOST_OF_SESSION}")
        headers = (*SECURITY, NOT_KEPT, (b"x-accel-buffering", b"no"))
        start = partial(self._start, source, since, http1)
        return Stream(start, b"text/event-stream; charset=utf-8", headers)

    async def stop(self) -> None:
        tasks = [each for each in (self._task, *(one.looking for one in self._channels.values())) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, source: Source, since: int, http1: bool, writer: StreamWriter) -> Callable[[], None]:
        channel = self._channels.get(source.key)
        if channel is None:
            self._forget_idle(source.session)
            channel = self._channels[source.key] = _Channel(source)
        reader = _Reader(writer, since, beat=self._clock.monotonic())
        channel.readers.add(reader)
        self._readers += 1
        self._of_user[source.session.name] += 1
        session = channel.source.session

        def end() -> None:
            writer.write(_event("end", None, "{}"))
            writer.close()

        def gone() -> None:
            session.ends.discard(end)
            crowd = self._crowds.get(session.key, {})
            crowd.pop(reader, None)
            if not crowd:
                self._crowds.pop(session.key, None)
            if reader in channel.readers:
                channel.readers.discard(reader)
                channel.left_at = self._clock.monotonic()
                self._readers -= 1
                self._of_user[session.name] -= 1
                if not self._of_user[session.name]:
                    del self._of_user[session.name]

        session.ends.add(end)
        writer.on_pause = lambda: self._paused(reader)
        writer.on_resume = lambda: self._resumed(channel, reader)
        writer.write(_event("hello", since, "{}"))
        if http1:
            self._join_crowd(session, reader)
        if channel.looked >= 0:
            self._send(channel, reader)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="page streams")
        return gone

    def _join_crowd(self, session: Session, reader: _Reader) -> None:
        crowd = self._crowds.setdefault(session.key, {})
        for oldest in list(crowd)[: max(0, len(crowd) - MOST_OVER_HTTP1 + 1)]:
            oldest.writer.write(_event("crowded", None, "{}"))
            oldest.writer.close()
        self._crowds.setdefault(session.key, crowd)[reader] = None

    def _forget_idle(self, session: Session) -> None:
        """A reader that opens one address after the other leaves only the last ones behind."""
        idle = [each for each in self._channels.values() if not each.readers and each.source.session is session]
        idle.sort(key=lambda each: each.left_at)
        for each in idle[: max(0, len(idle) - _KEPT_OF_SESSION + 1)]:
            del self._channels[each.source.key]

    def _paused(self, reader: _Reader) -> None:
        reader.waits_since = self._clock.monotonic()

    def _resumed(self, channel: _Channel, reader: _Reader) -> None:
        reader.waits_since = None
        self._send(channel, reader)

    async def _run(self) -> None:
        while self._channels:
            began = self._clock.monotonic()
            for channel in tuple(self._channels.values()):
                await self._tend(channel)
            self._check_sessions()
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(EVERY, _SHARE * took))

    async def _tend(self, channel: _Channel) -> None:
        now = self._clock.monotonic()
        if not channel.readers:
            if now - channel.left_at > _KEPT:
                self._channels.pop(channel.source.key, None)
            return
        for reader in tuple(channel.readers):
            if reader.waits_since is not None and now - reader.waits_since > SLOW:
                reader.writer.close()
            elif reader.waits_since is None and now - reader.beat > BEAT:
                reader.beat = now
                reader.writer.write(_event("beat", None, "{}"))
        source = channel.source
        unchanged = source.changed() <= channel.looked and now - channel.looked_at < _ANYWAY
        if unchanged or (channel.looking is not None and not channel.looking.done()):
            return
        channel.looking = asyncio.get_running_loop().create_task(self._look(channel), name="page stream")
        await asyncio.wait({channel.looking}, timeout=PATIENCE)

    async def _look(self, channel: _Channel) -> None:
        """Renders the page again, and sends what changed to those who have room."""
        source = channel.source
        before, revision = channel.looked, source.revision()
        # What is seen for the first time is as old as the last change: a reader may have come with the page of then.
        since = source.changed() if before < 0 else revision
        channel.looked, channel.looked_at = revision, self._clock.monotonic()
        try:
            rendered = await source.render()
        except ApiError:
            self._reload(channel)
            return
        except Exception:
            _log.exception("rendering the fragments of %s", source.key[-1])
            return
        for name, html in rendered.items():
            known = channel.fragments.get(name)
            if known is None or known.html != html:
                channel.changes += 1
                channel.fragments[name] = _Fragment(html, since, channel.changes, revision == before)
        for reader in tuple(channel.readers):
            if reader.waits_since is None:
                self._send(channel, reader)

    def _send(self, channel: _Channel, reader: _Reader) -> None:
        """What changed after what the reader has; as one event, so that a page never shows half of a change."""
        if reader.writer.closed:
            return
        changed = {
            name: each.html
            for name, each in channel.fragments.items()
            if each.number > reader.sent and each.revision + each.late > reader.since
        }
        reader.sent = channel.changes
        if changed:
            reader.beat = self._clock.monotonic()
            newest = max(each.revision for each in channel.fragments.values())
            reader.writer.write(_event("fragments", newest, msgspec.json.encode(changed).decode()))

    def _reload(self, channel: _Channel) -> None:
        """The page cannot be shown as it was: the next request of it shows why."""
        for reader in tuple(channel.readers):
            reader.writer.write(_event("reload", None, "{}"))
            reader.writer.close()

    def _check_sessions(self) -> None:
        now = self._clock.monotonic()
        if now - self._checked < 2.0:
            return
        self._checked = now
        sessions: Sequence[Session] = list(
            {id(each.source.session): each.source.session for each in self._channels.values()}.values()
        )
        for session in sessions:
            with contextlib.suppress(ApiError):
                self._is_over(session)


def _event(name: str, number: int | None, data: str) -> bytes:
    identity = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{identity}data: {data}\n\n".encode()
