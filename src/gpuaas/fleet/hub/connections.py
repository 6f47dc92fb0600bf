"""The kubeconfig Secret and the MultiKueueCluster of each cluster, from its token and its address.

Both go when the permission or the token's Secret is gone; a MultiKueueCluster that was deleted by hand comes back, and a
rotated token is passed on in one step.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.ocm import MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, PERMISSIONS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import SECRETS
from gpuaas.fleet.hub.names import KUEUE_NAMESPACE, MULTIKUEUE, kubeconfig_secret
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import is_deleting


class NoClientConfig(Exception):
    """The ManagedCluster does not say where its API server is."""


def decoded(secret: Mapping[str, Any], key: str) -> str:
    """A value of a Secret as text; empty where there is none or it is none."""
    try:
        return base64.b64decode(str((secret.get("data") or {}).get(key) or ""), validate=True).decode()
    except ValueError:
        return ""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def address_of(cluster: Mapping[str, Any]) -> str:
    configs = (cluster.get("spec") or {}).get("managedClusterClientConfigs") or ()
    if not configs or not configs[0].get("url"):
        raise NoClientConfig(f"no client config found for cluster {cluster['metadata']['name']}")
    return str(configs[0]["url"])


def kubeconfig(cluster: str, server: str, authority: str, user: str, token: str) -> str:
    """One cluster, one context, one user, everything inline: what MultiKueue's validation accepts. JSON is YAML, and
    the same text for the same values."""
    entry = {"server": server, **({"certificate-authority-data": encoded(authority)} if authority else {})}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": entry}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return msgspec.json.encode(whole).decode()


def multikueue_cluster(name: str) -> Object:
    location = {"locationType": "Secret", "location": kubeconfig_secret(name)}
    return {
        "apiVersion": MULTIKUEUE_CLUSTERS.api_version,
        "kind": MULTIKUEUE_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"clusterSource": {"kubeConfig": location}},
    }


class ConnectionController(Controller):
    """Keys are clusters."""

    name = "kueue-secret-copy"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._clusters = self.follow(of(MANAGED_CLUSTERS), _named, by=_decides)
        self._permissions = self.follow(of(PERMISSIONS), _in_cluster)
        self._secrets = self.follow(of(SECRETS), _of_cluster)
        self._connections = self.follow(of(MULTIKUEUE_CLUSTERS), _named)

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        token = self._secrets.get(key, MULTIKUEUE)
        permission = self._permissions.get(key, MULTIKUEUE)
        if cluster is None or is_deleting(cluster) or token is None or permission is None:
            await self._withdraw(key)
            return None
        text = kubeconfig(key, address_of(cluster), decoded(token, "ca.crt"), MULTIKUEUE, decoded(token, "token"))
        await self._keep_secret(key, text)
        wanted = multikueue_cluster(key)
        known = self._connections.get("", key)
        if known is None:
            await self._create(MULTIKUEUE_CLUSTERS, wanted)
        elif known.get("spec") != wanted["spec"]:
            await self.client.patch(MULTIKUEUE_CLUSTERS, key, {"spec": wanted["spec"]})
        return None

    async def _keep_secret(self, cluster: str, text: str) -> None:
        name, data = kubeconfig_secret(cluster), {"kubeconfig": encoded(text)}
        known = self._secrets.get(KUEUE_NAMESPACE, name)
        if known is None:
            metadata = {"name": name, "namespace": KUEUE_NAMESPACE}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            await self._create(SECRETS, secret, KUEUE_NAMESPACE)
        elif known.get("data") != data:
            await self.client.patch(SECRETS, name, {"data": data}, KUEUE_NAMESPACE)

    async def _withdraw(self, cluster: str) -> None:
        """Only what this controller made: a cluster that was never registered here keeps what its admin wrote."""
        secret = kubeconfig_secret(cluster)
        known = self._connections.get("", cluster)
        if known is not None and (known.get("spec") or {}) == multikueue_cluster(cluster)["spec"]:
            await self._delete(MULTIKUEUE_CLUSTERS, cluster)
            if self._secrets.get(KUEUE_NAMESPACE, secret) is not None:
                await self._delete(SECRETS, secret, KUEUE_NAMESPACE)

    async def _create(self, resource: Resource, obj: Object, namespace: str = "") -> None:
        try:
            await self.client.create(resource, obj, namespace)
        except AlreadyExists:
            return

    async def _delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        try:
            await self.client.delete(resource, name, namespace)
        except NotFound:
            return


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    spec = cluster.get("spec") or {}
    return spec.get("managedClusterClientConfigs"), cluster["metadata"].get("deletionTimestamp")


def _named(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["name"],)


def _in_cluster(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["namespace"],) if obj["metadata"]["name"] == MULTIKUEUE else ()


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    """The token in the cluster's namespace, the kubeconfig in Kueue's."""
    name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
    if name == MULTIKUEUE:
        return (namespace,)
    if namespace == KUEUE_NAMESPACE and name.startswith(f"{MULTIKUEUE}-"):
        return (name.removeprefix(f"{MULTIKUEUE}-"),)
    return ()
