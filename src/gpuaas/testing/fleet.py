"""A hub and its workers in memory and virtual time; a worker may be cut off, and comes back with what it had."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gpuaas.base.clock import VirtualClock
from gpuaas.client.kubeconfig import Access
from gpuaas.client.kueue import KUEUE
from gpuaas.client.ocm import MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, OCM
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import NODES, SECRETS
from gpuaas.fleet.hub.hub import Hub
from gpuaas.fleet.hub.joining import BINDINGS, ROLE_BINDINGS, ROLES
from gpuaas.fleet.hub.names import IMPORT_SECRET
from gpuaas.fleet.hub.reading import encoded, kubeconfig
from gpuaas.runtime.controller import Controllers, Deps
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.time import Stage

KINDS = (*BUILT_IN, BINDINGS, ROLES, ROLE_BINDINGS, *KUEUE, *OCM)
GPU = "nvidia.com/gpu"


class _Far:
    """A worker as the hub reaches it: every request fails while the wire is cut or the token is not accepted."""

    def __init__(self, fleet: "FleetStage", name: str, token: str) -> None:
        self._fleet, self._name, self._token = fleet, name, token

    def __getattr__(self, verb: str) -> Any:
        fault = self._fleet.faults.get(self._name)
        if fault is None and self._token in self._fleet.refused:
            from gpuaas.base.errors import Unauthorized

            fault = Unauthorized()
        if fault is None:
            return getattr(self._fleet.workers[self._name], verb)
        return _Failing(fault)


class _Failing:
    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    async def __call__(self, *_: Any, **__: Any) -> Any:
        raise self._fault


class FleetStage(Stage):
    def __init__(self, hub: FakeCluster, clock: VirtualClock, deps: Deps, names: Sequence[str]) -> None:
        super().__init__(hub, clock, deps)
        self.workers = {name: FakeCluster(clock, resources=KINDS) for name in names}
        self.faults: dict[str, Exception] = {}
        self.refused: set[str] = set()  # tokens
        self.strict = False
        self._running: Controllers | None = None

    async def start(self) -> None:
        """The hub's controllers; again after `stop`, with nothing remembered."""
        self.deps = Deps.over(self.cluster, self.clock, self.cluster)
        self._running = Controllers(self.deps, [Hub(self.deps, self.connect, strict=self.strict)])
        await self._running.start()

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.stop()
            self._running = None

    def connect(self, access: Access) -> Client:
        far: Any = _Far(self, access.server.rpartition("/")[2], access.token)
        client: Client = far
        return client

    def _revisions(self) -> int:
        return self.cluster.revision + sum(each.revision for each in self.workers.values())

    async def settle(self) -> None:
        import asyncio

        quiet, seen = 0, self._revisions()
        while quiet < 120:  # a step may take a dozen requests without a write
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._revisions() == seen else 0
            seen = self._revisions()

    async def join(self, name: str, labels: Mapping[str, str] | None = None, gpus: int = 4) -> None:
        """As `gpuaas fleet join` does, with one node of so many GPUs on the worker."""
        self.workers[name].put(NODES, node_of(gpus))
        spec = {"hubAcceptsClient": True, "leaseDurationSeconds": 10}
        self.cluster.put(MANAGED_CLUSTERS, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec})
        self.give_credentials(name)
        await self.advance(1)

    def give_credentials(self, name: str) -> None:
        """An administrator's, as at a join."""
        text = kubeconfig(name, f"https://worker/{name}", "PEM", "import", "admin")
        metadata = {"name": IMPORT_SECRET, "namespace": name}
        self.cluster.put(SECRETS, {"metadata": metadata, "data": {"kubeconfig": encoded(text)}})

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition of a ManagedCluster; empty where it has none."""
        return said(self.cluster.read(MANAGED_CLUSTERS, name), kind)

    def connected(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.cluster.all(MULTIKUEUE_CLUSTERS)]


def said(obj: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def node_of(gpus: int, name: str = "node") -> Object:
    amounts = {"cpu": "32", "memory": "128Gi", GPU: str(gpus)}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0"},
    }
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


@asynccontextmanager
async def fleet_stage(*names: str, strict: bool = False) -> AsyncIterator[FleetStage]:
    clock = VirtualClock()
    hub = FakeCluster(clock, resources=KINDS)
    deps = Deps.over(hub, clock, hub)
    on = FleetStage(hub, clock, deps, names)
    on.strict = strict
    await on.start()
    try:
        await on.settle()
        yield on
        hub.check_untouched()
    finally:
        await on.stop()
