"""The people's commands without a cluster: what they send, what they print, and what they say to mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gpuaas.assembly import people, runtime_classes
from gpuaas.assembly.home import Home
from gpuaas.cli import trusted
from gpuaas.cli.audit import about, how_far, remembered
from gpuaas.cli.main import cli
from gpuaas.cli.objects import in_order, read_manifests, wished
from gpuaas.cli.ps import changes, ps_table
from gpuaas.cli.queries import named
from gpuaas.cli.queues import QUEUE_COLUMNS
from gpuaas.cli.run import folder_for, job_for, parse_gpus, product_named
from gpuaas.cli.show import Columns, Table, show
from gpuaas.cli.top import screen
from gpuaas.cli.wait import failed_with, outcome
from gpuaas.views.jobs import gpus_of
from gpuaas.views.places import Places

PRODUCTS = {"NVIDIA-L4", "NVIDIA-L40S", "NVIDIA-H200", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [("L4", "NVIDIA-L4"), ("h200", "NVIDIA-H200"), ("L40", "NVIDIA-L40S"), ("NVIDIA-L4", "NVIDIA-L4")],
)
def test_a_gpu_goes_by_its_short_name(asked: str, found: str) -> None:
    assert product_named(asked, PRODUCTS) == found


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("A100", "which A100? there are: NVIDIA-A100-SXM4-40GB, NVIDIA-A100-SXM4-80GB"),
        ("B200", "no node has a GPU called B200; there are: NVIDIA-A100-SXM4-40GB"),
    ],
)
def test_a_gpu_that_is_none_or_many_is_asked_back(asked: str, words: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        product_named(asked, PRODUCTS)
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("asked", ["", "x", "-1", "1.5", ":2", "L4:", "L4:two"])
def test_a_wrong_number_of_gpus_is_told_the_form(asked: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        parse_gpus(asked)
    assert caught.value.message == f'--gpus "{asked}": a number, or PRODUCT:NUMBER such as H200:2'


def test_a_command_arrives_as_it_was_written() -> None:
    """Of two dollars Kubernetes makes one, so that a reference can be written; a shell's own number has two."""
    job = job_for(("sh", "-c", "kill $$; echo $HOME $(INDEX)"), queue="q", local=True)
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][2] == "kill $$$$; echo $HOME $(INDEX)"


def test_run_makes_a_job_for_the_queue() -> None:
    job = job_for(("python", "train.py"), queue="q", local=True, gpus="NVIDIA-L4:2", priority="prod", array="1-10")
    pod = job["spec"]["template"]["spec"]
    assert job["metadata"] == {
        "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "prod"},
        "generateName": "train-",
    }
    assert pod["runtimeClassName"] == "gpuaas-process"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    assert (job["spec"]["completions"], job["spec"]["completionMode"]) == (10, "Indexed")


@pytest.mark.parametrize(
    ("conditions", "status", "suspend", "said"),
    [
        ([], {}, True, ("waits in its queue", None)),
        ([], {}, False, ("starts", None)),
        ([], {"ready": 1}, False, ("runs", None)),
        ([("Complete", "", "")], {"succeeded": 1}, False, ("has succeeded", 0)),
        ([("Failed", "BackoffLimitExceeded", "x")], {}, False, ("has failed (BackoffLimitExceeded: x)", 1)),
    ],
)
def test_what_a_job_does(
    conditions: list[tuple[str, str, str]], status: dict[str, Any], suspend: bool, said: tuple[str, int | None]
) -> None:
    found = [{"type": kind, "status": "True", "reason": why, "message": words} for kind, why, words in conditions]
    assert outcome({"spec": {"suspend": suspend}, "status": {**status, "conditions": found}}) == said


@pytest.mark.parametrize(("code", "shown"), [(0, 0), (3, 3), (255, 255), (-9, 137)])
def test_the_exit_code_is_one_a_shell_knows(code: int, shown: int) -> None:
    assert failed_with({"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": code}}}]}}) == shown


