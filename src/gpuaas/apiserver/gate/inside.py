"""The server's end of the gate: a transport for every client the keeper let in.

To a protocol they are what the event loop's own transports are: writes are kept in order, a client that does not read
stops the writing, a close comes after the data. What several clients get alike in one turn of the loop, as a watched
event, crosses once.
"""

import asyncio
import json
import logging
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from gpuaas.apiserver.gate.frames import (
    ABORT,
    CLOSE,
    COUNT,
    DATA,
    GO_ON,
    GONE,
    HEAD,
    HOLD,
    LISTENS,
    LONGEST,
    OPENED,
    SHARED,
    STOP,
    TAKEN,
    TELL_AFTER,
    Frames,
)
from gpuaas.apiserver.tls import Tls

PEER_CERTIFICATE: Final = "peer_certificate"
_MOST: Final = 4 * LONGEST  # bytes of one connection under way before its writer pauses
_LITTLE: Final = 2 * TELL_AFTER  # and goes on; the keeper may keep this much to itself
_SMALL: Final = 8 * 1024  # data that is copied behind its head rather than written by itself
_GRACE: Final = 2.0  # seconds the keeper has to end
_AGAIN_AFTER: Final = 1.0  # seconds, when a keeper did not start
_log = logging.getLogger("gpuaas")


class Through(asyncio.Transport):
    """One client's connection, through the gate."""

    __slots__ = ("_closing", "_gate", "_number", "_paused", "_protocol", "_under_way")

    def __init__(self, gate: "Gate", number: int, protocol: asyncio.Protocol, certificate: bytes) -> None:
        super().__init__(extra={PEER_CERTIFICATE: certificate or None})
        self._gate = gate
        self._number = number
        self._protocol = protocol
        self._under_way = 0
        self._paused = False
        self._closing = False

    def write(self, data: Any) -> None:
        if self._closing:
            return
        self._under_way += len(data)
        self._gate.give(self._number, data)
        if self._under_way > _MOST and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The keeper bounds what waits for a client; here it is only what is under way to it."""

    def get_write_buffer_size(self) -> int:
        return self._under_way

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._gate.tell(self._number, CLOSE)

    def abort(self) -> None:
        self._closing = True
        self._gate.tell(self._number, ABORT)

    def pause_reading(self) -> None:
        self._gate.tell(self._number, HOLD)

    def resume_reading(self) -> None:
        self._gate.tell(self._number, GO_ON)

    # What the gate calls.

    def received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            self._protocol.data_received(data)
        except Exception:
            _log.exception("a connection is given up")  # it, and not all others with it
            self.abort()

    def taken(self, count: int) -> None:
        self._under_way -= count
        if self._paused and self._under_way <= _LITTLE:
            self._paused = False
            self._protocol.resume_writing()

    def lost(self) -> None:
        self._closing = True
        protocol = self._protocol
        del self._protocol  # which knows this transport: a ring that only the garbage collector would find
        protocol.connection_lost(None)


class Gate(Frames):
    """Starts its keeper when it is made, so that it is ready when there is a port to keep, and again should it die."""

    def __init__(self) -> None:
        super().__init__()
        self._transports: dict[int, Through] = {}
        self._shared: Any = None  # data, and who gets it; kept until the next frame, or the end of this turn
        self._recipients: list[int] = []
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._pair, theirs = socket.socketpair()
        with theirs:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "gpuaas.apiserver.gate.keeper", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )

    async def open(self, server: asyncio.Server, tls: Tls | None, connect: Callable[[], asyncio.Protocol]) -> None:
        """The keeper listens at the server's sockets, which are bound; every client gets a protocol."""
        self._server, self._tls, self._connect = server, tls, connect
        self._loop = asyncio.get_running_loop()
        self._listens = self._loop.create_future()
        ports = [port.fileno() for port in server.sockets]
        await asyncio.to_thread(socket.send_fds, self._pair, [json.dumps(tls).encode()], ports)
        await self._loop.create_connection(lambda: self, sock=self._pair)
        await self._listens

    @property
    def sockets(self) -> tuple[Any, ...]:
        return tuple(self._server.sockets)

    def close(self) -> None:
        """Lets nobody in any more; who is in stays."""
        self._closed = True
        self._server.close()
        self.tell(0, STOP)

    async def wait_closed(self) -> None:
        self.transport.close()
        await asyncio.to_thread(self._end_keeper)

    def forsake(self) -> None:
        """When no port was found for it."""
        self._pair.close()
        self._end_keeper()

    def _end_keeper(self) -> None:
        try:
            self._keeper.wait(_GRACE)  # it ends with its end of the pair
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()

    # What transports say.

    def give(self, number: int, data: Any) -> None:
        if data is not self._shared:
            if self._shared is None:
                self._loop.call_soon(self._flush)
            else:
                self._flush()
            self._shared = data
        self._recipients.append(number)

    def tell(self, whose: int, about: int, data: bytes = b"") -> None:
        self._flush()
        if not self.transport.is_closing():
            super().tell(whose, about, data)

    def _flush(self) -> None:
        data, recipients = self._shared, self._recipients
        if data is None:
            return
        self._shared, self._recipients = None, []
        if self.transport.is_closing():
            return
        if len(recipients) > 1 and len(data) <= LONGEST:
            numbers = struct.pack(f"<{len(recipients)}I", *recipients)
            head = HEAD.pack(len(recipients), SHARED, len(numbers) + len(data))
            self.transport.writelines((head, numbers, data))
            return
        for number in recipients:
            self._send(number, data)

    def _send(self, number: int, data: Any) -> None:
        size = len(data)
        if size <= _SMALL:
            self.transport.write(HEAD.pack(number, DATA, size) + data)
            return
        whole = memoryview(data)
        for at in range(0, size, LONGEST):
            piece = whole[at : at + LONGEST]
            self.transport.writelines((HEAD.pack(number, DATA, len(piece)), piece))

    # What the keeper says.

    def frame(self, whose: int, about: int, data: bytes) -> None:
        if about == OPENED:
            protocol = self._connect()
            transport = self._transports[whose] = Through(self, whose, protocol, data)
            protocol.connection_made(transport)
        elif about == LISTENS:
            self._listens.set_result(None)
        elif about == GONE:
            self._transports.pop(whose).lost()
        else:
            transport = self._transports[whose]
            if about == DATA:
                transport.received(data)
            elif about == TAKEN:
                transport.taken(*COUNT.unpack(data))

    def connection_lost(self, exc: Exception | None) -> None:
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            transport.lost()
        if not self._listens.done():
            self._listens.set_exception(OSError("the keeper of the gate ended at once"))
        elif not self._closed:
            _log.error("the keeper of the gate has gone, and every connection with it; another one takes its place")
            self._replacing = self._loop.create_task(self._replace())

    async def _replace(self) -> None:
        await asyncio.to_thread(self._end_keeper)
        while not self._closed:
            self._start()
            try:
                await self.open(self._server, self._tls, self._connect)
            except OSError as error:
                _log.error("%s; the next one is tried in a second", error)
                await asyncio.to_thread(self._end_keeper)
                await asyncio.sleep(_AGAIN_AFTER)
            else:
                return
