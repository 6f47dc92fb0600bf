"""HTTP/2 on the wire: many requests at once, windows, limits, streams and their end. The client is the h2 library's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gpuaas.apiserver import frames
from gpuaas.apiserver.http import MAX_BODY, Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.http2 import Http2Connection
from gpuaas.apiserver.load_shedding import Slices
from gpuaas.apiserver.wirelimits import TOO_LARGE_HEADERS

Handler = Callable[[Request], Answer | Awaitable[Answer]]


def echo(request: Request) -> Answer:
    """What arrived, as one line; a path of /large answers long."""
    if request.path == "/large":
        return Response(200, bytes(range(256)) * 4096, b"text/plain")
    if request.too_large:
        return Response(413, b"too large", b"text/plain")
    if request.path == "/nothing":
        return Response(204, b"")
    told = f"{request.method} {request.path} {request.query} {len(request.body)} {request.header(b'x')}"
    return Response(200, told.encode(), b"text/plain", ((b"Warning", b"299 - " + b"w" * 300),))


class Client:
    """Asks, and gathers what comes of it; takes what is sent to it unless told not to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, takes: bool = True) -> None:
        self.reader, self.writer, self.takes = reader, writer, takes
        self.wire = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False))
        self.status: dict[int, int] = {}
        self.headers: dict[int, dict[str, str]] = {}
        self.body: dict[int, bytes] = {}
        self.ended: dict[int, str] = {}
        self.order: list[int] = []

    async def begin(self) -> None:
        self.wire.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        self.writer.write(self.wire.data_to_send())
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        number = self.wire.get_next_available_stream_id()
        fields = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "here"), *headers.items()]
        self.wire.send_headers(number, fields, end_stream=not body)
        await self.flush()
        rest = body or b""
        while rest:
            room = min(self.wire.local_flow_control_window(number), self.wire.max_outbound_frame_size, len(rest))
            if room == 0:
                await self.listen(lambda: self.wire.local_flow_control_window(number) > 0 or number in self.ended)
                if number in self.ended:
                    return number
                continue
            self.wire.send_data(number, rest[:room], end_stream=room == len(rest))
            rest = rest[room:]
            await self.flush()
        return number

    async def listen(self, until: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not until():
                data = await self.reader.read(65536)
                if not data:
                    return
                for event in self.wire.receive_data(data):
                    self._hear(event)
                await self.flush()

    def _hear(self, event: Any) -> None:
        match event:
            case h2.events.ResponseReceived():
                headers = {key.decode(): value.decode() for key, value in event.headers}
                self.status[event.stream_id], self.headers[event.stream_id] = int(headers[":status"]), headers
                self.order.append(event.stream_id)
            case h2.events.DataReceived():
                self.body[event.stream_id] = self.body.get(event.stream_id, b"") + event.data
                if self.takes and event.flow_controlled_length:
                    self.wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self.ended.setdefault(event.stream_id, "ended")
            case h2.events.StreamReset():
                self.ended[event.stream_id] = h2.errors.ErrorCodes(event.error_code).name

    async def answer(self, number: int) -> tuple[int, bytes]:
        await self.listen(lambda: number in self.ended)
        return self.status.get(number, 0), self.body.get(number, b"")


@asynccontextmanager
async def serving(handler: Handler) -> Any:
    connections: set[Http2Connection] = set()
    slices = Slices()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Http2Connection(handler, connections, slices), "127.0.0.1", 0)
    clients: list[Client] = []

    async def connect(*, takes: bool = True, begins: bool = True) -> Client:
        streams = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        clients.append(Client(*streams, takes=takes))
        if begins:
            await clients[-1].begin()
        return clients[-1]

    connect.connections = connections  # type: ignore[attr-defined]
    try:
        yield connect
    finally:
        server.close()
        for client in clients:
            client.writer.close()
        for connection in tuple(connections):
            connection.abort()


