"""One scheduling cycle: take a head from every queue that may have one, judge them, and act in order.

Heads are nominated against the same state; then each in its turn sees what earlier ones took. An admission and a
preemption both take their room at once; a workload that needs preemption and finds no victim may keep room free. At
the end the room taken by those not admitted is given back. Only trees in which something changed are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from gpuaas.engine.assign import Assignment, Mode
from gpuaas.engine.entries import IMMEDIATE, WHOLE_SHAPE, Entry, Requeue
from gpuaas.engine.items import Item
from gpuaas.engine.nominate import CycleContext, nominate
from gpuaas.engine.order import classical_order, fair_order
from gpuaas.engine.plan import Admitted, Loan, Plan, Preempted, Skipped, no_fit_token, preemption_message
from gpuaas.engine.preempt import Known, Target
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.reasons import Token
from gpuaas.engine.topology import Placed
from gpuaas.engine.topology_assign import placed_by
from gpuaas.engine.tree import Usage
from gpuaas.engine.values import Millis, Preemption

Refusal = tuple[Token, str, Requeue]
"""Why a head is not even nominated: token, upstream's words, and how it goes back."""

NO_LONGER_FITS = "Workload no longer fits after processing another workload"
NOT_READY = "waiting for all admitted workloads to be in PodsReady condition"
OVERLAPS = "Workload has overlapping preemption targets with another workload"
UNJUDGED = "The workload cannot be judged and is set aside"
FITS_LATER = f"{OVERLAPS}, but will fit after these preemptions complete"


