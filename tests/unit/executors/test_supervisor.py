"""What the supervisor of a container promises: nothing outlives it, and its exit code survives disks, kills, restarts."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuaas.base.errors import Internal
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.executors import processes, supervisor
from gpuaas.executors.limits import Budget
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.process import ProcessKubelet
from gpuaas.executors.process_environment import inherited
from gpuaas.executors.processes import LOST, Command, NotRecorded, Process, end_leftovers
from gpuaas.testing.objects import pod
from gpuaas.testing.time import Stage, scenario, stage

NODE = NodeSpec("here", executor="process", address="127.0.0.1")
PATH = {"PATH": "/usr/bin:/bin"}


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def started(folder: Path, *words: str) -> Process:
    process = Process(folder / "c")
    process.start(Command(words, PATH, folder))
    return process


def alive(pid: int) -> bool:
    return pid in supervisor.parents()


def number(path: Path) -> int:
    return int(path.read_text().strip() or 0) if path.exists() else 0


async def written(path: Path) -> int:
    await until(lambda: number(path))
    return number(path)


def supervised(process: Process, server: int, folder: Path, *words: str, code: str = "") -> subprocess.Popen[bytes]:
    """A supervisor that is not started by `process`; `code` runs in place of the script."""
    process.reserve()
    lock = os.open(process.folder / "intent", os.O_RDWR)
    script = ["-c", code] if code else [supervisor.__file__]
    arguments = [str(process.folder), str(lock), str(server), *words]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", *script, *arguments],
            cwd=folder, env={"+PATH": "/usr/bin:/bin"}, stderr=subprocess.DEVNULL, pass_fds=(lock,),
        )  # fmt: skip
    finally:
        os.close(lock)


@contextmanager
def bystander() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "100"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


LEFT = {
    "a child": ("sleep 100 & echo $! > child", 0),
    "deaf to SIGTERM": ("sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.1; done' & cat gate; exit 3", 3),
    "in a session of its own": ("setsid sh -c 'echo $$ > child; exec sleep 100' & cat gate; exit 4", 4),
    "without environment": ("env -i /usr/bin/setsid /bin/sh -c 'echo $$ > child; exec sleep 100' & cat gate", 0),
    "of a killed parent": ("sh -c 'setsid sleep 100 & echo $! > child; kill -9 $$'; cat gate; exit 5", 5),
    "stopped": ("sh -c 'echo $$ > child; kill -STOP $$; sleep 100' & cat gate; exit 6", 6),
}


@pytest.mark.parametrize(("text", "code"), LEFT.values(), ids=LEFT)
@scenario
async def test_a_container_has_ended_when_nothing_of_it_is_left(tmp_path: Path, text: str, code: int) -> None:
    os.mkfifo(tmp_path / "gate")
    process = started(tmp_path, "sh", "-c", text)
    child = await written(tmp_path / "child")
    if "gate" in text:
        (tmp_path / "gate").write_text("go")
    await until(lambda: process.exit_code() is not None)
    assert not alive(child)
    assert (process.exit_code(), process.is_lost()) == (code, False)


@scenario
async def test_a_process_that_forks_and_ends_all_the_time_is_caught(tmp_path: Path) -> None:
    text = "import os\nfor _ in range(100000):\n    if os.fork(): os._exit(0)\nopen('arrived', 'w').close()"
    process = started(tmp_path, sys.executable, "-I", "-S", "-c", text)
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 0
    assert not (tmp_path / "arrived").exists()


@scenario
async def test_a_stopped_supervisor_still_ends_what_it_has(tmp_path: Path) -> None:
    process = started(tmp_path, "sh", "-c", "echo $$ > child; sleep 100")
    child = await written(tmp_path / "child")
    os.kill(process.pid(), signal.SIGSTOP)
    process.signal(signal.SIGKILL)
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 137
    assert not process.is_lost(), "it was killed, and that is known"
    assert not alive(child)


@scenario
async def test_what_a_killed_supervisor_leaves_is_found_by_its_mark_and_by_its_log(tmp_path: Path) -> None:
    text = "setsid sleep 100 & echo $! > a; env -i /usr/bin/setsid /bin/sleep 100 & echo $! > b; wait"
    process = started(tmp_path, "sh", "-c", text)
    left = [await written(tmp_path / name) for name in ("a", "b")]
    with bystander() as other:
        os.kill(process.pid(), signal.SIGKILL)
        await until(lambda: process.exit_code() is not None)
        assert (process.exit_code(), process.is_lost()) == (LOST, True)
        assert await asyncio.to_thread(end_leftovers, process.folder)
        assert not any(map(alive, left))
        assert alive(other)


@scenario
async def test_the_exit_code_of_a_child_needs_no_disk(tmp_path: Path) -> None:
    """A writer that fails: everything written to this device fails as on a full disk."""
    os.mkfifo(tmp_path / "gate")
    process = Process(tmp_path / "c")
    process.reserve()
    (process.folder / "exit.new").unlink()
    (process.folder / "exit.new").symlink_to("/dev/full")
    process.start(Command(["sh", "-c", "cat gate; exit 0"], PATH, tmp_path))
    (tmp_path / "gate").write_text("go")
    await until(lambda: process.exit_code() is not None)
    assert (process.exit_code(), process.is_lost()) == (0, False)
    assert Process(process.folder).is_lost(), "a later control plane does not invent a code"


@scenario
async def test_the_supervisor_of_a_server_that_has_gone_waits_until_it_can_write_the_exit_code(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    process = Process(tmp_path / "c")
    child = supervised(process, 1, tmp_path, "sh", "-c", "cat gate; exit 7")
    try:
        await until((process.folder / "pid").exists)
        most = resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        (tmp_path / "gate").write_text("go")
        await until(lambda: not supervisor.below([child.pid], supervisor.parents()))
        assert child.poll() is None
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, most)
        await until(lambda: child.poll() is not None)
        assert Process(process.folder).exit_code() == 7
    finally:
        child.kill()
        child.wait()


def test_nothing_is_started_that_cannot_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "_write_new", fails)
    process = Process(tmp_path / "c")
    with pytest.raises(NotRecorded, match="No space left on device"):
        process.start(Command(["touch", "ran"], PATH, tmp_path))
    assert not (tmp_path / "ran").exists()
    assert not process.was_started


def test_a_run_whose_supervisor_never_wrote_its_pid_has_not_begun(tmp_path: Path) -> None:
    process = Process(tmp_path / "c")
    process.reserve()
    assert not process.was_started
    (process.folder / "pid").write_text("1\n")
    assert process.was_started


@scenario
async def test_what_a_job_put_in_place_of_its_files_holds_nobody_up(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    text = f"cd {folder}; for name in log exit pid intent; do rm -f $name; mkfifo $name; done; exit 8"
    process = started(tmp_path, "sh", "-c", text)
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 8
    again = Process(folder)
    assert again.pid() == 0
    assert again.exit_code() is not None
    again.start(Command(["true"], PATH, tmp_path))
    await until(lambda: again.exit_code() == 0)


CANNOT_RUN = {"missing": ("no-such-command", 127, "not found"), "not executable": ("/etc/passwd", 126, "denied")}


@pytest.mark.parametrize(("word", "code", "said"), CANNOT_RUN.values(), ids=CANNOT_RUN)
@scenario
async def test_what_cannot_be_run_ends_as_in_a_shell(tmp_path: Path, word: str, code: int, said: str) -> None:
    process = started(tmp_path, word)
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == code
    assert said in process.log.read_text()


@scenario
async def test_a_script_without_an_interpreter_is_a_shells(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("exit $1\n")
    (tmp_path / "script").chmod(0o700)
    process = started(tmp_path, "./script", "9")
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 9


@scenario
async def test_variables_of_a_job_do_not_reach_the_interpreter_of_its_supervisor(tmp_path: Path) -> None:
    process = Process(tmp_path / "c")
    environment = {**PATH, "PYTHONHOME": "/nowhere", "LD_PRELOAD": "/nowhere.so", "MINE": "a=b\n", "GPUAAS_RUN": "x"}
    process.start(Command(["env", "-0"], environment, tmp_path))
    await until(lambda: process.exit_code() is not None)
    said = [line for line in process.log.read_text().split("\0") if line.partition("=")[0] in environment]
    found = dict(line.split("=", 1) for line in said)
    assert (found["PYTHONHOME"], found["MINE"]) == ("/nowhere", "a=b\n")
    assert found["GPUAAS_RUN"] == str(process.folder), "the mark cannot be changed"


@scenario
async def test_without_prctl_the_process_group_ends_with_the_command(tmp_path: Path) -> None:
    """As on macOS."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(supervisor.__file__).parent)!r})\n"
        "import supervisor, os; supervisor._prctl = lambda *_: False; supervisor.GRACE = 0.1\n"
        "os._exit(supervisor.main(sys.argv[1:]))"
    )
    text = "sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.1; done' & sleep 0.2; exit 2"
    child = supervised(Process(tmp_path / "c"), os.getpid(), tmp_path, "sh", "-c", text, code=code)
    left = await written(tmp_path / "child")
    await until(lambda: child.poll() is not None)
    assert child.returncode == 2
    assert not alive(left)


