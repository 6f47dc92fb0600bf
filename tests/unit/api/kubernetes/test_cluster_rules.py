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


def _claim(**spec: Any) -> dict[str, Any]:
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return _object("v1", "PersistentVolumeClaim", spec=full)


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
    node = made(_object("v1", "Node", status={"capacity": {"cpu": "4"}}, spec={"podCIDR": "10.0.0.0/24"}))
    assert node["status"]["allocatable"] == {"cpu": "4"}
    assert node["spec"]["podCIDRs"] == ["10.0.0.0/24"]


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
        (_claim(), []),
        (_claim(accessModes=[]), ["spec.accessModes: Required value: at least 1 access mode is required"]),
        (_claim(resources={"requests": {"storage": "0"}}), ['spec.resources[storage]: Invalid value: "0": must be greater than zero']),
        (_claim(accessModes=["ReadWriteOnce", "ReadWriteOncePod"]), ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
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
        (_claim(), {"spec": {"volumeName": "v"}}, []),
        (_claim(volumeMode="Block"), {"spec": {"volumeMode": "Filesystem"}}, ["spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n", 'volumeMode: Invalid value: "Filesystem": field is immutable']),
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


def _volume(**spec: Any) -> dict[str, Any]:
    full = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}, **spec}
    return _object("v1", "PersistentVolume", spec=full)


_OLD_OS = {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}
_OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."


@pytest.mark.parametrize(
    ("obj", "warnings"),
    [
        (_volume(), []),
        (_volume(persistentVolumeReclaimPolicy="Recycle"), [f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"]),
        (_volume(nodeAffinity={"required": {"nodeSelectorTerms": [_OLD_OS]}}), [f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is {_OS}"]),
        ({**_volume(), "metadata": {"annotations": {"volume.beta.kubernetes.io/mount-options": "ro"}}}, ['metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead']),
        (_claim(resources={"requests": {"storage": "1500m"}}), ['spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer']),
        (_object("v1", "Node", spec={"externalID": "x"}), ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]),
        (_quota(hard={"requests.cpu": "4", "limits.cpu": "2"}), ["ResourceQuota requests.cpu (4) should be less than limits.cpu (2)"]),
        (_quota(hard={"memory": "4Gi", "limits.memory": "2Gi"}), ["ResourceQuota memory (4Gi) should be less than limits.memory (2Gi)"]),
        (_quota(hard={"cpu": "1", "limits.cpu": "2"}), []),
        (_object("node.k8s.io/v1", "RuntimeClass", handler="a", scheduling={"nodeSelector": {"beta.kubernetes.io/os": "x"}}), [f"scheduling.nodeSelector: {_OS}"]),
        (_object("storage.k8s.io/v1", "StorageClass", provisioner="a.b/c", allowedTopologies=[{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os", "values": ["x"]}]}]), [f"allowedTopologies[0].matchLabelExpressions[0].key: {_OS}"]),
    ],
)  # fmt: skip
def test_what_is_accepted_with_a_word(obj: dict[str, Any], warnings: list[str]) -> None:
    assert refused(obj) == []
    assert list(kind_of(obj).behaviour.warnings(made(obj), None)) == warnings


def _api_service(name: str, **spec: Any) -> dict[str, Any]:
    usual = {"group": "a.org", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    return _object("apiregistration.k8s.io/v1", "APIService", metadata={"name": name}, spec={**usual, **spec})


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        (_api_service("v1.a.org"), []),
        (
            _api_service("x"),
            ['metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.a.org"'],
        ),
        (
            _api_service("v2.", group="", version="v2"),
            ["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"],
        ),
        (
            _api_service("v1.a.org", groupPriorityMinimum=0, versionPriority=1001),
            [
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ],
        ),
        (
            _api_service("v1.a.org", caBundle="YWI="),
            ['spec.caBundle: Invalid value: "2 bytes": local APIServices may not have a caBundle'],
        ),
        (
            _api_service("v1.a.org", service={"name": "s", "port": 0}),
            [
                "spec.service.namespace: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            _api_service(
                "v1.a.org", service={"name": "s", "namespace": "n"}, insecureSkipTLSVerify=True, caBundle="YQ=="
            ),
            ["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"],
        ),
    ],
)
def test_a_service_of_the_api_says_what_it_serves_and_where(sent: dict[str, Any], errors: list[str]) -> None:
    assert refused(sent) == errors


def _block(kind: str, text: str = "YQ==") -> str:
    return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n"


@pytest.mark.parametrize(
    ("certificate", "key", "warnings"),
    [
        (_block("CERTIFICATE"), _block("EC PRIVATE KEY"), []),
        ("words", "", ["tls: failed to find any PEM data in certificate input"]),
        (_block("CERTIFICATE", "%"), "", ["tls: failed to find any PEM data in certificate input"]),
        (
            _block("A") + _block("B"),
            "",
            [
                'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the'
                " following types: [A B]"
            ],
        ),
        (
            _block("PRIVATE KEY"),
            "",
            [
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs"
                " may have been switched"
            ],
        ),
        (_block("CERTIFICATE"), "words", ["tls: failed to find any PEM data in key input"]),
        (
            _block("CERTIFICATE"),
            _block("CERTIFICATE"),
            ["tls: found a certificate rather than a key in the PEM for the private key"],
        ),
        (
            _block("CERTIFICATE"),
            _block("A"),
            [
                'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks'
                " of the following types: [A]"
            ],
        ),
    ],
)
def test_a_certificate_that_cannot_be_one_is_warned_of(certificate: str, key: str, warnings: list[str]) -> None:
    obj = made(_secret(type="kubernetes.io/tls", stringData={"tls.crt": certificate, "tls.key": key}))
    assert kind_of(obj).behaviour.warnings(obj, None) == warnings
