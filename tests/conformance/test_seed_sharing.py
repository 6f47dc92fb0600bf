"""The commands of a public walkthrough of GPU sharing, with kubectl for oc, what they promise to show, and its common
issues, each named by `gpuaas doctor` with a command that ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from tests.conformance.kubectls import NONE_HERE, Kubectl, eventually, found
from tests.conformance.service import Service

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = """\
clusters:
- name: local
  nodes:
  - {name: gpu-node, gpu: {product: NVIDIA-L40S, count: 1}}
  - {name: mig-node, gpu: {product: NVIDIA-A100-SXM4-40GB, count: 1}}
"""
PATCH = """patch clusterpolicy cluster-policy -n nvidia-gpu-operator --type merge \
-p '{"spec": {"devicePlugin": {"config": {"name": "%s"}}}}'"""
POD = """\
apiVersion: %(kind)s
metadata: {name: %(name)s, namespace: default}
spec:
  %(more)s
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("sharing")
    demo = (resources.files("gpuaas.assembly") / "fleets" / "demo.yaml").read_text()
    (folder / "fleet.yaml").write_text("platform: rhoai\n" + NODES + demo[demo.index("---\n") :])
    (folder / "user").mkdir()
    with Service(folder / "home", "--fleet", str(folder / "fleet.yaml")) as service:
        yield Kubectl(found()[0], service.kubeconfig, folder / "user", EXAMPLES / "sharing")


