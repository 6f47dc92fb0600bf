"""Files in the folders of pods. A tenant's process may have put anything in their place: a FIFO, a link, a folder.

So they are opened without following links and without waiting, and only a regular file is read or written.
"""

import ctypes
import errno
import os
import stat
from pathlib import Path
from typing import Final

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of fallocate(2)
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class NotRegular(OSError):
    """There is something, and it is no regular file."""


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A file descriptor. FileNotFoundError where there is nothing."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            raise NotRegular(error.errno, f"{path} is not a regular file") from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegular(errno.EINVAL, f"{path} is not a regular file")


def open_log(path: Path) -> int:
    """For a process to append its output to."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.set_blocking(descriptor, True)
    return descriptor


def regular_size(path: Path) -> int | None:
    """None where there is no regular file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def read_tail(path: Path, most: int) -> bytes:
    """The last bytes of it, `most` at most; nothing where there is no regular file."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, most, max(0, size - most))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def append(path: Path, text: bytes) -> None:
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def release(path: Path, end: int) -> bool:
    """Gives the disk back what the first `end` bytes take. The file keeps its length, so that offsets stay what they are
    for who writes to it and who reads it. False where the file system cannot do that."""
    punch = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if punch is None:
        return False
    descriptor = open_regular(path, os.O_WRONLY)
    try:
        if os.fstat(descriptor).st_nlink != 1:  # another name of a file that is not only a log
            return True
        arguments = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE), ctypes.c_int64(0), ctypes.c_int64(end)
        if punch(ctypes.c_int(descriptor), *arguments) == 0:
            return True
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
