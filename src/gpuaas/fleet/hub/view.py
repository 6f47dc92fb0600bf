"""The fleet as `gpuaas.placement` reads it, kept from informers, and which placements a change may concern."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuaas.client.ocm import CLUSTER_SETS, DECISIONS, MANAGED_CLUSTERS, SCORES, SET_BINDINGS
from gpuaas.fleet.hub.names import PLACEMENT_LABEL
from gpuaas.fleet.placement_cel import compile_cel
from gpuaas.placement.schedule import Result, schedule
from gpuaas.placement.values import Cluster, Fleet, Score
from gpuaas.runtime.informer import Informers
from gpuaas.runtime.metadata import labels_of


class FleetView:
    def __init__(self, informers: Informers) -> None:
        self.clusters = informers.of(MANAGED_CLUSTERS)
        self.sets = informers.of(CLUSTER_SETS)
        self.bindings = informers.of(SET_BINDINGS)
        self.scores = informers.of(SCORES)
        self.decisions = informers.of(DECISIONS)

    def fleet(self) -> Fleet:
        decided: dict[tuple[str, str], list[str]] = {}
        for each in self.decisions.all():
            if placement := labels_of(each).get(PLACEMENT_LABEL):
                decided.setdefault((each["metadata"]["namespace"], placement), []).extend(chosen_in(each))
        return Fleet(
            {each["metadata"]["name"]: Cluster.read(each) for each in self.clusters.all()},
            {each["metadata"]["name"]: each for each in self.sets.all()},
            {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in self.bindings.all()},
            {(each["metadata"]["namespace"], each["metadata"]["name"]): Score.read(each) for each in self.scores.all()},
            {key: tuple(sorted(names)) for key, names in decided.items()},
        )

    def chosen(self, namespace: str, placement: str) -> list[str]:
        """The clusters its PlacementDecisions name, by name."""
        return sorted(
            name
            for each in self.decisions.in_namespace(namespace)
            if labels_of(each).get(PLACEMENT_LABEL) == placement
            for name in chosen_in(each)
        )

    def schedule(self, placement: Mapping[str, Any], now: float) -> Result:
        return schedule(placement, self.fleet(), datetime.fromtimestamp(now, UTC), compile_cel)


def chosen_in(decision: Mapping[str, Any]) -> list[str]:
    found = (decision.get("status") or {}).get("decisions") or ()
    return [str(each.get("clusterName", "")) for each in found]


def standing(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    """What placements look at in a ManagedCluster; its conditions and times are not among it."""
    metadata, status = cluster["metadata"], cluster.get("status") or {}
    return (
        metadata.get("labels"),
        metadata.get("deletionTimestamp"),
        (cluster.get("spec") or {}).get("taints"),
        status.get("clusterClaims"),
        status.get("allocatable"),
        status.get("capacity"),
    )


def to_all(keys: Callable[[], Iterable[Any]]) -> Callable[[Mapping[str, Any]], Iterable[Any]]:
    """For `follow`: whatever the object, every key is concerned."""
    return lambda _: keys()


def placement_of(decision: Mapping[str, Any]) -> str:
    return str(labels_of(decision).get(PLACEMENT_LABEL) or "")
