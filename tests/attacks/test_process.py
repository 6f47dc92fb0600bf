"""What a tenant's process leaves behind, is killed under, inherits, and is granted: rows 10, 11, 12 and 14.

One server with this machine as its node runs the pods; the disk that is full is a small tmpfs (as root) under the folder
of the pod's container.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.harness import bounded, restart
from tests.conformance.service import Service, eventually

_PODS = "/api/v1/namespaces/default/pods"
_LIMIT = 30.0
_SECRETS = {"OPENAI_API_KEY": "sk-1", "NVIDIA_API_KEY": "nv-1", "CUDA_VISIBLE_DEVICES": "0,1", "CONDA_TOKEN": "c-1"}

# Forks twice and starts a session of its own each time, as daemons do, and is deaf to what ends others.
_DAEMON = """import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.setsid()
os.environ.clear()
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(7771)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("process") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _SECRETS.items():
            patch.setenv(name, value)
        with bounded(home) as running:
            _ready(running)
            yield running


def _ready(service: Service) -> None:
    """The node takes pods a moment after the API answers."""
    there = "/apis/node.k8s.io/v1/runtimeclasses/gpuaas-process"
    eventually(lambda: service.ask("GET", there).status == 200, "no class for processes", _LIMIT)


def _pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    words = ["sh", "-c", script.replace("$$", "$$$$")]  # Kubernetes makes one $ of two
    container: dict[str, Any] = {"name": "main", "image": "none", "command": words}
    return {
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "runtimeClassName": "gpuaas-process", "containers": [container], **spec},
    }


def _submit(service: Service, name: str, script: str, **spec: Any) -> Path:
    """The folder of its container."""
    answer = service.ask("POST", _PODS, _pod(name, script, **spec))
    assert answer.status == 201, answer.body
    return service.home / "pods" / "local" / str(answer.json()["metadata"]["uid"]) / "main"


def _status(service: Service, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.ask("GET", f"{_PODS}/{name}").json().get("status") or {}
    return found


def _ended(service: Service, name: str) -> dict[str, Any]:
    eventually(lambda: _status(service, name).get("phase") in ("Succeeded", "Failed"), f"{name} never ended", _LIMIT)
    found: dict[str, Any] = _status(service, name)["containerStatuses"][0]["state"]["terminated"]
    return found


def _pid_in(path: Path) -> int:
    return int(eventually(lambda: path.exists() and path.read_text().strip(), f"nothing wrote {path}", _LIMIT))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _gone(pid: int, what: str) -> None:
    try:
        eventually(lambda: not _alive(pid), f"{what} (pid {pid}) still runs", 15.0)
    finally:
        if _alive(pid):
            os.kill(pid, signal.SIGKILL)


LEFT = {
    "in the background": "sleep 7771 & echo $! > {at}; exit 0",
    "deaf to SIGTERM": "sh -c 'trap \"\" TERM HUP; echo $$ > {at}; while :; do sleep 1; done' & sleep 0.3; exit 0",
    "in a session of its own": "setsid sh -c 'echo $$ > {at}; exec sleep 7771' & sleep 0.3; exit 0",
    "a daemon": "{python} {daemon} {at}; sleep 0.3; exit 0",
}


def _script(text: str, folder: Path, at: Path) -> str:
    daemon = folder / "daemon.py"
    daemon.write_text(_DAEMON)
    return text.format(at=at, daemon=daemon, python=sys.executable)


@pytest.mark.parametrize("how", LEFT)
def test_nothing_a_job_leaves_behind_outlives_it(service: Service, tmp_path: Path, how: str) -> None:
    at = tmp_path / "pid"
    name = f"left-{list(LEFT).index(how)}"
    _submit(service, name, _script(LEFT[how], tmp_path, at))
    left = _pid_in(at)
    assert _ended(service, name)["exitCode"] == 0
    try:
        assert not _alive(left), "its quota is free while a process of it still runs"
    finally:
        _gone(left, how)


@pytest.mark.parametrize("how", LEFT)
def test_nothing_outlives_a_job_that_is_cancelled(service: Service, tmp_path: Path, how: str) -> None:
    at = tmp_path / "pid"
    name = f"cancelled-{list(LEFT).index(how)}"
    text = _script(LEFT[how], tmp_path, at).replace("exit 0", "sleep 7772")
    _submit(service, name, text, terminationGracePeriodSeconds=1)
    left = _pid_in(at)
    assert service.ask("DELETE", f"{_PODS}/{name}").status in (200, 202)
    eventually(lambda: service.ask("GET", f"{_PODS}/{name}").status == 404, "it never went", _LIMIT)
    try:
        assert not _alive(left), "its quota is free while a process of it still runs"
    finally:
        _gone(left, how)


def test_nothing_outlives_a_pod_deleted_without_grace(service: Service, tmp_path: Path) -> None:
    at = tmp_path / "pid"
    folder = _submit(service, "forced", _script(LEFT["a daemon"], tmp_path, at).replace("exit 0", "sleep 7772"))
    left = _pid_in(at)
    service.ask("DELETE", f"{_PODS}/forced?gracePeriodSeconds=0")
    _gone(left, "a daemon")
    eventually(lambda: not folder.parent.exists(), "its folder stayed", _LIMIT)


def test_nothing_outlives_a_job_that_ends_while_the_server_is_away(tmp_path: Path) -> None:
    """`down` leaves running jobs as they are; one that then ends takes what it started with it."""
    at, gate = tmp_path / "pid", tmp_path / "gate"
    os.mkfifo(gate)
    with bounded(tmp_path / "home") as service:
        _ready(service)
        text = _script(LEFT["a daemon"], tmp_path, at).replace("exit 0", f"cat {gate}; exit 6")
        _submit(service, "away", text)
        left = _pid_in(at)
        service.stop()
        assert _alive(left), "jobs go on while the server is away"
        gate.write_text("go")
        _gone(left, "a daemon")
        service.start()
        assert _ended(service, "away")["exitCode"] == 6


@pytest.mark.parametrize("server", ["alive", "killed too"])
def test_a_killed_supervisor_starts_nothing_twice(tmp_path: Path, server: str) -> None:
    """A pod that restarts on failure: the second run begins only when nothing of the first is left."""
    runs = tmp_path / "runs"
    text = f"echo $$ >> {runs}; sh -c 'echo $$ >> {runs}.child; exec sleep 7773' & wait"
    with bounded(tmp_path / "home") as service:
        _ready(service)
        folder = _submit(service, "twice", text, restartPolicy="OnFailure")
        _pid_in(Path(f"{runs}.child"))
        first = [int(line) for path in (runs, Path(f"{runs}.child")) for line in path.read_text().split()]
        if server == "killed too":
            service.kill()
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        if server == "killed too":
            service.start()
        try:
            eventually(lambda: len(runs.read_text().split()) > 1 or not any(map(_alive, first)), "no end", _LIMIT)
            assert not any(map(_alive, first)), "the command was started a second time beside itself"
        finally:
            service.ask("DELETE", f"{_PODS}/twice?gracePeriodSeconds=0")
            for pid in first:
                _gone(pid, "the first run")


@pytest.mark.parametrize("wait", [0.0, 0.01, 0.03, 0.1, 0.3])
def test_kill_9_of_the_server_while_a_pod_begins_neither_loses_it_nor_runs_it_twice(
    tmp_path: Path, wait: float
) -> None:
    runs = tmp_path / "runs"
    with bounded(tmp_path / "home") as service:
        _ready(service)
        _submit(service, "begins", f"echo run >> {runs}; sleep 0.5; exit 4")
        time.sleep(wait)
        restart(service)
        assert _ended(service, "begins")["exitCode"] == 4
        assert runs.read_text() == "run\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root; a unit test injects the failure")
