"""Logging: one line a message on standard error, nothing for a request that went well.

The standard error of a detached server is a file in its home. That file is bounded: when it has grown too long it is
renamed to `NAME.1` (the one before to `NAME.2`, and so on; the oldest goes), and standard output and error continue in
a new one. The size is looked at after each message, so that what others write there counts as well.
"""

import logging
import os
from itertools import pairwise
from pathlib import Path
from typing import Final

LONGEST: Final = 16 << 20  # bytes
KEPT: Final = 3  # files before the current one

_FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"


def configure(level: int = logging.INFO, file: Path | None = None) -> None:
    """`file`: the log of a detached server; rotated while standard error leads there."""
    handlers: list[logging.Handler] | None = [Rotating(file)] if file is not None else None
    logging.basicConfig(level=level, format=_FORMAT, force=True, handlers=handlers)


class Rotating(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, file: Path, longest: int = LONGEST, descriptors: tuple[int, ...] = (2, 1)) -> None:
        super().__init__()
        self._file = file
        self._longest = longest
        self._descriptors = descriptors  # of the process; the first is asked

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            if os.fstat(self._descriptors[0]).st_size > self._longest:
                self._rotate()
        except OSError:
            return  # no room for a new file, or not ours any more: the old one goes on

    def _rotate(self) -> None:
        if not os.path.samestat(os.fstat(self._descriptors[0]), self._file.stat()):
            return
        draft = self._file.with_name(f"{self._file.name}.new")
        fresh = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            make_room(self._file)
            draft.replace(self._file)
            for descriptor in self._descriptors:
                os.dup2(fresh, descriptor)
        finally:
            os.close(fresh)


def make_room(file: Path) -> None:
    """Renames a log, and the older ones before it."""
    older = [file, *(file.with_name(f"{file.name}.{number}") for number in range(1, KEPT + 1))]
    for newer, old in reversed(list(pairwise(older))):
        if newer.exists():
            newer.replace(old)
