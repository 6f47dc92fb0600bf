"""HTTP/1.1 on the wire: framing, order, limits, streams and their end. The handler is the test's own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from gpuaas.apiserver import http
from gpuaas.apiserver.http import Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.listener import listen


def echo(request: Request) -> Answer:
    """What arrived, as one line; a path of /large answers long."""
    if request.path == "/large":
        return Response(200, b"x" * 200_000, b"text/plain")
    if request.too_large:
        return Response(413, b"too large", b"text/plain")
    text = f"{request.method} {request.path} {request.query} {len(request.body)} {request.header(b'x')}"
    return Response(200, text.encode(), b"text/plain")


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = 0 if head_only else int(headers.get("content-length", "0"))
        return int(first.split()[1]), headers, await asyncio.wait_for(self.reader.readexactly(size), 10)

    async def closed(self) -> bool:
        return await asyncio.wait_for(self.reader.read(), 10) == b""


@asynccontextmanager
async def serving(handler: Any = echo) -> Any:
    listener = await listen(handler, "127.0.0.1", 0, None)
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", listener.port)))
        return clients[-1]

    connect.listener = listener  # type: ignore[attr-defined]
    try:
        yield connect
    finally:
        await listener.stop(0.1)
        for client in clients:
            client.writer.close()


def told(story: Callable[[Any], Awaitable[None]], handler: Any = echo) -> None:
    async def run() -> None:
        async with serving(handler) as connect:
            await story(connect)

    asyncio.run(run())


def test_a_request_is_answered_and_the_connection_kept() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        for _ in range(3):
            await client.send(b"GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n")
            status, headers, body = await client.answer()
            assert (status, body) == (200, b"GET /a b c=d 0 y")
            assert headers == {"content-type": "text/plain", "content-length": "16", "date": headers["date"]}

    told(story)


@pytest.mark.parametrize(
    "request_line",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
)
def test_who_asks_for_the_end_gets_it_after_the_answer(request_line: bytes) -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(request_line)
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.closed()

    told(story)


def test_every_answer_says_when_it_was_given() -> None:
    def handler(request: Request) -> Answer:
        if request.path == "/stream":
            return Stream(lambda writer: writer.close)
        return Response(404, b"", b"text/plain")

    async def story(connect: Any) -> None:
        for path in (b"/none", b"/stream"):
            client = await connect()
            await client.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            _, headers, _ = await client.answer(head_only=True)
            said = parsedate_to_datetime(headers["date"]).timestamp()
            assert abs(said - datetime.now(UTC).timestamp()) < 60

    told(story, handler)


def test_a_head_request_gets_the_length_and_no_body() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(b"HEAD /large HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers, _ = await client.answer(head_only=True)
        assert (status, headers["content-length"]) == (200, "200000")
        assert (await client.answer())[2].startswith(b"GET /next")

    told(story)


def test_pipelined_requests_are_answered_in_their_order_even_if_a_later_one_is_ready_first() -> None:
    gate: dict[str, asyncio.Future[None]] = {}

    async def waits(request: Request) -> Answer:
        await gate["open"]
        return Response(200, b"slow", b"text/plain")

    def handler(request: Request) -> Any:
        return waits(request) if request.path == "/slow" else Response(200, request.path.encode(), b"text/plain")

    async def story(connect: Any) -> None:
        gate["open"] = asyncio.get_running_loop().create_future()
        client = await connect()
        await client.send(
            b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
            + b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(200))
        )
        gate["open"].set_result(None)
        assert (await client.answer())[2] == b"slow"
        assert [(await client.answer())[2] for _ in range(200)] == [b"/%d" % n for n in range(200)]

    told(story, handler)


def test_who_sends_far_ahead_is_not_read_until_some_are_answered() -> None:
    """What waits is bounded by number and by size: bodies sent ahead are no way to fill the memory."""
    seen: list[int] = []
    gate: dict[str, asyncio.Future[None]] = {}

    async def handler(request: Request) -> Answer:
        seen.append(len(request.body))
        await gate["open"]
        return Response(200, b"", b"text/plain")

    async def story(connect: Any) -> None:
        gate["open"] = asyncio.get_running_loop().create_future()
        client = await connect()
        body = b"x" * 1_000_000
        one = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        client.writer.write(one * 40)
        with pytest.raises(TimeoutError):  # the kernel's buffers are full and nobody reads
            await asyncio.wait_for(client.writer.drain(), 0.5)
        assert len(seen) == 1
        (connection,) = connect.listener._connections
        assert sum(len(waiting.body) for waiting, _ in connection._waiting) <= http.MAX_BODY + 2 * len(body)
        gate["open"].set_result(None)
        for _ in range(40):
            assert (await client.answer())[0] == 200
        assert seen == [1_000_000] * 40

    told(story, handler)


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", 5),
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n", 11),
        (b"5;ext=1\r\nhello\r\n0\r\n\r\n", 5),
        (b"0\r\n\r\n", 0),
    ],
)
def test_a_chunked_body_is_put_together(body: bytes, size: int) -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        assert (await client.answer())[2] == b"POST /x  %d " % size

    told(story)


def test_a_request_that_comes_byte_by_byte_is_one_request() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        for byte in b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[2] == b"POST /x  3 "

    told(story)


def test_who_asks_whether_to_go_on_is_told_to() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert (await client.answer())[0] == 100
        await client.send(b"abc")
        assert (await client.answer())[2] == b"POST /x  3 "

    told(story)


def test_the_word_to_go_on_does_not_come_between_earlier_answers() -> None:
    gate: dict[str, asyncio.Future[None]] = {}

    async def handler(request: Request) -> Answer:
        await gate["open"]
        return Response(200, request.path.encode(), b"text/plain")

    async def story(connect: Any) -> None:
        gate["open"] = asyncio.get_running_loop().create_future()
        client = await connect()
        await client.send(
            b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nPOST /second HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
        )
        gate["open"].set_result(None)
        assert (await client.answer())[2] == b"/first"
        assert (await client.answer())[0] == 100
        await client.send(b"x")
        assert (await client.answer())[2] == b"/second"

    told(story, handler)


def test_a_body_over_the_limit_is_marked_and_the_connection_goes_on() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (http.MAX_BODY + 1)
            + b"x" * (http.MAX_BODY + 1)
        )
        assert (await client.answer())[0] == 413
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % http.MAX_BODY + b"x" * http.MAX_BODY
        )
        assert (await client.answer())[2] == b"POST /  %d " % http.MAX_BODY

    told(story)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nBig: " + b"x" * http.MAX_HEADERS + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: %s\r\n" % (n, b"x" * 100) for n in range(700)) + b"\r\n",
        b"GET /" + b"x" * (http.MAX_HEADERS + 1) + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_headers_over_the_limit_are_refused(head: bytes) -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(head)
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (431, "close")

    told(story)


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\r\n\tfolded\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    ],
)
def test_what_two_parsers_could_read_in_two_ways_is_refused_and_the_connection_ended(data: bytes) -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(data + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert b"smuggled" not in await asyncio.wait_for(client.reader.read(), 10)

    told(story)


def test_a_wish_to_upgrade_is_answered_once_and_nothing_after_it_is_a_request() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET /b HTTP/1.1\r\n\r\n"
        )
        assert (await client.answer())[2].startswith(b"GET /a")
        assert await client.closed()

    told(story)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a%2Fb", "/a/b"),
        (b"http://host/a?b", "/a"),
        (b"https://host", "/"),
        (b"//a", "//a"),
        (b"/%ff", "/\ufffd"),
        (b"/%zz", "/%zz"),
    ],
)
def test_the_path_is_decoded_once(target: bytes, path: str) -> None:
    assert http.split_target(target)[0] == path


class TestStreams:
    @staticmethod
    def streaming(opened: list[StreamWriter], gone: list[str]) -> Any:
        def start(writer: StreamWriter) -> Callable[[], None]:
            opened.append(writer)
            return lambda: gone.append("gone")

        return lambda request: Stream(start) if request.path == "/stream" else echo(request)

    def test_chunks_arrive_as_they_are_written_and_the_end_frees_the_connection(self) -> None:
        opened: list[StreamWriter] = []
        gone: list[str] = []

        async def story(connect: Any) -> None:
            client = await connect()
            await client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\nGET /after HTTP/1.1\r\nHost: x\r\n\r\n")
            _, headers, _ = await client.answer()
            assert headers["transfer-encoding"] == "chunked"
            opened[0].write(b"one")
            assert await client.reader.readexactly(8) == b"3\r\none\r\n"
            opened[0].write(b"")
            opened[0].close()
            opened[0].write(b"late")
            assert await client.reader.readexactly(5) == b"0\r\n\r\n"
            assert (await client.answer())[2].startswith(b"GET /after")
            assert gone == ["gone"]

        told(story, self.streaming(opened, gone))

    def test_a_client_that_goes_away_is_noticed(self) -> None:
        opened: list[StreamWriter] = []
        gone: list[str] = []

        async def story(connect: Any) -> None:
            client = await connect()
            await client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.answer()
            client.writer.transport.abort()
            async with asyncio.timeout(10):
                while not gone:  # noqa: ASYNC110 - the kernel says when
                    await asyncio.sleep(0.001)
            assert opened[0].closed

        told(story, self.streaming(opened, gone))

    def test_a_client_that_does_not_read_pauses_the_stream_and_is_cut_off_in_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "SLOW_READER", 4 * 1024 * 1024)
        opened: list[StreamWriter] = []
        gone: list[str] = []

        async def story(connect: Any) -> None:
            client = await connect()
            await client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.answer()
            paused: list[str] = []
            opened[0].on_pause = lambda: paused.append("paused")
            for _ in range(400):
                opened[0].write(b"x" * 65_536)
                await asyncio.sleep(0)
            assert paused
            assert gone == ["gone"]

        told(story, self.streaming(opened, gone))

    def test_stopping_ends_open_streams_properly(self) -> None:
        opened: list[StreamWriter] = []
        gone: list[str] = []

        async def story(connect: Any) -> None:
            clients = [await connect() for _ in range(5)]
            for client in clients:
                await client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
                await client.answer()
            await connect.listener.stop()
            for client in clients:
                assert await client.reader.read() == b"0\r\n\r\n"
            assert gone == ["gone"] * 5

        told(story, self.streaming(opened, gone))


def test_stopping_lets_a_request_under_way_be_answered() -> None:
    gate: dict[str, asyncio.Future[None]] = {}

    async def handler(request: Request) -> Answer:
        await gate["open"]
        return Response(200, b"done", b"text/plain")

    async def story(connect: Any) -> None:
        gate["open"] = asyncio.get_running_loop().create_future()
        client, idle = await connect(), await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.01)
        stopping = asyncio.create_task(connect.listener.stop(5))
        assert await idle.closed()
        gate["open"].set_result(None)
        assert (await client.answer())[2] == b"done"
        await asyncio.wait_for(stopping, 5)

    told(story, handler)


class TestSlowClients:
    """The time that matters is given to `look`; the listener calls it every few seconds."""

    @staticmethod
    def look(connect: Any, seconds: float) -> None:
        for connection in tuple(connect.listener._connections):
            connection.look(asyncio.get_running_loop().time() + seconds)

    @pytest.mark.parametrize(
        "begun",
        [b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"],
    )
    def test_a_request_that_does_not_end_is_given_up(self, begun: bytes) -> None:
        async def story(connect: Any) -> None:
            client = await connect()
            await client.send(begun)
            await asyncio.sleep(0.01)
            self.look(connect, 59)
            assert not client.reader.at_eof()
            self.look(connect, 61)
            assert (await client.answer())[0] == 408
            assert await client.closed()

        told(story)

    def test_a_connection_that_never_asks_is_closed_and_an_idle_one_is_kept_longer(self) -> None:
        async def story(connect: Any) -> None:
            silent, used = await connect(), await connect()
            await used.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await used.answer()
            self.look(connect, 100)
            assert await silent.closed()
            await used.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await used.answer())[0] == 200
            self.look(connect, 400)
            assert await used.closed()

        told(story)

    def test_an_open_stream_is_never_idle(self) -> None:
        async def story(connect: Any) -> None:
            client = await connect()
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.answer()
            self.look(connect, 100_000)
            assert len(connect.listener._connections) == 1

        told(story, lambda request: Stream(lambda writer: lambda: None))


def test_connections_over_the_limit_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)

    async def story(connect: Any) -> None:
        clients = [await connect() for _ in range(5)]
        await asyncio.sleep(0.05)
        served = 0
        for client in clients:
            try:
                await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                served += (await client.answer())[0] == 200
            except (ConnectionError, asyncio.IncompleteReadError):
                continue
        assert served == 3

    told(story)


def test_repeated_headers_are_kept_apart() -> None:
    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\nx: b\r\n\r\n")
        assert (await client.answer())[2] == b"GET /  0 a\nb"

    told(story)


@pytest.mark.parametrize("streams", [False, True])
def test_a_connection_that_ended_leaves_nothing_to_the_garbage_collector(streams: bool) -> None:
    class Watching:
        """As a watch does, it knows the writer and is known by it."""

        def start(self, writer: StreamWriter) -> Callable[[], None]:
            self.writer = writer
            writer.on_pause = writer.on_resume = self.nothing
            writer.write(b"begun")
            return self.nothing

        def nothing(self) -> None:
            pass

    def handler(request: Request) -> Answer:
        return Stream(Watching().start) if streams else echo(request)

    async def story(connect: Any) -> None:
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        (connection,) = connect.listener._connections
        gone = asyncio.Event()
        weakref.finalize(connection, gone.set)
        del connection
        client.writer.close()
        await asyncio.wait_for(gone.wait(), 10)

    gc.disable()
    try:
        told(story, handler)
    finally:
        gc.enable()


def test_long_requests_of_many_clients_are_read_in_turns() -> None:
    """Each turn reads a piece, though others wait for theirs."""

    async def story(connect: Any) -> None:
        clients = [await connect() for _ in range(5)]
        body = b"1\r\nx\r\n" * 50_000
        for client in clients:
            client.writer.write(
                b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
            )
        for client in clients:
            assert (await client.answer())[2] == b"POST /x  50000 "

    told(story)
