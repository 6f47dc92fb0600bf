"""Kubernetes with upstream Kueue: our examples and our commands work there, and our queues answer as Kueue's do.

Everything but the differential cases runs with no gpuaas server anywhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import differential, nodes, parts, queues, sides
from tests.real.cluster import RealCluster, real_cluster
from tests.real.judge import Judge, load, render
from tests.real.kueue import apply
from tests.real.notebooks import JSON

from gpuaas.cli.run import job_for
from gpuaas.cli.stories import tell
from gpuaas.client.http import from_kubeconfig

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 60.0  # a step takes milliseconds, or a while on a busy machine
TOGETHER = 6


@pytest.fixture(scope="module")
def cluster(real_parts: None) -> Iterator[RealCluster]:
    with real_cluster() as made:
        yield made


@pytest.mark.parametrize("name", ["private-ai", "sla"])
def test_the_stories_happen_there_too(name: str, cluster: RealCluster) -> None:
    folder = EXAMPLES / name
    with nodes.added(cluster.side, (folder / "fleet.yaml").read_text()):
        steps = asyncio.run(_tell(cluster.kubeconfig, name, folder))
    assert steps >= 7


async def _tell(kubeconfig: Path, name: str, folder: Path) -> int:
    async with from_kubeconfig(kubeconfig) as client:
        steps = await tell(name, client, folder, PATIENCE)
    await asyncio.sleep(0.2)  # a TLS connection takes a moment to be closed on both sides
    return steps


QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {nvidia.com/gpu.product: NVIDIA-H100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 32}
      - {name: memory, nominalQuota: 128Gi}
      - {name: nvidia.com/gpu, nominalQuota: 4}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpus, namespace: default}
spec: {clusterQueue: research}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: urgent}, value: 1000}
"""


