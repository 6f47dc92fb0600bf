"""What a cluster has from its first moment: namespaces, roles, priority classes, the API's own service.

Written only where it is missing, so that what a user changed stays changed; a role of ours that a newer version
extends is brought up to date unless it is marked otherwise, as Kubernetes does.
"""

import asyncio
import logging
from collections.abc import Mapping

from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.definitions import Definitions
from gpuaas.apiserver.security.bootstrap import objects, reconciled
from gpuaas.base.errors import AlreadyExists, ApiError
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import SERVICE_ACCOUNTS

_log = logging.getLogger("gpuaas")
NAMESPACES = Resource("", "v1", "namespaces", False, "Namespace")
_FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kueue-system")

_PLACES: Mapping[str, Resource] = {
    "ClusterRole": Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole"),
    "ClusterRoleBinding": Resource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding"
    ),
    "Role": Resource("rbac.authorization.k8s.io", "v1", "roles", True, "Role"),
    "RoleBinding": Resource("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding"),
    "PriorityClass": Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass"),
    "Service": Resource("", "v1", "services", True, "Service"),
}


async def bootstrap(cluster: Cluster, client: Client, definitions: Definitions) -> None:
    """All at once where nothing depends on the order: the store commits what comes together together."""
    missing = [name for name in _FIRST_NAMESPACES if cluster.store.get(f"/namespaces//{name}") is None]
    await asyncio.gather(*(_create(client, NAMESPACES, _namespace(name)) for name in missing))
    accounts = [name for name in missing if cluster.store.get(f"/serviceaccounts/{name}/default") is None]
    await asyncio.gather(*(_create(client, SERVICE_ACCOUNTS, _account(), name) for name in accounts))
    first = [*(role for _, role in objects()), *_priority_classes(), _service()]
    await asyncio.gather(*(_ensure(cluster, client, obj) for obj in first))
    definitions.install()


def _namespace(name: str) -> Object:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}


def _account() -> Object:
    return {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}


async def _ensure(cluster: Cluster, client: Client, obj: Object) -> None:
    where = _PLACES[obj["kind"]]
    meta = obj["metadata"]
    found = cluster.store.get(f"{where.group}/{where.plural}/{meta.get('namespace', '')}/{meta['name']}")
    if found is None:
        await _create(client, where, obj, meta.get("namespace", ""))
        return
    with cluster.aside.guard("bootstrap", found.obj):
        current = reconciled(found.obj, obj) if "rbac" in where.group else None
        if current is not None:
            await client.update(where, current, meta.get("namespace", ""))


async def _create(client: Client, where: Resource, obj: Object, namespace: str = "") -> None:
    """Refused by a policy of a user's, say, it is missing; the cluster starts all the same, and tries again next time."""
    try:
        await client.create(where, obj, namespace)
    except AlreadyExists:
        return
    except ApiError as error:
        _log.warning("%s %s was not created: %s", obj["kind"], obj["metadata"]["name"], error)


def _priority_classes() -> list[Object]:
    return [
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        for name, value, description in (
            ("system-cluster-critical", 2_000_000_000, "For pods the cluster cannot do without"),
            ("system-node-critical", 2_000_001_000, "For pods a node cannot do without"),
        )
    ]


def _service() -> Object:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP"}],
        },
    }
