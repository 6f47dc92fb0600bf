"""A connection that has left HTTP: bytes both ways, no faster than either side reads, for as long as its user may.

A `Link` has the transport; a `Carried` understands what arrives. What arrived and has not been read is counted over all
streams of the connection: above `MAX_HELD` nothing more is read from the client. Frames that ask for nothing come out of
an allowance, and a client that does not read its answers to them is cut off.
"""

from __future__ import annotations

import asyncio
import select
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.apiserver.wirelimits import FrameAllowance
from gpuaas.base import websocket_frames as ws
from gpuaas.base.websocket_frames import Piece, SocketFault

MAX_HELD: Final = 1024 * 1024  # bytes of one connection that have arrived and have not been read
PIECE: Final = 32 * 1024  # bytes of output that are sent at once
_UNSENT: Final = 64 * 1024  # bytes of the transport's buffer from which streams wait
_MAX_UNSENT: Final = 4 * 1024 * 1024  # what answers to a client that does not read may take
_PIECE_COST: Final = 128  # bytes that keeping a piece costs beside its own
_LINGER: Final = 1.0  # seconds that a client has to close a connection that is over
_UNREAD: Final = 30.0  # seconds that it has to read the last of it
_ASK_EVERY: Final = 30.0  # seconds between two looks whether the user still may


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a connection as long as it lasts."""

    allowed: Callable[[], bool]  # whether its user still may
    idle: float  # seconds without a byte of any stream
    ended: Callable[[], None]


class Carried(ABC):
    """What understands the bytes of a link."""

    @abstractmethod
    def began(self, link: Link) -> None: ...

    @abstractmethod
    def received(self, piece: Piece) -> None:
        """Raises whatever says that the peer broke the rules: the link ends."""

    def probe(self) -> bytes:
        """What any client answers, and the system of one that is gone refuses."""
        return b""

    @abstractmethod
    def lost(self) -> None:
        """The connection is gone: everything behind it ends."""


class Inbox:
    """What arrived for one stream."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pieces: deque[bytes] = deque()
        self._ended = self._unwanted = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        if self._unwanted or self._ended or not data:
            return
        self._pieces.append(data)
        self._link.hold(len(data) + _PIECE_COST)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def discard(self) -> None:
        """What has come and what will come is not read any more."""
        self._unwanted = True
        while self._pieces:
            self._take()
        self.end()

    async def read(self) -> bytes:
        """The next piece; b"" at the end. For one reader."""
        while not self._pieces:
            if self._ended:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def _take(self) -> bytes:
        piece = self._pieces.popleft()
        self._link.hold(-len(piece) - _PIECE_COST)
        return piece

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Stream(ABC):
    """One of the streams of a connection."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.inbox = Inbox(link)

    async def write(self, data: bytes) -> None:
        """Returns when the client has room for more."""
        await self.link.room()
        self.send(data)

    @abstractmethod
    def send(self, data: bytes) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """Nothing more will be written."""


class Link(asyncio.Protocol):
    """Bytes as they are; `SocketLink` puts them into WebSocket messages."""

    replaceable = False  # its client has authenticated

    def __init__(self, carried: Carried, terms: Terms, transport: asyncio.Transport, connections: set[Any]) -> None:
        self._carried = carried
        self._terms = terms
        self._transport = transport
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._allowance = FrameAllowance(self._loop.time())
        self._sent = self._held = 0
        self._reading = True
        self._room = asyncio.Event()
        self._room.set()
        self._is_over = False
        self.waits_since = self._asked = self._loop.time()

    def begin(self, head: bytes) -> None:
        self._connections.add(self)
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        self._transport.write(head)
        self._carried.began(self)
        if not self._is_over:
            self._transport.resume_reading()

    # What the streams call.

    async def room(self) -> None:
        await self._room.wait()

    def send(self, data: bytes) -> None:
        if self._is_over:
            return
        self._sent += len(data)
        self.waits_since = self._loop.time()
        self._transport.write(self._framed(data))
        if self._transport.get_write_buffer_size() > _MAX_UNSENT:
            self.abort()

    def hold(self, more: int) -> None:
        self._held += more
        if self._reading is (self._held > MAX_HELD) and not self._is_over:
            self._reading = not self._reading
            if self._reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def spend(self, cost: float = 1.0) -> None:
        """For a frame that asks for nothing."""
        if not self._allowance.spend(self._loop.time(), self._sent, cost):
            raise SocketFault(ws.POLICY, "more frames that carry nothing than are allowed")

    def close(self, code: int = ws.NORMAL) -> None:
        """What has been written still goes out. The client closes the connection when it has read that: were the server
        first, with something of the client's unread, the system would take it back."""
        if not self._is_over:
            self._transport.write(self._farewell(code))
            self._end()
            self._transport.resume_reading()
            self._loop.call_later(_LINGER, self._transport.close)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._room.set()
            self._carried.lost()
            self._terms.ended()

    # What a kind of link does.

    def _framed(self, data: bytes) -> bytes:
        return data

    def _farewell(self, code: int) -> bytes:
        return b""

    def _probe(self) -> bytes:
        return self._carried.probe()

    def _hear(self, data: bytes) -> None:
        self.waits_since = self._loop.time()
        self._carried.received(Piece(data, True, True, False))

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._hear(data)
        except SocketFault as fault:
            self.close(fault.code)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._end()

    # What the listener calls.

    def look(self, now: float) -> None:
        if self._is_over:
            if now - self.waits_since > _UNREAD:
                self.abort()
        elif not self._reading and _has_left(self._transport):
            self.abort()
        elif not self._reading:
            self._transport.write(self._probe())  # the next look sees what came of it
        elif now - self.waits_since > self._terms.idle:
            self.close()
        elif now - self._asked >= _ASK_EVERY:
            self._asked = now
            if not self._terms.allowed():
                self.close(ws.POLICY)

    def shut_down(self) -> None:
        self.close()

    def abort(self) -> None:
        self._transport.abort()


