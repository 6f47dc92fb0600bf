"""Plans as the API says them: `status.admission` of a workload, and the compressed form of topology assignments.

The other direction (reading what a workload already holds) is `workloads`'. Words and reasons come from the engine as
they are; writing them is the controllers' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.engine.amounts import text
from gpuaas.engine.plan import Admitted
from gpuaas.engine.topology_fit import Domains
from gpuaas.engine.topology_values import HOSTNAME, Topology
from gpuaas.engine.values import Flavor, PodSet, PodSetAdmission


def admission(admitted: Admitted, flavors: Mapping[str, Flavor], topologies: Mapping[str, Topology]) -> dict[str, Any]:
    """The workload's `status.admission`."""
    return {
        "clusterQueue": admitted.cluster_queue,
        "podSetAssignments": [_assignment(given, flavors, topologies) for given in admitted.pod_sets],
    }


def resource_requests(pod_sets: Sequence[PodSet]) -> list[dict[str, Any]]:
    """The workload's `status.resourceRequests`: what all pods of each set ask for, while nothing is given."""
    return [
        {
            "name": each.name,
            "resources": {resource: text(resource, amount * each.count) for resource, amount in each.requests},
        }
        for each in pod_sets
    ]


def topology_assignment(levels: Sequence[str], domains: Domains) -> dict[str, Any]:
    """Places and pods, compressed: what all values of a level share is written once."""
    if not domains:
        return {"levels": list(levels), "slices": []}
    counts = [count for _, count in domains]
    slice_: dict[str, Any] = {
        "domainCount": len(domains),
        "valuesPerLevel": [_values([values[level] for values, _ in domains]) for level in range(len(levels))],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }
    return {"levels": list(levels), "slices": [slice_]}


def domains_of(assignment: Mapping[str, Any] | None) -> Domains | None:
    """The places and pods of a `topologyAssignment`, in its order."""
    if assignment is None:
        return None
    found: list[tuple[tuple[str, ...], int]] = []
    for part in assignment.get("slices") or ():
        number = part["domainCount"]
        levels = [_expanded(values, number) for values in part["valuesPerLevel"]]
        counts = part["podCounts"]
        each = counts.get("individual") or [counts["universal"]] * number
        found += list(zip(zip(*levels, strict=True), each, strict=True))
    return tuple(found)


def _assignment(
    given: PodSetAdmission, flavors: Mapping[str, Flavor], topologies: Mapping[str, Topology]
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": given.name, "count": given.count}
    if given.flavors:
        found["flavors"] = dict(given.flavors)
    if given.usage:
        found["resourceUsage"] = {resource: text(resource, amount) for resource, amount in given.usage}
    if given.domains is not None:
        names = [flavors[flavor].topology for _, flavor in given.flavors if flavor in flavors]
        levels = next(topologies[name].levels for name in names if name is not None and name in topologies)
        found["topologyAssignment"] = topology_assignment(
            levels[-1:] if levels[-1] == HOSTNAME else levels, given.domains
        )
    if given.delayed:
        found["delayedTopologyRequest"] = "Pending"
    return found


def _values(values: list[str]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_start(values)
    rests = [value[len(prefix) :] for value in values]
    suffix = _common_start([rest[::-1] for rest in rests])[::-1]
    individual: dict[str, Any] = {"prefix": prefix, "suffix": suffix}
    individual = {key: value for key, value in individual.items() if value}
    individual["roots"] = [rest[: len(rest) - len(suffix)] for rest in rests]
    return {"individual": individual}


def _expanded(values: Mapping[str, Any], number: int) -> list[str]:
    if "universal" in values:
        return [values["universal"]] * number
    individual = values["individual"]
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    return [f"{prefix}{root}{suffix}" for root in individual["roots"]]


def _common_start(values: list[str]) -> str:
    first, last = min(values), max(values)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]
