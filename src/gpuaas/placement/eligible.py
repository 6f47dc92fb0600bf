"""Which clusters a Placement may choose from: the members of the ManagedClusterSets bound to its namespace."""

from __future__ import annotations

from collections.abc import Iterable

from gpuaas.base.selectors import LabelSelector, Requirement, checked_label_selector
from gpuaas.placement.values import CLUSTER_SET_LABEL, Cluster, Fleet, Object


def bound_sets(fleet: Fleet, namespace: str) -> list[str]:
    """Sets that exist and have a binding of their own name in the namespace; upstream looks no further than the name."""
    return sorted(name for where, name in fleet.bindings if where == namespace and name in fleet.sets)


def eligible_sets(bound: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The bound sets, narrowed to `spec.clusterSets` where it names any."""
    names = set(bound)
    if asked := set(wanted):
        names &= asked
    return sorted(names)


def members(fleet: Fleet, sets: Iterable[str]) -> list[Cluster]:
    """The clusters of these sets that are not being deleted, by name. Raises ValueError for a set that selects nothing
    that can be read."""
    found: dict[str, Cluster] = {}
    for name in sets:
        if (cluster_set := fleet.sets.get(name)) is None:
            continue
        selector = set_selector(cluster_set)
        if selector is not None:
            found.update((c.name, c) for c in fleet.clusters.values() if selector.matches(c.labels) and not c.deleting)
    return [found[name] for name in sorted(found)]


def set_selector(cluster_set: Object) -> LabelSelector | None:
    """Which clusters belong to the set; None where it has none (a LabelSelector set without a selector)."""
    selector = (cluster_set.get("spec") or {}).get("clusterSelector") or {}
    match selector.get("selectorType") or "ExclusiveClusterSetLabel":
        case "ExclusiveClusterSetLabel" | "LegacyClusterSetLabel":
            return LabelSelector((Requirement(CLUSTER_SET_LABEL, "in", (cluster_set["metadata"]["name"],)),))
        case "LabelSelector":
            labels = selector.get("labelSelector")
            return None if labels is None else checked_label_selector(labels)
        case other:
            raise ValueError(f"selectorType is not right: {other}")
