"""ManagedClusterSets and their bindings: whether a set has clusters, whether a binding's set exists."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.client.ocm import CLUSTER_SETS, SET_BINDINGS
from gpuaas.client.protocol import Object
from gpuaas.fleet.hub.names import condition, with_conditions
from gpuaas.fleet.hub.view import FleetView, standing, to_all
from gpuaas.placement.eligible import members
from gpuaas.placement.values import Cluster, Fleet
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting, key_of
from gpuaas.runtime.writes import write_status

FIRST: Final = (
    {"name": "default", "clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    {"name": "global", "clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
)
"""The sets every hub has."""
_TOGETHER: Final = 0.1


def emptiness(cluster_set: Mapping[str, Any], clusters: Iterable[Mapping[str, Any]]) -> Object:
    name = cluster_set["metadata"]["name"]
    fleet = Fleet({each["metadata"]["name"]: Cluster.read(each) for each in clusters}, {name: cluster_set})
    try:
        found = len(members(fleet, [name]))
    except ValueError:
        found = 0
    if not found:
        return condition("ClusterSetEmpty", "True", "NoClusterMatched", "No ManagedCluster selected")
    return condition("ClusterSetEmpty", "False", "ClustersSelected", f"{found} ManagedClusters selected")


def boundness(cluster_set: Mapping[str, Any] | None) -> Object:
    if cluster_set is None or is_deleting(cluster_set):
        return condition("Bound", "False", "ClusterSetNotFound", "")
    return condition("Bound", "True", "ClusterSetBound", "")


class ClusterSetController(Controller):
    name = "managed-cluster-set"

    def __init__(self, deps: Deps, view: FleetView) -> None:
        super().__init__(deps)
        self._sets = self.follow(view.sets)
        self._clusters = self.follow(
            view.clusters, to_all(lambda: [key_of(each) for each in self._sets.all()]), delay=_TOGETHER, by=standing
        )

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster_set = self._sets.get(*key)
        if cluster_set is None or is_deleting(cluster_set):
            return None
        status = cluster_set.get("status") or {}
        said = [emptiness(cluster_set, self._clusters.all())]
        conditions = with_conditions(status.get("conditions"), said, self.clock.now())
        await write_status(self.client, CLUSTER_SETS, cluster_set, {**status, "conditions": conditions})
        return None


class SetBindingController(Controller):
    name = "managed-cluster-set-binding"

    def __init__(self, deps: Deps, view: FleetView) -> None:
        super().__init__(deps)
        self._bindings = self.follow(view.bindings)
        self._sets = self.follow(view.sets, self._bound_to)

    def _bound_to(self, cluster_set: Mapping[str, Any]) -> Iterable[Key]:
        name = cluster_set["metadata"]["name"]
        return [key_of(each) for each in self._bindings.all() if each["metadata"]["name"] == name]

    async def reconcile(self, key: Key) -> Requeue | None:
        binding = self._bindings.get(*key)
        if binding is None or is_deleting(binding):
            return None
        said = boundness(self._sets.get("", str((binding.get("spec") or {}).get("clusterSet") or "")))
        status = binding.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [said], self.clock.now())
        await write_status(self.client, SET_BINDINGS, binding, {**status, "conditions": conditions})
        return None
