"""The admission engine: changes in, plans out.

Holds all state (the quota tree, what waits, what runs, who exists) and keeps it in step with what it is told; decides
nothing itself: `cycle` does. Time comes in as a number. Each change wakes only the trees it can matter to, and a
cycle looks only at those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuaas.engine.changes import Change, Evicted, Finished, Gone, Released, Reserved
from gpuaas.engine.constraints import term_holds
from gpuaas.engine.cycle import Cycle, Refusal
from gpuaas.engine.entries import Requeue
from gpuaas.engine.forest import Forest
from gpuaas.engine.items import Item, Shapes
from gpuaas.engine.nominate import Grounds
from gpuaas.engine.plan import Plan
from gpuaas.engine.preempt_fair import STRATEGIES
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.reasons import Token
from gpuaas.engine.topology import Places
from gpuaas.engine.topology_values import Node, Topology
from gpuaas.engine.tree import Usage
from gpuaas.engine.values import (
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Millis,
    Namespace,
    PodSetAdmission,
    StopPolicy,
    Workload,
)


@dataclass(frozen=True, slots=True)
class Config:
    """How the engine is set; the defaults are upstream's."""

    fair_sharing: tuple[str, ...] | None = None
    """Names of the preemption strategies, in order; None: by priority and place only."""
    ignore_undeclared: bool = False
    """Resources a queue has no quota for are not looked at."""


BOTH_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


