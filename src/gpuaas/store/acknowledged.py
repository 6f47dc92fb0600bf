"""The last acknowledged revision, noted beside the database, so that a start finds out whether writes are missing.

SQLite cannot tell a write-ahead log that was deleted, replaced or cut at the end of a commit from one that was always
that short. So each group commit also notes its last revision in a small file (`NAME.acked`), in place and without a
sync: a few microseconds. After a killed process the note is exact. After a loss of power it may be older than the
database, which was synced, and then it proves nothing; it is never newer, unless the disk lost what it had confirmed.
"""

import contextlib
import os
import zlib
from pathlib import Path

_LENGTH = 30  # "revision checksum\n", always as long


class Acknowledged:
    """The note of one store. Where it cannot be written the store goes on without."""

    def __init__(self, store: Path) -> None:
        path = note_of(store)
        self.revision = 0  # 0: nothing is known
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.revision = _parsed(os.pread(self._descriptor, _LENGTH, 0))

    @staticmethod
    def last(store: Path) -> int:
        """What was noted for a store that is not open; 0 where nothing is known."""
        try:
            return _parsed(note_of(store).read_bytes())
        except OSError:
            return 0

    def note(self, revision: int) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # a full disk: the note before stays, which is only older
                os.pwrite(self._descriptor, _rendered(revision), 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def note_of(store: Path) -> Path:
    """Not named after the write-ahead log: who removes `NAME.db-*` by hand must not remove the proof with it."""
    return store.with_name(f"{store.stem}.acked")


def missing(store: Path, acknowledged: int, found: int, wal_was_there: bool) -> str:
    """What is lost, in words for the operator."""
    wal = store.with_name(store.name + "-wal")
    if wal_was_there:
        cause = f"{wal} was cut, damaged or replaced by an older one"
    else:
        cause = f"there is no {wal.name}, or {store.name} was replaced by an older one"
    return (
        f"{store}: writes are missing. The last acknowledged one has revision {acknowledged}, the last one found has"
        f" {found}: up to {acknowledged - found} changes that clients took for saved are gone ({cause})."
        " Put the files back, or bring back a backup with `gpuaas restore FILE`."
        " `gpuaas up --accept lost-writes` goes on with what was found"
    )


def _rendered(revision: int) -> bytes:
    text = b"%020d" % revision
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _parsed(note: bytes) -> int:
    try:
        revision = int(note[:20])
    except ValueError:
        return 0
    return revision if note == _rendered(revision) else 0