@pytest.mark.parametrize("room", [0, 80, 40, 30])
def test_tables_fit_the_room(room: int) -> None:
    rows = [["a-long-name-of-a-job", "queue", "Running"], ["b", "another-queue", "Pending"]]
    lines = Table(("JOB", "QUEUE", "STATE"), rows).lines(room)
    assert all(len(line) <= room for line in lines) if room else "a-long-name-of-a-job" in lines[1]
    assert lines[0].split() == ["JOB", "QUEUE", "STATE"]


def test_jobs_of_all_namespaces_fit_a_phone() -> None:
    row = {
        "namespace": "team-a",
        "job": "job/train",
        "owner": "ann",
        "queue": "default",
        "state": "Running",
        "age": "2m55s",
    }
    row |= {"position": None, "gpus": "8"}
    lines = ps_table([row], namespaces=True).lines(40)
    assert all(len(line) <= 40 for line in lines)

    assert lines[0].split() == ["NAMESPACE", "JOB", "STATE", "POS", "GPUS"]


UID = "aae4ec65-3849-4ac3-b8fb-3726f2cc30ae"
QUOTA = {
    "clusterqueue": "team-alpha-research",
    "cohort": "everybody-together",
    "flavor": "nvidia-h200-spot",
    "resource": "nvidia.com/gpu",
    "nominal": "1600",
    "used": "2048",
    "borrowed": "448",
    "waiting": 12,
    "state": "Active",
    "borrowingLimit": "10000000000",
    "lendingLimit": None,
    "admitted": 7,
    "cards": "2048",
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("room", [40, 60, 80, 100, 200])
def test_headings_and_numbers_are_shown_whole_or_not_at_all(room: int, wide: bool) -> None:
    table = QUEUE_COLUMNS.table([QUOTA], wide=wide)
    heading, line = table.lines(room)
    assert max(len(heading), len(line)) <= room
    assert "…" not in heading
    gone = table.left_out(room)
    numbers = {"NOMINAL": "1600", "USED": "2048", "BORROWED": "448", "WAITING": "12", "BORROWING LIMIT": "10000000000"}
    for name, number in numbers.items():
        assert (name in gone or name not in table.headings) or (name in heading and f" {number}" in line)
    assert {"CLUSTERQUEUE", "NOMINAL", "USED"}.isdisjoint(gone) or room == 40


def test_what_was_asked_for_on_top_goes_first_then_what_can_be_done_without() -> None:
    columns = Columns(("name", "count", "place"), ("first", "second"), spare=("count",))
    table = columns.table([{"name": "n", "count": 1, "place": "p", "first": "f", "second": "s"}], wide=True)
    gone = [table.left_out(room) for room in (40, 28, 20, 13)]
    assert gone == [[], ["SECOND"], ["FIRST", "SECOND"], ["COUNT", "FIRST", "SECOND"]]


@pytest.mark.parametrize(
    "whole",
    [
        "12345678901234567890",
        "128Gi",
        "12h34m",
        "2026-11-18T15:30:37Z",
        "10.128.250.113",
        "12/1000000",
        "7 (12m ago)",
        UID,
    ],
)
def test_half_a_number_is_never_shown(whole: str) -> None:
    table = Table(("NAME", "N"), [["a-rather-long-name-of-something", whole]])
    for room in range(1, 50):
        assert (whole in table.lines(room)[1]) is not (table.left_out(room) == ["N"])
    assert not table.left_out(len("a-ra…ing") + 2 + len(whole))


def test_many_in_one_cell_are_counted() -> None:
    assert Table(("NODES",), [[["a", "b"]], [["a", "b", "c", "d", "e"]]]).lines(0) == ["NODES", "a,b", "a,b,c +2"]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("json", '[\n  {\n    "a": "1"\n  }\n]\n'),
        ("yaml", '- a: "1"\n'),
        ("text", "in words\n"),
        ("wide", "in words\n"),
    ],
)
def test_one_value_is_shown_in_every_form(output: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(output, [{"a": "1"}], lambda: click.echo("in words"))
    assert capsys.readouterr().out == said


def test_everything_that_goes_as_json_goes_as_yaml() -> None:
    context = click.Context(cli)
    lone = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        commands = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in commands:
            forms = {form for option in each.params if option.name == "output" for form in option.type.choices}
            lone += [each.name] * (("json" in forms) != ("yaml" in forms))
    assert not lone


def row_of(workload: str, state: str, age: str = "1s") -> dict[str, Any]:
    return {"namespace": "ns", "workload": workload, "job": f"job/{workload}", "state": state, "age": age}


def test_who_watches_is_told_of_what_is_new_what_changed_and_what_has_gone() -> None:
    before = [row_of("same", "Running"), row_of("starts", "Pending"), row_of("goes", "Running")]
    now = [row_of("same", "Running", "2s"), row_of("starts", "Running", "2s"), row_of("new", "Pending")]
    told = [(row["workload"], row["state"]) for row in changes(before, now)]
    assert told == [("starts", "Running"), ("new", "Pending"), ("goes", "Deleted")]


def test_the_nodes_of_a_job_are_those_of_its_pods_however_many_owners_stand_in_between() -> None:
    def owned(name: str, by: str, **more: Any) -> dict[str, Any]:
        return {"metadata": {"namespace": "ns", "uid": name, "ownerReferences": [{"uid": by}]}, **more}

    pods = [
        owned("p1", "set", spec={"nodeName": "n1"}),
        owned("p2", "set", spec={"nodeName": "n2"}),
        owned("p3", "set"),
    ]
    alone = {"metadata": {"namespace": "ns", "uid": "p4", "annotations": {"kueue.x-k8s.io/workload": "group"}}}
    places = Places()
    for pod in [*pods, {**alone, "spec": {"nodeName": "n3"}}]:
        places.pod_changed("ns", pod["metadata"]["uid"], pod)
    places.owner_changed("StatefulSet", "ns", "set", owned("set", "notebook"))
    assert places.nodes_of(["notebook"]) == ["n1", "n2"]
    assert places.nodes_of(["ns/group"]) == ["n3"]


def test_what_somebody_wrote_into_an_object_does_nothing_to_the_terminal() -> None:
    lines = Table(("MESSAGE",), [["red \x1b[31m\x07"], ["one\ntwo"]]).lines(0)
    assert lines == ["MESSAGE", "red ^[[31m^G", "one..."]


def test_top_says_nothing_of_gpus_that_one_may_not_see() -> None:
    assert screen({"jobs": [], "gpus": [], "queues": []}, room=80, height=0) == ["jobs: 0 admitted, 0 waiting"]


def test_top_leaves_out_what_the_screen_cannot_show() -> None:
    job = {"namespace": "ns", "queue": "q", "state": "Running", "position": None, "gpus": "1", "age": "1s"}
    gpus = [
        {
            "product": "L4",
            "resource": "nvidia.com/gpu",
            "nodes": 1,
            "total": 4,
            "used": 3,
            "free": 1,
            "cards": "4",
            "cardsUsed": "3",
        }
    ]
    seen = {"jobs": [{**job, "owner": "ann", "job": f"job/{index}"} for index in range(50)], "gpus": gpus, "queues": []}
    lines = screen(seen, room=80, height=24)
    assert lines[0] == "GPUs: 3 of 4 in use · jobs: 50 admitted, 0 waiting"
    assert len(lines) == 23
    assert lines[-1].startswith("… ")


def workload(name: str, kind: str, owner: str, at: str = "1") -> dict[str, Any]:
    refs = [{"kind": kind, "name": owner, "controller": True}]
    return {"metadata": {"name": name, "creationTimestamp": at, "ownerReferences": refs}}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("train", "job-train-2"),
        ("job/train", "job-train-2"),
        ("jobs/train", "job-train-2"),
        ("raycluster/dev", "raycluster-dev-1"),
        ("leaderworkersets/serve", "leaderworkerset-serve-0-1"),
        ("workload/job-train-1", "job-train-1"),
        ("job-train-1", "job-train-1"),
        ("pod/train", None),
        ("nosuch", None),
    ],
)
def test_a_job_is_found_by_what_people_call_it(asked: str, found: str | None) -> None:
    there = [
        workload("job-train-1", "Job", "train"),
        workload("job-train-2", "Job", "train", "2"),
        workload("raycluster-dev-1", "RayCluster", "dev"),
        workload("leaderworkerset-serve-0-1", "LeaderWorkerSet", "serve"),
    ]
    seen = named(there, asked)
    assert (seen["metadata"]["name"] if seen else None) == found


