"""The commands two public walkthroughs tell people to type, with kubectl for oc, and what they promise to show.

Where a walkthrough is wrong against upstream Kueue (a workload's name is that of its owner with a kind and a hash), the
command is typed as it should be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.kubectls import NONE_HERE, Kubectl, eventually, found
from tests.conformance.service import Service

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]

EXAMPLES = Path(__file__).parents[2] / "examples"
Make = Callable[[str], Kubectl]


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """A kubectl for an example: on a control plane of its own, in the example's folder."""
    running: list[Service] = []

    def make(name: str) -> Kubectl:
        folder = tmp_path_factory.mktemp(name)
        service = Service(folder / "home", "--fleet", str(EXAMPLES / name / "fleet.yaml"))
        running.append(service)
        service.start()
        (folder / "user").mkdir()
        return Kubectl(found()[0], service.kubeconfig, folder / "user", EXAMPLES / name)

    yield make
    for service in running:
        service.stop()


def test_private_ai(of: Make) -> None:
    kubectl = of("private-ai")
    kubectl("apply -k base")
    _the_checklist(kubectl)
    _two_workbenches(kubectl)
    _trouble(kubectl)
    kubectl("delete notebook workbench-1 -n private-ai")
    admitted = _admitted(kubectl, "private-ai")
    eventually(admitted, lambda seen: re.search(r"workbench-2\S* private-ai-queue True", seen) is not None)
    _by_profile(kubectl)


