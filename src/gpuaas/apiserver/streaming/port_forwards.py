"""port-forward: connections to ports of a pod, many over one SPDY session, or one for each port over channels.

In a SPDY session the client opens two streams for each connection, with the same request id: `error`, then `data`. Each
side ends its direction by itself. Over channels (Python's clients) the port is in the query and each has two channels.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from gpuaas.apiserver.streaming.channels import Serve
from gpuaas.apiserver.streaming.duplex import PIECE, Stream
from gpuaas.apiserver.streaming.spdy import SpdySession, SpdyStream
from gpuaas.apiserver.streaming.tasks import Work
from gpuaas.base.errors import ApiError
from gpuaas.base.numbers import natural

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a port of the pod; raises ApiError or OSError with words for the user."""

_LAST_PORT: Final = 65535


async def forward(dial: Dial, port: int, data: Stream, error: Stream) -> None:
    """One connection, until both directions have ended."""
    try:
        reader, writer = await dial(port)
    except (ApiError, OSError) as problem:
        words = problem.message if isinstance(problem, ApiError) else str(problem)
        await error.write(f"port {port}: {words}".encode())
        data.inbox.discard()
        return
    sending = asyncio.ensure_future(_send(data, writer))
    try:
        while piece := await reader.read(PIECE):
            await data.write(piece)
    except OSError as problem:
        await error.write(f"port {port}: the connection to the pod broke off: {problem.strerror or problem}".encode())
    finally:
        sending.cancel()
        data.inbox.discard()
        writer.close()


async def _send(data: Stream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await data.inbox.read():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    data.inbox.discard()


class SpdyForwards(SpdySession):
    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self._dial = dial
        self._errors: dict[str, SpdyStream] = {}  # whose data stream has not come yet, by request id
        self._work = Work()

    def opened(self, stream: SpdyStream) -> bool:
        kind, request = stream.headers.get("streamtype"), stream.headers.get("requestid", "")
        if port_of(stream.headers.get("port", "")) is None:
            return False
        return kind == "error" if request not in self._errors else kind == "data"

    def ready(self, stream: SpdyStream) -> None:
        request = stream.headers.get("requestid", "")
        error = self._errors.pop(request, None)
        if error is None:
            self._errors[request] = stream
            return
        port = port_of(stream.headers.get("port", ""))
        assert port is not None
        self._work.begin(self._forward(port, stream, error), lambda: None)

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            await forward(self._dial, port, data, error)
        finally:
            for stream in (data, error):
                stream.end()
                stream.forget()

    def lost(self) -> None:
        super().lost()
        self._work.cancel()


def over_channels(dial: Dial, ports: Sequence[int]) -> tuple[list[str], Serve]:
    """The names of the channels, and what is done with them."""
    names = [f"{kind} {number}" for number in range(len(ports)) for kind in ("data", "error")]

    async def serve(streams: Mapping[str, Stream]) -> None:
        pairs = [(port, streams[f"data {n}"], streams[f"error {n}"]) for n, port in enumerate(ports)]
        for port, *both in pairs:
            for stream in both:
                stream.send(port.to_bytes(2, "little"))
        await asyncio.gather(*(forward(dial, port, data, error) for port, data, error in pairs))

    return names, serve


def port_of(text: str) -> int | None:
    number = natural(text)
    return number if number is not None and 0 < number <= _LAST_PORT else None
