"""In which order a cycle takes its entries: classically by borrowing, priority and time; or as a tournament of shares.

Both orders end in the workload's key, so that the same entries always come in the same order. What happens to an entry
in its turn is `cycle`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuaas.engine.queues import Queue
from gpuaas.engine.shares import Rank, Share, share
from gpuaas.engine.tree import CohortNode, FlavorResources, Node, Usage

if TYPE_CHECKING:
    from gpuaas.engine.entries import Entry


def classical_order(entries: list[Entry]) -> Iterator[Entry]:
    """Own quota before borrowed (a level is a height: 2 comes after 1), then priority, then time."""
    return iter(sorted(entries, key=lambda e: (not e.second_pass, not e.preemptor, e.assignment.level, e.item.rank)))


def fair_order(entries: list[Entry], frs: FlavorResources) -> Iterator[Entry]:
    """Per tree, again and again: the entry whose admission would leave its side with the lowest share."""
    waiting: dict[Node, Entry] = {}
    for entry in entries:
        waiting[entry.queue] = entry
    while waiting:
        queue = next(iter(waiting))
        root = queue.path[0]
        if isinstance(root, CohortNode):
            winner = _Tournament(root, waiting, frs).winner(root)
            assert winner is not None
        else:
            winner = waiting[queue]
        del waiting[winner.queue]
        yield winner


class _Tournament:
    __slots__ = ("_shares", "_usage", "_waiting")

    def __init__(self, root: CohortNode, waiting: dict[Node, Entry], frs: FlavorResources) -> None:
        self._waiting = waiting
        self._shares: dict[tuple[CohortNode, str], Share] = {}
        self._usage: dict[str, Usage] = {}
        for queue, entry in waiting.items():
            if queue.path[0] is root:
                self._weigh(entry, frs)

    def winner(self, cohort: CohortNode) -> Entry | None:
        best: Entry | None = None
        for child in cohort.children:
            best = self._better(self.winner(child), best, cohort)
        for leaf in cohort.leaves:
            best = self._better(self._waiting.get(leaf), best, cohort)
        return best

    def _weigh(self, entry: Entry, frs: FlavorResources) -> None:
        """The shares of the queue and of each cohort above it, as they were with this entry admitted."""
        queue: Queue = entry.queue
        usage = entry.net_usage()
        queue.add_all(usage)
        its: Node = queue
        for cohort in queue.ancestors():
            self._shares[cohort, entry.item.key] = share(its, frs)
            its = cohort
        queue.remove_all(usage)
        self._usage[entry.item.key] = usage

    def _better(self, a: Entry | None, b: Entry | None, cohort: CohortNode) -> Entry | None:
        if a is None or b is None:
            return b if a is None else a
        return a if self._standing(a, cohort) < self._standing(b, cohort) else b

    def _standing(self, entry: Entry, cohort: CohortNode) -> tuple[bool, bool, Rank, tuple[int, int, str, str]]:
        its = self._shares[cohort, entry.item.key]
        usage = self._usage[entry.item.key]
        borrows = any(usage.get(fr, 0) > 0 for fr in its.borrowed)
        return not entry.preemptor, borrows, its.rank, entry.item.rank
