"""A shared card of this machine with real processes, on drivers of the tests' own: budgets, neighbours, foreign processes,
adoption, faults."""

from __future__ import annotations

import getpass
import importlib.util
import shutil
from pathlib import Path

import pytest
from tests.conformance.gpu_machine import (
    EVENTS,
    JOBS,
    Machine,
    build,
    log,
    make,
    node,
    offered,
    phases,
    pods_of,
    share,
)
from tests.conformance.service import Service, eventually

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or importlib.util.find_spec("pynvml") is None,
    reason="there is no C compiler or no nvidia-ml-py here",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def machine(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(built, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


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
