"""What an agent says of its cluster: it is joined and available, what it has, and its lease is renewed.

A cluster that answers has its lease renewed, also where the answer is an error (then it is not available). One that does
not answer at all falls silent: its lease expires (module clusters).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.clock import rfc3339_micro
from gpuaas.base.errors import ApiError
from gpuaas.base.quantity import Quantity, parse_quantity
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.ocm import MANAGED_CLUSTERS
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import LEASES, NODES, SECRETS
from gpuaas.fleet.hub.applying import keep
from gpuaas.fleet.hub.clusters import lease_seconds
from gpuaas.fleet.hub.names import (
    AGENT_SECRET,
    AVAILABLE,
    JOINED,
    LEASE,
    condition,
    is_accepted,
    status_of,
    with_conditions,
)
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.fleet.hub.workers import Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import is_deleting, labels_of
from gpuaas.runtime.writes import write_status

PRODUCT: Final = "nvidia.com/gpu.product"
PAGE: Final = 500
_PATIENCE: Final = 15.0


def available() -> list[Object]:
    return [
        condition(JOINED, "True", "ManagedClusterJoined", "Managed cluster joined"),
        condition(AVAILABLE, "True", "ManagedClusterAvailable", "Managed cluster is available"),
    ]


def not_ok(error: ApiError) -> list[Object]:
    words = f"The kube-apiserver is not ok, status code: {error.code}, {error.message}"
    return [condition(AVAILABLE, "False", "ManagedClusterKubeAPIServerUnavailable", words)]


def amounts(nodes: Sequence[Mapping[str, Any]], field: str) -> Object:
    """The sum of what ready nodes have, in Kubernetes' amounts."""
    total: dict[str, Quantity] = {}
    for node in nodes:
        for name, amount in ((node.get("status") or {}).get(field) or {}).items():
            found = parse_quantity(amount)
            total[name] = total[name] + found if name in total else found
    return {name: str(amount) for name, amount in sorted(total.items())}


def claims(cluster: str, nodes: Sequence[Mapping[str, Any]]) -> list[Object]:
    products = sorted({labels_of(node)[PRODUCT] for node in nodes if labels_of(node).get(PRODUCT)})
    versions = [((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") for node in nodes]
    found = {
        "id.k8s.io": cluster,
        "kubeversion.open-cluster-management.io": next((each for each in versions if each), ""),
        "gpu-products.gpuaas.dev": ",".join(products),
    }
    return [{"name": name, "value": value} for name, value in found.items() if value]


async def all_of(client: Client, resource: Any, **options: Any) -> list[Object]:
    """A list in pages, so that no answer is too large."""
    found: list[Object] = []
    more = ""
    while True:
        page = await client.list(resource, limit=PAGE, continue_=more, **options)
        found += page.items
        more = page.continue_
        if not more:
            return found


class HeartbeatController(Controller):
    """Keys are clusters."""

    name = "klusterlet-registration"
    workers = 8

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        self._workers = workers
        self._clusters = self.follow(deps.informers.of(MANAGED_CLUSTERS), _named, by=_decides)
        self._secrets = self.follow(deps.informers.of(SECRETS), _of_cluster)
        self._trouble = Trouble(deps, "connection")

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        if cluster is None or is_deleting(cluster) or not is_accepted(cluster):
            return None
        again = Requeue(float(lease_seconds(cluster)))
        try:
            client = self._workers.of(key)
            if client is None:
                return None
            async with asyncio.timeout(_PATIENCE):
                nodes = await all_of(client, NODES)
        except ApiError as error:
            await self._trouble.note(key, error)
            await self._say(key, not_ok(error), ())
        except (OSError, TimeoutError, KubeconfigError) as error:
            await self._trouble.note(key, error)
            return again
        else:
            await self._say(key, available(), nodes)
            await self._trouble.clear(key)
        await self._renew(key, lease_seconds(cluster))
        return again

    async def _say(self, name: str, conditions: Sequence[Object], nodes: Sequence[Object]) -> None:
        cluster = self._clusters.get("", name)
        if cluster is None:
            return
        status = cluster.get("status") or {}
        said = with_conditions(status.get("conditions"), conditions, self.clock.now())
        whole = {**status, "conditions": said}
        if status_of({"status": whole}, AVAILABLE) == "True":
            whole |= {"capacity": amounts(nodes, "capacity"), "allocatable": amounts(nodes, "allocatable")}
            whole["clusterClaims"] = claims(name, nodes)
        await write_status(self.client, MANAGED_CLUSTERS, cluster, whole)

    async def _renew(self, cluster: str, seconds: int) -> None:
        spec = {"leaseDurationSeconds": seconds, "renewTime": rfc3339_micro(self.clock.now())}
        await keep(self.client, LEASES, {"metadata": {"name": LEASE, "namespace": cluster}, "spec": spec})


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    spec = cluster.get("spec") or {}
    return is_accepted(cluster), spec.get("leaseDurationSeconds"), cluster["metadata"].get("deletionTimestamp")


def _named(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["name"],)


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    metadata = secret["metadata"]
    return (metadata["namespace"],) if metadata["name"] == AGENT_SECRET else ()
