"""What an action would do before it is done: the live engine tries it, runs its cycles and puts everything back.

`Effects` answers for cancelling a job, stopping or resuming a queue, and changing a priority: which workloads start,
which are evicted, compared with what would happen anyway. The sentence is made for a user: workloads in namespaces that
the user may not read are counted, not named. A trial is bounded in cycles and in time; one that was cut short says "at
least".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.clock import Clock
from gpuaas.engine.changes import Change, Evicted, Finished, Released
from gpuaas.engine.engine import Engine
from gpuaas.engine.lifecycle import LOCAL_QUEUE_STOPPED, QUEUE_STOPPED
from gpuaas.engine.values import Millis, StopPolicy, Workload

_CYCLES: Final = 64
_SECONDS: Final = 0.02  # of the cycles of one trial: others wait for the loop
_NAMED: Final = 3  # namespaces named in a sentence
MaySee = Callable[[str], bool]
"""Whether the user may list the workloads of a namespace."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change causes beyond what happens without it; keys are `namespace/name` of workloads."""

    starts: tuple[str, ...] = ()
    evicts: tuple[str, ...] = ()
    held_up: tuple[str, ...] = ()
    """What would start without the change, and does not start with it."""
    whole: bool = True
    """False: the trial was cut short, there may be more."""

    def sentence(self, may_see: MaySee) -> str:
        """`starts 2 jobs of team-b, evicts nothing`."""
        least = "" if self.whole else "at least "
        parts = [f"starts {least}{_counted(self.starts, may_see)}", f"evicts {_counted(self.evicts, may_see)}"]
        if self.held_up:
            parts.append(f"holds up {_counted(self.held_up, may_see)} that would start now")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What would become of a job that is submitted now."""

    queue: str
    """Its ClusterQueue; "" where its LocalQueue does not exist."""
    starts: bool = False
    position: int = 0
    """Its place among those that wait in the ClusterQueue, from 1."""
    evicts: tuple[str, ...] = ()
    problem: str = ""
    """Why no queue could take it as it is."""
    whole: bool = True

    def sentence(self, may_see: MaySee) -> str:
        if not self.queue:
            return "It would wait: the queue it names does not exist in this namespace"
        if self.problem:
            return f"It could not be admitted: {self.problem}"
        if self.starts and self.evicts:
            return f"It would start in queue {self.queue} by preempting {_counted(self.evicts, may_see)}"
        if self.starts:
            return f"It would start now in queue {self.queue}"
        ahead = self.position - 1
        behind = f"behind {ahead} job{'s' * (ahead != 1)}" if ahead > 0 else "first in line"
        unsure = "" if self.whole else " (looked ahead for a moment only)"
        return f"It would wait {behind} in queue {self.queue}: too little quota is free{unsure}"


class Effects:
    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        parked_by: Callable[[str], str] = lambda _: "",
        read: Callable[[Any], Workload] | None = None,
    ) -> None:
        """`parked_by(key)`: why a workload that was evicted is not requeued, the reason of its condition `Requeued`.
        `read`: a Workload object as the engine takes it."""
        self._read = read
        self._engine = engine
        self._clock = clock
        self._parked_by = parked_by

    def of_cancel(self, key: str) -> Effect:
        return self._compared([Finished(key)], leaving=(key,))

    def of_priority(self, key: str, priority: int) -> Effect | None:
        """None: the engine does not know the workload."""
        item = self._engine.items.get(key)
        if item is None:
            return None
        return self._compared([replace(item.workload, priority=priority)])

    def of_submission(self, obj: Any) -> Prediction:
        """Of a Workload that is not stored (`kueue.submission`)."""
        assert self._read is not None
        workload = self._read(obj)
        local = self._engine.local_queues.get(workload.queue_key)
        if local is None or local.cluster_queue not in self._engine.forest.queues:
            return Prediction("")
        if workload.problem:
            return Prediction(local.cluster_queue, problem=workload.problem)
        now = round(self._clock.now() * 1000)
        _, evicts, whole = self._tried([], (), now) if self._engine.unsettled() else (set[str](), set[str](), True)
        then_starts, then_evicts, then_whole = self._tried([workload], (), now)
        return Prediction(
            local.cluster_queue,
            workload.key in then_starts,
            self._place_of(workload, local.cluster_queue),
            tuple(sorted(then_evicts - evicts - {workload.key})),
            whole=whole and then_whole,
        )

    def _place_of(self, workload: Workload, cluster_queue: str) -> int:
        with self._engine.what_if() as engine:
            engine.apply(workload)
            waiting = engine.forest.queues[cluster_queue].pending.ordered()
            return next((place for place, item in enumerate(waiting, 1) if item.key == workload.key), 0)

    def of_cluster_queue(self, name: str, policy: StopPolicy) -> Effect | None:
        """Of its stop policy; None: the engine does not know the queue."""
        queue = self._engine.forest.queues.get(name)
        if queue is None:
            return None
        drained = list(queue.running) if policy is StopPolicy.HOLD_AND_DRAIN else []
        returns: list[Change] = []
        if policy is StopPolicy.NONE:
            here = {key for key, local in self._engine.local_queues.items() if local.cluster_queue == name}
            returns = self._returning(QUEUE_STOPPED, here)
        return self._compared([replace(queue.spec, stop=policy), *returns], drained)

    def of_local_queue(self, namespace: str, name: str, policy: StopPolicy) -> Effect | None:
        local = self._engine.local_queues.get(f"{namespace}/{name}")
        if local is None:
            return None
        queue = self._engine.forest.queues.get(local.cluster_queue)
        drained: list[str] = []
        if policy is StopPolicy.HOLD_AND_DRAIN and queue is not None:
            drained = [key for key, item in queue.running.items() if item.workload.queue_key == local.key]
        returns = self._returning(LOCAL_QUEUE_STOPPED, {local.key}) if policy is StopPolicy.NONE else []
        return self._compared([replace(local, stop=policy), *returns], drained)

    def _returning(self, reason: str, queues: set[str]) -> list[Change]:
        """Those that a stopped queue evicted are requeued when it is resumed."""
        waiting = (item.workload for item in self._engine.items.values() if item.workload.parked and not item.reserved)
        return [
            replace(each, parked=False)
            for each in waiting
            if each.queue_key in queues and self._parked_by(each.key) == reason
        ]

    def _compared(self, changes: list[Change], drained: Iterable[str] = (), leaving: tuple[str, ...] = ()) -> Effect:
        now = round(self._clock.now() * 1000)
        starts, evicts, whole = self._tried([], (), now) if self._engine.unsettled() else (set[str](), set[str](), True)
        drained = list(drained)
        then_starts, then_evicts, then_whole = self._tried(changes, drained, now)
        return Effect(
            tuple(sorted(then_starts - starts)),
            tuple(sorted({*drained, *(then_evicts - evicts)} - {*leaving})),
            tuple(sorted(starts - then_starts - {*leaving})),
            whole and then_whole,
        )

    def _tried(self, changes: list[Change], drained: Iterable[str], now: Millis) -> tuple[set[str], set[str], bool]:
        """What starts and what is evicted, and whether the engine settled. Evicted workloads release their quota."""
        starts, evicts = set[str](), set[str]()
        with self._engine.what_if() as engine:
            engine.apply(*changes)
            for key in drained:
                engine.apply(Evicted(key, "Stopped"), Released(key))
            end = self._clock.monotonic() + _SECONDS
            for _ in range(_CYCLES):
                plan = engine.cycle(now)
                starts |= {each.key for each in plan.admissions}
                victims = {each.key for each in plan.preemptions}
                evicts |= victims
                for key in sorted(victims):
                    engine.apply(Released(key))
                if not victims and not engine.unsettled():
                    return starts - evicts, evicts, True
                if self._clock.monotonic() > end:
                    break
        return starts - evicts, evicts, False


def _counted(keys: tuple[str, ...], may_see: MaySee) -> str:
    if not keys:
        return "nothing"
    number = f"{len(keys)} job" if len(keys) == 1 else f"{len(keys)} jobs"
    by_namespace = Counter(key.partition("/")[0] for key in keys)
    seen = sorted(each for each in by_namespace if may_see(each))
    if not seen:
        return number
    names = ", ".join(seen[:_NAMED])
    others = len(by_namespace) - min(len(seen), _NAMED)
    return f"{number} of {names}" + (" and other namespaces" if others else "")
