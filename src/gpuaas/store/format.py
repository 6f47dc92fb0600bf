"""The file's format: its tables, its version, how an older one becomes the current one, and who may open it.

A file says `application_id` and `user_version`. A newer version is refused with words, an older one is upgraded in
one transaction for each step, another program's file is left alone. Every row carries a checksum, because SQLite
itself would hand out a flipped bit. The lock lies beside the file: it dies with the process that holds it.
"""

import contextlib
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuaas.store.entries import StoreError
from gpuaas.store.wal import refuse_dropped_commits

FORMAT = 1
APPLICATION = 0x47505541  # "GPUA"
PAGE_SIZE = 8192

PUT, DELETE = 0, 1

# One row for each write, in the order of the writes. `previous` is the revision this row replaces (0: none), so that
# history and compaction need no index but the revision itself.
_TABLES = (
    "CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, created INTEGER NOT NULL,"
    " previous INTEGER NOT NULL, event INTEGER NOT NULL, checksum INTEGER NOT NULL, bytes BLOB NOT NULL)",
    # `ceiling`: no revision above it was ever handed out. `compacted`: history up to it is gone.
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('ceiling', 0), ('compacted', 0)",
)


def checksum(key: str, raw: bytes) -> int:
    return zlib.crc32(raw, zlib.crc32(key.encode()))


def lock(path: Path) -> int:
    """Claim the file for this process; the descriptor holds the claim until it is closed."""
    beside = path.with_name(path.name + ".lock")
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreError(f"{path} is in use by another process (pid {holder})") from None
    with contextlib.suppress(OSError):  # who holds it is only said, never relied on: a full disk may not stop a start
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def connect(path: Path, *, fsync: bool = True, accept_loss: bool = False) -> sqlite3.Connection:
    """Open for writing; makes the file where there is none, upgrades an older one. Call it under the lock."""
    with explained(path):
        fresh = _create(path)
        if fsync and not fresh and not accept_loss:  # without syncs nothing is promised, and a lost tail is no surprise
            refuse_dropped_commits(path)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=600)
        try:
            _configure(db, fsync)
            if fresh or _is_empty(db):
                _initialize(db)
            else:
                _check_version(db, path)
                _upgrade(db)
        except BaseException:
            db.close()
            raise
    return db


def connect_readonly(path: Path) -> sqlite3.Connection:
    with explained(path):
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            _check_version(db, path)
        except BaseException:
            db.close()
            raise
    return db


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite and the system say, as a StoreError in words an operator can act on."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {_words(error)}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


def _words(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return "no space left for the store (disk full, or a limit on the file); free space, then try again"
    if name.startswith("SQLITE_NOTADB"):
        return "this is not a gpuaas store (not a database); restore a backup with `gpuaas restore`"
    if name.startswith("SQLITE_CORRUPT"):
        return f"the store's file is broken ({error}); restore a backup with `gpuaas restore`"
    if name.startswith("SQLITE_IOERR"):
        return f"input/output error on the store's file ({name}: {error})"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "the store's file is in use by another program"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"the store's file cannot be opened for writing ({error})"
    return f"{name or type(error).__name__}: {error}"


def _create(path: Path) -> bool:
    """Make an empty file that only this user can read: it will hold Secrets. SQLite gives its other files the same mode."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.close(descriptor)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def _configure(db: sqlite3.Connection, fsync: bool) -> None:
    # page_size and auto_vacuum only matter before the first table; the journal mode stays in the file.
    db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'OFF'}")
    db.execute("PRAGMA wal_autocheckpoint = 500")
    db.execute(f"PRAGMA journal_size_limit = {32 << 20}")
    db.execute("PRAGMA busy_timeout = 2000")
    db.execute("PRAGMA cache_size = -4000")


def _is_empty(db: sqlite3.Connection) -> bool:
    """A start that died before its first commit leaves a file with nothing in it."""
    return bool(db.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _initialize(db: sqlite3.Connection) -> None:
    with transaction(db):
        for statement in _TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {FORMAT}")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    ours = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'log'").fetchone()[0]
    if application not in (0, APPLICATION) or not ours:
        raise StoreError(f"{path} is a database of another program, not a gpuaas store")
    if version > FORMAT:
        raise StoreError(
            f"{path} has format {version}, and this gpuaas knows formats up to {FORMAT}: a newer version wrote it."
            " Start that version, or restore a backup made by this one"
        )


def _upgrade(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    while version < FORMAT:
        with transaction(db):
            _UPGRADES[version](db)
            version += 1
            db.execute(f"PRAGMA user_version = {version}")


def _from_0(db: sqlite3.Connection) -> None:
    """Format 0 was the bare log (revision, key, created, event, bytes): no links, no checksums, no meta."""
    db.execute("ALTER TABLE log RENAME TO log_0")
    for statement in _TABLES:
        db.execute(statement)
    live: dict[str, int] = {}
    last = 0
    rows = db.execute("SELECT revision, key, created, event, bytes FROM log_0 ORDER BY revision")
    for revision, key, created, event, raw in rows:
        db.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            (revision, key, created, live.pop(key, 0), event, checksum(key, raw), raw),
        )
        if event == PUT:
            live[key] = revision
        last = revision
    db.execute("UPDATE meta SET value = ? WHERE name = 'ceiling'", (last,))
    db.execute("DROP TABLE log_0")
    db.execute(f"PRAGMA application_id = {APPLICATION}")


_UPGRADES: tuple[Callable[[sqlite3.Connection], None], ...] = (_from_0,)