WHY = "Preempted to accommodate a workload (UID: uid-high, JobUID: j) due to prioritization in the ClusterQueue"


def seen(name: str, *conditions: dict[str, str]) -> dict[str, Any]:
    made = workload(f"job-{name}-1", "Job", name)
    made["metadata"] |= {"uid": f"uid-{name}", "namespace": "ns"}
    container = {"resources": {"requests": {"nvidia.com/gpu": "2"}}}
    made["spec"] = {"podSets": [{"count": 3, "template": {"spec": {"containers": [container]}}}]}
    return {**made, "status": {"conditions": list(conditions)}}


def preempted_condition(at: str, status: str = "True") -> dict[str, str]:
    return {
        "type": "Preempted",
        "status": status,
        "reason": "InClusterQueue",
        "message": WHY,
        "lastTransitionTime": at,
    }


def event(name: str, reason: str, at: str, message: str = "") -> dict[str, Any]:
    about = {"kind": "Workload", "namespace": "ns", "name": f"job-{name}-1", "uid": f"uid-{name}"}
    return {"involvedObject": about, "reason": reason, "message": message, "eventTime": at}


def made(job: str, workload: str, at: str) -> dict[str, Any]:
    about = {"kind": "Job", "namespace": "ns", "name": job, "uid": f"uid-job-{job}"}
    message = f"Created Workload: {workload}"
    return {"involvedObject": about, "reason": "CreatedWorkload", "message": message, "eventTime": at}


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"requests": {"nvidia.com/gpu": "2"}}, 6),
        ({"limits": {"nvidia.com/gpu": "2"}}, 6),
        ({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}, 3),
        ({"requests": {"cpu": "2"}}, 0),
    ],
)
def test_the_gpus_of_a_job_are_those_its_pods_will_ask_for(resources: dict[str, Any], gpus: int) -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    assert gpus_of({"podSets": [{"name": "main", "count": 3, "template": template}]}) == gpus


