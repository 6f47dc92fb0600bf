"""People with access to a running control plane: tokens in the home, role bindings in the cluster.

Kubernetes' roles know neither the kinds of jobs that operators bring nor what there is to share. So a user who may edit may
also edit those jobs, and a user who is to see the fleet may see nodes, flavors, quotas, priorities and the ledger, but not
the jobs of others.
"""

import contextlib
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuaas.apiserver.security.tokens import UserRecord, Users
from gpuaas.assembly.home import Home
from gpuaas.assembly.trust import ADMIN
from gpuaas.base.clock import SystemClock, rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.base.ids import SystemIds
from gpuaas.base.names import is_dns1123_subdomain
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.kubeconfig import add_context, encode
from gpuaas.client.kueue import LOCAL_QUEUES
from gpuaas.client.protocol import Object, Resource

USER_LABEL = "gpuaas.dev/user"
PROCESS_ROLE = "gpuaas-process-user"
FLEET_ROLE = "gpuaas-fleet-viewer"
JOBS_ROLE = "gpuaas-jobs-editor"
_RBAC = "rbac.authorization.k8s.io"
NAMESPACES = Resource("", "v1", "namespaces", False, "Namespace")
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", False, "ClusterRole")
BINDINGS = Resource(_RBAC, "v1", "rolebindings", True, "RoleBinding")
CLUSTER_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", False, "ClusterRoleBinding")


@dataclass(frozen=True, slots=True)
class Made:
    name: str
    token: str
    cluster: str
    namespace: str
    server: str
    authority: str  # PEM
    has_queue: bool = True  # whether jobs can be submitted in its namespace


async def add(
    home: Home,
    name: str,
    roles: Sequence[str],
    namespace: str,
    cluster: str,
    seconds: float | None,
    url: str,
    *,
    fleet: bool = False,
    groups: Sequence[str] = (),
) -> Made:
    """The bindings first: a token without one could do nothing, and a failure here leaves nothing behind."""
    complaints = is_dns1123_subdomain(name)
    if complaints:
        raise ValueError(f'"{name}" cannot be a user\'s name here: {"; ".join(complaints)}')
    for group in groups:
        check_group(group)
    users = _users(home)
    if any(record.name == name for record in users.list()):
        raise ValueError(f'user "{name}" exists already; gpuaas user rm {name} takes it away')
    async with from_kubeconfig(home.kubeconfig, cluster) as client:
        for role in roles:
            await _check_role(client, role)
        if namespace:
            await _ensure_namespace(client, namespace)
        has_queue = not namespace or bool((await client.list(LOCAL_QUEUES, namespace, limit=1)).items)
        for role in roles:
            await _bind(client, name, role, namespace)
        if fleet:
            await _bind_ours(client, name, FLEET_ROLE, "")
        if "edit" in roles or "admin" in roles:
            await _bind_ours(client, name, JOBS_ROLE, namespace)
    _, token = users.add(name, SystemIds(), groups=dict.fromkeys(groups), seconds=seconds)
    authority = (home.certificates / "ca.crt").read_text()
    return Made(name, token, cluster, namespace, f"{url}/clusters/{cluster}", authority, has_queue)


def check_group(name: str) -> None:
    """Raises ValueError for a name no group of people can have."""
    if not name or ":" in name or "," in name or any(char.isspace() or not char.isprintable() for char in name):
        raise ValueError(
            f"{name!r} cannot be a group's name: no spaces, no commas and no colons (groups that begin with system:"
            " are the server's; --role cluster-admin gives all rights)"
        )


async def listed(home: Home, clusters: Sequence[str]) -> list[dict[str, str]]:
    bindings: list[tuple[str, Object]] = []
    for cluster in clusters:
        async with from_kubeconfig(home.kubeconfig, cluster) as client:
            bindings += [(cluster, each) for each in await _bindings(client) if _role(each) not in _OURS]
    rows: list[dict[str, str]] = []
    for record in _users(home).list():
        held = [(c, each) for c, each in bindings if each["metadata"]["labels"][USER_LABEL] == record.name]
        rows += [_row(record, _role(each), _where(c, each)) for c, each in held] or [_row(record, *_unbound(record))]
    return rows


async def remove(home: Home, name: str, clusters: Sequence[str]) -> bool:
    if name == ADMIN:
        raise ValueError(
            f"{ADMIN} is who owns {home.path}: without it no user could be added; gpuaas down stops it all"
        )
    existed = _users(home).remove(name)
    for cluster in clusters:
        async with from_kubeconfig(home.kubeconfig, cluster) as client:
            for each in await _bindings(client, name):
                meta = each["metadata"]
                where = BINDINGS if meta.get("namespace") else CLUSTER_BINDINGS
                await client.delete(where, meta["name"], meta.get("namespace", ""))
                existed = True
    return existed


