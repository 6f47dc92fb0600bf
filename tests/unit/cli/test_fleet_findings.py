"""`gpuaas doctor` on hubs and workers, and what `gpuaas support-bundle` keeps and leaves out."""

from typing import Any

import pytest

from gpuaas.cli.doctor import fleet
from gpuaas.cli.support_bundle import shareable, wanted
from gpuaas.client.protocol import Resource

Object = dict[str, Any]


def active(name: str, reason: str, message: str, **spec: Any) -> Object:
    condition = {"type": "Active", "status": "False", "reason": reason, "message": message}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("reason", "message", "fix"),
    [
        ("BadKubeConfig", 'Secret "s" not found', "kubectl create secret generic s -n kueue-system"),
        ("InsecureKubeConfig", "tokenFile is not allowed", "gpuaas fleet join w --from FILE"),
        ("ClientConnectionFailed", "dial tcp: connection refused", "control-plane ACL"),
        ("ClientConnectionFailed", "Unauthorized", "its token is not accepted any more"),
        ("ClientConnectionFailed", 'no matches for kind "RayJob"', "install Kueue and the CRD"),
        ("ClientConnectionFailed", "something else", "kubectl describe multikueuecluster w"),
    ],
)
def test_a_connection_that_fails_names_its_fix(reason: str, message: str, fix: str) -> None:
    source = {"kubeConfig": {"locationType": "Secret", "location": "s"}}
    (found,) = fleet.connection_findings([active("w", reason, message, clusterSource=source)])
    assert (found.level, message in found.message) == ("red", True)
    assert fix in found.fix


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("NoClustersAvailable", "kubectl get placement gold -A"),
        ("PlacementNotFound", "gold must be in kueue-system or openshift-kueue-operator"),
        ("BadConfig", "kubectl describe admissioncheck c"),
    ],
)
def test_a_check_that_is_not_active_names_its_fix(reason: str, fix: str) -> None:
    controller = "open-cluster-management.io/placement"
    check = active("c", reason, "words", controllerName=controller, parameters={"name": "gold"})
    (found,) = fleet.check_findings([check, active("other", reason, "", controllerName="someone.else")])
    assert fix in found.fix


def workload(queue: str, **labels: str) -> Object:
    metadata = {"name": "w", "namespace": "team", "ownerReferences": [{"kind": "Job", "name": "train"}]}
    return {"metadata": {**metadata, "labels": labels}, "spec": {"queueName": queue}}


def test_a_queue_that_does_not_exist_is_named_with_the_nearest_fix() -> None:
    queue = {"metadata": {"name": "user-queue", "namespace": "team"}, "spec": {"clusterQueue": "cq"}}
    assert fleet.queue_findings([workload("user-queue")], [queue]) == []
    (found,) = fleet.queue_findings([workload("gpu-queue")], [queue])
    assert "LocalQueue gpu-queue doesn't exist (there are: user-queue)" in found.message
    assert found.fix == "kubectl label job train -n team kueue.x-k8s.io/queue-name=user-queue --overwrite"


def test_a_worker_whose_queue_would_dispatch_again_is_found() -> None:
    local = {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq"}}
    strategy = {"admissionChecks": [{"name": "mk"}]}
    queue = {"metadata": {"name": "cq"}, "spec": {"admissionChecksStrategy": strategy}}
    check = {"metadata": {"name": "mk"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    copy = workload("lq", **{"kueue.x-k8s.io/multikueue-origin": "multikueue"})
    (found,) = fleet.worker_findings([copy], [local], [queue], [check])
    assert found.level == "red"
    assert "kubectl patch clusterqueue cq" in found.fix
    assert fleet.worker_findings([workload("lq")], [local], [queue], [check]) == [], "a hub's own queue has it"


def test_a_bundle_has_no_secrets_and_no_values_of_variables() -> None:
    kinds = [Resource("", "v1", "secrets", True, "Secret"), Resource("", "v1", "configmaps", True, "ConfigMap")]
    kinds += [Resource("batch", "v1", "jobs", True, "Job"), Resource("apps", "v1", "deployments", True, "Deployment")]
    kinds.append(Resource("cluster.open-cluster-management.io", "v1beta1", "placements", True, "Placement"))
    assert [str(each) for each in wanted(kinds)] == ["jobs.batch", "placements.cluster.open-cluster-management.io"]
    container = {"name": "c", "env": [{"name": "HF_TOKEN", "value": "hf_secret"}, {"name": "X", "valueFrom": {"a": 1}}]}
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "hf_secret", "kept": "yes"}
    job = {"metadata": {"annotations": notes, "managedFields": ["hf_secret"]}, "spec": {"containers": [container]}}
    shared = shareable(job)
    assert "hf_secret" not in str(shared)
    assert shared["metadata"] == {"annotations": {"kept": "yes"}}
    assert shared["spec"]["containers"][0]["env"][1] == {"name": "X", "valueFrom": {"a": 1}}
