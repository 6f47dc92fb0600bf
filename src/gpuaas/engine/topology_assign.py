"""What places make of an assignment: the last word on whether it fits.

Quota that fits without a place for the pods needs preemption; pods that would find no place even if
everybody left fit nowhere. Choosing places is `topology`'s and `topology_fit`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuaas.engine.assign import Assignment, Mode, SetChoice
from gpuaas.engine.items import Item
from gpuaas.engine.queues import Queue
from gpuaas.engine.reasons import Token, Unfit
from gpuaas.engine.shapes import ShapePlan
from gpuaas.engine.topology import Found, Placed, Places, placement_of, with_pod
from gpuaas.engine.topology_fit import Ask, Domains
from gpuaas.engine.tree import FlavorResources
from gpuaas.engine.values import PodSet, PodSetAdmission

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"

NO_PLACES_KNOWN = "workload requires Topology, but there is no TAS cache information"
NO_TAS_FLAVOR = "no TAS flavor assigned"

Asks = dict[str, list[Ask]]


def place(assignment: Assignment, plan: ShapePlan, queue: Queue, frs: FlavorResources, places: Places) -> None:
    """Find places for an assignment whose quota fits or could be freed; its mode says what came of it."""
    asks = wanted_places(assignment, plan, queue, frs, places)
    if any(choice.error for choice in assignment.sets):
        assignment.mode = Mode.NO_FIT
        return
    if assignment.mode is Mode.FIT:
        found = places.find(asks)
        if found.failure is None:
            _settle(assignment, found, places)
        else:
            index, flavor, words = found.failure
            choice = _choice(assignment, index)
            choice.reasons = [*choice.reasons, Unfit(words, flavor, Token.TOPOLOGY)]
            choice.preempting = set(choice.frs)
            assignment.mode = Mode.PREEMPT
    if assignment.mode is Mode.PREEMPT:
        if places.find(asks, empty=True).failure is not None:
            assignment.mode = Mode.NO_FIT
            return
        for ask in (ask for group in asks.values() for ask in group):
            choice = _choice(assignment, ask.index)
            choice.preempting = set(choice.frs)


def place_after(
    assignment: Assignment, plan: ShapePlan, queue: Queue, frs: FlavorResources, places: Places, leaving: list[Item]
) -> None:
    """Places to keep for a workload that has to wait: those of its preemption targets, or any on empty nodes."""
    asks = wanted_places(assignment, plan, queue, frs, places)
    for item in leaving:
        places.remove(item.placed)
    found = places.find(asks, empty=not leaving)
    for item in leaving:
        places.add(item.placed)
    _settle(assignment, found, places)


def wanted_places(assignment: Assignment, plan: ShapePlan, queue: Queue, frs: FlavorResources, places: Places) -> Asks:
    asks: Asks = {}
    for choice in assignment.sets:
        request = choice.pod_set.topology
        explicit = request is not None and request.explicit
        if not (explicit or plan.implied) or choice.error or choice.count == 0 or choice.domains is not None:
            continue
        if choice.pod_set.requests and not choice.frs:
            continue  # it asks for none of what the queue has, and only for nothing of the rest
        flavors = sorted({f for fr in choice.frs.values() if places.has_places(f := frs.flavor[fr])})
        if len(flavors) != 1:
            choice.error = _not_one(flavors, queue, places)
            continue
        if _delayed(queue, flavors[0]):
            choice.delayed = True
            continue
        more = choice.count - _keep(choice, assignment, flavors[0], places)
        if more <= 0 and choice.kept is not None:
            choice.domains = first_of(choice.kept[1], choice.count)
            continue
        requests = with_pod(placement_of(choice.pod_set))
        asks.setdefault(flavors[0], []).append(
            Ask(choice.index, choice.pod_set, more, requests, flavors[0], not explicit)
        )
    return asks


def _not_one(flavors: list[str], queue: Queue, places: Places) -> str:
    """Why these flavors are not the one whose places the pods could take."""
    if flavors:
        return f"more than one TAS flavor assigned: {', '.join(flavors)}"
    known = any(places.has_places(flavor) for group in queue.groups for flavor in group.flavors)
    return NO_TAS_FLAVOR if known else NO_PLACES_KNOWN


def _keep(choice: SetChoice, assignment: Assignment, flavor: str, places: Places) -> int:
    """How many of its pods stay where they run: those of the slice it replaces, while their nodes are there."""
    before = assignment.replaced
    given = next(
        (each for each in (before.admission if before else None) or () if each.name == choice.pod_set.name), None
    )
    if given is None or not given.domains or not places.still_there(flavor, given.domains):
        return 0
    choice.kept = flavor, given.domains
    return sum(count for _, count in given.domains)


def first_of(domains: Domains, pods: int) -> Domains:
    """The first places, for as many pods."""
    found = []
    for values, count in domains:
        if pods > 0:
            found.append((values, min(count, pods)))
        pods -= count
    return tuple(found)


def place_reserved(
    item: Item, queue: Queue, places: Places, pod_sets: Mapping[str, PodSet], failed: str = ""
) -> tuple[str, str]:
    """Choose the places a reserved workload still waits for, or others for what it has on a failed node.

    `pod_sets` are as its checks left them. Gives (pod set, words) where there are none; nothing on success.
    """
    assert item.admission is not None
    asks: Asks = {}
    held: dict[int, Domains] = {}
    for index, given in enumerate(item.admission):
        flavor = next((f for _, f in given.flavors if places.has_places(f)), None)
        if not _needs_places(given, queue, failed):
            continue
        if flavor is None:
            return given.name, NO_PLACES_KNOWN
        pod_set = pod_sets[given.name]
        implied = pod_set.topology is None or not pod_set.topology.explicit
        ask = Ask(index, pod_set, given.count, with_pod(placement_of(pod_set)), flavor, implied)
        asks.setdefault(flavor, []).append(ask)
        held[index] = given.domains or ()
    found = places.relocate(asks, held, failed) if failed else places.find(asks)
    if found.failure is not None:
        index, _, words = found.failure
        return item.admission[index].name, words
    item.admission = tuple(
        replace(given, domains=found.domains[index], delayed=False) if index in found.domains else given
        for index, given in enumerate(item.admission)
    )
    places.remove(item.placed)
    item.placed = places.placed(item.workload, item.admission)
    places.add(item.placed)
    return "", ""


def _needs_places(given: PodSetAdmission, queue: Queue, failed: str) -> bool:
    if failed:
        return any(values[-1] == failed for values, _ in given.domains or ())
    return given.delayed and given.domains is None and not _elsewhere(queue)


def placed_by(assignment: Assignment, frs: FlavorResources, places: Places) -> tuple[Placed, ...]:
    """What the assignment takes of places."""
    found: list[Placed] = []
    for choice in assignment.sets:
        if choice.domains:
            flavor = next(f for fr in choice.frs.values() if places.has_places(f := frs.flavor[fr]))
            found += places.at(flavor, choice.domains, choice.pod_set)
    return tuple(found)


def _settle(assignment: Assignment, found: Found, places: Places) -> None:
    for choice in assignment.sets:
        fresh = found.domains.get(choice.index)
        if fresh is not None:
            choice.domains = fresh if choice.kept is None else places.joined(choice.kept[0], choice.kept[1], fresh)


def _choice(assignment: Assignment, index: int) -> SetChoice:
    return next(choice for choice in assignment.sets if choice.index == index)


def _delayed(queue: Queue, flavor: str) -> bool:
    """Whether places are chosen later: on another cluster, or once nodes have been provisioned."""
    return _elsewhere(queue) or any(
        check.controller == PROVISIONING and (not check.on_flavors or flavor in check.on_flavors)
        for check in queue.spec.checks
    )


def _elsewhere(queue: Queue) -> bool:
    """Whether the pods run on another cluster, which chooses their places itself."""
    return any(check.controller == MULTIKUEUE for check in queue.spec.checks)
