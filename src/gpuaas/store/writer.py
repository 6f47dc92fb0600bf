"""Group commit: writes in flight, and the one thread that makes them durable.

A write gets its revision at once; one batch is under way at a time and everything that arrives meanwhile forms the
next. If a batch fails, it and everything queued after it fail, because they may build on it, and the writes in flight
are none: the committed state is the latest again. Revisions are not reused, not after a failure and not after a crash:
the file is promised a `ceiling` before revisions below it are handed out.

The thread and the event loop share one interpreter: while the loop is busy, a commit that takes the disk a fraction of
a millisecond takes thirty. `hasten` is for those who cannot wait: the loop itself commits, and pays with its own time.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from gpuaas.store.entries import DecodedCache, Entry, Event, EventType, StoreError
from gpuaas.store.format import DELETE, PUT
from gpuaas.store.log import Log, Row

T = TypeVar("T")
Render = Callable[[int], tuple[bytes, Any]]

# One transaction: enough to share a sync among many writers, small enough that the first of them does not wait long.
_BATCH_WRITES = 512
_BATCH_BYTES = 8 << 20
# How many writes may be in flight; the ceiling is kept at least this far ahead of the last batch.
_IN_FLIGHT = 16_384
_HASTY_WRITES: Final = 128  # at most: more take the loop too long
# Seconds. Two commits in a row that hold up the loop for longer (one may just have emptied the write-ahead log)
_QUICK: Final = 0.004
_REST: Final = 10  # are not followed by another for so many times as long


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
        self._under_way: _Batch | None = None
        self._others = 0  # that use the file now: only one may at a time
        self._now: Callable[[], float] = time.perf_counter
        self._rests_until = 0.0
        self._was_slow = False
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

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Do something else with the file, between batches."""
        self._others += 1
        try:
            return await self._loop.run_in_executor(self._thread, work, *arguments)
        finally:
            self._others -= 1

    def hasten(self) -> None:
        """Commits what is queued here and now, unless that held up the loop too much lately, as with a slow disk."""
        began = self._now()
        if not self._queue or len(self._queue) > _HASTY_WRITES or self._others or began < self._rests_until:
            return
        try:
            if self._under_way is not None:
                wait((self._under_way.written,))
                self._ended(self._under_way)
            if self._queue:
                self._write_here(self._next_batch())
        finally:
            now = self._now()
            slow = now - began > _QUICK
            if slow and self._was_slow:
                self._rests_until = now + _REST * (now - began)
            self._was_slow = slow
            self._go_on()

    def _write_here(self, batch: "_Batch") -> None:
        try:
            self._log.append(batch.rows(), batch.ceiling)
            batch.written.set_result(None)
        except Exception as error:
            batch.written.set_exception(error)
        self._ended(batch)

    async def close(self) -> bool:
        """Commit what is queued and end the thread; False if that was already requested."""
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
        if self._under_way is not None:
            return
        if not self._queue:  # another caller flushed it
            self._go_on()
            return
        batch = self._under_way = self._next_batch()
        batch.written = self._thread.submit(self._log.append, batch.rows(), batch.ceiling)
        # Known by its last revision: a callback that knew the batch would be a ring with all its writes in it.
        last = batch.writes[-1].event.revision
        batch.written.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._ended_in_thread, last))

    def _ended_in_thread(self, last: int) -> None:
        batch = self._under_way
        if batch is None or batch.writes[-1].event.revision != last:
            return  # another caller flushed it already
        try:
            self._ended(batch)
        finally:
            self._go_on()

    def _ended(self, batch: "_Batch") -> None:
        if self._under_way is batch:
            self._under_way = None
        error = batch.written.exception()
        if error is None:
            self._ceiling = batch.ceiling or self._ceiling
            self._log.acknowledge(batch.writes[-1].event.revision)
            self._commit(batch.writes)
        else:
            self._fail(batch.writes, error)

    def _go_on(self) -> None:
        self._busy = bool(self._queue)
        if self._busy:
            self._begin()
        elif self._at_rest is not None and not self._at_rest.done():  # the closing caller may have been cancelled
            self._at_rest.set_result(None)

    def _next_batch(self) -> "_Batch":
        writes = self._take_batch()
        last = writes[-1].event.revision
        return _Batch(writes, last + 2 * _IN_FLIGHT if self._ceiling - last < _IN_FLIGHT else None)

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
            if not write.done.done():  # the waiting caller may have been cancelled
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


class _Batch:
    __slots__ = ("ceiling", "writes", "written")

    def __init__(self, writes: "list[_Write]", ceiling: int | None) -> None:
        self.writes = writes
        self.ceiling = ceiling  # the new one, if it has to be raised
        self.written: Future[None] = Future()

    def rows(self) -> list[Row]:
        return [write.row() for write in self.writes]


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
    """After a failed sync or on a broken file the state of the disk is unknown; a full disk can be emptied."""
    name = getattr(error.__cause__, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or name.endswith("FSYNC")
