"""Whatever people type, the answer names what was found and what would be right; nobody sees a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.conformance.service import eventually

from gpuaas.cli.main import cli


class Shell:
    def __init__(self, home: Path) -> None:
        self.environment: dict[str, str | None] = {"GPUAAS_HOME": str(home), "KUBECONFIG": None}

    def run(self, *words: str, stdin: str = "") -> Result:
        return CliRunner().invoke(cli, words, env=self.environment, input=stdin)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("people") / "home"
    environment = {**os.environ, "GPUAAS_HOME": str(home)}
    gpuaas = [sys.executable, "-m", "gpuaas"]
    subprocess.run([*gpuaas, "up", "-d", "--fleet", "demo"], env=environment, check=True, capture_output=True)
    yield Shell(home)
    subprocess.run([*gpuaas, "down"], env=environment, check=True, capture_output=True)


IN = ("-n", "team-a")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a product": (("run", *IN, "--gpus", "H100:1", "--", "e"), "no node has a GPU called H100; there are: NVIDIA-A100"),
    "a namespace": (
        ("run", "-n", "nope", "--", "e"),
        "namespace nope has no queue; there are queues in: team-a, team-b",
    ),
    "a queue": (("run", *IN, "--queue", "x", "--", "e"), "there is no queue x in team-a; there are: default"),
    "a priority": (("run", *IN, "--priority", "x", "--", "e"), "there is no priority x; there are: dev, prod"),
    "a context": (("ps", "--context", "x"), 'context "x" does not exist in '),
    "a job": (("why", *IN, "nope"), "there is no job nope in namespace team-a"),
    "no name": (("why", *IN, "job/"), "there is no job job/ in namespace team-a"),
    "a slash": (("cancel", *IN, "/"), "there is no job / in namespace team-a"),
    "a resource": (("get", "clusterqueu"), 'no resource called "clusterqueu"; did you mean clusterqueue?'),
    "a selector": (("get", "pods", "-l", "a in (("), "unable to parse requirement"),
    "a clusterqueue": (("stop", "clusterqueue", "x"), "there is no clusterqueue x; there are: team-a, team-b"),
    "a localqueue": (("resume", "localqueue", "x", *IN), "no localqueue x in namespace team-a; there are: default"),
    "a workload": (("stop", "wl", "x", *IN), "there is no job x in namespace team-a"),
    "a role": (("user", "add", "eve", "--role", "x"), 'there is no cluster role "x"; there are: admin, '),
    "a role that is nearly one": (
        ("user", "add", "eve", "--role", "edt"),
        'no cluster role "edt"; did you mean edit? ',
    ),
    "an option behind the job": (
        ("exec", "nope", *IN, "--", "ls", "-l"),
        "there is no job nope in namespace team-a (gpuaas ps)",
    ),
    "who owns it": (("user", "rm", "admin"), "admin is who owns "),
    "a backup's place": (("backup", "/no/such/file"), "there is no folder /no/such"),
    "a backup": (("restore", "-y", __file__), "is not a backup of ours: no archive; nothing was changed"),
}
MISWRITTEN: dict[str, tuple[tuple[str, ...], str]] = {
    "gpus": (("run", "--gpus", "x", "--", "e"), '--gpus "x": a number, or PRODUCT:NUMBER such as H200:2'),
    "none of a product": (("run", "--gpus", "L4:0", "--", "e"), '--gpus "L4:0": at least one of a product'),
    "an option before the command": (
        ("run", "--gpu", "2", "--", "e"),
        "No such option '--gpu'. Did you mean '--gpus'?",
    ),
    "cpu": (("run", *IN, "--cpu", "lots", "--", "e"), '--cpu "lots": an amount such as 2 or 500m'),
    "memory": (("run", *IN, "--memory=-5", "--", "e"), '--memory "-5": an amount such as 8Gi'),
    "an option in place of a command": (
        ("exec", "nope", *IN),
        '"-n": options stand before the job, or before a "--": gpuaas exec JOB -- COMMAND',
    ),
    "an array": (("run", *IN, "--array", "5-1", "--", "e"), '--array "5-1": first-last, such as 1-100'),
    "a huge array": (("run", *IN, "--array", "1-9999999", "--", "e"), "9999999 are too many; Kubernetes takes 100000"),
    "an empty command": (("run", *IN, "--", ""), 'the command is "": a program was expected'),
    "a namespace that is a path": (("ps", "-n", "a/b"), '--namespace "a/b": lower case letters, digits and "-"'),
    "a notebook's gpus": (("notebook", *IN, "--gpus", "x"), '--gpus "x": a number, or PRODUCT:NUMBER'),
    "a notebook's cpu": (("notebook", *IN, "--cpu", "x"), '--cpu "x": an amount such as 2 or 500m'),
    "an expiry": (("user", "add", "eve", "--expires", "soon"), '"soon" is no length of time; 12h, 30d and 8w are'),
    "an expiry nobody lives to see": (("user", "add", "eve", "--expires", "9999999w"), "is too long: 36500d at most"),
    "a folder": (("user", "add", "eve", "--out", "/no/such/file"), "--out /no/such/file: there is no folder /no/such"),
    "a name of the machine": (("up", "--san", "a b"), "--san: 'a b' is neither an IP address nor a DNS name"),
    "all and one": (("delete", "job", "x", "--all", *IN), "--all, or x: not both"),
    "a name without its kind": (
        ("delete", "job/x", "y", *IN),
        "job/x y: a kind and names, or KIND/NAME for each",
    ),
    "names of two kinds": (
        ("get", "job,pod", "x", *IN),
        "job,pod x: names of one kind, or KIND/NAME for each of several",
    ),
    "a name in all namespaces": (("get", "job", "x", "-A"), "-A, or x: not both; what has a name is in one namespace"),
    "a name and a selector": (("get", "job/x", "-l", "a=b"), "-l a=b, or x: not both"),
}


@pytest.mark.parametrize(("words", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(shell: Shell, words: tuple[str, ...], says: str) -> None:
    result = shell.run(*words)
    assert result.exit_code == 1, result
    assert says in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(("words", "says"), MISWRITTEN.values(), ids=MISWRITTEN)
def test_what_nobody_could_ever_mean_is_named_too_with_the_exit_code_of_misuse(
    shell: Shell, words: tuple[str, ...], says: str
) -> None:
    result = shell.run(*words)
    assert result.exit_code == 2, result
    assert says in result.stderr


MANIFESTS = {
    "a word": ("passwd", 'an object with apiVersion and kind was expected, not "passwd"'),
    "nothing": ("---\n", "there is no object in what was given"),
    "no version": ("kind: Pod", "apiVersion is missing"),
    "a list for a kind": ("{apiVersion: v1, kind: [a]}", 'kind is ["a"]'),
    "a list for metadata": ("{apiVersion: v1, kind: Pod, metadata: [3]}", "metadata must be a map, not [3]"),
    "a number for items": ("{apiVersion: v1, kind: List, items: 3}", "items must be a list, not 3"),
    "no YAML": ("a: b: c", "mapping values are not allowed in this context"),
    "an unknown kind": ("{apiVersion: v1, kind: Pot, metadata: {name: x}}", "the cluster knows no Pot in v1"),
    "half a name": (
        "{apiVersion: v1, kind: Pod, metadata: {generateName: x}}",
        "Pod has only a generateName: apply needs",
    ),
    "no name": ("{apiVersion: v1, kind: Pod}", "Pod has no name: apply needs metadata.name"),
}


@pytest.mark.parametrize(("text", "says"), MANIFESTS.values(), ids=MANIFESTS)
def test_what_is_wrong_in_a_manifest_is_named(shell: Shell, text: str, says: str) -> None:
    result = shell.run("apply", "-f", "-", stdin=text)
    assert result.exit_code == 1, result
    assert says in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_a_file_that_is_no_text_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    result = shell.run("apply", "-f", str(tmp_path / "x.yaml"))
    assert result.exit_code == 1
    assert f"{tmp_path / 'x.yaml'}: 'utf-8' codec can't decode" in result.stderr


def test_options_for_one_that_runs_are_not_silently_ignored(shell: Shell) -> None:
    result = shell.run("up", "-d", "--fleet", "none", "--port", "1")
    assert result.exit_code == 0
    assert "gpuaas already runs here" in result.stdout
    assert "--port, --fleet changes nothing while it runs" in result.stderr
    assert "warning" not in shell.run("up", "-d").stderr


def test_a_notebook_may_ask_for_a_product(shell: Shell) -> None:
    result = shell.run("notebook", *IN, "--name", "desk", "--gpus", "L4:2", "-o", "json")
    assert result.exit_code == 0, result
    assert '"nvidia.com/gpu.product": "NVIDIA-L4"' in result.stdout
    assert '"nvidia.com/gpu": "2"' in result.stdout


def test_who_may_edit_may_ask_for_notebooks_and_name_the_gpus_and_who_sees_the_fleet_sees_all_queues(
    shell: Shell, tmp_path: Path
) -> None:
    plain, seeing = str(tmp_path / "plain"), str(tmp_path / "seeing")
    assert shell.run("user", "add", "plain", *IN, "--out", plain).exit_code == 0
    assert shell.run("user", "add", "seeing", *IN, "--fleet", "--out", seeing).exit_code == 0
    assert shell.run("notebook", "--kubeconfig", plain, "--name", "hers", "--gpus", "0").exit_code == 0
    for who in (plain, seeing):
        found = shell.run("run", "--kubeconfig", who, "--image", "i", "--gpus", "L4:1", "-o", "json", "--", "x")
        assert '"nvidia.com/gpu.product": "NVIDIA-L4"' in found.stdout
    assert shell.run("queues", "--kubeconfig", plain).exit_code == 1
    assert "team-b" in shell.run("queues", "--kubeconfig", seeing).stdout
    for user in (plain, seeing):  # the sums are for all who may use a queue
        (row, *_) = yaml.safe_load(shell.run("gpus", "--kubeconfig", user, "-o", "yaml").stdout)
        assert row["free"] == row["total"] - row["used"]
        assert [each["used"] for each in row["perNode"]] == [None] * (row["nodes"] if user == seeing else 0)
    assert "gpuaas-" not in shell.run("user", "list").stdout
    for name in ("plain", "seeing"):
        assert shell.run("user", "rm", name).exit_code == 0
    assert "gpuaas-user-" not in shell.run("get", "clusterrolebindings").stdout
    assert "gpuaas-user-" not in shell.run("get", "rolebindings", *IN).stdout


def test_who_owns_it_stays_in(shell: Shell) -> None:
    assert shell.run("user", "rm", "admin").exit_code == 1
    assert "cluster-admin" in shell.run("user", "list").stdout


def test_a_backup_replaces_files_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = shell.run("backup", str(tmp_path / "pipe"))
    assert result.exit_code == 1
    assert f"{tmp_path / 'pipe'} cannot be written: it is no file" in result.stderr
    assert (tmp_path / "pipe").is_fifo()


def test_who_interrupts_gets_what_shells_say_of_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuaas.cli.up.Home.default", interrupted)
    assert shell.run("status").exit_code == 130


def test_objects_go_by_the_names_that_ps_shows(shell: Shell) -> None:
    for name in ("one", "two"):
        assert shell.run("run", *IN, "--name", name, "--seconds", "600", "--", "x").exit_code == 0
    assert "one" in shell.run("get", "job/one", *IN).stdout
    assert shell.run("delete", "job/one", "job/two", *IN).stdout == "job/one deleted\njob/two deleted\n"
    assert shell.run("delete", "job", "--all", "-n", "team-b").stdout == "nothing found\n"


def test_a_workload_is_stopped_and_resumed_by_the_name_of_its_job(shell: Shell) -> None:
    assert shell.run("run", *IN, "--name", "held", "--seconds", "600", "--", "x").exit_code == 0
    eventually(lambda: shell.run("stop", "workload", "held", *IN).exit_code == 0, "no workload was made")
    assert shell.run("resume", "kwl", "job/held", *IN).stdout.startswith("workload/job-held-")
    assert shell.run("delete", "job", "held", *IN).exit_code == 0


def test_several_are_cancelled_at_once_or_none(shell: Shell) -> None:
    for name in ("one", "two"):
        assert shell.run("run", *IN, "--name", name, "--seconds", "600", "--", "x").exit_code == 0
    assert shell.run("cancel", "one", "nope", *IN).exit_code == 1
    assert shell.run("cancel", "one", "job/two", "one", *IN).stdout == "job/one is cancelled\njob/two is cancelled\n"


def test_objects_are_shown_as_kubectl_shows_them(shell: Shell) -> None:
    assert shell.run("get", "cq", "-o", "name").stdout == (
        "clusterqueue.kueue.x-k8s.io/team-a\nclusterqueue.kueue.x-k8s.io/team-b\n"
    )
    assert shell.run("get", "namespace", "team-a", "-o", "name").stdout == "namespace/team-a\n"
    for line in (("get", "cq"), ("get", "cq", "team-a"), ("run", *IN, "--seconds", "0", "--", "x")):
        assert "managedFields" not in shell.run(*line, "-o", "json").stdout


def test_several_kinds_and_several_names_are_shown_at_once(shell: Shell) -> None:
    assert shell.run("get", "cq,lq", "-n", "team-a", "-o", "name").stdout.splitlines() == [
        "clusterqueue.kueue.x-k8s.io/team-a",
        "clusterqueue.kueue.x-k8s.io/team-b",
        "localqueue.kueue.x-k8s.io/default",
    ]
    queues, rest = shell.run("get", "cq,lq", *IN).stdout.split("\n\n")
    assert queues.splitlines()[1].startswith("clusterqueue.kueue.x-k8s.io/team-a ")
    assert rest.splitlines()[1].startswith("localqueue.kueue.x-k8s.io/default ")
    both = shell.run("get", "cq", "team-b", "team-a").stdout.splitlines()
    assert [line.split()[0] for line in both] == ["NAME", "team-b", "team-a"]
    mixed = json.loads(shell.run("get", "cq/team-a", "lq/default", *IN, "-o", "json").stdout)
    assert [each["kind"] for each in mixed["items"]] == ["ClusterQueue", "LocalQueue"]
    assert json.loads(shell.run("get", "cq/team-a", "-o", "json").stdout)["kind"] == "ClusterQueue"


def test_what_is_not_there_does_not_hide_what_is(shell: Shell) -> None:
    done = shell.run("get", "cq", "nosuch", "team-a", "-o", "name")
    assert (done.exit_code, done.stdout) == (1, "clusterqueue.kueue.x-k8s.io/team-a\n")
    assert done.stderr == 'Error: clusterqueues.kueue.x-k8s.io "nosuch" not found\n'
    maps = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: team-a}}"
    assert shell.run("apply", "-f", "-", stdin=maps).exit_code == 0
    done = shell.run("delete", "configmap", "nosuch", "kept", *IN)
    assert (done.exit_code, done.stdout) == (1, "configmap/kept deleted\n")
    assert done.stderr == 'Error: configmaps "nosuch" not found\n'
    nobody = shell.run("get", "cq", "nosuch", "-o", "json")
    assert (nobody.exit_code, nobody.stdout) == (1, "")


def test_a_dry_run_shows_the_manifest_that_would_be_submitted_and_submits_nothing(shell: Shell, tmp_path: Path) -> None:
    words = ("run", *IN, "--name", "later", "--gpus", "L4:1", "--seconds", "600")
    shown = shell.run(*words, "--dry-run", "--", "python", "train.py")
    assert (shown.exit_code, shell.run("get", "job", "later", *IN).exit_code) == (0, 1)
    job = yaml.safe_load(shown.stdout)
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == ("later", "team-a")
    assert {"status", "uid"}.isdisjoint({*job, *job["metadata"]})
    assert json.loads(shell.run(*words, "--dry-run", "-o", "json", "--", "python", "train.py").stdout) == job
    (tmp_path / "job.yaml").write_text(shown.stdout)
    assert shell.run("apply", "-f", str(tmp_path / "job.yaml")).stdout == "job/later applied\n"
    taken = shell.run(*words, "--dry-run", "--", "x")
    assert (taken.exit_code, 'jobs.batch "later" already exists' in taken.stderr) == (1, True)
    assert "take another --name, or: gpuaas cancel later -n team-a" in taken.stderr
    assert shell.run("cancel", "later", *IN).exit_code == 0
    waits = shell.run(*words, "--dry-run", "--wait", "--", "x")
    assert (waits.exit_code, "--dry-run submits nothing" in waits.stderr) == (2, True)


def test_more_is_shown_to_who_asks_for_it(shell: Shell) -> None:
    assert shell.run("run", *IN, "--name", "seen", "--gpus", "L4:2", "--seconds", "600", "--", "x").exit_code == 0

    def shown() -> dict[str, Any]:
        rows = yaml.safe_load(shell.run("ps", *IN, "-o", "yaml").stdout)
        return next((row for row in rows if row["job"] == "job/seen"), {})

    eventually(lambda: shown().get("state") == "Running", "it never ran")
    (node,) = shown()["nodes"]
    line = next(line for line in shell.run("ps", *IN, "-o", "wide").stdout.splitlines() if "job/seen" in line)
    assert line.split()[-5:] == ["team-a", "l4", node, "0", shown()["workload"]]
    assert "job/seen" in shell.run("ps", *IN, "-o", "name").stdout.splitlines()
    per_node = {line.split()[0]: line.split() for line in shell.run("gpus", "-o", "wide").stdout.splitlines()}
    assert per_node[node][1:7] == ["NVIDIA-L4", "nvidia.com/gpu", "4", "2", "2", "admin"]
    assert "BORROWING LIMIT" in shell.run("queues", "-o", "wide").stdout
    assert shell.run("cancel", "seen", *IN, "-o", "yaml").stdout == "cancelled: job/seen\n"


def test_who_watches_the_jobs_sees_them_change(shell: Shell) -> None:
    environment = {name: value for name, value in {**os.environ, **shell.environment}.items() if value is not None}
    watching = subprocess.Popen(
        [sys.executable, "-m", "gpuaas", "ps", "-w", "-n", "team-b"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    assert watching.stdout.readline().split() == ["JOB", "USER", "QUEUE", "STATE", "POS", "GPUS", "AGE"]
    assert shell.run("run", "-n", "team-b", "--name", "short", "--seconds", "600", "--", "x").exit_code == 0
    next(line for line in watching.stdout if line.split()[:4:3] == ["job/short", "Running"])
    assert shell.run("cancel", "short", "-n", "team-b").exit_code == 0
    next(line for line in watching.stdout if line.split()[:4:3] == ["job/short", "Deleted"])
    watching.send_signal(signal.SIGINT)
    watching.communicate()
    assert watching.returncode == 130
    assert "-o text or wide, not json" in shell.run("ps", "-w", "-o", "json").stderr


NEW = """
apiVersion: v1
kind: Namespace
metadata: {name: fresh}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: fresh}
spec: {clusterQueue: team-a}
"""


def test_a_dry_run_does_not_stumble_over_namespaces_that_it_does_not_make(shell: Shell) -> None:
    done = shell.run("apply", "--dry-run", "-f", "-", stdin=NEW)
    assert done.stdout.splitlines() == [
        "namespace/fresh applied (dry run)",
        "localqueue/lq applied when its namespace is there (dry run)",
    ]


def test_what_the_server_warns_of_is_shown_once(shell: Shell) -> None:
    old = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: l4}}"
    done = shell.run("apply", "--dry-run", "-f", "-", stdin=f"{old}\n---\n{old}")
    assert done.stderr == "Warning: This version is deprecated. Use v1beta2 instead.\n"


def test_what_is_refused_is_named_and_the_rest_is_applied(shell: Shell) -> None:
    unknown = "{apiVersion: nowhere.dev/v1, kind: Thing, metadata: {name: x}}"
    nameless = "{apiVersion: v1, kind: ConfigMap}"
    good = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: team-a}}"
    text = "\n---\n".join((NEW.partition("---")[2], unknown, nameless, good))
    done = shell.run("apply", "-f", "-", stdin=text)
    assert (done.exit_code, done.stdout) == (1, "configmap/kept applied\n")
    assert done.stderr.splitlines() == [
        'Error: localqueue/lq: namespaces "fresh" not found',
        "Error: thing/x: the cluster knows no Thing in nowhere.dev/v1",
        "Error: ConfigMap has no name: apply needs metadata.name (kubectl create makes one from generateName)",
        "Error: 3 of 4 refused, 1 applied",
    ]
    done = shell.run("apply", "-f", "-", "-o", "json", stdin=text)
    assert [each["metadata"]["name"] for each in json.loads(done.stdout)["items"]] == ["kept"]
    assert shell.run("delete", "configmap", "kept", *IN).exit_code == 0


def test_a_namespace_narrows_the_queues(shell: Shell) -> None:
    rows = json.loads(shell.run("queues", *IN, "-o", "json").stdout)
    assert {row["clusterqueue"] for row in rows} == {"team-a"}
    nobody = shell.run("queues", "-n", "default").stdout
    assert nobody == "there is no ClusterQueue with quota that namespace default has a queue for\n"


def test_who_waits_is_told_why_after_a_while(shell: Shell) -> None:
    words = ["run", *IN, "--name", "huge", "--cpu", "9999", "--wait", "--", "x"]
    environment = {name: value for name, value in {**os.environ, **shell.environment}.items() if value is not None}
    waiting = subprocess.Popen(
        [sys.executable, "-m", "gpuaas", *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert waiting.stderr is not None
    told = next(line for line in waiting.stderr if "can never give" in line)
    waiting.send_signal(signal.SIGINT)
    waiting.communicate()
    assert told.startswith("job/huge: waits in its queue: it asks for 9999 cpu; ClusterQueue team-a can never give")
    assert told.endswith("(gpuaas why huge -n team-a)\n")
    assert shell.run("cancel", "huge", *IN).exit_code == 0


LIMITED = """
apiVersion: batch/v1
kind: Job
metadata:
  name: limited
  namespace: team-a
  labels: {kueue.x-k8s.io/queue-name: default, kueue.x-k8s.io/max-exec-time-seconds: "2"}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: i, command: [sleep, "600"]}]}}}
