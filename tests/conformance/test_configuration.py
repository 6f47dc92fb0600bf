"""Kueue's configuration with a running control plane: from a file at its start, from an object at any time; metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.conformance.service import Service, eventually

FILE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
objectRetentionPolicies: {workloads: {afterFinished: 0s}}
metrics: {enableClusterQueueResources: true}
clientConnection: {qps: 50}
"""
KUEUES = "/apis/kueue.openshift.io/v1/kueues"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team-a"


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUAAS_HOME": str(home)}
    environment.pop("KUBECONFIG", None)
    return subprocess.run(
        [sys.executable, "-m", "gpuaas", *words],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def metrics(service: Service, path: str = "/metrics") -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(service.ask("GET", path).body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_file_is_in_force_and_kept_for_the_next_start(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "kueue.yaml"
    file.write_text(FILE)
    with Service(home, "--fleet", "demo", "--kueue-config", str(file)) as service:
        done = command(home, "run", "-n", "team-a", "--name", "short", "--seconds", "0", "--wait", "--", "x")
        assert done.returncode == 0, done.stderr
        workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads"
        eventually(lambda: not service.ask("GET", workloads).json()["items"], lambda: "the workload is still there")
        told = metrics(service)
        labels = {"cluster_queue": "team-a", "priority_class": "", "replica_role": "standalone"}
        assert (labels, 1.0) in told["kueue_finished_workloads_total"]
        assert "kueue_cluster_queue_nominal_quota" in told
    file.unlink()
    with Service(home) as service:
        assert "kueue_cluster_queue_nominal_quota" in metrics(service, "/clusters/local/metrics")
        words = "warning: " + str(home / "kueue.yaml") + ": clientConnection: has no effect here: "
        assert service.log.read_text().count(words) == 2, "once each start"
    with Service(home, "--kueue-config", "none") as service:
        assert "kueue_cluster_queue_nominal_quota" not in metrics(service)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Job", "apiVersion: Required value"),
        (FILE.replace("0s", "soon"), 'objectRetentionPolicies.workloads.afterFinished: Invalid value: "soon"'),
        (None, "cannot be read"),
    ],
    ids=["another kind", "a mistake", "no file"],
)
def test_a_file_with_a_mistake_starts_nothing(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "kueue.yaml"
    if text is not None:
        file.write_text(text)
    done = command(tmp_path / "home", "up", "-d", "--kueue-config", str(file))
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "home").exists()


def test_the_kueue_object_is_followed_live_and_across_a_restart(tmp_path: Path) -> None:
    spec = {
        "config": {"integrations": {"frameworks": ["RayCluster"]}, "preemption": {"preemptionPolicy": "FairSharing"}}
    }
    obj = {"apiVersion": "kueue.openshift.io/v1", "kind": "Kueue", "metadata": {"name": "cluster"}, "spec": spec}
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "free-", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}},
    }
    jobs = "/apis/batch/v1/namespaces/team-a/jobs"
    home = tmp_path / "home"
    with Service(home, "--fleet", "demo") as service:
        assert service.ask("POST", KUEUES, obj).status == 201

        def conditions() -> dict[str, str]:
            status = service.ask("GET", f"{KUEUES}/cluster").json().get("status") or {}
            return {each["type"]: each["status"] for each in status.get("conditions") or ()}

        eventually(lambda: conditions().get("Available") == "True", lambda: str(conditions()))
        eventually(lambda: "fairSharing" in service.ask("GET", QUEUE).json()["status"], lambda: "no share is told")
        made = service.ask("POST", jobs, job).json()
        assert made["spec"]["suspend"] is False, "batch jobs are not held"
        service.kill()
        service.start()
        made = service.ask("POST", jobs, job).json()
        assert made["spec"]["suspend"] is False, "from the first request on"
        assert service.ask("DELETE", f"{KUEUES}/cluster").status == 200

        def is_held() -> bool:
            return bool(service.ask("POST", jobs, job).json()["spec"]["suspend"])

        eventually(is_held, lambda: "batch jobs are still not held")