def _has_left(transport: asyncio.Transport) -> bool:
    """Whether the client has closed the connection, which is not heard while nothing is read from it. Its farewell may be
    stuck behind what it had still to send: then only something sent to it (`probe`) shows that it is gone."""
    socket = transport.get_extra_info("socket")
    if socket is None or not hasattr(select, "POLLRDHUP"):
        return False
    asked = select.poll()
    asked.register(socket.fileno(), select.POLLRDHUP)
    return bool(asked.poll(0))


class SocketLink(Link):
    """A WebSocket. Pings keep it open for the network's sake and do not count as use."""

    def __init__(self, carried: Carried, terms: Terms, transport: asyncio.Transport, connections: set[Any]) -> None:
        super().__init__(carried, terms, transport, connections)
        self._decoder = ws.Decoder(masked=True)

    def _framed(self, data: bytes) -> bytes:
        return ws.frame(ws.BINARY, data)

    def _farewell(self, code: int) -> bytes:
        return ws.frame(ws.CLOSE, code.to_bytes(2, "big"))

    def _probe(self) -> bytes:
        return ws.frame(ws.PING, b"")

    def _hear(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            if self._is_over:
                return
            if isinstance(event, Piece):
                if len(event.data) < 2:
                    self.spend()
                else:
                    self.waits_since = self._loop.time()
                self._carried.received(event)
                continue
            self.spend()
            if event.kind == ws.PING:
                self._transport.write(ws.frame(ws.PONG, event.payload))
                if self._transport.get_write_buffer_size() > _MAX_UNSENT:
                    self.abort()
            elif event.kind == ws.CLOSE:
                code = int.from_bytes(event.payload[:2], "big") or ws.NORMAL
                self.close(code if code in (ws.NORMAL, 1001) else ws.NORMAL)
