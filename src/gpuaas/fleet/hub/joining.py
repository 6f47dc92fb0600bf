"""How a cluster joins: with RHACM's `auto-import-secret`, an account of the agent's own is made on it; and how it leaves.

The kubeconfig in that Secret, which may be an administrator's, is used once and deleted. What stays on the hub is a token
for an account that may do what the add-on needs (module roles), renewed before it ends. When a ManagedCluster is deleted,
what the hub made on it goes first, as far as it can be reached.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.kubeconfig import Access, KubeconfigError
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES, RESOURCE_FLAVORS, TOPOLOGIES
from gpuaas.client.ocm import MANAGED_CLUSTERS
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from gpuaas.fleet.hub.applying import keep, remove
from gpuaas.fleet.hub.names import (
    ADD_ON_NAMESPACE,
    AGENT_ACCOUNT,
    AGENT_NAMESPACE,
    AGENT_SECRET,
    CLUSTER_NAMESPACE_LABEL,
    IMPORT_SECRET,
    KUEUE_NAMESPACE,
    MIRRORED,
    MULTIKUEUE,
    is_accepted,
    is_local,
)
from gpuaas.fleet.hub.reading import decoded, encoded, kubeconfig, read_kubeconfig
from gpuaas.fleet.hub.roles import AGENT_RULES
from gpuaas.fleet.hub.tokens import Token, request_token, seconds_left
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.fleet.hub.workers import Connect, Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import finalizers_of, is_deleting, labels_of

ROLE: Final = "gpuaas-klusterlet-work"
BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding")
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", True, "Role")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
FINALIZER: Final = "cluster.open-cluster-management.io/api-resource-cleanup"
EXPIRES, REFRESHED = "gpuaas.dev/expires", "gpuaas.dev/refreshed"
_RBAC: Final = "rbac.authorization.k8s.io"
_AGAIN: Final = 5.0


class JoiningController(Controller):
    """Keys are clusters."""

    name = "klusterlet-import"
    component = "import-controller"
    workers = 8

    def __init__(self, deps: Deps, workers: Workers, connect: Connect) -> None:
        super().__init__(deps)
        self._workers = workers
        self._connect = connect
        self._clusters = self.follow(deps.informers.of(MANAGED_CLUSTERS), _named, by=_decides)
        self._secrets = self.follow(deps.informers.of(SECRETS), _of_cluster)
        self._trouble = Trouble(deps, "import")

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        if cluster is None or is_local(cluster):
            return None
        if is_deleting(cluster):
            await self._leave(cluster)
            return None
        if not is_accepted(cluster):
            return None
        if FINALIZER not in finalizers_of(cluster):
            metadata = {"resourceVersion": cluster["metadata"]["resourceVersion"]}
            finalizers = [*finalizers_of(cluster), FINALIZER]
            cluster = await self.client.patch(
                MANAGED_CLUSTERS, key, {"metadata": {**metadata, "finalizers": finalizers}}
            )
        secret = self._secrets.get(key, IMPORT_SECRET)
        try:
            if secret is not None:
                await self._import(cluster, secret)
            left = await self._renew(key)
        except (ApiError, OSError, KubeconfigError, TimeoutError) as error:
            await self._trouble.note(key, error)
            return Requeue(_AGAIN)
        await self._trouble.clear(key)
        return Requeue(left) if left else None

    async def _import(self, cluster: Object, secret: Object) -> None:
        name = cluster["metadata"]["name"]
        access = _given(secret, name)
        admin = self._connect(access)
        await make_account(admin)
        token = await request_token(admin, AGENT_ACCOUNT, AGENT_NAMESPACE)
        await self._keep_credential(name, access.server, access.certificate_authority, token)
        config: Object = {"url": access.server}
        if access.certificate_authority:
            config["caBundle"] = encoded(access.certificate_authority)
        if (cluster.get("spec") or {}).get("managedClusterClientConfigs") != [config]:
            await self.client.patch(MANAGED_CLUSTERS, name, {"spec": {"managedClusterClientConfigs": [config]}})
        await remove(self.client, SECRETS, IMPORT_SECRET, name)
        words = f"Cluster {name} was imported; its agent uses account {AGENT_NAMESPACE}/{AGENT_ACCOUNT} there"
        self.recorder.event(MANAGED_CLUSTERS, cluster, NORMAL, "Imported", words)

    async def _keep_credential(self, cluster: str, server: str, authority: str, token: Token) -> None:
        now = rfc3339(self.clock.now())
        text = kubeconfig(cluster, server, authority, AGENT_ACCOUNT, token.text)
        wanted = {
            "metadata": {
                "name": AGENT_SECRET,
                "namespace": cluster,
                "annotations": {EXPIRES: token.expires, REFRESHED: now},
            },
            "type": "Opaque",
            "data": {"kubeconfig": encoded(text)},
        }
        await keep(self.client, SECRETS, wanted)

    async def _renew(self, cluster: str) -> float:
        """Seconds until the agent's token is due; 0 where there is none."""
        secret = self._secrets.get(cluster, AGENT_SECRET)
        if secret is None:
            return 0.0
        said = secret["metadata"].get("annotations") or {}
        if EXPIRES not in said:
            return 0.0  # written by hand: whose it is, and for how long, is not known
        left = seconds_left(said.get(REFRESHED, ""), said[EXPIRES], self.clock.now())
        if left:
            return left
        client = self._workers.of(cluster)
        if client is None:
            return 0.0
        token = await request_token(client, AGENT_ACCOUNT, AGENT_NAMESPACE)
        access = read_kubeconfig(decoded(secret, "kubeconfig"), AGENT_SECRET)
        await self._keep_credential(cluster, access.server, access.certificate_authority, token)
        return seconds_left(rfc3339(self.clock.now()), token.expires, self.clock.now())

    async def _leave(self, cluster: Object) -> None:
        if FINALIZER not in finalizers_of(cluster):
            return
        name = cluster["metadata"]["name"]
        try:
            client = self._workers.of(name)
            if client is not None:
                await clean(client)
        except (ApiError, OSError, KubeconfigError, TimeoutError) as error:
            words = f"What the hub made on {name} could not be removed: {error}"
            self.recorder.event(MANAGED_CLUSTERS, cluster, WARNING, "CleanupFailed", words)
        await self._delete_namespace(name)
        kept = [each for each in finalizers_of(cluster) if each != FINALIZER]
        metadata = {"resourceVersion": cluster["metadata"]["resourceVersion"], "finalizers": kept or None}
        await self.client.patch(MANAGED_CLUSTERS, name, {"metadata": metadata})

    async def _delete_namespace(self, name: str) -> None:
        """Only the one that was made for the cluster."""
        try:
            namespace = await self.client.get(NAMESPACES, name)
            if labels_of(namespace).get(CLUSTER_NAMESPACE_LABEL) == name:
                await self.client.delete(NAMESPACES, name)
        except NotFound:
            return


