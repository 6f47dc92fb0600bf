"""Flavor assignment: which flavor each resource of each pod set would get, and whether it fits now.

Works on the tree as it is and changes nothing. Flavors are scanned in the queue's order, from where the last scan of
this workload stopped; fungibility says when to stop early. Whether preemption could help is asked of an oracle
(`preempt`), so that a flavor that needs it can be ranked; victims themselves are chosen later. Topology is the last
word and lives in `topology`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from gpuaas.engine.items import Item, ScanMemory
from gpuaas.engine.queues import Queue
from gpuaas.engine.reasons import Reason, TooLittleFree, TooMuch, Unfit
from gpuaas.engine.shapes import PodGroup, Scan, ShapePlan
from gpuaas.engine.slices import Predecessor
from gpuaas.engine.tree import FlavorResources, Usage, lowest_fit
from gpuaas.engine.values import Fungibility, PodSet, PodSetAdmission, Preemption


class Mode(IntEnum):
    """How an assignment can be had; the worst pod set decides."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


class Outlook(IntEnum):
    """How one flavor looks, finer than `Mode`: later is better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Look = tuple[int, int]
"""(outlook, borrowing level)"""

Oracle = Callable[[int, int], Look]
"""(flavor-resource, amount) to how preemption for just that looks, and the level after it."""

BEST: Look = (Outlook.FIT, 0)
WORST: Look = (Outlook.NO_FIT, 1 << 62)

Domains = tuple[tuple[tuple[str, ...], int], ...]


class Attempt(NamedTuple):
    """A flavor that was looked at and did not simply fit within the queue's own quota."""

    flavor: str
    outlook: int
    level: int
    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        words = [_OUTLOOKS[self.outlook], *([f"borrow={self.level}"] if self.level else [])]
        return f"{self.flavor}({';'.join((*words, *sorted(reason.message for reason in self.reasons)))})"


_OUTLOOKS: dict[int, str] = {
    Outlook.NO_FIT: "NoFit",
    Outlook.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Outlook.PREEMPT: "preemptionMode=Preempt",
    Outlook.RECLAIM: "preemptionMode=Reclaim",
    Outlook.FIT: "Fit",
}


class SetChoice:
    """What one pod set would get."""

    __slots__ = (
        "amounts",
        "attempts",
        "count",
        "delayed",
        "domains",
        "error",
        "frs",
        "index",
        "kept",
        "pod_set",
        "preempting",
        "reasons",
    )

    def __init__(self, index: int, pod_set: PodSet, count: int) -> None:
        self.index = index
        self.pod_set = pod_set
        self.count = count
        self.frs: dict[str, int] = {}
        self.amounts: dict[str, int] = {}
        self.preempting: set[str] = set()
        """Resources that need preemption."""
        self.reasons: list[Reason] = []
        self.attempts: list[Attempt] = []
        self.error = ""
        self.domains: Domains | None = None
        self.kept: tuple[str, Domains] | None = None
        """Flavor and places of the pods that run already, those of the slice it replaces."""
        self.delayed = False

    @property
    def mode(self) -> Mode:
        if self.error:
            return Mode.NO_FIT
        if not self.reasons:
            return Mode.FIT
        if not self.frs:
            return Mode.NO_FIT
        return Mode.PREEMPT if self.preempting else Mode.FIT

    def admission(self, frs: FlavorResources) -> PodSetAdmission:
        return PodSetAdmission(
            self.pod_set.name,
            tuple((resource, frs.flavor[fr]) for resource, fr in self.frs.items()),
            tuple((resource, self.amounts.get(resource, 0)) for resource in self.frs),
            self.count,
            self.domains,
            self.delayed,
        )


