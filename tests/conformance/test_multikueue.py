"""A job submitted on a hub runs on a worker, and what happens there shows on the hub: in wall time, by real kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance import dispatched, kubectls
from tests.conformance.hub import Hub, job

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not kubectls.found(), reason=kubectls.NONE_HERE),
]
_ACTIVE = r"{range .status.conditions[?(@.type=='Active')]}%s - Active: {@.status} Reason: {@.reason} Message: {@.message}{end}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), ["worker1", "worker2"]) as made:
        yield made


def test_the_three_lines_of_the_documentation(hub: Hub) -> None:
    for line, told in (
        ("clusterqueues cluster-queue", "CQ - Active: True Reason: Ready Message: Can admit new workloads"),
        (
            "admissionchecks sample-multikueue",
            "AC - Active: True Reason: Active Message: The admission check is active",
        ),
        ("multikueuecluster worker1", "MC - Active: True Reason: Active Message: Connected"),
    ):
        shown = hub.on("hub", f'get {line} -o jsonpath="{_ACTIVE % told[:2]}"')
        assert shown.strip() == told


def test_a_job_runs_on_a_worker_and_its_status_returns(hub: Hub) -> None:
    hub.on("hub", "create -f -", job("first"))
    made = hub.get("hub", "job first")
    assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    hub.until(lambda: hub.get("hub", "job first")["status"].get("active") == 1, "the hub's job never ran")
    [workload] = hub.get("hub", "workloads")["items"]
    cluster = workload["status"]["clusterName"]
    assert cluster in ("worker1", "worker2")
    [check] = workload["status"]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", f'The workload was admitted on "{cluster}"')
    other = "worker2" if cluster == "worker1" else "worker1"
    hub.until(lambda: not hub.get(other, "workloads")["items"], "the other's copy stays")
    assert not hub.get(other, "jobs")["items"]
    assert hub.get(cluster, "pods")["items"]
    hub.on("hub", "wait --for=condition=Complete job/first --timeout=30s")
    done = hub.get("hub", "job first")["status"]
    assert done["succeeded"] == 1
    [workload] = hub.get("hub", "workloads")["items"]
    assert _condition(workload, "Finished")["reason"] == "Succeeded"
    assert "hello" in hub.on("hub", "logs job/first"), "the remote job stays for a while after its end"
    hub.on("hub", "delete job first")
    hub.until(lambda: not hub.get(cluster, "workloads,jobs")["items"], "the worker keeps what the hub deleted")


def _condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in obj["status"]["conditions"] if each["type"] == kind)
    return found


def test_logs_of_a_dispatched_job_are_read_on_the_hub(hub: Hub) -> None:
    hub.on("hub", "create -f -", job("speaks", command="echo said on the worker; sleep 3"))
    shown = hub.on("hub", "logs -f job/speaks --pod-running-timeout=20s")
    assert "said on the worker" in shown
    hub.on("hub", "delete job speaks")
    hub.until(lambda: not hub.get("hub", "pods")["items"], "an image of a pod is left")


def test_commands_reach_the_pod_of_a_dispatched_job_through_the_hub(hub: Hub) -> None:
    """The worker's credential here is its administrator's; one that may not is refused in the worker's words."""
    hub.on("hub", "create -f -", job("open", command="sleep 600"))
    hub.until(lambda: hub.get("hub", "pods")["items"], "no image of the pod came")
    [pod] = hub.get("hub", "pods")["items"]
    name = pod["metadata"]["name"]
    hub.on("hub", f"wait --for=jsonpath={{.status.phase}}=Running pod/{name} --timeout=30s")
    assert hub.on("hub", f"exec {name} -- hostname") == f"{name}\n"
    done = hub.kubectl["hub"].run(f"exec {name} -- python train.py")
    assert done.returncode == 127
    assert "runs on a simulated node" in done.stderr
    hub.on("hub", "delete job open")
    hub.until(lambda: not hub.get("hub", "pods")["items"], "an image of a pod is left")


def test_the_owner_travels_with_the_job_and_why_follows_it(hub: Hub) -> None:
    hub.on("hub", "create --as ann@example.com --as-group system:masters -f -", job("owned", command="sleep 30"))
    hub.until(lambda: hub.get("hub", "job owned")["status"].get("active") == 1, "the job does not run")
    [workload] = hub.get("hub", "workloads")["items"]
    cluster = workload["status"]["clusterName"]
    hub.until(lambda: hub.get(cluster, "pods")["items"], "there is no pod")
    for kind in ("job owned", "workload " + workload["metadata"]["name"]):
        assert hub.get(cluster, kind)["metadata"]["annotations"]["gpuaas.dev/owner"] == "ann@example.com", kind
    [pod] = hub.get(cluster, "pods")["items"]
    assert pod["metadata"]["annotations"]["gpuaas.dev/owner"] == "ann@example.com"
    why = hub.gpuaas("why", "owned")
    assert f"it runs on cluster {cluster}" in why
    assert f"{cluster}: The workload is admitted" in why
    hub.on("hub", "delete job owned")
    hub.until(lambda: not hub.get(cluster, "workloads,jobs")["items"], "the copy stays")


def test_gpuaas_logs_of_a_dispatched_job_are_read_on_the_hub(hub: Hub) -> None:
    hub.on("hub", "create -f -", job("tells", command="echo from afar; sleep 2"))
    assert "from afar" in hub.gpuaas("logs", "-f", "tells")
    hub.on("hub", "delete job tells")


def test_every_kind_of_job_runs_on_a_worker_and_its_end_shows_on_the_hub(hub: Hub) -> None:
    waited = [(name, condition) for name, _, condition in (*dispatched.ends(), *dispatched.serves())]
    objects = [each for _, each, _ in (*dispatched.ends(), *dispatched.serves())] + dispatched.group(2)
    for each in objects:
        hub.on("hub", "create -f -", yaml.safe_dump(each))
    waited += [(f"pod/part-{number}", "jsonpath={.status.phase}=Succeeded") for number in range(2)]
    for name, condition in waited:
        done = hub.kubectl["hub"].run(f"wait --for={condition} {name} --timeout=40s")
        assert done.returncode == 0, f"{name}: {done.stderr}{hub.state()}"
    placed = [each["metadata"]["name"] for each in hub.get("hub", "pods")["items"] if each["spec"].get("nodeName")]
    assert not placed, "the hub has nodes and runs nothing of what it dispatched"
    for each in objects:
        hub.on("hub", f"delete {each['kind']} {each['metadata']['name']} --wait=false")
    for worker in hub.workers:
        hub.until(lambda name=worker: not hub.get(name, "workloads")["items"], "a copy is left")


def test_it_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    for cluster in ("hub", "worker1", "worker2"):
        hub.until(lambda name=cluster: not hub.get(name, "jobs")["items"], "a job is left")