async def comes_true(what: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if what():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


def told(story: Callable[[Any], Awaitable[None]], handler: Handler = echo) -> None:
    async def run() -> None:
        async with serving(handler) as connect:
            await story(connect)

    asyncio.run(run())


def test_requests_are_answered_one_after_the_other_and_many_at_once() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        for _ in range(3):
            number = await client.ask("GET", "/a%20b?c=d", x="y")
            assert await client.answer(number) == (200, b"GET /a b c=d 0 y")
        assert client.headers[number]["warning"] == "299 - " + "w" * 300
        numbers = [await client.ask("POST", f"/{each}", b"b" * each) for each in range(100)]
        for each, number in enumerate(numbers):
            assert await client.answer(number) == (200, f"POST /{each}  {each} ".encode())

    told(story)


def test_a_quick_answer_overtakes_a_slow_one() -> None:
    slow = asyncio.Event()

    async def later() -> Answer:
        await slow.wait()
        return Response(200, b"slow")

    def handler(request: Request) -> Answer | Awaitable[Answer]:
        return later() if request.path == "/slow" else Response(200, b"quick")

    async def story(connect: Any) -> None:
        client = await connect()
        first, second = await client.ask("GET", "/slow"), await client.ask("GET", "/quick")
        assert await client.answer(second) == (200, b"quick")
        slow.set()
        assert await client.answer(first) == (200, b"slow")

    told(story, handler)


def test_bodies_of_any_size_come_through_the_windows() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        several = [await client.ask("GET", "/large") for _ in range(3)]
        for number in several:
            assert await client.answer(number) == (200, bytes(range(256)) * 4096)
        sent = await client.ask("POST", "/", b"b" * 2_500_000)
        assert await client.answer(sent) == (200, b"POST /  2500000 ")
        sent = await client.ask("POST", "/", b"b" * (MAX_BODY + 1))
        assert await client.answer(sent) == (413, b"too large")
        sent = await client.ask("POST", "/", b"b" * (8 * MAX_BODY + 1))
        await client.listen(lambda: sent in client.ended)
        assert client.ended[sent] == "ENHANCE_YOUR_CALM"
        assert await client.answer(await client.ask("GET", "/after")) == (200, b"GET /after  0 ")

    told(story)


def test_answers_without_a_body_have_none() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        head = await client.ask("HEAD", "/large")
        assert await client.answer(head) == (200, b"")
        assert client.headers[head]["content-length"] == str(256 * 4096)
        nothing = await client.ask("DELETE", "/nothing")
        assert await client.answer(nothing) == (204, b"")
        assert "content-length" not in client.headers[nothing]

    told(story)


class Watched:
    """A handler whose answers are streams, and what becomes of them."""

    def __init__(self) -> None:
        self.writers: list[StreamWriter] = []
        self.heard: list[str] = []

    def __call__(self, request: Request) -> Answer:
        return Stream(self._start)

    def _start(self, writer: StreamWriter) -> Callable[[], None]:
        self.writers.append(writer)
        writer.on_pause = lambda: self.heard.append("pause")
        writer.on_resume = lambda: self.heard.append("resume")
        writer.write(b"first\n")
        return lambda: self.heard.append("gone")


def test_a_stream_goes_on_until_it_is_closed() -> None:
    watched = Watched()

    async def story(connect: Any) -> None:
        client = await connect()
        number = await client.ask("GET", "/")
        await client.listen(lambda: client.body.get(number) == b"first\n")
        watched.writers[0].write(b"second\n")
        watched.writers[0].close()
        watched.writers[0].write(b"never\n")
        assert await client.answer(number) == (200, b"first\nsecond\n")
        assert watched.heard == ["gone"]

    told(story, watched)


def test_a_client_that_does_not_take_what_it_is_sent_pauses_its_stream_and_no_other() -> None:
    watched = Watched()

    async def story(connect: Any) -> None:
        client = await connect(takes=False)
        number = await client.ask("GET", "/")
        await client.listen(lambda: number in client.body)
        watched.writers[0].write(b"x" * 100_000)
        assert watched.heard == ["pause"]
        await client.listen(lambda: len(client.body[number]) == 65535)
        client.wire.increment_flow_control_window(10_000_000)
        client.wire.increment_flow_control_window(10_000, number)
        await client.flush()
        await client.listen(lambda: len(client.body[number]) == 75535)
        assert watched.heard == ["pause"]
        other = await client.ask("GET", "/other")
        await client.listen(lambda: client.body.get(other) == b"first\n")
        client.wire.increment_flow_control_window(1_000_000, number)
        await client.flush()
        await client.listen(lambda: len(client.body[number]) == 100_006)
        assert watched.heard == ["pause", "resume"]

    told(story, watched)


def test_a_stream_is_told_that_its_client_has_gone() -> None:
    watched = Watched()

    async def story(connect: Any) -> None:
        client = await connect()
        first, second = await client.ask("GET", "/"), await client.ask("GET", "/")
        await client.listen(lambda: first in client.body and second in client.body)
        client.wire.reset_stream(first)
        ping = await client.ask("GET", "/")
        await client.listen(lambda: ping in client.body)
        assert watched.heard == ["gone"]
        client.writer.close()
        await comes_true(lambda: watched.heard == ["gone"] * 3)
        assert not connect.connections

    told(story, watched)


def test_a_request_that_is_taken_back_is_not_answered() -> None:
    begun: list[asyncio.Future[Answer]] = []

    async def later() -> Answer:
        begun.append(asyncio.get_running_loop().create_future())
        return await begun[-1]

    async def story(connect: Any) -> None:
        client = await connect()
        number = await client.ask("GET", "/slow")
        await comes_true(lambda: bool(begun))
        client.wire.reset_stream(number)
        await client.flush()
        await comes_true(lambda: begun[0].cancelled())

    told(story, lambda _: later())


def test_on_shutdown_streams_end_and_requests_under_way_are_answered() -> None:
    watched, slow = Watched(), asyncio.Event()

    async def later() -> Answer:
        await slow.wait()
        return Response(200, b"done")

    async def story(connect: Any) -> None:
        client = await connect()
        stream, asked = await client.ask("GET", "/watch"), await client.ask("GET", "/slow")
        await client.listen(lambda: stream in client.body)
        for connection in tuple(connect.connections):
            connection.shut_down()
        slow.set()
        async with asyncio.timeout(10):
            rest = await client.reader.read()
        nothing_more = frames.frame(frames.DATA, frames.END_STREAM, stream)
        done = frames.frame(frames.DATA, frames.END_STREAM, asked, b"done")
        assert rest.startswith(frames.goaway(asked, frames.NO_ERROR) + nothing_more)
        assert rest.endswith(done)

    told(story, lambda request: later() if request.path == "/slow" else watched(request))


def test_more_streams_than_allowed_are_refused_and_may_be_asked_again() -> None:
    watched = Watched()

    async def story(connect: Any) -> None:
        client = await connect()
        numbers = [await client.ask("GET", "/") for _ in range(250)]
        await client.listen(lambda: len(client.body) == 250)
        client.wire.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
        client.wire.remote_settings.acknowledge()
        refused = await client.ask("GET", "/")
        await client.listen(lambda: refused in client.ended)
        assert client.ended[refused] == "REFUSED_STREAM"
        client.wire.reset_stream(numbers[0])
        again = await client.ask("GET", "/")
        await client.listen(lambda: again in client.body)

    told(story, watched)


def test_headers_that_are_too_large_are_refused_and_the_others_served() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        many = {f"x{each}": "y" * 4000 for each in range(20)}
        assert await client.answer(await client.ask("GET", "/", **many)) == (431, TOO_LARGE_HEADERS)
        assert await client.answer(await client.ask("GET", "/after")) == (200, b"GET /after  0 ")

    told(story)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", frames.PROTOCOL_ERROR),
        (frames.PREFACE + frames.frame(frames.PING, 0, 0, bytes(8)), frames.PROTOCOL_ERROR),
        (frames.PREFACE + frames.settings({}) + b"\xff" * 9, frames.FRAME_SIZE_ERROR),
        (frames.PREFACE + frames.settings({}) + frames.frame(frames.HEADERS, 5, 2, b"\x82"), frames.PROTOCOL_ERROR),
        (frames.PREFACE + frames.settings({}) + frames.frame(frames.HEADERS, 5, 1, b"\xff"), frames.COMPRESSION_ERROR),
        (
            frames.PREFACE
            + frames.settings({})
            + frames.frame(frames.HEADERS, 1, 1, b"")
            + frames.frame(frames.CONTINUATION, 0, 1, b"") * 100,
            frames.ENHANCE_YOUR_CALM,
        ),
        (frames.PREFACE + frames.settings({}) + frames.window_update(0, 2**31 - 1), frames.FLOW_CONTROL_ERROR),
        (frames.PREFACE + frames.settings({4: 2**31}), frames.FLOW_CONTROL_ERROR),
    ],
    ids=["HTTP/1.1", "no settings", "a huge frame", "an even stream", "no header block", "no end of headers",
         "a huge window", "huge windows"],
)  # fmt: skip
def test_who_breaks_the_rules_is_told_which_and_let_go(sent: bytes, code: int) -> None:
    async def story(connect: Any) -> None:
        client = await connect(begins=False)
        client.writer.write(sent)
        async with asyncio.timeout(10):
            answer = await client.reader.read()
        goaway = answer[answer.rindex(b"\x07\x00\x00\x00\x00\x00") + 6 :]
        assert int.from_bytes(goaway[4:8], "big") == code

    told(story)


