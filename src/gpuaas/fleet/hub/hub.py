"""Makes a cluster a hub when it has clusters to manage: until then it costs two watches.

The first ManagedCluster or Placement brings the sets and the add-on's objects that every hub has, made once and never
again what was deleted since, and starts the controllers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, ApiError
from gpuaas.client.ocm import ADD_ON_OFFERS, CLUSTER_SETS, MANAGED_CLUSTERS, PLACEMENTS, SET_BINDINGS
from gpuaas.client.protocol import Object, Resource
from gpuaas.fleet.hub.accounts import AccountController
from gpuaas.fleet.hub.addons import AddOnController, offer
from gpuaas.fleet.hub.checks import CheckStates, PlacementChecks
from gpuaas.fleet.hub.clusters import ManagedClusterController
from gpuaas.fleet.hub.connections import ConnectionController
from gpuaas.fleet.hub.dependencies import DependencyController
from gpuaas.fleet.hub.heartbeat import HeartbeatController
from gpuaas.fleet.hub.joining import JoiningController
from gpuaas.fleet.hub.mirror import MirrorController
from gpuaas.fleet.hub.names import KUEUE_NAMESPACE, LOCAL, UNAVAILABLE, UNREACHABLE
from gpuaas.fleet.hub.permissions import PermissionController
from gpuaas.fleet.hub.placements import PlacementController
from gpuaas.fleet.hub.publish import ScoreController
from gpuaas.fleet.hub.quotas import QuotaController
from gpuaas.fleet.hub.sets import FIRST, ClusterSetController, SetBindingController
from gpuaas.fleet.hub.view import FleetView
from gpuaas.fleet.hub.workers import Connect, Workers
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.controller import Controller, Deps, Loop

_log = logging.getLogger(__name__)
_REGISTRATION: Final[tuple[Callable[[Deps], Controller], ...]] = (
    ManagedClusterController,
    PermissionController,
    ConnectionController,
)
_CHOICE: Final[tuple[Callable[[Deps, FleetView], Controller], ...]] = (
    ClusterSetController,
    SetBindingController,
    PlacementController,
    AddOnController,
    PlacementChecks,
)


def hub_controllers(deps: Deps, connect: Connect, *, strict: bool = False) -> list[Controller]:
    """`strict`: as the original add-on, which answers no placement check on workloads and brings nothing that pods name."""
    workers = Workers(deps.client, deps.informers, connect)
    agents: list[Controller] = [
        JoiningController(deps, workers, connect),
        HeartbeatController(deps, workers),
        AccountController(deps, workers),
        MirrorController(deps, workers),
        ScoreController(deps, workers),
        QuotaController(deps, workers),
    ]
    if not strict:
        agents += [CheckStates(deps), DependencyController(deps, workers)]
    view = FleetView(deps.informers)
    return [*(kind(deps) for kind in _REGISTRATION), *(kind(deps, view) for kind in _CHOICE), *agents]


def first_objects() -> list[tuple[Resource, Object]]:
    """What OCM and the add-on's chart bring to a hub."""
    taints = [{"key": key, "operator": "Equal"} for key in (UNREACHABLE, UNAVAILABLE)]
    others = {"matchExpressions": [{"key": LOCAL, "operator": "DoesNotExist"}]}
    spec = {
        "clusterSets": ["global"],
        "tolerations": taints,
        "predicates": [{"requiredClusterSelector": {"labelSelector": others}}],
    }
    place = {"namespace": KUEUE_NAMESPACE}
    return [
        (SET_BINDINGS, {"metadata": {"name": "global", **place}, "spec": {"clusterSet": "global"}}),
        (PLACEMENTS, {"metadata": {"name": "default", **place}, "spec": spec}),
        (ADD_ON_OFFERS, offer()),
        *(
            (CLUSTER_SETS, {"metadata": {"name": each["name"]}, "spec": {"clusterSelector": each["clusterSelector"]}})
            for each in FIRST
        ),
    ]


class Hub(Loop):
    name = "hub"

    def __init__(self, deps: Deps, connect: Connect, *, strict: bool = False) -> None:
        super().__init__(deps)
        self._strict = strict
        self._deps = deps
        self._connect = connect
        self._needed = asyncio.Event()
        self._controllers: list[Controller] = []
        for resource in (MANAGED_CLUSTERS, PLACEMENTS):
            deps.informers.of(resource).subscribe(self._seen)

    @property
    def idle(self) -> bool:
        return all(each.idle for each in self._controllers)

    def _seen(self, _old: Mapping[str, Any] | None, _new: Mapping[str, Any] | None) -> None:
        self._needed.set()

    async def run(self) -> None:
        await self._needed.wait()
        await self._furnish()
        self._controllers = hub_controllers(self._deps, self._connect, strict=self._strict)
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(self._keep_running(each), name=each.name)

    async def _keep_running(self, controller: Controller) -> None:
        backoff = Backoff(first=1.0, limit=60.0)
        while True:
            try:
                return await controller.run()
            except Exception:
                _log.exception("%s ended and begins again", controller.name)
                await self.clock.sleep(backoff.next())

    async def _furnish(self) -> None:
        """Once: the set `global`, made last, is the mark of it."""
        try:
            await self.client.get(CLUSTER_SETS, "global")
        except ApiError:
            for resource, obj in first_objects():
                await self._make(resource, obj)

    async def _make(self, resource: Resource, obj: Object) -> None:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        try:
            await self.client.create(resource, whole, obj["metadata"].get("namespace", ""))
        except AlreadyExists:
            return
        except ApiError as error:
            _log.warning("%s %s was not created: %s", resource.kind, obj["metadata"]["name"], error)
