"""Cards end to end: a shared simulated card as the walkthroughs configure it, and real processes on a driver of ours."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.service import Service, eventually

DRIVER = Path(__file__).parents[1] / "driver" / "nvml.c"
FLEET = """
clusters:
- name: local
  nodes:
  - {name: node, gpu: {product: NVIDIA-L40S, count: 1}}
---
apiVersion: v1
kind: Namespace
metadata: {name: nvidia-gpu-operator}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: gpu-cluster-policy}
spec:
  daemonsets: {}
  dcgm: {}
  dcgmExporter: {}
  devicePlugin: {}
  driver: {}
  gfd: {}
  mig: {strategy: mixed}
  nodeStatusExporter: {}
  operator: {}
  toolkit: {}
"""
# As the walkthroughs have it.
SLICING = """\
version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 4
"""
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"

needs_driver = pytest.mark.skipif(
    shutil.which("cc") is None or importlib.util.find_spec("pynvml") is None,
    reason="there is no C compiler or no nvidia-ml-py here",
)


def pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "resources": {"limits": amounts}}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def make(service: Service, path: str, body: dict[str, Any]) -> None:
    answer = service.ask("POST", path, body)
    assert answer.status == 201, answer.body[:500]


def running(service: Service) -> dict[str, list[dict[str, Any]]]:
    """The devices of the pods that run."""
    return {
        one["metadata"]["name"]: json.loads(one["metadata"]["annotations"]["gpuaas.dev/devices"])["main"]
        for one in service.ask("GET", PODS).json()["items"]
        if one["status"]["phase"] == "Running"
    }


def offered(service: Service, node: str) -> str | None:
    amount: str | None = (
        service.ask("GET", f"/api/v1/nodes/{node}").json()["status"]["allocatable"].get("nvidia.com/gpu")
    )
    return amount


def test_one_card_is_shared_by_four_pods_and_a_fifth_waits(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with Service(tmp_path / "home", "--fleet", str(tmp_path / "fleet.yaml")) as service:
        assert offered(service, "node") == "1"
        configured = {"metadata": {"name": "time-slicing-config"}, "data": {"any": SLICING}}
        make(service, "/api/v1/namespaces/nvidia-gpu-operator/configmaps", configured)
        patch = {"spec": {"devicePlugin": {"config": {"name": "time-slicing-config"}}}}
        policy = "/apis/nvidia.com/v1/clusterpolicies/gpu-cluster-policy"
        answer = service.ask("PATCH", policy, patch, media=MERGE)
        assert answer.status == 200, answer.body[:500]
        began = time.monotonic()
        eventually(lambda: offered(service, "node") == "4", "the node never offered four")
        assert time.monotonic() - began < 10
        for number in range(5):
            make(service, PODS, pod(f"p{number}", "nvidia-smi -L; sleep 600"))
        eventually(lambda: len(running(service)) == 4, "four never ran")
        held = [one for devices in running(service).values() for one in devices]
        assert len({one["id"] for one in held}) == 4
        assert len({one["card"] for one in held}) == 1
        name = next(iter(running(service)))
        log = service.ask("GET", f"{PODS}/{name}/log").body.decode()
        assert log == f"GPU 0: NVIDIA L40S (UUID: {held[0]['card']})\n"
        before = running(service)
        service.kill()
        service.start()
        assert offered(service, "node") == "4"
        eventually(lambda: running(service) == before, "others have the devices after a restart")
        service.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        last = ({f"p{number}" for number in range(5)} - before.keys()).pop()
        eventually(lambda: last in running(service), "the fifth never ran")


def test_only_its_node_says_which_devices_a_pod_has(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with Service(tmp_path / "home", "--fleet", str(tmp_path / "fleet.yaml")) as service:
        forged = {"gpuaas.dev/devices": '{"main":[{"id":"GPU-x","resource":"nvidia.com/gpu","card":"GPU-x"}]}'}
        made = pod("p", "sleep 600")
        make(service, PODS, {**made, "metadata": {"name": "p", "annotations": forged}})
        eventually(lambda: "p" in running(service), "it never ran")
        held = running(service)["p"]
        assert held[0]["id"] != "GPU-x"
        assert service.ask("PATCH", f"{PODS}/p", {"metadata": {"annotations": forged}}, media=MERGE).status == 200
        assert running(service)["p"] == held


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", DRIVER], check=True)
    return folder


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says which cards this machine has."""
    file = tmp_path / "machine.json"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("GPUAAS_TEST_NVML", str(file))
    return file


def cards(file: Path, count: int, **more: Any) -> None:
    gpus = [{"uuid": f"GPU-{n}", "name": "NVIDIA H200", "memoryMiB": 143771, "minor": n} for n in range(count)]
    file.write_text(json.dumps({"driver": "580.159.04", "cuda": 13000, "gpus": gpus, **more}))


def job(name: str, script: str) -> dict[str, Any]:
    spec = pod(name, script, runtimeClassName="gpuaas-process")["spec"]
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1", "cpu": "10m", "memory": "1Mi"}}
    labels = {"kueue.x-k8s.io/queue-name": "this-machine"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 0, "template": {"spec": spec}}}


