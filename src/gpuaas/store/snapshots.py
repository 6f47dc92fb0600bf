"""Backups: a consistent copy of a running store, and putting one back after checking all of it."""

import os
import sqlite3
from pathlib import Path

from gpuaas.store.acknowledged import Acknowledged
from gpuaas.store.entries import StoreError
from gpuaas.store.format import connect, connect_readonly, explained, lock
from gpuaas.store.log import UNSEEN, Loaded, continue_above, load

# Added to the backup's revisions when the store it replaces cannot be read: more than it can have gone on since.
_UNKNOWN_PROGRESS = 1_000_000


def backup(source: Path, target: Path) -> None:
    """Copy the committed state of a store, in use or not, to a new file; the file appears whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    db = connect_readonly(source)
    try:
        with explained(target):
            # SQLite gives the copy the mode of a new file, not of its source, and it holds Secrets.
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            db.execute("VACUUM INTO ?", (str(partial),))
            _publish(partial, target)
    finally:
        db.close()
        partial.unlink(missing_ok=True)


def restore(source: Path, target: Path) -> int:
    """Check a backup and make it the store at `target`; gives the revision the store goes on from.

    Revisions never go back: the restored store starts above everything its predecessor handed out, with the history
    before that compacted, so that no client takes new changes for ones it has seen.
    """
    partial = target.with_name(f".{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    claim = lock(target)
    try:
        partial.unlink(missing_ok=True)
        loaded = check(source)
        floor = max(loaded.ceiling, _ceiling_of(target, loaded)) + 1
        backup(source, partial)
        db = connect(partial)
        try:
            with explained(partial):
                continue_above(db, floor)
        finally:
            db.close()
        for suffix in ("-wal", "-shm"):  # the note of acknowledged writes is older than the floor
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        with explained(target):
            _publish(partial, target)
        return floor
    finally:
        partial.unlink(missing_ok=True)
        os.close(claim)


def check(path: Path) -> Loaded:
    """Raise StoreError unless the file is a whole, readable store of a format we know."""
    if not path.is_file():
        raise StoreError(f"{path}: no such file")
    db = connect_readonly(path)
    try:
        with explained(path):
            verdict = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if verdict != "ok":
                raise StoreError(f"{path} is broken: {verdict}")
            return load(db, path)
    finally:
        db.close()


def contents(path: Path) -> Loaded:
    """All live objects of a store, in use or not; raises StoreError where it cannot be read."""
    db = connect_readonly(path)
    try:
        with explained(path):
            return load(db, path)
    finally:
        db.close()


def _ceiling_of(target: Path, fallback: Loaded) -> int:
    """No revision above it was handed out by the store that is replaced, as far as its files tell."""
    acknowledged = Acknowledged.last(target)
    noted = acknowledged + UNSEEN if acknowledged else 0
    if not target.exists():
        return max(noted, fallback.ceiling + _UNKNOWN_PROGRESS)
    try:
        db = connect_readonly(target)
        try:
            return max(noted, int(db.execute("SELECT value FROM meta WHERE name = 'ceiling'").fetchone()[0]))
        finally:
            db.close()
    except (StoreError, sqlite3.Error):
        return max(noted, fallback.ceiling + _UNKNOWN_PROGRESS)


def _publish(partial: Path, target: Path) -> None:
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
