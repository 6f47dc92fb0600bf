"""The commands two public walkthroughs about many clusters tell people to type, and what they promise to show.

`gpuaas fleet create` and `delete` stand for the scripts that rent clusters and give them back, kubectl for oc. Their
manifests that are not published are written from their descriptions (folder walkthroughs). Kueue is there from the start.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conformance.kubectls import NONE_HERE, eventually, found

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]

FILES = Path(__file__).parent / "walkthroughs"
SECONDS = 120


class Shell:
    """A folder in which somebody types the commands; `kubectl` is a real one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / ".tools"
        tools.mkdir(parents=True)
        (tools / "kubectl").symlink_to(found()[0])
        (tools / "oc").symlink_to(found()[0])
        script = f'#!/bin/sh\nexec {sys.executable} -m gpuaas "$@"\n'
        (tools / "gpuaas").write_text(script)
        (tools / "gpuaas").chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "GPUAAS_HOME": str(folder / "fleet-home"),
            "TZ": "UTC",
        }
        self.environment.pop("KUBECONFIG", None)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip

    def __call__(self, line: str) -> str:
        done = self.run(line)
        assert done.returncode == 0, f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def until(self, line: str, enough: Callable[[str], object]) -> str:
        return eventually(lambda: self.run(line).stdout, lambda seen: bool(enough(seen)))


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[[str], Shell]]:
    shells: list[Shell] = []

    def begin(name: str) -> Shell:
        shutil.copytree(FILES / name, tmp_path / name)
        shells.append(Shell(tmp_path / name))
        return shells[-1]

    yield begin
    for each in shells:
        each.run("gpuaas fleet delete")


HEALTH = {
    "clusterqueues cluster-queue": ("CQ", "Reason: Ready Message: Can admit new workloads"),
    "admissionchecks sample-multikueue": ("AC", "Reason: Active Message: The admission check is active"),
    "multikueuecluster multikueue-test-worker1": ("MC", "Reason: Active Message: Connected"),
}


def test_two_clusters_wired_by_hand(typed: Callable[[str], Shell]) -> None:
    sh = typed("lke")
    sh("gpuaas fleet create --clusters 2")
    assert {"kubeconfig-cluster-01", "kubeconfig-cluster-02"} <= {each.name for each in sh.folder.iterdir()}
    sh("kubectl apply -f configs/worker-queue-setup.yaml --kubeconfig=./kubeconfig-cluster-02")
    sh(
        "KUBECONFIG=./kubeconfig-cluster-02 bash ./scripts/create-multikueue-kubeconfig.sh scripts/multikueue-kubeconfig"
    )
    sh(
        "kubectl create secret generic worker1-secret -n kueue-system --kubeconfig=./kubeconfig-cluster-01"
        " --from-file=kubeconfig=scripts/multikueue-kubeconfig"
    )
    sh("kubectl apply -f configs/multikueue-setup.yaml --kubeconfig=./kubeconfig-cluster-01")
    described = sh.until(
        "kubectl describe multikueuecluster multikueue-test-worker1 --kubeconfig kubeconfig-cluster-01",
        lambda seen: "Connected" in seen,
    )
    assert re.search(r"Reason: +Active\n +Status: +True\n +Type: +Active", described)
    sh("kubectl apply -f configs/debug-gpu-job.yaml --kubeconfig kubeconfig-cluster-01")
    sh.until(
        "kubectl get jobs --kubeconfig kubeconfig-cluster-02", lambda seen: re.search(r"debug-gpu-job +Running", seen)
    )
    sh.until(
        "kubectl get jobs --kubeconfig kubeconfig-cluster-01", lambda seen: re.search(r"debug-gpu-job +Running", seen)
    )
    table = sh("kubectl get workloads --kubeconfig kubeconfig-cluster-01")
    assert re.search(r"job-debug-gpu-job-\w+ +user-queue +cluster-queue +True", table)

    sh.environment["KUBECONFIG"] = "kubeconfig-cluster-01"
    for what, (short, words) in HEALTH.items():
        path = (
            '{range .status.conditions[?(@.type == \\"Active\\")]}' + short + " - Active: {@.status} Reason: {@.reason}"
            " Message: {@.message}{'\\n'}{end}"
        )
        said = sh.until(f'kubectl get {what} -o jsonpath="{path}"', lambda seen: "Active: True" in seen)
        assert said == f"{short} - Active: True {words}\n"
    sh("kubectl rollout restart deployment kueue-controller-manager -n kueue-system --kubeconfig kubeconfig-cluster-01")
    for number in (1, 2):
        log = f"kubectl logs -n kueue-system -l control-plane=controller-manager --kubeconfig kubeconfig-cluster-0{number}"
        sh.until(log, lambda seen: "Kueue of this cluster" in seen)
    done = sh.until("kubectl get workloads", lambda seen: seen.count("True") == 2)
    assert "FINISHED" in done
    sh.until("kubectl get jobs", lambda seen: re.search(r"debug-gpu-job +Complete +1/1", seen))
    assert "GPU 0: NVIDIA L4" in sh("kubectl logs job/debug-gpu-job"), "read on the manager, where no pod runs"

    sh("gpuaas fleet delete")
    assert not (sh.folder / "fleet-home").exists()
    assert not list(sh.folder.glob("kubeconfig-*"))