def doctor(kubectl: Kubectl, check: str) -> dict[str, str]:
    """The finding of this name; it is the only one."""
    environment = {**os.environ, "GPUAAS_HOME": str(kubectl.kubeconfig.parent), "KUBECONFIG": str(kubectl.kubeconfig)}
    command = [sys.executable, "-m", "gpuaas", "doctor", "-o", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    [row] = [one for one in json.loads(done.stdout) if one["check"] == check]
    return dict(row)


def is_healthy(kubectl: Kubectl, check: str) -> bool:
    try:
        return not doctor(kubectl, check)
    except ValueError:
        return True


def grep(kubectl: Kubectl, node: str, words: str) -> str:
    """`oc describe node NODE | grep WORDS`"""
    return "\n".join(line for line in kubectl(f"describe node {node}").splitlines() if words in line)


def capacity(kubectl: Kubectl, node: str, resource: str) -> list[str]:
    """The lines of Capacity and Allocatable."""
    lines = [line.split() for line in grep(kubectl, node, resource).splitlines()]
    return [line[1] for line in lines if len(line) == 2 and line[0] == f"{resource}:"]


def test_the_quick_start_and_the_workflow(kubectl: Kubectl) -> None:
    # Strategy 1: time-slicing
    assert capacity(kubectl, "gpu-node", "nvidia.com/gpu") == ["1", "1"]
    kubectl("apply -f time-slicing-config.yaml")
    assert "patched" in kubectl(PATCH % "time-slicing-config")
    ready = "wait --for=condition=ready pod -l app=nvidia-device-plugin -n nvidia-gpu-operator --timeout=5m"
    assert kubectl(ready).count("condition met") == 2
    eventually(lambda: str(capacity(kubectl, "gpu-node", "nvidia.com/gpu")), lambda seen: seen == "['4', '4']")
    labels = kubectl("get node gpu-node --show-labels")
    for label in (
        "gpu.product=NVIDIA-L40S-SHARED",
        "gpu.replicas=4",
        "gpu.count=1",
        "gpu.sharing-strategy=time-slicing",
    ):
        assert f"nvidia.com/{label}" in labels
    # Strategy 2: MIG
    assert kubectl("label node mig-node nvidia.com/mig.config=all-1g.5gb --overwrite") == "node/mig-node labeled\n"
    eventually(lambda: str(capacity(kubectl, "mig-node", "nvidia.com/mig-1g.5gb")), lambda seen: seen == "['7', '7']")
    assert "nvidia.com/mig.config.state=success" in kubectl("get node mig-node --show-labels")
    # Verification
    assert "nvidia.com/mig-1g.5gb" in grep(kubectl, "mig-node", "nvidia.com/mig")
    assert kubectl("logs -n nvidia-gpu-operator -l app=gpu-operator-feature-discovery").count("\n") == 2
    assert "nvidia-device-plugin" in kubectl("get pods --all-namespaces --field-selector spec.nodeName=gpu-node")


def test_replicas_that_do_not_show_up(kubectl: Kubectl) -> None:
    kubectl("apply -f time-slicing-config.yaml")
    kubectl(PATCH % "time-slicing-confg")
    finding = doctor(kubectl, "gpu-shares")
    assert finding["level"] == "red"
    assert "ClusterPolicy cluster-policy names ConfigMap time-slicing-confg, which does not exist" in finding["message"]
    kubectl(finding["fix"].removeprefix("kubectl "))
    eventually(lambda: str(capacity(kubectl, "gpu-node", "nvidia.com/gpu")), lambda seen: seen == "['4', '4']")
    assert is_healthy(kubectl, "gpu-shares")


def test_a_silent_out_of_memory(kubectl: Kubectl) -> None:
    kubectl("apply -f time-slicing-config.yaml")
    kubectl(PATCH % "time-slicing-config")
    eventually(lambda: str(capacity(kubectl, "gpu-node", "nvidia.com/gpu")), lambda seen: seen == "['4', '4']")
    for name in ("greedy", "neighbour"):
        container = "{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}"
        kubectl("apply -f -", POD % {"kind": "v1\nkind: Pod", "name": name, "more": f"containers: [{container}]"})
    phases = "get pods greedy neighbour -o jsonpath={.items[*].status.phase}"
    eventually(lambda: kubectl(phases), lambda seen: seen == "Running Running")
    kubectl("annotate pod greedy gpuaas.dev/gpu-memory-used=20Gi")
    eventually(lambda: kubectl(phases), lambda seen: seen == "Failed Running")
    assert kubectl("get pod greedy -o jsonpath={.status.reason}") == "GPUMemoryOverLimit"
    eventually(lambda: kubectl("get events -o name --field-selector reason=GPUMemoryOverLimit"), bool)
    finding = doctor(kubectl, "gpu-memory")
    assert "pod default/greedy was stopped for GPU memory: the pod uses 20480 MiB" in finding["message"]
    assert finding["fix"] == "gpuaas share gpu-node --replicas 2"
    kubectl("delete pod greedy neighbour --now")


def test_a_node_that_stays_out_of_service(kubectl: Kubectl) -> None:
    kubectl("label node mig-node nvidia.com/mig.config=all-disabled --overwrite")
    eventually(lambda: str(capacity(kubectl, "mig-node", "nvidia.com/gpu")), lambda seen: seen == "['4', '4']")
    container = "{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}"
    template = f"metadata: {{labels: {{app: web}}}}, spec: {{nodeName: mig-node, containers: [{container}]}}"
    spec = f"replicas: 1\n  selector: {{matchLabels: {{app: web}}}}\n  template: {{{template}}}"
    kubectl("apply -f -", POD % {"kind": "apps/v1\nkind: ReplicaSet", "name": "web", "more": spec})
    budget = "minAvailable: 1\n  selector: {matchLabels: {app: web}}"
    kubectl("apply -f -", POD % {"kind": "policy/v1\nkind: PodDisruptionBudget", "name": "web", "more": budget})
    names = "get pods -l app=web -o jsonpath={.items[*].metadata.name}/{.items[*].status.phase}"
    eventually(lambda: kubectl(names), lambda seen: seen.endswith("/Running"))
    kubectl("cordon mig-node")
    kubectl("label node mig-node nvidia.com/mig.config=all-1g.5gb --overwrite")
    blocked = "get events -A --field-selector reason=CardChangeBlocked -o jsonpath={.items[*].message}"
    said = eventually(lambda: kubectl(blocked), bool)
    assert "The disruption budget web needs 1 healthy pods" in said
    assert "kubectl delete pod -n default web-" in said
    assert "SchedulingDisabled" in kubectl("get node mig-node")
    waits, closed = doctor(kubectl, "gpu-node-waits"), doctor(kubectl, "gpu-node-closed")
    assert "node mig-node: its cards are to change and wait for pods: default/web-" in waits["message"]
    assert "node mig-node is SchedulingDisabled" in closed["message"]
    kubectl("scale replicaset web --replicas=0")
    eventually(lambda: str(capacity(kubectl, "mig-node", "nvidia.com/mig-1g.5gb")), lambda seen: seen == "['7', '7']")
    kubectl(closed["fix"].rpartition("&& kubectl ")[2])
    eventually(lambda: kubectl("get node mig-node"), lambda seen: "SchedulingDisabled" not in seen)
    assert is_healthy(kubectl, "gpu-node-closed")
    assert is_healthy(kubectl, "gpu-node-waits")
