"""`gpuaas share` and `gpuaas mig plan` on a running control plane: what they name first is what happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.service import Service, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "home", "--fleet", str(EXAMPLES / "mig" / "fleet.yaml")) as running:
        yield running


def gpuaas(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUAAS_HOME": str(service.home), "KUBECONFIG": str(service.kubeconfig)}
    command = [sys.executable, "-m", "gpuaas", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def done(service: Service, *words: str) -> str:
    found = gpuaas(service, *words)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def offered(service: Service) -> dict[str, str]:
    amounts = service.ask("GET", "/api/v1/nodes/gpu").json()["status"]["allocatable"]
    return {name: amount for name, amount in amounts.items() if name.startswith("nvidia.com/")}


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def phases(service: Service) -> dict[str, str]:
    listed = service.ask("GET", "/api/v1/namespaces/default/pods").json()["items"]
    return {one["metadata"]["name"]: one["status"].get("phase", "") for one in listed}


def test_sharing_names_whom_it_displaces_and_displaces_them(service: Service) -> None:
    assert "node gpu offers nvidia.com/gpu: 4" in done(service, "share", "gpu", "--replicas", "4")
    for name in ("a", "b", "c", "d"):
        assert service.ask("POST", "/api/v1/namespaces/default/pods", pod(name)).status == 201
    eventually(lambda: list(phases(service).values()) == ["Running"] * 4, "four never ran")
    dry = json.loads(done(service, "share", "gpu", "--replicas", "2", "--dry-run", "-o", "json"))
    assert len(dry["displaces"]) == 2
    assert offered(service) == {"nvidia.com/gpu": "4"}, "a dry run changes nothing"
    assert json.loads(done(service, "share", "gpu", "--replicas", "8", "--dry-run", "-o", "json"))["displaces"] == []
    real = json.loads(done(service, "share", "gpu", "--replicas", "2", "-o", "json"))
    assert (real["state"], real["displaces"]) == ("in force", dry["displaces"])
    assert {f"default/{name}" for name in "abcd"} - set(real["displaces"]) == {f"default/{n}" for n in phases(service)}
    service.kill()
    service.start()
    assert offered(service) == {"nvidia.com/gpu": "2"}, "sharing survives a crash"
    done(service, "share", "gpu", "--off")
    assert offered(service) == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("share", "gpu", "--mps", "100"), "invalid device maximum allowed replicas exceeded: 100 > 48"),
        (("share", "gpu", "--replicas", "5000"), "replicas"),
        (("share", "nowhere", "--off"), "there is no node or card nowhere"),
        (("share", "gpu"), "give one of --replicas N, --mps N and --off"),
    ],
)
def test_sharing_that_cannot_be_changes_nothing(service: Service, words: tuple[str, ...], answer: str) -> None:
    refused = gpuaas(service, *words)
    assert refused.returncode != 0
    assert answer in refused.stderr
    annotations = service.ask("GET", "/api/v1/nodes/gpu").json()["metadata"]["annotations"]
    assert "gpuaas.dev/sharing" not in annotations


def test_the_plan_admits_what_it_says(service: Service) -> None:
    for name in ("queue.yaml", "jobs.yaml"):
        done(service, "apply", "-f", str(EXAMPLES / "mig" / name))
    jobs = lambda: json.loads(done(service, "ps", "-n", "slices", "-o", "json"))  # noqa: E731
    eventually(lambda: len(jobs()) == 7, "seven jobs never waited")
    best = json.loads(done(service, "mig", "plan", "-o", "json"))[0]
    assert (best["node"], best["config"], len(best["admits"]), best["displaces"]) == ("gpu", "all-1g.5gb", 7, [])
    done(service, "mig", "plan", "--apply")
    eventually(lambda: offered(service) == {"nvidia.com/mig-1g.5gb": "7"}, "the card was never cut")
    eventually(lambda: {row["state"] for row in jobs()} == {"Running"}, "they never ran")
    assert "no job that asks for cards waits" in done(service, "mig", "plan")


def test_the_plan_knows_the_operator_s_own_configurations(service: Service) -> None:
    custom = """version: v1
mig-configs:
  three-and-four:
  - {devices: all, mig-enabled: true, mig-devices: {4g.20gb: 1, 1g.5gb: 3}}
"""
    body = {"metadata": {"name": "custom-mig-config"}, "data": {"config.yaml": custom}}
    assert service.ask("POST", "/api/v1/namespaces/nvidia-gpu-operator/configmaps", body).status == 201
    patch = {"spec": {"migManager": {"config": {"name": "custom-mig-config"}}}}
    path, media = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy", "application/merge-patch+json"
    assert service.ask("PATCH", path, patch, media=media).status == 200
    for name in ("queue.yaml", "jobs.yaml"):
        done(service, "apply", "-f", str(EXAMPLES / "mig" / name))
    eventually(lambda: len(json.loads(done(service, "mig", "plan", "-o", "json"))) == 1, "there is no plan")
    [only] = json.loads(done(service, "mig", "plan", "-o", "json"))
    assert (only["config"], len(only["admits"])) == ("three-and-four", 3)
    done(service, "mig", "plan", "--apply")
    wanted = {"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-4g.20gb": "1"}
    eventually(lambda: offered(service) == wanted, "the card was never cut")
