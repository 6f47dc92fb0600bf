"""The queue between news and work: each key at most once in line, and never worked on by two at a time.

A key added while it is being worked on is queued again when that work is `done`. `add_after` and `add_rate_limited`
put it in line later, by the injected clock; the back-off doubles with each failure and ends with `forget`.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from gpuaas.base.clock import Clock
from gpuaas.runtime.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    def __init__(self, clock: Clock, *, first_delay: float = 0.005, longest_delay: float = 1000.0) -> None:
        self._clock = clock
        self._backoff = Backoff(first_delay, longest_delay)
        self._line: deque[K] = deque()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._sequence = 0
        self._timer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._line)

    @property
    def idle(self) -> bool:
        """Nothing in line and nothing being worked on; what is due later does not count."""
        return not self._line and not self._working

    def add(self, key: K) -> None:
        if key in self._queued:
            return
        if key in self._working:
            self._again.add(key)
            return
        self._queued.add(key)
        self._line.append(key)
        self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """In line after `seconds`; of several delays of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._later, (due, self._sequence, key))
        if self._later[0][2] == key:
            self._restart_timer()

    def add_rate_limited(self, key: K) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, self._backoff.delay(failures))

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    async def get(self) -> K:
        while not self._line:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # the wake-up was for work, not for this one: pass it on
                raise
        key = self._line.popleft()
        self._queued.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def resume(self) -> None:
        """After `close`: what was due later comes when it is due."""
        if self._later and self._timer is None:
            self._restart_timer()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._timer
            self._timer = None

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._deliver())

    async def _deliver(self) -> None:
        while self._later:
            wait = self._later[0][0] - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep(wait)
                continue
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._timer = None
