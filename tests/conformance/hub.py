"""A hub and its workers in one `gpuaas up`, wired by hand as MultiKueue's documentation does it, and driven by kubectl."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import yaml
from tests.conformance import kubectls
from tests.conformance.service import Service, eventually

NODES = """
  - name: h200
    count: 1
    gpu: {product: NVIDIA-H200, count: 8, memory: 141Gi}
    cpu: 64
    memory: 512Gi
"""
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default-flavor}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: cluster-queue}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: default-flavor
      resources:
      - {{name: cpu, nominalQuota: 64}}
      - {{name: memory, nominalQuota: 512Gi}}
      - {{name: nvidia.com/gpu, nominalQuota: {gpus}}}
{checks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: user-queue, namespace: default}}
spec: {{clusterQueue: cluster-queue}}
"""
CHECKS = """
  admissionChecksStrategy:
    admissionChecks: [{name: sample-multikueue}]
"""


def fleet(workers: list[str], *, hub: bool = True) -> str:
    lines = [
        "clusters:",
        *([f"- name: hub\n  nodes:{NODES}"] if hub else []),
        *(f"- name: {name}\n  nodes:{NODES}" for name in workers),
    ]
    return "\n".join(lines)


class Hub:
    """`with Hub(folder, ["worker1"]) as hub:` — every worker is connected inside."""

    def __init__(self, folder: Path, workers: list[str], *options: str, apart: bool = False) -> None:
        """`apart`: the hub and each worker are processes of their own."""
        self.folder = folder
        self.workers = workers
        folder.mkdir(parents=True, exist_ok=True)
        if apart:
            self.services = {name: self._service(name, fleet([name], hub=False)) for name in workers}
            self.services["hub"] = self._service("hub", fleet([]), *options)
        else:
            self.services = dict.fromkeys(("hub", *workers), self._service("home", fleet(workers), *options))
        self.service = self.services["hub"]
        self.kubectl: dict[str, kubectls.Kubectl] = {}

    def _service(self, name: str, text: str, *options: str) -> Service:
        file = self.folder / f"{name}.yaml"
        file.write_text(text)
        return Service(self.folder / name, "--fleet", str(file), *options)

    def __enter__(self) -> Self:
        for service in dict.fromkeys(self.services.values()):
            service.start()
        for name in ("hub", *self.workers):
            self.kubectl[name] = self._kubectl(name)
        for name in self.workers:
            self.on(name, "apply -f -", QUEUES.format(gpus=8, checks=""))
        self.on("hub", "apply -f -", QUEUES.format(gpus=8 * len(self.workers), checks=CHECKS))
        self.wire(self.workers)
        return self

    def __exit__(self, *_: object) -> None:
        for service in dict.fromkeys(self.services.values()):
            service.stop()

    def on(self, cluster: str, line: str, stdin: str = "") -> str:
        return self.kubectl[cluster](line, stdin)

    def get(self, cluster: str, line: str) -> Any:
        done = self.kubectl[cluster].run(f"get {line} -o json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def gpuaas(self, *words: str) -> str:
        """What the command printed about the hub."""
        options = ("--kubeconfig", str(self.service.kubeconfig), "--context", "hub")
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas", *words, *options],
            env={**os.environ, "GPUAAS_HOME": str(self.service.home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wire(self, workers: list[str]) -> None:
        self.on("hub", "apply -f -", "\n---\n".join(yaml.safe_dump(each) for each in self.objects(workers)))
        for name in workers:
            self.on("hub", f"wait --for=condition=Active multikueuecluster/{name} --timeout=30s")
        self.on("hub", "wait --for=condition=Active admissioncheck/sample-multikueue --timeout=30s")
        self.on("hub", "wait --for=condition=Active clusterqueue/cluster-queue --timeout=30s")

    def objects(self, workers: list[str]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for name in workers:
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": f"{name}-secret", "namespace": "kueue-system"},
                    "data": {"kubeconfig": base64.b64encode(self.kubeconfig_of(name).encode()).decode()},
                }
            )
            made.append(
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "MultiKueueCluster",
                    "metadata": {"name": name},
                    "spec": {"clusterSource": {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}},
                }
            )
        made.append(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "MultiKueueConfig",
                "metadata": {"name": "multikueue-test"},
                "spec": {"clusters": workers},
            }
        )
        made.append(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "AdmissionCheck",
                "metadata": {"name": "sample-multikueue"},
                "spec": {
                    "controllerName": "kueue.x-k8s.io/multikueue",
                    "parameters": {
                        "apiGroup": "kueue.x-k8s.io",
                        "kind": "MultiKueueConfig",
                        "name": "multikueue-test",
                    },
                },
            }
        )
        return made

    def kubeconfig_of(self, name: str) -> str:
        whole = yaml.safe_load(self.services[name].kubeconfig.read_text())
        parts = {
            section: [each for each in whole[section] if each["name"] == name]
            for section in ("clusters", "users", "contexts")
        }
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts, "current-context": name})

    def _kubectl(self, name: str) -> kubectls.Kubectl:
        place = self.folder / f"kubectl-{name}"
        place.mkdir(exist_ok=True)
        file = place / "kubeconfig"
        file.write_text(self.kubeconfig_of(name))
        return kubectls.Kubectl(_program(), file, place, place)

    def until(self, seen: Any, what: str, limit: float = 30.0) -> Any:
        return eventually(seen, lambda: f"{what}\n{self.state()}", limit)

    def state(self) -> str:
        shown = []
        for name, kubectl in self.kubectl.items():
            lines = kubectl.run("get workloads,jobs,pods -A -o wide").stdout
            shown.append(f"--- {name}\n{lines}")
        shown.append(self.kubectl["hub"].run("get workloads -A -o yaml").stdout)
        shown.append(self.service.log.read_text()[-3000:])
        return "\n".join(shown)


def _program() -> Path:
    programs = kubectls.found()
    assert programs, kubectls.NONE_HERE
    return programs[0]


def job(name: str, *, gpus: int = 1, command: str = "echo hello; sleep 2", extra: str = "") -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: default
  labels: {{kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: true
  template:
    metadata: {{annotations: {{{extra}}}}}
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox
        command: [sh, -c, "{command}"]
        resources:
          requests: {{cpu: "1", memory: 200Mi}}
          limits: {{nvidia.com/gpu: "{gpus}"}}
"""
