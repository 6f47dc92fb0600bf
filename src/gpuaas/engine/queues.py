"""A ClusterQueue at work: its place in the quota tree, what waits in it and what runs in it.

Owns the running items in the order in which they would be chosen as victims. Invariant: the queue's usage is the sum
of its running items' usage. The tree's arithmetic is `tree`'s, the order of waiting `pending`'s.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from gpuaas.engine.items import Item, Shape, VictimRank
from gpuaas.engine.pending import Pending
from gpuaas.engine.tree import CohortNode, FlavorResources, Node
from gpuaas.engine.values import ClusterQueue

if TYPE_CHECKING:
    from gpuaas.engine.shapes import ShapePlan

Victim = tuple[VictimRank, Item]


class CompiledGroup:
    """A resource group: its flavors in order, and the number of each (flavor, resource)."""

    __slots__ = ("flavors", "frs", "resources")

    def __init__(self, resources: tuple[str, ...], flavors: tuple[str, ...], frs: tuple[dict[str, int], ...]) -> None:
        self.resources = resources
        self.flavors = flavors
        self.frs = frs


class Queue(Node):
    __slots__ = (
        "_ranked", "_unranked", "generation", "group_of", "groups", "inactive", "leaving", "pending", "plans", "running",
        "spec", "tree",
    )  # fmt: skip

    def __init__(self, spec: ClusterQueue, frs: FlavorResources) -> None:
        super().__init__(spec.name)
        self.pending = Pending(spec.strict)
        self.running: dict[str, Item] = {}
        self._ranked: list[Victim] = []
        self._unranked: dict[str, Item] = {}
        """Running items that were not considered as preemption candidates yet."""
        self.leaving: list[Victim] = []
        """Running items that are being evicted."""
        self.generation = 0
        """Grows when quota may have become free, and, as upstream, with each admission; flavor scans remember it."""
        self.inactive: tuple[str, str] | None = ("Unknown", "Can't admit new workloads.")
        """Why the queue admits nothing: upstream's reason and words."""
        self.plans: dict[Shape, ShapePlan] = {}
        self.tree: Tree | None = None
        self.describe(spec, frs)

    def describe(self, spec: ClusterQueue, frs: FlavorResources) -> None:
        self.spec = spec
        self.weight = spec.weight
        self.pending.strict = spec.strict
        self.set_quotas(spec.groups, frs)
        self.groups = tuple(
            CompiledGroup(
                group.resources,
                tuple(f.flavor for f in group.flavors),
                tuple({resource: frs.number(f.flavor, resource) for resource, _ in f.quotas} for f in group.flavors),
            )
            for group in spec.groups
        )
        self.group_of = {resource: group for group in reversed(self.groups) for resource in group.resources}
        self.plans = {}

    def admit(self, item: Item) -> None:
        """The item holds its usage from now on."""
        for fr, amount in item.usage.items():
            self.add(fr, amount)
        self.running[item.key] = item
        self.rank(item)
        self.generation += 1

    def release(self, item: Item) -> None:
        self.forget(item)
        del self.running[item.key]
        self.remove_all(item.usage)
        self.generation += 1

    def mark_evicted(self, item: Item, reason: str) -> None:
        self.forget(item)
        item.evicted = reason
        self.rank(item)

    def rank(self, item: Item) -> None:
        """Put a running item among the victims, in its place."""
        if item.evicted:
            insort(self.leaving, (_victim_rank(item), item))
        else:
            self._unranked[item.key] = item

    def forget(self, item: Item) -> None:
        """Take a running item out of the victims; to be done before anything that its place depends on changes."""
        if self._unranked.pop(item.key, None) is not None:
            return
        ranked = self.leaving if item.evicted else self._ranked
        assert item.victim_rank is not None
        del ranked[bisect_left(ranked, (item.victim_rank,))]

    def victims(self) -> list[Victim]:
        """Running items that are not leaving yet, as they would be taken: lowest priority, most recently reserved."""
        fresh = self._unranked
        if fresh:
            ranked = self._ranked
            if len(fresh) > 8:
                ranked += [(_victim_rank(item), item) for item in fresh.values()]
                ranked.sort()
            else:
                for item in fresh.values():
                    insort(ranked, (_victim_rank(item), item))
            fresh.clear()
        return self._ranked

    def memento(self) -> tuple[object, ...]:
        """What changes in place; what follows from quotas is the keeper's business (`whatif`)."""
        return (
            self.spec, self.groups, self.group_of, self.plans, self.tree, self.inactive, self.generation,
            dict(self.usage), dict(self.running), list(self._ranked), dict(self._unranked), list(self.leaving),
            self.pending.memento(),
        )  # fmt: skip

    def restore(self, memento: tuple[object, ...]) -> None:
        self.spec, self.groups, self.group_of, self.plans, self.tree, self.inactive, self.generation = memento[:7]  # type: ignore[assignment]
        self.usage, self.running, self._ranked, self._unranked, self.leaving, pending = memento[7:]  # type: ignore[assignment]
        self.pending.restore(pending)  # type: ignore[arg-type]


def _victim_rank(item: Item) -> VictimRank:
    assert item.reserved_at is not None
    item.victim_rank = (item.priority, -item.reserved_at, item.workload.uid, item.key)
    return item.victim_rank


class Tree:
    """A root and everything under it: what one decision can touch, and what has to be looked at again together."""

    __slots__ = ("_changed", "cohorts", "cyclic", "evaluated", "queues", "ready", "root", "stale", "waiting")

    def __init__(
        self, root: Node, cohorts: list[CohortNode], queues: list[Queue], cyclic: bool, changed: dict[Tree, None]
    ) -> None:
        self._changed = changed
        self.root = root
        self.cohorts = cohorts
        self.queues = queues
        self.cyclic = cyclic
        """Its cohorts name each other in a circle: nothing in it can be admitted."""
        self.stale = True
        """Quotas or shape changed: subtree quotas have to be recomputed."""
        self.evaluated = 0
        """The cycle in which it was last looked at."""
        self.ready: dict[str, Queue] = {q.name: q for q in queues}
        """Queues that may have a head."""
        self.waiting: dict[str, Queue] = {q.name: q for q in queues}
        """Queues in which a flush may wake something."""
        self.dirty = True

    @property
    def dirty(self) -> bool:
        """Whether something changed since it was last looked at without effect."""
        return self in self._changed

    @dirty.setter
    def dirty(self, dirty: bool) -> None:
        if dirty:
            self._changed[self] = None
        else:
            self._changed.pop(self, None)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether a queue or cohort of these names is part of it."""
        return bool(names) and any(node.name in names for node in (*self.queues, *self.cohorts))
