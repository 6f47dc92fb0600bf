"""The memory budget of a pod's GPU processes, against a driver library of the tests' own.

The client program allocates in each of the ways programs reach the driver. A context costs half a GiB of the budget once
for each process.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuaas.executors.native.build import build_memory_budget

DRIVER = Path(__file__).parents[3] / "driver"
GIB = 1 << 30

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", DRIVER / "cuda.c"], check=True)
    client = ["cc", "-o", folder / "client", DRIVER / "cuda_client.c", f"-L{folder}", "-l:libcuda.so.1", "-ldl"]
    subprocess.run(client, check=True)
    assert build_memory_budget(folder / "budget.so") is None
    return folder


class Pod:
    """Processes that share one budget of 10 GiB, unless another is given."""

    def __init__(self, built: Path, account: Path) -> None:
        self.built = built
        self.environment = {
            "LD_LIBRARY_PATH": str(built),
            "LD_PRELOAD": str(built / "budget.so"),
            "GPUAAS_GPU_MEMORY": str(10 * GIB),
            "GPUAAS_GPU_MEMORY_FILE": str(account),
        }

    def run(self, way: str, steps: str, **environment: str) -> str:
        command = [str(self.built / "client"), way, *steps.split()]
        done = subprocess.run(
            command, env=self.environment | environment, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip().replace("\n", ", ")

    @contextmanager
    def running(self, way: str, steps: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
        process = subprocess.Popen(
            [str(self.built / "client"), way, *steps.split()],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, lambda: process.stdout.readline().strip()  # type: ignore[union-attr]
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def pod(built: Path, tmp_path: Path) -> Pod:
    return Pod(built, tmp_path / "account")


WAYS = [
    "linked",
    "dlsym",
    "address",
    "address-async",
    "address-ptsz",
    "managed",
    "pitch",
    "pool",
    "handle",
    "handle-mapped",
]


@pytest.mark.parametrize("way", WAYS)
def test_an_allocation_over_the_budget_is_refused_in_the_one_that_asks(pod: Pod, way: str) -> None:
    assert pod.run(way, "6 4 3 1") == "got 6, refused 4, got 3, refused 1"


@pytest.mark.parametrize("way", WAYS)
def test_what_is_freed_can_be_had_again(pod: Pod, way: str) -> None:
    assert pod.run(way, "9 1 f 9") == "got 9, refused 1, freed, got 9"


def test_memory_of_the_host_does_not_count(pod: Pod) -> None:
    assert pod.run("handle-host", "20 20") == "got 20, got 20"


@pytest.mark.parametrize("way", ["linked", "dlsym", "address"])
def test_queries_show_the_budget_as_the_card(pod: Pod, way: str) -> None:
    assert pod.run(way, "i 4 i") == "free 9.5 of 10.0, got 4, free 5.5 of 10.0"


def test_without_a_budget_nothing_changes(pod: Pod) -> None:
    assert pod.run("linked", "i 60", GPUAAS_GPU_MEMORY="") == "free 64.0 of 64.0, got 60"


def test_a_budget_larger_than_the_card_shows_the_card(pod: Pod) -> None:
    assert pod.run("linked", "i", GPUAAS_GPU_MEMORY=str(100 * GIB)) == "free 64.0 of 64.0"


def test_two_processes_of_a_pod_share_one_budget(pod: Pod) -> None:
    with pod.running("linked", "6 w") as (_, line):
        assert line() == "got 6"
        # 6 + its context are taken; the second process pays for its own context.
        assert pod.run("address", "4 3 i") == "refused 4, got 3, free 0.0 of 10.0"


def test_a_killed_process_keeps_nothing(pod: Pod) -> None:
    with pod.running("linked", "9 w") as (process, line):
        assert line() == "got 9"
        assert pod.run("linked", "1") == "refused 1"
        process.kill()
        process.wait()
        assert pod.run("linked", "9") == "got 9"


def test_a_process_that_ends_gives_everything_back(pod: Pod) -> None:
    for _ in range(3):
        assert pod.run("linked", "9") == "got 9"


def test_a_child_of_fork_has_an_account_of_its_own(pod: Pod) -> None:
    assert pod.run("linked", "5 F 5 4") == "got 5, refused 5, got 4"


def test_an_account_that_cannot_be_mapped_leaves_a_budget_for_each_process(pod: Pod, tmp_path: Path) -> None:
    assert pod.run("linked", "9 1", GPUAAS_GPU_MEMORY_FILE=str(tmp_path / "none" / "account")) == "got 9, refused 1"


def test_programs_without_a_gpu_run_as_before(pod: Pod) -> None:
    environment = {**pod.environment, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", "echo fine"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"