def kubeconfig_text(made: Made) -> str:
    context = {"cluster": made.cluster, "user": made.name} | ({"namespace": made.namespace} if made.namespace else {})
    cluster = {"server": made.server, "certificate-authority-data": encode(made.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": made.cluster, "cluster": cluster}],
        "users": [{"name": made.name, "user": {"token": made.token}}],
        "contexts": [{"name": made.cluster, "context": context}],
        "current-context": made.cluster,
    }
    return str(yaml.safe_dump(config, sort_keys=False))


def write_kubeconfig(path: Path, made: Made) -> None:
    add_context(
        path,
        made.cluster,
        cluster={"server": made.server, "certificate-authority-data": encode(made.authority)},
        user={"token": made.token},
        namespace=made.namespace,
        make_current=True,
    )


def _users(home: Home) -> Users:
    return Users(home.users, SystemClock())


async def _check_role(client: HttpClient, role: str) -> None:
    try:
        await client.get(CLUSTER_ROLES, role)
    except NotFound:
        names = [each["metadata"]["name"] for each in (await client.list(CLUSTER_ROLES)).items]
        raise ValueError(f'there is no cluster role "{role}"; {_roles_in_words(role, names)}') from None


def _roles_in_words(role: str, names: Sequence[str]) -> str:
    """The one that was probably meant, and the roles for people; Kueue's for each of its kinds are many."""
    close = difflib.get_close_matches(role, names, 1)
    known = [name for name in names if not name.startswith(("system:", "kueue-"))]
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}there are: {', '.join(known)}{' and those of Kueue' if len(known) < len(names) else ''}"


async def _ensure_namespace(client: HttpClient, namespace: str) -> None:
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    except AlreadyExists:
        return


async def _bind(client: HttpClient, name: str, role: str, namespace: str) -> None:
    where = BINDINGS if namespace else CLUSTER_BINDINGS
    binding: dict[str, Any] = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": where.kind,
        "metadata": {"name": _binding_name(name, role), "labels": {USER_LABEL: name}},
        "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": name}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
    }
    try:
        await client.create(where, binding, namespace)
    except AlreadyExists:
        await client.delete(where, binding["metadata"]["name"], namespace)
        await client.create(where, binding, namespace)


async def _bind_ours(client: HttpClient, name: str, role: str, namespace: str) -> None:
    """The role is made with the first user who gets it; later changes of it stay."""
    metadata = {"name": role, "labels": {"app.kubernetes.io/name": "gpuaas"}}
    made = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": _OURS[role]}
    with contextlib.suppress(AlreadyExists):
        await client.create(CLUSTER_ROLES, made)
    await _bind(client, name, role, namespace)


def _binding_name(name: str, role: str) -> str:
    """Those for more than the user's own role stand beside it."""
    more = {PROCESS_ROLE: "-processes", FLEET_ROLE: "-fleet", JOBS_ROLE: "-jobs"}
    return f"gpuaas-user-{name}{more.get(role, '')}"


def _rule(verbs: Sequence[str], group: str, *resources: str) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


_READ = ("get", "list", "watch")
_EDIT = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_KUEUE = "kueue.x-k8s.io"
_QUOTAS = ("clusterqueues", "cohorts", "resourceflavors", "topologies", "admissionchecks", "workloadpriorityclasses")
_TRAINING = ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "mpijobs")
_OURS = {
    FLEET_ROLE: [
        _rule(_READ, "", "nodes", "namespaces"),
        _rule(_READ, _KUEUE, *_QUOTAS),
        _rule(_READ, "gpuaas.dev", "preemptions"),
        _rule(_READ, "scheduling.k8s.io", "priorityclasses"),
    ],
    JOBS_ROLE: [
        _rule(_EDIT, "kubeflow.org", "notebooks", *_TRAINING),
        _rule(_EDIT, "ray.io", "rayclusters", "rayjobs", "rayservices"),
        _rule(_EDIT, "jobset.x-k8s.io", "jobsets"),
        _rule(_EDIT, "trainer.kubeflow.org", "trainjobs"),
        _rule(_EDIT, "leaderworkerset.x-k8s.io", "leaderworkersets"),
        _rule(_EDIT, "workload.codeflare.dev", "appwrappers"),
        _rule(_EDIT, "serving.kserve.io", "inferenceservices", "servingruntimes"),
    ],
}


async def _bindings(client: HttpClient, name: str = "") -> list[Object]:
    labels = f"{USER_LABEL}={name}" if name else USER_LABEL
    return [each for where in (CLUSTER_BINDINGS, BINDINGS) for each in (await client.list(where, labels=labels)).items]


def _role(binding: Object) -> str:
    return str(binding["roleRef"]["name"])


def _where(cluster: str, binding: Object) -> str:
    return f"{cluster}/{binding['metadata'].get('namespace', '*')}"


def _unbound(record: UserRecord) -> tuple[str, str]:
    return ("cluster-admin", "*") if "system:masters" in record.groups else ("none", "-")


def _row(record: UserRecord, role: str, where: str) -> dict[str, str]:
    expires = rfc3339(record.expires) if record.expires is not None else "never"
    groups = ",".join(record.groups)
    return {"name": record.name, "groups": groups, "role": role, "where": where, "expires": expires}
