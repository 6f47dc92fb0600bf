"""Who has to leave so that a workload fits: the classical rules, by priority and by place in the tree.

Works on the tree itself: victims are taken out one by one, and everything is put back before returning. Victims come
in a fixed order (being evicted already, other queues before the own, lowest priority, most recently reserved) and each
must still be legal when its turn comes. Where all queues stand directly below one root, `preempt_plain` finds the same
by adding up. The fair-sharing rules are in `preempt_fair`; which flavors are contested is `assign`'s finding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cmp_to_key
from itertools import chain

from gpuaas.engine.items import Item
from gpuaas.engine.preempt_plain import LegalOnes, enough_of
from gpuaas.engine.queues import Queue, Victim
from gpuaas.engine.shares import Share
from gpuaas.engine.tree import CohortNode, Usage
from gpuaas.engine.values import Preemption


class Rule(Enum):
    """Why a victim may be taken: the reason of its `Preempted` condition."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Target:
    item: Item
    rule: Rule


@dataclass(slots=True)
class Hunt:
    """One search for victims: for whom, over which flavor-resources, and for how much."""

    item: Item
    queue: Queue
    contested: frozenset[int]
    requests: Usage
    placeable: Callable[[], bool] | None = None
    """Whether the pods also find a place; None when place does not matter."""
    take_out: Callable[[Item], None] = lambda _: None
    put_back: Callable[[Item], None] = lambda _: None
    usage_of: Callable[[str], float] | None = None
    """Admission fair sharing: usage of a LocalQueue."""
    known: Known | None = None
    """What searches have found that were made of the same state; None where it may have changed."""

    def remove(self, item: Item) -> None:
        assert item.queue is not None
        item.queue.remove_all(item.usage)
        if item.placed:
            self.take_out(item)

    def restore(self, item: Item) -> None:
        assert item.queue is not None
        item.queue.add_all(item.usage)
        if item.placed:
            self.put_back(item)

    def fits(self, may_borrow: bool) -> bool:
        queue = self.queue
        for fr, amount in self.requests.items():
            if not may_borrow and queue.borrows_with(fr, amount):
                return False
            if amount > 0 and amount > queue.available(fr):
                return False
        return self.placeable is None or self.placeable()


NO_PREEMPTION = frozenset({Preemption.NEVER, Preemption.UNSET})

Candidate = tuple[Victim, Rule, bool, CohortNode | None]
"""(ranked item, rule, only without borrowing, lowest common ancestor)"""


class Candidates:
    """Those that are being evicted already, and the others, each in victims' order."""

    __slots__ = ("_legal", "leaving", "staying")

    def __init__(self, leaving: list[Candidate], staying: list[Candidate]) -> None:
        self.leaving = leaving
        self.staying = staying
        self._legal: dict[tuple[frozenset[int], bool], LegalOnes] = {}

    def __bool__(self) -> bool:
        return bool(self.leaving or self.staying)

    def __iter__(self) -> Iterator[Candidate]:
        return chain(self.leaving, self.staying)

    def legal_ones(self, contested: frozenset[int], may_borrow: bool) -> LegalOnes:
        found = self._legal.get((contested, may_borrow))
        if found is None:
            found = self._legal[contested, may_borrow] = LegalOnes(self, contested, may_borrow)
        return found


class Known:
    """What searches found that were made of one state."""

    __slots__ = ("candidates", "shares", "victims")

    def __init__(self) -> None:
        self.candidates: dict[tuple[object, ...], Candidates] = {}
        self.victims: dict[tuple[object, ...], list[Item]] = {}
        """Of one queue, the first to be taken last."""
        self.shares: dict[Queue, Share] = {}


def classical(hunt: Hunt) -> list[Target]:
    """The victims to take, none if no legal set helps."""
    in_queue = legal_in(hunt.queue, hunt, hunt.queue.spec.preemption.within_queue)
    own = _sorted(hunt, [(victim, Rule.IN_QUEUE, False, None) for victim in in_queue])
    forbidden = not hunt.queue.spec.preemption.borrow_within_cohort
    borrows_anyway = forbidden and not _under_nominal(hunt)
    by_place, by_priority = _from_other_queues(hunt, only_by_place=borrows_anyway)
    if not (own or by_place or by_priority):
        return []
    if borrows_anyway or not (_of_others(hunt, by_place) or _of_others(hunt, by_priority)):
        attempts: tuple[bool, ...] = (True,)
    elif forbidden and not _of_others(hunt, by_place):
        attempts = (False, True)
    else:
        attempts = (True, False)
    for may_borrow in attempts:
        targets = _attempt(hunt, by_place, by_priority, own, may_borrow)
        if targets:
            return targets
    return []