class Assignment:
    __slots__ = ("given", "level", "mode", "replaced", "sets", "tried", "usage")

    def __init__(self) -> None:
        self.mode = Mode.FIT
        self.level = 0
        """How high in the tree the borrowed quota comes from; 0 when nothing is borrowed."""
        self.usage: Usage = {}
        """What it takes; beyond what the one it replaces has, where it replaces one."""
        self.replaced: Item | None = None
        self.sets: list[SetChoice] = []
        self.tried: list[dict[str, int]] = []
        self.given: tuple[PodSetAdmission, ...] | None = None
        """The same in an admission's form, computed on first use."""

    def remember(self, queue: Queue, cycle: int) -> ScanMemory:
        return ScanMemory(tuple(self.tried), queue.generation, cycle)

    def whole_usage(self) -> Usage:
        """What it holds once it is admitted."""
        if self.replaced is None:
            return self.usage
        whole: Usage = {}
        for choice in self.sets:
            for resource, fr in choice.frs.items():
                whole[fr] = whole.get(fr, 0) + choice.amounts.get(resource, 0)
        return whole

    def contested(self) -> frozenset[int]:
        """The flavor-resources that need preemption."""
        return frozenset(c.frs[resource] for c in self.sets for resource in c.preempting)

    def admission(self, frs: FlavorResources) -> tuple[PodSetAdmission, ...]:
        if self.given is None:
            self.given = tuple(choice.admission(frs) for choice in self.sets)
        return self.given

    def considered(self) -> str:
        """The flavors that did not simply fit, in upstream's words."""
        said = (
            f"{choice.pod_set.name}: {', '.join(map(str, sorted(choice.attempts, key=lambda each: each.flavor)))}"
            for choice in self.sets
            if choice.attempts
        )
        return " | ".join(said)

    def message(self) -> str:
        parts = []
        for choice in self.sets:
            if choice.error:
                return f"failed to assign flavors to pod set {choice.pod_set.name}: {choice.error}"
            if choice.reasons:
                words = ", ".join(sorted(reason.message for reason in choice.reasons))
                parts.append(f"couldn't assign flavors to pod set {choice.pod_set.name}: {words}")
        return "; ".join(parts)


def fits_at_once(plan: ShapePlan, queue: Queue, frs: FlavorResources) -> Assignment | None:
    """The assignment when the first flavor of the only resource group has room within the queue's own quota.

    The common case, and one whose outcome is the same object every time: nothing of it depends on usage.
    """
    option = plan.only_option
    if option is None or option.unfit:
        return None
    amounts = plan.totals[0]
    subtree, usage, potential = queue.subtree, queue.usage, queue.potential
    for resource, fr in option.frs:
        amount = amounts[resource]
        if usage.get(fr, 0) + amount > subtree.get(fr, 0) or amount > potential.get(fr, 0):
            return None
        if amount and amount > queue.available(fr):
            return None
    found = plan.at_once
    if found is None:
        found = plan.at_once = _at_once(plan, frs)
    return found


def _at_once(plan: ShapePlan, frs: FlavorResources) -> Assignment:
    found = Assignment()
    choice = SetChoice(0, plan.pod_sets[0], plan.pod_sets[0].count)
    option = plan.only_option
    assert option is not None
    choice.amounts = plan.totals[0]
    choice.frs = dict(option.frs)
    found.usage = {fr: choice.amounts[resource] for resource, fr in option.frs}
    found.sets = [choice]
    tried = -1 if len(plan.groups[0].scans[0].options) == 1 else 0
    found.tried = [dict.fromkeys(choice.frs, tried)]
    found.admission(frs)
    return found


