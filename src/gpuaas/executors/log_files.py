"""The log file of one container: when its lines came, where what is asked for begins, and its pieces. Synchronous.

A process holds its log open and outlives the control plane, so a log is never renamed or cut: it grows, and the disk gets
back what is older than a kubelet would keep (`LogLimits`; like rotated files, in steps of one file's size). What is still
kept follows from the size alone, so readers and the kubelet always agree. Each function opens the file, does a bounded
amount of reading and closes it: a reader holds nothing between two pieces.
"""

import logging
import os
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gpuaas.executors.files import NotRegular, append, open_regular, read_tail, regular_size, release
from gpuaas.executors.limits import LogLimits

_log = logging.getLogger(__name__)
PIECE: Final = 64 * 1024  # bytes that are read at a time, and the longest line that is kept until it is whole
_LONGEST_LINE: Final = 1024 * 1024  # how far the beginning of a line is searched
_MOST_TIMES: Final = 64 * 1024  # bytes of noted times; past that every second one is dropped
_ROW: Final = 64  # bytes no row is longer than
_LAST_MOMENT: Final = 253402300799.0  # the end of the year 9999


@dataclass(slots=True)
class Times:
    """The log had reached `offsets[n]` bytes by `moments[n]`."""

    offsets: list[int] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> "Times":
        made = cls()
        for row in read_tail(folder / "times", _MOST_TIMES + _ROW).splitlines():
            found = _row(row)
            if found is not None:
                made.offsets.append(found[0])
                made.moments.append(found[1])
        return made

    def at(self, offset: int, otherwise: float) -> float:
        """When the line that begins there was seen."""
        if not self.moments:
            return otherwise
        return self.moments[min(bisect_right(self.offsets, offset), len(self.moments) - 1)]

    def since(self, moment: float) -> int | None:
        """The offset from which everything was seen at that moment or later; None where nothing was."""
        for number, seen in enumerate(self.moments):
            if seen >= moment:
                return self.offsets[number - 1] if number else 0
        return None if self.moments else 0


@dataclass(slots=True)
class Position:
    """How far a reader has come."""

    offset: int
    until: int | None  # for a reader that does not follow: where the log ended when it began
    inside: bool = False  # the last piece ended within a line
    times: Times | None = None  # where they are shown


@dataclass(frozen=True, slots=True)
class Asked:
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    follow: bool = False


def note_size(folder: Path, now: float) -> int:
    """Everything up to the present size was written by now. The size."""
    size = regular_size(folder / "log")
    if not size:
        return 0
    rows = read_tail(folder / "times", 2 * _ROW).splitlines()
    last = _row(rows[-1]) if rows else None
    if last is None or size > last[0]:
        append(folder / "times", f"{size} {now:.6f}\n".encode())
    return size


def thin_times(folder: Path) -> None:
    """Drops every second of too many noted times; only the kubelet does."""
    path = folder / "times"
    if (regular_size(path) or 0) <= _MOST_TIMES:
        return
    times = Times.of(folder)
    rows = [f"{offset} {moment:.6f}\n" for offset, moment in zip(times.offsets, times.moments, strict=True)]
    new = folder / "times.new"
    new.unlink(missing_ok=True)
    append(new, "".join(rows[(len(rows) - 1) % 2 :: 2]).encode())  # the last one stays
    new.replace(path)


