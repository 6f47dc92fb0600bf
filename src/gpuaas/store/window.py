"""The recent past in memory: the last committed events, bounded by count and by bytes.

Watchers that fall behind a little catch up from here; what is older is read from the log.
"""

from bisect import bisect_right
from collections.abc import Sequence

from gpuaas.store.entries import Event


class Window:
    def __init__(self, start: int, limit_events: int, limit_bytes: int) -> None:
        self._events: list[Event] = []
        self._revisions: list[int] = []
        self._first = 0  # events before this index are dead; they are cut off in one go
        self._bytes = 0
        self._start = start
        self._limit_events = limit_events
        self._limit_bytes = limit_bytes

    @property
    def start(self) -> int:
        """Every event after this revision is here."""
        return self._start

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events.append(event)
            self._revisions.append(event.revision)
            self._bytes += _weight(event)
        while self._bytes > self._limit_bytes or len(self._events) - self._first > self._limit_events:
            self._forget_oldest()
        if self._first > len(self._events) // 2:  # cutting costs as much as what stays: each event pays once
            self._cut()

    def after(self, revision: int, prefix: str, limit: int) -> list[Event]:
        """The first `limit` events below the prefix after the revision, which is not before `start`."""
        found: list[Event] = []
        index = bisect_right(self._revisions, revision, self._first)
        for event in self._events[index:]:
            if event.key.startswith(prefix):
                found.append(event)
                if len(found) == limit:
                    break
        return found

    def forget(self, revision: int) -> None:
        """History up to here is compacted: free it."""
        while self._first < len(self._events) and self._revisions[self._first] <= revision:
            self._forget_oldest()
        self._cut()

    def _forget_oldest(self) -> None:
        event = self._events[self._first]
        self._bytes -= _weight(event)
        self._start = event.revision
        self._first += 1

    def _cut(self) -> None:
        del self._events[: self._first]
        del self._revisions[: self._first]
        self._first = 0


def _weight(event: Event) -> int:
    # The new version is alive anyway, mostly; what the window keeps alive is the one it replaced and the line.
    kept = event.previous if event.previous is not None else event.entry
    return 2 * len(kept.raw) + 400
