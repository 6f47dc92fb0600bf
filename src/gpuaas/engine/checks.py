"""The engine checks itself: every invariant, recomputed from scratch; and a fingerprint of its whole state.

`validate` runs after each step under test and costs as much as rebuilding everything. `fingerprint` gives plain data
that is equal exactly when two states are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuaas.engine.items import Item
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.tree import CohortNode, Node, Usage

if TYPE_CHECKING:
    from gpuaas.engine.engine import Engine


class Broken(AssertionError):
    """An invariant does not hold."""


def validate(engine: Engine) -> None:
    seen: dict[str, str] = {}
    for tree in engine.forest.trees():
        for queue in tree.queues:
            _check_queue(queue, seen)
        if not tree.stale and not tree.cyclic:
            _check_sums(tree)
    for item in engine.items.values():
        _check_item(item, seen)
    for key in seen:
        _require(key in engine.items, f"{key} is in a queue, but the engine does not know it")
    _check_places(engine)


def fingerprint(engine: Engine) -> object:
    engine.refresh()
    engine.forest.settle_all()
    return {
        "items": {key: _item_print(item) for key, item in sorted(engine.items.items())},
        "queues": {q.name: _queue_print(q) for t in engine.forest.trees() for q in t.queues},
        "cohorts": {c.name: _node_print(c) for t in engine.forest.trees() for c in t.cohorts},
        "trees": [
            (t.root.name, t.stale, t.dirty, t.evaluated, sorted(t.ready), sorted(t.waiting))
            for t in engine.forest.trees()
        ],
        "who": (dict(engine.flavors), dict(engine.local_queues), dict(engine.namespaces), dict(engine.forest.cohorts)),
        "places": (engine.places.usage(), dict(engine.places.nodes), dict(engine.places.topologies)),
        "ledger": engine.ledger.memento() if engine.ledger is not None else None,
        "clock": engine.clock(),
    }


def _check_queue(queue: Queue, seen: dict[str, str]) -> None:
    total: Usage = {}
    for item in queue.running.values():
        _require(item.queue is queue, f"{item.key} runs in {queue.name} but points elsewhere")
        _see(item.key, f"running in {queue.name}", seen)
        for fr, amount in item.usage.items():
            total[fr] = total.get(fr, 0) + amount
    _require(_nonzero(total) == _nonzero(queue.usage), f"usage of {queue.name} is not what runs in it")
    _require(all(amount >= 0 for amount in queue.usage.values()), f"usage of {queue.name} is negative")
    ranked = [item.key for _, item in [*queue.victims(), *queue.leaving]]
    _require(sorted(ranked) == sorted(queue.running), f"victims of {queue.name} are not what runs in it")
    _require(queue.pending.inflight is None, f"{queue.name} has a workload in flight between cycles")
    for item in queue.pending.items():
        _require(item.queue is queue, f"{item.key} waits in {queue.name} but points elsewhere")
        _see(item.key, f"pending in {queue.name}", seen)
    out_of_view = queue.pending.out_of_view()
    _require(out_of_view is None, f"{out_of_view} would never be looked at")
    sticky = queue.pending.sticky
    _require(sticky is None or not sticky.reserved, f"the sticky workload of {queue.name} does not wait")


def _check_sums(tree: Tree) -> None:
    """The incremental usage of each cohort equals the sum over its children of what they use beyond their own."""
    for cohort in tree.cohorts:
        total: Usage = {}
        for child in (*cohort.children, *cohort.leaves):
            for fr, used in child.usage.items():
                total[fr] = total.get(fr, 0) + max(0, used - child.local.get(fr, 0))
        _require(_nonzero(total) == _nonzero(cohort.usage), f"usage of cohort {cohort.name} is not its children's")


def _check_item(item: Item, seen: dict[str, str]) -> None:
    where = seen.get(item.key)
    if item.reserved:
        _require(item.queue is None or where == f"running in {item.queue.name}", f"{item.key} holds quota nowhere")
        _require(not item.queued and not item.held, f"{item.key} holds quota and waits")
    elif item.queue is not None:
        _require(where == f"pending in {item.queue.name}", f"{item.key} waits nowhere")
        _require(item.queued != item.held, f"{item.key} is neither queued nor held, or both")
    else:
        _require(where is None, f"{item.key} has no queue and is in one")


def _check_places(engine: Engine) -> None:
    total: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
    for item in engine.items.values():
        for place in item.placed:
            used = total.setdefault((place.owner, place.identity), {})
            for resource, amount in place.requests:
                if amount:
                    used[resource] = used.get(resource, 0) + amount * place.count
    _require(total == engine.places.usage(), "usage of places is not what was placed there")


def _see(key: str, where: str, seen: dict[str, str]) -> None:
    _require(key not in seen, f"{key} is {seen.get(key)} and {where}")
    seen[key] = where


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def _nonzero(usage: Usage) -> Usage:
    return {fr: amount for fr, amount in usage.items() if amount}


def _item_print(item: Item) -> tuple[object, ...]:
    last = None if item.last is None else (item.last.tried, item.last.generation, item.last.cycle)
    queue = None if item.queue is None else item.queue.name
    return (
        item.workload, queue, item.queued, item.held, last, item.admission, _nonzero(item.usage), item.placed,
        item.reserved_at, item.evicted, item.rank,
    )  # fmt: skip


def _queue_print(queue: Queue) -> tuple[object, ...]:
    pending = queue.pending
    parked = sorted(item.key for item in pending.items() if pending.waits_inactive(item))
    sticky = pending.sticky.key if pending.sticky is not None else None
    return (
        queue.spec, _node_print(queue), queue.generation, queue.inactive, sorted(queue.running),
        [item.key for _, item in queue.victims()], [item.key for _, item in queue.leaving],
        [item.key for item in pending.ordered()], parked, sticky,
        sorted((shape.priority, repr(shape.pod_sets)) for shape in pending.parked),
    )  # fmt: skip


def _node_print(node: Node) -> tuple[object, ...]:
    children = [c.name for c in node.children] if isinstance(node, CohortNode) else []
    parent = None if node.parent is None else node.parent.name
    return (
        node.name, parent, children, node.weight, node.height, _nonzero(node.usage), node.subtree, node.local,
        node.borrow_cap, node.potential,
    )  # fmt: skip