def legal(policy: Preemption, preemptor: Item, candidate: Item) -> bool:
    """Whether the policy lets the preemptor take the candidate."""
    match policy:
        case Preemption.ANY:
            return True
        case Preemption.NEVER | Preemption.UNSET:
            return False
        case Preemption.LOWER:
            return preemptor.priority > candidate.priority
        case Preemption.LOWER_OR_NEWER_EQUAL:
            return preemptor.priority > candidate.priority or (
                preemptor.priority == candidate.priority and preemptor.ordered_at < candidate.ordered_at
            )


def legal_in(queue: Queue, hunt: Hunt, policy: Preemption) -> list[Victim]:
    """The running items of a queue that the policy gives up and that use what is contested, evicted ones first."""
    if policy in NO_PREEMPTION:
        return []
    contested, found = hunt.contested, []
    for ranked in (queue.leaving, queue.victims()):
        for victim in ranked:
            if policy is not Preemption.ANY and victim[0][0] > hunt.item.priority:
                break  # lower priorities come first
            if policy is Preemption.LOWER and victim[0][0] == hunt.item.priority:
                break
            if legal(policy, hunt.item, victim[1]) and not contested.isdisjoint(victim[1].usage):
                found.append(victim)
    return found


def in_order(hunt: Hunt, victims: Iterable[Victim]) -> list[Victim]:
    """Victims as they are taken, given that those of other queues come before the own."""
    usage_of = hunt.usage_of
    if usage_of is None:
        return sorted(victims, key=lambda v: (not v[1].evicted, v[1].queue is hunt.queue, v[0]))

    def compare(a: Victim, b: Victim) -> int:
        one, two = a[1], b[1]
        coarse_a, coarse_b = (not one.evicted, one.queue is hunt.queue), (not two.evicted, two.queue is hunt.queue)
        if coarse_a != coarse_b:
            return -1 if coarse_a < coarse_b else 1
        lq_a, lq_b = one.workload.queue_key, two.workload.queue_key
        if one.queue is two.queue and one.queue is not None and one.queue.spec.usage_based and lq_a != lq_b:
            used_a, used_b = usage_of(lq_a), usage_of(lq_b)
            if used_a != used_b:
                return -1 if used_a > used_b else 1
        return -1 if a[0] < b[0] else 1

    return sorted(victims, key=cmp_to_key(compare))


def fill_back(hunt: Hunt, targets: list[Target], may_borrow: bool) -> list[Target]:
    """Spare whom one can: put victims back, last taken first, while the workload still fits. The last one stays."""
    for index in range(len(targets) - 2, -1, -1):
        hunt.restore(targets[index].item)
        if hunt.fits(may_borrow):
            targets[index] = targets[-1]
            targets.pop()
        else:
            hunt.remove(targets[index].item)
    return targets


def _others(hunt: Hunt, queue: Queue, lca: CohortNode, advantage: bool) -> list[Candidate]:
    policy = hunt.queue.spec.preemption
    victims = legal_in(queue, hunt, policy.reclaim)
    if advantage:
        return [(victim, Rule.RECLAIM, False, lca) for victim in victims]
    if not policy.borrow_within_cohort:
        return [(victim, Rule.RECLAIM, True, lca) for victim in victims]
    limit = hunt.item.priority - 1
    if policy.borrow_threshold is not None:
        limit = min(limit, policy.borrow_threshold)
    return [
        (v, Rule.RECLAIM, True, lca) if v[1].priority > limit else (v, Rule.RECLAIM_WHILE_BORROWING, False, lca)
        for v in victims
    ]


def _from_other_queues(hunt: Hunt, *, only_by_place: bool) -> tuple[Candidates, Candidates]:
    """Candidates over which the workload has the better place in the tree, and those that only priority decides: not
    asked for where they cannot be taken, because the workload would borrow."""
    by_place: list[Candidates] = []
    by_priority: list[Candidates] = []
    queue = hunt.queue
    if queue.parent is None or queue.spec.preemption.reclaim in NO_PREEMPTION:
        return Candidates([], []), Candidates([], [])
    advantage, rest = queue.fits_quota(hunt.requests)
    below: CohortNode | None = None
    for cohort in queue.ancestors():
        if advantage or not only_by_place:
            (by_place if advantage else by_priority).append(_from_subtree(hunt, cohort, below, advantage))
        fits, rest = cohort.fits_quota(rest)
        advantage = advantage or fits
        below = cohort
    return _joined(hunt, by_place), _joined(hunt, by_priority)


