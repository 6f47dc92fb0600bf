"""A command beside a container's: its streams, its terminal, its exit code, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuaas.executors import supervisor
from gpuaas.executors.beside import Beside
from gpuaas.executors.processes import LOST, Command, Process

pytestmark = pytest.mark.anyio
BEGUN: list[Beside] = []
PATH = {"PATH": "/usr/bin:/bin", "COLOUR": "blue"}


@pytest.fixture
async def container(tmp_path: Path) -> AsyncIterator[Process]:
    process = Process(tmp_path / "c")
    process.start(Command(["sleep", "1000"], PATH, tmp_path))
    yield process
    for command in BEGUN:
        command.kill()
        if command._watch is not None:
            await command._watch
    BEGUN.clear()
    process.signal(signal.SIGKILL)
    await until(lambda: not process.is_alive())


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def begun(container: Process, *words: str, terminal: bool = False, stdin: bool = False) -> Beside:
    made = Beside(Command(words, PATH, container.folder.parent), container.folder, terminal=terminal, stdin=stdin)
    made.start()
    BEGUN.append(made)
    return made


async def output(command: Beside, *, errors: bool = False) -> bytes:
    found = b""
    while piece := await command.read(errors=errors):
        found += piece
    return found


def alive(pid: int) -> bool:
    return pid in supervisor.parents()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_output_errors_and_exit_code(container: Process, tmp_path: Path) -> None:
    command = begun(container, "sh", "-c", "echo $COLOUR; pwd; echo wrong >&2; exit 5")
    assert await output(command) == f"blue\n{tmp_path}\n".encode()
    assert await output(command, errors=True) == b"wrong\n"
    assert await command.ended() == 5
    command.kill()


async def test_input_and_its_end(container: Process) -> None:
    command = begun(container, "cat", stdin=True)
    sent = os.urandom(1_000_000)
    sending = asyncio.ensure_future(command.write(sent))
    found = b""
    while len(found) < len(sent):
        found += await command.read(errors=False)
    await sending
    command.close_input()
    assert await output(command) == b""
    assert (found, await command.ended()) == (sent, 0)
    command.kill()


async def test_input_of_a_command_that_has_closed_its_own_is_refused(container: Process) -> None:
    command = begun(container, "sh", "-c", "exec <&-; echo closed; sleep 1000", stdin=True)
    assert await command.read(errors=False) == b"closed\n"
    with pytest.raises(OSError, match="Broken pipe"):
        await command.write(b"x" * 1_000_000)
    command.kill()


async def test_a_terminal_has_a_size_and_a_name(container: Process) -> None:
    command = begun(container, "sh", "-c", "read x; stty size; echo $TERM; tty -s && exit 4", terminal=True, stdin=True)
    command.resize(101, 33)
    await command.write(b"\n")
    assert (await output(command)).splitlines()[1:] == [b"33 101", b"xterm"]
    assert await command.ended() == 4
    command.kill()


@pytest.mark.parametrize("terminal", [False, True])
async def test_killed_it_leaves_nothing(container: Process, terminal: bool) -> None:
    script = "trap '' TERM HUP; setsid sleep 1000 & echo $! $$; sleep 1000"
    command = begun(container, "sh", "-c", script, terminal=terminal)
    pids = [int(word) for word in (await command.read(errors=False)).split()]
    assert all(map(alive, pids))
    command.kill()
    await until(lambda: not any(map(alive, pids)))
    assert await command.ended() == LOST
    assert container.is_alive()


async def test_what_a_command_leaves_running_ends_with_it(container: Process) -> None:
    command = begun(container, "sh", "-c", "setsid sleep 1000 & echo $!; exit 0")
    pid = int(await output(command))
    assert await command.ended() == 0
    assert not alive(pid)
    command.kill()


async def test_without_its_supervisor_it_leaves_nothing_either(container: Process) -> None:
    command = begun(container, "sh", "-c", "setsid sleep 1000 & echo $!; kill -9 $PPID; sleep 1000")
    pid = int(await command.read(errors=False))
    assert await command.ended() == LOST
    await until(lambda: not alive(pid))
    command.kill()


async def test_it_ends_with_its_container(container: Process) -> None:
    command = begun(container, "sh", "-c", "echo $$; sleep 1000")
    pid = int(await command.read(errors=False))
    container.signal(signal.SIGKILL)
    assert await command.ended() == LOST
    await until(lambda: not alive(pid))
    with pytest.raises(OSError, match="the container has ended"):
        begun(container, "true")


async def test_what_cannot_be_started_is_an_error_and_leaves_no_descriptor(container: Process) -> None:
    before = descriptors()
    command = Beside(Command(["true"], PATH, Path("/nowhere")), container.folder, terminal=False, stdin=True)
    with pytest.raises(OSError, match="nowhere"):
        command.start()
    assert descriptors() == before