def test_asking_and_taking_back_without_end_is_not_served_without_end() -> None:
    served = []

    def handler(request: Request) -> Answer:
        served.append(request)
        return Response(200, b"")

    async def story(connect: Any) -> None:
        client = await connect(begins=False)
        block = b"\x82\x87\x84"
        client.writer.write(frames.PREFACE + frames.settings({}))
        for number in range(1, 12_000, 2):
            client.writer.write(frames.frame(frames.HEADERS, 5, number, block) + frames.reset(number, 8))
        async with asyncio.timeout(20):
            with suppress(ConnectionResetError):  # what it still wanted to say is not read any more
                await client.reader.read()
        assert len(served) < 6000
        assert not connect.connections

    told(story, handler)


class Sink:
    """A transport that takes everything; a connection without a wire."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


WHOLE = b"\x82\x87\x84\x41\x04here"  # GET https / of "here"


def test_what_the_streams_of_a_connection_say_in_one_turn_leaves_in_one_piece_and_before_what_follows() -> None:
    watched = Watched()

    async def run() -> None:
        connection, sink = Http2Connection(watched, set(), Slices()), Sink()
        connection.connection_made(sink)  # type: ignore[arg-type]
        asked = b"".join(frames.frame(frames.HEADERS, 5, number, WHOLE) for number in (1, 3, 5))
        connection.data_received(frames.PREFACE + frames.settings({}) + asked)
        await asyncio.sleep(0)

        def said(*numbers: int) -> bytes:
            return b"".join(frames.frame(frames.DATA, 0, number, b"event\n") for number in numbers)

        sink.sent.clear()
        for writer in watched.writers:
            writer.write(b"event\n")
        assert not sink.sent, "others of this turn may have more to say"
        await asyncio.sleep(0)
        assert sink.sent == [said(1, 3, 5)]

        sink.sent.clear()
        watched.writers[0].write(b"event\n")
        connection.data_received(frames.frame(frames.PING, 0, 0, b"12345678"))
        assert sink.sent == [said(1) + frames.frame(frames.PING, frames.ACK, 0, b"12345678")]

        sink.sent.clear()
        watched.writers[1].write(b"event\n")
        connection.shut_down()
        assert sink.closed
        assert b"".join(sink.sent).startswith(said(3)), "what was said before the end is heard"

    asyncio.run(run())


NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1])
SIZES = st.sampled_from([0, 1, 16384, 65535, 2**31 - 1, 2**31, 2**32 - 1])
PIECES = st.one_of(
    st.builds(frames.frame, st.integers(0, 12), st.integers(0, 255), NUMBERS, st.binary(max_size=40)),
    st.builds(lambda number, flags: frames.frame(frames.HEADERS, flags, number, WHOLE), NUMBERS, st.sampled_from([4, 5])),
    st.builds(lambda number, flags: frames.frame(frames.DATA, flags, number, b"body"), NUMBERS, st.sampled_from([0, 1])),
    st.builds(lambda number, size: frames.frame(frames.WINDOW_UPDATE, 0, number, size.to_bytes(4, "big")), NUMBERS, SIZES),
    st.builds(lambda key, value: frames.settings({key: value}), st.integers(0, 7), SIZES),
    st.builds(frames.reset, NUMBERS, st.just(8)),
    st.binary(max_size=30),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=25), st.lists(st.integers(1, 200), max_size=10), st.booleans())
def test_whatever_arrives_nothing_breaks_and_nothing_is_left_behind(
    pieces: list[bytes], cuts: list[int], well_begun: bool
) -> None:
    watched = Watched()

    async def run() -> None:
        connections: set[Http2Connection] = set()
        connection = Http2Connection(
            lambda request: watched(request) if len(request.body) % 2 == 0 else echo(request), connections, Slices()
        )
        sink = Sink()
        connection.connection_made(sink)  # type: ignore[arg-type]
        data = (frames.PREFACE + frames.settings({}) if well_begun else b"") + b"".join(pieces)
        while data and not sink.closed:
            size = cuts.pop() if cuts else len(data)
            connection.data_received(data[:size])
            data = data[size:]
            await asyncio.sleep(0)
            for writer in watched.writers:
                writer.write(b"event\n")
        connection.pause_writing()
        connection.resume_writing()
        connection.look(1e12)
        connection.connection_lost(None)
        assert not connections
        assert watched.heard.count("gone") == len(watched.writers), "everybody is told that the client has gone"
        assert all(writer.closed for writer in watched.writers)

    asyncio.run(run())
