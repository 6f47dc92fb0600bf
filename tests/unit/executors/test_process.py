"""What running pods as processes promises. The processes are real and end by themselves within moments."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.logs import LogOptions
from gpuaas.client.resources import NODES, PODS
from gpuaas.executors.heartbeat import NodeKeeper
from gpuaas.executors.logs import Logs
from gpuaas.executors.machine import node_name, this_machine
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.process import ProcessKubelet
from gpuaas.executors.process_logs import ProcessLines
from gpuaas.executors.processes import Command, Process
from gpuaas.testing.objects import pod
from gpuaas.testing.time import Stage, scenario, stage

NODE = NodeSpec("here", executor="process", address="127.0.0.1")
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def shell(text: str, folder: Path) -> Command:
    return Command(["sh", "-c", text], ENVIRONMENT, folder)


async def until(condition: Callable[[], Any]) -> None:
    """Waits for something real; what never comes fails the test by its time limit."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


@scenario
async def test_a_process_leaves_its_output_and_its_exit_code(tmp_path: Path) -> None:
    process = Process(tmp_path / "c")
    process.start(shell("echo out; echo err >&2; exit 7", tmp_path))
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 7
    assert process.log.read_text() == "out\nerr\n"


@scenario
async def test_another_control_plane_finds_it_running_and_learns_how_it_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    first = Process(tmp_path / "c")
    first.start(shell("cat gate; exit 5", tmp_path))
    await until((tmp_path / "c" / "pid").exists)
    second = Process(tmp_path / "c")
    assert second.was_started
    assert second.pid() == first.pid()
    assert second.exit_code() is None
    (tmp_path / "gate").write_text("go")
    await until(lambda: first.exit_code() is not None)
    assert second.exit_code() == 5


@scenario
async def test_what_the_command_started_ends_with_it(tmp_path: Path) -> None:
    process = Process(tmp_path / "c")
    process.start(shell("sleep 100 & echo $! > child; wait", tmp_path))
    await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    child = int((tmp_path / "child").read_text())
    process.signal(signal.SIGTERM)
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 143
    await until(lambda: not alive(child))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("left", ["", "1"], ids=["no pid", "the pid of somebody else"])
def test_a_process_nobody_knows_anything_about_counts_as_killed(tmp_path: Path, left: str) -> None:
    (tmp_path / "intent").touch()
    if left:
        (tmp_path / "pid").write_text(left)
    process = Process(tmp_path)
    assert process.pid() == 0
    assert process.exit_code() == 137


def process_pod(name: str, *command: str, policy: str = "Never", **spec: Any) -> Any:
    made = pod(name, node="here")
    made["spec"]["containers"][0]["command"] = list(command)
    return {**made, "spec": {**made["spec"], "runtimeClassName": "gpuaas-process", "restartPolicy": policy, **spec}}


@asynccontextmanager
async def machine(folder: Path) -> AsyncIterator[Stage]:
    async with stage(
        lambda deps: NodeKeeper(deps, [NODE], "process"), lambda deps: ProcessKubelet(deps, NODE, folder)
    ) as on:
        yield on


def phase(on: Stage, name: str = "p") -> str:
    return str(on.cluster.read(PODS, name, "default")["status"].get("phase", ""))


@scenario
async def test_a_pod_runs_in_a_folder_of_its_own_and_succeeds(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, process_pod("p", "sh", "-c", "pwd; echo $(HOME)"))
        await until(lambda: phase(on) == "Succeeded")
        found = on.cluster.read(PODS, "p", "default")
        lines = ProcessLines(tmp_path, on.deps.informers.of(PODS), on.clock)
        logs = Logs({"process": lines}, on.deps.informers.of(NODES))
        said = [piece.decode() async for piece in logs.read(found, LogOptions())]
        assert "".join(said).splitlines()[0] == f"{tmp_path / found['metadata']['uid'] / 'work'}"
        on.cluster.remove(PODS, "p", "default")
        await until(lambda: not (tmp_path / found["metadata"]["uid"]).exists())


