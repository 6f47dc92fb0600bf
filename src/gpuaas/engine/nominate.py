"""What a head could be given now, and at whose expense: flavors, victims, and reduced counts where those are allowed.

Each head is judged on the state as it stands; nothing is changed. A reduced count is searched by halving, as upstream
does: the search can miss a count that would do, because victims make "fits" jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuaas.engine.assign import Assigner, Assignment, Look, Mode, Outlook, fits_at_once
from gpuaas.engine.items import Item
from gpuaas.engine.preempt import Hunt, Known, Target, classical
from gpuaas.engine.preempt_fair import Strategy, fair
from gpuaas.engine.queues import Queue
from gpuaas.engine.shapes import PODS, ShapePlan, plan_of
from gpuaas.engine.slices import Predecessor, predecessor
from gpuaas.engine.topology import Places
from gpuaas.engine.topology_assign import place, place_after, wanted_places
from gpuaas.engine.tree import FlavorResources, Usage, lowest_fit
from gpuaas.engine.values import Flavor

Outcome = tuple[Assignment, list[Target]]


@dataclass(slots=True)
class CycleContext:
    """What every judgement needs besides the queue itself."""

    frs: FlavorResources
    flavors: Mapping[str, Flavor]
    places: Places
    strategies: tuple[Strategy, ...] | None
    """Fair sharing's; None for the classical rules."""
    ignore_undeclared: bool = False
    usage_of: Callable[[str], float] | None = None
    items: Mapping[str, Item] = field(default_factory=dict)
    """All workloads by key, those that another replaces included."""
    preemptors_first: bool = False
    """Who waits for its victims to leave goes before all others."""
    looks_again: bool = False
    """Assigns a head again without the targets that other heads took in this cycle."""
    known: Known | None = None
    """Candidates that heads found, while all of them are judged on the same state."""


def nominate(
    item: Item, queue: Queue, cycle_context: CycleContext, only: tuple[dict[str, str], ...] | None = None
) -> Outcome:
    plan = plan_of(item.shape, queue, cycle_context.flavors, cycle_context.places, cycle_context.ignore_undeclared)
    before = predecessor(item, queue, cycle_context.items) if item.workload.replaces else None
    if before is None and only is None and (item.last is None or not item.last.more_to_try()):
        found = fits_at_once(plan, queue, cycle_context.frs)
        if found is not None:
            return found, []
    return Nominator(item, queue, plan, cycle_context, only, before).outcome()