def first_kept(size: int, limits: LogLimits) -> int:
    """The offset of the oldest byte that a kubelet would still have: in the current file or in one of the rotated."""
    return max(0, (size // limits.max_size - (limits.max_files - 1)) * limits.max_size)


def is_too_large(folder: Path, limits: LogLimits) -> bool:
    """Whether it takes more of the disk than what is kept of it."""
    try:
        found = os.lstat(folder / "log")
    except OSError:
        return False
    return found.st_blocks * 512 > found.st_size - first_kept(found.st_size, limits) + limits.max_size // 2


def trim(folder: Path, limits: LogLimits) -> bool:
    """False where the file system cannot do it."""
    size = regular_size(folder / "log") or 0
    end = first_kept(size, limits)
    return release(folder / "log", end) if end else True


def begin(folder: Path, asked: Asked, limits: LogLimits, now: float) -> Position:
    """Where a reader begins. NotRegular where the log is something else than a file."""
    ended = _has_ended(folder)
    try:
        note_size(folder, now)
    except OSError as error:  # a full disk, or `times` was replaced: then lines have no times of their own
        _log.debug("%s: %s", folder, error)
    times = Times.of(folder)
    try:
        log = open_regular(folder / "log")
    except NotRegular:
        raise
    except OSError:
        return Position(0, None if asked.follow else 0, times=times if asked.timestamps else None)
    try:
        size = os.fstat(log).st_size
        start = _line_start(log, first_kept(size, limits), size)
        end = size if ended else _last_line_end(log, start, size)
        if asked.since is not None:
            seen = times.since(asked.since)
            start = end if seen is None else min(end, _line_start(log, max(start, seen), size))
        if asked.tail is not None:
            start = _tail_start(log, start, end, asked.tail)
    finally:
        os.close(log)
    return Position(start, None if asked.follow else end, times=times if asked.timestamps else None)


def read_piece(folder: Path, position: Position, limits: LogLimits, now: float) -> bytes:
    """What comes next, as it is shown; moves the position on. Nothing where nothing more has been written."""
    ended = _has_ended(folder)
    try:
        log = open_regular(folder / "log")
    except OSError:
        return b""
    try:
        size = os.fstat(log).st_size
        if size < position.offset:  # it was emptied, or is another one
            position.offset, position.inside = 0, False
        most = PIECE if position.until is None else max(0, min(PIECE, position.until - position.offset))
        data = os.pread(log, most, position.offset)
        size = os.fstat(log).st_size
        kept = first_kept(size, limits)
        if data and position.offset < kept:  # the reader is slower than the log is trimmed
            start = _line_start(log, kept, size)
            position.offset, position.inside = start, False
            data = os.pread(log, PIECE, start) if position.until is None or start < position.until else b""
    finally:
        os.close(log)
    at_end = position.offset + len(data) >= (size if position.until is None else position.until)
    data = _whole_lines(data, ended=ended, at_end=at_end)
    shown = data if position.times is None else _timed(folder, data, position, now)
    position.offset += len(data)
    if data:
        position.inside = not data.endswith(b"\n")
    if position.inside and ended and at_end:
        position.inside = False
        shown += b"\n"
    return shown


def has_more(folder: Path, position: Position) -> bool:
    """Whether it is worth while to read on."""
    size = regular_size(folder / "log")
    return size is not None and size != position.offset


def _whole_lines(data: bytes, *, ended: bool, at_end: bool) -> bytes:
    """Up to the last line that is whole. A line longer than a piece is passed on in pieces."""
    if not data or data.endswith(b"\n") or (ended and at_end):
        return data
    last = data.rfind(b"\n") + 1
    if last:
        return data[:last]
    return data if len(data) == PIECE or not at_end else b""


def _timed(folder: Path, data: bytes, position: Position, now: float) -> bytes:
    """Each line with its time before it: lines between two noted sizes have the same."""
    assert position.times is not None
    if data and (not position.times.offsets or position.offset + len(data) > position.times.offsets[-1]):
        try:
            note_size(folder, now)
        except OSError as error:
            _log.debug("%s: %s", folder, error)
        position.times = Times.of(folder)
    times, shown, start = position.times, list[bytes](), 0
    if position.inside:
        start = data.find(b"\n") + 1 or len(data)
        shown.append(data[:start])
    while start < len(data):
        number = bisect_right(times.offsets, position.offset + start)
        end = len(data)
        if number < len(times.offsets) - 1:  # lines that begin at the next noted size or later have another time
            border = times.offsets[number] - position.offset
            if border < len(data):
                end = data.find(b"\n", max(border - 1, start)) + 1 or len(data)
        prefix = _moment(times.at(position.offset + start, now))
        lines = data[start:end]
        tail = lines[-1:] if lines.endswith(b"\n") else b""
        shown.append(prefix + lines[: len(lines) - len(tail)].replace(b"\n", b"\n" + prefix) + tail)
        start = end
    return b"".join(shown)


def _moment(at: float) -> bytes:
    """As kubelets write it, with the nine digits clients expect."""
    return f"{datetime.fromtimestamp(at, UTC).strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z ".encode()


def _line_start(log: int, start: int, end: int) -> int:
    """The first line that begins there or later, or the end; `start` itself in the midst of a very long one."""
    if start == 0 or start >= end:
        return min(start, end)
    position = start - 1
    while position < min(end, start + _LONGEST_LINE):
        block = os.pread(log, PIECE, position)
        found = block.find(b"\n")
        if found >= 0 or not block:
            return position + found + 1 if block else end
        position += len(block)
    return start if position < end else end


def _last_line_end(log: int, start: int, end: int) -> int:
    """Behind the last line that is whole; the end itself where the last line is longer than a piece."""
    first = max(start, end - PIECE)
    found = os.pread(log, end - first, first).rfind(b"\n")
    if found >= 0:
        return first + found + 1
    return end if end - first == PIECE else start


def _tail_start(log: int, start: int, end: int, lines: int) -> int:
    """Where the last `lines` lines before `end` begin: newlines are counted from the end, block by block."""
    if lines == 0:
        return end
    position, wanted = end, lines
    while position > start:
        size = min(PIECE, position - start)
        block = os.pread(log, size, position - size)
        stop = len(block) - 1 if position == end and block.endswith(b"\n") else len(block)
        found = block.count(b"\n", 0, stop)
        if found < wanted:
            wanted -= found
            position -= size
            continue
        for _ in range(wanted):
            stop = block.rfind(b"\n", 0, stop)
        return position - size + stop + 1
    return start


def _row(text: bytes) -> tuple[int, float] | None:
    """None for what is no row: the file lies where tenants can write."""
    parts = text.split()
    if len(parts) != 2 or len(text) > _ROW:
        return None
    try:
        offset, moment = int(parts[0]), float(parts[1])
    except ValueError:
        return None
    return (offset, moment) if 0 <= moment <= _LAST_MOMENT else None


def _has_ended(folder: Path) -> bool:
    return os.path.lexists(folder / "exit")
