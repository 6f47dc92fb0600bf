"""The admission engine: changes in, plans out.

Time comes in as a number. A cycle looks only at trees in which something changed. The state is `World`'s, the decisions
are `cycle`'s; here they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from gpuaas.engine.changes import Change, Finished
from gpuaas.engine.checks import validate
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.cycle import Cycle, Refusal
from gpuaas.engine.entries import Requeue
from gpuaas.engine.explain import Explanation, explain
from gpuaas.engine.items import Item
from gpuaas.engine.nominate import CycleContext
from gpuaas.engine.plan import Plan
from gpuaas.engine.preempt_fair import STRATEGIES
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.reasons import Token
from gpuaas.engine.topology_assign import place_reserved
from gpuaas.engine.usage_share import Ledger
from gpuaas.engine.values import Millis, PodSet
from gpuaas.engine.whatif import Checkpoint
from gpuaas.engine.world import World, natural


class Engine(World):
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        usage = self.config.usage_sharing
        super().__init__(None if usage is None else Ledger(usage))
        self._trials: list[Checkpoint] = []
        self._grounds = self._new_grounds()

    def configure(self, config: Config) -> None:
        """It is set like this from now on; everything that waits is looked at again. Not within a trial."""
        assert not self._trials
        self.config = config
        usage = config.usage_sharing
        if usage is None:
            self.ledger = None
        elif self.ledger is None:
            self.ledger = Ledger(usage)
        else:
            self.ledger.configure(usage)
        self._grounds = self._new_grounds()
        for queue in self.forest.queues.values():
            self._line_up(queue)
        self._outdate(None)

    def _new_grounds(self) -> CycleContext:
        names = self.config.fair_sharing
        self.places.balanced = self.config.balanced
        return CycleContext(
            self.forest.frs,
            self.flavors,
            self.places,
            None if names is None else tuple(STRATEGIES[name] for name in names or BOTH_STRATEGIES),
            self.config.ignore_undeclared,
            None if self.config.usage_sharing is None else self.local_usage,
            self.items,
            self.config.preemptors_first,
            self.config.looks_again,
        )

    def apply(self, *changes: Change) -> None:
        for change in changes:
            if self._trials:
                self._trials[-1].before(change)
            self._apply(change)

    def cycle(self, now: Millis, heads: int | None = None) -> Plan:
        """Look once at every tree in which something changed, and take what is decided as done.

        About so many `heads` are enough, if that is said: trees not looked at then are for the next cycle. Only where
        trees do not depend on each other.
        """
        self._now = now
        self.cycles += 1
        self.refresh()
        self._end_backoffs(now)
        cycle = Cycle(self.cycles, now, self._grounds, self._refusal, self._blocked)
        trees, left = self.forest.dirty(), 0
        if heads is not None and not self.places.topologies and not self.config.block_admission:
            trees, left = _longest_ago(trees, heads)
        if self._trials:
            self._trials[-1].before_cycle(trees)
        plan = cycle.run(trees)
        plan.left = left
        for tree in trees:
            tree.dirty = tree in cycle.touched
        if self.ledger is not None:
            self._charge(plan)
        for admitted in plan.admissions:
            if admitted.replaces:
                self.apply(Finished(admitted.replaces))
        return plan

    @contextmanager
    def what_if(self) -> Iterator[Engine]:
        """The engine itself, to try changes and cycles on; afterwards everything is as before."""
        trial = Checkpoint(self)
        self._trials.append(trial)
        try:
            yield self
        finally:
            self._trials.pop()
            trial.roll_back()

    def explain(self, key: str, now: Millis) -> Explanation | None:
        """Why a workload runs or waits, and what would admit it now; None if it is unknown."""
        self.refresh()
        item = self.items.get(key)
        return None if item is None else explain(item, self, self._grounds, now)

    def left(self, cluster_queue: str) -> dict[tuple[str, str], int] | None:
        """The quota a ClusterQueue could use now without evicting anything, its own and borrowed, by flavor and
        resource; None for one that is not known or admits nothing."""
        self.refresh()
        queue = self.forest.queues.get(cluster_queue)
        if queue is None or queue.inactive is not None:
            return None
        self.forest.settle(queue)
        frs = self.forest.frs
        return {frs.pair(fr): max(0, queue.available(fr)) for fr in queue.quotas}

    def place(self, key: str, pod_sets: Iterable[PodSet] = (), failed: str = "") -> tuple[str, str]:
        """Choose the places a workload still waits for, now that its checks are ready, or others for a failed node's.

        `pod_sets` are those its checks changed. Gives the pod set that has none and why, or two times nothing.
        """
        self.refresh()
        item = self.items[key]
        assert item.queue is not None
        if self._trials:
            self._trials[-1].keep(key)
        sets = {each.name: each for each in (*item.workload.pod_sets, *pod_sets)}
        return place_reserved(item, item.queue, self.places, sets, failed)

    def refusal(self, item: Item) -> Refusal | None:
        """Why a workload would not even be nominated, if it were its turn."""
        return None if item.queue is None else self._refusal(item, item.queue)

    def has_heads(self) -> bool:
        """Whether some active queue has a workload that is not parked."""
        self.refresh()
        return any(q.inactive is None and q.pending.peek() for tree in self.forest.trees() for q in tree.ready.values())

    def unsettled(self) -> bool:
        """Whether another cycle could decide anything: something changed since the last look."""
        self.refresh()
        return self.forest.unsettled()

    def _refusal(self, item: Item, queue: Queue) -> Refusal | None:
        """Why a head is not nominated at all."""
        if item.workload.failed_checks:
            return Token.CHECKS_FAILED, "The workload has failed admission checks", Requeue.GENERIC
        if queue.spec.namespaces != () and not self._selected(item, queue):
            words = "workload namespace doesn't match ClusterQueue selector"
            return Token.NAMESPACE_MISMATCH, words, Requeue.NAMESPACE_MISMATCH
        if item.workload.problem:
            return Token.MISCONFIGURED, item.workload.problem, Requeue.GENERIC
        return None

    def _blocked(self, item: Item) -> bool:
        """Whether admitting has to wait for the pods of those admitted before. Admitting it makes the next wait."""
        if not self.config.block_admission:
            return False
        if self.not_ready:
            return True
        self.not_ready.add(item.key)
        return False

    def _charge(self, plan: Plan) -> None:
        """Admission fair sharing: who got quota pays at once; without checks to wait for it counts as used."""
        ledger = self.ledger
        assert ledger is not None
        for admitted in plan.admissions:
            queue = self.forest.queues[admitted.cluster_queue]
            if not queue.spec.usage_based:
                continue
            item = self.items[admitted.key]
            key = item.workload.queue_key
            requests: dict[str, float] = {}
            for pod_set in item.workload.pod_sets:
                for resource, amount in pod_set.requests:
                    if resource in queue.group_of or not self.config.ignore_undeclared:
                        total = natural(resource, amount * pod_set.count)
                        requests[resource] = requests.get(resource, 0.0) + total
            ledger.penalize(key, item.key, requests)
            if not queue.spec.checks:
                ledger.fold(key, item.key, partial(self.running_in, key), self._now)

    def sample_usage(self, now: Millis) -> None:
        """Admission fair sharing: let time pass over what the LocalQueues have used, where a sample is due."""
        if self.ledger is None:
            return
        for key in self.local_queues:
            if self.ledger.due(key, now):
                self.ledger.sample(key, self.running_in(key), now)
        for tree in self.forest.trees():
            tree.dirty = tree.dirty or any(q.spec.usage_based for q in tree.queues)

    def validate(self) -> None:
        """Re-check every invariant from scratch; raises `checks.Broken`."""
        self.refresh()
        validate(self)


def _longest_ago(trees: list[Tree], heads: int) -> tuple[list[Tree], int]:
    """Those that have waited longest for a look, until there are heads enough; and how many are left."""
    if sum(len(tree.ready) for tree in trees) <= heads:
        return trees, 0
    number = found = 0
    trees = sorted(trees, key=lambda tree: tree.evaluated)
    while number < len(trees) and found < heads:
        found += len(trees[number].ready)
        number += 1
    return trees[:number], len(trees) - number
