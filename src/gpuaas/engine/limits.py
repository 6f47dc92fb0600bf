"""Quota that is free, and that a limit keeps from a queue: its own borrowing limit, or the lending limit of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuaas.engine.queues import Queue


@dataclass(frozen=True, slots=True)
class Limit:
    field: str
    """`borrowingLimit` or `lendingLimit`."""
    cluster_queue: str
    amount: int
    keeps: int
    """What the queue could take more of, now, if the limit were not there."""


def limits_on(queue: Queue, fr: int) -> Iterator[Limit]:
    if queue.parent is None:
        return
    own = queue.local_available(fr)
    borrowed = max(0, queue.available(fr)) - own
    beyond = max(0, queue.parent.available(fr)) - borrowed
    quota = queue.quotas.get(fr)
    if quota is not None and quota.borrowing is not None and beyond > 0:
        yield Limit("borrowingLimit", queue.name, quota.borrowing, beyond)
        return
    cap = queue.borrow_cap.get(fr)
    left = None if cap is None else cap - max(0, queue.usage.get(fr, 0) - queue.local.get(fr, 0)) - borrowed
    for other in queue.tree.queues if queue.tree is not None else ():
        lends = other.quotas.get(fr)
        keeps = other.local_available(fr) if left is None else min(left, other.local_available(fr))
        if other is not queue and other.parent is queue.parent and lends and lends.lending is not None and keeps > 0:
            yield Limit("lendingLimit", other.name, lends.lending, keeps)
