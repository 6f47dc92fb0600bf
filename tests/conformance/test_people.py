"""The people's commands against a running control plane with simulated nodes: what a stranger types, and sees."""

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

SECONDS = 60.0


class Gpuaas:
    """`gpuaas` as a command, with the embedded home as the only way to find the cluster."""

    def __init__(self, home: Path) -> None:
        self._environment = {**os.environ, "GPUAAS_HOME": str(home)}
        self._environment.pop("KUBECONFIG", None)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpuaas", *words],
            env=self._environment, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"gpuaas {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))

    def refused(self, *words: str, stdin: str = "") -> str:
        """The one line that says what is wrong."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode in (1, 2), f"gpuaas {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        (line,) = done.stderr.splitlines()
        return line

    def state(self, namespace: str, job: str) -> str:
        rows = self.json("ps", "-n", namespace, "--finished")
        return next((row["state"] for row in rows if row["job"] == job), "")


@pytest.fixture(scope="module")
def gpuaas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpuaas]:
    home = tmp_path_factory.mktemp("people") / "home"
    with Service(home, "--fleet", "demo"):
        yield Gpuaas(home)


MISTAKES: list[tuple[str, str]] = [
    ("run -- x", "Error: namespace default has no queue; there are queues in: team-a, team-b (-n)"),
    ("run -n team-a --queue defalt -- x", "Error: there is no queue defalt in team-a; there are: default"),
    ("run -n team-a --gpus two -- x", 'Error: --gpus "two": a number, or PRODUCT:NUMBER such as H200:2'),
    ("run -n team-a --gpus B200:1 -- x", "Error: no node has a GPU called B200; there are: "),
    ("run -n team-a --priority gold -- x", "Error: there is no priority gold; there are: dev, prod"),
    ("why -n team-a nosuch", "Error: there is no job nosuch in namespace team-a (gpuaas ps)"),
    ("logs -n team-a nosuch", "Error: there is no job nosuch in namespace team-a (gpuaas ps)"),
    ("cancel -n team-a nosuch", "Error: there is no job nosuch in namespace team-a (gpuaas ps)"),
    ("stop clusterqueue nosuch", "Error: there is no clusterqueue nosuch; there are: team-a, team-b"),
    ("get nosuch", 'Error: the cluster has no resource called "nosuch"'),
    ("get job nosuch", 'Error: jobs.batch "nosuch" not found'),
    ("delete job nosuch", 'Error: jobs.batch "nosuch" not found'),
    ("apply -f nosuch.yaml", "Error: there is no file nosuch.yaml"),
    ("ps --context nosuch", 'Error: context "nosuch" does not exist in '),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES, ids=[each[0] for each in MISTAKES])
def test_a_mistake_is_told_in_one_line(gpuaas: Gpuaas, line: str, words: str) -> None:
    assert gpuaas.refused(*line.split()).startswith(words)


def test_a_job_from_submit_to_its_end(gpuaas: Gpuaas) -> None:
    done = gpuaas.run("run", "-n", "team-a", "--name", "short", "--gpus", "L4:1", "--wait", "--", "sleep", "1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "job/short: has succeeded"
    assert eventually(lambda: gpuaas.state("team-a", "job/short") == "Succeeded", "it never succeeded")
    assert "job/short" not in gpuaas("ps", "-n", "team-a")
    assert gpuaas.json("why", "-n", "team-a", "short")["state"] == "Succeeded"


def test_following_prints_the_log_and_nothing_else(gpuaas: Gpuaas) -> None:
    done = gpuaas.run("run", "-n", "team-a", "--name", "loud", "--follow", "--seconds", "1", "--", "python", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "(simulated) python train.py"
    assert "job/" not in done.stdout, "what happens to it is told beside its output"


def test_what_cannot_ever_run_says_so_and_can_be_cancelled(gpuaas: Gpuaas) -> None:
    gpuaas("run", "-n", "team-b", "--name", "huge", "--gpus", "99", "--", "x")
    eventually(lambda: gpuaas.state("team-b", "job/huge") == "Pending", "no workload was made")
    answer = gpuaas.json("why", "-n", "team-b", "job/huge")
    assert answer["reason"] == "ExceedsMaxQuota"
    assert answer["sentence"].startswith("it asks for 99 nvidia.com/gpu; ClusterQueue team-b can never give more than ")
    (row,) = [row for row in gpuaas.json("ps", "-A") if row["job"] == "job/huge"]
    assert (row["namespace"], row["gpus"], row["position"]) == ("team-b", "99", 1)
    assert gpuaas.refused("why", "huge").endswith("there is one in team-b (-n team-b)")
    assert gpuaas.refused("why", "-n", "team-b", "hugo").endswith("did you mean huge?")
    assert gpuaas("cancel", "-n", "team-b", "huge") == "job/huge is cancelled\n"
    eventually(lambda: not gpuaas.state("team-b", "job/huge"), "its workload stayed")


def test_a_job_without_a_queue_is_explained(gpuaas: Gpuaas) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "stray", "namespace": "default"},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}},
        },
    }
    assert gpuaas("apply", "-f", "-", stdin=json.dumps(job)) == "job/stray applied\n"
    answer = gpuaas.json("why", "stray")
    assert (answer["state"], answer["reason"]) == ("Suspended", "Suspended")
    assert gpuaas("delete", "job", "stray") == "job/stray deleted\n"


def test_a_kind_the_cluster_does_not_know_is_named(gpuaas: Gpuaas) -> None:
    strange = json.dumps({"apiVersion": "nowhere.dev/v1", "kind": "Thing", "metadata": {"name": "x"}})
    assert gpuaas.refused("apply", "-f", "-", stdin=strange) == (
        "Error: thing/x: the cluster knows no Thing in nowhere.dev/v1"
    )


def test_a_notebook_runs_and_is_cancelled(gpuaas: Gpuaas) -> None:
    gpuaas("notebook", "-n", "team-b", "--name", "desk")
    eventually(lambda: gpuaas.state("team-b", "notebook/desk") == "Running", "it never ran")
    assert gpuaas("logs", "-n", "team-b", "desk") is not None
    assert gpuaas("cancel", "-n", "team-b", "notebook/desk") == "notebook/desk is cancelled\n"


def test_a_stopped_queue_holds_jobs_until_it_is_resumed(gpuaas: Gpuaas) -> None:
    gpuaas("stop", "clusterqueue", "team-b", "--keep-already-running")
    gpuaas("run", "-n", "team-b", "--name", "held", "--", "sleep", "1")
    eventually(lambda: gpuaas.state("team-b", "job/held") == "Pending", "no workload was made")
    answer = gpuaas.json("why", "-n", "team-b", "held")
    assert (answer["reason"], answer["waysOut"]) == ("QueueStopped", ["gpuaas resume clusterqueue team-b"])
    gpuaas("resume", "clusterqueue", "team-b")
    eventually(lambda: gpuaas.state("team-b", "job/held") == "Succeeded", "it never went on")


def test_the_state_of_things_as_tables_and_as_json(gpuaas: Gpuaas) -> None:
    assert gpuaas("queues").split()[:4] == ["CLUSTERQUEUE", "COHORT", "FLAVOR", "RESOURCE"]
    assert {row["clusterqueue"] for row in gpuaas.json("queues")} == {"team-a", "team-b"}
    assert sum(row["total"] for row in gpuaas.json("gpus")) == 48
    assert set(gpuaas.json("top")) == {"jobs", "gpus", "queues"}
    assert gpuaas("top").startswith("GPUs: ")
    assert "NAME" in gpuaas("get", "cq")
    assert gpuaas.json("audit") == []


def test_a_user_of_one_namespace_sees_that_one(gpuaas: Gpuaas, tmp_path: Path) -> None:
    mine = str(tmp_path / "ann.kubeconfig")
    gpuaas("user", "add", "ann", "--role", "view", "-n", "team-a", "--out", mine)
    gpuaas("run", "-n", "team-a", "--name", "seen", "--", "sleep", "600")
    eventually(lambda: gpuaas.state("team-a", "job/seen") in ("Admitted", "Running"), "it never ran")
    assert "job/seen" in gpuaas("ps", "--kubeconfig", mine, "-n", "team-a")
    assert "forbidden" in gpuaas.refused("cancel", "--kubeconfig", mine, "-n", "team-a", "seen")
    assert "forbidden" in gpuaas.refused("stop", "--kubeconfig", mine, "clusterqueue", "team-a")
    sums = json.loads(gpuaas("gpus", "--kubeconfig", mine, "-o", "json"))
    for own in ("perNode", "users", "queues"):
        assert not any(row.pop(own) for row in sums), "who may only look sees no nodes, no others and uses no queue"
    assert all(row["forYou"] == row["largestForYou"] == 0 for row in sums)
    names = ("product", "resource", "nodes", "total", "used", "free", "largest")
    assert [[row[name] for name in names] for row in sums] == [
        [row[name] for name in names] for row in gpuaas.json("gpus")
    ]
    assert gpuaas("cancel", "-n", "team-a", "seen") == "job/seen is cancelled\n"
