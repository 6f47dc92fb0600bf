"""Admission: cycles of the engine whenever something changed, and their plans written as statuses and events.

The engine has taken a plan as done when it is returned; writing it is done beside the next cycle. A write that fails
goes back to the engine, which reverts the decision. Messages of those that keep waiting are module pending_status'.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.kueue import PREEMPTIONS, WORKLOADS
from gpuaas.client.protocol import Client, Object
from gpuaas.controllers.kueue.pending_status import ATTEMPTS, EVENT_LIMIT, Words, newest_of
from gpuaas.controllers.kueue.world import Mirror
from gpuaas.devices.shares import NO_SHARES, Shares
from gpuaas.engine.lifecycle import PREEMPTED, WorkloadState, evict, is_true, lasting_checks, required_checks, reserve
from gpuaas.engine.plan import Admitted, Plan, Preempted
from gpuaas.engine.queues import Tree
from gpuaas.kueue.integrations.keys import JOB_UID
from gpuaas.kueue.integrations.outcome import REPLACED, ended, is_finished
from gpuaas.kueue.ledger import preemption_entry
from gpuaas.kueue.status import admission
from gpuaas.kueue.workload_state import conditions_of, holds, status_with, workload_state_of
from gpuaas.kueue.workloads import boost_of
from gpuaas.runtime.eager import begin
from gpuaas.runtime.events import NORMAL, Recorder
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.writes import write_status

_log = logging.getLogger(__name__)
_QUIET_CYCLES = 4
_LOOK_AGAIN = 0.02  # seconds
_WRITTEN_TOGETHER = 0.006  # seconds of decisions
_AT_A_STRETCH = 0.02  # seconds of cycles before others get their turn
_LONG_LOOK = 0.01  # seconds of deciding
_HEADS = 64  # that are looked at without a pause, about
_REPLACED_FOR = "Replaced to accommodate a workload"
_TRY_AGAIN = 1.0  # seconds after a decision that could not be written


class Scheduler:
    def __init__(
        self,
        client: Client,
        workloads: Informer,
        mirror: Mirror,
        clock: Clock,
        recorder: Recorder,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._mirror = mirror
        self._clock = clock
        self._recorder = recorder
        self._runs = self._due = False
        self._rests_until = 0.0
        self._decided = 0.0  # seconds in this look, without what was written
        self._alarm: int | None = None  # the earliest end of a back-off that is waited for
        self._writes: set[asyncio.Future[Any]] = set()
        self._admitting: dict[str, asyncio.Future[None]] = {}
        self._evicting: dict[str, tuple[Tree | None, asyncio.Future[bool]]] = {}
        self._timers: set[asyncio.Task[None]] = set()
        self.looked: Callable[[Plan, float], None] = lambda *_: None
        """Called with each cycle's plan and how long it took."""
        self.shares_of: Callable[[str], Shares] = lambda _: NO_SHARES
        """Into how many shares the cards of a flavor are divided."""
        self.words = Words(client, self._find, mirror, clock, recorder, turn)

    @property
    def idle(self) -> bool:
        return not self._due and not self._writes and self.words.idle

    def wake(self) -> None:
        """Something changed: look in the loop's next turn, once for all that changes in this one. After a long look others
        get as much time first: what they do in it is then looked at together."""
        if self._runs and not self._due:
            self._due = True
            rest = self._rests_until - self._clock.monotonic()
            if rest > 0:
                self._wait_aside(self._look_after(rest))
            else:
                asyncio.get_running_loop().call_soon(self._look)

    async def run(self) -> None:
        """Until cancelled."""
        self._runs = True
        self.wake()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._runs = False
            for timer in self._timers:
                timer.cancel()
            self.words.stop()

    def _look(self) -> None:
        self._due = False
        if not self._runs:
            return
        self._decided, settled = 0.0, True
        try:
            settled = self._settle()
        except Exception:  # what comes next may still be decided
            _log.exception("a cycle failed")
        if self._decided > _LONG_LOOK:
            self._rests_until = self._clock.monotonic() + self._decided
        if not settled:
            self.wake()
        deadline = self._mirror.engine.next_wakeup()
        if deadline is not None and (self._alarm is None or deadline < self._alarm):
            self._alarm = deadline
            self._wait_aside(self._ring(deadline))

    async def _look_after(self, rest: float) -> None:
        await self._clock.sleep(rest)
        self._look()

    async def _ring(self, deadline: int) -> None:
        """When a back-off has ended."""
        await self._clock.sleep(max(0.0, deadline / 1000 - self._clock.now()))
        if self._alarm == deadline:
            self._alarm = None
        self.wake()

    def _wait_aside(self, waiting: Coroutine[Any, Any, None]) -> None:
        timer = asyncio.ensure_future(waiting)
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    def _settle(self) -> bool:
        """Cycles until nothing is left to decide, or others have waited long enough: then it is False. A few in a row
        that change nothing are enough for now, not for ever: a head that was passed over may hide the next one, and
        one that waits for its victims is looked at again."""
        engine = self._mirror.engine
        quiet, changed, since = 0, False, self._clock.monotonic()
        end, settled = since + _AT_A_STRETCH, True
        while engine.unsettled() and quiet < _QUIET_CYCLES:
            if self._clock.monotonic() > end:
                settled = False
                break
            plan = self._cycle()
            quiet = 0 if plan.changed or plan.left else quiet + 1
            changed = changed or plan.changed
            if changed and self._clock.monotonic() - since > _WRITTEN_TOGETHER:
                self._client.hasten()
                changed, since = False, self._clock.monotonic()
        if changed:
            self._client.hasten()  # the quota is taken, and unused until this is written
        if quiet == _QUIET_CYCLES:
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self.wake)
        return settled

    def _cycle(self) -> Plan:
        began = self._clock.monotonic()
        plan = self._mirror.engine.cycle(self._millis(), _HEADS)
        took = self._clock.monotonic() - began
        self._decided += took
        self.looked(plan, took)
        self._carry_out(plan)
        return plan

    def _carry_out(self, plan: Plan) -> None:
        for victim in plan.preemptions:
            evicting = self._spawn(self._evict(victim))
            self._evicting[victim.key] = self._tree(victim.cluster_queue), evicting
            evicting.add_done_callback(partial(self._evicted, victim.key))
        for admitted in plan.admissions:
            self.words.forget(admitted.key)
            self._mirror.assume(admitted.key)
            making_room = self._unwritten_evictions(self._tree(admitted.cluster_queue))
            admitting = self._spawn(self._admit(admitted, making_room))
            self._admitting[admitted.key] = admitting
            admitting.add_done_callback(partial(self._was_admitted, admitted.key))
        self.words.say(plan.skipped)

    def _unwritten_evictions(self, tree: Tree | None) -> "list[asyncio.Future[bool]]":
        """Those that a write begun now could overtake."""
        return [task for key, (of, task) in self._evicting.items() if of is tree and not self._is_told_to_leave(key)]

    def _is_told_to_leave(self, key: str) -> bool:
        namespace, _, name = key.partition("/")
        obj = self._client.under_way(WORKLOADS, name, namespace)
        return obj is not None and (holds(obj, "Evicted") or not holds(obj, "QuotaReserved"))

    def _was_admitted(self, key: str, task: "asyncio.Future[None]") -> None:
        if self._admitting.get(key) is task:
            del self._admitting[key]

    def _evicted(self, key: str, task: "asyncio.Future[bool]") -> None:
        if self._evicting.get(key, (None, None))[1] is task:
            del self._evicting[key]

    def _tree(self, queue: str) -> Tree | None:
        found = self._mirror.engine.forest.queues.get(queue)
        return None if found is None else found.tree

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]":
        task = begin(work)
        self._writes.add(task)
        task.add_done_callback(self._written)
        return task

    def _written(self, task: "asyncio.Future[Any]") -> None:
        self._writes.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a decision was not carried out", exc_info=task.exception())

    async def _admit(self, admitted: Admitted, making_room: "list[asyncio.Future[bool]]") -> None:
        """The engine gives away the room of victims before they have left. They are evicted first, so that at no
        time, and after no crash, two hold what is there once."""
        if not making_room or await _all_true(making_room):
            await self._reserve(admitted)
        else:
            self._take_back(admitted, self._find(admitted.key))

    async def _reserve(self, admitted: Admitted) -> None:
        obj = self._find(admitted.key)
        if obj is None or obj["metadata"].get("uid") != admitted.uid:
            self._take_back(admitted, obj)
            return
        engine, now = self._mirror.engine, self._millis()
        queue = engine.forest.queues[admitted.cluster_queue]
        flavors = frozenset(flavor for given in admitted.pod_sets for _, flavor in given.flavors)
        all_flavors = frozenset(f.flavor for group in queue.spec.groups for f in group.flavors)
        required = required_checks(queue.spec.checks, flavors, all_flavors)
        given = admission(admitted, engine.flavors, engine.places.topologies)
        try:
            state = await self._write(obj, lambda state: reserve(state, admitted.cluster_queue, required, now), given)
        except NotFound:
            self._take_back(admitted, None)
            return
        except ApiError as error:
            _log.warning("admission of %s: %s", admitted.key, error)
            self._take_back(admitted, self._find(admitted.key))
            return
        except Exception:  # whatever it was: what is not written must not be held for ever
            _log.exception("admission of %s", admitted.key)
            await self._clock.sleep(_TRY_AGAIN)
            self._take_back(admitted, self._find(admitted.key))
            return
        self._mirror.wrote(admitted.key)
        self._tell_admitted(obj, admitted, state)
        if admitted.replaces:
            await self._finish_replaced(admitted, obj)

    def _take_back(self, admitted: Admitted, obj: Object | None) -> None:
        """It could not be admitted; whom it was to replace holds on."""
        self._mirror.failed(admitted.key, obj)
        if admitted.replaces:
            self._mirror.stays(self._find(admitted.replaces))

    async def _finish_replaced(self, admitted: Admitted, by: Object) -> None:
        """Not before its successor is written as admitted. Should this fail, the job's controller does it later."""
        old = self._find(admitted.replaces)
        uid, job = by["metadata"]["uid"], (by["metadata"].get("labels") or {}).get(JOB_UID, "")
        words = f"{_REPLACED_FOR} (UID: {uid}, JobUID: {job}) due to workload slice aggregation"
        try:
            for _ in range(ATTEMPTS):
                if old is None or is_finished(old):
                    return
                try:
                    await write_status(self._client, WORKLOADS, old, ended(old, REPLACED, words, self._clock.now()))
                except Conflict:
                    old = await newest_of(self._client, old)
                    continue
                self._event(old, NORMAL, REPLACED, words)
                return
        except ApiError as error:
            _log.warning("%s was replaced by %s: %s", admitted.replaces, admitted.key, error)

    def _tell_admitted(self, obj: Object, admitted: Admitted, state: WorkloadState) -> None:
        waited = self._clock.now() - _queued_at(obj)
        name = admitted.cluster_queue
        words = f"Quota reserved in ClusterQueue {name}, wait time since queued was {waited:.0f}s"
        considered = f"; Flavors considered: {admitted.considered}" if admitted.considered else ""
        self._event(obj, NORMAL, "QuotaReserved", words + considered)
        if is_true(state.admitted):
            self._event(obj, NORMAL, "Admitted", f"Admitted by ClusterQueue {name}, wait time since reservation was 0s")

    async def _evict(self, victim: Preempted) -> bool:
        """Whether it leaves, or has left."""
        obj = self._find(victim.key)
        if victim.key in self._admitting and (obj is None or not holds(obj, "QuotaReserved")):
            # Decided a moment ago: it must be there before it can be taken back.
            await asyncio.wait((self._admitting[victim.key],))
            obj = self._find(victim.key)
        if obj is None or not holds(obj, "QuotaReserved") or holds(obj, "Evicted"):
            return True
        by, now, at = self._find(victim.by), self._clock.now(), self._millis()
        rule, queue = victim.rule.value, self._mirror.engine.forest.queues.get(victim.cluster_queue)
        lasting = lasting_checks(queue.spec.checks if queue is not None else ())
        try:
            await self._write(
                obj, lambda state: evict(state, PREEMPTED, victim.message, at, rule=rule, lasting=lasting)
            )
        except Exception as error:
            _log.warning("preemption of %s: %s", victim.key, error, exc_info=not isinstance(error, ApiError))
            self._spawn(self._choose_again(victim.key))
            return False
        self._spawn(self._note(preemption_entry(victim, obj, by, now, self.shares_of)))
        self._tell_preempted(victim, obj, by)
        return True

    async def _choose_again(self, key: str) -> None:
        await self._clock.sleep(_TRY_AGAIN)
        self._mirror.stays(self._find(key))

    def _tell_preempted(self, victim: Preempted, obj: Object, by: Object | None) -> None:
        boosts = self._mirror.reader.boosts
        priorities = (
            f"; preemptor effective priority: {_priority(by, boosts)}"
            f"; preemptee effective priority: {_priority(obj, boosts)}"
        )
        self._event(obj, NORMAL, "Preempted", victim.message + priorities)
        self._event(obj, NORMAL, "EvictedDueToPreempted", victim.message)
        if by is not None:
            words = f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {victim.cluster_queue}"
            said = (words + priorities)[:EVENT_LIMIT]
            self._recorder.event(WORKLOADS, by, NORMAL, "PreemptedWorkload", said)

    async def _note(self, entry: Object) -> None:
        """Into the ledger. The eviction is done: failing to note it must not undo it, but must be seen."""
        try:
            await self._client.create(PREEMPTIONS, entry, entry["metadata"]["namespace"])
        except ApiError as error:
            _log.error("the ledger misses a preemption of %s: %s", entry["spec"]["victim"]["name"], error)

    async def _write(
        self, obj: Object, step: Callable[[WorkloadState], WorkloadState], given: Object | None = None
    ) -> WorkloadState:
        """Takes the step; again, from the newest state, if another client wrote in between."""
        for _ in range(ATTEMPTS):
            before = workload_state_of(obj)
            state = step(before)
            try:
                await write_status(self._client, WORKLOADS, obj, status_with(obj, state, given, before))
            except Conflict:
                newest = await newest_of(self._client, obj)
                if newest["metadata"]["uid"] != obj["metadata"]["uid"]:
                    raise
                obj = newest
                continue
            return state
        raise Conflict(WORKLOADS.group, WORKLOADS.plural, obj["metadata"]["name"], "others write it all the time")

    def _find(self, key: str) -> Object | None:
        """As the writes under way leave it, where that is known: what is written next builds on them, and does not have
        to be written again because of them."""
        namespace, _, name = key.partition("/")
        return self._client.under_way(WORKLOADS, name, namespace) or self._workloads.get(namespace, name)

    def _event(self, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        self._recorder.event(WORKLOADS, obj, kind, reason, message[:EVENT_LIMIT])

    def _millis(self) -> int:
        return round(self._clock.now() * 1000)


async def _all_true(tasks: "list[asyncio.Future[bool]]") -> bool:
    done, _ = await asyncio.wait(tasks)
    return all(not task.cancelled() and task.exception() is None and task.result() for task in done)


def _queued_at(obj: Mapping[str, Any]) -> float:
    requeued = conditions_of(obj).get("Requeued")
    since = requeued["lastTransitionTime"] if requeued else obj["metadata"]["creationTimestamp"]
    return parse_rfc3339(since)


def _priority(obj: Object | None, boosts: bool) -> str:
    base = ((obj or {}).get("spec") or {}).get("priority") or 0
    boost = boost_of(obj) if boosts and obj is not None else 0
    return f"{base + boost} (base: {base}, boost: {boost})"
