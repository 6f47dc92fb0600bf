"""In which order a cycle takes its entries: classically by borrowing, priority and time; or as a tournament of shares.

Both orders end in the workload's key, so that the same entries always come in the same order. What happens to an entry
in its turn is `cycle`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """Per tree, again and again: the entry whose admission would leave its side with the lowest share.

    What becomes of an entry in its turn is seen by those that come after it.
    """
    waiting: dict[Node, Entry] = {entry.queue: entry for entry in entries}
    tournaments: dict[Node, _Tournament] = {}
    while waiting:
        queue = next(iter(waiting))
        root = queue.path[0]
        if not isinstance(root, CohortNode):
            yield waiting.pop(queue)
            continue
        tournament = tournaments.get(root)
        if tournament is None:
            tournament = tournaments[root] = _Tournament(root, waiting.values(), frs)
        winner = tournament.take_winner()
        del waiting[winner.queue]
        yield winner
        tournament.weigh_beside(winner.queue)


Standing = tuple[bool, bool, Rank, tuple[int, int, str, str]]
"""Less is better."""


class _Tournament:
    __slots__ = ("_frs", "_root", "_standings", "_waiting")

    def __init__(self, root: CohortNode, entries: Iterable[Entry], frs: FlavorResources) -> None:
        self._root = root
        self._frs = frs
        self._waiting: dict[Node, Entry] = {}
        self._standings: dict[tuple[CohortNode, str], Standing] = {}
        for entry in entries:
            if entry.queue.path[0] is root:
                self._waiting[entry.queue] = entry
                self._weigh(entry)

    def take_winner(self) -> Entry:
        winner = self._winner(self._root)
        assert winner is not None
        del self._waiting[winner.queue]
        return winner

    def weigh_beside(self, queue: Queue) -> None:
        """What the queue uses has changed, and with it the shares of the cohorts above it, all but the root."""
        below_root = queue.path[1]
        for entry in self._waiting.values():
            if entry.queue.path[1] is below_root:
                self._weigh(entry)

    def _winner(self, cohort: CohortNode) -> Entry | None:
        best: Entry | None = None
        for child in cohort.children:
            best = self._better(self._winner(child), best, cohort)
        for leaf in cohort.leaves:
            best = self._better(self._waiting.get(leaf), best, cohort)
        return best

    def _weigh(self, entry: Entry) -> None:
        """The shares of the queue and of each cohort above it, as they were with this entry admitted."""
        queue: Queue = entry.queue
        usage = entry.net_usage()
        queue.add_all(usage)
        its: Node = queue
        for cohort in queue.ancestors():
            self._standings[cohort, entry.item.key] = _standing(entry, share(its, self._frs), usage)
            its = cohort
        queue.remove_all(usage)

    def _better(self, a: Entry | None, b: Entry | None, cohort: CohortNode) -> Entry | None:
        if a is None or b is None:
            return b if a is None else a
        return a if self._standings[cohort, a.item.key] < self._standings[cohort, b.item.key] else b


def _standing(entry: Entry, its: Share, usage: Usage) -> Standing:
    borrows = any(usage.get(fr, 0) > 0 for fr in its.borrowed)
    return not entry.preemptor, borrows, its.rank, entry.item.rank