class Assigner:
    """Assigns flavors to one workload in one queue; asked again for each reduced count under partial admission."""

    __slots__ = ("_borrow_preempts", "_frs", "_oracle", "_queue", "before", "last", "only", "plan")

    def __init__(self, plan: ShapePlan, queue: Queue, frs: FlavorResources, oracle: Oracle, fair: bool) -> None:
        self.plan = plan
        self.last: ScanMemory | None = None
        self.only: tuple[dict[str, str], ...] | None = None
        """Flavors nominated earlier in this cycle, per pod set and resource: a second look keeps to them."""
        self.before: Predecessor | None = None
        """The slice it replaces."""
        self._queue = queue
        self._frs = frs
        self._oracle = oracle
        policy = queue.spec.preemption
        self._borrow_preempts = policy.borrow_within_cohort or (fair and policy.reclaim is not Preemption.NEVER)

    def assign(self, counts: tuple[int, ...] | None = None) -> Assignment:
        plan = self.plan
        amounts = plan.totals if counts is None else plan.amounts(counts)
        needs = amounts if self.before is None else self.before.beyond(plan.pod_sets, amounts)
        result = Assignment()
        result.replaced = None if self.before is None else self.before.item
        choices = [
            SetChoice(index, pod_set, pod_set.count if counts is None else counts[index])
            for index, pod_set in enumerate(plan.pod_sets)
        ]
        for group in plan.groups:
            if not self._assign_group(group, choices, amounts, needs, result):
                break
        result.mode = min((choice.mode for choice in result.sets), default=Mode.NO_FIT)
        return result

    def _assign_group(
        self,
        group: PodGroup,
        choices: list[SetChoice],
        amounts: tuple[dict[str, int], ...],
        needs: tuple[dict[str, int], ...],
        result: Assignment,
    ) -> bool:
        """Choose flavors for a group; False ends the assignment: the workload fits nowhere."""
        members = group.members
        asked = needs[members[0]] if len(members) == 1 else _summed(needs, members)
        reasons: list[Reason] = []
        attempts: list[Attempt] = []
        chosen: dict[str, _Chosen] | None = {}
        if group.uncovered:
            chosen = None
            reasons.append(Unfit(f"resource {group.uncovered} unavailable in ClusterQueue"))
        for scan in group.scans if chosen is not None else ():
            found, why = self._scan(scan, members, asked, result.usage, attempts)
            reasons = why if not found else reasons + why
            if not found:
                chosen = None
                break
            chosen |= found  # type: ignore[operator]
        for index in members:
            choice = choices[index]
            choice.reasons = reasons
            choice.attempts = attempts
            if chosen:
                self._take(choice, chosen, amounts[index], needs[index], result)
            result.tried.append({r: chosen[r].tried for r in choice.frs} if chosen else {})
            result.sets.append(choice)
        return chosen is not None

    def _take(
        self,
        choice: SetChoice,
        chosen: dict[str, _Chosen],
        amounts: dict[str, int],
        needs: dict[str, int],
        result: Assignment,
    ) -> None:
        choice.amounts = amounts
        own = amounts or (chosen if choice.pod_set.topology and choice.pod_set.topology.group else {})
        for resource in own:
            found = chosen.get(resource)
            if found is None:
                continue
            choice.frs[resource] = found.fr
            if found.outlook != Outlook.FIT:
                choice.preempting.add(resource)
            if found.level > result.level:
                result.level = found.level
            result.usage[found.fr] = result.usage.get(found.fr, 0) + needs.get(resource, 0)

    def _scan(
        self, scan: Scan, members: tuple[int, ...], asked: dict[str, int], assumed: Usage, attempts: list[Attempt]
    ) -> tuple[dict[str, _Chosen], list[Reason]]:
        """The best flavor of the group for these amounts, nothing if none will do; and why not the others."""
        rules = self._queue.spec.fungibility
        best: dict[str, _Chosen] = {}
        best_look = WORST
        reasons: list[Reason] = []
        start, last = self._resume(members[0], scan.resources[0]), len(scan.options) - 1
        attempted = -1
        for index in range(start, last + 1):
            attempted = index
            option = scan.options[index]
            unfit = option.unfit or self._not_nominated(option.flavor, members, scan.resources[0])
            if unfit:
                reasons.append(Unfit(unfit, option.flavor))
                attempts.append(Attempt(option.flavor, Outlook.NO_FIT, 0, (reasons[-1],)))
                continue
            look, level, before = BEST, 0, len(reasons)
            found: dict[str, _Chosen] = {}
            for resource, fr in option.frs:
                if self.before is not None and (words := self._not_the_same(option.flavor, members, resource)):
                    look = WORST
                    reasons.append(Unfit(words, option.flavor))
                seen = self._look(fr, assumed.get(fr, 0), asked[resource], reasons)
                level = max(level, seen[1])
                if _preferred(look, seen, rules):
                    look = seen
                if look[0] != Outlook.NO_FIT:
                    found[resource] = _Chosen(fr, seen[0], seen[1])
            if level or look[0] != Outlook.FIT:
                attempts.append(Attempt(option.flavor, look[0], level, tuple(reasons[before:])))
            if not _goes_on(look, rules):
                best, best_look = found, look
                break
            if _preferred(look, best_look, rules):
                best, best_look = found, look
        tried = -1 if attempted == last else attempted
        for choice in best.values():
            choice.tried = tried
        return best, [] if best_look[0] == Outlook.FIT else reasons

    def _resume(self, pod_set: int, resource: str) -> int:
        last = self.last
        if last is None or pod_set >= len(last.tried):
            return 0
        return last.tried[pod_set].get(resource, -1) + 1

    def _not_the_same(self, flavor: str, members: tuple[int, ...], resource: str) -> str:
        assert self.before is not None
        return self.before.keeps_from(flavor, [self.plan.pod_sets[index] for index in members], resource)

    def _not_nominated(self, flavor: str, members: tuple[int, ...], resource: str) -> str:
        if self.only is None or any(self.only[index].get(resource) == flavor for index in members):
            return ""
        return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"

    def _look(self, fr: int, assumed: int, requested: int, reasons: list[Reason]) -> Look:
        """How one resource fares in one flavor, on top of what earlier pod sets of the workload would take."""
        queue = self._queue
        amount = assumed + requested
        capacity = queue.potential.get(fr, 0)
        if amount > capacity:
            flavor, resource = self._frs.pair(fr)
            reasons.append(TooMuch(flavor, resource, assumed, requested, capacity))
            return Outlook.NO_FIT, 0
        level, reclaimable = lowest_fit(queue, fr, amount)
        free = queue.available(fr)
        if amount <= free or amount == 0:
            return Outlook.FIT, level
        flavor, resource = self._frs.pair(fr)
        reasons.append(TooLittleFree(flavor, resource, amount - max(0, free), amount))
        if queue.nominal(fr) >= amount or reclaimable or self._borrow_preempts:
            return self._oracle(fr, amount)
        return Outlook.NO_FIT, level


