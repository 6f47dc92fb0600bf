"""The dispatcher by fit: to which one to three clusters a workload is offered, and why each was or was not chosen.

A cluster that has room now is offered the workload alone, so that no other copy has to be removed again. Where none has
room, the three with the shortest queues get a copy each and the first to admit it wins. What was offered elsewhere and does
not show in a cluster's usage yet is subtracted from its free quota: a burst spreads instead of piling up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.quantity import Quantity, parse_quantity
from gpuaas.kueue.ledger import is_gpu

View = Mapping[str, Any]
Amounts = Mapping[str, int]
"""Nano-units by resource."""

MOST_OFFERS = 3


@dataclass(frozen=True, slots=True)
class Room:
    """The quota of the queue on a worker that a workload would go to."""

    free: Amounts
    """Of the flavor that has most of it."""
    total: Amounts
    queued: int = 0
    borrows: bool = False
    """In a cohort: more than its own quota may be had."""


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    problem: str = ""
    """Why nothing can be sent there now; empty if it can."""
    room: Room | None = None
    """None: the worker does not let us see its queues."""
    promised: Amounts = field(default_factory=dict)
    promises: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    cluster: str
    chosen: bool
    reason: str


def choose(
    needs: Amounts,
    candidates: Sequence[Candidate],
    *,
    pinned: Sequence[str] = (),
    preferred: Sequence[str] = (),
    kept: Sequence[str] = (),
) -> list[Verdict]:
    """One verdict a candidate, in their order (the order of the configuration, which is the order of their scores).
    `kept`: where it has been offered already; those stay unless they became unusable."""
    problems = {each.name: _excluded(needs, each, pinned) for each in candidates}
    able = [each for each in candidates if not problems[each.name]]
    rank = {each.name: number for number, each in enumerate(candidates)}

    def order(each: Candidate) -> tuple[Any, ...]:
        return each.name not in preferred, each.name not in kept, rank[each.name]

    fitting = sorted((each for each in able if _fits(needs, each)), key=order)
    staying = [each for each in able if each.name in kept]
    if fitting:
        first = fitting[0]
        chosen = {first.name, *(each.name for each in staying[: MOST_OFFERS - 1])}
    else:
        waiting = sorted(able, key=lambda each: (each.name not in preferred, _queue(each), rank[each.name]))
        chosen = {each.name for each in [*staying, *(e for e in waiting if e not in staying)][:MOST_OFFERS]}
    return [
        Verdict(each.name, each.name in chosen, problems[each.name] or _reason(needs, each, each.name in chosen))
        for each in candidates
    ]


def largest(candidates: Sequence[Candidate], resource: str) -> tuple[str, int] | None:
    """The cluster with the most quota for a resource, and how much that is."""
    found = [(each.name, each.room.total.get(resource, 0)) for each in candidates if each.room is not None]
    return max(found, key=lambda each: each[1], default=None)


def _excluded(needs: Amounts, each: Candidate, pinned: Sequence[str]) -> str:
    if pinned and each.name not in pinned:
        return f"not one of the clusters the job asks for: {', '.join(pinned)}"
    if each.problem:
        return each.problem
    if each.room is None or each.room.borrows:
        return ""
    for resource, amount in sorted(needs.items()):
        total = each.room.total.get(resource)
        if total is None:
            return f"its queue has no quota for {resource}"
        if amount > total:
            return f"too large: it asks for {written(amount)} {resource}, the quota there is {written(total)}"
    return ""


def _fits(needs: Amounts, each: Candidate) -> bool:
    if each.room is None:
        return not each.promises
    free = each.room.free
    return all(amount <= free.get(name, 0) - each.promised.get(name, 0) for name, amount in needs.items())


def _queue(each: Candidate) -> int:
    return each.promises + (each.room.queued if each.room is not None else 0)


def _reason(needs: Amounts, each: Candidate, chosen: bool) -> str:
    if each.room is None:
        return "its queues are not to be seen from here" + ("" if chosen else "; another comes first")
    shown = _shown(needs)
    free = max(0, each.room.free.get(shown, 0) - each.promised.get(shown, 0))
    words = f"{written(free)} of {written(each.room.total.get(shown, 0))} {shown} free, {_queue(each)} ahead"
    if chosen:
        return words
    return f"{words}; another comes first"


def _shown(needs: Amounts) -> str:
    """The resource that matters to people: GPUs, if any are asked for."""
    return min(needs, key=lambda name: (not is_gpu(name), name), default="cpu")


def written(nano: int) -> str:
    return str(Quantity(nano))


# Reading the objects.


def needs_of(workload: View) -> dict[str, int]:
    """What it holds quota for on the hub, over all pod sets."""
    found: dict[str, int] = {}
    for each in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        for resource, amount in (each.get("resourceUsage") or {}).items():
            found[resource] = found.get(resource, 0) + parse_quantity(str(amount)).nano
    return {name: amount for name, amount in found.items() if amount > 0}


def room_of(queue: View) -> Room:
    """From a worker's ClusterQueue."""
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    used: dict[tuple[str, str], int] = {}
    for flavor in status.get("flavorsReservation") or ():
        for each in flavor.get("resources") or ():
            used[flavor["name"], each["name"]] = parse_quantity(str(each.get("total", 0))).nano
    free: dict[str, int] = {}
    total: dict[str, int] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                name, quota = each["name"], parse_quantity(str(each.get("nominalQuota", 0))).nano
                free[name] = max(free.get(name, 0), quota - used.get((flavor["name"], name), 0))
                total[name] = max(total.get(name, 0), quota)
    return Room(free, total, int(status.get("pendingWorkloads") or 0), bool(spec.get("cohortName")))