def _from_subtree(hunt: Hunt, cohort: CohortNode, skip: CohortNode | None, advantage: bool) -> Candidates:
    """Heads of one cohort find the same candidates there, their own queue's among them, which are not taken this way."""
    policy = hunt.queue.spec.preemption
    if hunt.known is None or hunt.usage_of is not None or policy.reclaim is Preemption.LOWER_OR_NEWER_EQUAL:
        return _sorted(hunt, _collect(hunt, cohort, cohort, skip, advantage, []))
    by_priority = policy.reclaim is not Preemption.ANY or policy.borrow_within_cohort
    key = (
        cohort, skip, advantage, hunt.contested, policy.reclaim, policy.borrow_within_cohort, policy.borrow_threshold,
        hunt.item.priority if by_priority else None,
    )  # fmt: skip
    found = hunt.known.candidates.get(key)
    if found is None:
        found = hunt.known.candidates[key] = _sorted(hunt, _collect(hunt, cohort, cohort, skip, advantage, []))
    return found


def _joined(hunt: Hunt, parts: list[Candidates]) -> Candidates:
    if len(parts) == 1:
        return parts[0]
    return _sorted(hunt, [candidate for part in parts for candidate in part])


def _of_others(hunt: Hunt, candidates: Candidates) -> bool:
    return any(each[0][1].queue is not hunt.queue for each in candidates)


def _collect(
    hunt: Hunt, cohort: CohortNode, lca: CohortNode, skip: CohortNode | None, advantage: bool, into: list[Candidate]
) -> list[Candidate]:
    for child in cohort.children:
        if child is not skip and not child.within_nominal(hunt.contested):
            _collect(hunt, child, lca, skip, advantage, into)
    for leaf in cohort.leaves:
        assert isinstance(leaf, Queue)
        if leaf.inactive is None and not leaf.within_nominal(hunt.contested):
            into.extend(_others(hunt, leaf, lca, advantage))
    return into


def _sorted(hunt: Hunt, candidates: list[Candidate]) -> Candidates:
    if not candidates:
        return Candidates([], [])
    if hunt.usage_of is None:
        ordered = sorted(candidates, key=lambda c: (not c[0][1].evicted, c[0][0]))
    else:
        by_item = {c[0][1].key: c for c in candidates}
        ordered = [by_item[victim[1].key] for victim in in_order(hunt, (c[0] for c in candidates))]
    stays = bisect_left(ordered, True, key=lambda c: not c[0][1].evicted)
    return Candidates(ordered[:stays], ordered[stays:])


def _under_nominal(hunt: Hunt) -> bool:
    queue = hunt.queue
    return all(queue.usage.get(fr, 0) < queue.nominal(fr) for fr in hunt.contested)


def _attempt(
    hunt: Hunt, by_place: Candidates, by_priority: Candidates, own: Candidates, may_borrow: bool
) -> list[Target]:
    if _is_plain(hunt):
        others = by_place or by_priority  # of one cohort all are of one kind
        return [Target(item, rule) for (_, item), rule, _, _ in enough_of(hunt, others, own, may_borrow)]
    parts = (by_place, by_priority, own)
    # All that are being evicted already before all others.
    return _one_by_one(hunt, chain(*(p.leaving for p in parts), *(p.staying for p in parts)), may_borrow)


def _is_plain(hunt: Hunt) -> bool:
    """Whether amounts just add up, and candidates of other queues come from one cohort only."""
    root = hunt.queue.parent
    return hunt.placeable is None and root is not None and root.plain and root.parent is None


def _one_by_one(hunt: Hunt, sequence: Iterable[Candidate], may_borrow: bool) -> list[Target]:
    targets: list[Target] = []
    for candidate in sequence:
        if not _still_legal(hunt, candidate, may_borrow):
            continue
        (_, item), rule, _, _ = candidate
        hunt.remove(item)
        targets.append(Target(item, rule))
        if hunt.fits(may_borrow):
            targets = fill_back(hunt, targets, may_borrow)
            _restore(hunt, targets)
            return targets
    _restore(hunt, targets)
    return []


def _still_legal(hunt: Hunt, candidate: Candidate, may_borrow: bool) -> bool:
    """A queue, or a subtree below the common ancestor, that is back within its quota gives up nothing more."""
    (_, item), rule, without_borrowing, lca = candidate
    queue = item.queue
    if queue is hunt.queue:
        return rule is Rule.IN_QUEUE
    if may_borrow and without_borrowing:
        return False
    assert queue is not None
    if queue.within_nominal(hunt.contested):
        return False
    for cohort in queue.ancestors():
        if cohort is lca:
            return True
        if cohort.within_nominal(hunt.contested):
            return False
    return True


def _restore(hunt: Hunt, targets: list[Target]) -> None:
    for target in targets:
        hunt.restore(target.item)
