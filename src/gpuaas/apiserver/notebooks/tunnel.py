"""A WebSocket between a browser and a notebook's server: bytes in both directions, no faster than either side reads.

Frames are not looked into: the notebook's server and its page agreed on them in the handshake. The connection ends when
either side ends it, when the server stops, or when its user may no longer open the notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gpuaas.apiserver.notebooks.upstream import Exchange

_PIECE: Final = 64 * 1024
_WAITING: Final = 1024 * 1024  # bytes that may wait for the notebook's server until the browser is not read
_ASK_EVERY: Final = 30.0  # seconds between two looks whether the user still may


class Tunnel(asyncio.Protocol):
    replaceable = False  # its client has authenticated

    def __init__(
        self,
        exchange: Exchange,
        head: bytes,
        allowed: Callable[[], bool],
        ended: Callable[[], None],
        transport: asyncio.Transport,
        connections: set[Any],
    ) -> None:
        self._exchange = exchange
        self._allowed = allowed
        self._ended: Callable[[], None] | None = ended
        self._transport = transport
        self._connections = connections
        self._room = asyncio.Event()
        self._room.set()
        self._asked = self.waits_since = asyncio.get_running_loop().time()
        connections.add(self)
        transport.set_protocol(self)
        transport.write(head + exchange.rest)
        self._pump = asyncio.ensure_future(self._to_browser())
        transport.resume_reading()

    async def _to_browser(self) -> None:
        try:
            while data := await self._exchange.reader.read(_PIECE):
                await self._room.wait()
                self._transport.write(data)
        except OSError:
            pass
        finally:
            self._transport.close()

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        writer = self._exchange.writer
        if writer.is_closing():
            self._transport.close()
            return
        writer.write(data)
        if writer.transport.get_write_buffer_size() > _WAITING:
            self._transport.pause_reading()
            self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        try:
            await self._exchange.writer.drain()
            self._transport.resume_reading()
        except OSError:
            self._transport.close()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._room.set()
        self._pump.cancel()
        self._exchange.close()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    # What the listener calls.

    def look(self, now: float) -> None:
        if now - self._asked >= _ASK_EVERY:
            self._asked = now
            if not self._allowed():
                self._transport.abort()

    def shut_down(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