class People:
    """The `gpuaas` command with a kubeconfig, in a home where no server ever ran."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "GPUAAS_HOME": str(home)}

    def say(self, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "gpuaas", *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        return done.returncode, re.sub(r" +", " ", done.stdout + done.stderr)  # columns are as wide as they need to be

    def __call__(self, *words: str) -> str:
        code, said = self.say(*words)
        assert code == 0, said
        return said

    def until(self, words: str, *command: str) -> str:
        """Asks again until the answer has the words."""
        deadline = time.monotonic() + PATIENCE
        while words not in (said := self(*command)):
            assert time.monotonic() < deadline, f"{words!r} did not come in\n{said}"
            time.sleep(0.2)
        return said


@pytest.fixture(scope="module")
def with_nodes(cluster: RealCluster) -> RealCluster:
    """Those of the queue cases, from here on; the stories bring their own."""
    nodes.add_nodes(cluster.side, queues.FLEET.read_text())
    return cluster


@pytest.fixture(scope="module")
def gpuaas(with_nodes: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> People:
    home = tmp_path_factory.mktemp("home")
    people = People(with_nodes.kubeconfig, home)
    file = home / "queues.yaml"
    file.write_text(QUEUES)
    people("apply", "-f", str(file))
    people.until("Active", "queues")
    return people


def test_what_people_ask_is_answered_there(gpuaas: People) -> None:
    """One day of a team: they run, wait, ask why, make room, look back."""
    assert "research h100 nvidia.com/gpu 4 0 0" in gpuaas("queues")
    assert "NVIDIA-H100 nvidia.com/gpu 2 128 0 128" in gpuaas("gpus")

    said = gpuaas("run", "--name", "train", "--image", "train:1", "--gpus", "3", "--seconds", "600", "--", "train.py")
    assert "job/train is in queue gpus of namespace default" in said
    gpuaas.until("job/train gpus Running 3", "ps")
    assert gpuaas("logs", "train").splitlines() == list(nodes.LOG)
    assert "NVIDIA-H100 nvidia.com/gpu 2 128 3 125" in gpuaas("gpus")
    assert "it was admitted by ClusterQueue research" in gpuaas("why", "train")

    gpuaas("run", "--name", "second", "--image", "train:1", "--gpus", "2", "--seconds", "600", "--", "train.py")
    why = gpuaas.until("Job/second: Pending (WaitingForQuota)", "why", "second")
    assert "it asks for 2 nvidia.com/gpu, and 1 of ClusterQueue research's h100 is free" in why
    assert "held by research: 3 (its own: 4): default/job-train-" in why
    assert "- 1 more nvidia.com/gpu in h100" in why
    assert "job/second gpus Pending 1 2" in gpuaas("ps")

    run = ["run", "--name", "urgent", "--priority", "urgent", "--image", "train:1", "--gpus", "4"]
    gpuaas(*run, "--seconds", "600", "--", "train.py")
    gpuaas.until("job/urgent gpus Running 4", "ps")
    assert "evicted at " in gpuaas.until("Job/train: Pending (WaitingForQuota)", "why", "train")
    audit = gpuaas("audit")
    assert re.search(r"default/job/train default/job/urgent InClusterQueue \d+s \d\.\d", audit)
    assert re.search(r"this cluster keeps no ledger: its events \(since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\)", audit)
    assert "research h100 nvidia.com/gpu 4 4 0 2" in gpuaas("queues")

    assert "job/urgent is cancelled" in gpuaas("cancel", "urgent")
    gpuaas.until("job/train gpus Running", "ps")
    for name in ("train", "second"):
        gpuaas("cancel", name)
    gpuaas.until("no jobs wait or run", "ps")


def test_waiting_for_a_job_ends_with_it_and_shows_what_it_wrote(gpuaas: People) -> None:
    run = ["run", "--name", "short", "--image", "train:1", "--seconds", "2", "--wait", "--follow", "--", "train.py"]
    said = gpuaas(*run)
    assert [line for line in said.splitlines() if line.startswith("step")] == list(nodes.LOG)
    gpuaas("cancel", "short")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "--gpus", "1", "--", "x"], "this cluster runs images: name one with --image"),
        (["run", "--image", "i", "--queue", "gpu", "--", "x"], "there is no queue gpu in default; there are: gpus"),
        (["run", "--image", "i", "--gpus", "B300:1", "--", "x"], "no node has a GPU called B300; there are: NVIDIA-"),
        (["run", "--image", "i", "--priority", "hot", "--", "x"], "there is no priority hot; there are: "),
        (["why", "nothing"], "there is no job nothing in namespace default"),
    ],
)
def test_mistakes_are_told_there_too(command: list[str], words: str, gpuaas: People) -> None:
    code, said = gpuaas.say(*command)
    assert code != 0
    assert words in said


def test_a_notebook_is_queued_as_its_stateful_set_and_still_asked_for_by_its_name(gpuaas: People) -> None:
    gpuaas("run", "--name", "holder", "--image", "train:1", "--gpus", "4", "--seconds", "600", "--", "train.py")
    gpuaas.until("job/holder gpus Running", "ps")
    assert "notebook/lab is in queue gpus" in gpuaas("notebook", "--name", "lab", "--gpus", "1")
    gpuaas.until("statefulset/lab gpus Pending", "ps")
    assert "none of ClusterQueue research's h100 is free" in gpuaas.until("WaitingForQuota", "why", "notebook/lab")
    gpuaas("cancel", "holder")
    gpuaas.until("statefulset/lab gpus Running", "ps")
    assert gpuaas("logs", "notebook/lab").splitlines() == list(nodes.LOG)
    gpuaas("cancel", "notebook/lab")
    gpuaas.until("no jobs wait or run", "ps")


MANAGED = {
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector": {"matchLabels": {"kueue.openshift.io/managed": "true"}},
}


def test_kueue_can_be_told_to_hold_jobs_without_a_queue_as_ours_does(real_parts: None) -> None:
    """The configuration that the guide names."""
    held: dict[str, bool] = {}
    with real_cluster(MANAGED) as made:
        for name, labels in (("managed", {"kueue.openshift.io/managed": "true"}), ("free", {})):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            apply(made.side, namespace)
            job = job_for(("x",), queue="", local=False, name="x")
            job["metadata"].pop("labels")
            answer = made.side.send("POST", f"/apis/batch/v1/namespaces/{name}/jobs", json.dumps(job), JSON)
            assert answer.status == 201, answer.body
            held[name] = answer.json()["spec"]["suspend"]
    assert held == {"managed": True, "free": False}


@pytest.fixture(scope="module")
def both(with_nodes: RealCluster) -> Iterator[tuple[sides.Side, sides.Side]]:
    real = sides.Side("real", with_nodes.kubeconfig, queues=True)
    with queues.our_side() as ours:
        yield real, ours
    real.close()


def test_our_queues_answer_as_upstreams_do(
    both: tuple[sides.Side, sides.Side], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All cases, several at a time: most of the time goes into waiting until nothing moves any more."""
    judge = compared(both, queues.FOLDER, tmp_path_factory.mktemp("homes"))
    assert [entry.step for entry in judge.stale] == []


def test_our_queues_do_what_they_are_told_as_upstreams_do(
    real_parts: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Fair sharing, waiting for pods, how long things are kept: the same configuration on both sides."""
    told = queues.settings()
    with queues.real_side(told=told) as real, queues.our_side(told=told) as ours:
        compared((real, ours), queues.CONFIGURED, tmp_path_factory.mktemp("homes"))


def compared(both: tuple[sides.Side, sides.Side], folder: Path, homes: Path) -> Judge:
    judge = Judge(load(queues.DIFFERENCES))
    cases = differential.kubectl_cases(parts.binary("kubectl"), homes, "", known=queues.load(folder))
    found = [each for case in differential.compare(cases, both, judge, together=TOGETHER) for each in case]
    if found:
        pytest.fail("\n\n".join(render(difference) for difference in found), pytrace=False)
    return judge
