"""What if: try changes on the engine itself, read the plans, and put everything back exactly as it was.

A checkpoint copies a tree the first time something in it is about to change, so that a trial costs what it touches. The
engine announces each change before making it (`before`, `before_cycle`); rolling back restores the very same objects.
`checks.fingerprint` is how tests prove that nothing is left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuaas.engine.changes import Change, Evicted, Finished, PodsReady, Released, Reserved
from gpuaas.engine.items import Item
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.tree import CohortNode, Node
from gpuaas.engine.values import Workload

if TYPE_CHECKING:
    from gpuaas.engine.engine import Engine

K = TypeVar("K")
V = TypeVar("V")
_NODE_FIELDS = (
    "parent",
    "path",
    "quotas",
    "subtree",
    "local",
    "borrow_cap",
    "potential",
    "weight",
    "height",
    "plain",
    "lendable",
)


class Checkpoint:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._trees: dict[Tree, _TreeMemento] = {}
        self._items: dict[str, Item | None] = {}
        self._loose: dict[str, tuple[Item, tuple[object, ...]]] = {}
        self._structure: _Structure | None = None
        engine.refresh()
        self._places = engine.places.memento() if engine.places.topologies else None
        self._ledger = engine.ledger.memento() if engine.ledger is not None else None
        self._clock = engine.clock()

    def before(self, change: Change) -> None:
        """The change is about to be made: keep what it can touch."""
        match change:
            case Workload():
                self.keep(change.key, change.queue_key)
            case Reserved():
                self.keep(change.workload.key, change.workload.queue_key)
                self._keep_tree(self._engine.forest.queues.get(change.cluster_queue))
            case PodsReady():
                self.before_cycle(self._engine.forest.trees())
            case Finished(key) | Evicted(key):
                self.keep(key)
            case Released(key):
                item = self._engine.items.get(key)
                self.keep(key, None if item is None else item.workload.queue_key)
            case _:
                self._keep_all()

    def before_cycle(self, trees: list[Tree]) -> None:
        if self._structure is not None:
            # Everything is kept already; trees that came to be since belong to the trial.
            return
        for tree in trees:
            if tree not in self._trees:
                self._trees[tree] = _TreeMemento(tree)

    def roll_back(self) -> None:
        engine = self._engine
        if self._structure is not None:
            self._structure.restore(engine)
        for memento in self._trees.values():
            memento.restore()
        for item, fields in self._loose.values():
            item.restore(fields)
        for key, known in self._items.items():
            if known is None:
                engine.items.pop(key, None)
            else:
                engine.items[key] = known
        if self._places is not None:
            engine.places.restore(self._places)
        if self._ledger is not None and engine.ledger is not None:
            engine.ledger.restore(self._ledger)
        engine.set_clock(self._clock)

    def keep(self, key: str, local_queue: str | None = None) -> None:
        """A workload is about to change: keep it, its tree, and the tree it may queue in."""
        engine = self._engine
        item = engine.items.get(key)
        if key not in self._items:
            self._items[key] = item
        if item is not None:
            if item.queue is None:
                self._loose.setdefault(key, (item, item.memento()))
            self._keep_tree(item.queue)
            if item.placed:
                self.before_cycle(engine.forest.with_heads())
        local = engine.local_queues.get(local_queue) if local_queue is not None else None
        if local is not None:
            self._keep_tree(engine.forest.queues.get(local.cluster_queue))

    def _keep_tree(self, queue: Queue | None) -> None:
        if queue is not None and queue.tree is not None:
            self.before_cycle([queue.tree])

    def _keep_all(self) -> None:
        if self._structure is not None:
            return
        self.before_cycle(self._engine.forest.trees())
        for key, item in self._engine.items.items():
            if item.queue is None:
                self._loose.setdefault(key, (item, item.memento()))
        self._structure = _Structure(self._engine)


class _TreeMemento:
    """A tree's nodes, queues and items, by value where they change in place."""

    __slots__ = ("_cohorts", "_flags", "_items", "_queues", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._flags = (tree.stale, tree.dirty, tree.evaluated, dict(tree.ready), dict(tree.waiting))
        self._cohorts = [(cohort, _derived(cohort), dict(cohort.usage)) for cohort in tree.cohorts]
        self._queues = [(queue, _derived(queue), queue.memento()) for queue in tree.queues]
        self._items = [
            (item, item.memento())
            for queue in tree.queues
            for items in (queue.running.values(), queue.pending.items())
            for item in items
        ]

    def restore(self) -> None:
        tree = self._tree
        tree.stale, tree.dirty, tree.evaluated, tree.ready, tree.waiting = self._flags
        for cohort, derived, usage in self._cohorts:
            _rederive(cohort, derived)
            cohort.usage = usage
        for queue, derived, memento in self._queues:
            queue.restore(memento)
            _rederive(queue, derived)
        for item, fields in self._items:
            item.restore(fields)


class _Structure:
    """Who exists: copies of the engine's tables. Taken when something other than a workload changes."""

    __slots__ = ("_flavors", "_forest", "_local_queues", "_namespaces", "_nodes", "_topologies")

    def __init__(self, engine: Engine) -> None:
        self._flavors = dict(engine.flavors)
        self._local_queues = dict(engine.local_queues)
        self._namespaces = dict(engine.namespaces)
        self._topologies = dict(engine.places.topologies)
        self._nodes = dict(engine.places.nodes)
        self._forest = engine.forest.memento()

    def restore(self, engine: Engine) -> None:
        _refill(engine.flavors, self._flavors)
        _refill(engine.local_queues, self._local_queues)
        _refill(engine.namespaces, self._namespaces)
        _refill(engine.places.topologies, self._topologies)
        _refill(engine.places.nodes, self._nodes)
        engine.places.flavors_changed()
        engine.forest.restore(self._forest)


def _refill(table: dict[K, V], kept: dict[K, V]) -> None:
    table.clear()
    table.update(kept)


def _derived(node: Node) -> tuple[object, ...]:
    return tuple(getattr(node, name) for name in _NODE_FIELDS)


def _rederive(node: Node | CohortNode, derived: tuple[object, ...]) -> None:
    for name, value in zip(_NODE_FIELDS, derived, strict=True):
        setattr(node, name, value)
