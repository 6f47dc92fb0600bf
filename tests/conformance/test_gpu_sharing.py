"""A shared card of this machine with real processes, on drivers of the tests' own: budgets, neighbours, foreign processes,
adoption, faults."""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.gpu_machine import (
    DRIVER,
    EVENTS,
    JOBS,
    MERGE,
    PODS,
    Machine,
    build,
    end_jobs,
    log,
    make,
    node,
    offered,
    phases,
    pods_of,
    share,
)
from tests.conformance.service import Service, eventually

from gpuaas.executors.mps import MpsDaemons

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or importlib.util.find_spec("pynvml") is None,
    reason="there is no C compiler or no nvidia-ml-py here",
)


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"


def gpuaas(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUAAS_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "gpuaas", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def devices(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(pod["metadata"]["annotations"]["gpuaas.dev/devices"])["main"]
    return found


def _runs_on(service: Service, job: str) -> str:
    """The card of its pod, while that runs."""
    pod = pods_of(service).get(job)
    return str(devices(pod)[0]["card"]) if pod is not None and pod["status"]["phase"] == "Running" else ""


def told(service: Service, reason: str) -> str:
    """What events with this reason say, of any object."""
    found = service.ask("GET", "/api/v1/events").json()["items"]
    return "; ".join(one["message"] for one in found if one["reason"] == reason)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def machine(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(built, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    end_jobs(tmp_path)


def test_two_jobs_share_a_card_by_budget_and_who_passes_it_by_is_stopped_alone(
    machine: Machine, tmp_path: Path
) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        share(service, 2)
        eventually(lambda: offered(service) == "2", "the card is not shared")
        # A share is half of what the driver leaves: 69.9 GiB. The client's card has 64 GiB, so a budget of 10 is asked for.
        budget = {"gpuaas.dev/gpu-memory": "10Gi"}
        make(service, JOBS, machine.job("good", "$CLIENT linked i 6 4 3 s30 1", annotations=budget))
        make(service, JOBS, machine.job("bad", "sleep 1; env -u LD_PRELOAD $CLIENT linked 6 6 s60", annotations=budget))
        make(service, JOBS, machine.job("third", "true"))
        eventually(lambda: phases(service).get("bad") == "Failed", "it was never stopped")
        bad = pods_of(service)["bad"]
        assert bad["status"]["reason"] == "GPUMemoryOverLimit"
        assert "used 12.50 GiB of 10.00 GiB GPU memory" in bad["status"]["message"]
        ended = bad["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("GPUMemoryOverLimit", 137)
        events = service.ask("GET", EVENTS).json()["items"]
        assert any(one["reason"] == "GPUMemoryOverLimit" and "12.50 GiB" in one["message"] for one in events)
        assert phases(service)["good"] == "Running"
        assert log(service, "good").split("\n")[:4] == ["free 9.5 of 10.0", "got 6", "refused 4", "got 3"]
        eventually(lambda: phases(service).get("third") == "Succeeded", "the third never ran")
        assert phases(service)["good"] == "Running"


def test_a_foreign_process_is_shown_and_its_card_takes_no_work(machine: Machine, tmp_path: Path) -> None:
    machine.cards(2)
    with machine.use("GPU-0", 3) as pid:
        eventually(lambda: (tmp_path / "machine.json.d").is_dir(), "it never ran")
        with Service(tmp_path / "home") as service:
            make(service, JOBS, machine.job("first", "echo $CUDA_VISIBLE_DEVICES; sleep 30"))
            eventually(lambda: phases(service).get("first") == "Running", "it never ran")
            eventually(lambda: log(service, "first"), "it says nothing")
            assert log(service, "first") == "GPU-1\n"
            eventually(lambda: offered(service) == "1", "the card that others use is offered")
            shown = node(service)["metadata"]["annotations"]["gpuaas.dev/cards"]
            assert f"pid {pid} (client of user {getpass.getuser()}), 3584 MiB" in shown
            assert f"pid {pid}" in gpuaas(tmp_path, "gpus", "--cards").stdout
            assert (
                f"card GPU-0 of {node(service)['metadata']['name']} is used by pid {pid}"
                in gpuaas(tmp_path, "gpus").stderr
            )
            make(service, JOBS, machine.job("second", "sleep 30", gpus=2))
            eventually(lambda: f"kill {pid}" in gpuaas(tmp_path, "why", "second").stdout, "why does not name it")
            doctor = gpuaas(tmp_path, "doctor").stdout
            assert f"pid {pid} (client of user {getpass.getuser()}), 3584 MiB, which is not a pod's" in doctor
        with Service(tmp_path / "home", "--ignore-foreign") as service:
            eventually(lambda: offered(service) == "2", "the card is not offered all the same")
            eventually(lambda: f"pid {pid}" in gpuaas(tmp_path, "gpus", "--cards").stdout, "it is not shown")


def test_a_card_is_free_again_when_the_foreign_process_ends(machine: Machine, tmp_path: Path) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        with machine.use("GPU-0", 3):
            eventually(lambda: offered(service) == "0", "the card that others use is offered")
        eventually(lambda: offered(service) == "1", "the card is not offered again")


def test_a_killed_server_adopts_jobs_with_their_devices_and_budgets(machine: Machine, tmp_path: Path) -> None:
    machine.cards(1)
    go = tmp_path / "go"
    asked = {"gpuaas.dev/gpu-memory": "10Gi"}
    late = f"$CLIENT linked 6 s600 & while [ ! -e {go} ]; do sleep 0.05; done; env -u LD_PRELOAD $CLIENT linked 6 s600"
    with Service(tmp_path / "home") as service:
        share(service, 2)
        eventually(lambda: offered(service) == "2", "the card is not shared")
        make(service, JOBS, machine.job("stays", "$CLIENT linked 6 s600", annotations=asked))
        make(service, JOBS, machine.job("grows", late, annotations=asked))
        eventually(lambda: set(phases(service).values()) == {"Running"} and len(phases(service)) == 2, "not both run")
        before = {name: (pod["metadata"]["uid"], devices(pod)) for name, pod in pods_of(service).items()}
        service.kill()
        service.start()
        assert {name: (pod["metadata"]["uid"], devices(pod)) for name, pod in pods_of(service).items()} == before
        go.touch()
        eventually(lambda: phases(service).get("grows") == "Failed", "the guard does not watch again")
        # Both of its processes count: 6 + 6 GiB, and a context each.
        assert "used 13.00 GiB of 10.00 GiB" in pods_of(service)["grows"]["status"]["message"]
        assert phases(service)["stays"] == "Running"


def test_an_xid_takes_a_card_out_and_its_job_starts_elsewhere(machine: Machine, tmp_path: Path) -> None:
    machine.cards(2)
    with Service(tmp_path / "home") as service:
        make(service, JOBS, machine.job("job", "echo $CUDA_VISIBLE_DEVICES; sleep 600"))
        eventually(lambda: phases(service).get("job") == "Running", "it never ran")
        before = pods_of(service)["job"]
        [held] = devices(before)
        number = int(held["card"].removeprefix("GPU-"))
        machine.xid(number, 31)
        eventually(lambda: told(service, "GPUApplicationFault"), "Xid 31 is not shown")
        assert offered(service) == "2", "Xid 31 is an application's"
        machine.xid(number, 79)
        eventually(lambda: offered(service) == "1", "the card is offered")
        eventually(lambda: _runs_on(service, "job") == f"GPU-{1 - number}", "it never ran elsewhere")
        assert pods_of(service)["job"]["metadata"]["uid"] != before["metadata"]["uid"]
        assert "Xid 79" in gpuaas(tmp_path, "doctor").stdout
        name = node(service)["metadata"]["name"]
        over = {"metadata": {"annotations": {"gpuaas.dev/card-faults": None}}}
        assert service.ask("PATCH", f"/api/v1/nodes/{name}", over, media=MERGE).status == 200
        eventually(lambda: offered(service) == "2", "the card does not come back")


def test_a_card_that_vanishes_gives_its_job_to_another_and_comes_back(machine: Machine, tmp_path: Path) -> None:
    machine.cards(2)
    with Service(tmp_path / "home") as service:
        make(service, JOBS, machine.job("job", "sleep 600"))
        eventually(lambda: phases(service).get("job") == "Running", "it never ran")
        number = int(devices(pods_of(service)["job"])[0]["card"].removeprefix("GPU-"))
        machine.gpus[number]["error"] = 15
        machine.write()
        eventually(lambda: offered(service) == "1", "a lost card is offered")
        eventually(lambda: _runs_on(service, "job") == f"GPU-{1 - number}", "it never ran elsewhere")
        machine.gpus[number]["error"] = 0
        machine.write()
        eventually(lambda: offered(service) == "2", "the card does not come back")


@pytest.fixture
def mps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The stand-in for MPS is found; its daemons end with the test."""
    monkeypatch.setenv("PATH", f"{DRIVER}:{os.environ['PATH']}")
    yield
    root = MpsDaemons(tmp_path / "home").root
    for pid in (word for path in root.glob("*/pipe/pids") for word in path.read_text().split()):
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)
    shutil.rmtree(root, ignore_errors=True)


def pipe_of(service: Service, machine: Machine) -> Path:
    """As a job that shares by MPS sees it."""
    make(service, JOBS, machine.job("asks", "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
    eventually(lambda: phases(service).get("asks") == "Succeeded", lambda: f"it never ran: {pods_of(service)}")
    pipe, limit = log(service, "asks").split()
    assert limit == f"0={(143771 - 640) // 4}M"
    return Path(pipe)


def _runs_anew(service: Service, job: str, before: str) -> bool:
    """In another pod than it was."""
    pod = pods_of(service).get(job)
    return pod is not None and pod["metadata"]["uid"] != before and pod["status"]["phase"] == "Running"


@pytest.mark.usefixtures("mps")
def test_a_fault_on_an_mps_card_ends_all_that_share_it_and_all_come_back(machine: Machine, tmp_path: Path) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        share(service, 4, "mps")
        eventually(lambda: offered(service) == "4", "the card is not shared")
        pipe = pipe_of(service, machine)
        assert (pipe / "started").read_text() == "-d -multiuser-server on GPU-0\n"
        assert f"set_default_device_pinned_mem_limit 0 {(143771 - 640) // 4}M" in (pipe / "asked").read_text()
        for name in ("a", "b"):
            make(service, JOBS, machine.job(name, "$CLIENT linked 1 s600"))
        eventually(lambda: [phases(service).get(name) for name in "ab"] == ["Running"] * 2, "not both run")
        before = {name: pods_of(service)[name]["metadata"] for name in "ab"}
        machine.xid(0, 31)
        eventually(lambda: told(service, "GPUFaultOnMPSCard"), "the fault is not shown")
        named = ", ".join(f"default/{before[name]['name']}" for name in "ab")
        assert f"ended with its MPS card: a GPU fault in one of {named}" in told(service, "GPUFaultOnMPSCard")

        eventually(
            lambda: all(_runs_anew(service, name, before[name]["uid"]) for name in "ab"),
            lambda: f"they do not run again: {phases(service)}; {service.log.read_text()[-3000:]}",
        )
        workloads = service.ask("GET", WORKLOADS).json()["items"]
        stats = [one["status"].get("schedulingStats") for one in workloads]
        mine = [[one["reason"] for one in each["evictions"]] for each in stats if each]
        assert mine == [["NodeFailures"], ["NodeFailures"]]


@pytest.mark.usefixtures("mps")
def test_an_mps_daemon_that_ends_is_started_again_and_its_pods_come_back(machine: Machine, tmp_path: Path) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        share(service, 4, "mps")
        eventually(lambda: offered(service) == "4", "the card is not shared")
        pipe = pipe_of(service, machine)
        make(service, JOBS, machine.job("a", "$CLIENT linked 1 s600"))
        eventually(lambda: phases(service).get("a") == "Running", "it never ran")
        before = pods_of(service)["a"]["metadata"]["uid"]
        os.kill(int((pipe / "control.pid").read_text()), signal.SIGKILL)
        eventually(lambda: told(service, "MPSDaemonEnded"), "its end is not shown")
        eventually(
            lambda: _runs_anew(service, "a", before),
            "it does not run again",
        )
        assert len((pipe / "started").read_text().splitlines()) == 2


@pytest.mark.usefixtures("mps")
def test_pods_of_two_namespaces_do_not_share_a_card_by_mps_unless_that_is_asked_for(
    machine: Machine, tmp_path: Path
) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        share(service, 4, "mps")
        eventually(lambda: offered(service) == "4", "the card is not shared")
        make(service, "/api/v1/namespaces", {"metadata": {"name": "other"}})
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "this-machine"}}
        queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/other/localqueues"
        make(service, queues, {**queue, "spec": {"clusterQueue": "this-machine"}})
        make(service, JOBS, machine.job("a", "sleep 600"))
        eventually(lambda: phases(service).get("a") == "Running", "it never ran")
        make(service, JOBS.replace("default", "other"), machine.job("b", "sleep 600"))
        elsewhere = PODS.replace("default", "other")

        def waiting() -> str:
            pods = service.ask("GET", elsewhere).json()["items"]
            return str(pods[0]["status"].get("containerStatuses") or "") if pods else ""

        eventually(lambda: "0 of them may be shared" in waiting(), lambda: f"it does not wait: {waiting()}")
        name = node(service)["metadata"]["name"]
        widened = gpuaas(tmp_path, "share", name, "--mps", "4", "--among", "all")
        assert widened.returncode == 0, widened.stdout + widened.stderr
        eventually(lambda: "running" in waiting(), "it never ran")


@pytest.mark.parametrize("count", [8, 16])
def test_every_card_of_a_large_machine_is_found_and_given_once(machine: Machine, tmp_path: Path, count: int) -> None:
    machine.cards(count)
    with Service(tmp_path / "home") as service:
        assert offered(service) == str(count)
        for number in range(count // 2):
            make(service, JOBS, machine.job(f"j{number}", "echo $CUDA_VISIBLE_DEVICES; sleep 600", gpus=2))
        eventually(lambda: list(phases(service).values()).count("Running") == count // 2, lambda: f"{phases(service)}")
        make(service, JOBS, machine.job("waits", "true", gpus=2))
        held = [one["card"] for pod in pods_of(service).values() for one in devices(pod)]
        assert sorted(held) == sorted(f"GPU-{number}" for number in range(count))
        assert "waits" not in phases(service)
        machine.xid(count - 1, 79)
        eventually(lambda: offered(service) == str(count - 1), "the ill card is offered")


def test_without_a_compiler_up_says_so_and_frameworks_are_given_their_part(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        assert "there is no C compiler (cc)" in service.log.read_text()
        share(service, 2)
        eventually(lambda: offered(service) == "2", "the card is not shared")
        make(service, JOBS, machine.job("asks", "echo [$LD_PRELOAD] $PYTORCH_ALLOC_CONF"))
        eventually(lambda: phases(service).get("asks") == "Succeeded", "it never ran")
        assert log(service, "asks") == "[] per_process_memory_fraction:0.498\n"


@pytest.mark.usefixtures("mps")
def test_after_a_second_fault_pods_run_one_by_one_until_one_faults_alone_and_pays(
    machine: Machine, tmp_path: Path
) -> None:
    machine.cards(1)
    with Service(tmp_path / "home") as service:
        share(service, 4, "mps")
        eventually(lambda: offered(service) == "4", "the card is not shared")
        for name in ("a", "b"):
            make(service, JOBS, machine.job(name, "$CLIENT linked 1 s600"))
        before: dict[str, str] = {}

        def anew() -> list[str]:
            return [name for name in "ab" if _runs_anew(service, name, before.get(name, ""))]

        for _ in range(2):
            eventually(lambda: len(anew()) == 2, lambda: f"not both run: {phases(service)}")
            before |= {name: pods_of(service)[name]["metadata"]["uid"] for name in "ab"}
            known = len(told(service, "GPUFaultOnMPSCard"))
            time.sleep(2)  # two faults within two seconds count as one
            machine.xid(0, 31)
            eventually(lambda: len(told(service, "GPUFaultOnMPSCard")) > known, "the fault is not shown")  # noqa: B023
        assert "they run one by one" in told(service, "GPUFaultOnMPSCard")

        eventually(lambda: len(anew()) == 1, "none runs")
        time.sleep(1.5)
        [first] = anew()
        machine.xid(0, 31)
        eventually(lambda: phases(service).get(first) == "Failed", "it does not pay")
        assert pods_of(service)[first]["status"]["reason"] == "GPUFault"
        other = "b" if first == "a" else "a"
        eventually(lambda: _runs_anew(service, other, before[other]), "the other never ran")