class Cycle:
    __slots__ = (
        "_blocked",
        "_evicted",
        "_fresh",
        "_grounds",
        "_refuse",
        "_taken",
        "_victims",
        "now",
        "plan",
        "touched",
    )

    def __init__(
        self,
        number: int,
        now: Millis,
        cycle_context: CycleContext,
        refuse: Callable[[Item, Queue], Refusal | None],
        blocked: Callable[[Item], bool],
    ) -> None:
        self.plan = Plan(number)
        self.now = now
        self._grounds = cycle_context
        self._refuse = refuse
        self._blocked = blocked
        self._taken: list[tuple[Queue, Usage, tuple[Placed, ...]]] = []
        """Room that entries keep for the rest of the cycle without being admitted."""
        self._evicted: list[Item] = []
        self._fresh: list[Item] = []
        """Admitted in this cycle: their quota is used, but they are no preemption candidates before the next cycle."""
        self._victims: dict[Tree | None, dict[str, Item]] = {}
        self.touched: set[Tree] = set()
        """Trees that are not as they were before the cycle."""

    def run(self, trees: Iterable[Tree]) -> Plan:
        entries: list[Entry] = []
        refused: list[tuple[Item, Queue, Refusal]] = []
        try:
            for tree in trees:
                self._grounds.known = Known()
                for queue in list(tree.ready.values()):
                    self._nominate_head(queue, tree, entries, refused)
                tree.evaluated = self.plan.cycle
        finally:
            self._grounds.known = None  # from here on what is decided changes the state
        strategies = self._grounds.strategies
        order = classical_order(entries) if strategies is None else fair_order(entries, self._grounds.frs)
        waiting = [entry for entry in order if not self._acted_on(entry)]
        for queue, usage, placed in self._taken:
            queue.undo_add(usage)
            self._grounds.places.remove(placed)
        for item in self._evicted:
            assert item.queue is not None
            item.queue.mark_evicted(item, "Preempted")
        for entry in waiting:
            if entry.requeue is Requeue.PENDING_PREEMPTION:
                entry.item.last = None
            else:
                self._remember(entry.item, entry.queue, entry.assignment)
            self._put_back(entry.item, entry.queue, entry.requeue)
        for item, queue, (token, words, requeue) in refused:
            self.plan.skipped.append(Skipped(item.key, queue.name, token, words))
            self._put_back(item, queue, requeue)
        return self.plan

    def _nominate_head(
        self, queue: Queue, tree: Tree, entries: list[Entry], refused: list[tuple[Item, Queue, Refusal]]
    ) -> None:
        item = queue.pending.pop() if queue.inactive is None else None
        if item is None:
            del tree.ready[queue.name]
            return
        self.plan.heads += 1
        try:
            self._judge_head(item, queue, tree, entries, refused)
        except Exception as error:
            refused.append((item, queue, (Token.MISCONFIGURED, self._fault(item, error), Requeue.GENERIC)))

    def _judge_head(
        self, item: Item, queue: Queue, tree: Tree, entries: list[Entry], refused: list[tuple[Item, Queue, Refusal]]
    ) -> None:
        refusal = self._refuse(item, queue)
        if refusal is not None:
            refused.append((item, queue, refusal))
            return
        last = item.last
        if last is not None and last.cycle < tree.evaluated and queue.generation > last.generation:
            item.last = None
        assignment, targets = nominate(item, queue, self._grounds)
        preemptor = self._grounds.preemptors_first and queue.pending.sticky is item
        entries.append(Entry(item, queue, assignment, targets, preemptor))

    def _fault(self, item: Item, error: Exception) -> str:
        """One workload that cannot be judged is set aside: it stops no other. Gives the words for its condition."""
        self.plan.faults.append((item.key, error))
        return f"{UNJUDGED}: {type(error).__name__}: {error}"

    def _acted_on(self, entry: Entry) -> bool:
        try:
            return self._process(entry)
        except Exception as error:
            entry.requeue = Requeue.GENERIC
            self._pass(entry, Token.MISCONFIGURED, self._fault(entry.item, error))
            return False

    def _remember(self, item: Item, queue: Queue, assignment: Assignment) -> None:
        """Keep how far the scan got; a scan that got elsewhere than last time is a change."""
        memory = assignment.remember(queue, self.plan.cycle)
        before = item.last
        unfinished = memory.more_to_try() or (before is not None and before.more_to_try())
        if unfinished and (before is None or before.tried != memory.tried):
            self._touch(queue)
        item.last = memory

    def _process(self, entry: Entry) -> bool:
        """Act on an entry in its turn. Says whether it left its queue."""
        if self._grounds.looks_again and self._overlaps(entry):
            self._look_again(entry)
        fits = self._refresh(entry) if self._grounds.places.topologies else None
        assignment = entry.assignment
        if assignment.mode is Mode.NO_FIT:
            entry.requeue = Requeue.NO_FIT
            self._pass(entry, no_fit_token(assignment))
            return False
        if assignment.mode is Mode.PREEMPT and not entry.targets:
            entry.requeue = Requeue.NO_CANDIDATES
            self._pass(entry, Token.WAITING_FOR_QUOTA)
            if entry.queue.spec.preemption.reclaim is not Preemption.ANY or entry.preemptor:
                self._take(entry, entry.to_reserve())
            return False
        if entry.deferred:
            entry.requeue = Requeue.PENDING_PREEMPTION
            self._pass(entry, Token.WAITING_FOR_PREEMPTED, FITS_LATER)
            self._take(entry, entry.net_usage())
            return False
        replaced = assignment.replaced
        if self._overlaps(entry) or (replaced and replaced.key in self._victims.get(entry.queue.tree, {})):
            return self._skip(entry, OVERLAPS)
        if fits is False or (fits is None and not self._fits(entry)[0]):
            return self._skip(entry, NO_LONGER_FITS)
        if assignment.mode is Mode.PREEMPT:
            self._preempt(entry)
            return False
        if not entry.second_pass and self._blocked(entry.item):
            return self._skip(entry, NOT_READY, Token.WAITING_FOR_PODS_READY)
        self._admit(entry)
        return True

    def _refresh(self, entry: Entry) -> bool:
        """Whether the entry fits by now. Where only its place was taken, look for another with the same flavors."""
        quota, place = self._fits(entry)
        if quota and not place:
            self._nominate_again(entry)
            quota, place = self._fits(entry)
        return quota and place

    def _nominate_again(self, entry: Entry) -> None:
        """With the same flavors."""
        nominated = tuple(
            {r: self._grounds.frs.flavor[fr] for r, fr in choice.frs.items()} for choice in entry.assignment.sets
        )
        entry.item.last = None
        with _out_of_sight(self._fresh):
            entry.assignment, entry.targets = nominate(entry.item, entry.queue, self._grounds, nominated)

    def _overlaps(self, entry: Entry) -> bool:
        victims = self._victims.get(entry.queue.tree, {})
        return any(target.item.key in victims for target in entry.targets)

    def _look_again(self, entry: Entry) -> None:
        """As if the victims so far were gone: it may fit then, or need others."""
        gone = [item for victims in self._victims.values() for item in victims.values()]
        with _out_of_sight(gone):
            self._count_out(gone)
            self._nominate_again(entry)
            self._count_in(gone)
        entry.deferred = entry.assignment.mode is Mode.FIT

    def _fits(self, entry: Entry) -> tuple[bool, bool]:
        """Whether quota and place allow the entry, once this cycle's victims and its own are gone."""
        if not self._victims and not entry.targets and not self._grounds.places.topologies:
            available = entry.queue.available
            return all(amount <= 0 or amount <= available(fr) for fr, amount in entry.net_usage().items()), True
        placed = placed_by(entry.assignment, self._grounds.frs, self._grounds.places)
        leaving = dict(self._victims.get(entry.queue.tree, {}))
        if placed:
            for victims in self._victims.values():
                leaving |= victims
        for target in entry.targets:
            leaving[target.item.key] = target.item
        self._count_out(leaving.values())
        queue = entry.queue
        quota = all(amount <= 0 or amount <= queue.available(fr) for fr, amount in entry.net_usage().items())
        place = quota and self._find_place(entry, placed, leaving)
        self._count_in(leaving.values())
        return quota, place

    def _find_place(self, entry: Entry, placed: tuple[Placed, ...], leaving: Mapping[str, Item]) -> bool:
        """Whether the places are free. Some are where the pods of the one it replaces run, and stay."""
        places, before = self._grounds.places, entry.assignment.replaced
        own = before.placed if before is not None and before.key not in leaving else ()
        places.remove(own)
        fits = places.fits(placed)
        places.add(own)
        return fits

    def _count_out(self, items: Iterable[Item]) -> None:
        for item in items:
            assert item.queue is not None
            item.queue.remove_all(item.usage)
            self._grounds.places.remove(item.placed)

    def _count_in(self, items: Iterable[Item]) -> None:
        for item in items:
            assert item.queue is not None
            item.queue.add_all(item.usage)
            self._grounds.places.add(item.placed)

    def _skip(self, entry: Entry, words: str, token: Token = Token.WAITING_FOR_QUOTA) -> bool:
        entry.requeue = Requeue.FAILED_AFTER_NOMINATION
        self._pass(entry, token, words)
        return False

    def _pass(self, entry: Entry, token: Token, words: str = "", waits_for: tuple[str, ...] = ()) -> None:
        self.plan.skipped.append(Skipped(entry.item.key, entry.queue.name, token, words, entry.assignment, waits_for))

    def _take(self, entry: Entry, usage: Usage) -> None:
        placed = placed_by(entry.assignment, self._grounds.frs, self._grounds.places)
        entry.queue.add_all(usage)
        self._grounds.places.add(placed)
        self._taken.append((entry.queue, usage, placed))

    def _preempt(self, entry: Entry) -> None:
        victims = self._victims.setdefault(entry.queue.tree, {})
        for target in entry.targets:
            victims[target.item.key] = target.item
            if not target.item.evicted:
                self.plan.preemptions.append(self._evict(target, entry))
                self._touch(entry.queue)
        self._take(entry, entry.net_usage())
        entry.requeue = Requeue.PENDING_PREEMPTION
        self._pass(entry, Token.WAITING_FOR_PREEMPTED, waits_for=tuple(t.item.key for t in entry.targets))

    def _evict(self, target: Target, entry: Entry) -> Preempted:
        item, by = target.item, entry.item
        queue = item.queue
        assert queue is not None
        self._evicted.append(item)
        path, by_path = _path(queue), _path(entry.queue)
        workload = by.workload
        frees = tuple((*self._grounds.frs.pair(fr), amount) for fr, amount in item.usage.items())
        message = preemption_message(workload.uid, workload.job_uid, target.rule, by_path, path)
        return Preempted(
            item.key, item.workload.uid, queue.name, target.rule, by.key, workload.uid, workload.job_uid,
            entry.queue.name, path, by_path, frees, message,
        )  # fmt: skip

    def _admit(self, entry: Entry) -> None:
        item, queue, assignment = entry.item, entry.queue, entry.assignment
        places = self._grounds.places
        item.admission = assignment.admission(self._grounds.frs)
        item.home = queue.name
        if places.topologies:
            places.remove(item.placed)
            item.placed = placed_by(assignment, self._grounds.frs, places)
            places.add(item.placed)
        queue.pending.remove(item)
        item.last = None
        if not entry.second_pass:
            item.usage = assignment.whole_usage()
            item.reserved_at = self.now
            queue.admit(item)
            self._fresh.append(item)
        loans = self._loans(entry) if assignment.level else ()
        replaced = assignment.replaced
        if replaced is not None:  # the next entries of this cycle find it gone
            self._victims.setdefault(queue.tree, {})[replaced.key] = replaced
        self.plan.admissions.append(
            Admitted(
                item.key,
                item.workload.uid,
                queue.name,
                item.admission,
                assignment.level,
                loans,
                assignment.considered(),
                "" if replaced is None else replaced.key,
            )
        )
        self._touch(queue)

    def _loans(self, entry: Entry) -> tuple[Loan, ...]:
        queue = entry.queue
        passed_on: Usage = {} if entry.assignment.replaced is None else entry.assignment.replaced.usage
        lender = next((c.name for c in queue.ancestors() if c.height >= entry.assignment.level), "")
        return tuple(
            Loan(*self._grounds.frs.pair(fr), used - queue.nominal(fr), lender)
            for fr in entry.assignment.usage
            if (used := queue.usage.get(fr, 0) - passed_on.get(fr, 0)) > queue.nominal(fr)
        )

    def _put_back(self, item: Item, queue: Queue, requeue: Requeue) -> None:
        pending = queue.pending
        pending.inflight = None
        if requeue is Requeue.PENDING_PREEMPTION and pending.sticky is not item:
            pending.sticky = item
            self._touch(queue)
        immediate = requeue is not Requeue.NAMESPACE_MISMATCH if queue.spec.strict else requeue in IMMEDIATE
        if immediate or (item.last is not None and item.last.more_to_try()):
            pending.push(item)
            return
        self._touch(queue)
        if requeue in WHOLE_SHAPE:
            pending.park(item.shape)
            pending.push(item)
            if queue.spec.namespaces != ():
                pending.hold_those(lambda other: self._in_other_namespace(other, queue), item.shape)
        else:
            pending.hold(item)
        assert queue.tree is not None
        queue.tree.waiting[queue.name] = queue

    def _in_other_namespace(self, item: Item, queue: Queue) -> bool:
        refusal = self._refuse(item, queue)
        return refusal is not None and refusal[2] is Requeue.NAMESPACE_MISMATCH

    def _touch(self, queue: Queue) -> None:
        assert queue.tree is not None
        self.touched.add(queue.tree)


@contextmanager
def _out_of_sight(items: Iterable[Item]) -> Iterator[None]:
    """Until then they are no preemption candidates."""
    queues = [(item, item.queue) for item in items if item.queue is not None]
    for item, queue in queues:
        queue.forget(item)
    try:
        yield
    finally:
        for item, queue in queues:
            queue.rank(item)


def _path(queue: Queue) -> str:
    return "/" + "/".join(node.name for node in queue.path)
