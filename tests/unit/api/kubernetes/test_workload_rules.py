"""Deployments, replica sets, stateful sets, daemon sets, replication controllers."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, made, refused, template, workload

_NO_MATCH = 'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("kind", "defaults"),
    [
        ("Deployment", {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}),
        ("ReplicaSet", {"replicas": 1}),
        ("StatefulSet", {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
                         "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                         "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}),
        ("DaemonSet", {"revisionHistoryLimit": 10,
                       "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}),
    ],
)  # fmt: skip
def test_defaults(kind: str, defaults: dict[str, Any]) -> None:
    obj = made(workload(kind))
    assert {field: obj["spec"][field] for field in defaults} == defaults
    assert obj["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert refused(workload(kind)) == []


def test_a_recreated_deployment_has_no_rolling_update() -> None:
    assert "rollingUpdate" not in made(workload("Deployment", strategy={"type": "Recreate"}))["spec"]["strategy"]


@pytest.mark.parametrize(
    ("kind", "spec", "error"),
    [
        ("Deployment", {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("Deployment", {"selector": None}, "spec.selector: Required value"),
        ("Deployment", {"selector": None}, _NO_MATCH),
        ("Deployment", {"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        ("Deployment", {"selector": {"matchLabels": {"app": "b"}}}, _NO_MATCH),
        ("Deployment", {"minReadySeconds": 700}, "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"),
        ("Deployment", {"strategy": {"type": "Slow"}}, 'spec.strategy: Unsupported value: {"Type":"Slow","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"'),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}, "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxUnavailable": "200%"}}}, 'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%'),
        ("Deployment", {"template": template(restartPolicy="Never")}, 'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'),
        ("Deployment", {"template": template(containers=[])}, "spec.template.spec.containers: Required value"),
        ("ReplicaSet", {"template": template(activeDeadlineSeconds=5)}, "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"),
        ("StatefulSet", {"podManagementPolicy": "Any"}, "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}, "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"),
    ],
)  # fmt: skip
def test_what_is_refused(kind: str, spec: dict[str, Any], error: str) -> None:
    assert error in refused(workload(kind, **spec))


@pytest.mark.parametrize(
    ("kind", "patch", "error"),
    [
        ("Deployment", {"spec": {"replicas": 3}}, None),
        ("Deployment", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}, 'spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable'),
        ("Deployment", {"status": {"replicas": 1, "readyReplicas": 2}}, "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"),
        ("Deployment", {"status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}}, None),
        ("StatefulSet", {"spec": {"replicas": 3, "minReadySeconds": 5}}, None),
        ("StatefulSet", {"spec": {"serviceName": "s"}}, "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"),
        ("DaemonSet", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}, 'spec.selector: Invalid value: {"matchLabels":{"app":"a","x":"y"}}: field is immutable'),
    ],
)  # fmt: skip
def test_what_may_change(kind: str, patch: dict[str, Any], error: str | None) -> None:
    errors = complaints(workload(kind), patch)
    assert (error in errors) if error else errors == []


def test_claims_of_a_stateful_set_are_volumes_of_its_pods() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    using = template(containers=[{"name": "a", "image": "x", "volumeMounts": mounts}])
    assert refused(workload("StatefulSet", volumeClaimTemplates=[claim], template=using)) == []
    assert refused(workload("StatefulSet", template=using)) != []


def test_a_daemon_set_counts_changes_of_its_template() -> None:
    annotation = "deprecated.daemonset.template.generation"
    assert made(workload("DaemonSet"))["metadata"]["annotations"][annotation] == "1"
    obj, _ = changed(workload("DaemonSet"), {"spec": {"template": {"metadata": {"labels": {"new": "one"}}}}})
    assert obj["metadata"]["annotations"][annotation] == "2"
    obj, _ = changed(workload("DaemonSet"), {"spec": {"minReadySeconds": 5}})
    assert obj["metadata"]["annotations"][annotation] == "1"


def test_a_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    controller = {"apiVersion": "v1", "kind": "ReplicationController", "spec": {"template": template()}}
    obj = made(controller)
    assert (obj["spec"]["selector"], obj["metadata"]["labels"]) == ({"app": "a"}, {"app": "a"})
    assert refused(controller) == []