class _Chosen:
    __slots__ = ("fr", "level", "outlook", "tried")

    def __init__(self, fr: int, outlook: int, level: int) -> None:
        self.fr = fr
        self.outlook = outlook
        self.level = level
        self.tried = -1


def _preferred(a: Look, b: Look, rules: Fungibility) -> bool:
    """Whether look `a` is strictly better than `b` under the queue's preference."""
    if a[0] == Outlook.NO_FIT:
        return False
    if b[0] == Outlook.NO_FIT:
        return True
    if (a[0] == Outlook.NO_CANDIDATES) != (b[0] == Outlook.NO_CANDIDATES):
        return b[0] == Outlook.NO_CANDIDATES
    if rules.preempt_before_borrow:
        return a[1] < b[1] if a[1] != b[1] else a[0] > b[0]
    return a[0] > b[0] if a[0] != b[0] else a[1] < b[1]


def _goes_on(look: Look, rules: Fungibility) -> bool:
    """Whether the scan looks at the next flavor after one that looks like this."""
    outlook, level = look
    if outlook <= Outlook.NO_CANDIDATES:
        return True
    if outlook < Outlook.FIT and not rules.preempt_stops:
        return True
    return level > 0 and not rules.borrow_stops


def _summed(amounts: tuple[dict[str, int], ...], members: tuple[int, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for index in members:
        for resource, amount in amounts[index].items():
            total[resource] = total.get(resource, 0) + amount
    return total
