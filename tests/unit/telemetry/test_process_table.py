"""Whose a process is, by the marks in the environments of its ancestors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuaas.telemetry.process_table import ProcessTable


class Proc:
    """A /proc of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, pid: int, parent: int, environment: str = "", command: str = "python", state: str = "S") -> None:
        path = self.folder / str(pid)
        path.mkdir()
        fields = [state, str(parent), *("0" for _ in range(17)), str(pid * 100)]
        (path / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
        (path / "environ").write_bytes(environment.replace(" ", "\0").encode())
        (path / "cmdline").write_bytes(f"/usr/bin/{command}\0train.py\0".encode())

    def table(self) -> ProcessTable:
        return ProcessTable(("GPUAAS_RUN", "GPUAAS_MPS"), self.folder)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_process_belongs_to_the_folder_its_supervisor_was_started_for(proc: Proc) -> None:
    proc.process(1, 0)
    proc.process(10, 1, "PATH=/bin GPUAAS_RUN=/pods/a/main")
    proc.process(11, 10, "GPUAAS_RUN=/pods/a/main")
    proc.process(12, 11)  # which cleared its environment
    owner = proc.table().owner(12)
    assert owner is not None
    assert (owner.folder, owner.command) == ("/pods/a/main", "python")


def test_a_process_without_a_mark_is_foreign(proc: Proc) -> None:
    proc.process(1, 0)
    proc.process(20, 1, "HOME=/root", command="jupyter")
    owner = proc.table().owner(20)
    assert owner is not None
    assert (owner.folder, owner.command) == ("", "jupyter")
    assert owner.user


def test_an_mps_server_is_known_by_its_own_mark(proc: Proc) -> None:
    proc.process(1, 0)
    proc.process(30, 1, "GPUAAS_MPS=/home/mps/1")
    owner = proc.table().owner(30)
    assert owner is not None
    assert owner.folder == "/home/mps/1"


def test_who_has_ended_has_no_owner(proc: Proc) -> None:
    proc.process(40, 1, state="Z")
    assert proc.table().owner(40) is None
    assert proc.table().owner(41) is None


def test_a_number_that_is_used_again_is_another_process(proc: Proc) -> None:
    table = proc.table()
    proc.process(1, 0)
    proc.process(50, 1, "GPUAAS_RUN=/pods/a/main")
    assert table.owner(50) is not None
    path = proc.folder / "50"
    (path / "stat").write_text((path / "stat").read_text().replace("5000", "9999"))
    (path / "environ").write_bytes(b"")
    owner = table.owner(50)
    assert owner is not None
    assert owner.folder == ""


def test_parents_in_a_circle_are_followed_only_so_far(proc: Proc) -> None:
    proc.process(60, 61)
    proc.process(61, 60)
    owner = proc.table().owner(60)
    assert owner is not None
    assert owner.folder == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_mark_of_another_users_process_does_not_count(proc: Proc) -> None:
    proc.process(1, 0)
    proc.process(70, 1, "GPUAAS_RUN=/pods/a/main")
    os.chown(proc.folder / "70", 12345, 12345)
    owner = proc.table().owner(70)
    assert owner is not None
    assert (owner.folder, owner.user) == ("", "12345")


def test_this_process_is_found_in_the_real_one() -> None:
    owner = ProcessTable(("GPUAAS_RUN",)).owner(os.getpid())
    assert owner is not None
    assert owner.command
