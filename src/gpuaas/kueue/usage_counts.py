"""Who holds and waits for what, added up per queue: the counts and usages in the statuses of queues.

Each workload contributes to its ClusterQueue and its LocalQueue; a change takes its old contribution back and adds the
new one, so that a status costs nothing to compute however many workloads there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpuaas.base.quantity import parse_quantity
from gpuaas.engine.amounts import text
from gpuaas.kueue.pods import units
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.kueue.workloads import UNCOUNTED, queueable

View = Mapping[str, Any]
FlavorResource = tuple[str, str]


@dataclass(slots=True)
class Totals:
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    finished: int = 0
    reservation: Counter[FlavorResource] = field(default_factory=Counter)
    usage: Counter[FlavorResource] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Share:
    """What one workload contributes, and where."""

    cluster_queue: str
    local_queue: str
    pending: bool = False
    reserved: bool = False
    admitted: bool = False
    finished: bool = False
    amounts: tuple[tuple[FlavorResource, int], ...] = ()


class Tally:
    def __init__(self) -> None:
        self.cluster_queues: defaultdict[str, Totals] = defaultdict(Totals)
        self.local_queues: defaultdict[str, Totals] = defaultdict(Totals)
        self._shares: dict[str, Share] = {}

    def put(self, key: str, share: Share | None) -> tuple[Share | None, Share | None]:
        """The workload's contribution is this now; gives the one before and this one, for whom it concerns."""
        before = self._shares.pop(key, None)
        if share is not None:
            self._shares[key] = share
        if before == share:
            return None, None
        for found, sign in ((before, -1), (share, 1)):
            if found is not None:
                for totals in (self.cluster_queues[found.cluster_queue], self.local_queues[found.local_queue]):
                    _add(totals, found, sign)
        return before, share


def share_of(workload: View, cluster_queue: str, reclaims: bool = True) -> Share | None:
    """None for one that neither holds anything nor waits: it is deactivated, or something holds it back. `cluster_queue`:
    the one its LocalQueue leads to. `reclaims`: whether pods that are done give theirs back."""
    meta, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    conditions = conditions_of(workload)
    local = f"{meta['namespace']}/{spec.get('queueName', '')}"
    if is_true(conditions.get("Finished")):
        return _finished(cluster_queue, local)
    if not spec.get("active", True):
        return None  # it gives its quota back at once, whatever its pods still do
    given = status.get("admission")
    if not is_true(conditions.get("QuotaReserved")) or not given:
        requeued = conditions.get("Requeued") or {}
        told_off = requeued.get("status") == "False" and requeued.get("reason") == UNCOUNTED
        return Share(cluster_queue, local, pending=True) if queueable(workload) and not told_off else None
    done = status.get("reclaimablePods") if reclaims else None
    taken = {each["name"]: each["count"] for each in done or ()}
    sizes = {each.get("name", "main"): each.get("count", 1) for each in spec.get("podSets") or ()}
    amounts: Counter[FlavorResource] = Counter()
    for each in given.get("podSetAssignments") or ():
        count = each.get("count", 1)
        name = each.get("name", "main")
        left = max(0, min(count, sizes.get(name, count)) - taken.get(name, 0))
        for resource, amount in (each.get("resourceUsage") or {}).items():
            flavor = (each.get("flavors") or {}).get(resource)
            if flavor is not None:
                whole = units(resource, parse_quantity(amount))
                amounts[flavor, resource] += whole * left // count if count else 0
    return Share(
        given["clusterQueue"],
        local,
        reserved=True,
        admitted=is_true(conditions.get("Admitted")),
        amounts=tuple(sorted(amounts.items())),
    )


@lru_cache(4096)
def _finished(cluster_queue: str, local_queue: str) -> Share:
    """One for all of a queue: there may be many, and they differ in nothing."""
    return Share(cluster_queue, local_queue, finished=True)


def _add(totals: Totals, share: Share, sign: int) -> None:
    totals.pending += sign * share.pending
    totals.reserving += sign * share.reserved
    totals.admitted += sign * share.admitted
    totals.finished += sign * share.finished
    for fr, amount in share.amounts:
        totals.reservation[fr] += sign * amount
        if share.admitted:
            totals.usage[fr] += sign * amount


def cluster_queue_status(queue: View, totals: Totals) -> dict[str, Any]:
    borrows = bool((queue.get("spec") or {}).get("cohortName"))
    return {
        "pendingWorkloads": totals.pending,
        "reservingWorkloads": totals.reserving,
        "admittedWorkloads": totals.admitted,
        "flavorsReservation": _flavors(queue, totals.reservation, borrows),
        "flavorsUsage": _flavors(queue, totals.usage, borrows),
    }


def local_queue_status(cluster_queue: View | None, totals: Totals) -> dict[str, Any]:
    """Without its ClusterQueue nothing counts as holding quota."""
    if cluster_queue is None:
        return {"pendingWorkloads": totals.pending, "reservingWorkloads": 0, "admittedWorkloads": 0}
    return {
        "pendingWorkloads": totals.pending,
        "reservingWorkloads": totals.reserving,
        "admittedWorkloads": totals.admitted,
        "flavorsReservation": _flavors(cluster_queue, totals.reservation, None),
        "flavorsUsage": _flavors(cluster_queue, totals.usage, None),
    }


def _flavors(queue: View, used: Mapping[FlavorResource, int], borrows: bool | None) -> list[dict[str, Any]]:
    """`borrows` None: the resources have no word about borrowing at all (LocalQueues)."""
    found = []
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            resources = []
            for quota in sorted(flavor.get("resources") or (), key=lambda each: str(each["name"])):
                resource = quota["name"]
                total = used.get((flavor["name"], resource), 0)
                entry = {"name": resource, "total": text(resource, total)}
                if borrows is not None:
                    over = total - units(resource, parse_quantity(quota["nominalQuota"])) if borrows else 0
                    entry["borrowed"] = text(resource, max(0, over))
                resources.append(entry)
            found.append({"name": flavor["name"], "resources": resources})
    return found
