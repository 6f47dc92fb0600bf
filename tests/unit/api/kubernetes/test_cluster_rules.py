"""Configuration, namespaces, nodes, events, leases, priorities, storage, limits, quotas, access: the smaller rules."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, kind_of, made, refused

_IMMUTABLE = "field is immutable when `immutable` is set"


def _object(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


def _config_map(**fields: Any) -> dict[str, Any]:
    return _object("v1", "ConfigMap", **fields)


def _secret(**fields: Any) -> dict[str, Any]:
    return _object("v1", "Secret", **fields)


def _quota(**spec: Any) -> dict[str, Any]:
    return _object("v1", "ResourceQuota", spec=spec)


def _limits(*limits: dict[str, Any]) -> dict[str, Any]:
    return _object("v1", "LimitRange", spec={"limits": list(limits)})


def _binding(kind: str = "RoleBinding", **fields: Any) -> dict[str, Any]:
    role = {"kind": "ClusterRole", "name": "view"}
    return _object("rbac.authorization.k8s.io/v1", kind, **{"roleRef": role, **fields})


def _role(*rules: dict[str, Any], kind: str = "Role") -> dict[str, Any]:
    return _object("rbac.authorization.k8s.io/v1", kind, rules=list(rules))


def test_what_is_written_as_text_is_kept_as_bytes() -> None:
    obj = made(_secret(stringData={"a": "hi"}, data={"a": "b2xk", "b": "aGk="}))
    assert (obj["type"], obj["data"]) == ("Opaque", {"a": "aGk=", "b": "aGk="})
    assert "stringData" not in obj


def test_a_namespace_carries_its_name_and_its_finalizer() -> None:
    obj = made(_object("v1", "Namespace", metadata={"name": "team", "labels": {"a": "b"}}))
    assert obj["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert (obj["spec"], obj["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_the_label_with_a_namespaces_name_cannot_be_changed() -> None:
    patch = {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}
    obj, errors = changed(_object("v1", "Namespace", metadata={"name": "team"}), patch)
    assert (obj["metadata"]["labels"], errors) == ({"kubernetes.io/metadata.name": "team"}, [])


def test_a_node_allows_what_it_has() -> None:
    node = made(_object("v1", "Node", status={"capacity": {"cpu": "4"}}))
    assert node["status"]["allocatable"] == {"cpu": "4"}


def test_a_limit_range_completes_itself() -> None:
    (limit,) = made(_limits({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"}}))["spec"][
        "limits"
    ]
    assert limit["default"] == {"cpu": "2"}
    assert limit["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


def test_an_empty_role_shows_null() -> None:
    assert made(_role())["rules"] is None


def test_subjects_get_their_group() -> None:
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
    obj = made(_binding(subjects=subjects))
    assert [subject.get("apiGroup") for subject in obj["subjects"]] == ["rbac.authorization.k8s.io", None]
    assert obj["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("obj", "errors"),
    [
        (_config_map(data={"ok.txt": "x"}), []),
        (_config_map(data={"a": "x"}, binaryData={"a": "aGk="}), ['data[a]: Invalid value: "a": duplicate of key present in binaryData']),
        (_config_map(data={"..": "x"}), ["data[..]: Invalid value: \"..\": must not be '..'"]),
        (_config_map(data={"a": "x" * 1_048_577}), ["[]: Too long: may not be more than 1048576 bytes"]),
        (_secret(type="kubernetes.io/tls"), ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        (_secret(type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "x"}), ["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value"]),
        (_secret(type="kubernetes.io/service-account-token"), ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
        (_object("v1", "Node", spec={"taints": [{"key": "a", "effect": "Odd"}]}), ['metadata.taints[0].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"']),
        (_object("v1", "Node", status={"capacity": {"nvidia.com/gpu": "1500m"}}), ['status.capacity.nvidia.com/gpu: Invalid value: "1500m": must be an integer', 'status.allocatable.nvidia.com/gpu: Invalid value: "1500m": must be an integer']),
        (_object("v1", "Event", involvedObject={"namespace": "other"}), ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
        (_object("v1", "Event", involvedObject={"kind": "Pod", "namespace": "default"}), []),
        (_object("coordination.k8s.io/v1", "Lease", spec={"leaseDurationSeconds": 0}), ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
        (_object("scheduling.k8s.io/v1", "PriorityClass", value=2_000_000_000), ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
        (_object("scheduling.k8s.io/v1", "PriorityClass", metadata={"name": "system-mine"}, value=1), ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class"]),
        (_limits({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}), ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1', 'spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1', 'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1']),
        (_limits({"type": "Odd"}), ['spec.limits[0].type: Invalid value: "Odd": must be a standard limit type or fully qualified']),
        (_quota(hard={"requests.nvidia.com/gpu": "4", "count/jobs.batch": "3"}), []),
        (_quota(hard={"gpus": "1"}), ['spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified', 'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota']),
        (_quota(hard={"pods": "1"}, scopes=["BestEffort", "NotBestEffort"]), ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes']),
        (_role({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), []),
        (_role({"apiGroups": [""], "resources": ["pods"]}), ["rules[0].verbs: Required value: verbs must contain at least one value"]),
        (_role({"verbs": ["get"], "nonResourceURLs": ["/x"]}), ['rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs']),
        (_role({"verbs": ["get"], "nonResourceURLs": ["/x"]}, kind="ClusterRole"), []),
        (_binding(roleRef={"kind": "Other", "name": "x"}), ['roleRef.kind: Unsupported value: "Other": supported values: "Role", "ClusterRole"']),
        (_binding("ClusterRoleBinding", subjects=[{"kind": "ServiceAccount", "name": "s"}]), ["subjects[0].namespace: Required value"]),
        (_binding(metadata={"name": "a:b"}), []),
        (_binding(metadata={"name": "a/b"}), ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
    ],
)  # fmt: skip
def test_what_is_refused(obj: dict[str, Any], errors: list[str]) -> None:
    assert refused(obj) == errors


@pytest.mark.parametrize(
    ("obj", "patch", "errors"),
    [
        (_secret(), {"type": "a/b"}, ['type: Invalid value: "a/b": field is immutable']),
        (_secret(immutable=True, stringData={"a": "b"}), {"stringData": {"a": "c"}}, [f"data: Forbidden: {_IMMUTABLE}"]),
        (_config_map(immutable=True), {"immutable": None}, [f"immutable: Forbidden: {_IMMUTABLE}"]),
        (_config_map(immutable=True), {"metadata": {"labels": {"a": "b"}}}, []),
        (_object("scheduling.k8s.io/v1", "PriorityClass", value=1), {"value": 2}, ["value: Forbidden: may not be changed in an update."]),
        (_binding(), {"roleRef": {"name": "edit"}}, ['roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef']),
        (_quota(hard={"pods": "1"}, scopes=["BestEffort"]), {"spec": {"scopes": ["NotBestEffort"]}}, ['spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable']),
        (_object("v1", "Node", spec={"providerID": "a"}), {"spec": {"providerID": "b"}}, ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid']),
        (_object("v1", "Namespace"), {"status": {"phase": "Terminating"}}, ['status.Phase: Invalid value: "Terminating": may only be \'Active\' if `deletionTimestamp` is empty']),
    ],
)  # fmt: skip
def test_what_may_not_change(obj: dict[str, Any], patch: dict[str, Any], errors: list[str]) -> None:
    assert complaints(obj, patch) == errors


@pytest.mark.parametrize(
    ("obj", "field", "value"),
    [
        (_object("v1", "Pod", spec={"containers": [], "nodeName": "n"}), "spec.nodeName", "n"),
        (_object("v1", "Pod", spec={"containers": []}), "status.phase", "Pending"),
        (_object("v1", "Pod", spec={"containers": []}), "spec.hostNetwork", "false"),
        (_secret(), "type", "Opaque"),
        (_object("v1", "Namespace"), "status.phase", "Active"),
        (_object("v1", "Node", spec={"unschedulable": True}), "spec.unschedulable", "true"),
        (_object("v1", "Event", involvedObject={"name": "p"}, reason="Why"), "involvedObject.name", "p"),
        (_object("v1", "Event", source={"component": "kubelet"}), "source", "kubelet"),
        (_object("batch/v1", "Job", spec={"template": {"spec": {"containers": []}}}), "status.successful", "0"),
        (_object("v1", "Service", spec={"clusterIP": "None"}), "spec.clusterIP", "None"),
    ],
)  # fmt: skip
def test_field_selectors(obj: dict[str, Any], field: str, value: str) -> None:
    kept = made(obj)
    rules = kind_of(kept).behaviour
    assert field in rules.field_selectors
    assert rules.fields(kept)[field] == value
