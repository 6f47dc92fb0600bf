"""A command beside that of a container: the one way in which a process is started into what is a pod's already.

It has the container's environment, folder and cards (`ProcessKubelet.surroundings`), and its user; walls around a pod are
to be entered here. A supervisor of its own ends it, with all it left behind, when the session ends, when the server is
killed, or when the container has ended. Its streams are pipes, or one terminal; they are read when their reader has room.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpuaas.executors.processes import LOST, Command, Process, end_marked, interpreter, variables_of

PIECE: Final = 32 * 1024
_END_OF_INPUT: Final = b"\x04"  # what a terminal takes for it
_LOOK_EVERY: Final = 1.0
_SESSION: Final = "GPUAAS_SESSION"  # in the environment of every process of a session


class Descriptor:
    """One end of a pipe, a terminal or a socket that does not block; None is one that is closed already."""

    def __init__(self, number: int | None) -> None:
        self._number = -1 if number is None else number
        self._loop = asyncio.get_running_loop()
        self._waiters: set[asyncio.Future[None]] = set()
        if number is not None:
            os.set_blocking(number, False)

    @property
    def number(self) -> int:
        return self._number

    async def read(self) -> bytes:
        """b"" at the end, and when it has been closed here."""
        while self._number >= 0:
            try:
                return os.read(self._number, PIECE)
            except BlockingIOError:
                await self._wait(self._loop.add_reader, self._loop.remove_reader)
            except OSError as error:
                if error.errno in (errno.EIO, errno.ECONNRESET):  # of a terminal that no process has open any more
                    return b""
                raise
        return b""

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            if self._number < 0:
                raise BrokenPipeError
            try:
                left = left[os.write(self._number, left[:PIECE]) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer, self._loop.remove_writer)

    def close(self) -> None:
        """Who waits for it is woken: the number may belong to something else a moment later."""
        number, self._number = self._number, -1
        if number < 0:
            return
        self._loop.remove_reader(number)
        self._loop.remove_writer(number)
        os.close(number)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        add(self._number, lambda: None if waiter.done() else waiter.set_result(None))
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if self._number >= 0:
                remove(self._number)


class Beside:
    def __init__(self, command: Command, container: Path, *, terminal: bool, stdin: bool) -> None:
        """`container`: its folder."""
        self._command = command
        self._container = Process(container)
        self._terminal = terminal
        self._stdin = stdin
        self._mark = os.urandom(12).hex()
        self._in = self._out = self._err = self._control = Descriptor(None)
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        if not self._container.is_alive():
            raise OSError("the container has ended")
        ours, theirs = socket.socketpair()
        handed = [theirs.detach()]
        self._control = Descriptor(ours.detach())
        try:
            child = self._spawn(handed[0], *self._open(handed))
        except BaseException:
            self.kill()
            raise
        finally:
            for descriptor in handed:
                os.close(descriptor)
        self._watch = asyncio.ensure_future(self._watched(child))

    def _spawn(self, control: int, stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        folder, variables = self._container.folder, self._command.environment
        if self._terminal:
            variables = {"TERM": "xterm", **variables}
        variables = {**variables, _SESSION: self._mark}
        words = ["--beside", str(folder), str(control), str(int(self._terminal)), *self._command.words]
        return subprocess.Popen(
            [*interpreter(), *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self._command.folder,
            env=variables_of(folder, variables),
            pass_fds=(control,),
            start_new_session=True,
        )

    def _open(self, handed: list[int]) -> tuple[int, int, int]:
        """The command's standard streams; `handed` are to be closed here once it has them."""
        if self._terminal:
            terminal, theirs = os.openpty()
            handed.append(theirs)
            self._in = self._out = Descriptor(terminal)
            return theirs, theirs, theirs
        stdin = subprocess.DEVNULL
        if self._stdin:
            stdin, mine = os.pipe()
            handed.append(stdin)
            self._in = Descriptor(mine)
        out, stdout = os.pipe()
        handed.append(stdout)
        self._out = Descriptor(out)
        err, stderr = os.pipe()
        handed.append(stderr)
        self._err = Descriptor(err)
        return stdin, stdout, stderr

    # The streams

    async def read(self, *, errors: bool) -> bytes:
        return await (self._err if errors else self._out).read()

    async def write(self, data: bytes) -> None:
        await self._in.write(data)

    def close_input(self) -> None:
        if not self._terminal:
            self._in.close()
        elif self._in.number >= 0:
            with contextlib.suppress(OSError):
                os.write(self._in.number, _END_OF_INPUT)

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal and self._out.number >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._out.number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # Its end

    async def ended(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """The supervisor does it, as it does where this server is gone: the socket closes in either case."""
        for descriptor in (self._control, self._in, self._out, self._err):
            descriptor.close()

    async def _watched(self, child: subprocess.Popen[bytes]) -> None:
        """Until it has ended; ends it when the container has."""
        said = b""
        while self._control.number >= 0:
            try:
                async with asyncio.timeout(_LOOK_EVERY):
                    said = await self._control.read()
                break
            except TimeoutError:
                if not self._container.is_alive():
                    self._control.close()
        text = said.strip()
        self._ended.set_result(int(text) if text.isdigit() else LOST)
        self._control.close()
        pause = 0.01
        while child.poll() is None:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
        if child.returncode < 0:  # it was killed itself, by the command perhaps, and could not end the rest
            await asyncio.to_thread(end_marked, f"{_SESSION}={self._mark}")