@pytest.mark.parametrize("server", ["alive", "killed"])
def test_a_full_disk_changes_no_exit_code(tmp_path: Path, server: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    try:
        with bounded(tmp_path / "home") as service:
            _ready(service)
            pods = service.home / "pods" / "local"
            pods.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", str(disk), str(pods)], check=True)
            try:
                _submit(service, "full", f"cat {gate}; cat /dev/zero > fill 2>/dev/null; exit 0")
                eventually(lambda: _status(service, "full").get("phase") == "Running", "never ran", _LIMIT)
                time.sleep(0.3)
                if server == "killed":
                    service.kill()
                gate.write_text("go")
                time.sleep(0.5)
                if server == "killed":
                    service.start()
                ended = _ended(service, "full")
                assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
            finally:
                service.stop()
                subprocess.run(["umount", "-l", str(pods)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_the_environment_of_the_server_stays_with_the_server(service: Service) -> None:
    folder = _submit(service, "inherits", "env")
    _ended(service, "inherits")
    names = {line.partition("=")[0] for line in (folder / "log").read_text().splitlines()}
    assert not names & {*_SECRETS, "GPUAAS_HOME", "GPUAAS_DETACHED"}
    assert not [name for name in names if name.startswith(("NVIDIA_", "CUDA_", "CONDA_"))]
    assert "PATH" in names


def test_a_memory_limit_that_nothing_enforces_is_answered_with_a_warning(service: Service) -> None:
    pod = _pod("limited", "true")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    answer = service.ask("POST", f"{_PODS}?dryRun=All", pod)
    assert answer.status == 201, answer.body
    assert "memory" in str(answer.headers.get("warning", ""))
    assert "not enforced" in str(answer.headers.get("warning", ""))


def _gpuaas(service: Service, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUAAS_HOME": str(service.home)}
    environment.pop("KUBECONFIG", None)
    return subprocess.run(
        [sys.executable, "-m", "gpuaas", *words],
        env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_who_may_run_processes_is_asked_about_and_listed(service: Service) -> None:
    refused = _gpuaas(service, "user", "add", "mallory", "--processes", "-n", "default")
    assert refused.returncode == 2, refused.stdout
    assert "--yes" in refused.stderr
    listed = json.loads(_gpuaas(service, "user", "list", "-o", "json").stdout)
    assert "mallory" not in {row["name"] for row in listed}

    given = _gpuaas(service, "user", "add", "alice", "--processes", "-n", "default", "--yes")
    assert given.returncode == 0, given.stderr
    for word in ("machine", "CA key", "token", "users"):
        assert word in given.stderr
    seen = _gpuaas(service, "status")
    assert "alice" in next(line for line in seen.stdout.splitlines() if "processes" in line)
    found = json.loads(_gpuaas(service, "status", "-o", "json").stdout)
    assert "alice" in {row["name"] for row in found["processUsers"]}
