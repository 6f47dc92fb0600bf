"""How much history is kept: the policy of automatic compaction, pure.

At least `MIN_REVISIONS`; beyond that, what is younger than `KEEP_SECONDS`, unless writes come so fast that this would
be more than `MAX_REVISIONS`: the file has to stay bounded. Whatever the revisions, history never takes more than
`MAX_BYTES`: `HistorySize` counts what a compaction would free (versions that were replaced, and deletions).
"""

from collections import deque

KEEP_SECONDS = 300.0
MIN_REVISIONS = 10_000
MAX_REVISIONS = 100_000
MAX_BYTES = 256 << 20
_BLOCKS = 64  # the limit is counted in so many parts


class Retention:
    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []  # (when, the revision then), oldest first

    def target(self, now: float, revision: int, compacted: int) -> int:
        """Up to which revision history may go now; called again and again, it remembers when was which revision."""
        self._marks.append((now, revision))
        old = [mark for mark in self._marks if mark[0] <= now - KEEP_SECONDS]
        if len(old) > 1:
            self._marks = self._marks[len(old) - 1 :]
        aged = old[-1][1] if old else 0
        return max(compacted, min(max(aged, revision - MAX_REVISIONS), revision - MIN_REVISIONS))


class HistorySize:
    """How many bytes of history there are, in blocks of a part of the limit each; the last block is still open."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._block = limit // _BLOCKS
        self._blocks: deque[tuple[int, int]] = deque()  # (last revision, bytes)
        self._open = 0
        self._last = 0
        self.bytes = 0

    @property
    def is_over(self) -> bool:
        return self.bytes > self._limit

    def add(self, revision: int, size: int) -> None:
        self.bytes += size
        self._open += size
        self._last = revision
        if self._open >= self._block:
            self._blocks.append((revision, self._open))
            self._open = 0

    def target(self) -> int:
        """The revision up to which history has to go, so that three quarters of the limit stay; 0 below the limit."""
        left, end = self.bytes, 0
        for last, size in self._blocks if self.is_over else ():
            if left <= self._limit * 3 // 4:
                break
            left, end = left - size, last
        return end

    def forget(self, revision: int) -> None:
        while self._blocks and self._blocks[0][0] <= revision:
            self.bytes -= self._blocks.popleft()[1]
        if self._last <= revision:
            self.bytes = self._open = 0

    def ends(self, upto: int) -> list[int]:
        """Where the blocks up to a revision end: compaction in these steps frees little at a time."""
        return [last for last, _ in self._blocks if last <= upto]
