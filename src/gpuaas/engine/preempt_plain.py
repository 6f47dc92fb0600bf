"""Who has to leave, where a cohort is plain: its queues stand directly below it and lend each other everything.

There what victims free simply adds up, and whether one is still legal when its turn comes depends on its own queue
alone. So no candidate is removed from the tree: heads of one cohort share the list of those that stay legal, and each adds
up how much of it is needed. The victims are those of `preempt`, which is the rule for every tree; a property test holds
the two together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from gpuaas.engine.queues import Queue
from gpuaas.engine.tree import Usage

if TYPE_CHECKING:
    from gpuaas.engine.preempt import Candidate, Candidates, Hunt


class Row:
    """Victims in the order in which they are taken, and what they free of each flavor-resource."""

    __slots__ = ("_sums", "own", "victims")

    def __init__(self, victims: list[Candidate], own: bool) -> None:
        self.victims = victims
        self.own = own
        """Whether they run in the queue that asks."""
        self._sums: dict[int, list[int]] = {}

    def sums(self, fr: int) -> list[int]:
        """What is free once the first one has left, the first two, and so on."""
        found = self._sums.get(fr)
        if found is None:
            found = self._sums[fr] = list(accumulate(victim[0][1].usage.get(fr, 0) for victim in self.victims))
        return found


class LegalOnes:
    """Those of other queues that are legal when all legal ones before them have left."""

    __slots__ = ("leaving", "queues", "staying")

    def __init__(self, candidates: Candidates, contested: frozenset[int], may_borrow: bool) -> None:
        self.queues: dict[Queue, Usage] = {}
        """Where they run, and what would be left there beyond the quota."""
        self.leaving = Row(self._legal(candidates.leaving, contested, may_borrow), own=False)
        self.staying = Row(self._legal(candidates.staying, contested, may_borrow), own=False)

    def _legal(self, candidates: Iterable[Candidate], contested: frozenset[int], may_borrow: bool) -> list[Candidate]:
        legal, queues = [], self.queues
        for candidate in candidates:
            (_, item), _, without_borrowing, _ = candidate
            queue = item.queue
            assert queue is not None
            if may_borrow and without_borrowing:
                continue
            beyond = queues.get(queue)
            if beyond is None:
                beyond = queues[queue] = {fr: queue.usage.get(fr, 0) - queue.subtree.get(fr, 0) for fr in contested}
            for amount in beyond.values():
                if amount > 0:
                    break
            else:
                continue
            for fr in beyond:
                beyond[fr] -= item.usage.get(fr, 0)
            legal.append(candidate)
        return legal

    def row(self, row: Row, asking: Queue) -> Row:
        if asking not in self.queues:
            return row
        return Row([victim for victim in row.victims if victim[0][1].queue is not asking], own=False)


class Needs:
    """What is still missing, per flavor-resource: of the cohort's quota, and of what the queue itself may use.

    Negative amounts are missing. Only what runs in the queue itself can change the second.
    """

    __slots__ = ("cohort", "queue")

    def __init__(self, hunt: Hunt, may_borrow: bool) -> None:
        queue, root = hunt.queue, hunt.queue.parent
        assert root is not None
        self.cohort: Usage = {}
        self.queue: Usage = {}
        for fr, amount in hunt.requests.items():
            used = queue.usage.get(fr, 0) + amount
            rests = [] if may_borrow else [queue.subtree.get(fr, 0) - used]
            if amount > 0:
                self.cohort[fr] = root.subtree.get(fr, 0) - root.usage.get(fr, 0) - amount
                cap = queue.borrow_cap.get(fr)
                if cap is not None:
                    rests.append(cap - used)
            if rests:
                self.queue[fr] = min(rests)

    def first_enough(self, row: Row) -> int:
        """The position in the row at which everything is met; its length where it is not."""
        if row.own:
            pairs = [*self.cohort.items(), *self.queue.items()]
        elif all(rest >= 0 for rest in self.queue.values()):
            pairs = [*self.cohort.items()]
        else:
            return len(row.victims)
        return max((bisect_left(row.sums(fr), -rest) for fr, rest in pairs if rest < 0), default=0)

    def count(self, row: Row, taken: int) -> None:
        """The first so many of the row have left."""
        if not taken:
            return
        for rests in self._changed_by(row):
            for fr in rests:
                rests[fr] += row.sums(fr)[taken - 1]

    def put_back(self, row: Row, taken: int) -> int:
        """The last ones of those taken, as many as can be back with everything still met, are back: how many are left."""
        left = 0
        for rests in self._changed_by(row):
            for fr, rest in rests.items():
                sums = row.sums(fr)
                needed = sums[taken - 1] - rest
                if needed > 0:
                    left = max(left, bisect_left(sums, needed) + 1)
        for rests in self._changed_by(row):
            for fr in rests:
                sums = row.sums(fr)
                rests[fr] -= sums[taken - 1] - (sums[left - 1] if left else 0)
        return left

    def _changed_by(self, row: Row) -> tuple[Usage, ...]:
        return (self.cohort, self.queue) if row.own else (self.cohort,)


def enough_of(hunt: Hunt, others: Candidates, own: Candidates, may_borrow: bool) -> list[Candidate]:
    """Whom to take, none if all of them are not enough."""
    legal = others.legal_ones(hunt.contested, may_borrow)
    rows = (
        legal.row(legal.leaving, hunt.queue),
        Row(own.leaving, own=True),
        legal.row(legal.staying, hunt.queue),
        Row(own.staying, own=True),
    )
    needs = Needs(hunt, may_borrow)
    taken: list[tuple[Row, int]] = []
    for row in rows:
        last = needs.first_enough(row)
        if last < len(row.victims):
            taken.append((row, last + 1))
            needs.count(row, last + 1)
            return _without_spared(needs, taken)
        taken.append((row, last))
        needs.count(row, last)
    return []


def _without_spared(needs: Needs, taken: list[tuple[Row, int]]) -> list[Candidate]:
    """Restores targets that are not needed, the last taken first. The last one cannot, and comes to stand where each of them stood."""
    row, number = taken.pop()
    kept = deque((row.victims[number - 1],))
    taken.append((row, number - 1))
    for row, number in reversed(taken):
        while number:
            left = needs.put_back(row, number)
            kept.rotate(number - left)
            if left:
                kept.appendleft(row.victims[left - 1])
            number = max(0, left - 1)
    return list(kept)
