"""HTTP/2 on an asyncio protocol: many requests of one client at a time over one connection, as Go's clients ask for it.

The same handlers as HTTP/1.1's (`http`): requests in, responses and streams out. Each stream is an `Exchange`: it grows
until the client has said everything, is answered in its turn, and ends. What a client may do is bounded (streams, bodies,
headers, what it takes back), and a client that breaks the rules gets a GOAWAY with the rule. What goes out is `http2_sending`'s, how
frames and header blocks look is `frames`'.
"""

import asyncio
import struct
from collections.abc import Awaitable
from functools import partial
from typing import Final, cast

import hpack

from gpuaas.apiserver import frames
from gpuaas.apiserver.frames import ConnectionFault, StreamFault
from gpuaas.apiserver.headerblocks import LARGEST_BLOCK, Fields, HeaderBlocks, TooLarge
from gpuaas.apiserver.http import (
    IDLE_LIMIT,
    MAX_CONNECTIONS,
    PIECE,
    REQUEST_LIMIT,
    Answer,
    Handler,
    Knows,
    Request,
    Response,
    knows_everybody,
    split_target,
)
from gpuaas.apiserver.http2_sending import CANCEL, WINDOW, Exchange, Outbox, Sender
from gpuaas.apiserver.load_shedding import Slices
from gpuaas.apiserver.wirelimits import (
    MAX_BODY,
    MAX_HEADERS,
    TOO_LARGE_HEADERS,
    FrameAllowance,
    admit,
    is_field,
    is_host,
    is_value,
)

_STREAMS: Final = 250  # of one connection at a time, as the real server allows
_CONNECTION_WINDOW: Final = 4 * 1024 * 1024
_HELD: Final = 16 * 1024 * 1024  # bytes of bodies that are not answered yet; more are not asked for
_CONTINUATIONS: Final = 64
_FRAMES_AT_ONCE: Final = 32  # between two looks at the clock
_OVERSIZED_COST: Final = 20.0  # of a header list that is refused, in frames that ask for nothing
_NOT_IN_HTTP2 = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_NEEDED = frozenset({b":method", b":path", b":scheme"})
_PSEUDO = _NEEDED | {b":authority"}


