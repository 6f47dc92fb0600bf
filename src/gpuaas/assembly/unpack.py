"""The archive of a backup, unpacked within bounds: it may come from anywhere.

Only what a backup holds is written, under our own names and modes: plain files, stores of clusters with a valid name.
Everything else is passed over. The size a member declares is checked before it is read: against the free space of the
disk, and against what an archive of this length can honestly hold. Headers are bounded as well, since `tarfile` reads
an extended header into memory whatever length it has.
"""

import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import IO, Final, cast

from gpuaas.base.names import is_dns1123_label
from gpuaas.store import StoreError

MARK: Final = "gpuaas-backup"
_MEMBERS: Final = 1_000
_SMALL: Final = 4 << 20  # bytes: every file but a store
_HEADER: Final = 1 << 20  # bytes that are read at once, so the longest header too
_RATIO: Final = 200  # objects in JSON compress to a tenth, nothing but zeros to a thousandth
_RESERVE: Final = 64 << 20  # bytes that stay free on the disk
_PLAIN = frozenset({MARK, "users.json", "fleet.yaml", "kueue.yaml", "strict", "platform"})
_KEY = re.compile(r"pki/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_STORE = re.compile(r"clusters/([^/]*)\.db")


def unpack(file: Path, folder: Path) -> None:
    """Writes the parts of a backup into an empty folder; StoreError says why the file is none."""
    for part in ("clusters", "pki"):
        (folder / part).mkdir(mode=0o700)
    budget = min(shutil.disk_usage(folder).free - _RESERVE, file.stat().st_size * _RATIO + 4 * _SMALL)
    try:
        with _opened(file) as raw, tarfile.open(fileobj=cast("IO[bytes]", raw), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= _MEMBERS:
                    raise _wrong(file, f"it has more than {_MEMBERS} members")
                budget -= member.size
                if budget < 0:
                    raise _too_large(file, member, folder)
                _write(file, archive, member, folder)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        why = "no archive" if isinstance(error, tarfile.ReadError) else str(error)
        raise _wrong(file, why) from None


class _Compressed(gzip.GzipFile):
    """An archive of which nothing long is read at once."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(_checked(size))


class _Plain(io.FileIO):
    """The same, where it is not compressed."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(_checked(size)) or b""


def _checked(size: int | None) -> int:
    if size is None or not 0 <= size <= _HEADER:
        raise ValueError(f"a header of {size} bytes; at most {_HEADER} are read")
    return size


def _opened(file: Path) -> gzip.GzipFile | io.FileIO:
    with file.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
    return _Compressed(file, "rb") if compressed else _Plain(file, "rb")


def _write(file: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    store = _STORE.fullmatch(member.name)
    if store is None and member.name not in _PLAIN and not _KEY.fullmatch(member.name):
        return
    if not member.isreg() or member.issparse():
        raise _wrong(file, f"{member.name} in it is no plain file")
    if store is not None and (complaints := is_dns1123_label(store[1])):
        raise _wrong(file, f"{store[1]!r} is no name of a cluster: {complaints[0]}")
    if store is None and member.size > _SMALL:
        raise _wrong(file, f"{member.name} in it has {member.size} bytes; at most {_SMALL} are allowed")
    source = archive.extractfile(member)
    assert source is not None
    try:
        descriptor = os.open(folder / member.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise _wrong(file, f"{member.name} is in it twice") from None
    with source, os.fdopen(descriptor, "wb") as target:
        shutil.copyfileobj(source, target)


def _wrong(file: Path, why: str) -> StoreError:
    return StoreError(f"{file} is not a backup of ours: {why}")


def _too_large(file: Path, member: tarfile.TarInfo, folder: Path) -> StoreError:
    free = shutil.disk_usage(folder).free
    return StoreError(
        f"{file} cannot be unpacked: with {member.name} ({member.size} bytes) it would need more than the"
        f" {free / 1e6:.0f} MB that are free for {folder.parent}, or more than {_RATIO} times its own size"
        f" ({file.stat().st_size} bytes), which no backup has"
    )
