"""What a shape of workload means in one ClusterQueue, worked out once: which resources go together, which flavors do.

A plan holds everything of the flavor assignment that does not depend on usage: pod sets grouped, their requests summed
per resource group, and for each flavor either the numbers to look up or the reason why these pods cannot use it. It is
dropped when the queue or a flavor changes. The assignment itself is `assign`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuaas.engine.constraints import first_untolerated, flavor_matches
from gpuaas.engine.items import Shape
from gpuaas.engine.queues import CompiledGroup, Queue
from gpuaas.engine.values import Flavor, PodSet

if TYPE_CHECKING:
    from gpuaas.engine.assign import Assignment
    from gpuaas.engine.topology import Places

PODS = "pods"


class Option:
    """One flavor of a resource group: the numbers of the requested resources, or why these pods cannot use it."""

    __slots__ = ("flavor", "frs", "unfit")

    def __init__(self, flavor: str, frs: tuple[tuple[str, int], ...], unfit: str) -> None:
        self.flavor = flavor
        self.frs = frs
        self.unfit = unfit


class Scan:
    """The search for one flavor that serves all requested resources of one resource group."""

    __slots__ = ("options", "resources")

    def __init__(self, resources: tuple[str, ...], options: tuple[Option, ...]) -> None:
        self.resources = resources
        self.options = options


class PodGroup:
    """Pod sets that have to get the same flavors: one alone, or those of one topology group."""

    __slots__ = ("members", "scans", "uncovered")

    def __init__(self, members: tuple[int, ...], scans: tuple[Scan, ...], uncovered: str) -> None:
        self.members = members
        self.scans = scans
        self.uncovered = uncovered
        """A requested resource that the queue has no quota for, if any."""


class ShapePlan:
    __slots__ = ("at_once", "groups", "implied", "only_option", "pod_sets", "reducible", "requests", "tas", "totals")

    def __init__(
        self, pod_sets: tuple[PodSet, ...], queue: Queue, flavors: Mapping[str, Flavor], places: Places, ignore: bool
    ) -> None:
        self.pod_sets = pod_sets
        with_pods = PODS in queue.group_of
        self.requests = tuple(_per_pod(pod_set, with_pods) for pod_set in pod_sets)
        self.implied = places.only(queue)
        self.tas = self.implied or any(p.topology is not None and p.topology.explicit for p in pod_sets)
        self.groups = tuple(
            _pod_group(members, self.requests, pod_sets, queue, flavors, places, ignore)
            for members in _grouped(pod_sets)
        )
        self.totals = self.amounts(None)
        self.only_option = self._only_option()
        """The flavor to look at first, where one pod set asks one resource group and place does not matter."""
        self.at_once: Assignment | None = None
        self.reducible = any(p.min_count is not None and p.min_count < p.count for p in pod_sets)

    def _only_option(self) -> Option | None:
        if self.tas or len(self.pod_sets) != 1 or len(self.groups[0].scans) != 1 or self.groups[0].uncovered:
            return None
        return self.groups[0].scans[0].options[0]

    def amounts(self, counts: tuple[int, ...] | None) -> tuple[dict[str, int], ...]:
        """What each pod set asks for in all, at these counts."""
        return tuple(
            {resource: amount * count for resource, amount in requests}
            for requests, count in zip(self.requests, counts or [p.count for p in self.pod_sets], strict=True)
        )


def plan_of(shape: Shape, queue: Queue, flavors: Mapping[str, Flavor], places: Places, ignore: bool) -> ShapePlan:
    found = queue.plans.get(shape)
    if found is None:
        if len(queue.plans) > 4096:
            queue.plans.clear()
        found = queue.plans[shape] = ShapePlan(shape.pod_sets, queue, flavors, places, ignore)
    return found


def _per_pod(pod_set: PodSet, with_pods: bool) -> tuple[tuple[str, int], ...]:
    if not with_pods:
        return pod_set.requests
    return tuple(sorted([(r, a) for r, a in pod_set.requests if r != PODS] + [(PODS, 1)]))


def _grouped(pod_sets: tuple[PodSet, ...]) -> list[tuple[int, ...]]:
    groups: dict[str, list[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        name = pod_set.topology.group if pod_set.topology is not None else None
        groups.setdefault(f"={name}" if name is not None else str(index), []).append(index)
    return [tuple(members) for members in groups.values()]


def _pod_group(
    members: tuple[int, ...],
    requests: tuple[tuple[tuple[str, int], ...], ...],
    pod_sets: tuple[PodSet, ...],
    queue: Queue,
    flavors: Mapping[str, Flavor],
    places: Places,
    ignore_undeclared: bool,
) -> PodGroup:
    asked: dict[str, int] = {}
    for index in members:
        for resource, amount in requests[index]:
            asked[resource] = asked.get(resource, 0) + amount * pod_sets[index].count
    uncovered = [r for r in asked if r not in queue.group_of and asked[r]]
    scans = []
    seen: set[int] = set()
    for resource in sorted(asked):
        group = queue.group_of.get(resource)
        if group is None or id(group) in seen:
            continue
        seen.add(id(group))
        wanted = tuple(r for r in sorted(asked) if queue.group_of.get(r) is group)
        options = tuple(
            Option(
                name,
                tuple((r, group.frs[i][r]) for r in wanted),
                _unfit(flavors.get(name), name, [pod_sets[m] for m in members], queue, group, places),
            )
            for i, name in enumerate(group.flavors)
        )
        scans.append(Scan(wanted, options))
    return PodGroup(members, tuple(scans), min(uncovered) if uncovered and not ignore_undeclared else "")


def _unfit(
    flavor: Flavor | None, name: str, pod_sets: list[PodSet], queue: Queue, group: CompiledGroup, places: Places
) -> str:
    """Why the flavor cannot serve one of the pod sets, in upstream's words; empty when it can."""
    if flavor is None:
        return f"flavor {name} not found"
    labels = dict(flavor.node_labels)
    for pod_set in pod_sets:
        mismatch = places.mismatch(queue, pod_set, flavor, group.resources)
        if mismatch:
            return mismatch
        taint = first_untolerated(flavor.taints, pod_set.tolerations + flavor.tolerations)
        if taint is not None:
            return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {name}"
        if not flavor_matches(labels, pod_set.node_selector, pod_set.affinity):
            return f"flavor {name} doesn't match node affinity"
    return ""
