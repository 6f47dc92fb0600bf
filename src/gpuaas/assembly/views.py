"""Wires views.gpuaas.dev: rows fed by the store, places in queues and reasons from the control plane's own engine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuaas.apiserver.views import Views, mount_views
from gpuaas.apiserver.views_feed import feed
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.controllers.kueue import KueueCore
from gpuaas.runtime.controller import Deps, Loop
from gpuaas.views.snapshot import Snapshot
from gpuaas.views.why import MayList, explain_workload


class ViewsServer(Loop):
    """Mounts the API once the engine knows the queues; until then it is not served and clients read lists."""

    name = "views"

    def __init__(self, parts: ClusterParts, deps: Deps, core: KueueCore) -> None:
        super().__init__(deps)
        self._parts = parts
        self._informers = deps.informers
        self._core = core
        self.beside: Callable[[str, str], Sequence[str]] = lambda _namespace, _name: ()
        """More evidence about a Workload, by namespace and name: what other clusters say of its copies."""

    async def run(self) -> None:
        await self._core.synced()
        snapshot = Snapshot()
        await feed(self._parts.cluster, snapshot)
        views = Views(snapshot, self._parts.access.rbac, self._core.positions, self._explain)
        mount_views(self._parts.cluster, views)

    def _explain(self, namespace: str, name: str, may_list: MayList) -> Mapping[str, Any]:
        now = round(self.clock.now() * 1000)
        configuration = self._parts.configured.now
        found = explain_workload(self._informers, self._core.engine, configuration, namespace, name, may_list, now)
        more = self.beside(namespace, name)
        return {**found, "evidence": [*found["evidence"], *more]} if more else found