class Http2Connection(asyncio.Protocol):
    transport: asyncio.Transport
    _out: Outbox
    _sender: Sender

    def __init__(
        self, handler: Handler, connections: "set[Http2Connection]", slices: Slices, knows: Knows = knows_everybody
    ) -> None:
        self._handler = handler
        self._knows = knows
        self._connections = connections
        self._slices = slices
        self._loop = asyncio.get_running_loop()
        self._blocks = HeaderBlocks()
        self._input = b""
        self._reading = False  # what has arrived is read when its turn comes
        self._behind = False  # more has arrived than could be read at once: no more is taken
        self._room = True  # the client reads what it is sent
        self._allowance = FrameAllowance(self._loop.time())
        self._known = False
        self._begun = self._greeted = False
        self._block: tuple[int, int, bytearray] | None = None  # stream, flags and header block that is not whole yet
        self._continuations = 0
        self._streams: dict[int, Exchange] = {}
        self._last = 0
        self._queued = 0
        self._held = self._owed = 0
        self._allowed = 65535
        self._going = False
        self.waits_since, self._limit = self._loop.time(), REQUEST_LIMIT

    @property
    def replaceable(self) -> bool:
        return not (self._known or self._streams)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=PIECE)
        if not admit(self._connections, self, MAX_CONNECTIONS):
            self.transport.abort()
            return
        self._out = Outbox(self.transport, self._loop)
        self._sender = Sender(self._out, self._close, self._reset)
        ours = {
            frames.MAX_CONCURRENT_STREAMS: _STREAMS,
            frames.INITIAL_WINDOW_SIZE: WINDOW,
            frames.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
        }
        self._out.send(frames.settings(ours) + frames.window_update(0, _CONNECTION_WINDOW - self._allowed))
        self._allowed = _CONNECTION_WINDOW

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for exchange in tuple(self._streams.values()):
            self._abandon(exchange)

    def data_received(self, data: bytes) -> None:
        self._input = self._input + data if self._input else data
        if not self._reading:
            self._reading = True
            self._slices.run(self._read_on)

    def _read_on(self) -> None:
        """The frames that have arrived, a few at a time, as long as others need not wait for them."""
        self._reading = False
        at, more = 0, True
        try:
            while more and not self.transport.is_closing():
                at, more = self._read(self._input, at)
                if more and self._slices.is_over():
                    break
        except ConnectionFault as fault:
            self._input = b""
            self._leave(fault.code, str(fault))
            self._out.close()
            return
        self._input = b"" if self.transport.is_closing() else self._input[at:]
        if more and self._input:
            self._reading = self._behind = True
            self.transport.pause_reading()
            self._slices.later(self._read_on)
        elif self._behind:
            self._behind = False
            if self._room and not self.transport.is_closing():
                self.transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._room = False
        self.transport.pause_reading()  # who does not read the answers may not ask for more
        self._sender.no_room(tuple(self._streams.values()))

    def resume_writing(self) -> None:
        self._room = True
        if not self._behind:
            self.transport.resume_reading()
        self._sender.room()

    # Frames

    def _read(self, data: bytes, at: int) -> tuple[int, bool]:
        """Some of the frames that are whole; gives how far that was, and whether there are more."""
        if not self._begun:
            if data[: len(frames.PREFACE)] != frames.PREFACE[: len(data)]:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "not the preface of HTTP/2")
            if len(data) < len(frames.PREFACE):
                return at, False
            self._begun, at = True, len(frames.PREFACE)
        count = 0
        while len(data) - at >= frames.HEADER_SIZE:
            head = int.from_bytes(data[at : at + frames.HEADER_SIZE], "big")
            size, kind, flags, number = head >> 48, head >> 40 & 255, head >> 32 & 255, head & frames.LARGEST_WINDOW
            if size > frames.LARGEST_FRAME:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            start = at + frames.HEADER_SIZE
            if len(data) - start < size:
                break
            if count >= _FRAMES_AT_ONCE:
                return at, True
            at = start + size
            self._take(kind, flags, number, data[start:at])
            # A byte of a header block can stand for a field, and unpacking 32 of them takes as long as another frame.
            count += 1 + size // 32 if kind in (frames.HEADERS, frames.CONTINUATION) else 1
            if self.transport.is_closing():
                return len(data), False
        return at, False

    def _spend(self, what: str, cost: float = 1.0) -> None:
        """Of frames that ask for nothing, a client may send only so many."""
        if not self._allowance.spend(self._loop.time(), self._sender.sent, cost):
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, f"more {what} than the limit for one connection")

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._greeted and kind != frames.SETTINGS:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "the first frame has to be SETTINGS")
        if self._block is not None and (kind != frames.CONTINUATION or number != self._block[0]):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a header block has to be finished first")
        if kind > frames.CONTINUATION:
            self._spend("frames of unknown types")
            return  # of an extension: to be ignored
        if kind in _ASKS_FOR_NOTHING or not payload:
            self._spend("frames that ask for nothing")
        try:
            _BY_KIND[kind](self, flags, number, payload)
        except StreamFault as fault:
            self._reset(fault.stream, fault.code)

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        if number == 0 or number > self._last:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "DATA on a stream that is not open")
        size = len(payload)
        self._allowed -= size
        self._owed += size
        if self._allowed < 0:
            raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "more than the connection's window")
        exchange = self._streams.get(number)
        if exchange is None or exchange.complete:
            self._credit()
            raise StreamFault(number, frames.STREAM_CLOSED)
        exchange.allowed -= size
        if exchange.allowed < 0:
            raise StreamFault(number, frames.FLOW_CONTROL_ERROR)
        self._keep(exchange, frames.without_padding(flags, payload))
        if flags & frames.END_STREAM:
            self._credit()
            self._complete(exchange)
            return
        exchange.owed += size
        if exchange.owed > WINDOW // 2:
            self._out.send(frames.window_update(number, exchange.owed))
            exchange.allowed += exchange.owed
            exchange.owed = 0
        self._credit()

    def _keep(self, exchange: Exchange, piece: bytes) -> None:
        body = exchange.body
        before = body.kept
        others = 0 if self._known else self._held - before
        body.add(piece, lambda: self._knows(exchange.request), others=others)
        self._held += body.kept - before
        if body.size > 8 * MAX_BODY:
            raise StreamFault(exchange.number, frames.ENHANCE_YOUR_CALM)

    def _credit(self) -> None:
        """Lets the client send as much again as it has sent, while there is room for it."""
        if self._owed > WINDOW // 2 and self._held < _HELD:
            self._out.send(frames.window_update(0, self._owed))
            self._allowed += self._owed
            self._owed = 0

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        if number % 2 == 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "HEADERS on a stream that is not a client's")
        block = frames.without_padding(flags, payload)
        if flags & frames.WITH_PRIORITY:
            if len(block) < 5:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, "HEADERS without all of their priority")
            if int.from_bytes(block[:4], "big") & frames.LARGEST_WINDOW == number:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "a stream that depends on itself")
            block = block[5:]
        known = self._streams.get(number)
        if known is None and number <= self._last:
            raise ConnectionFault(frames.STREAM_CLOSED, "HEADERS on a stream that has ended")
        if known is not None and (known.complete or not flags & frames.END_STREAM):
            code = frames.STREAM_CLOSED if known.complete else frames.PROTOCOL_ERROR
            raise ConnectionFault(code, "HEADERS in the middle of a stream")
        self._last = max(self._last, number)
        if flags & frames.END_HEADERS:
            self._on_block(number, flags, block)
        else:
            self._block, self._continuations = (number, flags, bytearray(block)), 0

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "CONTINUATION of nothing")
        _, first_flags, block = self._block
        block += payload
        self._continuations += 1
        if len(block) > LARGEST_BLOCK or self._continuations > _CONTINUATIONS:
            raise ConnectionFault(
                frames.ENHANCE_YOUR_CALM,
                f"a header block of more than {LARGEST_BLOCK} bytes or {_CONTINUATIONS} frames: that is the limit",
            )
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(number, first_flags, bytes(block))

    def _on_block(self, number: int, flags: int, block: bytes) -> None:
        try:
            fields = self._blocks.unpack(block)
        except TooLarge as error:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, str(error)) from error
        except hpack.HPACKError as error:
            raise ConnectionFault(frames.COMPRESSION_ERROR, str(error)) from error
        known = self._streams.get(number)
        if known is not None:  # trailers: nothing we ask for
            if any(name.startswith(b":") for name, _ in fields or ()):
                raise StreamFault(number, frames.PROTOCOL_ERROR)
            self._complete(known)
            return
        if self._going or len(self._streams) >= _STREAMS:
            raise StreamFault(number, frames.REFUSED_STREAM)
        request = Request(self.transport) if fields is None else read_request(fields, self.transport)
        if request is None:
            raise StreamFault(number, frames.PROTOCOL_ERROR)
        exchange = self._streams[number] = Exchange(number, request, self._sender.first_window, self._loop.time())
        if fields is None:
            self._spend("headers that are too large", _OVERSIZED_COST)
            exchange.complete = True
            self._sender.send(exchange, Response(431, TOO_LARGE_HEADERS, b"text/plain"))
        elif flags & frames.END_STREAM:
            self._complete(exchange)

    def _on_priority(self, flags: int, number: int, payload: bytes) -> None:
        if number == 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            raise StreamFault(number, frames.FRAME_SIZE_ERROR)
        if int.from_bytes(payload[:4], "big") & frames.LARGEST_WINDOW == number:
            raise StreamFault(number, frames.PROTOCOL_ERROR)

    def _on_reset(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "RST_STREAM of another size than 4")
        if number == 0 or number > self._last:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "RST_STREAM of a stream that never was")
        exchange = self._streams.get(number)
        if exchange is not None:
            self._abandon(exchange)

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number != 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "SETTINGS of a size that cannot be")
        self._greeted = True
        if flags & frames.ACK:
            return
        # The last value of each: a change of the window goes through all streams, and a frame has room for 2,730 of them.
        for key, value in dict(struct.iter_unpack(">HI", payload)).items():
            self._set(key, value)
        self._out.send(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._sender.go_on()

    def _set(self, key: int, value: int) -> None:
        match key:
            case frames.INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW:
                    raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window larger than windows may be")
                self._sender.set_first_window(value, self._streams.values())
            case frames.MAX_FRAME_SIZE:
                if not frames.LARGEST_FRAME <= value < 2**24:
                    raise ConnectionFault(frames.PROTOCOL_ERROR, f"frames of up to {value} bytes")
                self._sender.set_largest_frame(value)
            case 0x2 if value > 1:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "pushing is neither on nor off")

    def _on_promise(self, flags: int, number: int, payload: bytes) -> None:
        raise ConnectionFault(frames.PROTOCOL_ERROR, "clients promise nothing")

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number != 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "PING of another size than 8")
        if not flags & frames.ACK:
            self._out.send(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, flags: int, number: int, payload: bytes) -> None:
        if number != 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "GOAWAY of a stream")

    def _on_window(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "WINDOW_UPDATE of another size than 4")
        more = int.from_bytes(payload, "big") & frames.LARGEST_WINDOW
        if number > self._last or (number == 0 and more == 0):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "WINDOW_UPDATE of nothing")
        exchange = self._streams.get(number)
        if number == 0:
            self._sender.widen(more)
        elif exchange is not None:
            self._sender.widen_one(exchange, more)

    # Answering

    def _complete(self, exchange: Exchange) -> None:
        request = exchange.request
        length = request.headers.get(b"content-length")
        if length is not None and length != b"%d" % exchange.body.size:
            raise StreamFault(exchange.number, frames.PROTOCOL_ERROR)
        exchange.complete = True
        request.too_large = exchange.body.size > MAX_BODY
        request.body = exchange.body.take()
        self._queued += 1
        if self._queued > 4 * _STREAMS:  # asked for and taken back faster than anybody could answer
            raise ConnectionFault(
                frames.ENHANCE_YOUR_CALM, "more streams begun and taken back than the limit for one connection"
            )
        self._slices.run(partial(self._answer, exchange))

    def _answer(self, exchange: Exchange) -> None:
        self._queued -= 1
        if exchange.gone:
            return
        answer = self._handler(exchange.request)
        self._known = self._known or exchange.request.known
        if isinstance(answer, Awaitable):
            exchange.task = self._loop.create_task(self._wait(exchange, answer))
        else:
            self._sender.send(exchange, answer)

    async def _wait(self, exchange: Exchange, answer: Awaitable[Answer]) -> None:
        result = await answer
        exchange.task = None
        self._sender.send(exchange, result)

    # Ends

    def _reset(self, number: int, code: int) -> None:
        if not self.transport.is_closing():
            self._out.send(frames.reset(number, code))
        exchange = self._streams.get(number)
        if exchange is not None:
            self._abandon(exchange)

    def _abandon(self, exchange: Exchange) -> None:
        """The client no longer wants it, or can no longer be reached."""
        if exchange.task is not None:
            exchange.task.cancel()
        self._close(exchange)

    def _close(self, exchange: Exchange) -> None:
        if exchange.gone:
            return
        exchange.gone = True
        self._streams.pop(exchange.number, None)
        self._sender.forget(exchange)
        exchange.waiting.clear()
        self._held -= exchange.body.kept
        exchange.body.take()
        self.waits_since, self._limit = self._loop.time(), IDLE_LIMIT
        writer, exchange.writer = exchange.writer, None
        if writer is not None:
            writer.closed = True
            writer.on_pause = writer.on_resume = None
        on_gone, exchange.on_gone = exchange.on_gone, None
        if on_gone is not None:
            on_gone()
        if self._going and not self._streams:
            self._out.close()
        elif not self.transport.is_closing():
            self._credit()

    def _leave(self, code: int, words: str = "") -> None:
        if not self._going and not self.transport.is_closing():
            self._out.send(frames.goaway(self._last, code, words))
        self._going = True

    def look(self, now: float) -> None:
        """Lets go of requests that were begun and do not end, and of a client that has asked nothing for long."""
        for exchange in tuple(self._streams.values()):
            if not exchange.complete and now - exchange.began >= REQUEST_LIMIT:
                self._reset(exchange.number, CANCEL)
        if not self._streams and now - self.waits_since >= self._limit:
            self._leave(frames.NO_ERROR)
            self._out.close()

    def abort(self) -> None:
        self.transport.abort()

    def shut_down(self) -> None:
        """Ends streams at once; requests under way are given the time their handlers take."""
        self._leave(frames.NO_ERROR)
        for exchange in tuple(self._streams.values()):
            if exchange.writer is not None:
                exchange.writer.close()
            elif not exchange.complete:
                self._abandon(exchange)
        if not self._streams:
            self._out.close()


