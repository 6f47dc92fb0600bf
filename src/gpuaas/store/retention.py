"""How much history is kept: the policy of automatic compaction, pure.

At least `MIN_REVISIONS`; beyond that, what is younger than `KEEP_SECONDS`, unless writes come so fast that this would
be more than `MAX_REVISIONS`: the file has to stay bounded.
"""

KEEP_SECONDS = 300.0
MIN_REVISIONS = 10_000
MAX_REVISIONS = 100_000


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
