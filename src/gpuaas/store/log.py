"""The SQLite side of the store: append, load, read history, compact. Synchronous; the writer thread calls it.

Invariant: a batch is in the file wholly or not at all, and `ceiling` in the file is never below a revision that was
handed out. The rows' format is `format`'s business, what the rows mean to readers is `store`'s.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuaas.store.acknowledged import Acknowledged, missing
from gpuaas.store.entries import StoreError
from gpuaas.store.format import DELETE, PUT, checksum, connect, connect_readonly, explained, lock, transaction

# How many revisions one transaction of a compaction covers.
_COMPACT_STEP = 2000
_SHRINK_PAGES = 128  # at a time; a write waits for no more
_SPARE_PAGES, _SPARE_SHARE = 256, 10  # free pages that stay: so many, or this part of the file
_HISTORY_BLOCK = 1 << 20
# More revisions than may have been handed out without having been acknowledged (`writer`).
UNSEEN = 100_000

_log = logging.getLogger("gpuaas")


class Row(NamedTuple):
    revision: int
    key: str
    created: int
    previous: int
    event: int
    raw: bytes


class Loaded(NamedTuple):
    live: dict[str, Row]
    revision: int
    ceiling: int
    compacted: int
    history: Sequence[tuple[int, int]] = ()  # (revision, bytes that compaction up to there frees), in blocks


class Log:
    """The file, claimed for this process. One thread writes; `read_*` are for the thread of the event loop."""

    def __init__(self, path: Path, *, fsync: bool, accept_loss: bool = False) -> None:
        """`accept_loss`: go on where acknowledged writes are missing, instead of a StoreError."""
        self.path = path
        self._accept_loss = accept_loss
        self._fsync = fsync
        self.compacted = 0  # as the file has it; the store may already have promised more
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = lock(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        self._reader: sqlite3.Connection | None = None
        self._acknowledged = Acknowledged(path)
        self._had_wal = path.with_name(path.name + "-wal").exists()
        try:
            self._db = connect(path, fsync=fsync, accept_loss=accept_loss)
        except BaseException:
            self._acknowledged.close()
            os.close(self._lock)
            raise

    def load(self) -> Loaded:
        with explained(self.path):
            loaded = load(self._db, self.path)
            if loaded.revision < self._acknowledged.revision:
                loaded = self._go_on_without(loaded)
        self._acknowledged.note(loaded.revision)
        self.compacted = loaded.compacted
        return loaded

    def _go_on_without(self, loaded: Loaded) -> Loaded:
        """Writes are missing. Where that is accepted, the store continues above all revisions that clients may have
        seen, with the history before compacted, so that they list again."""
        acknowledged = self._acknowledged.revision
        words = missing(self.path, acknowledged, loaded.revision, self._had_wal)
        if self._fsync and not self._accept_loss:
            raise StoreError(words)
        _log.warning("%s", words)
        continue_above(self._db, max(acknowledged + UNSEEN, loaded.ceiling) + 1)
        return load(self._db, self.path)

    def acknowledge(self, revision: int) -> None:
        """To be called between a commit and its acknowledgement."""
        self._acknowledged.note(revision)

    def append(self, rows: Sequence[Row], ceiling: int | None) -> None:
        """Write one batch, durably. `ceiling` raises the mark of revisions handed out with it."""
        values: list[object] = []
        for revision, key, created, previous, event, raw in rows:
            values += (revision, key, created, previous, event, checksum(key, raw), raw)
        with explained(self.path):
            if ceiling is None:
                # One statement is one transaction: sqlite3 gives up the interpreter lock once for a whole batch,
                # where a statement for each row would wait for the busy event loop each time.
                self._db.execute(_insert(len(rows)), values)
                return
            with transaction(self._db):
                self._db.execute(_insert(len(rows)), values)
                self._set("ceiling", ceiling)

    def set_ceiling(self, ceiling: int) -> None:
        with explained(self.path):
            self._set("ceiling", ceiling)

    def compaction_steps(self, end: int, stops: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
        """What is left to do up to `end`, in pieces of one transaction, which end at the `stops` at the latest: writes
        never wait for the whole."""
        low = self.compacted
        for stop in (*stops, end):
            while low < stop:
                high = min(low + _COMPACT_STEP, stop)
                yield low, high
                low = high

    def compact(self, low: int, high: int) -> None:
        """Drop what was replaced or deleted by revisions in (low, high]; all before has been compacted."""
        span = (low, high)
        with explained(self.path), transaction(self._db):
            self._db.execute(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log WHERE revision > ? AND revision <= ? AND previous > 0)",
                span,
            )
            self._db.execute(f"DELETE FROM log WHERE revision > ? AND revision <= ? AND event = {DELETE}", span)
            self._set("compacted", high)
        self.compacted = high

    def shrink(self) -> bool:
        """Give a few freed pages back to the file system, but for some to write to next; False if none are left."""
        with explained(self.path):
            free: int = self._db.execute("PRAGMA freelist_count").fetchone()[0]
            pages: int = self._db.execute("PRAGMA page_count").fetchone()[0]
            surplus = free - max(_SPARE_PAGES, pages // _SPARE_SHARE)
            if surplus <= 0:
                return False
            # Each step of the statement frees one page, and `execute` takes a single step: a script runs it to its end.
            self._db.executescript(f"PRAGMA incremental_vacuum({min(surplus, _SHRINK_PAGES)})")
            return surplus > _SHRINK_PAGES

    def empty_wal(self) -> None:
        """Copy the write-ahead log into the database and cut it."""
        with explained(self.path):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def read_events(self, prefix: str, after: int, upto: int, limit: int) -> list[tuple[Row, Row | None]]:
        """History in order: each row below the prefix in (after, upto], with the row it replaced."""
        if self._reader is None:
            self._reader = connect_readonly(self.path)
        with explained(self.path):
            found = self._reader.execute(
                "SELECT e.revision, e.key, e.created, e.previous, e.event, e.checksum, e.bytes,"
                " p.revision, p.key, p.created, p.previous, p.event, p.checksum, p.bytes"
                " FROM log e LEFT JOIN log p ON p.revision = e.previous"
                " WHERE e.revision > ? AND e.revision <= ? AND substr(e.key, 1, ?) = ? ORDER BY e.revision LIMIT ?",
                (after, upto, len(prefix), prefix, limit),
            ).fetchall()
        return [
            (_row(columns[:7], self.path), _row(columns[7:], self.path) if columns[3] else None) for columns in found
        ]

    def close(self) -> None:
        try:
            if self._reader is not None:
                self._reader.close()
            self._db.close()
        finally:
            self._acknowledged.close()
            os.close(self._lock)

    def _set(self, name: str, value: int) -> None:
        self._db.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))


def load(db: sqlite3.Connection, path: Path) -> Loaded:
    """Read the whole log once, checking every row and every link between rows."""
    meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    ceiling, compacted = meta["ceiling"], meta["compacted"]
    live: dict[str, Row] = {}
    history: list[tuple[int, int]] = []
    last = freed = 0
    cursor = db.execute("SELECT revision, key, created, previous, event, checksum, bytes FROM log ORDER BY revision")
    for columns in cursor:
        row = _row(columns, path)
        before = live.pop(row.key, None)
        last = row.revision
        if last > compacted and (before.revision if before else 0) != row.previous:
            raise StoreError(f"{path} is broken: revision {last} replaces {row.previous}, which is not there")
        freed += len(before.raw) if before else 0
        if row.event == PUT:
            live[row.key] = row
        else:
            freed += len(row.raw)
        if freed > _HISTORY_BLOCK:
            history.append((last, freed))
            freed = 0
    history.append((last, freed))
    return Loaded(live, max(last, compacted), max(ceiling, last, compacted), compacted, history)


def continue_above(db: sqlite3.Connection, revision: int) -> None:
    """Let the store go on from a revision that was never handed out, with no history before it."""
    with transaction(db):
        db.execute("UPDATE meta SET value = ? WHERE name IN ('ceiling', 'compacted')", (revision,))
        db.execute("DELETE FROM log WHERE revision IN (SELECT previous FROM log)")
        db.execute(f"DELETE FROM log WHERE event = {DELETE}")


def _row(columns: Sequence[object], path: Path) -> Row:
    revision, key, created, previous, event, expected, raw = columns
    whole = isinstance(key, str) and isinstance(raw, bytes)
    if not (whole and checksum(key, raw) == expected):  # type: ignore[arg-type]
        raise StoreError(
            f"{path} is broken: the row of revision {revision} ({key}) does not match its checksum;"
            " restore a backup with `gpuaas restore`"
        )
    return Row(revision, key, created, previous, event, raw)  # type: ignore[arg-type]


@cache
def _insert(rows: int) -> str:
    return "INSERT INTO log VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)