def test_without_a_ledger_the_conditions_tell_who_made_room_for_whom() -> None:
    said, back = preempted_condition("2026-01-01T10:00:00Z"), preempted_condition("2026-01-01T10:00:00Z", "False")
    (row,) = remembered([seen("low", said), seen("high"), seen("back", back)], [])
    assert (row["victim"], row["preemptor"], row["rule"]) == ("ns/job/low", "ns/job/high", "InClusterQueue")
    assert row["gpuMinutesLost"] is None, "nobody knows"


def test_without_a_ledger_events_tell_more_and_nothing_is_told_twice() -> None:
    events = [
        event("low", "Admitted", "2026-01-01T09:58:00.000000Z"),
        event("low", "Preempted", "2026-01-01T10:00:00.123456Z", WHY),
        event("gone", "Preempted", "2026-01-01T09:00:00Z", WHY.replace("uid-high", "uid-left")),
        event("left", "PreemptedWorkload", "2026-01-01T09:00:00Z"),
        made("left", "ns/job-left-1", "2026-01-01T08:59:00Z"),
        event("low", "QuotaReserved", "2026-01-01T08:00:00Z"),
    ]
    first, second = remembered([seen("low", preempted_condition("2026-01-01T10:00:01Z")), seen("high")], events)
    assert (first["victim"], first["ranSeconds"], first["gpuMinutesLost"]) == ("ns/workload/job-gone-1", None, None)
    assert first["preemptor"] == "ns/job/left", "its job has gone too, and is remembered by the event of its making"
    assert (second["victim"], second["preemptor"]) == ("ns/job/low", "ns/job/high")
    assert (second["ranSeconds"], second["gpuMinutesLost"]) == (120, 12.0), "six GPUs for two minutes"
    assert "since 2026-01-01T08:00:00Z" in how_far(events)