class Engine:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.items: dict[str, Item] = {}
        self.local_queues: dict[str, LocalQueue] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.flavors: dict[str, Flavor] = {}
        self.places = Places(self.flavors)
        self.forest = Forest(self.flavors, self.places)
        self.cycles = 0
        self._now: Millis = 0
        self._shapes = Shapes()
        names = self.config.fair_sharing
        self._grounds = Grounds(
            self.forest.frs,
            self.flavors,
            self.places,
            None if names is None else tuple(STRATEGIES[name] for name in names or BOTH_STRATEGIES),
            self.config.ignore_undeclared,
        )

    def apply(self, *changes: Change) -> None:
        for change in changes:
            self._apply(change)

    def cycle(self, now: Millis) -> Plan:
        """Look once at every tree in which something changed, and take what is decided as done."""
        self._now = now
        self.cycles += 1
        cycle = Cycle(self.cycles, now, self._grounds, self._refusal)
        trees = [tree for tree in self.forest.dirty() if not tree.cyclic]
        plan = cycle.run(trees)
        for tree in trees:
            tree.dirty = tree in cycle.touched
        return plan

    def has_heads(self) -> bool:
        """Whether some active queue has a workload that is not parked."""
        return any(q.inactive is None and q.pending.peek() for tree in self.forest.trees() for q in tree.ready.values())

    def unsettled(self) -> bool:
        """Whether another cycle could decide anything: something changed since the last look."""
        return any(tree.dirty and tree.ready for tree in self.forest.trees() if not tree.cyclic)

    def pending(self) -> Iterator[Item]:
        return (item for item in self.items.values() if not item.reserved)

    def running(self) -> Iterator[Item]:
        return (item for item in self.items.values() if item.reserved)

    def _apply(self, change: Change) -> None:
        match change:
            case Workload():
                self._submit(change)
            case Finished(key, wakes):
                self._finish(key, wakes)
            case Released():
                self._release(change)
            case Evicted(key, reason):
                self._evict(key, reason)
            case Reserved():
                self._reserve(change)
            case Namespace(name, labels):
                self.namespaces[name] = dict(labels)
                self._flush_all()
            case Flavor():
                self.flavors[change.name] = change
                self.places.flavors_changed()
                self.forest.flavors_changed()
                self._flush_all()
            case ClusterQueue():
                self._set_cluster_queue(change)
            case Cohort():
                self.forest.set_cohort(change)
                self._flush_all()
            case LocalQueue():
                self._set_local_queue(change)
            case Topology() | Node():
                self.places.learn(change)
                self.forest.flavors_changed()
                self._flush_all()
            case Gone(kind, name):
                self._gone(kind, name)

    def _submit(self, workload: Workload) -> None:
        """A workload waits, or one that is known says something new."""
        item = self.items.get(workload.key)
        shape = self._shapes.of(workload)
        if item is None:
            item = self.items[workload.key] = Item(workload, shape, self._queue_for(workload))
        elif item.reserved:
            item.describe(workload, shape)
            if item.queue is not None and item.admission is not None:
                item.queue.rerank(item)
                self.forest.wake(item.queue)
            return
        else:
            self._unqueue(item)
            if item.shape is not shape:
                item.last = None
            item.describe(workload, shape)
            item.queue = self._queue_for(workload)
        self._enqueue(item)

    def _enqueue(self, item: Item) -> None:
        queue = item.queue
        if queue is None:
            return
        tree = self.forest.wake(queue)
        if not self._backoff_over(item):
            queue.pending.hold(item)
            tree.waiting[queue.name] = queue
            return
        queue.pending.push(item)
        tree.ready[queue.name] = queue
        if item.shape in queue.pending.parked:
            tree.waiting[queue.name] = queue

    def _unqueue(self, item: Item) -> None:
        if item.queue is not None:
            item.queue.pending.remove(item)

    def _queue_for(self, workload: Workload) -> Queue | None:
        """The ClusterQueue behind its LocalQueue; None while there is none or it is stopped."""
        local = self.local_queues.get(workload.queue_key)
        if local is None or local.stop is not StopPolicy.NONE:
            return None
        return self.forest.queues.get(local.cluster_queue)

    def _backoff_over(self, item: Item) -> bool:
        workload = item.workload
        return not workload.parked and (workload.requeue_at is None or workload.requeue_at <= self._now)

    def _may_return(self, item: Item) -> bool:
        return self._backoff_over(item) and item.queue is not None and self._selected(item, item.queue)

    def _selected(self, item: Item, queue: Queue) -> bool:
        wanted = queue.spec.namespaces
        labels = self.namespaces.get(item.workload.namespace)
        return wanted is not None and labels is not None and term_holds(wanted, labels)

    def _refusal(self, item: Item, queue: Queue) -> Refusal | None:
        """Why a head is not nominated at all."""
        if item.workload.failed_checks:
            return Token.CHECKS_FAILED, "The workload has failed admission checks", Requeue.GENERIC
        if queue.spec.namespaces != () and not self._selected(item, queue):
            words = "workload namespace doesn't match ClusterQueue selector"
            return Token.NAMESPACE_MISMATCH, words, Requeue.NAMESPACE_MISMATCH
        for pod_set in item.workload.pod_sets:
            if pod_set.problem:
                return Token.MISCONFIGURED, pod_set.problem, Requeue.GENERIC
        return None

    def _finish(self, key: str, wakes: bool) -> None:
        item = self.items.pop(key, None)
        if item is None:
            return
        if item.reserved:
            self._give_back(item)
        else:
            self._unqueue(item)
        if item.queue is not None and wakes:
            self._flush(item.queue)
        elif item.queue is not None:
            self.forest.wake(item.queue)

    def _release(self, change: Released) -> None:
        item = self.items[change.key]
        if item.reserved:
            self._give_back(item)
            if item.queue is not None:
                self._flush(item.queue)
        item.admission = None
        item.usage = {}
        item.placed = ()
        item.evicted = ""
        item.reserved_at = None
        item.last = None
        workload = change.workload or item.workload
        item.describe(workload, self._shapes.of(workload))
        item.queue = self._queue_for(workload)
        self._enqueue(item)

    def _give_back(self, item: Item) -> None:
        self.places.remove(item.placed)
        if item.queue is not None:
            item.queue.release(item)

    def _evict(self, key: str, reason: str) -> None:
        item = self.items[key]
        if item.reserved and not item.evicted and item.queue is not None:
            item.queue.mark_evicted(item, reason)
            self.forest.wake(item.queue)

    def _reserve(self, change: Reserved) -> None:
        item = self.items.get(change.workload.key)
        if item is not None:
            if item.reserved:
                self._give_back(item)
            else:
                self._unqueue(item)
        item = Item(change.workload, self._shapes.of(change.workload), self.forest.queues.get(change.cluster_queue))
        self.items[item.key] = item
        item.admission = change.pod_sets
        item.reserved_at = change.at
        item.evicted = change.evicted
        item.usage = self._usage_of(change.pod_sets)
        item.placed = self.places.placed(change.workload, change.pod_sets)
        self.places.add(item.placed)
        if item.queue is not None:
            self.forest.settle(item.queue)
            item.queue.admit(item)
            self.forest.wake(item.queue)

    def _usage_of(self, pod_sets: tuple[PodSetAdmission, ...]) -> Usage:
        usage: Usage = {}
        for pod_set in pod_sets:
            flavors = dict(pod_set.flavors)
            for resource, amount in pod_set.usage:
                if resource in flavors:
                    fr = self.forest.frs.number(flavors[resource], resource)
                    usage[fr] = usage.get(fr, 0) + amount
        return usage

    def _set_cluster_queue(self, spec: ClusterQueue) -> None:
        fresh = spec.name not in self.forest.queues
        queue = self.forest.set_queue(spec)
        if fresh:
            for item in self.items.values():
                self._adopt(item, queue)
        self._flush_all()

    def _adopt(self, item: Item, queue: Queue) -> None:
        """A queue came to be: take what was waiting for it, or already held quota in it."""
        if item.queue is None and not item.reserved and self._queue_for(item.workload) is queue:
            item.queue = queue
            self._enqueue(item)

    def _set_local_queue(self, local: LocalQueue) -> None:
        self.local_queues[local.key] = local
        for item in self.items.values():
            if not item.reserved and item.workload.queue_key == local.key:
                wanted = self._queue_for(item.workload)
                if wanted is not item.queue:
                    self._unqueue(item)
                    item.queue = wanted
                    self._enqueue(item)

    def _gone(self, kind: str, name: str) -> None:
        match kind:
            case "LocalQueue":
                self.local_queues.pop(name, None)
                for item in self.items.values():
                    if not item.reserved and item.workload.queue_key == name:
                        self._unqueue(item)
                        item.queue = None
            case "Flavor":
                self.flavors.pop(name, None)
                self.places.flavors_changed()
                self.forest.flavors_changed()
            case "Cohort":
                self.forest.remove_cohort(name)
            case "ClusterQueue":
                queue = self.forest.queues.get(name)
                self.forest.remove_queue(name)
                for item in self.items.values():
                    if item.queue is queue:
                        item.queue = None
            case "Namespace":
                self.namespaces.pop(name, None)
            case _:
                self.places.forget(kind, name)
                self.forest.flavors_changed()
        self._flush_all()

    def _flush(self, queue: Queue) -> None:
        """Quota may have become free: everything inadmissible in the queue's tree is worth another look."""
        self._flush_tree(self.forest.wake(queue))

    def _flush_all(self) -> None:
        for tree in self.forest.trees():
            tree.dirty = True
            self._flush_tree(tree)

    def _flush_tree(self, tree: Tree) -> None:
        for queue in list(tree.waiting.values()):
            if queue.pending.flush(self._may_return):
                tree.ready[queue.name] = queue
            if not queue.pending.unflushed():
                del tree.waiting[queue.name]
