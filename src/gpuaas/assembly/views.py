"""Wires views.gpuaas.dev: rows fed by the store, places in queues and reasons from the control plane's own engine."""

from collections.abc import Mapping
from typing import Any

from gpuaas.apiserver.views import Views, mount_views
from gpuaas.apiserver.views_feed import feed
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.controllers.kueue import KueueCore
from gpuaas.runtime.controller import Deps
from gpuaas.views.snapshot import Snapshot
from gpuaas.views.why import MayList, explain_workload


async def serve_views(parts: ClusterParts, deps: Deps, core: KueueCore) -> None:
    """Once the engine knows the queues; until then the API is not served and clients read lists."""
    await core.synced()
    snapshot = Snapshot()
    await feed(parts.cluster, snapshot)

    def explain(namespace: str, name: str, may_list: MayList) -> Mapping[str, Any]:
        now = round(deps.clock.now() * 1000)
        return explain_workload(deps.informers, core.engine, parts.configured.now, namespace, name, may_list, now)

    mount_views(parts.cluster, Views(snapshot, parts.access.rbac, core.positions, explain))
