"""A few kills in the middle of jobs that are processes; `python -m tests.conformance.process_outage` does hundreds."""

import os
import signal
import time
from pathlib import Path

from tests.conformance.process_outage import run
from tests.conformance.service import eventually

from gpuaas.executors.processes import Command, Process, end_leftovers
from gpuaas.executors.supervisor import parents


def test_kill_9_of_server_supervisors_and_shells_loses_no_job_and_runs_none_beside_itself(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", count=20, kills=3, seed=1)
    assert outcome.kills == 3
    assert outcome.hurt > 0
    assert outcome.wrong == []


def test_a_supervisor_killed_at_any_moment_has_begun_or_has_not_and_leaves_nothing(tmp_path: Path) -> None:
    """What has not begun may be started again, so it must not have run; what has begun is all found and ended."""
    began: list[int] = []
    beginning = _time_to_begin(tmp_path / "calm")
    for step in range(20):
        folder = tmp_path / str(step)
        folder.mkdir()
        process = Process(folder / "c")
        text = "echo $$ > pids; setsid sh -c 'echo $$ >> pids; exec sleep 100' & sleep 100"
        process.start(Command(["sh", "-c", text], {"PATH": "/usr/bin:/bin"}, folder))
        time.sleep(beginning * step / 10)
        os.kill(process.pid(), signal.SIGKILL)
        _ended(process)
        assert process.is_lost()
        if not process.was_started:
            time.sleep(0.02)
            assert not (folder / "pids").exists(), "it ran, and would be run again"
            continue
        began.append(step)
        assert end_leftovers(process.folder)
        noted = (folder / "pids").read_text().split() if (folder / "pids").exists() else []
        assert not {int(pid) for pid in noted} & parents().keys()
    assert 0 < len(began) < 20, "kills came before and after the beginning"


def _time_to_begin(folder: Path) -> float:
    folder.mkdir()
    process, began = Process(folder / "c"), time.monotonic()
    process.start(Command(["true"], {"PATH": "/usr/bin:/bin"}, folder))
    eventually(lambda: process.was_started and (process.folder / "pid").exists(), "it did not begin")
    took = time.monotonic() - began
    _ended(process)
    return took


def _ended(process: Process) -> None:
    eventually(lambda: process.exit_code() is not None, "it did not end")
