"""A machine with cards for tests: stand-ins for NVIDIA's driver libraries, and processes that use them.

`Machine` writes what the cards are; a test changes it while the product runs. `use` is a process of somebody else's that
holds memory on a card.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.service import Service

DRIVER = Path(__file__).parents[1] / "driver"
MERGE = "application/merge-patch+json"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/this-machine"
GIB = 1 << 30


def build(folder: Path) -> Path:
    """The libraries, and the client, in a folder."""
    compiled = (
        ["-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", DRIVER / "nvml.c"],
        ["-shared", "-fPIC", "-o", folder / "libcuda.so.1", DRIVER / "cuda.c"],
        ["-o", folder / "client", DRIVER / "cuda_client.c", f"-L{folder}", "-l:libcuda.so.1", "-ldl"],
    )
    for command in compiled:
        subprocess.run(["cc", *command], check=True)
    return folder


class Machine:
    def __init__(self, built: Path, folder: Path) -> None:
        self.built, self.file = built, folder / "machine.json"
        self.gpus: list[dict[str, Any]] = []
        self.xids: list[dict[str, int]] = []
        self.said: dict[str, Any] = {"driver": "580.159.04", "cuda": 13000}

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.built), "GPUAAS_TEST_NVML": str(self.file)}

    def cards(self, count: int, memory: int = 143771) -> None:
        self.gpus = [{"uuid": f"GPU-{n}", "name": "NVIDIA H200", "memoryMiB": memory, "minor": n} for n in range(count)]
        self.write()

    def write(self) -> None:
        draft = self.file.with_suffix(".new")
        draft.write_text(json.dumps({**self.said, "gpus": self.gpus, "xids": self.xids}))
        draft.replace(self.file)

    def xid(self, gpu: int, number: int) -> None:
        self.xids.append({"number": len(self.xids) + 1, "gpu": gpu, "xid": number})
        self.write()

    @contextmanager
    def use(self, card: str, gib: int, *, seconds: int = 600) -> Iterator[int]:
        """A process outside gpuaas with memory on the card; its pid."""
        command = [str(self.built / "client"), "linked", str(gib), f"s{seconds}"]
        environment = {**os.environ, **self.environment, "CUDA_VISIBLE_DEVICES": card}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()

    def job(
        self, name: str, script: str, *, gpus: int = 1, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> dict[str, Any]:
        """`$CLIENT` in the script is the program that asks for memory."""
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", script],
            "env": [
                {"name": "GPUAAS_TEST_NVML", "value": str(self.file)},
                {"name": "CLIENT", "value": str(self.built / "client")},
            ],
            "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "10m", "memory": "1Mi"}},
        }
        pods = {"restartPolicy": "Never", "containers": [container], "runtimeClassName": "gpuaas-process"}
        labels = {"kueue.x-k8s.io/queue-name": "this-machine"}
        template = {"metadata": {"annotations": dict(annotations or {})}, "spec": pods}
        return {"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 0, **spec, "template": template}}


def end_jobs(folder: Path) -> None:
    """Jobs outlive their control plane: ends those of homes below the folder."""
    mark = f"GPUAAS_RUN={folder}/".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if any(each.startswith(mark) for each in (process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)


def make(service: Service, path: str, body: dict[str, Any]) -> None:
    answer = service.ask("POST", path, body)
    assert answer.status == 201, answer.body[:500]


def share(service: Service, replicas: int, how: str = "timeSlicing") -> None:
    """NVIDIA's sharing configuration for every card; the queue's quota follows."""
    entry = {"name": "nvidia.com/gpu", "replicas": replicas}
    text = json.dumps({"version": "v1", "sharing": {how: {"resources": [entry]}}})
    service.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "gpu-operator"}})
    make(
        service, "/api/v1/namespaces/gpu-operator/configmaps", {"metadata": {"name": "sharing"}, "data": {"any": text}}
    )
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    parts = ("daemonsets", "dcgm", "dcgmExporter", "driver", "gfd", "nodeStatusExporter", "operator", "toolkit")
    spec = {**{part: {} for part in parts}, "devicePlugin": {"config": {"name": "sharing"}}}
    make(service, "/apis/nvidia.com/v1/clusterpolicies", {**policy, "spec": spec})


def pods_of(service: Service) -> dict[str, dict[str, Any]]:
    """The newest pod of each job."""
    found: dict[str, dict[str, Any]] = {}
    for pod in sorted(service.ask("GET", PODS).json()["items"], key=lambda pod: pod["metadata"]["creationTimestamp"]):
        found[pod["metadata"]["labels"]["job-name"]] = pod
    return found


def phases(service: Service) -> dict[str, str]:
    return {name: pod["status"]["phase"] for name, pod in pods_of(service).items()}


def log(service: Service, job: str) -> str:
    name = pods_of(service)[job]["metadata"]["name"]
    return service.ask("GET", f"{PODS}/{name}/log").body.decode()


def node(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.ask("GET", "/api/v1/nodes").json()["items"][0]
    return found


def offered(service: Service) -> str | None:
    amount: str | None = node(service)["status"]["allocatable"].get("nvidia.com/gpu")
    return amount
