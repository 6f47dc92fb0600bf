"""The rows of one cluster, kept up to date one object at a time.

Each change costs what its own object costs, whatever else there is. How objects arrive is the feeder's matter: all at
once from lists, or one by one from a watch; after the same objects the rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NAMESPACES, NODES, PODS, REPLICA_SETS, STATEFUL_SETS
from gpuaas.views.cards import Cards
from gpuaas.views.dashboard import FOLLOWED_BY_PAGES, Dashboard
from gpuaas.views.flavors import Flavors
from gpuaas.views.free import Left, Stock, free_rows, stock_of
from gpuaas.views.gpus import Gpus
from gpuaas.views.jobs import Jobs
from gpuaas.views.places import Places
from gpuaas.views.queues import Queues
from gpuaas.views.rows import FreeRow

View = Mapping[str, Any]
RAY_CLUSTERS: Final = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
BETWEEN: Final = (JOBS, STATEFUL_SETS, REPLICA_SETS, RAY_CLUSTERS)
"""What may stand between a job and its pods; of these only metadata is read."""
PICTURED: Final[Mapping[str, Resource]] = {
    "namespaces": NAMESPACES,
    "flavors": RESOURCE_FLAVORS,
    "cohorts": COHORTS,
    "cluster_queues": CLUSTER_QUEUES,
    "local_queues": LOCAL_QUEUES,
    "workloads": WORKLOADS,
    "checks": ADMISSION_CHECKS,
    "topologies": TOPOLOGIES,
    "nodes": NODES,
}
"""What an explanation reads, by the name its `Picture` has for it."""
FOLLOWED: Final = (
    *(CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, NODES, PODS, WORKLOADS),
    *FOLLOWED_BY_PAGES,
    *BETWEEN,
)
Take = Callable[[str, str, View | None], None]


class Snapshot:
    def __init__(self, now: Callable[[], float] | None = None) -> None:
        """`now()`: Unix seconds; with it, what the pages show is kept too (`dashboard`)."""
        self.flavors = Flavors()
        self.queues = Queues(self.flavors)
        self.gpus = Gpus()
        self.cards = Cards()
        self.places = Places()
        self.jobs = Jobs(self.queues.cluster_queue_of, self.flavors)
        self.dashboard = None if now is None else Dashboard(self.queues.cluster_queue_of, now)
        self._stock: Stock | None = None  # until a node, a flavor or a pod with GPUs changes
        self._takers: dict[Resource, Take] = {
            WORKLOADS: self.jobs.changed,
            CLUSTER_QUEUES: lambda _, name, obj: self.queues.cluster_queue_changed(name, obj),
            RESOURCE_FLAVORS: self._flavor_changed,
            LOCAL_QUEUES: self.queues.local_queue_changed,
            NODES: self._node_changed,
            PODS: self._pod_changed,
            **{resource: partial(self.places.owner_changed, resource.kind) for resource in BETWEEN},
        }

    def take(self, resource: Resource, namespace: str, name: str, obj: View | None) -> None:
        """An object is new or changed; None: it is gone."""
        take = self._takers.get(resource)
        if take is not None:
            take(namespace, name, obj)
        if self.dashboard is not None:
            self.dashboard.take(resource, namespace, name, obj)

    def take_all(self, resource: Resource, objects: list[dict[str, Any]]) -> None:
        """A whole list, of a resource of which nothing was taken before."""
        for obj in objects:
            meta = obj["metadata"]
            self.take(resource, meta.get("namespace", ""), meta["name"], obj)

    def free(self, may_use: Callable[[str], bool], left: Callable[[str], Left | None]) -> list[FreeRow]:
        """What is free for a user who may submit to some namespaces. `left(cluster_queue)`: its quota that is left."""
        queues = self.queues.usable(may_use)
        names = dict.fromkeys(queue.cluster_queue for queue in queues)
        quotas = {name: found for name in names if (found := left(name)) is not None}
        if self._stock is None:
            self._stock = stock_of(self.gpus.offers(), self.flavors.node_labels)
        return free_rows(self._stock, queues, quotas)

    def _node_changed(self, _: str, name: str, obj: View | None) -> None:
        self._stock = None
        self.gpus.node_changed(name, obj)
        self.cards.node_changed(name, obj)

    def _flavor_changed(self, _: str, name: str, obj: View | None) -> None:
        self._stock = None
        self.flavors.changed(name, obj)

    def _pod_changed(self, namespace: str, name: str, obj: View | None) -> None:
        self.cards.pod_changed(namespace, name, obj)
        if self.gpus.pod_changed(namespace, name, obj):
            self._stock = None
        self.places.pod_changed(namespace, name, obj)
