"""Whose memory is on a card: pods over their budgets, and processes that are nobody's here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuaas.devices.holding import Held
from gpuaas.executors import gpu_sight
from gpuaas.executors.gpu_sight import User, limit_of, look, overruns, strangers
from gpuaas.telemetry.nvml import GpuProcess
from gpuaas.telemetry.process_table import Owner

GIB, MIB = 1 << 30, 1 << 20
A = (Held("main", "nvidia.com/gpu", "GPU-0::0", "GPU-0", memory=65536, budget=10 * 1024),)
B = (Held("main", "nvidia.com/gpu", "GPU-0::1", "GPU-0", memory=65536, budget=10 * 1024),)
NAMES = {"a": "default/a", "b": "default/b"}


def user(pod: str, gib: float, pid: int = 1, card: str = "GPU-0", *, ours: bool = False) -> User:
    return User(card, pid, int(gib * GIB), pod, ours, "eve", "python", "77")


@pytest.mark.parametrize(
    ("users", "over"),
    [
        ([user("a", 10.0)], []),
        ([user("a", 10.2)], []),  # what the driver takes besides
        ([user("a", 11)], ["a"]),
        ([user("a", 6, 1), user("a", 6, 2)], ["a"]),  # all processes of a pod together
        ([user("a", 6, 1), user("b", 6, 2)], []),
        ([user("", 60)], []),
        ([user("a", 60, card="GPU-1")], []),  # it has no budget there
    ],
)
def test_who_is_over_the_budget(users: list[User], over: list[str]) -> None:
    assert [one.pod for one in overruns(users, {"a": A, "b": B})] == over


def test_an_overrun_has_the_figures_and_the_processes() -> None:
    [found] = overruns([user("a", 6, 1), user("a", 8.5, 2)], {"a": A})
    assert found.in_words == "used 14.50 GiB of 10.00 GiB GPU memory on GPU-0"
    assert found.pids == ((1, "77"), (2, "77"))


@pytest.mark.parametrize(("budget", "margin"), [(GIB, 256), (20 * GIB, 409), (100 * GIB, 512)])
def test_the_margin(budget: int, margin: int) -> None:
    assert (limit_of(budget) - budget) // MIB == margin


@pytest.mark.parametrize(
    ("one", "who"),
    [
        (user("", 1), ["eve"]),
        (user("a", 1), []),
        (user("a", 1, card="GPU-1"), ["pod default/a"]),  # a pod on a card it was not given
        (user("gone", 1), []),  # its pod was deleted, and it is being ended
        (user("", 1, ours=True), []),  # an MPS server
    ],
)
def test_strangers(one: User, who: list[str]) -> None:
    assert [found.user for found in strangers([one], {"a": A}, NAMES)] == who


class Driver:
    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        return tuple(GpuProcess(pid, 5) for pid in (1, 2, 3, 4, 5))


FOLDERS = {1: "/pods/a/main", 2: "", 3: "/home/mps/1234", 5: "/pods-of-others/x/main"}


class Table:
    def owner(self, pid: int) -> Owner | None:
        return Owner(FOLDERS[pid], "root", "python") if pid in FOLDERS else None

    def started(self, pid: int) -> str:
        return "1"


def test_a_process_is_its_pods_by_the_folder_of_its_supervisor() -> None:
    found = look(Driver(), Table(), ["GPU-0"], Path("/pods"), Path("/home/mps"))
    assert [(one.pid, one.pod, one.ours) for one in found] == [
        (1, "a", False), (2, "", False), (3, "", True), (5, "", False),
    ]  # fmt: skip
    assert gpu_sight.POD_MARK == "GPUAAS_RUN"
