"""Who is found to have the right to run processes, however it was given."""

from typing import Any

from gpuaas.assembly.process_users import holders

_USE = {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["use"]}


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "rules": list(rules)}


def binding(role: str, *names: str, namespace: str = "", kind: str = "ClusterRole") -> dict[str, Any]:
    subjects = [{"kind": "User", "name": name} for name in names]
    metadata = {"name": "b", **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": subjects}


def found(roles: list[dict[str, Any]], *bindings: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["name"], each["where"]) for each in holders(roles, bindings)]


def test_a_role_counts_by_its_rules_and_not_by_its_name() -> None:
    ours = role("ours", {**_USE, "resourceNames": ["gpuaas-process"]})
    other = role("other", {**_USE, "resourceNames": ["kata"]})
    everything = role("all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    roles = [ours, other, everything, role("view", {**_USE, "verbs": ["get"]}), role("any", _USE)]
    assert found(roles, binding("ours", "ann"), binding("other", "bob"), binding("view", "cy")) == [("ann", "*")]
    assert found(roles, binding("all", "dora"), binding("any", "eve", namespace="ns")) == [("dora", "*"), ("eve", "ns")]


def test_a_role_of_a_namespace_counts_there() -> None:
    roles = [role("ours", _USE, namespace="a")]
    assert found(roles, binding("ours", "ann", namespace="a", kind="Role")) == [("ann", "a")]
    assert found(roles, binding("ours", "ann", namespace="b", kind="Role")) == []
    assert found(roles, binding("ours", "ann", namespace="a")) == [], "a cluster role of that name is another one"


def test_kubernetes_own_are_left_out_and_accounts_are_named_with_their_namespace() -> None:
    given = binding("any", "system:admin", namespace="ns")
    given["subjects"].append({"kind": "ServiceAccount", "name": "bot", "namespace": "tools"})
    assert found([role("any", _USE)], given) == [("tools:bot", "ns")]
