"""Who gets the processor when: requests and those who work behind the server share one loop.

`Slices` bounds what a turn of the loop does for requests: without it everything that arrived at once would be served
before the decision an earlier one was waiting for takes its next step, and it takes several. Where others need very long
for their part of a turn (a thousand queues in contention), requests that wait get a longer slice, or they would starve.
`Turns` is the other half.

A burst of requests and the controllers' answers to it want the same processor. Without an order each request waits for
the work that the ones before it caused. So while many requests wait for their writes, or the loop is so full that its
timers come late, background work goes on at a bounded rate, the longest waiting first; otherwise no work is delayed.
A controller decides after its turn came, on the state of that moment.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

_MANY: Final = 8  # requests under way; fewer leave room for everybody
_EVERY: Final = (
    0.005  # seconds between turns under load: 200 a second, ten times what a controller manager allows itself
)

_LATE: Final = 0.004  # seconds after its time that a timer comes when everybody wants the loop

_SLICE: Final = 0.002  # seconds a turn of the loop begins to serve requests for
_LONG: Final = 0.1  # seconds others take of a turn, after which requests get the longer slice
_LONG_SLICE: Final = 0.05


class Slices:
    """Requests in the order they came, in each turn of the loop for a few milliseconds; more where the others had very long."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now  # the loop's own time stands still within a turn
        self._end: float | None = None
        self._served = 0.0  # when the last slice ended after which some had to wait
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, serve: Callable[[], None]) -> None:
        """Now, or when the turn of the loop comes that has time for it."""
        if self._end is None:
            self._end = self._now() + _SLICE
            self._loop.call_soon(self._next)
        elif self._waiting or self._now() > self._end:
            if not self._waiting:
                self._served = self._now()
            self._waiting.append(serve)
            return
        serve()

    def is_over(self) -> bool:
        """Whether who has long work should let others have their turn: then it goes on `later`."""
        return self._end is not None and (bool(self._waiting) or self._now() > self._end)

    def later(self, serve: Callable[[], None]) -> None:
        """After those who wait already."""
        if self._end is None:
            self._end = self._now() + _SLICE
            self._loop.call_soon(self._next)
        if not self._waiting:
            self._served = self._now()
        self._waiting.append(serve)

    def _next(self) -> None:
        if not self._waiting:
            self._end = None
            return
        now = self._now()
        self._end = now + (_LONG_SLICE if now - self._served > _LONG else _SLICE)
        self._loop.call_soon(self._next)
        while self._waiting and self._now() <= self._end:
            self._waiting.popleft()()
        self._served = self._now()


class Turns:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._requests = 0
        self._most = 0  # requests under way at once, since the timer came last: many are answered together
        self._came = False  # a request, since the last `is_quiet`
        self._full = False  # the loop, when the timer came last
        self._due = 0.0
        self._to_give = 0  # turns, before the timer comes again
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def is_quiet(self) -> bool:
        """No request is under way, and none has come since this was asked before."""
        came, self._came = self._came, False
        return not came and not self._requests

    def began(self) -> None:
        self._requests += 1
        self._most = max(self._most, self._requests)
        self._came = True

    def ended(self) -> None:
        self._requests -= 1

    async def take(self) -> None:
        """Returns when it is the caller's turn: at once, unless many requests are under way or the loop is full. Whether
        it is, is seen from how late a timer comes, as long as turns are asked for."""
        if self._timer is None:
            self._set_timer()
        if not self._under_load():
            return
        if self._to_give and not self._waiting:
            self._to_give -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _under_load(self) -> bool:
        return self._full or self._most >= _MANY

    def _set_timer(self) -> None:
        self._due = self._now() + _EVERY
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._tick)

    def _tick(self) -> None:
        late = self._now() - self._due
        self._full = late > _LATE
        missed = max(0, int(late / _EVERY))
        unwanted = self._give(1 + missed if self._under_load() else len(self._waiting))
        self._most = self._requests
        goes_on = bool(self._waiting) or self._full
        self._to_give = unwanted if goes_on else 0
        self._timer = None
        if goes_on:
            self._set_timer()

    def _give(self, count: int) -> int:
        """Grants so many turns; returns how many were not wanted."""
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():  # the waiting task may have been cancelled
                turn.set_result(None)
                count -= 1
        return count