def _by_profile(kubectl: Kubectl) -> None:
    """The dashboard's user picks a profile by its name and writes neither a queue nor a resource."""
    kubectl("apply -f demo/by-profile.yaml")
    notebook = json.loads(kubectl("get notebook by-profile -n private-ai -o json"))
    notes = notebook["metadata"]["annotations"]
    assert notes["opendatahub.io/hardware-profile-name"] == "nvidia-l4-1gpu"
    assert notes["opendatahub.io/hardware-profile-namespace"] == "redhat-ods-applications"
    assert notebook["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "private-ai-queue"
    limits = notebook["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    admitted = _admitted(kubectl, "private-ai")
    eventually(admitted, lambda seen: re.search(r"by-profile\S* private-ai-queue True", seen) is not None)
    kubectl("delete -f demo/by-profile.yaml")


def _the_checklist(kubectl: Kubectl) -> None:
    assert "kueue.openshift.io/managed=true" in kubectl("get namespace private-ai --show-labels")
    flavors = kubectl.table("get resourceflavors")
    assert [row[0] for row in flavors] == ["NAME", "nvidia-l4-1gpu", "nvidia-l4-4gpu"]
    assert "node.kubernetes.io/instance-type: g6.4xlarge" in kubectl("get resourceflavor nvidia-l4-1gpu -o yaml")
    active = kubectl("wait --for=condition=Active clusterqueue/rhoai-main-queue --timeout=20s")
    assert active == "clusterqueue.kueue.x-k8s.io/rhoai-main-queue condition met\n"
    assert "nominalQuota:" in kubectl("get clusterqueue rhoai-main-queue -o yaml")
    status = json.loads(kubectl("get clusterqueue rhoai-main-queue -o jsonpath={.status}"))
    assert (status["pendingWorkloads"], status["admittedWorkloads"], status["reservingWorkloads"]) == (0, 0, 0)
    local = kubectl.table("get localqueue -n private-ai")
    assert local[0] == ["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"]
    assert local[1] == ["private-ai-queue", "rhoai-main-queue", "0", "0"]
    assert "clusterQueue: rhoai-main-queue" in kubectl("get localqueue private-ai-queue -n private-ai -o yaml")


def _two_workbenches(kubectl: Kubectl) -> None:
    with replace(kubectl, folder=kubectl.home).watching("get workloads -n private-ai -w") as seen:
        kubectl("apply -f demo/workbench-1.yaml")
        eventually(_admitted(kubectl, "private-ai"), lambda text: "True" in text)
        kubectl("apply -f demo/workbench-2.yaml")
        seen("workbench-2")
    table = eventually(lambda: kubectl("get workloads -n private-ai"), lambda text: "workbench-2" in text)
    heading = re.split(r" {2,}", table.splitlines()[0].strip())
    assert heading == ["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"]
    assert re.search(r"workbench-1-\w+ +private-ai-queue +rhoai-main-queue +True", table)
    assert re.search(r"workbench-2-\w+ +private-ai-queue +\d+s", table), "it waits"


def _trouble(kubectl: Kubectl) -> None:
    held = json.loads(kubectl("get clusterqueue rhoai-main-queue -o jsonpath={.status.flavorsReservation}"))
    gpus = {each["name"]: r["total"] for each in held for r in each["resources"] if r["name"] == "nvidia.com/gpu"}
    assert gpus == {"nvidia-l4-1gpu": "0", "nvidia-l4-4gpu": "4"}
    described = kubectl("describe clusterqueue rhoai-main-queue")
    assert "Pending Workloads:" in described.partition("Status:")[2]
    assert "Cluster Queue:  rhoai-main-queue" in kubectl("describe localqueue private-ai-queue -n private-ai")
    assert len(kubectl.table("get nodes -l node.kubernetes.io/instance-type=g6.4xlarge")) == 2
    labelled = kubectl("get nodes -l node-role.kubernetes.io/gpu --show-labels")
    assert "node.kubernetes.io/instance-type=g6.12xlarge" in labelled
    assert "clusterqueues.kueue.x-k8s.io" in kubectl("get crd")


def test_sla(of: Make) -> None:
    kubectl = of("sla")
    kubectl("apply -f setup.yaml")
    kubectl("wait --for=condition=Active clusterqueue --all --timeout=20s")
    assert [row[0] for row in kubectl.table("get cq")] == ["NAME", "shared-cq", "team-a-cq", "team-b-cq"]
    kubectl("apply -f workload-b-low-priority.yaml")
    dev, prod = _admitted(kubectl, "team-b"), _admitted(kubectl, "team-a")
    eventually(dev, lambda seen: "True" in seen)
    eventually(lambda: kubectl("get pods -n team-b"), lambda seen: seen.count("Running") == 2)
    kubectl("apply -f workload-a-high-priority.yaml")
    eventually(prod, lambda seen: "True" in seen)
    eventually(dev, lambda seen: "False" in seen)
    _evidence(kubectl)
    _cleanup(kubectl)


def _evidence(kubectl: Kubectl) -> None:
    """The audit trail: conditions and events of the one that had to leave."""
    name = kubectl("get workload -n team-b -o jsonpath={.items[0].metadata.name}")
    assert name.startswith("raycluster-raycluster-dev-")
    described = eventually(
        lambda: kubectl(f"describe workload -n team-b {name}"), lambda seen: "EvictedDueToPreempted" in seen
    )
    events = described.partition("Events:")[2]
    for reason in ("QuotaReserved", "Admitted", "EvictedDueToPreempted", "Preempted"):
        assert re.search(rf"Normal +{reason} ", events), f"no event {reason} in {events}"
    assert "Preempted to accommodate a workload (UID: " in events
    assert "NAMESPACE" in kubectl("get workload -A")


def _cleanup(kubectl: Kubectl) -> None:
    kubectl("delete ns team-a team-b")
    for kind in ("clusterqueue", "resourceflavor", "workloadpriorityclass"):
        kubectl(f"delete {kind} --all")
    eventually(lambda: kubectl("get cq,rf -o name"), lambda seen: not seen)
    assert kubectl("get ns -o name --ignore-not-found team-a team-b") == ""


def _admitted(kubectl: Kubectl, namespace: str) -> Callable[[], str]:
    """Name, queue and Admitted of each workload, as the Admitted column has it."""
    columns = "NAME:.metadata.name,QUEUE:.spec.queueName,ADMITTED:.status.conditions[?(@.type=='Admitted')].status"
    return lambda: re.sub(
        r" +", " ", kubectl(f'get workloads -n {namespace} --no-headers -o custom-columns="{columns}"')
    )
