"""Who has to leave under fair sharing: the queue furthest above its share gives first.

The preemptor's own usage is counted in while shares are compared. Descending from the root, each step goes to the child
with the highest dominant share; a candidate is taken if the configured strategy still finds its side no better off
than the preemptor's. Everything is put back before returning. The classical rules are in `preempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from gpuaas.engine.items import Item, VictimRank
from gpuaas.engine.preempt import NO_PREEMPTION, Hunt, Rule, Target, fill_back, in_order, legal_in
from gpuaas.engine.queues import Queue
from gpuaas.engine.shares import NEGATIVE, Rank, Share, share
from gpuaas.engine.tree import CohortNode, FlavorResources, Node
from gpuaas.engine.values import Preemption

Strategy = Callable[[Rank, Rank, Rank], bool]
"""(preemptor's new share, target's old share, target's new share) to whether the target may be taken."""


def at_most_final_share(preemptor: Rank, _old: Rank, new: Rank) -> bool:
    return preemptor <= new


def less_than_initial_share(preemptor: Rank, old: Rank, _new: Rank) -> bool:
    return preemptor < old


STRATEGIES: dict[str, Strategy] = {
    "LessThanOrEqualToFinalShare": at_most_final_share,
    "LessThanInitialShare": less_than_initial_share,
}


def fair(hunt: Hunt, strategies: tuple[Strategy, ...], frs: FlavorResources) -> list[Target]:
    candidates = _candidates(hunt)
    if not candidates:
        return []
    hunt.queue.add_all(hunt.requests)
    search = _Search(hunt, candidates, frs)
    fits = search.first(strategies[0])
    if not fits and len(strategies) > 1:
        fits = search.second()
    hunt.queue.remove_all(hunt.requests)
    targets = search.targets
    if fits:
        targets = fill_back(hunt, targets, True)
    for target in targets:
        hunt.restore(target.item)
    return targets if fits else []


Line = dict[Queue, list[Item]]
"""Who could be taken from each queue, the first last."""


def _candidates(hunt: Hunt) -> Line:
    if hunt.usage_of is not None:
        victims = [victim for queue, policy in _giving(hunt) for victim in legal_in(queue, hunt, policy)]
        return _lined_up([item for _, item in in_order(hunt, victims)])
    return {queue: line for queue, policy in _giving(hunt) if (line := _line_of(queue, hunt, policy))}


def _giving(hunt: Hunt) -> Iterator[tuple[Queue, Preemption]]:
    """The queues that may have to give something, the own one first, and by which policy."""
    queue = hunt.queue
    policy = queue.spec.preemption
    yield queue, policy.within_queue
    if queue.parent is None or policy.reclaim in NO_PREEMPTION:
        return
    root = queue.path[0]
    assert isinstance(root, CohortNode)
    for other in _queues_under(root):
        if other is not queue and not other.within_nominal(hunt.contested):
            yield other, policy.reclaim


def _line_of(queue: Queue, hunt: Hunt, policy: Preemption) -> list[Item]:
    """They come in order: those that are leaving first, each by rank."""
    known = hunt.known
    if known is None or policy is Preemption.LOWER_OR_NEWER_EQUAL:
        return [item for _, item in reversed(legal_in(queue, hunt, policy))]
    key = (queue, policy, hunt.contested, hunt.item.priority if policy is Preemption.LOWER else None)
    found = known.victims.get(key)
    if found is None:
        found = known.victims[key] = [item for _, item in reversed(legal_in(queue, hunt, policy))]
    return found


def _lined_up(items: list[Item]) -> Line:
    line: Line = {}
    for item in reversed(items):
        assert item.queue is not None
        line.setdefault(item.queue, []).append(item)
    return line


def _queues_under(cohort: CohortNode) -> list[Queue]:
    found = [leaf for leaf in cohort.leaves if isinstance(leaf, Queue) and leaf.inactive is None]
    for child in cohort.children:
        found += _queues_under(child)
    return found


class _Shares:
    """Shares as they are while victims leave. Those of other queues are the same for all who search in one state."""

    __slots__ = ("_frs", "_of")

    def __init__(self, hunt: Hunt, line: Line, frs: FlavorResources) -> None:
        self._frs = frs
        self._of: dict[Node, Share] = {}
        if hunt.known is None:
            return
        known = hunt.known.shares
        for queue in line:
            if queue is not hunt.queue:
                found = known.get(queue)
                if found is None:
                    found = known[queue] = share(queue, frs)
                self._of[queue] = found

    def of(self, node: Node) -> Share:
        found = self._of.get(node)
        if found is None:
            found = self._of[node] = share(node, self._frs)
        return found

    def changed(self, queue: Queue) -> None:
        for node in queue.path:
            self._of.pop(node, None)


class _Search:
    __slots__ = ("_frs", "_hunt", "_line", "_retry", "_shares", "targets")

    def __init__(self, hunt: Hunt, line: Line, frs: FlavorResources) -> None:
        self._hunt = hunt
        self._line = line
        self._frs = frs
        self._shares = _Shares(hunt, line, frs)
        self.targets: list[Target] = []
        self._retry: list[Item] = []

    def first(self, strategy: Strategy) -> bool:
        hunt = self._hunt
        order = _Order(hunt, self._line, self._shares)
        entitled = hunt.queue.within_nominal(hunt.contested)
        while (queue := order.next()) is not None:
            if queue is hunt.queue or entitled:
                rule = Rule.IN_QUEUE if queue is hunt.queue else Rule.RECLAIM
                if self._take(order.pop(queue), rule):
                    return True
                continue
            mine, theirs = order.sides(queue)
            preemptor, old = self._shares.of(mine).rank, self._shares.of(theirs).rank
            if preemptor[0] == 1 and old[0] == 0:
                self._retry += order.drain(queue)
                continue
            while order.has(queue):
                item = order.pop(queue)
                if strategy(preemptor, old, self._rank_without(item, theirs)):
                    if self._take(item, Rule.FAIR_SHARING):
                        return True
                    break
                self._retry.append(item)
        return False

    def second(self) -> bool:
        order = _Order(self._hunt, _lined_up(self._retry), self._shares)
        while (queue := order.next()) is not None:
            mine, theirs = order.sides(queue)
            passes = self._shares.of(mine).rank < self._shares.of(theirs).rank
            item = order.pop(queue)
            if passes and self._take(item, Rule.FAIR_SHARING):
                return True
            order.drop(queue)
        return False

    def _take(self, item: Item, rule: Rule) -> bool:
        """Count the victim out; says whether the workload fits now."""
        hunt = self._hunt
        assert item.queue is not None
        hunt.remove(item)
        self._shares.changed(item.queue)
        self.targets.append(Target(item, rule))
        hunt.queue.remove_all(hunt.requests)
        fits = hunt.fits(True)
        hunt.queue.add_all(hunt.requests)
        return fits

    def _rank_without(self, item: Item, node: Node) -> Rank:
        assert item.queue is not None
        item.queue.remove_all(item.usage)
        rank = share(node, self._frs).rank
        item.queue.add_all(item.usage)
        return rank


Turn = tuple[int, float, bool, bool, VictimRank | None]
"""The order among queues of a cohort: the highest share, then whose next candidate is the first. Never equal."""


class _Order:
    """Which queue gives the next victim. A node that can give nothing more is pruned for good.

    A queue's share changes only with what it gives itself, so that only then its turn has to be found again.
    """

    __slots__ = ("_changed", "_hunt", "_left", "_line", "_mine", "_pruned", "_shares", "_turns", "_waiting")

    def __init__(self, hunt: Hunt, line: Line, shares: _Shares) -> None:
        self._hunt = hunt
        self._shares = shares
        self._mine = set(hunt.queue.ancestors())
        self._pruned: set[Node] = set()
        self._line = line
        self._left = {queue: len(items) for queue, items in line.items()}
        self._changed = dict.fromkeys(line)
        self._turns: dict[Queue, Turn] = {}
        self._waiting: dict[CohortNode | None, list[tuple[Turn, Queue]]] = {}
        """As heaps; entries that are not their queue's turn any more are skipped when they surface."""

    def next(self) -> Queue | None:
        queue = self._hunt.queue
        if queue.parent is None:
            return queue if queue not in self._pruned and self.has(queue) else None
        for changed in self._changed:
            self._find_turn(changed)
        self._changed.clear()
        root = queue.path[0]
        assert isinstance(root, CohortNode)
        while root not in self._pruned:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def has(self, queue: Queue) -> bool:
        return self._left.get(queue, 0) > 0

    def pop(self, queue: Queue) -> Item:
        self._changed[queue] = None
        self._left[queue] -= 1
        return self._line[queue][self._left[queue]]

    def drain(self, queue: Queue) -> list[Item]:
        items = self._line[queue][: self._left[queue]][::-1]
        self.drop(queue)
        return items

    def drop(self, queue: Queue) -> None:
        self._changed[queue] = None
        self._left[queue] = 0

    def sides(self, target: Queue) -> tuple[Node, Node]:
        """The two children of the lowest common ancestor: the preemptor's side and the target's."""
        lca = next(cohort for cohort in target.ancestors() if cohort in self._mine)
        return _child_towards(lca, self._hunt.queue), _child_towards(lca, target)

    def _descend(self, cohort: CohortNode) -> Queue | None:
        best, best_rank = self._best_queue(cohort)
        below, below_rank = self._best_cohort(cohort)
        if best is None and below is None:
            self._pruned.add(cohort)
            return None
        if below is not None and below_rank >= best_rank:
            return self._descend(below)
        return best

    def _find_turn(self, queue: Queue) -> None:
        self._turns.pop(queue, None)
        left = self._left[queue]
        if not left or queue.inactive is not None:
            return
        its, mine = self._shares.of(queue), queue is self._hunt.queue
        if not its.borrowed and not mine:
            return
        (kind, value), first = its.rank, self._line[queue][left - 1]
        turn = self._turns[queue] = (-kind, -value, not first.evicted, mine, first.victim_rank)
        heappush(self._waiting.setdefault(queue.parent, []), (turn, queue))

    def _best_queue(self, cohort: CohortNode) -> tuple[Queue | None, Rank]:
        waiting = self._waiting.get(cohort) or []
        while waiting:
            turn, queue = waiting[0]
            if self._turns.get(queue) is turn:
                return queue, self._shares.of(queue).rank
            heappop(waiting)
        return None, NEGATIVE

    def _best_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, Rank]:
        best: CohortNode | None = None
        best_rank = NEGATIVE
        for child in cohort.children:
            if child in self._pruned:
                continue
            its = self._shares.of(child)
            if not its.borrowed and child not in self._mine:
                self._pruned.add(child)
            elif its.rank >= best_rank:
                best, best_rank = child, its.rank
        return best, best_rank


def _child_towards(cohort: CohortNode, leaf: Node) -> Node:
    node = leaf
    while node.parent is not cohort:
        assert node.parent is not None
        node = node.parent
    return node
