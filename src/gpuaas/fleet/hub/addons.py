"""The Kueue add-on on the hub: offered by a ClusterManagementAddOn, installed where its placements decide.

Each decided cluster has a ManagedClusterAddOn in its namespace; it goes when the cluster leaves the decisions. Its
conditions tell of what the agent of that cluster has applied (the condition ManifestApplied, written by module mirror).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.ocm import ADD_ON_OFFERS, ADD_ONS
from gpuaas.client.protocol import Object
from gpuaas.fleet.hub.clusters import STOPPED
from gpuaas.fleet.hub.names import (
    ADD_ON,
    ADD_ON_NAMESPACE,
    AVAILABLE,
    KUEUE_NAMESPACE,
    condition,
    condition_of,
    status_of,
    with_conditions,
)
from gpuaas.fleet.hub.view import FleetView
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, controller_of, controller_reference, is_deleting, key_of
from gpuaas.runtime.writes import write_status

APPLIED: Final = "ManifestApplied"
_PREFIX: Final = "addon.open-cluster-management.io/"
_OFFER: Final = Key("", ADD_ON)


def offer() -> Object:
    """The ClusterManagementAddOn that the add-on's chart makes."""
    strategy = {"type": "Placements", "placements": [{"name": "default", "namespace": KUEUE_NAMESPACE}]}
    return {
        "apiVersion": ADD_ON_OFFERS.api_version,
        "kind": ADD_ON_OFFERS.kind,
        "metadata": {"name": ADD_ON},
        "spec": {
            "addOnMeta": {
                "displayName": "Multicluster Kueue Manager",
                "description": "Connects managed clusters to Kueue on the hub and mirrors its queues to them.",
            },
            "installStrategy": strategy,
        },
    }


def placements_of(obj: Mapping[str, Any]) -> list[Key]:
    strategy = (obj.get("spec") or {}).get("installStrategy") or {}
    if strategy.get("type") != "Placements":
        return []
    return [Key(each.get("namespace", ""), each.get("name", "")) for each in strategy.get("placements") or ()]


def state(add_on: Mapping[str, Any], cluster: Mapping[str, Any] | None) -> list[Object]:
    """Available and Progressing, as the add-on manager words them for an add-on that is manifests only."""
    if status_of(cluster, AVAILABLE) == "Unknown":
        return [condition("Available", "Unknown", "ManagedClusterLeaseUpdateStopped", STOPPED)]
    applied = condition_of(add_on, APPLIED)
    if applied is None:
        waiting = condition(
            "Progressing", "True", "WaitingForManifestApplied", "waiting for the manifests to be applied"
        )
        return [condition("Available", "Unknown", "WorkNotFound", "Addon manifestWork is not found"), waiting]
    if applied["status"] != "True":
        failed = condition("Progressing", "True", "Progressing", "progressing... work is not ready")
        return [condition("Available", "False", "WorkNotApplied", applied["message"]), failed]
    done = condition("Progressing", "False", "Completed", "completed with no errors.")
    return [
        condition("Available", "True", "ProbeAvailable", f"{ADD_ON} add-on is available."),
        done,
    ]


class AddOnController(Controller):
    """Keys are clusters: the namespaces that ManagedClusterAddOns stand in."""

    name = "kueue-add-on"

    def __init__(self, deps: Deps, view: FleetView) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._view = view
        self._add_ons = of(ADD_ONS)
        self._offers = self.follow(of(ADD_ON_OFFERS), lambda _: self._all())
        self.follow(self._view.clusters, _named)
        self.follow(self._view.decisions, lambda _: self._all(), delay=0.05)
        self.follow(self._add_ons, _namespace)

    def _all(self) -> Iterable[str]:
        return [each["metadata"]["name"] for each in self._view.clusters.all()]

    async def reconcile(self, key: str) -> Requeue | None:
        offered = self._offers.get(*_OFFER)
        cluster = self._view.clusters.get("", key)
        known = self._add_ons.get(key, ADD_ON)
        if offered is None or cluster is None:
            return None
        wanted = not is_deleting(cluster) and any(
            key in self._view.chosen(*placement) for placement in placements_of(offered)
        )
        if not wanted:
            if known is not None and (controller_of(known) or {}).get("uid") == offered["metadata"]["uid"]:
                await self._delete(known)
            return None
        if known is None:
            known = await self._create(key, offered, cluster)
        if known is not None:
            await self._describe(known, cluster)
        return None

    async def _create(self, cluster_name: str, offered: Object, cluster: Object) -> Object | None:
        copied = {key: value for key, value in annotations_of(cluster).items() if key.startswith(_PREFIX)}
        obj = {
            "apiVersion": ADD_ONS.api_version,
            "kind": ADD_ONS.kind,
            "metadata": {
                "name": ADD_ON,
                "namespace": cluster_name,
                **({"annotations": copied} if copied else {}),
                "ownerReferences": [controller_reference(offered, ADD_ON_OFFERS)],
            },
            "spec": {"installNamespace": ADD_ON_NAMESPACE},
        }
        try:
            return await self.client.create(ADD_ONS, obj, cluster_name)
        except AlreadyExists:
            return None  # on its way here

    async def _describe(self, add_on: Object, cluster: Object) -> None:
        status = add_on.get("status") or {}
        conditions = with_conditions(status.get("conditions"), state(add_on, cluster), self.clock.now())
        whole = {**status, "conditions": conditions, "namespace": ADD_ON_NAMESPACE}
        await write_status(self.client, ADD_ONS, add_on, whole)

    async def _delete(self, add_on: Object) -> None:
        key = key_of(add_on)
        try:
            await self.client.delete(ADD_ONS, key.name, key.namespace)
        except NotFound:
            return


def _named(cluster: Mapping[str, Any]) -> Iterable[str]:
    return (cluster["metadata"]["name"],)


def _namespace(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["namespace"],) if obj["metadata"]["name"] == ADD_ON else ()
