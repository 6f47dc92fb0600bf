"""One head in one cycle: what it could be given, whom that would cost, and how it ended.

Nomination looks at every head against the same untouched state. Only when its turn comes (`cycle`) does an entry see
what earlier ones took.
"""

from __future__ import annotations

from enum import Enum

from gpuaas.engine.assign import Assignment, Mode
from gpuaas.engine.items import Item
from gpuaas.engine.preempt import Target
from gpuaas.engine.queues import Queue
from gpuaas.engine.tree import Usage


class Requeue(Enum):
    """Why a head goes back to its queue; what that means depends on the queue's strategy."""

    GENERIC = ""
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    PENDING_PREEMPTION = "PendingPreemption"
    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"


IMMEDIATE = frozenset({Requeue.FAILED_AFTER_NOMINATION, Requeue.PENDING_PREEMPTION})
WHOLE_SHAPE = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES})


class Entry:
    __slots__ = ("assignment", "deferred", "item", "preemptor", "queue", "requeue", "second_pass", "targets")

    def __init__(
        self, item: Item, queue: Queue, assignment: Assignment, targets: list[Target], preemptor: bool = False
    ) -> None:
        self.item = item
        self.queue = queue
        self.assignment = assignment
        self.targets = targets
        self.requeue = Requeue.GENERIC
        self.deferred = False
        """It fits once the victims of others in this cycle are gone."""
        self.second_pass = item.reserved
        """It holds its quota already and only looks for a place."""
        self.preemptor = preemptor
        """It waits for its victims to leave, and goes before others."""

    def net_usage(self) -> Usage:
        return {} if self.second_pass else self.assignment.usage

    def to_reserve(self) -> Usage:
        """What a workload without preemption targets reserves in this cycle.

        Negative where the queue is above all it may borrow: as upstream, what leaves it then gives others less.
        """
        if self.second_pass:
            return {}
        if self.assignment.mode is not Mode.PREEMPT:
            return self.assignment.usage
        queue = self.queue
        kept: Usage = {}
        for fr, amount in self.assignment.usage.items():
            quota = queue.quotas.get(fr)
            nominal = quota.nominal if quota else 0
            used = queue.usage.get(fr, 0)
            if self.assignment.level == 0:
                kept[fr] = max(0, min(amount, nominal - used))
            elif quota is None or quota.borrowing is None:
                kept[fr] = amount
            else:
                kept[fr] = min(amount, nominal + quota.borrowing - used)
        return kept