@scenario
async def test_a_failing_command_fails_the_pod_with_its_code(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, process_pod("p", "sh", "-c", "exit 3"))
        await until(lambda: phase(on) == "Failed")
        ended = on.cluster.read(PODS, "p", "default")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (3, "Error")


@scenario
async def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, process_pod("p", "no-such-command"))
        await until(lambda: phase(on) == "Failed")
        found = on.cluster.read(PODS, "p", "default")
        assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 127
        assert "not found" in (tmp_path / found["metadata"]["uid"] / "main" / "log").read_text()


REFUSED = {
    "no runtime class": ({"runtimeClassName": None}, "runs only pods of runtime class gpuaas-process"),
    "another one": ({"runtimeClassName": "kata"}, 'spec.runtimeClassName of this pod names "kata"'),
    "no command": ({"containers": [{"name": "main", "image": "i"}]}, "container main has no command"),
    "init containers": ({"initContainers": [{"name": "i"}]}, "spec.initContainers"),
    "no such folder": (
        {"containers": [{"name": "main", "command": ["true"], "workingDir": "/no/such"}]},
        "workingDir /no/such is no folder on this machine",
    ),
}


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
@scenario
async def test_others_are_refused_with_words(tmp_path: Path, spec: dict[str, Any], words: str) -> None:
    async with stage(lambda deps: ProcessKubelet(deps, NODE, tmp_path)) as on:
        on.cluster.put(PODS, process_pod("p", "true", **spec))
        await on.settle()
        found = on.cluster.read(PODS, "p", "default")["status"]
        assert (found["phase"], found["reason"]) == ("Failed", "Refused")
        assert words in found["message"]
        assert not (tmp_path / on.cluster.read(PODS, "p", "default")["metadata"]["uid"] / "main").exists()


@scenario
async def test_who_does_not_listen_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        stubborn = process_pod("p", "sh", "-c", "trap '' TERM; echo up > up; while :; do sleep 0.05; done")
        on.cluster.put(PODS, {**stubborn, "spec": {**stubborn["spec"], "terminationGracePeriodSeconds": 3}})
        uid = on.cluster.read(PODS, "p", "default")["metadata"]["uid"]
        await until(lambda: (tmp_path / uid / "work" / "up").exists())
        process = Process(tmp_path / uid / "main")
        on.cluster.remove(PODS, "p", "default")
        await on.advance(2)
        assert process.pid()
        await on.advance(2)
        await until(lambda: not process.pid())
        await on.advance(1)
        await until(lambda: not on.cluster.exists(PODS, "p", "default"))


@scenario
async def test_a_pod_does_not_outlive_its_deadline(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, process_pod("p", "sleep", "1000", policy="Always", activeDeadlineSeconds=30))
        await on.settle()
        await until(lambda: phase(on) == "Running")
        await on.advance(20)
        assert phase(on) == "Running"
        await on.advance(11)
        for _ in range(400):
            if phase(on) == "Failed":
                break
            await asyncio.sleep(0.005)
            await on.advance(0.1)
        status = on.cluster.read(PODS, "p", "default")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


@scenario
async def test_what_runs_for_a_pod_that_is_gone_is_ended_when_the_control_plane_comes_back(tmp_path: Path) -> None:
    orphan = Process(tmp_path / "uid-of-a-deleted-pod" / "main")
    orphan.start(shell("sleep 100", tmp_path))
    await until((orphan.folder / "pid").exists)
    async with machine(tmp_path):
        await until(lambda: not orphan.pid())
        await until(lambda: not orphan.folder.parent.exists())


def test_this_machine_is_a_node_that_keeps_other_pods_away() -> None:
    found = this_machine()
    assert int(found.cpu) >= 1
    assert found.memory.endswith("Ki")
    assert [taint["key"] for taint in found.taints] == ["gpuaas.dev/process-only"]


@pytest.mark.parametrize(("host", "name"), [("My_Box.local", "my-box.local"), ("-", "this-machine")])
def test_the_machine_has_a_name_that_a_node_can_have(host: str, name: str) -> None:
    assert node_name(host) == name
