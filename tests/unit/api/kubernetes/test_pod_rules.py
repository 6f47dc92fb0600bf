"""Pods: what they become, what is refused in them, what of them may change."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import (
    changed,
    complaints,
    kind_of,
    made,
    pod,
    refused,
    with_container,
)

from gpuaas.api.kubernetes.rules.pod_defaults import pull_policy
from gpuaas.api.kubernetes.rules.pods import qos_class

_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def test_a_pod_of_one_line_becomes_a_whole_pod() -> None:
    obj = made(pod())
    assert obj["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("quay.io:5000/a/b", "Always"),
        ("quay.io:5000/a/b:v1", "IfNotPresent"),
        ("localhost/a", "Always"),
        (f"nginx@sha256:{'a' * 64}", "IfNotPresent"),
        ("UPPER/case", "Always"),
        ("a/UPPER", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("A" * 1_000_000 + "!", "IfNotPresent"),
    ],
)
def test_images_are_pulled_again_when_they_are_the_latest(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_come_from_limits() -> None:
    obj = made(with_container(resources={"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}))
    resources = obj["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "nvidia.com/gpu": "1"}}


def test_probes_and_volumes_are_completed() -> None:
    container = {
        "name": "main",
        "image": "x",
        "livenessProbe": {"httpGet": {"port": 80}},
        "startupProbe": {"grpc": {"port": 1}},
    }
    volumes = [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "h", "hostPath": {"path": "/h"}}]
    spec = made(pod(containers=[container], volumes=volumes))["spec"]
    probe = spec["containers"][0]["livenessProbe"]
    assert probe["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}
    assert (probe["timeoutSeconds"], probe["periodSeconds"], probe["failureThreshold"]) == (1, 10, 3)
    assert spec["containers"][0]["startupProbe"]["grpc"] == {"port": 1, "service": ""}
    assert spec["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "h", "hostPath": {"path": "/h", "type": ""}},
    ]


def test_on_the_hosts_network_ports_are_the_hosts() -> None:
    obj = made(pod(hostNetwork=True, containers=[{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]))
    assert obj["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_gated_pod_says_so() -> None:
    (condition,) = made(pod(schedulingGates=[{"name": "a/b"}]))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


@pytest.mark.parametrize(
    ("resources", "word"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"nvidia.com/gpu": "1"}}], "BestEffort"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
    ],
)
def test_quality_of_service(resources: list[dict[str, Any]], word: str) -> None:
    assert qos_class({"spec": {"containers": [{"resources": item} for item in resources]}}) == word


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"),
        ({"hostname": "a.b"}, 'spec.hostname: Invalid value: "a.b": must not contain dots'),
        ({"tolerations": [{"operator": "Equal"}]}, 'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"'),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, 'spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
        ({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}, "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
        ({"schedulingGates": [{"name": "a/b"}], "nodeName": "n"}, "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"),
        ({"ephemeralContainers": [{"name": "e", "image": "x"}]}, "spec.ephemeralContainers: Forbidden: cannot be set on create"),
        ({"resourceClaims": [{"name": "gpu"}]}, 'spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'),
        ({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}, "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        ({"volumes": [{"name": "v", "secret": {}}]}, "spec.volumes[0].secret.secretName: Required value"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"),
    ],
)  # fmt: skip
def test_what_is_refused_in_a_pod(spec: dict[str, Any], error: str) -> None:
    assert error in refused(pod(**spec))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "A_b"}, f'spec.containers[0].name: Invalid value: "A_b": {_LABEL}'),
        ({"image": ""}, "spec.containers[0].image: Required value"),
        ({"image": " x"}, 'spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace'),
        ({"imagePullPolicy": "Often"}, 'spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"'),
        ({"ports": [{"containerPort": 70000}]}, "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ({"ports": [{"containerPort": 80, "protocol": "HTTP"}]}, 'spec.containers[0].ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"'),
        ({"env": [{"name": "a=b"}]}, "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='"),
        ({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, 'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}]}, 'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.foo"}}}]}, 'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.foo": error converting fieldPath: field label not supported: metadata.foo'),
        ({"volumeMounts": [{"name": "none", "mountPath": "/m"}]}, 'spec.containers[0].volumeMounts[0].name: Not found: "none"'),
        ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, 'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
        ({"resources": {"limits": {"nvidia.com/gpu": "1.5"}}}, 'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer'),
        ({"resources": {"requests": {"nvidia.com/gpu": "1"}}}, "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"),
        ({"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}}, 'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'),
        ({"resources": {"limits": {"gpu": "1"}}}, 'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers'),
        ({"resources": {"claims": [{"name": "c"}]}}, 'spec.containers[0].resources.claims[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims which is empty'),
        ({"livenessProbe": {}}, "spec.containers[0].livenessProbe: Required value: must specify a handler type"),
        ({"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}, "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 99}}}}, "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than terminationGracePeriodSeconds (30)"),
    ],
)  # fmt: skip
def test_what_is_refused_in_a_container(fields: dict[str, Any], error: str) -> None:
    assert error in refused(with_container(**fields))


def test_init_containers_have_no_probes_unless_they_stay() -> None:
    probe = {"exec": {"command": ["true"]}}
    once = {"name": "i", "image": "x", "livenessProbe": probe}
    text = "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"
    assert refused(pod(initContainers=[once])) == [text]
    assert refused(pod(initContainers=[{**once, "restartPolicy": "Always"}])) == []


def test_a_users_whole_pod_is_accepted() -> None:
    container = {
        "name": "train",
        "image": "quay.io/a/train:v1",
        "command": ["python", "train.py"],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "16Gi"}, "requests": {"cpu": "4"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "ports": [{"name": "http", "containerPort": 8080}],
    }
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h200"]}]}]}
    assert (
        refused(
            pod(
                containers=[container],
                restartPolicy="Never",
                tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
                volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            )
        )
        == []
    )


_FROZEN = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"


@pytest.mark.parametrize(
    ("patch", "begins"),
    [
        ({"spec": {"containers": [{"name": "main", "image": "y:1", "imagePullPolicy": "IfNotPresent"}]}}, None),
        ({"metadata": {"labels": {"a": "b"}}}, None),
        ({"spec": {"activeDeadlineSeconds": 10}}, None),
        ({"spec": {"nodeName": "n"}}, _FROZEN),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, _FROZEN),
        ({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}}, "spec.containers: Forbidden: pod updates may not add or remove containers"),
        ({"spec": {"schedulingGates": [{"name": "a/b"}]}}, "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a/b'"),
        ({"status": {"phase": "Running"}}, None),
        ({"status": {"qosClass": "Guaranteed"}}, 'status.qosClass: Invalid value: "Guaranteed": field is immutable'),
    ],
)  # fmt: skip
def test_what_of_a_pod_may_change(patch: dict[str, Any], begins: str | None) -> None:
    errors = complaints(pod(), patch)
    if begins is None:
        assert errors == []
    else:
        assert len(errors) == 1
        assert errors[0].startswith(begins)


def test_a_gated_pod_may_still_be_narrowed_to_nodes() -> None:
    gated = pod(schedulingGates=[{"name": "a/b"}])
    assert complaints(gated, {"spec": {"nodeSelector": {"gpu": "h200"}}}) == []
    assert complaints(pod(), {"spec": {"nodeSelector": {"gpu": "h200"}}}) != []


def test_a_status_without_quality_of_service_keeps_it() -> None:
    obj, errors = changed(pod(), {"status": {"phase": "Running", "qosClass": None}})
    assert (errors, obj["status"]["qosClass"]) == ([], "BestEffort")


def test_tolerations_are_only_added() -> None:
    tolerant = pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])
    more = [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
        {"key": "b", "operator": "Exists"},
    ]
    assert complaints(tolerant, {"spec": {"tolerations": more}}) == []
    assert complaints(tolerant, {"spec": {"tolerations": more[1:]}}) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_the_quality_of_service_a_new_pod_comes_with_is_believed() -> None:
    obj = {**made(pod()), "status": {"qosClass": "Guaranteed", "phase": "Running"}}
    kind_of(obj).behaviour.prepare_create(obj)
    assert obj["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_a_pods_grace_is_never_negative() -> None:
    assert made(pod(terminationGracePeriodSeconds=-1))["spec"]["terminationGracePeriodSeconds"] == 1
