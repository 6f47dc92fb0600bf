"""Wires views.gpuaas.dev: rows fed by the store, places in queues and reasons from the control plane's own engine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuaas.apiserver.views import Views, mount_views
from gpuaas.apiserver.views_feed import feed
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.client.kueue import WORKLOADS
from gpuaas.controllers.kueue import KueueCore
from gpuaas.kueue.workload_state import conditions_of
from gpuaas.runtime.controller import Deps, Loop
from gpuaas.views.effects import Effects
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
        self.more_evidence: Callable[[str, str], Sequence[str]] = lambda _namespace, _name: ()
        """More evidence about a Workload, by namespace and name: what other clusters say of its copies."""

    async def run(self) -> None:
        await self._core.synced()
        snapshot = Snapshot(self.clock.now)
        await feed(self._parts.cluster, snapshot)
        core = self._core
        views = Views(
            snapshot,
            self._parts.access.rbac,
            core.positions,
            self._explain,
            core.engine.left,
            Effects(core.engine, self.clock, self._parked_by, lambda obj: core.mirror.reader.workload(obj)),
        )
        views.pages.reasons = core.waiting
        mount_views(self._parts.cluster, views)

    def _parked_by(self, key: str) -> str:
        """The reason of a workload's condition `Requeued`, where that is false."""
        informer = self._informers.known(WORKLOADS)
        workload = None if informer is None else informer.get(*key.split("/", 1))
        requeued = {} if workload is None else conditions_of(workload).get("Requeued", {})
        return "" if requeued.get("status") == "True" else str(requeued.get("reason", ""))

    def _explain(self, namespace: str, name: str, may_list: MayList) -> Mapping[str, Any]:
        now = round(self.clock.now() * 1000)
        configuration = self._parts.configured.now
        found = explain_workload(self._informers, self._core.engine, configuration, namespace, name, may_list, now)
        more = self.more_evidence(namespace, name)
        return {**found, "evidence": [*found["evidence"], *more]} if more else found
