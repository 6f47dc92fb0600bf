"""The gate: what only it promises. What a connection promises with or without it is in test_http.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.gate.frames import HEAD, Frames
from gpuaas.apiserver.gate.inside import Gate
from gpuaas.apiserver.http import Answer, Listener, Request, Response, Stream, StreamWriter, listen
from gpuaas.apiserver.security.certs import Authority, subject_of
from gpuaas.apiserver.tls import Tls

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def hello(request: Request) -> Answer:
    shown = request.peer_certificate()
    return Response(200, (subject_of(shown)[0] if shown else "nobody").encode(), b"text/plain")


async def asked(port: int, tls: ssl.SSLContext | None = None) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[2].decode()


def told(story: Callable[[Listener, Gate], Awaitable[None]], handler: Any = hello, tls: Tls | None = None) -> None:
    async def run() -> None:
        gate = Gate()
        listener = await listen(handler, "127.0.0.1", 0, tls, gate)
        try:
            await story(listener, gate)
        finally:
            await listener.stop(0.1)
        assert gate._keeper.returncode == 0

    asyncio.run(run())


def test_tls_is_spoken_at_the_gate_and_the_certificate_a_client_showed_is_known_behind_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path, 1_790_000_000.0)
    files = authority.serving(["127.0.0.1"])
    mine = authority.client("ada", days=36500)
    (tmp_path / "ada.pem").write_bytes(mine.certificate + mine.key)

    def trusting(certificate: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.certificate_file))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    async def story(listener: Listener, gate: Gate) -> None:
        assert await asked(listener.port, trusting(tmp_path / "ada.pem")) == "ada"
        assert await asked(listener.port, trusting(None)) == "nobody"

    told(story, tls=Tls(str(files[0]), str(files[1]), str(authority.certificate_file)))


def test_another_keeper_takes_the_place_of_one_that_died_at_the_same_port() -> None:
    async def story(listener: Listener, gate: Gate) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(ASK)
        await reader.readuntil(b"nobody")
        os.kill(gate._keeper.pid, signal.SIGKILL)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        while not listener_is_back(gate):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not listener._connections
        assert await asked(listener.port) == "nobody"
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def listener_is_back(gate: Gate) -> bool:
        replacing = getattr(gate, "_replacing", None)
        return replacing is not None and replacing.done()

    told(story)


_SERVER = """
import asyncio
from gpuaas.apiserver.gate.inside import Gate
from gpuaas.apiserver.http import Response, listen

async def serve():
    listener = await listen(lambda request: Response(200, b"here"), "127.0.0.1", 0, None, Gate())
    print(listener.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


def test_when_the_server_is_killed_its_clients_are_told_and_the_port_is_free() -> None:
    with subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            client.sendall(ASK)
            assert b"200 OK" in client.recv(65536)
            server.kill()
            while client.recv(65536):
                pass
    socket.create_server(("127.0.0.1", port)).close()


def test_interrupts_are_left_to_the_server() -> None:
    async def story(listener: Listener, gate: Gate) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            gate._keeper.send_signal(number)
        assert await asked(listener.port) == "nobody"

    told(story)


class Streams:
    def __init__(self) -> None:
        self.open: list[StreamWriter] = []

    def __call__(self, request: Request) -> Answer:
        return Stream(self._start)

    def _start(self, writer: StreamWriter) -> Callable[[], None]:
        self.open.append(writer)
        return lambda: None


def test_what_several_watchers_get_alike_crosses_once() -> None:
    streams = Streams()
    event = b"x" * 3000 + b"\n"

    class Counting:
        def __init__(self, transport: Any) -> None:
            self._transport = transport
            self.bytes = 0

        def writelines(self, pieces: Any) -> None:
            self.bytes += sum(map(len, pieces))
            self._transport.writelines(pieces)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    async def story(listener: Listener, gate: Gate) -> None:
        clients = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(20)]
        for reader, writer in clients:
            writer.write(ASK)
            await reader.readuntil(b"\r\n\r\n")
        gate.transport = counting = Counting(gate.transport)  # type: ignore[assignment]
        for stream in streams.open:
            stream.write(event)
        for reader, writer in clients:
            assert await reader.readuntil(event) == b"bb9\r\n" + event
            writer.close()
        assert counting.bytes < 2 * len(event)

    told(story, streams)


def test_a_client_that_does_not_read_stops_its_writer_and_lets_it_go_on_when_it_reads() -> None:
    streams = Streams()
    piece = b"y" * 50_000

    async def story(listener: Listener, gate: Gate) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(ASK)
        await reader.readuntil(b"\r\n\r\n")
        (stream,) = streams.open
        paused, resumed = asyncio.Event(), asyncio.Event()
        stream.on_pause, stream.on_resume = paused.set, resumed.set
        written = 0
        while not paused.is_set() or stream._connection.transport.get_write_buffer_size() < len(piece):
            stream.write(piece)
            written += len(piece)
            await asyncio.sleep(0)
            assert written < 100_000_000
        resumed.clear()
        got = 0
        while got < written:
            got += (await asyncio.wait_for(reader.read(1 << 20), 10)).count(b"y")
        await asyncio.wait_for(resumed.wait(), 10)
        writer.close()

    told(story, streams)


@pytest.mark.parametrize("size", [1, 7, 60_000])
def test_frames_arrive_whole_whatever_pieces_they_come_in(size: int) -> None:
    class Heard(Frames):
        def __init__(self) -> None:
            super().__init__()
            self.frames: list[tuple[int, int, bytes]] = []

        def frame(self, whose: int, about: int, data: bytes) -> None:
            self.frames.append((whose, about, data))

    frames = [(1, 0, b""), (2**32 - 1, 5, b"a" * 65_536), (3, 0, bytes(range(256))), (4, 9, b"z")]
    sent = b"".join(HEAD.pack(whose, about, len(data)) + data for whose, about, data in frames * 3)
    heard = Heard()
    while sent:
        room = heard.get_buffer(-1)
        count = min(size, len(sent), len(room))
        room[:count], sent = sent[:count], sent[count:]
        heard.buffer_updated(count)
    assert heard.frames == frames * 3