@needs_driver
def test_two_jobs_get_a_card_each_a_third_waits_and_a_killed_server_finds_them_again(
    machine: Path, tmp_path: Path
) -> None:
    cards(machine, 2)
    notes = tmp_path / "notes"
    notes.mkdir()
    with Service(tmp_path / "home") as service:
        quotas = service.ask("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/this-machine").json()
        resources = quotas["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        assert {"name": "nvidia.com/gpu", "nominalQuota": "2"} in resources
        for name in ("a", "b", "c"):
            script = f"echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES > {notes}/{name}; while [ ! -e {notes}/end-{name} ]; do sleep 0.1; done"
            make(service, "/apis/batch/v1/namespaces/default/jobs", job(name, script))
        said = lambda: {one.name: one.read_text().split() for one in notes.iterdir() if "end" not in one.name}  # noqa: E731
        eventually(lambda: len(said()) == 2 and all(said().values()), "two never ran")
        first = said()
        assert sorted(first.values()) == [["GPU-0", "GPU-0"], ["GPU-1", "GPU-1"]]
        eventually(lambda: len(running(service)) == 2, "two are never said to run")
        before = running(service)
        service.kill()
        service.start()
        eventually(lambda: running(service) == before, "they have other devices after a restart")
        assert said() == first, "nothing was started again"
        ended = next(iter(first))
        (notes / f"end-{ended}").touch()
        eventually(lambda: len(said()) == 3 and all(said().values()), "the third never ran")
        third = ({"a", "b", "c"} - first.keys()).pop()
        assert said()[third] == first[ended], "on the card that became free"
        for name in "abc":
            (notes / f"end-{name}").touch()
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        eventually(
            lambda: all(one["status"].get("succeeded") for one in service.ask("GET", jobs).json()["items"]), "no end"
        )


@needs_driver
def test_cards_found_after_the_first_start_are_covered_by_the_queue_and_a_lost_one_takes_no_work(
    machine: Path, tmp_path: Path
) -> None:
    cards(machine, 0)
    queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/this-machine"

    def covered(service: Service) -> list[str]:
        found: list[str] = service.ask("GET", queue).json()["spec"]["resourceGroups"][0]["coveredResources"]
        return found

    with Service(tmp_path / "home") as service:
        assert covered(service) == ["cpu", "memory"]
        service.stop()
        cards(machine, 2)
        service.start()
        assert covered(service) == ["cpu", "memory", "nvidia.com/gpu"]
        [node] = service.ask("GET", "/api/v1/nodes").json()["items"]
        name = node["metadata"]["name"]
        eventually(lambda: offered(service, name) == "2", "the cards are not offered")
        service.stop()
        said = json.loads(machine.read_text())
        said["gpus"][1]["error"] = 15
        machine.write_text(json.dumps(said))
        service.start()
        eventually(lambda: offered(service, name) == "1", "a lost card takes work")
        labels = service.ask("GET", f"/api/v1/nodes/{name}").json()["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"] == "NVIDIA-H200"
        service.stop()
        cards(machine, 2)
        service.start()
        eventually(lambda: offered(service, name) == "2", "a card that is back takes no work")


@needs_driver
def test_no_two_processes_hold_one_card_whatever_is_submitted_and_killed(machine: Path, tmp_path: Path) -> None:
    """Every job locks a file in the name of each of its cards, and says so where another had it."""
    cards(machine, 3)
    chance, notes, jobs = random.Random(1), tmp_path / "notes", "/apis/batch/v1/namespaces/default/jobs"
    notes.mkdir()
    with Service(tmp_path / "home") as service:
        for number in range(100):
            script = (
                f"IFS=,; for card in $CUDA_VISIBLE_DEVICES; do exec 9>>{notes}/$card; "
                f"flock -n 9 || echo job-{number} $card >> {notes}/twice; done; "
                f"echo $CUDA_VISIBLE_DEVICES >> {notes}/ran; sleep {chance.uniform(0.0, 0.5):.2f}"
            )
            make(service, jobs, job(f"job-{number}", script))
            if number % 20 == 10:
                service.kill()
                service.start()
        done = lambda: [one for one in service.ask("GET", jobs).json()["items"] if one["status"].get("succeeded")]  # noqa: E731
        eventually(lambda: len(done()) == 100, lambda: f"{len(done())} of 100 ended")
    assert not (notes / "twice").exists(), (notes / "twice").read_text()
    assert set((notes / "ran").read_text().split()) == {"GPU-0", "GPU-1", "GPU-2"}
    assert len((notes / "ran").read_text().split()) == 100


@needs_driver
def test_a_process_without_a_card_sees_none(machine: Path, tmp_path: Path) -> None:
    cards(machine, 1)
    with Service(tmp_path / "home") as service:
        made = job("plain", f"echo [$CUDA_VISIBLE_DEVICES] $NVIDIA_VISIBLE_DEVICES > {tmp_path}/seen")
        spec = made["spec"]["template"]["spec"]["containers"][0]
        spec["resources"] = {"limits": {"cpu": "10m", "memory": "1Mi"}}
        spec["env"] = [{"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-0"}]
        make(service, "/apis/batch/v1/namespaces/default/jobs", made)
        eventually((tmp_path / "seen").exists, "it never ran")
        eventually(lambda: (tmp_path / "seen").read_text() == "[] void\n", "it sees a card")


@needs_driver
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (18, "driver/library version mismatch"),
        (4, "this user may not talk to the NVIDIA driver"),
        (9, "installed but not loaded"),
    ],
)
def test_a_driver_that_cannot_be_asked_is_named_at_up_on_the_node_and_by_gpus(
    machine: Path, tmp_path: Path, code: int, words: str
) -> None:
    cards(machine, 1, init=code)
    environment = {**os.environ, "GPUAAS_HOME": str(tmp_path / "home")}

    def gpuaas(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpuaas", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    started = gpuaas("up", "-d")
    try:
        assert started.returncode == 0, started.stderr
        assert words in started.stderr
        assert words in gpuaas("gpus").stderr
        nodes = json.loads(gpuaas("get", "nodes", "-o", "json").stdout)["items"]
        conditions = nodes[0]["status"]["conditions"]
        assert words in next(one["message"] for one in conditions if one["type"] == "gpuaas.dev/GPUDriver")
    finally:
        gpuaas("down")