"""


def test_what_a_limit_stopped_is_let_in_again(shell: Shell) -> None:
    def state(*words: str) -> bool:
        return json.loads(shell.run("why", "limited", *IN, "-o", "json").stdout)["state"] in words

    assert shell.run("apply", "-f", "-", stdin=LIMITED).exit_code == 0
    eventually(lambda: state("Inactive"), "its time never ran out")

    def let_in() -> bool:
        if state("Inactive"):  # maybe again: its time runs out between two looks of a busy machine
            assert shell.run("resume", "workload", "limited", *IN).exit_code == 0
        return state("Admitted", "Running")

    eventually(let_in, "Kueue itself would keep it out for ever")
    assert shell.run("delete", "job", "limited", *IN).exit_code == 0


PLAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: plain, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: i, command: [echo, hello]}]}}}
"""


def test_logs_and_why_know_jobs_that_no_queue_knows(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("apply", "-f", "-", stdin=PLAIN).exit_code == 0
    eventually(lambda: "hello" in shell.run("logs", "plain").stdout, "it wrote nothing")
    reader = str(tmp_path / "reader")
    assert shell.run("user", "add", "reader", "--role", "view", "-n", "default", "--out", reader).exit_code == 0
    answer = shell.run("why", "plain", "--kubeconfig", reader)
    assert answer.exit_code == 0, "who may not see priorities may ask all the same"
    assert shell.run("user", "rm", "reader").exit_code == 0


def test_a_kubeconfig_that_is_none_and_an_address_that_is_no_cluster_are_told(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    told = shell.run("ps", "--kubeconfig", str(tmp_path / "binary"))
    assert told.exit_code == 1
    assert f"{tmp_path / 'binary'} is not YAML" in told.stderr
    kept = Path(str(shell.environment["GPUAAS_HOME"])) / "kubeconfig"
    (tmp_path / "nowhere").write_text(kept.read_text().replace("/clusters/local", "/clusters/nowhere"))
    told = shell.run("ps", "--kubeconfig", str(tmp_path / "nowhere"))
    assert told.exit_code == 1
    assert "is Kueue installed there, and is the address in the kubeconfig a cluster's?" in told.stderr


def test_a_second_notebook_of_the_same_name_leads_to_the_first(shell: Shell) -> None:
    words = ("notebook", *IN, "--name", "mine", "--gpus", "L4:1", "--no-wait")
    first = shell.run(*words)
    assert first.exit_code == 0, first.stderr
    taken = shell.run(*words)
    assert taken.exit_code == 1
    assert "gpuaas notebook open mine -n team-a" in taken.stderr
    assert "--name" in taken.stderr
    assert shell.run("cancel", "notebook/mine", *IN).exit_code == 0


@pytest.mark.parametrize(("namespace", "warned"), [("team-a", False), ("team-new", True)])
def test_a_user_of_a_namespace_without_a_queue_is_made_with_a_warning(
    shell: Shell, namespace: str, warned: bool
) -> None:
    made = shell.run("user", "add", f"eve-{namespace}", "-n", namespace)
    assert made.exit_code == 0, made.stderr
    assert (f"namespace {namespace} has no queue: " in made.stderr) == warned
    assert shell.run("user", "rm", f"eve-{namespace}").exit_code == 0