def test_a_hub_whose_placements_choose(typed: Callable[[str], Shell]) -> None:
    sh = typed("rhacm")
    sh("gpuaas fleet create --name hub --name spoke-cluster1 --name spoke-cluster2 --gpus 8")
    sh.environment["KUBECONFIG"] = "kubeconfig-hub"
    _prerequisites(sh)
    _what_the_add_on_made(sh)
    _all_clusters(sh)
    _by_label(sh)
    _by_score(sh)
    sh("gpuaas fleet delete")
    assert not (sh.folder / "fleet-home").exists()


def _prerequisites(sh: Shell) -> None:
    sh("oc get multiclusterhub -A")
    sh("oc get csv -n openshift-kueue-operator")
    clusters = sh("oc get managedclusters")
    heading = ["NAME", "HUB ACCEPTED", "MANAGED CLUSTER URLS", "JOINED", "AVAILABLE", "AGE"]
    assert re.split(r" {2,}", clusters.splitlines()[0].strip()) == heading
    for name in ("spoke-cluster1", "spoke-cluster2", "local-cluster"):
        assert re.search(rf"^{name} +true +https://\S+ +True +True ", clusters, re.MULTILINE), clusters


def _what_the_add_on_made(sh: Shell) -> None:
    sh("kubectl label managedcluster spoke-cluster1 accelerator=nvidia-l4 --overwrite")
    labelled = sh("kubectl get mcl -l accelerator=nvidia-l4")
    assert "spoke-cluster1" in labelled
    assert "spoke-cluster2" not in labelled
    assert "Multicluster Kueue Manager" in sh("kubectl get clustermanagementaddon multicluster-kueue-manager")
    add_ons = sh.until("kubectl get managedclusteraddons -A | grep kueue", lambda seen: seen.count(" True ") == 2)
    for name in ("spoke-cluster1", "spoke-cluster2"):
        assert re.search(rf"^{name} +multicluster-kueue-manager +True +False *$", add_ons, re.MULTILINE), add_ons
        assert re.search(rf"multikueue-{name} +Opaque +1 ", sh("kubectl get secret -n kueue-system"))
        sh(f"kubectl get managedserviceaccount multikueue -n {name}")
        connected = sh("kubectl get multikueuecluster")
        assert re.search(rf"^{name} +True ", connected, re.MULTILINE), connected


def _active(sh: Shell, check: str) -> str:
    def said(seen: str) -> bool:
        return '"status":"True"' in seen

    return sh.until(f"kubectl get admissionchecks {check} -o jsonpath='{{.status.conditions}}'", said)


def _all_clusters(sh: Shell) -> None:
    sh("oc apply -f scenario1/kueue-resources.yaml")
    assert "MultiKueueConfig default is generated successfully" in _active(sh, "multikueue-config-demo")
    assert "The admission check is active" in _active(sh, "multikueue-demo")
    configs = json.loads(sh("kubectl get multikueueconfig -ojson"))["items"]
    assert [(each["metadata"]["name"], sorted(each["spec"]["clusters"])) for each in configs] == [
        ("default", ["spoke-cluster1", "spoke-cluster2"])
    ]
    conditions = sh.until(
        "kubectl get clusterqueues -o jsonpath='{.items[0].status.conditions}'", lambda seen: '"status":"True"' in seen
    )
    assert "Can admit new workloads" in conditions
    sh("oc create -f scenario1/sample-job.yaml")
    where = sh.until("kubectl get workload -o jsonpath='{.items[0].status.clusterName}'", lambda seen: seen)
    states = json.loads(sh("kubectl get workload -o jsonpath='{.items[0].status.admissionChecks}'"))
    assert {each["name"]: each["state"] for each in states} == {
        "multikueue-demo": "Ready",
        "multikueue-config-demo": "Ready",
    }
    assert f'The workload was admitted on "{where}"' in [each["message"] for each in states]
    loser = "spoke-cluster1" if where == "spoke-cluster2" else "spoke-cluster2"
    assert re.search(r"cluster-queue +True", sh(f"kubectl get workload --kubeconfig kubeconfig-{where}"))
    sh.until(f"kubectl get workload --kubeconfig kubeconfig-{loser} 2>&1", lambda seen: "No resources found" in seen)
    sh.until("kubectl get jobs", lambda seen: re.search(r"demo1-cpu-job-\w+ +Complete", seen))
    sh("oc delete job --all")
    sh("oc delete -f scenario1/kueue-resources.yaml")


