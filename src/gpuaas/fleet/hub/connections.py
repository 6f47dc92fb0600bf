"""The kubeconfig Secret and the MultiKueueCluster of each cluster, from its token and its address.

Both go when the permission or the token's Secret is gone; a MultiKueueCluster that was deleted by hand comes back, and a
rotated token is passed on in one step.

One cluster under two names would have its copies deleted by the one name as they are made by the other. So where an admin
wired a cluster by hand (a MultiKueueCluster of another name, whose Secret leads to the same server), that one counts: ours
is not made, or is withdrawn while no workload runs through it. Only what carries our label is changed or deleted here: an
admin may have used the same names.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, PERMISSIONS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import SECRETS
from gpuaas.fleet.hub.names import KUEUE_NAMESPACE, MULTIKUEUE, kubeconfig_secret
from gpuaas.fleet.hub.reading import decoded, encoded, kubeconfig, read_kubeconfig
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import is_deleting, labels_of

MADE: Final = "gpuaas.dev/made-for-managed-cluster"  # label


class NoClientConfig(Exception):
    """The ManagedCluster does not say where its API server is."""


def address_of(cluster: Mapping[str, Any]) -> str:
    configs = (cluster.get("spec") or {}).get("managedClusterClientConfigs") or ()
    if not configs or not configs[0].get("url"):
        raise NoClientConfig(f"no client config found for cluster {cluster['metadata']['name']}")
    return str(configs[0]["url"])


def multikueue_cluster(name: str) -> Object:
    location = {"locationType": "Secret", "location": kubeconfig_secret(name)}
    return {
        "apiVersion": MULTIKUEUE_CLUSTERS.api_version,
        "kind": MULTIKUEUE_CLUSTERS.kind,
        "metadata": {"name": name, "labels": {MADE: "true"}},
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
        self._connections = self.follow(of(MULTIKUEUE_CLUSTERS), self._concerned)
        self._workloads = of(WORKLOADS)
        self._followed.append(self._workloads)
        self._trouble = Trouble(deps, "duplicate")

    def _concerned(self, connection: Mapping[str, Any]) -> Iterable[str]:
        """Its own cluster; one made by hand may stand for any other."""
        name = connection["metadata"]["name"]
        others = () if _is_ours(connection) else [each["metadata"]["name"] for each in self._clusters.all()]
        return (name, *others)

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        token = self._secrets.get(key, MULTIKUEUE)
        permission = self._permissions.get(key, MULTIKUEUE)
        if cluster is None or is_deleting(cluster) or token is None or permission is None:
            await self._withdraw(key)
            return None
        server = address_of(cluster)
        if (other := self._wired_by_hand(key, server)) and not self._has_jobs(key):
            await self._trouble.say(
                key,
                f"MultiKueueCluster {other} leads to the same server; fix: kubectl delete multikueuecluster {other}",
            )
            await self._withdraw(key)
            return None
        kept = self._secrets.get(KUEUE_NAMESPACE, kubeconfig_secret(key))
        if kept is not None and not _is_ours(kept):
            where = f"-n {KUEUE_NAMESPACE} {kubeconfig_secret(key)}"
            words = f"Secret {KUEUE_NAMESPACE}/{kubeconfig_secret(key)} is not the add-on's"
            await self._trouble.say(key, f"{words}; fix: kubectl delete secret {where}")
            return None
        await self._trouble.clear(key)
        text = kubeconfig(key, server, decoded(token, "ca.crt"), MULTIKUEUE, decoded(token, "token"))
        await self._keep_secret(key, text)
        wanted = multikueue_cluster(key)
        known = self._connections.get("", key)
        if known is None:
            await self._create(MULTIKUEUE_CLUSTERS, wanted)
        elif _is_ours(known) and known.get("spec") != wanted["spec"]:
            await self.client.patch(MULTIKUEUE_CLUSTERS, key, {"spec": wanted["spec"]})
        return None

    def _wired_by_hand(self, cluster: str, server: str) -> str:
        """The name of another MultiKueueCluster that leads to the server; empty where there is none."""
        for each in self._connections.all():
            name = each["metadata"]["name"]
            if name == cluster or _is_ours(each) or is_deleting(each):
                continue
            source = ((each.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
            if source.get("locationType", "Secret") != "Secret":
                continue
            secret = self._secrets.get(KUEUE_NAMESPACE, str(source.get("location") or ""))
            with contextlib.suppress(KubeconfigError):
                if secret is not None and read_kubeconfig(decoded(secret, "kubeconfig"), name).server == server:
                    return str(name)
        return ""

    def _has_jobs(self, cluster: str) -> bool:
        return any((each.get("status") or {}).get("clusterName") == cluster for each in self._workloads.all())

    async def _keep_secret(self, cluster: str, text: str) -> None:
        name, data = kubeconfig_secret(cluster), {"kubeconfig": encoded(text)}
        known = self._secrets.get(KUEUE_NAMESPACE, name)
        if known is None:
            metadata = {"name": name, "namespace": KUEUE_NAMESPACE, "labels": {MADE: "true"}}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            await self._create(SECRETS, secret, KUEUE_NAMESPACE)
        elif known.get("data") != data:
            await self.client.patch(SECRETS, name, {"data": data}, KUEUE_NAMESPACE)

    async def _withdraw(self, cluster: str) -> None:
        """Only what this controller made: a cluster that was never registered here keeps what its admin wrote."""
        secret = kubeconfig_secret(cluster)
        known = self._connections.get("", cluster)
        if known is not None and _is_ours(known):
            await self._delete(MULTIKUEUE_CLUSTERS, cluster)
        kept = self._secrets.get(KUEUE_NAMESPACE, secret)
        if kept is not None and _is_ours(kept):
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


def _is_ours(obj: Mapping[str, Any]) -> bool:
    return labels_of(obj).get(MADE) == "true"


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
