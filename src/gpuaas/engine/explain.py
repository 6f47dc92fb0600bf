"""Why a workload waits, in numbers, and what would admit it now.

One call judges the workload as if it were its turn, on the live state, and changes nothing. For each flavor and resource
it says what was asked, what the queue owns, uses and could borrow, and who holds the rest; then what would help: quota,
departures, fewer pods, more priority. The engine's decisions are `cycle`'s; this only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuaas.engine.amounts import text
from gpuaas.engine.assign import Assignment, Mode
from gpuaas.engine.items import Item, Shape
from gpuaas.engine.limits import Limit, limits_on
from gpuaas.engine.nominate import CycleContext, nominate
from gpuaas.engine.plan import no_fit_token
from gpuaas.engine.preempt import Hunt, Rule, Target, fill_back, in_order
from gpuaas.engine.queues import Queue
from gpuaas.engine.reasons import Reason, Token, TooLittleFree, TooMuch, Unfit
from gpuaas.engine.shapes import ShapePlan, plan_of
from gpuaas.engine.slices import predecessor
from gpuaas.engine.values import Millis, PodSet

_HIGHEST = 2**31 - 1  # of priorities

if TYPE_CHECKING:
    from gpuaas.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Holder:
    """A queue that uses a flavor's resource: how much, how much of that is its own, and its largest users."""

    cluster_queue: str
    used: int
    nominal: int
    largest: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """One resource in one flavor, as this workload meets it. Amounts in milli-units of cpu, else whole units."""

    pod_set: str
    flavor: str
    resource: str
    requested: int
    nominal: int
    used: int
    free: int
    """What the queue could take now, its own and borrowed."""
    borrowable: int
    """The part of `free` that is not the queue's own."""
    capacity: int
    """What it could ever take."""
    missing: int
    reason: str
    holders: tuple[Holder, ...]
    limits: tuple[Limit, ...] = ()
    """What keeps quota from it that is free."""
    held: int = 0
    """What the slice that it replaces has, and passes on: `requested` comes on top."""

    @property
    def total(self) -> int:
        return self.requested + self.held

    def asked(self) -> str:
        more = f" more than the {text(self.resource, self.held)} it has" if self.held else ""
        return f"{text(self.resource, self.requested)}{more}"

    def line(self) -> str:
        return (
            f"{self.flavor}/{self.resource}: asked {self.asked()}, free "
            f"{text(self.resource, self.free)} (nominal {text(self.resource, self.nominal)}, used "
            f"{text(self.resource, self.used)}, borrowable {text(self.resource, self.borrowable)})"
        )


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way in which the workload would be admitted now."""

    kind: str
    """`Nothing`, `Quota`, `Limit`, `Departures`, `FewerPods`, `Priority`."""
    words: str
    amounts: tuple[tuple[str, str, int], ...] = ()
    keys: tuple[str, ...] = ()
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    key: str
    state: str
    """`Admitted`, `Evicting` or `Pending`."""
    cluster_queue: str | None
    token: Token | None
    message: str
    position: int | None = None
    """How many go before it in its ClusterQueue."""
    first: str = ""
    """Which goes first there."""
    local_position: int | None = None
    parked: bool = False
    """It was tried, and waits for something to change."""
    victims: tuple[tuple[str, Rule], ...] = ()
    """Who would have to leave, where preemption would admit it."""
    numbers: tuple[Numbers, ...] = ()
    remedies: tuple[Remedy, ...] = ()


def explain(item: Item, engine: Engine, cycle_context: CycleContext, now: Millis) -> Explanation:
    queue = item.queue
    if queue is None:
        return Explanation(item.key, "Pending", None, Token.QUEUE_MISSING, _missing_queue(item, engine))
    engine.forest.settle(queue)
    if item.reserved:
        state = "Evicting" if item.evicted else "Admitted"
        return Explanation(item.key, state, queue.name, None, f"Quota reserved in ClusterQueue {queue.name}")
    order = queue.pending.ordered()
    position = order.index(item)
    local = sum(1 for other in order[:position] if other.workload.queue_key == item.workload.queue_key)
    token, message, numbers, victims, remedies = _judge(item, queue, engine, cycle_context, now, position)
    return Explanation(
        item.key, "Pending", queue.name, token, message, position, order[0].key, local, queue.pending.waits_inactive(item),
        victims, numbers, remedies,
    )  # fmt: skip


_Judged = tuple[Token, str, tuple[Numbers, ...], tuple[tuple[str, Rule], ...], tuple[Remedy, ...]]


def _judge(
    item: Item, queue: Queue, engine: Engine, cycle_context: CycleContext, now: Millis, position: int
) -> _Judged:
    if queue.inactive is not None:
        return Token.QUEUE_STOPPED, f"ClusterQueue {queue.name} is inactive", (), (), ()
    workload = item.workload
    if workload.parked or (workload.requeue_at is not None and workload.requeue_at > now):
        until = "until it is let in again" if workload.parked else f"for {(workload.requeue_at or 0) - now} ms more"
        return Token.BACKING_OFF, f"The workload backs off {until}", (), (), ()
    refusal = engine.refusal(item)
    if refusal is not None:
        return refusal[0], refusal[1], (), (), ()
    last, item.last = item.last, None
    assignment, targets = nominate(item, queue, cycle_context)
    item.last = last
    numbers = tuple(_numbers(item, queue, assignment, cycle_context))
    if assignment.mode is Mode.FIT:
        words = "It fits now" if position == 0 else f"It fits now, behind {position} other(s) in its queue"
        return Token.BEHIND_OTHERS, words, numbers, (), (Remedy("Nothing", "its turn"),)
    victims = tuple((target.item.key, target.rule) for target in targets)
    if victims:
        token = Token.WAITING_FOR_PREEMPTED
    else:
        token = no_fit_token(assignment) if assignment.mode is Mode.NO_FIT else _preempt_token(assignment)
    remedies = tuple(_remedies(item, queue, cycle_context))
    if token is Token.WAITING_FOR_QUOTA and _places_matter(item, queue, cycle_context):
        alone = _without(item, queue, cycle_context, places=True)
        if _lacks_place(alone):
            kept = tuple(each for each in remedies if each.kind in ("FewerPods", "Priority"))
            return Token.TOPOLOGY, alone.message(), numbers, victims, kept
    return token, assignment.message(), numbers, victims, remedies


def _preempt_token(assignment: Assignment) -> Token:
    return Token.TOPOLOGY if _lacks_place(assignment) else Token.WAITING_FOR_QUOTA


def _lacks_place(assignment: Assignment) -> bool:
    return any(r.token is Token.TOPOLOGY for choice in assignment.sets for r in choice.reasons)


def _without(item: Item, queue: Queue, cycle_context: CycleContext, *, places: bool) -> Assignment:
    """The assignment in an empty tree; with `places`, on empty nodes as well."""
    hunt = _hunt(item, queue, frozenset(), {}, cycle_context) if places else Hunt(item, queue, frozenset(), {})
    others = [other for each in (queue.tree.queues if queue.tree else ()) for other in each.running.values()]
    for other in others:
        hunt.remove(other)
    found = _try(item, queue, cycle_context, item.priority, item.workload.pod_sets)[0]
    for other in others:
        hunt.restore(other)
    return found


def _missing_queue(item: Item, engine: Engine) -> str:
    local = engine.local_queues.get(item.workload.queue_key)
    if local is None:
        return f"LocalQueue {item.workload.queue} doesn't exist"
    if local.cluster_queue not in engine.forest.queues:
        return f"ClusterQueue {local.cluster_queue} doesn't exist"
    return f"LocalQueue {item.workload.queue} is inactive"


def _numbers(item: Item, queue: Queue, assignment: Assignment, cycle_context: CycleContext) -> Iterator[Numbers]:
    plan = plan_of(item.shape, queue, cycle_context.flavors, cycle_context.places, cycle_context.ignore_undeclared)
    reasons = [r for choice in assignment.sets for r in choice.reasons]
    totals = _beyond(item, queue, plan, cycle_context)
    for group in plan.groups:
        names = "+".join(plan.pod_sets[index].name for index in group.members)
        for scan in group.scans:
            for option in scan.options:
                for resource, fr in option.frs:
                    requested = sum(totals[index].get(resource, 0) for index in group.members)
                    held = sum(plan.totals[index].get(resource, 0) for index in group.members) - requested
                    why = option.unfit or _why(reasons, option.flavor, resource)
                    yield replace(_numbers_of(names, queue, fr, requested, why, cycle_context), held=held)


def _beyond(item: Item, queue: Queue, plan: ShapePlan, cycle_context: CycleContext) -> tuple[dict[str, int], ...]:
    """What each pod set asks for, beyond what the slice it replaces has."""
    before = predecessor(item, queue, cycle_context.items) if item.workload.replaces else None
    return plan.totals if before is None else before.beyond(plan.pod_sets, plan.totals)


def _numbers_of(names: str, queue: Queue, fr: int, requested: int, why: str, cycle_context: CycleContext) -> Numbers:
    flavor, resource = cycle_context.frs.pair(fr)
    nominal, used = queue.nominal(fr), queue.usage.get(fr, 0)
    free = max(0, queue.available(fr))
    return Numbers(
        pod_set=names,
        flavor=flavor,
        resource=resource,
        requested=requested,
        nominal=nominal,
        used=used,
        free=free,
        borrowable=max(0, free - max(0, nominal - used)),
        capacity=queue.potential.get(fr, 0),
        missing=max(0, requested - free),
        reason=why,
        holders=_holders(queue, fr),
        limits=tuple(limits_on(queue, fr)),
    )


def _why(reasons: list[Reason], flavor: str, resource: str) -> str:
    for reason in reasons:
        if isinstance(reason, TooMuch | TooLittleFree) and (reason.flavor, reason.resource) == (flavor, resource):
            return reason.message
        if isinstance(reason, Unfit) and reason.flavor == flavor:
            return reason.message
    return ""


def _holders(queue: Queue, fr: int) -> tuple[Holder, ...]:
    """The queues of the tree that use it, the greatest first, with their five largest workloads."""
    found = []
    for other in queue.tree.queues if queue.tree is not None else ():
        used = other.usage.get(fr, 0)
        if used > 0:
            items = sorted(((i.usage.get(fr, 0), i.key) for i in other.running.values()), key=lambda u: (-u[0], u[1]))
            largest = tuple((key, amount) for amount, key in items[:5] if amount)
            found.append(Holder(other.name, used, other.nominal(fr), largest))
    return tuple(sorted(found, key=lambda h: (-h.used, h.cluster_queue)))


def _remedies(item: Item, queue: Queue, cycle_context: CycleContext) -> Iterator[Remedy]:
    room = _room(item, queue, cycle_context)
    missing = {fr: amount - max(0, queue.available(fr)) for fr, amount in room.items()}
    lacking = tuple((*cycle_context.frs.pair(fr), amount) for fr, amount in missing.items() if amount > 0)
    if lacking:
        words = ", ".join(
            f"{text(resource, amount)} more {resource} in {flavor}" for flavor, resource, amount in lacking
        )
        if not _places_matter(item, queue, cycle_context) or not _lacks_place(
            _without(item, queue, cycle_context, places=False)
        ):
            higher_limits = _higher_limits(queue, missing, cycle_context)
            if higher_limits is not None:
                yield higher_limits
            yield Remedy("Quota", words, lacking)
        leaving = _departures(
            item, queue, room, frozenset(fr for fr, amount in missing.items() if amount > 0), cycle_context
        )
        if leaving:
            keys = tuple(target.item.key for target in leaving)
            yield Remedy("Departures", f"{len(keys)} workload(s) leaving: {', '.join(keys)}", keys=keys)
    fewer = _fewer_pods(item, queue, cycle_context)
    if fewer is not None:
        yield fewer
    higher = _priority(item, queue, cycle_context)
    if higher is not None:
        yield higher


def _higher_limits(queue: Queue, missing: dict[int, int], cycle_context: CycleContext) -> Remedy | None:
    """What is free already, if only limits keep it away."""
    words = []
    for fr, amount in missing.items():
        flavor, resource = cycle_context.frs.pair(fr)
        limit = next((each for each in limits_on(queue, fr) if each.keeps >= amount), None)
        if amount > 0 and limit is None:
            return None
        if amount > 0 and limit is not None:
            higher, now = text(resource, limit.amount + amount), text(resource, limit.amount)
            words.append(f"a {limit.field} of {higher} instead of {now} {resource} in {flavor} of {limit.owner}")
    return Remedy("Limit", ", ".join(words))


def _places_matter(item: Item, queue: Queue, cycle_context: CycleContext) -> bool:
    return plan_of(item.shape, queue, cycle_context.flavors, cycle_context.places, cycle_context.ignore_undeclared).tas


def _room(item: Item, queue: Queue, cycle_context: CycleContext) -> dict[int, int]:
    """What the workload would take of the flavors that lack least; nothing if some pods can use no flavor at all."""
    plan = plan_of(item.shape, queue, cycle_context.flavors, cycle_context.places, cycle_context.ignore_undeclared)
    room: dict[int, int] = {}
    totals = _beyond(item, queue, plan, cycle_context)
    before = predecessor(item, queue, cycle_context.items) if item.workload.replaces else None
    for group in plan.groups:
        if group.uncovered:
            return {}
        asked = {r: sum(totals[index].get(r, 0) for index in group.members) for s in group.scans for r in s.resources}
        members = [plan.pod_sets[index] for index in group.members]
        for scan in group.scans:
            options = [
                {fr: room.get(fr, 0) + asked[resource] for resource, fr in option.frs}
                for option in scan.options
                if not option.unfit
                and not (before and any(before.keeps_from(option.flavor, members, r) for r, _ in option.frs))
            ]
            if not options:
                return {}
            least = min(options, key=lambda wanted: _lacking(wanted, queue))
            room.update(least)
    return room


def _lacking(wanted: dict[int, int], queue: Queue) -> tuple[int, int]:
    """First what no departure could ever give, then what is missing now."""
    never = sum(max(0, amount - queue.potential.get(fr, 0)) for fr, amount in wanted.items())
    return never, sum(max(0, amount - max(0, queue.available(fr))) for fr, amount in wanted.items())


def _departures(
    item: Item, queue: Queue, room: dict[int, int], contested: frozenset[int], cycle_context: CycleContext
) -> list[Target]:
    """Whose leaving would make room, whatever the policies say: found as victims are, spared as they are."""
    hunt = _hunt(item, queue, contested, room, cycle_context)
    victims = [
        victim
        for other in (queue.tree.queues if queue.tree is not None else ())
        for victim in (*other.leaving, *other.victims())
        if not contested.isdisjoint(victim[1].usage) and victim[1].key != item.workload.replaces
    ]
    taken: list[Target] = []
    fits = False
    for _, other in in_order(hunt, victims):
        hunt.remove(other)
        taken.append(Target(other, Rule.RECLAIM))
        fits = hunt.fits(may_borrow=True)
        if fits:
            taken = fill_back(hunt, taken, may_borrow=True)
            break
    for target in taken:
        hunt.restore(target.item)
    return taken if fits else []


def _hunt(
    item: Item, queue: Queue, contested: frozenset[int], room: dict[int, int], cycle_context: CycleContext
) -> Hunt:
    hunt = Hunt(item, queue, contested, room)
    hunt.take_out = lambda other: cycle_context.places.remove(other.placed)
    hunt.put_back = lambda other: cycle_context.places.add(other.placed)
    if _places_matter(item, queue, cycle_context):
        sets = item.workload.pod_sets
        hunt.placeable = lambda: _try(item, queue, cycle_context, item.priority, sets)[0].mode is Mode.FIT
    return hunt


def _fewer_pods(item: Item, queue: Queue, cycle_context: CycleContext) -> Remedy | None:
    """The most pods of the largest pod set that would fit now, the others unchanged."""
    pod_sets = item.workload.pod_sets
    index = max(range(len(pod_sets)), key=lambda i: pod_sets[i].count, default=-1)
    if index < 0 or pod_sets[index].count < 2:
        return None
    low, high = 0, pod_sets[index].count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _fits_with(item, queue, cycle_context, index, middle):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        return None
    name, count = pod_sets[index].name, pod_sets[index].count
    return Remedy("FewerPods", f"{low} instead of {count} pods in {name}", ((name, "pods", count),), number=low)


def _fits_with(item: Item, queue: Queue, cycle_context: CycleContext, index: int, count: int) -> bool:
    pod_sets: list[PodSet] = list(item.workload.pod_sets)
    changed = replace(pod_sets[index], count=count, min_count=None)
    pod_sets[index] = changed
    return _try(item, queue, cycle_context, item.priority, tuple(pod_sets))[0].mode is Mode.FIT


def _priority(item: Item, queue: Queue, cycle_context: CycleContext) -> Remedy | None:
    """The lowest priority at which it could preempt its way in now."""
    running = sorted(
        {other.priority for q in (queue.tree.queues if queue.tree else ()) for other in q.running.values()}
    )
    for priority in (p + 1 for p in running if item.priority <= p < _HIGHEST):
        if _try(item, queue, cycle_context, priority, item.workload.pod_sets)[1]:
            return Remedy("Priority", f"priority {priority} instead of {item.priority}", number=priority)
    return None


def _try(
    item: Item, queue: Queue, cycle_context: CycleContext, priority: int, pod_sets: tuple[PodSet, ...]
) -> tuple[Assignment, list[Target]]:
    """Judge the workload as if it were another."""
    workload = replace(item.workload, priority=priority, pod_sets=pod_sets)
    return nominate(Item(workload, Shape(priority, pod_sets), queue), queue, cycle_context)
