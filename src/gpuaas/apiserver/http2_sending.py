"""What goes out over HTTP/2: answers and streams, as far as the client's windows and the connection take them.

What waits for room waits with its `Exchange`; a watch that would have to wait is paused, keeps its place in history and
no memory. What comes in is `http2`'s.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from gpuaas.apiserver import frames
from gpuaas.apiserver.http import PIECE, SLOW_READER, Answer, Request, Response, StreamWriter, now_on_the_wire
from gpuaas.apiserver.wirelimits import Body

WINDOW: Final = 512 * 1024  # that each stream of a client may send before we say more
CANCEL: Final = 0x8
_LARGEST_SENT: Final = 64 * 1024  # a frame of ours, if the client takes it


class Outbox:
    """What leaves a connection, in order. Pieces of streams wait for the others of the same turn of the loop and leave with
    them (watchers that share a connection see a change together, and encrypting and sending cost by the piece); whatever
    is an answer takes along what waits and leaves at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes | memoryview] = []
        self._size = 0

    @property
    def closing(self) -> bool:
        return self._transport.is_closing()

    def gather(self, head: bytes, piece: bytes | memoryview) -> None:
        waiting = self._waiting
        if not waiting:
            self._loop.call_soon(self.flush)
        waiting += (head, piece)
        self._size += len(piece)
        if self._size >= PIECE:
            self.flush()

    def send(self, data: bytes) -> None:
        if self._waiting:
            self._waiting.append(data)
            self.flush()
        else:
            self._transport.write(data)

    def flush(self) -> None:
        waiting = self._waiting
        if waiting:
            self._waiting, self._size = [], 0
            self._transport.write(b"".join(waiting))
            if self._transport.get_write_buffer_size() > SLOW_READER:
                self._transport.abort()

    def close(self) -> None:
        self.flush()
        self._transport.close()


class Exchange:
    """One stream: the request as far as it has arrived, and the answer as far as it has not been sent."""

    __slots__ = (
        "allowed", "began", "body", "closing", "complete", "gone", "number", "on_gone", "owed", "paused", "request", "task",
        "waiting", "waiting_bytes", "window", "writer",
    )  # fmt: skip

    def __init__(self, number: int, request: Request, window: int, now: float) -> None:
        self.number = number
        self.request = request
        self.began = now
        self.body = Body()
        self.owed = 0
        self.allowed = WINDOW  # what the client may still send
        self.complete = False
        self.window = window  # what we may still send
        self.waiting: deque[memoryview] = deque()
        self.waiting_bytes = 0
        self.closing = False
        self.paused = self.gone = False
        self.writer: FramedWriter | None = None
        self.on_gone: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None


