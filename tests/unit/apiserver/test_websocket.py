"""WebSockets on the wire: the handshake, events and bytes in frames, what the client may say, and the end."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.apiserver import websocket
from gpuaas.apiserver.http import Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.listener import listen

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of that key, by the standard's own example
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
POD = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
RUNNING = {"phase": "Running"}
NORMAL, PROTOCOL_ERROR, TOO_BIG = b"\x03\xe8", b"\x03\xea", b"\x03\xf1"


class Source:
    """The handler, and the stream behind it."""

    def __init__(self) -> None:
        self.writer: StreamWriter | None = None
        self.gone = asyncio.Event()

    def __call__(self, request: Request) -> Answer:
        how = websocket.read if request.path == "/log" else websocket.watched
        if request.path == "/plain":
            return Response(200, b"plain", b"text/plain")
        return how(request, Stream(self.start))

    def start(self, writer: StreamWriter) -> Callable[[], None]:
        self.writer = writer
        writer.write(b'{"a":1}\n{"b":2}\n')
        return self.gone.set

    @property
    def open(self) -> StreamWriter:
        assert self.writer is not None
        return self.writer


class Later(Source):
    def __call__(self, request: Request) -> Any:
        async def answer() -> Answer:
            await asyncio.sleep(0)
            return super(Later, self).__call__(request)

        return answer()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: Source) -> None:
        self.reader, self.writer, self.source = reader, writer, source

    async def ask(self, path: str = "/watch", **changed: str | None) -> tuple[int, dict[str, str]]:
        headers = {
            "Host": "x", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Origin": "http://console",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY,
        } | {name.replace("_", "-"): value for name, value in changed.items()}  # fmt: skip
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).decode()
        first, *rest = head.strip().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in rest)

    async def frame(self) -> tuple[int, bytes]:
        first, size = await asyncio.wait_for(self.reader.readexactly(2), 10)
        assert first & 0x80, "one frame is one message"
        if size >= 126:
            size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
        return first & 0xF, await asyncio.wait_for(self.reader.readexactly(size), 10)

    def say(self, kind: int, payload: bytes = b"", *, masked: bool = True, size: int | None = None) -> None:
        mask = b"\x01\x02\x03\x04"
        size = len(payload) if size is None else size
        length = bytes((size | 0x80,)) if size < 126 else b"\xff" + size.to_bytes(8, "big")
        if not masked:
            self.writer.write(bytes((0x80 | kind, size)) + payload)
        else:
            body = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
            self.writer.write(bytes((0x80 | kind,)) + length + mask + body)

    async def closed(self) -> bool:
        return await asyncio.wait_for(self.reader.read(), 10) == b""


@asynccontextmanager
async def connected(source: Source) -> Any:
    listener = await listen(source, "127.0.0.1", 0, None)
    client = Client(*await asyncio.open_connection("127.0.0.1", listener.port), source)
    client.listener = listener  # type: ignore[attr-defined]
    try:
        yield client
    finally:
        client.writer.close()
        await listener.stop(0.1)


def told(story: Callable[[Client], Awaitable[None]], source: type[Source] = Source) -> None:
    async def run() -> None:
        async with connected(source()) as client:
            await story(client)

    asyncio.run(run())


@pytest.mark.parametrize("source", [Source, Later])
def test_each_event_of_a_watch_is_a_message(source: type[Source]) -> None:
    async def story(client: Client) -> None:
        status, headers = await client.ask(Sec_WebSocket_Protocol="base64.binary.k8s.io")
        assert (status, headers["sec-websocket-accept"]) == (101, ACCEPT)
        assert headers["sec-websocket-protocol"] == "base64.binary.k8s.io"
        assert [await client.frame() for _ in range(2)] == [(TEXT, b'{"a":1}\n'), (TEXT, b'{"b":2}\n')]
        for size in (125, 126, 70_000):
            line = b"x" * (size - 1) + b"\n"
            client.source.open.write(line)
            assert await client.frame() == (TEXT, line)
        client.source.open.close()
        assert await client.frame() == (CLOSE, NORMAL)
        assert await client.closed()
        assert client.source.gone.is_set()

    told(story, source)


@pytest.mark.parametrize(
    ("offered", "spoken", "message"),
    [
        (None, None, (BINARY, b'{"a":1}\n{"b":2}\n')),
        ("binary.k8s.io", "binary.k8s.io", (BINARY, b'{"a":1}\n{"b":2}\n')),
        ("x, base64.binary.k8s.io", "base64.binary.k8s.io", (TEXT, b"eyJhIjoxfQp7ImIiOjJ9Cg==")),
    ],
)
def test_bytes_come_as_the_subprotocol_says(
    offered: str | None, spoken: str | None, message: tuple[int, bytes]
) -> None:
    async def story(client: Client) -> None:
        status, headers = await client.ask("/log", Origin=None, Sec_WebSocket_Protocol=offered)
        assert (status, headers.get("sec-websocket-protocol")) == (101, spoken)
        assert await client.frame() == message

    told(story)


@pytest.mark.parametrize(
    ("path", "changed", "status"),
    [
        ("/watch", {"Origin": None}, 403),
        ("/watch", {"Sec_WebSocket_Protocol": "a, b"}, 400),
        ("/watch", {"Sec_WebSocket_Key": None}, 400),
        ("/watch", {"Sec_WebSocket_Version": "8"}, 400),
        ("/log", {"Sec_WebSocket_Protocol": "channel.k8s.io"}, 403),
        ("/plain", {}, 200),
    ],
)
def test_a_handshake_that_cannot_be_taken_is_refused_and_the_connection_ended(
    path: str, changed: dict[str, str | None], status: int
) -> None:
    async def story(client: Client) -> None:
        found, headers = await client.ask(path, **changed)
        assert found == status
        assert "sec-websocket-accept" not in headers
        await client.reader.readexactly(int(headers["content-length"]))
        assert await client.closed()

    told(story)


def test_who_does_not_ask_for_a_socket_gets_the_stream() -> None:
    async def story(client: Client) -> None:
        status, headers = await client.ask(Upgrade=None, Connection=None)
        assert (status, headers["transfer-encoding"]) == (200, "chunked")

    told(story)


def test_a_client_that_lives_is_answered_and_what_it_says_otherwise_is_not_heard() -> None:
    async def story(client: Client) -> None:
        await client.ask()
        await client.frame(), await client.frame()
        client.say(TEXT, b"hello" * 100)
        client.say(PING, b"hi")
        assert await client.frame() == (PONG, b"hi")
        client.say(CLOSE, NORMAL + b"bye")
        assert await client.frame() == (CLOSE, NORMAL)
        assert await client.closed()
        await asyncio.wait_for(client.source.gone.wait(), 10)

    told(story)


@pytest.mark.parametrize(
    ("spoken", "reason"),
    [({"masked": False, "payload": b"x"}, PROTOCOL_ERROR), ({"size": 1 << 40}, TOO_BIG), ({"size": 65537}, TOO_BIG)],
)
def test_who_breaks_the_rules_is_told_so_and_left(spoken: dict[str, Any], reason: bytes) -> None:
    async def story(client: Client) -> None:
        await client.ask()
        await client.frame(), await client.frame()
        client.say(TEXT, **spoken)
        assert await client.frame() == (CLOSE, reason)
        assert await client.closed()

    told(story)


def test_a_client_that_vanishes_is_forgotten() -> None:
    async def story(client: Client) -> None:
        await client.ask()
        client.writer.transport.abort()
        await asyncio.wait_for(client.source.gone.wait(), 10)
        assert client.source.open.closed
        client.source.open.write(b"to nobody\n")

    told(story)


def test_the_end_of_the_server_ends_the_conversation() -> None:
    async def story(client: Client) -> None:
        await client.ask()
        await client.frame(), await client.frame()
        await client.listener.stop(1.0)  # type: ignore[attr-defined]
        assert await client.frame() == (CLOSE, NORMAL)
        assert client.source.gone.is_set()

    told(story)


def test_a_client_that_reads_slowly_pauses_its_stream() -> None:
    async def story(client: Client) -> None:
        await client.ask()
        paused, resumed = asyncio.Event(), asyncio.Event()
        client.source.open.on_pause, client.source.open.on_resume = paused.set, resumed.set
        for _ in range(200):
            client.source.open.write(b"x" * 100_000 + b"\n")
        await asyncio.wait_for(paused.wait(), 10)
        while not resumed.is_set():
            await asyncio.wait_for(client.reader.read(1 << 20), 10)

    told(story)


def test_watches_and_logs_are_had_over_sockets_and_a_token_may_be_a_subprotocol(api: Any) -> None:
    said = urlsafe_b64encode(api.token.encode()).decode().rstrip("=")
    headers = {"authorization": "", "upgrade": "websocket", "connection": "Upgrade"}
    for token, status in ((said, 403), (f"{said}x", 401)):  # known, but the browser does not say from where it comes
        spoken = {"sec-websocket-protocol": f"base64url.bearer.authorization.k8s.io.{token}, x"}
        assert api.send("GET", "/api/v1/pods", headers=headers | spoken, watch="true").status == status
    api.send("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": POD})
    api.send("PUT", "/api/v1/namespaces/default/pods/p/status", {"metadata": {"name": "p"}, "status": RUNNING})
    api.parts.cluster.logs = object()
    spoken = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-protocol": "channel.k8s.io"}
    assert api.send("GET", "/api/v1/namespaces/default/pods/p/log", headers=spoken).status == 403