async def make_account(client: Client) -> Object:
    """The agent's account, role and binding on a worker. The role owns the other two: who deletes it deletes all."""
    role = await keep(
        client, CLUSTER_ROLES, {"metadata": {"name": ROLE}, "rules": [dict(rule) for rule in AGENT_RULES]}
    )
    owner = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "name": ROLE, "uid": role["metadata"]["uid"]}
    for namespace in (AGENT_NAMESPACE, ADD_ON_NAMESPACE):
        await keep(client, NAMESPACES, {"metadata": {"name": namespace}})
    metadata = {"name": AGENT_ACCOUNT, "namespace": AGENT_NAMESPACE, "ownerReferences": [owner]}
    await keep(client, SERVICE_ACCOUNTS, {"metadata": metadata})
    binding = {
        "metadata": {"name": ROLE, "ownerReferences": [owner]},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": AGENT_ACCOUNT, "namespace": AGENT_NAMESPACE}],
    }
    await keep(client, BINDINGS, binding)
    return role


async def clean(client: Client) -> None:
    """Removes from a worker what the hub made there, the agent's own role last. Queues that still run jobs end with
    the last of them (Kueue's finalizer)."""
    for resource in (LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, PRIORITY_CLASSES):
        for each in (await client.list(resource, labels=f"{MIRRORED}=true")).items:
            metadata = each["metadata"]
            await remove(client, resource, metadata["name"], metadata.get("namespace", ""))
    await remove(client, BINDINGS, MULTIKUEUE)
    await remove(client, CLUSTER_ROLES, MULTIKUEUE)
    for resource in (ROLE_BINDINGS, ROLES):
        await remove(client, resource, MULTIKUEUE, KUEUE_NAMESPACE)
    await remove(client, SERVICE_ACCOUNTS, MULTIKUEUE, ADD_ON_NAMESPACE)
    await remove(client, CLUSTER_ROLES, ROLE)


def _given(secret: Mapping[str, Any], cluster: str) -> Access:
    """The kubeconfig of an `auto-import-secret`, or its server and token."""
    server, token = decoded(secret, "server"), decoded(secret, "token")
    text = decoded(secret, "kubeconfig")
    if not text and server and token:
        text = kubeconfig(cluster, server, decoded(secret, "ca.crt"), "import", token)
    return read_kubeconfig(text, f"Secret {cluster}/{IMPORT_SECRET}")


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    return is_accepted(cluster), cluster["metadata"].get("deletionTimestamp"), finalizers_of(cluster)


def _named(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["name"],)


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    metadata = secret["metadata"]
    return (metadata["namespace"],) if metadata["name"] in (IMPORT_SECRET, AGENT_SECRET) else ()
