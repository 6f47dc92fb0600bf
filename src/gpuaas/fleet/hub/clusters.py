"""ManagedClusters: acceptance, the namespace of each, availability by its lease, and the taints that follow from it.

The lease `managed-cluster-lease` is renewed by the cluster's agent (module heartbeat). Silence is measured by our own
clock from the last change of the lease, so that a wrong clock elsewhere does no harm and a hub that was away gives every
cluster the whole time again. The lease expires after five times its duration, as upstream's does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.ocm import MANAGED_CLUSTERS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import LEASES, NAMESPACES
from gpuaas.fleet.hub.names import (
    ACCEPTED,
    AVAILABLE,
    CLUSTER_NAMESPACE_LABEL,
    JOINED,
    LEASE,
    SET_LABEL,
    UNAVAILABLE,
    UNREACHABLE,
    condition,
    is_accepted,
    status_of,
    with_conditions,
)
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, is_deleting, labels_of
from gpuaas.runtime.writes import write_status

EXPIRES_AFTER: Final = 5  # lease durations
LEASE_SECONDS: Final = 60
STOPPED: Final = "Registration agent stopped updating its lease."
_DEFAULT_SET: Final = "default"


@dataclass(slots=True)
class _Heard:
    renewal: str
    at: float


def lease_seconds(cluster: Mapping[str, Any]) -> int:
    return int((cluster.get("spec") or {}).get("leaseDurationSeconds") or LEASE_SECONDS)


def acceptance(cluster: Mapping[str, Any]) -> Object | None:
    """The condition that `hubAcceptsClient` leads to; None before a decision."""
    if is_accepted(cluster):
        return condition(ACCEPTED, "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
    if status_of(cluster, ACCEPTED):
        return condition(ACCEPTED, "False", "HubClusterAdminDenied", "Denied by hub cluster admin")
    return None


def silence(cluster: Mapping[str, Any], silent_for: float) -> Object | None:
    """The condition of a cluster whose lease has expired; None while it has not, or where that is written already."""
    expired = silent_for >= EXPIRES_AFTER * lease_seconds(cluster)
    if not expired or status_of(cluster, AVAILABLE) == "Unknown" or status_of(cluster, JOINED) != "True":
        return None
    return condition(AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", STOPPED)


def wanted_taints(cluster: Mapping[str, Any], now: float) -> list[Object] | None:
    """The taints of `spec.taints` after availability is taken into account; None where they are right already."""
    taints = list((cluster.get("spec") or {}).get("taints") or ())
    wanted = {"True": "", "False": UNAVAILABLE}.get(status_of(cluster, AVAILABLE), UNREACHABLE)
    kept = [each for each in taints if each.get("key") not in {UNREACHABLE, UNAVAILABLE} - {wanted}]
    if wanted and not any(each.get("key") == wanted for each in kept):
        kept.append({"key": wanted, "effect": "NoSelect", "timeAdded": rfc3339(now)})
    return None if kept == taints else kept


class ManagedClusterController(Controller):
    name = "managed-cluster"
    component = "registration-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._clusters = self.follow(deps.informers.of(MANAGED_CLUSTERS))
        self._leases = self.follow(deps.informers.of(LEASES), _of_cluster)
        self._heard: dict[str, _Heard] = {}

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster = self._clusters.get("", key.name)
        if cluster is None or is_deleting(cluster):
            self._heard.pop(key.name, None)
            return None
        await self._say(cluster, acceptance(cluster))
        if not is_accepted(cluster):
            return None
        await self._make_namespace(key.name)
        if SET_LABEL not in labels_of(cluster):
            await self.client.patch(MANAGED_CLUSTERS, key.name, {"metadata": {"labels": {SET_LABEL: _DEFAULT_SET}}})
        silent_for = self._silent_for(key.name)
        cluster = await self._say(self._clusters.get("", key.name), silence(cluster, silent_for))
        await self._taint(cluster)
        limit = EXPIRES_AFTER * lease_seconds(cluster) if cluster is not None else 0
        return Requeue(limit - silent_for) if limit > silent_for else None

    def _silent_for(self, name: str) -> float:
        lease = self._leases.get(name, LEASE)
        renewal = str(((lease or {}).get("spec") or {}).get("renewTime") or "")
        heard, now = self._heard.get(name), self.clock.monotonic()
        if heard is None or heard.renewal != renewal:
            heard = self._heard[name] = _Heard(renewal, now)
        return now - heard.at

    async def _say(self, cluster: Object | None, wanted: Object | None) -> Object | None:
        """Writes the condition; the cluster as it is then."""
        if cluster is None or wanted is None:
            return cluster
        status = cluster.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [wanted], self.clock.now())
        if await write_status(self.client, MANAGED_CLUSTERS, cluster, {**status, "conditions": conditions}):
            if wanted["status"] == "Unknown":
                self.recorder.event(MANAGED_CLUSTERS, cluster, WARNING, "AvailableUnknown", wanted["message"])
            return self._clusters.get("", cluster["metadata"]["name"])
        return cluster

    async def _make_namespace(self, name: str) -> None:
        try:
            await self.client.get(NAMESPACES, name)
        except NotFound:
            labels = {CLUSTER_NAMESPACE_LABEL: name}
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            try:
                await self.client.create(NAMESPACES, obj)
            except AlreadyExists:
                return

    async def _taint(self, cluster: Object | None) -> None:
        taints = wanted_taints(cluster, self.clock.now()) if cluster is not None else None
        if cluster is None or taints is None:
            return
        metadata = cluster["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"taints": taints or None}}
        await self.client.patch(MANAGED_CLUSTERS, metadata["name"], patch)


def _of_cluster(lease: Mapping[str, Any]) -> Iterable[Key]:
    """A lease stands in the namespace that has its cluster's name."""
    metadata = lease["metadata"]
    return (Key("", metadata["namespace"]),) if metadata["name"] == LEASE else ()