_BY_KIND: Final = (
    Http2Connection._on_data,
    Http2Connection._on_headers,
    Http2Connection._on_priority,
    Http2Connection._on_reset,
    Http2Connection._on_settings,
    Http2Connection._on_promise,
    Http2Connection._on_ping,
    Http2Connection._on_goaway,
    Http2Connection._on_window,
    Http2Connection._on_continuation,
)


_ASKS_FOR_NOTHING: Final = frozenset(
    (frames.PRIORITY, frames.RST_STREAM, frames.SETTINGS, frames.PING, frames.GOAWAY, frames.WINDOW_UPDATE)
)


def read_request(fields: Fields, transport: asyncio.Transport) -> Request | None:
    """The request that a stream's headers begin; None if they break the rules."""
    request = Request(transport)
    headers = request.headers
    pseudo: dict[bytes, bytes] = {}
    for name, value in fields:
        if name[:1] == b":":
            if headers or name in pseudo or name not in _PSEUDO or not is_value(value):
                return None
            pseudo[name] = value
            continue
        if not is_field(name, value) or name in _NOT_IN_HTTP2 or (name == b"te" and value != b"trailers"):
            return None
        headers[name] = headers[name] + b"\n" + value if name in headers else value  # repeated ones, kept apart
    if not pseudo.keys() >= _NEEDED or not pseudo[b":path"].startswith((b"/", b"*")):
        return None
    if b":authority" in pseudo:
        headers.setdefault(b"host", pseudo[b":authority"])
    if not is_host(headers.get(b"host", b"")):
        return None
    request.method = pseudo[b":method"].decode("latin-1")
    request.path, request.query = split_target(pseudo[b":path"])
    return request
