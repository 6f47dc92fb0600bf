"""Makes ClusterPermissions and ManagedServiceAccounts real on their cluster, and reports the token to the hub.

The token is renewed when four fifths of its life are over, or when MultiKueue says that the cluster refuses it. Roles are
compared at each look, so that a role that was changed on the worker is put right.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.ocm import MANAGED_ACCOUNTS, MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, PERMISSIONS
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from gpuaas.fleet.hub.applying import keep
from gpuaas.fleet.hub.joining import BINDINGS, ROLE_BINDINGS, ROLES
from gpuaas.fleet.hub.names import (
    ADD_ON_NAMESPACE,
    AGENT_SECRET,
    MULTIKUEUE,
    condition,
    condition_of,
    with_conditions,
)
from gpuaas.fleet.hub.reading import encoded
from gpuaas.fleet.hub.tokens import request_token, seconds_left, validity_of
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.fleet.hub.workers import Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import controller_reference, is_deleting
from gpuaas.runtime.writes import write_status

_IS_TOKEN: Final = "authentication.open-cluster-management.io/is-managed-serviceaccount"
_RBAC: Final = "rbac.authorization.k8s.io"
_LOOK_AGAIN: Final = 300.0
_RETRY: Final = 5.0
_REFUSED_AFTER: Final = 30.0  # seconds of a token's life before a refusal is taken for the token's fault


def is_due(account: Mapping[str, Any], connection: Mapping[str, Any] | None, now: float) -> bool:
    """Whether the token must be requested (again)."""
    status = account.get("status") or {}
    refreshed = str((status.get("tokenSecretRef") or {}).get("lastRefreshTimestamp") or "")
    if not seconds_left(refreshed, str(status.get("expirationTimestamp") or ""), now):
        return True
    said = condition_of(connection, "Active") or {}
    refused = said.get("status") == "False" and "unauthorized" in str(said.get("message", "")).lower()
    return refused and now - parse_rfc3339(refreshed) > _REFUSED_AFTER


class AccountController(Controller):
    """Keys are clusters."""

    name = "managed-service-account"
    workers = 8

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._workers = workers
        self._clusters = of(MANAGED_CLUSTERS)
        self._accounts = self.follow(of(MANAGED_ACCOUNTS), _of_multikueue)
        self._permissions = self.follow(of(PERMISSIONS), _of_multikueue)
        self._secrets = self.follow(of(SECRETS), _of_cluster)
        self._connections = self.follow(of(MULTIKUEUE_CLUSTERS), _named)
        self._followed.append(self._clusters)
        self._trouble = Trouble(deps, "credentials")

    async def reconcile(self, key: str) -> Requeue | None:
        account, permission = self._accounts.get(key, MULTIKUEUE), self._permissions.get(key, MULTIKUEUE)
        cluster = self._clusters.get("", key)
        if account is None or permission is None or cluster is None or is_deleting(cluster):
            return None
        try:
            client = self._workers.of(key)
            if client is None:
                return None
            await self._permit(client, permission)
            left = await self._report(client, account)
        except (ApiError, OSError, TimeoutError, KubeconfigError) as error:
            await self._trouble.note(key, error)
            failed = [condition("TokenReported", "False", "TokenReportFailed", str(error)[:500])]
            await self._describe(account, failed, {})
            return Requeue(_RETRY)
        await self._trouble.clear(key)
        return Requeue(min(left, _LOOK_AGAIN))

    async def _permit(self, client: Client, permission: Object) -> None:
        spec = permission.get("spec") or {}
        await keep(client, NAMESPACES, {"metadata": {"name": ADD_ON_NAMESPACE}})
        metadata = {"name": MULTIKUEUE, "namespace": ADD_ON_NAMESPACE}
        await keep(client, SERVICE_ACCOUNTS, {"metadata": metadata})
        rules = (spec.get("clusterRole") or {}).get("rules") or []
        await keep(client, CLUSTER_ROLES, {"metadata": {"name": MULTIKUEUE}, "rules": rules})
        subject = (spec.get("clusterRoleBinding") or {}).get("subject") or {}
        binding = {
            "metadata": {"name": MULTIKUEUE},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": MULTIKUEUE},
            "subjects": [subject],
        }
        await keep(client, BINDINGS, binding)
        for role in spec.get("roles") or ():
            place = {"name": MULTIKUEUE, "namespace": role["namespace"]}
            await keep(client, NAMESPACES, {"metadata": {"name": role["namespace"]}})
            await keep(client, ROLES, {"metadata": place, "rules": role["rules"]})
        for each in spec.get("roleBindings") or ():
            place = {"name": MULTIKUEUE, "namespace": each["namespace"]}
            await keep(
                client, ROLE_BINDINGS, {"metadata": place, "roleRef": each["roleRef"], "subjects": [each["subject"]]}
            )
        said = condition("AppliedRBACManifestWork", "True", "AppliedRBACManifestWork", "Roles and bindings are applied")
        status = permission.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [said], self.clock.now())
        await write_status(self.client, PERMISSIONS, permission, {**status, "conditions": conditions})

    async def _report(self, client: Client, account: Object) -> float:
        """Seconds until the token is due."""
        cluster, now = account["metadata"]["namespace"], self.clock.now()
        secret = self._secrets.get(cluster, MULTIKUEUE)
        if secret is None or is_due(account, self._connections.get("", cluster), now):
            token = await request_token(client, MULTIKUEUE, ADD_ON_NAMESPACE, validity_of(account))
            await self._keep_token(account, token.text)
            reference = {"name": MULTIKUEUE, "lastRefreshTimestamp": rfc3339(now)}
            facts = {"expirationTimestamp": token.expires, "tokenSecretRef": reference}
            said = [
                condition("SecretCreated", "True", "SecretCreated", ""),
                condition("TokenReported", "True", "TokenReported", ""),
            ]
            await self._describe(account, said, facts)
            return seconds_left(rfc3339(now), token.expires, now)
        status = account["status"]
        return seconds_left(status["tokenSecretRef"]["lastRefreshTimestamp"], status["expirationTimestamp"], now)

    async def _keep_token(self, account: Object, token: str) -> None:
        cluster = account["metadata"]["namespace"]
        registered = self._clusters.get("", cluster) or {}
        configs: Sequence[Object] = (registered.get("spec") or {}).get("managedClusterClientConfigs") or ({},)
        data = {"token": encoded(token)}
        if configs[0].get("caBundle"):
            data["ca.crt"] = configs[0]["caBundle"]
        metadata = {
            "name": MULTIKUEUE,
            "namespace": cluster,
            "labels": {_IS_TOKEN: "true"},
            "ownerReferences": [controller_reference(account, MANAGED_ACCOUNTS)],
        }
        await keep(self.client, SECRETS, {"metadata": metadata, "type": "Opaque", "data": data})

    async def _describe(self, account: Object, said: list[Object], facts: Object) -> None:
        newest = self._accounts.get(account["metadata"]["namespace"], MULTIKUEUE)
        if newest is None:
            return
        status = newest.get("status") or {}
        conditions = with_conditions(status.get("conditions"), said, self.clock.now())
        await write_status(self.client, MANAGED_ACCOUNTS, newest, {**status, **facts, "conditions": conditions})


def _of_multikueue(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["namespace"],) if obj["metadata"]["name"] == MULTIKUEUE else ()


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    metadata = secret["metadata"]
    return (metadata["namespace"],) if metadata["name"] in (AGENT_SECRET, MULTIKUEUE) else ()


def _named(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["name"],)
