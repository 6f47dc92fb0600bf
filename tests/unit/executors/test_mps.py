"""MPS daemons, with a stand-in for the control program."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.executors.mps import MpsDaemons, MpsError

CONTROL = Path(__file__).parents[2] / "driver" / "nvidia-cuda-mps-control"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[MpsDaemons]:
    made = MpsDaemons(tmp_path, str(CONTROL))
    yield made
    for pid in (word for path in made.root.glob("*/pipe/pids") for word in path.read_text().split()):
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)
    if not made.root.is_relative_to(tmp_path):
        shutil.rmtree(made.root, ignore_errors=True)


def test_a_daemon_is_started_once_and_given_its_limit(daemons: MpsDaemons) -> None:
    assert daemons.ensure("GPU-1", 4096)
    assert not daemons.ensure("GPU-1", 8192)
    pipe = daemons.pipe("GPU-1")
    assert (pipe / "started").read_text() == "-d -multiuser-server on GPU-1\n"
    assert (pipe / "asked").read_text().splitlines() == [
        "set_default_device_pinned_mem_limit 0 4096M",
        "set_default_device_pinned_mem_limit 0 8192M",
    ]
    assert pipe.stat().st_mode & 0o777 == 0o777


def test_each_card_has_a_daemon_of_its_own(daemons: MpsDaemons) -> None:
    assert daemons.ensure("GPU-1", 0)
    assert daemons.ensure("GPU-2", 0)
    daemons.stop("GPU-1")
    assert (daemons.is_alive("GPU-1"), daemons.is_alive("GPU-2")) == (False, True)


def test_a_daemon_that_was_killed_is_started_again(daemons: MpsDaemons) -> None:
    daemons.ensure("GPU-1", 0)
    os.kill(int((daemons.pipe("GPU-1") / "control.pid").read_text()), signal.SIGKILL)
    for _ in range(1000):  # the kernel takes a moment
        if not daemons.is_alive("GPU-1"):
            break
    assert not daemons.is_alive("GPU-1")
    assert daemons.ensure("GPU-1", 0)


def test_without_the_program_the_reason_is_named(tmp_path: Path) -> None:
    with pytest.raises(MpsError, match="no-such-program was not found"):
        MpsDaemons(tmp_path, "no-such-program").ensure("GPU-1", 0)


def test_paths_stay_short_enough_for_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    assert len(str(MpsDaemons(deep).pipe("GPU-1"))) < 90
    assert MpsDaemons(deep).root != MpsDaemons(deep / "other").root


def test_a_fault_is_found_in_what_the_log_says_since(daemons: MpsDaemons) -> None:
    log = daemons.folder("GPU-1") / "log" / "server.log"
    assert daemons.faults("GPU-1", 0) == (0, False)
    log.parent.mkdir(parents=True)
    log.write_text("Client {PID: 610} encountered a fatal GPU error\n")
    position, faulted = daemons.faults("GPU-1", 0)
    assert faulted
    assert daemons.faults("GPU-1", position) == (position, False)
    with log.open("a") as file:
        file.write("Server started\n")
    assert not daemons.faults("GPU-1", position)[1]
    assert not daemons.faults("GPU-1", -1)[1], "what an earlier start has seen is not told again"