def _by_label(sh: Shell) -> None:
    sh("oc apply -f before-scenario2.yaml")
    sh("oc apply -f scenario2/gpu-placement.yaml")
    decision = "kubectl get placementdecision -n openshift-kueue-operator -o jsonpath='{.items[*].status.decisions[*].clusterName}'"
    assert sh.until(decision, lambda seen: seen) == "spoke-cluster1"
    sh("oc apply -f scenario2/kueue-resources.yaml")
    assert "MultiKueueConfig gpu-placement is generated successfully" in _active(sh, "gpu-placement-check")
    _active(sh, "multikueue-gpu")
    sh("oc create -f scenario2/sample-gpu-job.yaml")
    sh.until("kubectl get jobs", lambda seen: re.search(r"demo2-gpu-job-\w+ +Complete", seen))
    assert "No resources found" in sh.run("kubectl get jobs --kubeconfig kubeconfig-spoke-cluster2").stderr
    sh("oc delete job --all")
    sh("oc delete -f scenario2/kueue-resources.yaml")
    sh("oc delete -f scenario2/gpu-placement.yaml")


def _by_score(sh: Shell) -> None:
    sh("kubectl label managedcluster spoke-cluster2 accelerator=nvidia-l4 --overwrite")
    scores = json.loads(sh("kubectl get addonplacementscore -A -ojson"))["items"]
    assert {each["status"]["scores"][5]["name"] for each in scores} == {"gpuClusterAvailable"}
    # The file's `.status` is dropped by `apply`, as the API promises; the guide patches it afterwards.
    sh("oc apply -f scenario3/sample-scores.yaml")
    for name, value in (("spoke-cluster1", 80), ("spoke-cluster2", 0)):
        _patch_score(sh, name, value)
    sh("oc apply -f scenario3/dynamic-placement.yaml")
    decision = "kubectl get placementdecision -n openshift-kueue-operator -o jsonpath='{.items[*].status.decisions[*].clusterName}'"
    sh.until(decision, lambda seen: seen == "spoke-cluster1")
    sh("oc apply -f scenario3/kueue-resources.yaml")
    _active(sh, "dynamic-gpu-check")
    _active(sh, "multikueue-dynamic")
    sh("oc create -f scenario3/sample-gpu-job.yaml")
    named = "kubectl get workload -o jsonpath='{range .items[*]}{.metadata.labels.round}{.status.clusterName} {end}'"
    sh.until(named, lambda seen: seen.strip() == "spoke-cluster1")
    _patch_score(sh, "spoke-cluster2", 95)
    sh.until(decision, lambda seen: seen == "spoke-cluster2")
    sh("oc create -f scenario3/sample-gpu-job.yaml")
    sh.until(named, lambda seen: sorted(seen.split()) == ["spoke-cluster1", "spoke-cluster2"])
    assert re.search(r"demo3-gpu-job-\w+ +Running", sh("kubectl get jobs --kubeconfig kubeconfig-spoke-cluster1"))
    sh.until("kubectl get jobs", lambda seen: len(re.findall(r"demo3-gpu-job-\w+ +Complete", seen)) == 2)
    events = sh("kubectl get events -A")
    assert "EvictedDueTo" not in events, "what ran on the cluster that left the decision was not moved"


def _patch_score(sh: Shell, cluster: str, value: int) -> None:
    patch = json.dumps({"status": {"scores": [{"name": "gpuClusterAvailable", "value": value}]}})
    sh(
        f"kubectl patch addonplacementscore resource-usage-score -n {cluster} --subresource=status --type=merge -p '{patch}'"
    )
