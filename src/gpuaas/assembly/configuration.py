"""Kueue's configuration as upstream's installation shows it: a ConfigMap that says what is in force.

Nothing is read back from it. It is there for who asks what the queues go by, `gpuaas why` first of all; so everybody who
is known to the cluster may read it.
"""

import logging
from typing import Any

from gpuaas.apiserver.cluster import Cluster
from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import CONFIGURATION_KEY, CONFIGURATION_NAME, CONFIGURATION_NAMESPACE
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import CONFIG_MAPS
from gpuaas.store import StoreError

_log = logging.getLogger("gpuaas")
_RBAC = "rbac.authorization.k8s.io"
_ROLES = Resource(_RBAC, "v1", "roles", True, "Role")
_BINDINGS = Resource(_RBAC, "v1", "rolebindings", True, "RoleBinding")
_READER = f"{CONFIGURATION_NAME}-reader"
_DEFAULT = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
_NOTE = "# As of the last start. To change it: gpuaas up --kueue-config FILE\n"


async def show_configuration(cluster: Cluster, client: Client, text: str) -> None:
    """`text`: the file it was started with; nothing for the defaults. Where it cannot be written, it is not shown."""
    try:
        await _show(cluster, client, text)
    except (ApiError, StoreError) as error:
        _log.warning("Kueue's configuration cannot be shown in %s: %s", CONFIGURATION_NAMESPACE, error)


async def _show(cluster: Cluster, client: Client, text: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIGURATION_NAME], "verbs": ["get"]}
    subject = {"kind": "Group", "apiGroup": _RBAC, "name": "system:authenticated"}
    role = {"kind": "Role", "apiGroup": _RBAC, "name": _READER}
    await _ensure(
        cluster, client, CONFIG_MAPS, CONFIGURATION_NAME, data={CONFIGURATION_KEY: _NOTE + (text or _DEFAULT)}
    )
    await _ensure(cluster, client, _ROLES, _READER, rules=[rule])
    await _ensure(cluster, client, _BINDINGS, _READER, subjects=[subject], roleRef=role)


async def _ensure(cluster: Cluster, client: Client, where: Resource, name: str, **content: Any) -> None:
    found = cluster.store.latest(f"{where.group}/{where.plural}/{CONFIGURATION_NAMESPACE}/{name}")
    if found is None:
        made: Object = {"apiVersion": where.api_version, "kind": where.kind, "metadata": {"name": name}, **content}
        await client.create(where, made, CONFIGURATION_NAMESPACE)
    elif "data" in content and found.obj.get("data") != content["data"]:
        await client.patch(where, name, {"data": content["data"]}, CONFIGURATION_NAMESPACE)
