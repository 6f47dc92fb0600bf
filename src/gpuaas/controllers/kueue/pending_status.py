"""Why workloads wait, written as conditions and events: beside the decisions, and never before them.

Only the newest word about each is written. A few are on their way at a time, they let the server's requests go first,
and where the numbers change all the time they are written at a bounded rate. Where many wait at once, most
of them get in a moment later: only those that still wait then get a reason.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError, Conflict
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Client, Object
from gpuaas.controllers.kueue.world import Mirror
from gpuaas.engine.plan import Skipped
from gpuaas.engine.reasons import Token
from gpuaas.kueue.status import resource_requests
from gpuaas.kueue.unadmitted import reason_of
from gpuaas.kueue.workload_state import conditions_of, holds, pending_status
from gpuaas.runtime.eager import begin
from gpuaas.runtime.events import WARNING, Recorder
from gpuaas.runtime.pace import Pace
from gpuaas.runtime.writes import write_status

_log = logging.getLogger(__name__)
PENDING: Final = "Pending"
EVENT_LIMIT: Final = 1024
ATTEMPTS: Final = 8  # at a write others write as well
_SPEAKERS: Final = 4
_AT_ONCE, _A_SECOND = 5, 1.0  # about one waiting workload
_CROWD: Final = 8
_MOMENT: Final = 0.25  # seconds


async def newest_of(client: Client, workload: Object) -> Object:
    """What is there now. Others get a turn first: in process nothing else would let them."""
    await asyncio.sleep(0)
    return await client.get(WORKLOADS, workload["metadata"]["name"], workload["metadata"]["namespace"])


class Words:
    def __init__(
        self,
        client: Client,
        find: Callable[[str], Object | None],
        mirror: Mirror,
        clock: Clock,
        recorder: Recorder,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`find` gives a workload by its key; `turn` waits until something may be written beside the requests."""
        self._client = client
        self._find = find
        self._mirror = mirror
        self._clock = clock
        self._recorder = recorder
        self._turn = turn
        self._unsaid: dict[str, Skipped] = {}
        self._since: dict[str, float] = {}  # when each of these was first passed over, in the same order
        self._saying: set[str] = set()
        self._speakers = 0
        self._paces: dict[str, Pace] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._timers: set[asyncio.Task[None]] = set()
        self._looks_again = False
        self.granular: Callable[[], bool] = lambda: False
        """Whether conditions tell the finer reasons."""

    @property
    def idle(self) -> bool:
        return not self._tasks

    def say(self, passed: Iterable[Skipped]) -> None:
        now = self._clock.monotonic()
        for each in passed:
            self._unsaid[each.key] = each
            self._since.setdefault(each.key, now)
        self._find_speakers()

    def forget(self, key: str) -> None:
        """It waits no longer."""
        self._drop(key)
        self._paces.pop(key, None)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = begin(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a word was not said", exc_info=task.exception())

    def _find_speakers(self) -> None:
        for _ in range(min(_SPEAKERS, len(self._unsaid)) - self._speakers):
            if self._next_unsaid() is None:
                return
            self._speakers += 1
            self._begin(self._speak())

    async def _speak(self) -> None:
        """Writes why workloads wait; what was decided meanwhile replaces what was not written yet. Neither admissions
        nor requests queue behind words: only a few are on their way at a time, and they let others go first."""
        try:
            while self._next_unsaid() is not None:
                if self._turn is not None:
                    await self._turn()
                if (key := self._next_unsaid()) is None:
                    return
                passed = self._unsaid[key]
                self._saying.add(key)
                said = False
                try:
                    said = await self._pass(passed)
                finally:
                    self._rest(key, said)
                if self._unsaid.get(key) is passed:
                    self._drop(key)
        finally:
            self._speakers -= 1

    def _drop(self, key: str) -> None:
        self._unsaid.pop(key, None)
        self._since.pop(key, None)

    def _next_unsaid(self) -> str | None:
        """The one that has waited longest, if it is not too soon in a crowd; then it is scheduled for later."""
        key = next((key for key in self._since if key not in self._saying), None)
        if key is None or len(self._unsaid) <= _CROWD:
            return key
        wait = self._since[key] + _MOMENT - self._clock.monotonic()
        if wait <= 0:
            return key
        if not self._looks_again:
            self._looks_again = True
            self._wait_aside(self._look_again(wait))
        return None

    async def _look_again(self, wait: float) -> None:
        await self._clock.sleep(wait)
        self._looks_again = False
        self._find_speakers()

    def _wait_aside(self, waiting: Coroutine[Any, Any, None]) -> None:
        timer = asyncio.ensure_future(waiting)
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    def _rest(self, key: str, said: bool) -> None:
        """The rate limit of one workload's message: where the numbers change all the time, the newest are written at intervals."""
        wait = 0.0
        if said:
            now = self._clock.monotonic()
            pace = self._paces.setdefault(key, Pace(_AT_ONCE, _A_SECOND))
            pace.wait(now)
            pace.spend()
            wait = pace.wait(now)
        elif self._find(key) is None:
            self._paces.pop(key, None)
        if not wait:
            self._saying.discard(key)
            return
        self._wait_aside(self._speak_again(key, wait))

    async def _speak_again(self, key: str, wait: float) -> None:
        await self._clock.sleep(wait)
        self._saying.discard(key)
        self._find_speakers()

    async def _pass(self, passed: Skipped) -> bool:
        """Whether it was written."""
        obj = self._find(passed.key)
        try:
            for _ in range(ATTEMPTS):
                if obj is None or not self._waits_unsaid(obj, passed):
                    return False
                status = pending_status(obj, passed.message, round(self._clock.now() * 1000), self._reason(passed))
                if (item := self._mirror.engine.items.get(passed.key)) is not None:
                    status["resourceRequests"] = resource_requests(item.workload.pod_sets)
                try:
                    await write_status(self._client, WORKLOADS, obj, status)
                except Conflict:
                    # Another write came in between, perhaps its admission: read it again first.
                    obj = await newest_of(self._client, obj)
                    continue
                if passed.token is not Token.WAITING_FOR_PODS_READY:
                    reason = reason_of(passed.token) if self.granular() else PENDING
                    self._recorder.event(WORKLOADS, obj, WARNING, reason, passed.message[:EVENT_LIMIT])
                return True
        except ApiError as error:
            _log.debug("pending %s: %s", passed.key, error)
        return False

    def _waits_unsaid(self, obj: Object, passed: Skipped) -> bool:
        """Whether it still waits, and its condition does not say so yet."""
        if holds(obj, "QuotaReserved") or self._unsaid.get(passed.key) is not passed:
            return False
        found = conditions_of(obj).get("QuotaReserved") or {}
        said = found.get("reason"), found.get("message"), found.get("observedGeneration")
        return said != (self._reason(passed), passed.message, obj["metadata"].get("generation"))

    def _reason(self, passed: Skipped) -> str:
        """Blocked only by PodsReady of others: set the condition, record no event."""
        if self.granular():
            return reason_of(passed.token)
        return "Waiting" if passed.token is Token.WAITING_FOR_PODS_READY else PENDING
