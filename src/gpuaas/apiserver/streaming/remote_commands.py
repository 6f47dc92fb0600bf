"""exec and attach: one command's input, output, errors, terminal and ending, over whatever streams carry them.

Output is read from the command only when the client has room for it, input from the client only when the command takes
it. However the session ends, the command ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from gpuaas.apiserver.streaming import spdy_frames
from gpuaas.apiserver.streaming.duplex import Link, Stream
from gpuaas.apiserver.streaming.spdy import SpdySession, SpdyStream
from gpuaas.apiserver.streaming.tasks import Work
from gpuaas.base.websocket_frames import PROTOCOL_ERROR

_STREAMS_WITHIN: Final = 30.0  # seconds in which a SPDY client opens its streams
_LARGEST_SIZE: Final = 10_000  # columns and rows
_LONGEST_RESIZE: Final = 1024


class Remote(Protocol):
    """A command that is about to run, or output that is about to be read."""

    def start(self) -> None:
        """Raises OSError where it cannot be started."""

    async def read(self, *, errors: bool) -> bytes:
        """The next piece of its output, or of its errors; b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Into its input. Raises OSError where nothing reads that any more."""

    def close_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def ended(self) -> int:
        """Its exit code."""

    def kill(self) -> None:
        """Ends all there is of it; nothing where it has ended."""


async def serve(remote: Remote, streams: Mapping[str, Stream]) -> None:
    tasks: list[asyncio.Task[None]] = []
    try:
        try:
            remote.start()
        except (OSError, ValueError) as error:
            await _tell(streams, _failure(f"the command could not be started: {error}"))
            return
        if "stdin" in streams:
            tasks.append(asyncio.ensure_future(_input(remote, streams["stdin"])))
        if "resize" in streams:
            tasks.append(asyncio.ensure_future(_sizes(remote, streams["resize"])))
        await asyncio.gather(*(_output(remote, streams.get(name), name) for name in ("stdout", "stderr")))
        await _tell(streams, status_of(await remote.ended()))
    finally:
        for task in tasks:
            task.cancel()
        remote.kill()


async def _output(remote: Remote, stream: Stream | None, name: str) -> None:
    """What the client has not asked for is read as well: the command must not wait for it."""
    while data := await remote.read(errors=name == "stderr"):
        if stream is not None:
            await stream.write(data)
    if stream is not None:
        stream.end()


async def _input(remote: Remote, stream: Stream) -> None:
    with contextlib.suppress(OSError):
        while data := await stream.inbox.read():
            await remote.write(data)
    remote.close_input()
    stream.inbox.discard()


async def _sizes(remote: Remote, stream: Stream) -> None:
    """Each as a JSON object; several may come in one piece, or one in several."""
    rest = b""
    while data := await stream.inbox.read():
        *whole, rest = (rest + data).replace(b"}", b"}\n").split(b"\n")
        for text in whole:
            if text.strip() and (size := _size(text)) is not None:
                remote.resize(*size)
        if len(rest) > _LONGEST_RESIZE:
            rest = b""


def _size(text: bytes) -> tuple[int, int] | None:
    try:
        found = msgspec.json.decode(text)
        columns, rows = found["Width"], found["Height"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    if not (isinstance(columns, int) and isinstance(rows, int)):
        return None
    return (columns, rows) if 0 < columns <= _LARGEST_SIZE and 0 < rows <= _LARGEST_SIZE else None


async def _tell(streams: Mapping[str, Stream], status: dict[str, Any]) -> None:
    await streams["error"].write(msgspec.json.encode(status))
    for name, stream in streams.items():
        if name != "resize":
            stream.end()


def status_of(code: int) -> dict[str, Any]:
    """How a command ended, as kubelets write it."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        **_failure(f"command terminated with non-zero exit code: exit code {code}"),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failure(message: str) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


class SpdyCommand(SpdySession):
    """Begins when the client has opened every stream it asked for."""

    def __init__(self, names: frozenset[str], remote: Remote) -> None:
        super().__init__()
        self._names = names
        self._remote = remote
        self._found: dict[str, SpdyStream] = {}
        self._work = Work()
        self._limit: asyncio.TimerHandle | None = None

    def began(self, link: Link) -> None:
        super().began(link)
        self._limit = asyncio.get_running_loop().call_later(_STREAMS_WITHIN, self._close, PROTOCOL_ERROR)

    def opened(self, stream: SpdyStream) -> bool:
        name = stream.headers.get("streamtype", "")
        if name not in self._names or name in self._found:
            return False
        self._found[name] = stream
        return True

    def ready(self, stream: SpdyStream) -> None:
        if len(self._found) == len(self._names) and self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._work.begin(serve(self._remote, self._found), self._close)

    def _close(self, code: int = 1000) -> None:
        self.link.send(spdy_frames.goaway(self._latest))
        self.link.close(code)

    def lost(self) -> None:
        super().lost()
        if self._limit is not None:
            self._limit.cancel()
        self._work.cancel()
        self._remote.kill()
