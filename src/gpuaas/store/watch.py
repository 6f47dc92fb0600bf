"""A watcher: the committed events below a prefix, each once, in order, from a revision on.

It is *synced* (new events are handed to it as they are committed) or *catching up* (it reads history from where it
stands); a synced one that does not keep up falls back to catching up, so that its memory is bounded, and one whose
place in history was compacted ends with `Compacted`. Two forms: `await next()` for a task, and `on_events` for fan-out
without a task for each watcher.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from gpuaas.store.entries import Event

OnEvents = Callable[[list[Event]], None]


class History(Protocol):
    """What a watcher needs from the store."""

    @property
    def revision(self) -> int: ...

    def events_after(self, prefix: str, revision: int, limit: int) -> tuple[list[Event], int]:
        """Up to `limit` events, and the revision up to which they are complete; raises Compacted."""

    def forget_watch(self, watch: "Watch") -> None: ...


class Watch:
    def __init__(self, store: History, prefix: str, since: int, on_events: OnEvents | None, buffer: int) -> None:
        self.prefix = prefix
        self.closed = False
        self._store = store
        self._position = since
        self._on_events = on_events
        self._limit = buffer
        self._buffer: list[Event] = []
        self._synced = False
        self._paused = on_events is not None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def progress(self) -> int:
        """Everything up to this revision has been handed over: what a bookmark may say."""
        if self._synced and not self._buffer:
            return self._store.revision
        return self._position

    async def next(self) -> list[Event]:
        """The next events, at least one, waiting for them; an empty list only after `close`. Raises Compacted."""
        while not self.closed:
            events = self.drain()
            if events:
                return events
            if not self._synced:
                continue
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return []

    def drain(self) -> list[Event]:
        """What is there now, perhaps nothing, without waiting. Raises Compacted."""
        if self._synced:
            events, self._buffer = self._buffer, []
            if events:
                self._position = events[-1].revision
            return events
        events, self._position = self._store.events_after(self.prefix, self._position, self._limit)
        self._synced = self._position >= self._store.revision
        return events

    def resume(self) -> None:
        """Callback form: hand over what was missed and everything from now on. A new watch starts paused.

        Raises Compacted if its place in history is gone.
        """
        assert self._on_events is not None or self.closed
        self._paused = False
        while not (self._paused or self._synced or self.closed):
            events = self.drain()
            if events and self._on_events is not None:
                self._on_events(events)

    def pause(self) -> None:
        """Callback form: the other side is slow; keep the place, buffer nothing."""
        self._position = self.progress
        self._paused = True
        self._synced = False

    def deliver(self, events: list[Event]) -> None:
        """The store calls this with newly committed events below the prefix; the list is shared: read only."""
        if not self._synced:
            return
        if self._on_events is not None:
            self._position = events[-1].revision
            self._on_events(events)
            return
        if not self._buffer:
            self._position = events[0].revision - 1
        self._buffer.extend(events)
        if len(self._buffer) > self._limit:
            self._buffer = []
            self._synced = False
        self._wake()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._synced = False
        self._buffer = []
        self._on_events = None  # whose it is knows this watch: no ring is left to the garbage collector
        self._store.forget_watch(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