def test_a_job_inherits_what_an_allow_list_names() -> None:
    kept = {"PATH": "/bin", "HOME": "/home/x", "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "LD_LIBRARY_PATH": "/lib"}
    secret = {"OPENAI_API_KEY": "1", "NVIDIA_API_KEY": "2", "CUDA_VISIBLE_DEVICES": "0", "CONDA_TOKEN": "3"}
    more = {"LC_SMUGGLED": "4", "SSH_AUTH_SOCK": "5", "HTTPS_PROXY": "6", "KUBECONFIG": "7", "GPUAAS_HOME": "8"}
    assert inherited({**kept, **secret, **more}) == kept


# The kubelet


@asynccontextmanager
async def machine(folder: Path) -> AsyncIterator[Stage]:
    async with stage(lambda deps: ProcessKubelet(deps, NODE, folder)) as on:
        yield on


def made(name: str, *containers: str, policy: str = "Never") -> Any:
    found = pod(name, node="here")
    named = [{"name": f"c{n}", "image": "i", "command": ["sh", "-c", text]} for n, text in enumerate(containers)]
    spec = {**found["spec"], "containers": named, "runtimeClassName": "gpuaas-process", "restartPolicy": policy}
    return {**found, "spec": spec}


def status(on: Stage) -> Any:
    return on.cluster.read(PODS, "p", "default")["status"]


@scenario
async def test_a_pod_waits_while_there_is_no_room_to_record_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, full = processes._write_new, [True]

    def write(path: Path, data: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(processes, "_write_new", write)
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, made("p", "exit 0"))
        await until(lambda: status(on).get("containerStatuses"))
        waiting = status(on)["containerStatuses"][0]["state"]["waiting"]
        assert (status(on)["phase"], waiting["reason"]) == ("Pending", "CreateContainerError")
        assert "No space left on device" in waiting["message"]
        full.clear()
        await on.advance(11)
        await until(lambda: status(on)["phase"] == "Succeeded")


@scenario
async def test_a_pod_that_ran_before_its_folder_was_lost_is_not_run_again(tmp_path: Path) -> None:
    running = {"name": "c0", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True}
    ran = {**made("p", "touch ran"), "status": {"phase": "Running", "containerStatuses": [running]}}
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, ran)
        await until(lambda: status(on)["phase"] == "Failed")
        ended = status(on)["containerStatuses"][0]["state"]["terminated"]
        assert ended["reason"] == "ContainerStatusUnknown"
        assert not any("ran" in names for _, _, names in os.walk(tmp_path))


