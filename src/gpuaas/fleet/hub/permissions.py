"""Each accepted cluster gets a ClusterPermission and a ManagedServiceAccount `multikueue` in its namespace.

They say which account the hub's MultiKueue uses on that cluster and what it may do there; module accounts makes it so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.ocm import MANAGED_ACCOUNTS, MANAGED_CLUSTERS, PERMISSIONS
from gpuaas.client.protocol import Object, Resource
from gpuaas.fleet.hub.names import ADD_ON_NAMESPACE, KUEUE_NAMESPACE, MULTIKUEUE, is_accepted, is_local
from gpuaas.fleet.hub.roles import HUB_LEASE_RULES, MULTIKUEUE_RULES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import is_deleting

_SYNCED: Final = "authentication.open-cluster-management.io/sync-to-clusterprofile"
VALIDITY: Final = "8640h0m0s"


def permission_spec() -> Object:
    subject = {"kind": "ServiceAccount", "name": MULTIKUEUE, "namespace": ADD_ON_NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MULTIKUEUE}
    place = {"namespace": KUEUE_NAMESPACE}
    return {
        "clusterRole": {"rules": [dict(rule) for rule in MULTIKUEUE_RULES]},
        "clusterRoleBinding": {"subject": subject},
        "roles": [{**place, "rules": [dict(rule) for rule in HUB_LEASE_RULES]}],
        "roleBindings": [{**place, "name": MULTIKUEUE, "roleRef": role, "subject": subject}],
    }


def account_spec() -> Object:
    return {"rotation": {"enabled": True, "validity": VALIDITY}}


class PermissionController(Controller):
    """Keys are clusters."""

    name = "kueue-secret-generator"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._clusters = self.follow(of(MANAGED_CLUSTERS), _named, by=_decides)
        self._permissions = self.follow(of(PERMISSIONS), _namespace)
        self._accounts = self.follow(of(MANAGED_ACCOUNTS), _namespace)

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        if cluster is None or is_local(cluster):
            return None
        if is_deleting(cluster):
            for resource in (PERMISSIONS, MANAGED_ACCOUNTS):
                await self._delete(resource, key)
        elif is_accepted(cluster):
            await self._keep(PERMISSIONS, key, permission_spec(), {})
            await self._keep(MANAGED_ACCOUNTS, key, account_spec(), {_SYNCED: "true"})
        return None

    async def _keep(self, resource: Resource, cluster: str, spec: Object, labels: Mapping[str, str]) -> None:
        informer = self._permissions if resource == PERMISSIONS else self._accounts
        known = informer.get(cluster, MULTIKUEUE)
        if known is None:
            metadata: Object = {"name": MULTIKUEUE, "namespace": cluster}
            if labels:
                metadata["labels"] = dict(labels)
            obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
            try:
                await self.client.create(resource, obj, cluster)
            except AlreadyExists:
                return
        elif any((known.get("spec") or {}).get(key) != value for key, value in spec.items()):
            await self.client.patch(resource, MULTIKUEUE, {"spec": spec}, cluster)

    async def _delete(self, resource: Resource, cluster: str) -> None:
        try:
            await self.client.delete(resource, MULTIKUEUE, cluster)
        except NotFound:
            return


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata = cluster["metadata"]
    return is_accepted(cluster), metadata.get("labels"), metadata.get("deletionTimestamp")


def _named(cluster: Mapping[str, Any]) -> Iterable[str]:
    return (cluster["metadata"]["name"],)


def _namespace(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["namespace"],) if obj["metadata"]["name"] == MULTIKUEUE else ()
