"""What the hub's credential may do on a worker: everything MultiKueue's adapters call, and nothing else."""

import pytest

from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.fleet.hub.permissions import permission_spec
from gpuaas.kueue.multikueue.adapters import ADAPTERS

HUB = User("system:serviceaccount:open-cluster-management-agent-addon:multikueue")


@pytest.fixture(scope="module")
def rbac() -> Rbac:
    """As module accounts applies the ClusterPermission."""
    spec, found = permission_spec(), Rbac()
    account = {**spec["clusterRoleBinding"]["subject"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "multikueue"}
    found.put("clusterroles", {"metadata": {"name": "multikueue"}, **spec["clusterRole"]})
    found.put("clusterrolebindings", {"metadata": {"name": "m"}, "roleRef": reference, "subjects": [account]})
    for role, binding in zip(spec["roles"], spec["roleBindings"], strict=True):
        place = {"name": "multikueue", "namespace": role["namespace"]}
        found.put("roles", {"metadata": place, "rules": role["rules"]})
        found.put("rolebindings", {"metadata": place, "roleRef": binding["roleRef"], "subjects": [binding["subject"]]})
    return found


def may(rbac: Rbac, verb: str, group: str, resource: str, namespace: str = "team", subresource: str = "") -> bool:
    return rbac.authorize(HUB, Asked(verb, group, resource, subresource, namespace)).allowed


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda each: each.framework)
def test_every_adapter_can_copy_follow_and_delete_its_kind(rbac: Rbac, adapter: object) -> None:
    resource = adapter.resource  # type: ignore[attr-defined]
    for verb in ("create", "get", "list", "watch", "delete"):
        assert may(rbac, verb, resource.group, resource.plural), verb
    if adapter.forwarded:  # type: ignore[attr-defined]
        assert may(rbac, "patch", resource.group, resource.plural)


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "subresource"),
    [
        ("create", "kueue.x-k8s.io", "workloads", "team", ""),
        ("patch", "kueue.x-k8s.io", "workloads", "team", ""),
        ("update", "kueue.x-k8s.io", "workloads", "team", "status"),
        ("patch", "kueue.x-k8s.io", "workloads", "team", "status"),
        ("list", "kueue.x-k8s.io", "clusterqueues", "", ""),
        ("get", "", "pods", "team", "log"),
        ("create", "coordination.k8s.io", "leases", "kueue-system", ""),
        ("patch", "coordination.k8s.io", "leases", "kueue-system", ""),
    ],
)
def test_what_dispatch_and_logs_need(
    rbac: Rbac, verb: str, group: str, resource: str, namespace: str, subresource: str
) -> None:
    assert may(rbac, verb, group, resource, namespace, subresource)


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "subresource"),
    [
        ("get", "", "secrets", "team", ""),
        ("list", "", "secrets", "", ""),
        ("create", "", "serviceaccounts", "team", "token"),
        ("create", "", "namespaces", "", ""),
        ("delete", "", "namespaces", "", ""),
        ("create", "", "pods", "team", "exec"),
        ("create", "", "pods", "team", "portforward"),
        ("patch", "", "pods", "team", ""),
        ("list", "", "nodes", "", ""),
        ("patch", "", "nodes", "", ""),
        ("create", "apps", "deployments", "team", ""),
        ("update", "kueue.x-k8s.io", "clusterqueues", "", ""),
        ("delete", "kueue.x-k8s.io", "localqueues", "team", ""),
        ("create", "rbac.authorization.k8s.io", "clusterroles", "", ""),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", ""),
        ("bind", "rbac.authorization.k8s.io", "clusterroles", "", ""),
        ("impersonate", "", "users", "", ""),
        ("patch", "coordination.k8s.io", "leases", "kube-system", ""),
        ("delete", "coordination.k8s.io", "leases", "kueue-system", ""),
    ],
)
def test_nothing_else(rbac: Rbac, verb: str, group: str, resource: str, namespace: str, subresource: str) -> None:
    assert not may(rbac, verb, group, resource, namespace, subresource)