def test_manifests_are_read_from_folders_lists_and_many_documents(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n")
    (tmp_path / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "C"}]}'
    )
    (tmp_path / "kustomization.yaml").write_text("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert [each["kind"] for each in read_manifests(str(tmp_path))] == ["A", "B", "C"]


def test_namespaces_are_applied_before_what_lies_in_them() -> None:
    given = ["LocalQueue", "Namespace", "Job", "CustomResourceDefinition", "Namespace"]
    assert [each["kind"] for each in in_order({"kind": kind} for kind in given)] == [
        "Namespace",
        "CustomResourceDefinition",
        "Namespace",
        "LocalQueue",
        "Job",
    ]


def test_what_was_read_from_a_server_can_be_applied_to_another() -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "status": {"x": 1}}
    known = {"uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": "t", "managedFields": [{}]}
    meant = {"name": "settings", "labels": {"team": "a"}, "finalizers": ["f"]}
    assert wished({**made, "metadata": {**meant, **known}}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "b"},
        "metadata": meant,
    }


def test_the_ledger_of_a_namespace_is_what_it_did_and_what_was_done_to_it() -> None:
    rows = [
        {"victim": "team-a/job/x", "preemptor": "team-b/job/y"},
        {"victim": "team-b/job/x", "preemptor": "team-ab/job/y"},
    ]
    assert about("team-a", rows) == rows[:1]
    assert about("team-b", rows) == rows
    assert about("", rows) == rows


@pytest.mark.parametrize(("typed", "meant"), [("pss", "Did you mean 'ps'?"), ("canel", "Did you mean 'cancel'?")])
def test_a_command_that_is_mistyped_is_named(typed: str, meant: str) -> None:
    done = CliRunner().invoke(cli, [typed])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"Error: No such command '{typed}'. {meant}")


NOWHERE = [
    ["ps"],
    ["why", "x"],
    ["logs", "x"],
    ["cancel", "x"],
    ["queues"],
    ["gpus"],
    ["top"],
    ["audit"],
    ["run", "--", "x"],
    ["notebook"],
    ["stop", "clusterqueue", "x"],
    ["resume", "workload", "x"],
    ["get", "pods"],
    ["delete", "pod", "x"],
]


@pytest.mark.parametrize("line", NOWHERE, ids=[" ".join(each) for each in NOWHERE])
def test_without_a_cluster_every_command_says_how_to_get_one(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUAAS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = CliRunner().invoke(cli, line)
    assert done.exit_code == 1
    (words,) = done.output.splitlines()
    assert words.endswith("start a cluster with gpuaas up -d, or name one with --kubeconfig")


# Where a process starts.


def test_a_process_starts_where_the_person_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    assert folder_for("", here=True) == str(tmp_path)
    assert folder_for("below", here=True) == str(tmp_path / "below")


def test_a_folder_of_another_machine_is_taken_as_it_is_said() -> None:
    assert folder_for("", here=False) == ""
    assert folder_for("/data", here=False) == "/data"


def test_a_folder_that_is_not_there_is_refused_before_anything_is_submitted() -> None:
    with pytest.raises(click.ClickException) as caught:
        folder_for("/there/is/none", here=True)
    assert caught.value.message == "--workdir /there/is/none: there is no such folder"


def test_the_folder_stands_in_the_job() -> None:
    job = job_for(("true",), queue="q", local=True, workdir="/data")
    assert job["spec"]["template"]["spec"]["containers"][0]["workingDir"] == "/data"


def test_the_role_for_processes_is_the_one_the_server_asks_for() -> None:
    assert people.PROCESS_ROLE == runtime_classes.ROLE


@pytest.mark.parametrize(
    ("terminal", "yes", "answer", "outcome"),
    [
        (True, False, "y\n", 0),
        (True, False, "n\n", 1),
        (True, False, "\n", 1),
        (False, False, "y\n", 2),
        (False, True, "", 0),
    ],
)
def test_the_right_to_run_processes_is_given_to_who_agrees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, terminal: bool, yes: bool, answer: str, outcome: int
) -> None:
    monkeypatch.setattr(trusted, "has_terminal", lambda: terminal)
    asking = click.Command("ask", callback=lambda: trusted.ask_about_processes("eve", Home(tmp_path), yes=yes))
    done = CliRunner().invoke(asking, input=answer)
    assert done.exit_code == outcome, done.output
    assert f"the home {tmp_path}: the CA key" in done.stderr
    assert ("--yes" in done.stderr) is (outcome == 2)
