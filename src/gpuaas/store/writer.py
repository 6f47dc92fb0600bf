"""Group commit: writes in flight, and the one thread that makes them durable.

A write gets its revision at once; one batch is under way at a time and everything that arrives meanwhile forms the
next. If a batch fails, it and everything queued after it fail, because they may build on it, and the writes in flight
are none: the committed state is the latest again. Revisions are not reused, not after a failure and not after a crash:
the file is promised a `ceiling` before revisions below it are handed out.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gpuaas.store.entries import DecodedCache, Entry, Event, EventType, StoreError
from gpuaas.store.format import DELETE, PUT
from gpuaas.store.log import Log, Row

Render = Callable[[int], tuple[bytes, Any]]

# One transaction: enough to share a sync among many writers, small enough that the first of them does not wait long.
_BATCH_WRITES = 512
_BATCH_BYTES = 8 << 20
# How many writes may be in flight; the ceiling is kept at least this far ahead of the last batch.
_IN_FLIGHT = 16_384


class Writer:
    def __init__(self, log: Log, ceiling: int, decoded: DecodedCache, on_commit: Callable[[list[Event]], None]) -> None:
        self.broken: str | None = None
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._decoded = decoded
        self._on_commit = on_commit
        self._handed_out = ceiling
        self._ceiling = ceiling + _IN_FLIGHT
        log.set_ceiling(self._ceiling)
        self._queue: list[_Write] = []
        self._in_flight: dict[str, _Write] = {}
        self._busy = False  # a batch is under way, or about to be
        self._at_rest: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "store-writer")
        self._closed = False

    def latest(self, key: str, committed: Entry | None) -> Entry | None:
        """The entry as it will be when the writes in flight are committed."""
        write = self._in_flight.get(key)
        if write is None:
            return committed
        return None if write.event.type == "DELETED" else write.event.entry

    def submit(self, type: EventType, key: str, before: Entry | None, render: Render) -> asyncio.Future[Entry]:
        if self._closed:
            raise StoreError("the store is closed")
        if self.broken is not None:
            raise StoreError(self.broken)
        revision = self._handed_out + 1
        if revision > self._ceiling:
            raise StoreError("too many writes are waiting for the disk; try again")
        raw, value = render(revision)
        self._handed_out = revision
        entry = Entry(key, revision, before.created if before else revision, raw, value, self._decoded)
        write = _Write(Event(type, entry, before), self._loop.create_future())
        self._in_flight[key] = write
        self._queue.append(write)
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._begin)  # in the loop's next turn: all writes of this one are in the first batch
        return write.done

    async def run(self, work: Callable[..., None], *arguments: object) -> None:
        """Do something else with the file, between batches."""
        await self._loop.run_in_executor(self._thread, work, *arguments)

    async def close(self) -> bool:
        """Commit what is queued and end the thread; False if somebody else has already asked for it."""
        if self._closed:
            return False
        self._closed = True
        if self._busy:
            self._at_rest = self._loop.create_future()
            await self._at_rest
        try:
            if self.broken is None:
                await self.run(self._log.set_ceiling, self._handed_out)
        except StoreError:
            pass  # no space: the higher mark stays in the file, which only skips some revisions
        finally:
            self._thread.shutdown()
        return True

    def _begin(self) -> None:
        """Gives the next batch to the thread. No task and no chain of futures: when the loop is busy, each of their
        steps would wait for a whole turn of it, and every decision waits for two writes."""
        batch = self._take_batch()
        last = batch[-1].event.revision
        ceiling = last + 2 * _IN_FLIGHT if self._ceiling - last < _IN_FLIGHT else None
        written = self._thread.submit(self._log.append, [write.row() for write in batch], ceiling)
        written.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._ended, batch, ceiling, done))

    def _ended(self, batch: "list[_Write]", ceiling: int | None, written: "Future[None]") -> None:
        error = written.exception()
        try:
            if error is None:
                self._ceiling = ceiling or self._ceiling
                self._commit(batch)
            else:
                self._fail(batch, error)
        finally:
            self._busy = bool(self._queue)
            if self._busy:
                self._begin()
            elif self._at_rest is not None and not self._at_rest.done():  # whoever closes may have been cancelled
                self._at_rest.set_result(None)

    def _take_batch(self) -> "list[_Write]":
        size = end = 0
        for write in self._queue[:_BATCH_WRITES]:
            size += len(write.event.entry.raw)
            end += 1
            if size > _BATCH_BYTES:
                break
        batch, self._queue = self._queue[:end], self._queue[end:]
        return batch

    def _commit(self, batch: "list[_Write]") -> None:
        for write in batch:
            if self._in_flight.get(write.event.key) is write:
                del self._in_flight[write.event.key]
        self._on_commit([write.event for write in batch])
        for write in batch:
            if not write.done.done():  # whoever waited may have been cancelled
                write.done.set_result(write.event.entry)

    def _fail(self, batch: "list[_Write]", error: BaseException) -> None:
        failed = batch + self._queue
        self._queue = []
        self._in_flight.clear()
        if _is_lasting(error):
            self.broken = f"{error}; no more writes are accepted, restart to go on from what was committed"
        for write in failed:
            if not write.done.done():
                write.done.set_exception(StoreError(str(error)))


class _Write:
    __slots__ = ("done", "event")

    def __init__(self, event: Event, done: asyncio.Future[Entry]) -> None:
        self.event = event
        self.done = done

    def row(self) -> Row:
        event, entry = self.event, self.event.entry
        previous = event.previous.revision if event.previous else 0
        kind = DELETE if event.type == "DELETED" else PUT
        return Row(entry.revision, entry.key, entry.created, previous, kind, entry.raw)


def _is_lasting(error: BaseException) -> bool:
    """After a failed sync or on a broken file nobody knows what is on the disk; a full disk can be emptied."""
    name = getattr(error.__cause__, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or name.endswith("FSYNC")
