"""Quota that is free, and that a limit keeps from a queue: its own borrowing limit, or the lending limit of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuaas.engine.queues import Queue
from gpuaas.engine.tree import Node


@dataclass(frozen=True, slots=True)
class Limit:
    field: str
    """`borrowingLimit` or `lendingLimit`."""
    owner: str
    """`ClusterQueue mine`, `Cohort east`."""
    amount: int
    keeps: int
    """What the queue could take more of, now, if the limit were not there."""


def limits_on(queue: Queue, fr: int) -> Iterator[Limit]:
    free = max(0, queue.available(fr))
    borrowing = [each for node in queue.path[1:] if (each := _borrowing(queue, node, fr, free)) is not None]
    yield from borrowing
    if borrowing or queue.parent is None:
        return
    borrowed = free - queue.local_available(fr)
    cap = queue.borrow_cap.get(fr)
    left = None if cap is None else cap - max(0, queue.usage.get(fr, 0) - queue.local.get(fr, 0)) - borrowed
    for other in queue.tree.queues if queue.tree is not None else ():
        lends = other.quotas.get(fr)
        keeps = other.local_available(fr) if left is None else min(left, other.local_available(fr))
        if other is not queue and other.parent is queue.parent and lends and lends.lending is not None and keeps > 0:
            yield Limit("lendingLimit", f"ClusterQueue {other.name}", lends.lending, keeps)


def _borrowing(queue: Queue, node: Node, fr: int, free: int) -> Limit | None:
    """The limit of the queue itself or of a cohort above it, if it alone keeps something away."""
    quota = node.quotas.get(fr)
    if quota is None or quota.borrowing is None or fr not in node.borrow_cap:
        return None
    cap = node.borrow_cap.pop(fr)
    without = max(0, queue.available(fr))
    node.borrow_cap[fr] = cap
    owner = "ClusterQueue" if node is queue else "Cohort"
    return Limit("borrowingLimit", f"{owner} {node.name}", quota.borrowing, without - free) if without > free else None