@scenario
async def test_containers_that_had_not_begun_when_the_server_was_killed_begin_when_it_is_back(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    gate = tmp_path / "gate"
    two = made("p", f"echo first >> {tmp_path}/ran; cat {gate}", f"echo second >> {tmp_path}/ran")
    async with machine(tmp_path / "pods") as on:
        uid = on.cluster.put(PODS, {**two, "spec": {**two["spec"], "nodeName": None}})["metadata"]["uid"]
        first = Process(tmp_path / "pods" / uid / "c0")
        first.start(Command(two["spec"]["containers"][0]["command"], PATH, tmp_path))
        await until(lambda: (tmp_path / "ran").exists())
        on.cluster.put(PODS, two)
        await until(lambda: "second" in (tmp_path / "ran").read_text())
        gate.write_text("go")
        await until(lambda: status(on)["phase"] == "Succeeded")
        await until(lambda: not first.is_alive())
    assert sorted((tmp_path / "ran").read_text().split()) == ["first", "second"]


@scenario
async def test_pods_of_another_cluster_are_left_alone(tmp_path: Path) -> None:
    theirs = Process(tmp_path / "theirs" / "main")
    theirs.start(Command(["sleep", "100"], PATH, tmp_path))
    await until((theirs.folder / "pid").exists)
    try:
        async with stage(lambda deps: ProcessKubelet(deps, NODE, tmp_path, frozenset({"theirs"}))) as on:
            await on.settle()
            assert theirs.pid()
            assert theirs.folder.exists()
    finally:
        theirs.signal(signal.SIGKILL)
        await until(lambda: not theirs.is_alive())


@scenario
async def test_a_pod_deleted_while_its_references_are_read_is_not_started(tmp_path: Path) -> None:
    needs = made("p", f"echo ran >> {tmp_path}/ran; sleep 100")
    needs["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Slow(ProcessKubelet):
        async def _command(self, pod: Object, container: Mapping[str, Any], budget: Budget) -> Command:
            asked.set()
            await go_on.wait()
            return Command(container["command"], PATH, tmp_path)

    async with stage(lambda deps: Slow(deps, NODE, tmp_path / "pods")) as on:
        on.cluster.put(PODS, needs)
        await asked.wait()
        await on.deps.client.delete(PODS, "p", "default", grace=0)
        await on.settle()
        go_on.set()
        await on.settle()
        assert not list((tmp_path / "pods").glob("*/*/intent"))
        assert not (tmp_path / "ran").exists()


@scenario
async def test_a_write_that_fails_after_the_start_starts_nothing_again(tmp_path: Path) -> None:
    failing = [True]

    class Failing(ProcessKubelet):
        async def _write(self, pod: Object, status: Object) -> bool:
            if failing and status["phase"] == "Running" and "running" in str(status["containerStatuses"]):
                failing.pop()
                raise Internal("the disk is full")
            return await super()._write(pod, status)

    os.mkfifo(tmp_path / "gate")
    ran = tmp_path / "ran"
    async with stage(lambda deps: Failing(deps, NODE, tmp_path / "pods")) as on:
        on.cluster.put(PODS, made("p", f"echo ran >> {ran}; cat {tmp_path}/gate; exit 1", policy="OnFailure"))
        await until(lambda: not failing and ran.exists())
        await on.advance(5)
        assert ran.read_text() == "ran\n"
        failing.append(True)  # and at the second start
        (tmp_path / "gate").write_text("go")
        await until(lambda: "BackOff" in str(status(on)))
        await on.advance(15)
        await until(lambda: not failing and ran.read_text() != "ran\n")
        await on.advance(30)
        assert ran.read_text() == "ran\nran\n"
        assert status(on)["containerStatuses"][0]["state"].keys() == {"running"}
        (tmp_path / "gate").write_text("go")
        await until(lambda: "BackOff" in str(status(on)))


@scenario
async def test_nothing_runs_on_of_a_pod_that_another_says_is_over(tmp_path: Path) -> None:
    async with machine(tmp_path) as on:
        on.cluster.put(PODS, made("p", "sleep 100"))
        await until(lambda: status(on).get("phase") == "Running")
        uid = on.cluster.read(PODS, "p", "default")["metadata"]["uid"]
        process = Process(tmp_path / uid / "c0")
        assert process.is_alive()
        on.cluster.set_status(PODS, "p", "default", phase="Failed", reason="NodeLost")
        await until(lambda: not process.is_alive())
        assert status(on)["reason"] == "NodeLost"
