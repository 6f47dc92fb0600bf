"""One question to a write-ahead log left by a crash: does it hold commits that SQLite is about to drop?

SQLite reads such a log up to the first frame whose checksum fails and forgets the rest. That is right for the last
transaction, which a crash may have torn before it was acknowledged; but every commit before that one was synced and
acknowledged, so if two or more lie behind a bad frame, the file was damaged and going on would lose writes silently.
"""

import sqlite3
import struct
import sys
from pathlib import Path

from gpuaas.store.entries import StoreError

_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, salt, salt, checksum, checksum
_FRAME = struct.Struct(">4I")  # page, size of the database after a commit (0: none), salt, salt; then checksums
_FRAME_HEADER = 24
_BIG_ENDIAN = 0x377F0683  # the magic number also says how checksums read the bytes
_SHM_FRAMES = slice(16, 20)  # in the shared index: how many frames of the log are valid


def refuse_dropped_commits(path: Path) -> None:
    """Raise StoreError if opening the store would drop commits that were acknowledged. Changes nothing."""
    wal = path.with_name(path.name + "-wal")
    if not wal.exists() or wal.stat().st_size <= _HEADER.size:
        return
    valid, page_size = _what_sqlite_reads(path)
    dropped = _commits_after(wal.read_bytes(), valid, page_size)
    if dropped > 1:
        raise StoreError(
            f"{wal} is broken: at least {dropped - 1} committed transactions behind the damage cannot be read;"
            " restore a backup with `gpuaas restore`, or go on without them: `gpuaas up --accept lost-writes`"
        )


def _what_sqlite_reads(path: Path) -> tuple[int, int]:
    """How many frames of the log SQLite takes as valid, and the size of a page."""
    # A read-only connection makes the shared index, and neither copies the log into the file nor deletes it.
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        page_size: int = db.execute("PRAGMA page_size").fetchone()[0]
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        shared = path.with_name(path.name + "-shm").read_bytes()
        return int.from_bytes(shared[_SHM_FRAMES], sys.byteorder), page_size
    finally:
        db.close()


def _commits_after(log: bytes, valid: int, page_size: int) -> int:
    """Commits of this log's current use behind its valid frames; an earlier use has other salts."""
    step = _FRAME_HEADER + page_size
    salts = _salts(log)
    commits = 0
    for position in range(_HEADER.size + valid * step, len(log) - step + 1, step):
        _, committed, *own = _FRAME.unpack_from(log, position)
        commits += bool(committed and own == salts)
    return commits


def _salts(log: bytes) -> list[int]:
    magic, _, _, _, *salts, first, second = _HEADER.unpack_from(log)
    words = struct.unpack_from(">6I" if magic == _BIG_ENDIAN else "<6I", log)
    a = b = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        a = (a + even + b) & 0xFFFFFFFF
        b = (b + odd + a) & 0xFFFFFFFF
    if (a, b) == (first, second) or len(log) < _HEADER.size + _FRAME.size:
        return salts
    return list(_FRAME.unpack_from(log, _HEADER.size)[2:])  # the head itself is damaged: ask the first frame
