"""The engine's world: queues, pending and running workloads; each change applied to the engine updates it.

Takes changes and wakes what each can matter to: a workload's own tree for workloads, the trees of the queues concerned
for quotas, flavors and namespaces, all of them where places may have come free. Decides nothing (`cycle` does).
Invariants are `checks`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from gpuaas.engine.changes import Admitted, Change, Evicted, Finished, Gone, OtherUsage, PodsReady, Released, Reserved
from gpuaas.engine.constraints import term_holds
from gpuaas.engine.forest import Forest
from gpuaas.engine.items import Item, Shapes
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.topology import Places
from gpuaas.engine.topology_values import Node, Topology
from gpuaas.engine.tree import Usage
from gpuaas.engine.usage_share import Amounts, Ledger
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

Clock = tuple[int, Millis, tuple[tuple[Millis, str], ...], frozenset[str], bool, frozenset[str] | None]


class World:
    def __init__(self, ledger: Ledger | None) -> None:
        self.items: dict[str, Item] = {}
        self.local_queues: dict[str, LocalQueue] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.flavors: dict[str, Flavor] = {}
        self.places = Places(self.flavors)
        self.forest = Forest(self.flavors, self.places)
        self.ledger = ledger
        self.cycles = 0
        self.not_ready: set[str] = set()
        """Admitted workloads whose pods are not all ready, by the last change applied."""
        self._now: Millis = 0
        self._shapes = Shapes()
        self._outdated = False
        self._news: frozenset[str] | None = frozenset()
        """The queues and cohorts whose trees are worth another look once all is up to date; None: all of them."""
        self._timers: list[tuple[Millis, str]] = []
        """When back-offs end."""

    def pending(self) -> Iterator[Item]:
        return (item for item in self.items.values() if not item.reserved)

    def running(self) -> Iterator[Item]:
        return (item for item in self.items.values() if item.reserved)

    def next_wakeup(self) -> Millis | None:
        """When something changes by itself: the end of the next back-off."""
        while self._timers and not self._waits_until(*self._timers[0]):
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def clock(self) -> Clock:
        not_ready = frozenset(self.not_ready)
        return self.cycles, self._now, tuple(self._timers), not_ready, self._outdated, self._news

    def set_clock(self, clock: Clock) -> None:
        self.cycles, self._now, timers, not_ready, self._outdated, self._news = clock
        self._timers, self.not_ready = list(timers), set(not_ready)

    def local_usage(self, key: str) -> float:
        """Admission fair sharing: what the LocalQueue has used lately."""
        return 0.0 if self.ledger is None else self.ledger.usage(self.local_queues.get(key), key)

    def running_in(self, key: str) -> Amounts:
        """What runs for a LocalQueue, in natural units, of every resource its ClusterQueue has."""
        local = self.local_queues.get(key)
        queue = None if local is None else self.forest.queues.get(local.cluster_queue)
        total: Amounts = {} if queue is None else dict.fromkeys(queue.group_of, 0.0)
        for item in queue.running.values() if queue is not None else ():
            if item.workload.queue_key == key:
                for fr, amount in item.usage.items():
                    resource = self.forest.frs.resource[fr]
                    total[resource] = total.get(resource, 0.0) + natural(resource, amount)
        return total

    def _apply(self, change: Change) -> None:
        match change:
            case Workload():
                self._submit(change)
            case Finished(key, wakes):
                self._finish(key, wakes)
            case Released():
                self._release(change)
            case Admitted(key, at):
                self._admit(key, at)
            case Evicted(key, reason):
                self._evict(key, reason)
            case PodsReady(key, ready):
                self._pods_ready(key, ready)
            case Reserved():
                self._reserve(change)
            case Namespace(name, labels):
                self._set_namespace(name, dict(labels))
            case Flavor():
                self._set_flavor(change)
            case ClusterQueue():
                self._set_cluster_queue(change)
            case Cohort():
                self._set_cohort(change)
            case LocalQueue():
                self._set_local_queue(change)
            case Topology():
                self.places.learn(change)
                self._outdate(self._queues_with(f for f in self.flavors.values() if f.topology == change.name))
            case Node():
                self._set_node(change)
            case OtherUsage(node, amounts, wakes):
                self.places.others_take(node, amounts)
                if wakes:
                    self._outdate(self._queues_with(self.places.flavors_at(node)))
            case Gone(kind, name):
                self._gone(kind, name)

    def _submit(self, workload: Workload) -> None:
        """A workload waits, or one that is known says something new."""
        item = self.items.get(workload.key)
        shape = self._shapes.of(workload)
        if item is None:
            item = self.items[workload.key] = Item(workload, shape, self._queue_for(workload))
        elif item.reserved:
            self._describe_running(item, workload)
            return
        else:
            self._unqueue(item)
            self._leave(item, workload)
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
            if item.workload.requeue_at is not None and item.workload.requeue_at > self._now:
                heappush(self._timers, (item.workload.requeue_at, item.key))
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

    def _waits_until(self, at: Millis, key: str) -> bool:
        item = self.items.get(key)
        return item is not None and item.held and item.workload.requeue_at == at

    def _end_backoffs(self, now: Millis) -> None:
        """Let in those whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            at, key = heappop(self._timers)
            if self._waits_until(at, key):
                item = self.items[key]
                self._unqueue(item)
                self._enqueue(item)

    def _may_return(self, item: Item) -> bool:
        return self._backoff_over(item) and item.queue is not None and self._selected(item, item.queue)

    def _selected(self, item: Item, queue: Queue) -> bool:
        wanted = queue.spec.namespaces
        labels = self.namespaces.get(item.workload.namespace)
        return wanted is not None and labels is not None and term_holds(wanted, labels)

    def _finish(self, key: str, wakes: bool) -> None:
        item = self.items.pop(key, None)
        if item is None:
            return
        self._forget_running(item)
        if item.reserved:
            self._give_back(item)
        else:
            self._unqueue(item)
        if item.queue is not None and wakes:
            self._flush(item.queue)
        elif item.queue is not None:
            self.forest.wake(item.queue)

    def _release(self, change: Released) -> None:
        item = self.items.get(change.key)
        if item is None:
            return
        if item.reserved:
            self.not_ready.discard(item.key)  # what it paid stays paid: it queues again
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
        self._leave(item, workload)
        item.describe(workload, self._shapes.of(workload))
        item.queue = self._queue_for(workload)
        self._enqueue(item)

    def _leave(self, item: Item, workload: Workload) -> None:
        """Who goes to another LocalQueue leaves nothing to pay behind."""
        if self.ledger is not None and workload.queue_key != item.workload.queue_key:
            self.ledger.forgive(item.workload.queue_key, item.key)

    def _admit(self, key: str, at: Millis) -> None:
        """Admission fair sharing: what it paid when it got quota counts as used from now on."""
        item = self.items.get(key)
        if self.ledger is not None and item is not None and item.reserved:
            queue_key = item.workload.queue_key
            self.ledger.fold(queue_key, key, lambda: self.running_in(queue_key), at)

    def _forget_running(self, item: Item) -> None:
        self.not_ready.discard(item.key)
        if self.ledger is not None:
            self.ledger.forgive(item.workload.queue_key, item.key)

    def _pods_ready(self, key: str, ready: bool) -> None:
        if ready == (key not in self.not_ready):
            return
        if ready:
            self.not_ready.discard(key)
        elif key in self.items:
            self.not_ready.add(key)
        for tree in self.forest.trees():
            tree.dirty = True

    def _give_back(self, item: Item) -> None:
        if item.placed:
            self.places.remove(item.placed)
            self.forest.wake_heads()
        if item.queue is not None:
            item.queue.release(item)

    def _evict(self, key: str, reason: str) -> None:
        item = self.items.get(key)
        if item is not None and item.reserved and not item.evicted and item.queue is not None:
            item.queue.mark_evicted(item, reason)
            self.forest.wake(item.queue)

    def _reserve(self, change: Reserved) -> None:
        usage = self._usage_of(change.pod_sets)
        placed = self.places.placed(change.workload, change.pod_sets)
        item = self.items.get(change.workload.key)
        holds = (change.cluster_queue, placed, usage)
        if item is not None and item.reserved and (item.home, item.placed, item.usage) == holds:
            self._confirm(item, change)
            return
        less = item is not None and item.reserved and sum(usage.values()) < sum(item.usage.values())
        if item is not None:
            self._give_back(item) if item.reserved else self._unqueue(item)
        item = Item(change.workload, self._shapes.of(change.workload), self.forest.queues.get(change.cluster_queue))
        self.items[item.key] = item
        item.admission = change.pod_sets
        item.home = change.cluster_queue
        item.reserved_at = change.at
        item.evicted = change.evicted
        item.usage = usage
        item.placed = placed
        self.places.add(placed)
        if item.queue is not None:
            self.forest.wake(item.queue)
            item.queue.admit(item)
            if less:
                self._flush(item.queue)

    def _confirm(self, item: Item, change: Reserved) -> None:
        """The reservation is as the engine has it; the workload's own words may be new."""
        item.admission, item.reserved_at = change.pod_sets, change.at
        self._describe_running(item, change.workload, change.evicted)

    def _describe_running(self, item: Item, workload: Workload, evicted: str | None = None) -> None:
        queue, priority = item.queue, item.workload.priority
        if queue is not None:
            queue.forget(item)
        item.describe(workload, self._shapes.of(workload))
        if evicted is not None:
            item.evicted = evicted
        if queue is None:
            return
        queue.rank(item)
        if workload.priority != priority:
            self._flush(queue)  # who found no victim may find one now
        else:
            self.forest.wake(queue)

    def _usage_of(self, pod_sets: tuple[PodSetAdmission, ...]) -> Usage:
        usage: Usage = {}
        for pod_set in pod_sets:
            flavors = dict(pod_set.flavors)
            for resource, amount in pod_set.usage:
                if resource in flavors:
                    fr = self.forest.frs.number(flavors[resource], resource)
                    usage[fr] = usage.get(fr, 0) + amount
        return usage

    def _set_namespace(self, name: str, labels: dict[str, str]) -> None:
        """Who waits is worth another look where a queue selects the namespace only now."""
        before = self.namespaces.get(name)
        self.namespaces[name] = labels
        for queue in [] if labels == before else self.forest.queues.values():
            wanted = queue.spec.namespaces
            if wanted is None or not len(queue.pending) or not term_holds(wanted, labels):
                continue
            if before is None or not term_holds(wanted, before):
                self._flush(queue)

    def _set_flavor(self, flavor: Flavor) -> None:
        before = self.flavors.get(flavor.name, flavor)
        self.flavors[flavor.name] = flavor
        self.places.moved = True
        self._outdate(None if flavor.topology or before.topology else self._queues_with((flavor,)))

    def _set_node(self, node: Node) -> None:
        """Matters only where it has topology places: any workload may use the room it frees."""
        mattered = self.places.matters(node.name)
        self.places.learn(node)
        self._outdate(None if mattered or self.places.matters(node.name) else ())

    def _set_cohort(self, cohort: Cohort) -> None:
        before = self.forest.cohorts.get(cohort.name)
        if before is not None and before.parent != cohort.parent:
            self._outdate(self.forest.lenders(self.forest.cohort_node(cohort.name)))
        self.forest.set_cohort(cohort)
        self._outdate((cohort.name,))

    def _set_cluster_queue(self, spec: ClusterQueue) -> None:
        before = self.forest.queues.get(spec.name)
        fresh = before is None
        if before is not None and before.spec.cohort != spec.cohort:
            self._outdate(self.forest.lenders(before))
        queue = self.forest.set_queue(spec)
        self._line_up(queue)
        if fresh:
            for item in self.items.values():
                self._adopt(item, queue)
        self._outdate((spec.name,))

    def _line_up(self, queue: Queue) -> None:
        """By what its LocalQueues have used, where the queue asks for it and usage is recorded."""
        by_usage = queue.spec.usage_based and self.ledger is not None
        queue.pending.order_by(self.local_usage if by_usage else None)

    def _adopt(self, item: Item, queue: Queue) -> None:
        """A queue came to be: take what was waiting for it, or already held quota in it."""
        if item.queue is not None:
            return
        if item.reserved and item.home == queue.name:
            item.queue = queue
            self.forest.settle(queue)
            queue.admit(item)
        elif not item.reserved and self._queue_for(item.workload) is queue:
            item.queue = queue
            self._enqueue(item)

    def _set_local_queue(self, local: LocalQueue) -> None:
        self.local_queues[local.key] = local
        for item in self.items.values():
            if not item.reserved and item.workload.queue_key == local.key:
                wanted = self._queue_for(item.workload)
                if wanted is not item.queue:
                    self._move(item, wanted)

    def _gone(self, kind: str, name: str) -> None:
        match kind:
            case "LocalQueue":
                self.local_queues.pop(name, None)
                self._strand(item for item in self.items.values() if item.workload.queue_key == name)
            case "Flavor":
                flavor = self.flavors.pop(name, None)
                self.places.moved = True
                self._outdate(None if flavor is not None and flavor.topology else ())
            case "Cohort":
                self._outdate(self.forest.lenders(self.forest.cohort_node(name)))
                self.forest.remove_cohort(name)
            case "ClusterQueue":
                self._remove_queue(name)
            case "Namespace":
                self.namespaces.pop(name, None)
            case _:
                mattered = kind == "Node" and self.places.matters(name)
                self.places.forget(kind, name)
                self._outdate(None if mattered else ())

    def _remove_queue(self, name: str) -> None:
        queue = self.forest.queues.get(name)
        self._outdate(self.forest.lenders(queue))
        self._strand(item for item in self.items.values() if item.queue is queue)
        for item in queue.running.values() if queue is not None else ():
            item.queue = None
        self.forest.remove_queue(name)

    def _move(self, item: Item, queue: Queue | None) -> None:
        """A pending item waits elsewhere from now on; who stood behind it is next."""
        if item.queue is not None:
            self._unqueue(item)
            self.forest.wake(item.queue)
        item.queue = queue
        self._enqueue(item)

    def _strand(self, items: Iterable[Item]) -> None:
        """Pending items that have no queue any more."""
        for item in items:
            if not item.reserved:
                self._move(item, None)

    def _queues_with(self, flavors: Iterable[Flavor]) -> list[str]:
        names = {flavor.name for flavor in flavors}
        return [q.name for q in self.forest.queues.values() if any(names.intersection(g.flavors) for g in q.groups)]

    def _outdate(self, news_for: Iterable[str] | None) -> None:
        """What follows from quotas, flavors and nodes has to be worked out again, once, when it next matters; and who
        waits in the trees of these queues and cohorts is worth another look (None: everywhere)."""
        self._outdated = True
        self._news = None if news_for is None or self._news is None else self._news.union(news_for)

    def refresh(self) -> None:
        """Bring everything that follows from quotas, flavors and nodes up to date."""
        if self._outdated:
            self._outdated = False
            self.places.flavors_changed()
            self._count_places()
            opened = self.forest.flavors_changed()
            news, self._news = self._news, frozenset()
            for tree in self.forest.trees():
                if news is None or tree.has_any(news) or tree.has_any(opened):
                    tree.dirty = True
                    self._flush_tree(tree)

    def _count_places(self) -> None:
        """What is held counts at the places flavors have now: none while a flavor or its topology is missing."""
        if not self.places.moved:
            return
        self.places.moved = False
        for item in self.items.values():
            if item.admission is not None and any(given.domains is not None for given in item.admission):
                self.places.remove(item.placed)
                item.placed = self.places.placed(item.workload, item.admission)
                self.places.add(item.placed)

    def _flush(self, queue: Queue) -> None:
        """Quota may have become free: everything inadmissible in the queue's tree is worth another look."""
        self._flush_tree(self.forest.wake(queue))

    def _flush_tree(self, tree: Tree) -> None:
        for queue in list(tree.waiting.values()):
            if queue.pending.flush(self._may_return):
                tree.ready[queue.name] = queue
            if not queue.pending.unflushed():
                del tree.waiting[queue.name]


def natural(resource: str, amount: int) -> float:
    """Cores rather than milli-cores, as admission fair sharing counts."""
    return amount / 1000 if resource == "cpu" else float(amount)
