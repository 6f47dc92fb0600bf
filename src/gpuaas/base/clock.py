"""Time, injected. Everything that needs "now" or "later" takes a `Clock`; only this module reads the machine's.

Times are Unix seconds as floats; `rfc3339` and `parse_rfc3339` are the one place where they become Kubernetes'
strings and back. `VirtualClock` moves only when a test advances it, so that a scenario of hours runs in no time and twice alike.
"""

import asyncio
import heapq
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Wall time, Unix seconds."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """A clock that stands still until `advance` moves it; sleepers wake in the order of their deadlines."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:  # 2026-01-01T00:00:00Z
        self._now = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sequence = 0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._sequence, woken))
        await woken

    def next_deadline(self) -> float | None:
        """When the next sleeper wakes; None when there is no sleeper."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance(self, seconds: float) -> None:
        """Move to `seconds` later; who sleeps until then is woken, but runs only when the loop does."""
        target = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            deadline, _, woken = heapq.heappop(self._sleepers)
            self._now = max(self._now, deadline)
            if not woken.done():
                woken.set_result(None)
        self._now = target


_cached_second = -1
_cached_text = ""


def rfc3339(seconds: float) -> str:
    """`2026-01-01T00:00:00Z`: Kubernetes' metav1.Time. The last second's text is kept: writes come in bursts."""
    global _cached_second, _cached_text
    whole = int(seconds)
    if whole == _cached_second:
        return _cached_text
    text = f"{datetime.fromtimestamp(whole, UTC).isoformat()[:19]}Z"
    _cached_text, _cached_second = text, whole
    return text


def rfc3339_micro(seconds: float) -> str:
    """`2026-01-01T00:00:00.000000Z`: Kubernetes' metav1.MicroTime (leases, events)."""
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat(timespec='microseconds')[:26]}Z"


def parse_rfc3339(text: str) -> float:
    """Unix seconds of an RFC 3339 time; raises ValueError for anything else."""
    return _parse(text).timestamp()


def _parse(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-01-01T00:00:00Z")
    return moment
