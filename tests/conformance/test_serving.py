"""Serving and the platform's objects with real kubectl: a repository's bundle applies, a model waits for quota as a job does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.kubectls import NONE_HERE, Kubectl, eventually, found
from tests.conformance.service import Service

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]

FLEET = """\
clusters:
- name: local
  nodes:
  - name: l4
    gpu: {product: NVIDIA-L4, count: 2}
    taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
"""
# What repositories for OpenShift AI apply: no namespace but their own, everything else is expected to be there.
BUNDLE = {
    "kustomization.yaml": "resources: [platform.yaml, project.yaml]\n",
    "platform.yaml": """\
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: kueue-operator, namespace: openshift-kueue-operator}
spec: {channel: stable, name: kueue-operator, source: redhat-operators, sourceNamespace: openshift-marketplace}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: time-slicing-config, namespace: nvidia-gpu-operator}
data: {any: "version: v1"}
---
apiVersion: opendatahub.io/v1alpha
kind: OdhDashboardConfig
metadata: {name: odh-dashboard-config, namespace: redhat-ods-applications}
spec: {dashboardConfig: {disableKueue: false, disableModelServing: false}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notebook-controller-culler-config, namespace: redhat-ods-applications}
data: {ENABLE_CULLING: "false"}
---
apiVersion: infrastructure.opendatahub.io/v1
kind: HardwareProfile
metadata: {name: nvidia-l4-1gpu, namespace: redhat-ods-applications}
spec:
  identifiers:
  - {displayName: CPU, identifier: cpu, resourceType: CPU, minCount: 1, defaultCount: 1, maxCount: 8}
  - {displayName: Memory, identifier: memory, resourceType: Memory, minCount: 1Gi, defaultCount: 2Gi, maxCount: 8Gi}
  - {displayName: GPU, identifier: nvidia.com/gpu, resourceType: Accelerator, minCount: 1, defaultCount: 1, maxCount: 1}
  scheduling: {type: Queue, kueue: {localQueueName: default}}
""",
    "project.yaml": """\
apiVersion: v1
kind: Namespace
metadata: {name: private-ai, labels: {kueue.openshift.io/managed: "true", opendatahub.io/dashboard: "true"}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: default, namespace: private-ai}
spec: {clusterQueue: default}
""",
}
MODEL = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: %(name)s
  namespace: private-ai
  annotations: {opendatahub.io/hardware-profile-name: nvidia-l4-1gpu}
spec:
  predictor: {minReplicas: %(replicas)s, model: {modelFormat: {name: vLLM}, storageUri: "oci://models/granite"}}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("serving")
    (folder / "fleet.yaml").write_text(FLEET)
    (folder / "user").mkdir()
    (folder / "bundle").mkdir()
    for name, text in BUNDLE.items():
        (folder / "bundle" / name).write_text(text)
    with Service(folder / "home", "--fleet", str(folder / "fleet.yaml"), "--platform", "rhoai") as service:
        yield Kubectl(found()[0], service.kubeconfig, folder / "user", folder)


def test_a_bundle_applies_and_the_default_queue_has_what_the_nodes_have(kubectl: Kubectl) -> None:
    applied = kubectl("apply -k bundle")
    assert "odhdashboardconfig.opendatahub.io/odh-dashboard-config configured" in applied
    assert "localqueue.kueue.x-k8s.io/default created" in applied
    kubectl("patch clusterpolicy cluster-policy -n nvidia-gpu-operator --type merge -p '{\"spec\": {}}'")
    config = json.loads(kubectl("get odhdashboardconfig odh-dashboard-config -n redhat-ods-applications -o json"))
    assert config["spec"]["notebookController"]["enabled"], "what the bundle does not name stays"
    kubectl("wait --for=condition=Active clusterqueue/default --timeout=20s")
    quota = "get clusterqueue default -o jsonpath={.spec.resourceGroups[0].flavors[0].resources[2].nominalQuota}"
    eventually(lambda: kubectl(quota), lambda seen: seen == "2")


def condition(kubectl: Kubectl, name: str, kind: str = "Ready") -> dict[str, Any]:
    status = json.loads(kubectl(f"get inferenceservice {name} -n private-ai -o json")).get("status") or {}
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def test_a_model_with_a_profile_waits_for_quota_runs_stops_and_goes(kubectl: Kubectl) -> None:
    kubectl("apply -k bundle")
    kubectl("apply -f -", MODEL % {"name": "first", "replicas": 2})
    kubectl("wait --for=condition=Ready inferenceservice/first -n private-ai --timeout=20s")
    assert "simulated" in condition(kubectl, "first")["message"]
    deployment = json.loads(kubectl("get deployment first-predictor -n private-ai -o json"))
    assert deployment["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    assert deployment["metadata"]["annotations"]["gpuaas.dev/owner"] == "admin"
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}
    assert "--served-model-name=first" in container["args"], "of the runtime that serves the format"

    kubectl("apply -f -", MODEL % {"name": "second", "replicas": 1})
    held = eventually(lambda: condition(kubectl, "second").get("reason", ""), lambda seen: seen == "WaitingForQuota")
    assert held
    assert "1 pod waits for quota in LocalQueue default" in condition(kubectl, "second")["message"]

    kubectl("annotate inferenceservice first -n private-ai serving.kserve.io/stop=true")
    kubectl("wait --for=condition=Ready inferenceservice/second -n private-ai --timeout=20s")
    kubectl("wait --for=condition=Stopped inferenceservice/first -n private-ai --timeout=20s")
    assert condition(kubectl, "first")["reason"] == "Stopped"
    assert kubectl("get deployment first-predictor -n private-ai -o jsonpath={.spec.replicas}") == "0"

    kubectl("delete inferenceservice first second -n private-ai")
    left = "get deployments,services,pods,workloads.kueue.x-k8s.io -n private-ai -o name"
    eventually(lambda: kubectl(left), lambda seen: seen == "")


def test_the_name_is_kept_in_the_home_until_it_is_dropped(tmp_path: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        environment = {**os.environ, "GPUAAS_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "gpuaas", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert '--platform: "eks" is none of rhoai; or none' in run("up", "--platform", "eks", code=2)
    run("up", "-d", "--no-fsync", "--fleet", "demo", "--platform", "rhoai")
    try:
        assert "platform  rhoai" in run("status")
        run("down")
        run("up", "-d", "--no-fsync")
        assert json.loads(run("status", "-o", "json"))["platform"] == "rhoai"
        run("down")
        run("up", "-d", "--no-fsync", "--platform", "none")
        assert "platform" not in json.loads(run("status", "-o", "json"))
    finally:
        run("down")
