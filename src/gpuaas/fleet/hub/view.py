"""The fleet as `gpuaas.placement` reads it, kept from informers, and which placements a change may concern."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

from gpuaas.client.ocm import CLUSTER_SETS, DECISIONS, MANAGED_CLUSTERS, SCORES, SET_BINDINGS
from gpuaas.fleet.hub.names import PLACEMENT_LABEL
from gpuaas.fleet.placement_cel import budget_of_round, compile_cel
from gpuaas.placement.schedule import Result, schedule
from gpuaas.placement.values import Cluster, Fleet, Score
from gpuaas.runtime.informer import Informer, Informers
from gpuaas.runtime.metadata import Key, key_of, labels_of

T = TypeVar("T")


class _Read(Generic[T]):
    """The objects of an informer as values, each read once for each of its versions."""

    def __init__(self, informer: Informer, read: Callable[[Mapping[str, Any]], T]) -> None:
        self._values: dict[Key, T] = {}
        self._read = read
        informer.subscribe(self._changed)

    def _changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if new is not None:
            self._values[key_of(new)] = self._read(new)
        elif old is not None:
            self._values.pop(key_of(old), None)

    def values(self) -> dict[Key, T]:
        return self._values


class FleetView:
    """One for each hub: all controllers of the fleet share it."""

    def __init__(self, informers: Informers) -> None:
        self.clusters = informers.of(MANAGED_CLUSTERS)
        self.sets = informers.of(CLUSTER_SETS)
        self.bindings = informers.of(SET_BINDINGS)
        self.scores = informers.of(SCORES)
        self.decisions = informers.of(DECISIONS)
        self._clusters = _Read(self.clusters, Cluster.read)
        self._scores = _Read(self.scores, Score.read)

    def fleet(self) -> Fleet:
        decided: dict[tuple[str, str], list[str]] = {}
        for each in self.decisions.all():
            if placement := labels_of(each).get(PLACEMENT_LABEL):
                decided.setdefault((each["metadata"]["namespace"], placement), []).extend(chosen_in(each))
        return Fleet(
            {key.name: cluster for key, cluster in self._clusters.values().items()},
            {each["metadata"]["name"]: each for each in self.sets.all()},
            {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in self.bindings.all()},
            {(key.namespace, key.name): score for key, score in self._scores.values().items()},
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
        compiler = partial(compile_cel, budget=budget_of_round())
        return schedule(placement, self.fleet(), datetime.fromtimestamp(now, UTC), compiler)


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


def scored(score: Mapping[str, Any]) -> Any:
    """What placements look at in a score. A later `validUntil` is no news: who uses the score looks again at the end
    that was known."""
    return (score.get("status") or {}).get("scores")


def to_all(keys: Callable[[], Iterable[Any]]) -> Callable[[Mapping[str, Any]], Iterable[Any]]:
    """For `follow`: whatever the object, every key is concerned."""
    return lambda _: keys()


def placement_of(decision: Mapping[str, Any]) -> str:
    return str(labels_of(decision).get(PLACEMENT_LABEL) or "")
