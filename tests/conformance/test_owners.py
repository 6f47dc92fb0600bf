"""Two people in one namespace, with real kubectl: each owns what they create, and nothing they can send changes that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.hub import Hub
from tests.conformance.hub import job as hub_job
from tests.conformance.kubectls import NONE_HERE, Kubectl, found
from tests.conformance.service import Service, eventually

pytestmark = pytest.mark.kubectl

OWNER = "gpuaas.dev/owner"
GROUP = """\
apiVersion: user.openshift.io/v1
kind: Group
metadata: {name: viewers}
users: [%s]
"""


class People:
    """A server, and its users by name: their `gpuaas` and their kubectl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = Service(folder / "home", "--fleet", "demo")
        self.service.start()

    def add(self, name: str, *namespaces: str) -> None:
        for namespace in namespaces:
            self.gpuaas("", "user", "add", name, "-n", namespace, "--out", str(self.folder / name))

    def gpuaas(self, who: str, *words: str) -> str:
        environment = {**os.environ, "GPUAAS_HOME": str(self.service.home)}
        environment.pop("KUBECONFIG", None)
        cluster = ["--kubeconfig", str(self.folder / who)] if who else []
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas", *words, *cluster],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"gpuaas {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, who: str, *words: str) -> Any:
        return json.loads(self.gpuaas(who, *words, "-o", "json"))

    def kubectl(self, who: str) -> Kubectl:
        kubeconfig = self.folder / who if who else self.service.kubeconfig
        return Kubectl(found()[0], kubeconfig, self.folder, self.folder)

    def owners(self, namespace: str) -> set[str]:
        """Of all its jobs, workloads and pods."""
        items = json.loads(self.kubectl("")(f"get jobs,workloads,pods -n {namespace} -o json"))["items"]
        assert {each["kind"] for each in items} >= {"Job", "Workload"}
        return {(each["metadata"].get("annotations") or {}).get(OWNER, "") for each in items}

    def states(self) -> dict[str, tuple[str, str]]:
        """The user and the state of each job."""
        return {row["job"]: (row["owner"], row["state"]) for row in self.json("", "ps", "-A")}


def job(name: str, namespace: str, gpus: int, *, owner: str = "", below: str = "", parallelism: int = 1) -> str:
    """A manifest that names an `owner` of its own, and another `below`, for its pods."""
    notes, notes_below = ({"annotations": {OWNER: each}} if each else {} for each in (owner, below))
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "containers": [{"name": "main", "image": "i", "command": ["sleep", "1000"], "resources": resources}],
    }
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"kueue.x-k8s.io/queue-name": "default"},
                **notes,
            },
            "spec": {
                "parallelism": parallelism,
                "completions": parallelism,
                "template": {"metadata": notes_below, "spec": pod},
            },
        }
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    if not found():
        pytest.skip(NONE_HERE)
    made = People(tmp_path_factory.mktemp("owners"))
    try:
        made.add("ann", "team-a")
        made.add("bob", "team-b")
        made.add("cleo", "team-a")
        yield made
    finally:
        made.service.stop()


def running(people: People, job: str, owner: str) -> None:
    eventually(lambda: people.states().get(job) == (owner, "Running"), lambda: f"{people.states()}")


def test_owners_cannot_be_forged_and_outlive_eviction_requeue_and_restart(people: People) -> None:
    ann, cleo = people.kubectl("ann"), people.kubectl("cleo")
    forged = ann.write("forged.json", job("train", "team-a", 2, owner="bob", below="bob"))
    made = ann.run(f"create -f {forged}")
    assert made.returncode == 0
    assert '"bob" is not taken: the owner is "ann"' in made.stderr
    running(people, "job/train", "ann")
    assert people.owners("team-a") == {"ann"}

    for attempt in (
        f"annotate job train -n team-a --overwrite {OWNER}=cleo",
        f"annotate job train -n team-a {OWNER}-",
        """patch job train -n team-a --type json -p '[{"op":"remove","path":"/metadata/annotations"}]'""",
        f"apply -f {cleo.write('mine.json', job('train', 'team-a', 2, owner='cleo', below='bob'))}",
        "apply --server-side --force-conflicts -f mine.json",
    ):
        done = cleo.run(attempt)
        assert done.returncode == 0, f"{attempt}: {done.stderr}"
        assert people.owners("team-a") == {"ann"}, attempt

    people.gpuaas("", "stop", "workload", "job/train", "-n", "team-a")
    eventually(lambda: people.states()["job/train"][1] == "Inactive", "it was never evicted")
    assert people.states()["job/train"] == ("ann", "Inactive")
    people.gpuaas("", "resume", "workload", "job/train", "-n", "team-a")
    running(people, "job/train", "ann")

    people.service.kill()
    people.service.start()
    running(people, "job/train", "ann")
    assert people.owners("team-a") == {"ann"}
    people.gpuaas("ann", "cancel", "train", "-n", "team-a")


