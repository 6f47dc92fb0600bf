"""The store as the rest of the house sees it: get, list, put, delete, watch, compact, back up.

Everything here runs on one event loop's thread; only whole batches go to the writer's. Readers and watchers see
committed writes only; writers build on `latest`, which includes writes in flight (`writer` says how they end).
"""

import asyncio
import logging
from pathlib import Path

from gpuaas.base.clock import Clock
from gpuaas.store.entries import Compacted, DecodedCache, Entry, Event, EventType, FutureRevision, StoreError
from gpuaas.store.format import DELETE
from gpuaas.store.log import Log, Row
from gpuaas.store.retention import MAX_BYTES, HistorySize, Retention
from gpuaas.store.snapshots import backup
from gpuaas.store.tables import Tables, namespace_end, plural_end
from gpuaas.store.watch import OnEvents, Watch
from gpuaas.store.window import Window
from gpuaas.store.writer import Render, Writer

# `Store.list` hides the builtin from annotations inside the class.
Entries = list[Entry]
Events = list[Event]

_WATCH_BUFFER = 1_000
_SHRINK_STEPS = 128  # each time that the store is looked after

_log = logging.getLogger("gpuaas")


class Store:
    def __init__(
        self, log: Log, clock: Clock, decoded_bytes: int, window_events: int, window_bytes: int, history_bytes: int
    ) -> None:
        """Use `open`."""
        loaded = log.load()
        self.path = log.path
        self.revision = loaded.revision
        self.compacted = loaded.compacted
        self._log = log
        self._clock = clock
        self._decoded = DecodedCache(decoded_bytes)
        self._tables = Tables()
        for key in sorted(loaded.live):
            row = loaded.live[key]
            self._tables.put(Entry(key, row.revision, row.created, row.raw, None, self._decoded))
        self._window = Window(loaded.revision, window_events, window_bytes)
        self._retention = Retention()
        self._history = HistorySize(history_bytes)
        for revision, size in loaded.history:
            self._history.add(revision, size)
        self._compacting = asyncio.Lock()
        self._trimming: asyncio.Task[None] | None = None
        self._watches: dict[str, dict[Watch, None]] = {}
        self._writer = Writer(log, loaded.ceiling, self._decoded, self._committed)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        fsync: bool = True,
        decoded_bytes: int = 4 << 20,
        window_events: int = 10_000,
        window_bytes: int = 8 << 20,
        history_bytes: int = MAX_BYTES,
        accept_loss: bool = False,
    ) -> "Store":
        """Open or make the store at `path`; raises StoreError in words, also where acknowledged writes are missing,
        unless that is accepted.

        The loop waits: nothing is served before the store is there, and a thread would only share the interpreter.
        """
        log = Log(path, fsync=fsync, accept_loss=accept_loss)
        try:
            return cls(log, clock, decoded_bytes, window_events, window_bytes, history_bytes)
        except BaseException:
            log.close()
            raise

    @property
    def broken(self) -> str | None:
        """Why no write is accepted any more, in words; None while all is well."""
        return self._writer.broken

    def get(self, key: str) -> Entry | None:
        return self._tables.get(key)

    def latest(self, key: str) -> Entry | None:
        """The entry as it will be when the writes in flight are committed: what the next write builds on."""
        return self._writer.latest(key, self._tables.get(key))

    def drop_decoded(self, key: str) -> None:
        """This object is not needed soon: its decoded form need not be kept."""
        entry = self._tables.get(key)
        if entry is not None:
            self._decoded.release(entry)

    def list(self, prefix: str) -> Entries:
        return self._tables.list(prefix)

    def count(self, prefix: str) -> int:
        return self._tables.count(prefix)

    def changed(self, prefix: str) -> int:
        """Nothing below the prefix changed after this revision: how long an encoded list stays valid."""
        return self._tables.changed(prefix)

    def list_at(self, prefix: str, revision: int) -> Entries:
        """The entries as of an earlier revision: today's list with the changes since then undone."""
        self._check_readable(revision)
        entries = self._tables.list(prefix)
        events, _ = self.events_after(prefix, revision, limit=-1)
        if not events:
            return entries
        by_key = {entry.key: entry for entry in entries}
        for event in reversed(events):
            if event.previous is None:
                by_key.pop(event.key, None)
            else:
                by_key[event.key] = event.previous
        return [by_key[key] for key in sorted(by_key)]

    def put(self, key: str, render: Render) -> asyncio.Future[Entry]:
        """Create or replace. `render` is called at once with the write's revision; the future is done after commit."""
        before = self.latest(key)
        return self._writer.submit("ADDED" if before is None else "MODIFIED", key, before, render)

    def delete(self, key: str, render: Render) -> asyncio.Future[Entry]:
        """Remove; `render` gives the final object, with the deletion's revision, for the watchers."""
        before = self.latest(key)
        if before is None:
            raise KeyError(key)
        return self._writer.submit("DELETED", key, before, render)

    def hasten(self) -> None:
        """Commit the writes in flight before this returns, where that is quick; else they take their time."""
        self._writer.hasten()

    def watch(
        self, prefix: str, since: int, on_events: OnEvents | None = None, *, buffer: int = _WATCH_BUFFER
    ) -> Watch:
        """Events below a prefix (`group/plural/`, `group/plural/namespace/`, a whole key, or everything: "").

        With `on_events` the watch starts paused; `Watch.resume` starts it.
        """
        self._check_readable(since)
        watch = Watch(self, prefix, since, on_events, buffer)
        self._watches.setdefault(prefix, {})[watch] = None
        return watch

    def forget_watch(self, watch: Watch) -> None:
        watches = self._watches[watch.prefix]
        del watches[watch]
        if not watches:
            del self._watches[watch.prefix]

    def events_after(self, prefix: str, revision: int, limit: int) -> tuple[Events, int]:
        """Up to `limit` committed events (-1: all) and the revision up to which they are complete."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision >= self._window.start:
            events = self._window.after(revision, prefix, limit)
        else:
            rows = self._log.read_events(prefix, revision, self.revision, limit)
            events = [self._event(row, previous) for row, previous in rows]
        reached = events[-1].revision if len(events) == limit else self.revision
        if prefix and not prefix.endswith("/"):  # a whole key: other keys may begin like it
            events = [event for event in events if event.key == prefix]
        return events, reached

    async def compact(self, revision: int) -> None:
        """Forget the history up to a revision; every live object stays."""
        end = min(revision, self.revision)
        if end <= self.compacted:
            return
        # Readers are notified first: the file may lag behind the promise, never the other way round.
        self.compacted = end
        self._window.forget(end)
        stops = self._history.ends(end)
        self._history.forget(end)
        async with self._compacting:  # one at a time: each goes on where the one before ended
            for low, high in self._log.compaction_steps(end, stops):
                await self._writer.run(self._log.compact, low, high)

    async def maintain(self, now: float | None = None) -> None:
        """To be called every half minute or so: forget old history and keep the file small."""
        self._decoded.begin_period()
        moment = self._clock.monotonic() if now is None else now
        end = self._retention.target(moment, self.revision, self.compacted)
        end = max(end, self._history.target())
        if end > self.compacted:
            await self.compact(end)
        if await self._shrink():
            await self._writer.run(self._log.empty_wal)

    async def _shrink(self) -> bool:
        """Whether the file was made smaller; what is left is for the next time."""
        for done in range(_SHRINK_STEPS):
            if not await self._writer.run(self._log.shrink):
                return done > 0
        return True

    async def _trim(self) -> None:
        """History has grown too large since the last look."""
        try:
            await self.compact(self._history.target())
        except StoreError as error:  # a full disk; `maintain` tries again
            _log.warning("history could not be cut: %s", error)

    async def backup(self, path: Path) -> None:
        """A consistent copy of everything committed so far; reads and writes go on meanwhile."""
        await asyncio.get_running_loop().run_in_executor(None, backup, self.path, path)

    async def close(self) -> None:
        """Commit what is queued, end all watches, leave a clean file. A second call does nothing."""
        for watch in [watch for watches in self._watches.values() for watch in watches]:
            watch.close()
        if self._trimming is not None:
            await self._trimming
        if await self._writer.close():
            self._log.close()

    def _committed(self, events: Events) -> None:
        self.revision = events[-1].revision
        for event in events:
            if event.type == "DELETED":
                self._tables.remove(event.key, event.revision)
            else:
                self._tables.put(event.entry)
        self._window.add(events)
        self._history.add(self.revision, sum(map(_freed, events)))
        if self._history.is_over and (self._trimming is None or self._trimming.done()):
            self._trimming = asyncio.get_running_loop().create_task(self._trim(), name="cut history")
        if self._watches:
            self._publish(events)
        for event in events:
            if event.previous is not None:
                self._decoded.release(event.previous)

    def _publish(self, events: Events) -> None:
        batches: dict[str, Events] = {}
        for event in events:
            key = event.key
            end = plural_end(key)
            for prefix in (key[:end], key[: namespace_end(key, end)], key, ""):
                if prefix in self._watches:
                    batches.setdefault(prefix, []).append(event)
        for prefix, batch in batches.items():
            for watch in tuple(self._watches.get(prefix, ())):
                try:
                    watch.deliver(batch)
                except Exception as error:  # one watcher's fault is neither the writers' nor the other watchers'
                    watch.close()
                    asyncio.get_running_loop().call_exception_handler(
                        {"message": f"a watcher of {prefix!r} failed and was ended", "exception": error}
                    )

    def _check_readable(self, revision: int) -> None:
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def _event(self, row: Row, previous: Row | None) -> Event:
        """An event read back from the log; an entry that is still current is shared with the tables."""
        entry = self._tables.get(row.key)
        if entry is None or entry.revision != row.revision:
            entry = Entry(row.key, row.revision, row.created, row.raw)
        before = Entry(previous.key, previous.revision, previous.created, previous.raw) if previous else None
        kind: EventType = "DELETED" if row.event == DELETE else "MODIFIED" if before else "ADDED"
        return Event(kind, entry, before)


def _freed(event: Event) -> int:
    """The bytes of rows that are of no use once the event is history."""
    size = len(event.previous.raw) if event.previous is not None else 0
    return size + len(event.entry.raw) if event.type == "DELETED" else size
