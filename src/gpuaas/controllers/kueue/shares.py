"""Fair sharing: the weighted share in the statuses of ClusterQueues and Cohorts, while sharing is fair.

Looked at whenever a ClusterQueue's status says that its use changed; the number itself is the engine's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS
from gpuaas.client.protocol import Object, Resource
from gpuaas.engine.engine import Engine
from gpuaas.engine.shares import share
from gpuaas.engine.tree import Node
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.writes import write_status

Thing = tuple[Resource, str]


class WeightedShares(Controller):
    name = "kueue-shares"

    def __init__(self, deps: Deps, configured: Configured, engine: Engine) -> None:
        super().__init__(deps)
        self._engine = engine
        self._queues = self.follow(deps.informers.of(CLUSTER_QUEUES), self._around)
        self._cohorts = self.follow(deps.informers.of(COHORTS), lambda obj: [(COHORTS, obj["metadata"]["name"])])
        configured.subscribe(self._reconfigured)

    @property
    def _is_fair(self) -> bool:
        return self._engine.config.fair_sharing is not None

    def _around(self, obj: Mapping[str, Any]) -> Iterable[Thing]:
        yield CLUSTER_QUEUES, obj["metadata"]["name"]
        queue = self._engine.forest.queues.get(obj["metadata"]["name"]) if self._is_fair else None
        for cohort in queue.ancestors() if queue is not None else ():
            yield COHORTS, cohort.name

    def _reconfigured(self, before: Configuration, now: Configuration) -> None:
        if before.engine.fair_sharing != now.engine.fair_sharing:
            for resource, informer in ((CLUSTER_QUEUES, self._queues), (COHORTS, self._cohorts)):
                for obj in informer.all():
                    self.queue.add((resource, obj["metadata"]["name"]))

    async def reconcile(self, key: Thing) -> Requeue | None:
        resource, name = key
        obj = (self._queues if resource is CLUSTER_QUEUES else self._cohorts).get("", name)
        if obj is None:
            return None
        found = self._found(resource, name) if self._is_fair else None
        if found is not None:
            await self._write(resource, obj, {"weightedShare": found})
        elif not self._is_fair and (obj.get("status") or {}).get("fairSharing"):
            await self._write(resource, obj, None)
        return None

    async def _write(self, resource: Resource, obj: Object, share: Object | None) -> None:
        status = {key: value for key, value in (obj.get("status") or {}).items() if key != "fairSharing"}
        await write_status(self.client, resource, obj, status if share is None else {**status, "fairSharing": share})

    def _found(self, resource: Resource, name: str) -> int | None:
        self._engine.forest.settle_all()
        node: Node | None = self._engine.forest.queues.get(name)
        if resource is COHORTS:
            cohorts = (each for tree in self._engine.forest.trees() if not tree.cyclic for each in tree.cohorts)
            node = next((each for each in cohorts if each.name == name), None)
        return None if node is None else share(node, self._engine.forest.frs).status