class Nominator:
    __slots__ = ("_assigner", "_found", "cycle_context", "item", "plan", "queue")

    def __init__(
        self,
        item: Item,
        queue: Queue,
        plan: ShapePlan,
        cycle_context: CycleContext,
        only: tuple[dict[str, str], ...] | None,
        before: Predecessor | None,
    ) -> None:
        self.item = item
        self.queue = queue
        self.cycle_context = cycle_context
        self.plan = plan
        self._assigner = Assigner(
            self.plan, queue, cycle_context.frs, self._oracle, cycle_context.strategies is not None
        )
        self._assigner.last = item.last
        self._assigner.only = only
        self._assigner.before = before
        self._found: dict[tuple[frozenset[int], tuple[tuple[int, int], ...]], list[Target]] = {}

    def outcome(self) -> Outcome:
        """To be asked once."""
        assignment, targets = self._full_or_reduced()
        del self._assigner  # it asks us about victims: no ring is left to the garbage collector
        if self.plan.tas and assignment.mode is Mode.PREEMPT:
            place_after(
                assignment,
                self.plan,
                self.queue,
                self.cycle_context.frs,
                self.cycle_context.places,
                [t.item for t in targets],
            )
        return assignment, targets

    def _full_or_reduced(self) -> Outcome:
        full, targets = self._at(None)
        if targets is not None:
            return full, targets
        if self.plan.reducible:
            found = largest_feasible(
                tuple((p.count, p.count if p.min_count is None else p.min_count) for p in self.plan.pod_sets),
                self._feasible,
            )
            if found is not None:
                return found
        return full, []

    def _feasible(self, counts: tuple[int, ...]) -> Outcome | None:
        assignment, targets = self._at(counts)
        return None if targets is None else (assignment, targets)

    def _at(self, counts: tuple[int, ...] | None) -> tuple[Assignment, list[Target] | None]:
        """The assignment at these counts, and its victims; None if it cannot be had even with victims."""
        assignment = self._assigner.assign(counts)
        if self.plan.tas and assignment.mode is not Mode.NO_FIT:
            place(assignment, self.plan, self.queue, self.cycle_context.frs, self.cycle_context.places)
        if assignment.mode is Mode.FIT:
            return assignment, []
        if assignment.mode is Mode.PREEMPT:
            targets = self._victims(assignment.contested(), self._wanted(assignment), assignment)
            if targets:
                return assignment, targets
        return assignment, None

    def _wanted(self, assignment: Assignment) -> Usage:
        """What victims are to make room for. Upstream adds the pods only when it looks for flavors: not here."""
        requests = {fr: amount for fr, amount in assignment.usage.items() if amount}
        if PODS in self.queue.group_of:
            resources = self.cycle_context.frs.resource
            return {fr: amount for fr, amount in requests.items() if resources[fr] != PODS}
        return requests

    def _oracle(self, fr: int, amount: int) -> Look:
        targets = self._victims(frozenset((fr,)), {fr: amount}, None)
        if not targets:
            return Outlook.NO_CANDIDATES, lowest_fit(self.queue, fr, amount)[0]
        for target in targets:
            assert target.item.queue is not None
            target.item.queue.remove_all(target.item.usage)
        level, _ = lowest_fit(self.queue, fr, amount)
        for target in targets:
            assert target.item.queue is not None
            target.item.queue.add_all(target.item.usage)
        own = any(target.item.queue is self.queue for target in targets)
        return Outlook.PREEMPT if own else Outlook.RECLAIM, level

    def _victims(self, contested: frozenset[int], requests: Usage, assignment: Assignment | None) -> list[Target]:
        """Victims for these amounts; an assignment brings its places along, the oracle asks for quota alone."""
        placed = assignment is not None and self.plan.tas
        key = (contested, tuple(sorted(requests.items())))
        if not placed:
            known = self._found.get(key)
            if known is not None:
                return known
        cycle_context = self.cycle_context
        hunt = Hunt(
            self.item, self.queue, contested, requests, usage_of=cycle_context.usage_of, known=cycle_context.known
        )
        places = self.cycle_context.places
        hunt.take_out = lambda item: places.remove(item.placed)
        hunt.put_back = lambda item: places.add(item.placed)
        if placed:
            assert assignment is not None
            wanted = wanted_places(assignment, self.plan, self.queue, self.cycle_context.frs, places)
            hunt.placeable = lambda: places.find(wanted).failure is None
        strategies = self.cycle_context.strategies
        targets = classical(hunt) if strategies is None else fair(hunt, strategies, self.cycle_context.frs)
        if not placed:
            self._found[key] = targets
        return targets


def largest_feasible(
    counts: tuple[tuple[int, int], ...], feasible: Callable[[tuple[int, ...]], Outcome | None]
) -> Outcome | None:
    """The outcome at the largest counts, between (full, least), that the halving search finds feasible."""
    deltas = [full - least for full, least in counts]
    steps = sum(deltas)
    if steps == 0:
        return None
    last_good, outcome = 0, None
    low, high = 0, steps + 1
    while low < high:
        middle = (low + high) // 2
        found = feasible(tuple(full - delta * middle // steps for (full, _), delta in zip(counts, deltas, strict=True)))
        if found is None:
            low = middle + 1
        else:
            last_good, outcome, high = middle, found, middle
    return outcome if low == last_good else None