class FramedWriter(StreamWriter):
    __slots__ = ("_exchange", "_sender")

    def __init__(self, sender: "Sender", exchange: Exchange) -> None:
        super().__init__()
        self._sender = sender
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        if not self.closed and data:
            self._sender.send_data(self._exchange, data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._sender.end_stream(self._exchange)


class Sender:
    """The sending side of one connection."""

    def __init__(
        self,
        out: Outbox,
        closed: Callable[[Exchange], None],
        reset: Callable[[int, int], None],
    ) -> None:
        self._out = out
        self._closed = closed
        self._reset = reset
        self._window = self.first_window = 65535
        """What the client takes of all streams together, and of a new one."""
        self._largest = frames.LARGEST_FRAME
        self._blocked: dict[int, Exchange] = {}
        self._paused: dict[int, Exchange] = {}
        self._room = True
        self.sent = 0  # bytes of answers

    # What the client grants

    def widen(self, more: int) -> None:
        self._window += more
        if self._window > frames.LARGEST_WINDOW:
            raise frames.ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window larger than windows may be")
        if self._blocked:
            self.go_on()

    def widen_one(self, exchange: Exchange, more: int) -> None:
        if more == 0:
            raise frames.StreamFault(exchange.number, frames.PROTOCOL_ERROR)
        exchange.window += more
        if exchange.window > frames.LARGEST_WINDOW:
            raise frames.StreamFault(exchange.number, frames.FLOW_CONTROL_ERROR)
        if exchange.waiting:
            self._pump(exchange)

    def set_first_window(self, size: int, streams: Iterable[Exchange]) -> None:
        """Also of streams that are open: theirs grow or shrink by the difference."""
        for exchange in streams:
            exchange.window += size - self.first_window
            if exchange.window > frames.LARGEST_WINDOW:
                raise frames.ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window larger than windows may be")
        self.first_window = size

    def set_largest_frame(self, size: int) -> None:
        self._largest = min(size, _LARGEST_SENT)

    def no_room(self, streams: Iterable[Exchange]) -> None:
        self._room = False
        for exchange in streams:
            self._pause(exchange)

    def room(self) -> None:
        self._room = True
        self.go_on()

    def forget(self, exchange: Exchange) -> None:
        self._blocked.pop(exchange.number, None)
        self._paused.pop(exchange.number, None)

    # What is sent

    def send(self, exchange: Exchange, answer: Answer) -> None:
        if exchange.gone or self._out.closing:
            return
        bodyless = exchange.request.method == "HEAD"
        if isinstance(answer, Response):
            self._send_response(exchange, answer, bodyless)
            return
        block = frames.answer_block(answer.status, answer.content_type, None, now_on_the_wire(), answer.headers)
        flags = frames.END_STREAM if bodyless else 0
        self._out.send(frames.header_frames(exchange.number, block, flags, self._largest))
        if bodyless:
            self._closed(exchange)
            return
        writer = exchange.writer = FramedWriter(self, exchange)
        on_gone = answer.start(writer)
        if writer.closed:  # it had nothing to wait for, or the client has gone meanwhile
            on_gone()
        else:
            exchange.on_gone = on_gone
            if not self._room:
                self._pause(exchange)

    def _send_response(self, exchange: Exchange, response: Response, bodyless: bool) -> None:
        body = b"" if bodyless or response.status in (204, 304) else response.body
        length = None if response.status == 204 else len(response.body)
        kind = b"" if response.status == 204 else response.content_type
        block = frames.answer_block(response.status, kind, length, now_on_the_wire(), response.headers)
        flags = 0 if body else frames.END_STREAM
        head = frames.header_frames(exchange.number, block, flags, self._largest)
        size = len(body)
        if size <= self._most(exchange) and self._room:
            if body:
                self._spend(exchange, size)
                head += frames.frame_header(frames.DATA, frames.END_STREAM, exchange.number, size) + body
            self._out.send(head)
            self._closed(exchange)
            return
        self._out.send(head)
        exchange.closing = True
        exchange.waiting.append(memoryview(body))
        exchange.waiting_bytes = size
        self._pump(exchange)

    def send_data(self, exchange: Exchange, data: bytes) -> None:
        size = len(data)
        if not exchange.waiting and self._room and size <= self._most(exchange):
            self._spend(exchange, size)
            self._out.gather(frames.frame_header(frames.DATA, 0, exchange.number, size), data)
        else:
            exchange.waiting.append(memoryview(data))
            exchange.waiting_bytes += size
            self._pump(exchange)
            if exchange.waiting_bytes > SLOW_READER:
                self._reset(exchange.number, CANCEL)

    def end_stream(self, exchange: Exchange) -> None:
        """The stream said all it had to say."""
        if exchange.gone or self._out.closing:
            return
        if exchange.waiting:
            exchange.closing = True
            return
        self._out.send(frames.frame(frames.DATA, frames.END_STREAM, exchange.number))
        self._closed(exchange)

    def _most(self, exchange: Exchange) -> int:
        return min(self._largest, exchange.window, self._window)

    def _spend(self, exchange: Exchange, size: int) -> None:
        exchange.window -= size
        self._window -= size
        self.sent += size

    def _pump(self, exchange: Exchange) -> None:
        """Sends of what waits as much as the windows and the connection take."""
        waiting = exchange.waiting
        while waiting and self._room:
            most = self._most(exchange)
            if most <= 0:
                break
            piece = waiting[0]
            if len(piece) > most:
                waiting[0] = piece[most:]
                piece = piece[:most]
            else:
                waiting.popleft()
            self._spend(exchange, len(piece))
            exchange.waiting_bytes -= len(piece)
            last = exchange.closing and not waiting
            flags = frames.END_STREAM if last else 0
            # May find out that there is no more room, or that the client has gone.
            self._out.gather(frames.frame_header(frames.DATA, flags, exchange.number, len(piece)), piece)
            if last:
                self._closed(exchange)
        if exchange.gone:
            return
        if waiting:
            self._blocked[exchange.number] = exchange
            self._pause(exchange)
        else:
            self._blocked.pop(exchange.number, None)
            self._resume(exchange)

    def go_on(self) -> None:
        """There may be room again: waiting senders go on, one after the other."""
        for exchange in tuple(self._blocked.values()):
            if not self._room or self._window <= 0:
                return
            if not exchange.gone:
                self._pump(exchange)
        for exchange in tuple(self._paused.values()):
            if not self._room:
                return
            if not exchange.waiting:
                self._resume(exchange)

    def _pause(self, exchange: Exchange) -> None:
        writer = exchange.writer
        if writer is not None and not exchange.paused and writer.on_pause is not None:
            exchange.paused = True
            self._paused[exchange.number] = exchange
            writer.on_pause()

    def _resume(self, exchange: Exchange) -> None:
        if exchange.paused and not exchange.gone:
            exchange.paused = False
            self._paused.pop(exchange.number, None)
            writer = exchange.writer
            if writer is not None and writer.on_resume is not None and not writer.closed:
                writer.on_resume()