def test_everyone_sees_whose_it_is(people: People) -> None:
    for who, namespace in (("ann", "team-a"), ("cleo", "team-a"), ("bob", "team-b")):
        kubectl = people.kubectl(who)
        kubectl(f"create -f {kubectl.write(f'{who}.json', job(f'of-{who}', namespace, 1))}")
        running(people, f"job/of-{who}", who)
    rows = people.json("cleo", "ps", "-n", "team-a")
    assert {(row["job"], row["owner"]) for row in rows} == {("job/of-ann", "ann"), ("job/of-cleo", "cleo")}
    assert [row["owner"] for row in people.json("cleo", "ps", "-n", "team-a", "--mine")] == ["cleo"]
    assert [row["owner"] for row in people.json("cleo", "ps", "-n", "team-a", "--user", "ann")] == ["ann"]
    assert "USER" in people.gpuaas("cleo", "ps", "-n", "team-a").splitlines()[0].split()
    assert people.json("cleo", "why", "of-ann", "-n", "team-a")["owner"] == "ann"
    assert "  USER: ann" in people.gpuaas("cleo", "why", "of-ann", "-n", "team-a").splitlines()
    assert {row["owner"] for row in people.json("", "top", "--once", "--user", "bob")["jobs"]} == {"bob"}

    def users(who: str, *words: str) -> dict[str, int]:
        return {name: number for row in people.json(who, "gpus", *words) for name, number in row["users"].items()}

    assert users("") == {"ann": 1, "bob": 1, "cleo": 1}
    assert users("", "--user", "bob") == {"bob": 1}
    assert users("cleo") == {"cleo": 1}, "of others' holdings only sums are for all"
    cards = people.json("", "gpus", "--cards", "--user", "ann")
    assert [[each["owner"] for each in card["holders"]] for card in cards] == [["ann"]]
    for who, namespace in (("ann", "team-a"), ("cleo", "team-a"), ("bob", "team-b")):
        people.gpuaas(who, "cancel", f"of-{who}", "-n", namespace)
    eventually(lambda: not people.states(), lambda: f"{people.states()}")


def test_the_ledger_names_both_users(people: People) -> None:
    bob, ann = people.kubectl("bob"), people.kubectl("ann")
    bob(f"create -f {bob.write('wide.json', job('wide', 'team-b', 4, parallelism=4))}")  # borrows all that is team-a's
    running(people, "job/wide", "bob")
    ann(f"create -f {ann.write('due.json', job('due', 'team-a', 4, parallelism=2))}")
    running(people, "job/due", "ann")
    (row,) = people.json("", "audit")
    assert (row["victim"], row["victimOwner"]) == ("team-b/job/wide", "bob")
    assert (row["preemptor"], row["preemptorOwner"]) == ("team-a/job/due", "ann")
    assert people.json("", "audit", "--user", "cleo") == []
    assert people.states()["job/wide"][0] == "bob"
    people.gpuaas("ann", "cancel", "due", "-n", "team-a")
    running(people, "job/wide", "bob")
    assert people.owners("team-b") == {"bob"}
    people.gpuaas("bob", "cancel", "wide", "-n", "team-b")
    eventually(lambda: not people.states(), lambda: f"{people.states()}")


def test_a_tenant_sees_what_is_free_for_them_without_a_right_to_nodes_or_pods(people: People) -> None:
    bob, ann = people.kubectl("bob"), people.kubectl("ann")
    assert ann.run("auth can-i list nodes").stdout == "no\n"
    (row,) = [row for row in people.json("ann", "gpus") if row["product"] == "NVIDIA-L4"]
    assert (row["total"], row["free"], row["largest"], row["forYou"], row["largestForYou"]) == (16, 16, 4, 16, 4)
    bob(f"create -f {bob.write('some.json', job('some', 'team-b', 3, parallelism=4))}")
    running(people, "job/some", "bob")
    (row,) = [row for row in people.json("ann", "gpus") if row["product"] == "NVIDIA-L4"]
    assert (row["total"], row["free"], row["largest"], row["forYou"], row["largestForYou"]) == (16, 4, 1, 4, 1)
    assert [(each["namespace"], each["queue"]) for each in row["queues"]] == [("team-a", "default")]
    shown = people.gpuaas("ann", "gpus")
    assert "FOR YOU" in shown
    assert "bob" not in shown
    people.gpuaas("bob", "cancel", "some", "-n", "team-b")


def test_an_openshift_group_counts_at_once(people: People) -> None:
    admin, ann = people.kubectl(""), people.kubectl("ann")
    admin("create clusterrolebinding viewers --clusterrole view --group viewers")
    assert ann.run("auth can-i list pods -n team-b").stdout == "no\n"
    for users, answer in (("ann", "yes\n"), ("bob", "no\n"), ("bob, ann", "yes\n")):
        admin("apply -f -", stdin=GROUP % users)
        assert ann.run("auth can-i list pods -n team-b").stdout == answer, users
    assert "viewers" in ann("auth whoami")
    admin("delete group.user.openshift.io viewers")
    assert ann.run("auth can-i list pods -n team-b").stdout == "no\n"


def test_a_job_that_a_hub_dispatches_keeps_its_owner_on_the_worker(tmp_path: Path) -> None:
    if not found():
        pytest.skip(NONE_HERE)

    def owners(hub: Hub, cluster: str) -> dict[str, set[str]]:
        """By kind."""
        kinds: dict[str, set[str]] = {}
        for each in hub.get(cluster, "jobs,workloads,pods")["items"]:
            kinds.setdefault(each["kind"], set()).add((each["metadata"].get("annotations") or {}).get(OWNER, ""))
        return kinds

    everything = {"Job": {"ann"}, "Workload": {"ann"}, "Pod": {"ann"}}
    with Hub(tmp_path / "hub", ["worker1"]) as hub:
        hub.on("hub", "create --as ann --as-group system:masters -f -", hub_job("far", command="sleep 1000"))
        hub.until(lambda: owners(hub, "worker1") == everything, "the worker names others")
        hub.until(lambda: owners(hub, "hub") == everything, "the hub names others")
