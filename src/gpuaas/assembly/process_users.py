"""Who may run processes on this machine, and what that right is worth.

Processes are not isolated: they run as the user who started gpuaas and so can read and change all that the control plane
is made of. The right to use the runtime class of processes is therefore worth as much as `cluster-admin`. This
module finds it in all roles and bindings that grant it.
"""

from collections.abc import Iterable, Sequence

from gpuaas.apiserver.security.rules import parse_rules
from gpuaas.assembly.home import Home
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.protocol import Object, Resource
from gpuaas.nodefit.names import PROCESS_CLASS

WARNING = """\
The right to run processes hands over this machine and the control plane. Processes are not isolated: they run as the
user who started gpuaas. A user who may start one can read and change
  - everything of that user on this machine: files, keys, other processes
  - the home {home}: the CA key, the keys that sign tokens, all users, the database of every cluster
  - the administrator's kubeconfig, and with it every namespace, queue and quota
Give it only to people to whom you would give this machine itself."""

_RBAC = "rbac.authorization.k8s.io"
_ROLES = (
    Resource(_RBAC, "v1", "clusterroles", False, "ClusterRole"),
    Resource(_RBAC, "v1", "roles", True, "Role"),
)
_BINDINGS = (
    Resource(_RBAC, "v1", "clusterrolebindings", False, "ClusterRoleBinding"),
    Resource(_RBAC, "v1", "rolebindings", True, "RoleBinding"),
)


async def process_users(home: Home, clusters: Sequence[str]) -> list[dict[str, str]]:
    """Name, kind and place of each, in the order of their names; Kubernetes' own (`system:`) are left out."""
    rows: list[dict[str, str]] = []
    for cluster in clusters:
        async with from_kubeconfig(home.kubeconfig, cluster) as client:
            roles, bindings = await _all(client, _ROLES), await _all(client, _BINDINGS)
        rows += [{**each, "where": f"{cluster}/{each['where']}"} for each in holders(roles, bindings)]
    return sorted(rows, key=lambda row: (row["name"], row["where"]))


def holders(roles: Iterable[Object], bindings: Iterable[Object]) -> list[dict[str, str]]:
    """Whom some binding gives a role that allows processes."""
    enough = {_place(role) for role in roles if _allows(role)}
    found: dict[tuple[str, str, str], None] = {}
    for binding in bindings:
        reference = binding.get("roleRef") or {}
        namespace = binding["metadata"].get("namespace", "")
        scope = namespace if reference.get("kind") == "Role" else ""
        if (scope, reference.get("name")) not in enough:
            continue
        for subject in binding.get("subjects") or ():
            found[subject.get("kind", ""), _name(subject, namespace), namespace or "*"] = None
    return [
        {"name": name, "kind": kind, "where": where}
        for kind, name, where in found
        if not name.startswith(("system:", "kube-system:"))
    ]


def _allows(role: Object) -> bool:
    return any(
        rule.allows("use", "node.k8s.io", "runtimeclasses", "") and (not rule.names or PROCESS_CLASS in rule.names)
        for rule in parse_rules(role.get("rules"))
    )


def _place(role: Object) -> tuple[str, str]:
    return role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _name(subject: Object, namespace: str) -> str:
    name = str(subject.get("name", ""))
    if subject.get("kind") == "ServiceAccount":
        return f"{subject.get('namespace') or namespace}:{name}"
    return name


async def _all(client: HttpClient, resources: Iterable[Resource]) -> list[Object]:
    return [each for resource in resources for each in (await client.list(resource)).items]
