"""CPU time of a request over HTTP/2: our connection beside one built on the `h2` library (docs/adr/0005-http-2.md).

    python -m bench.http2_libraries

Both get the same bytes of the same client, without a network or TLS, and answer with the same bodies. Rounds alternate,
and the median of the rounds stands for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import h2.config
import h2.connection
import h2.events
import hpack

from gpuaas.apiserver import frames
from gpuaas.apiserver.http import Request, Response
from gpuaas.apiserver.http2 import Http2Connection
from gpuaas.apiserver.load_shedding import Slices

ROUNDS, REQUESTS = 9, 1_000
BODIES = {"GET of 900 bytes": b"x" * 900, "LIST of 200 kB": b"x" * 200_000}
HEADERS = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "127.0.0.1:6443"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip"),
    ("user-agent", "controller/v0.0.0 (linux/amd64) kubernetes/$Format"),
    ("authorization", "Bearer " + "abcdefgh" * 110),
]


class Transport:
    """Takes what is written and counts it."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


def client() -> list[bytes]:
    """The preface with windows as large as they may be, and requests as Go's client packs them."""
    encoder = hpack.Encoder()
    first = frames.PREFACE + frames.settings({frames.INITIAL_WINDOW_SIZE: frames.LARGEST_WINDOW})
    sent = [first + frames.window_update(0, frames.LARGEST_WINDOW - 65_535)]
    for number in range(REQUESTS):
        fields = [*HEADERS[:1], (":path", f"/api/v1/namespaces/default/configmaps/c{number}"), *HEADERS[1:]]
        block = encoder.encode(fields)
        sent.append(frames.header_frames(2 * number + 1, block, frames.END_STREAM, frames.LARGEST_FRAME))
    return sent


def ours(sent: list[bytes], body: bytes) -> tuple[float, int]:
    async def run() -> tuple[float, int]:
        transport: Any = Transport()
        connection = Http2Connection(lambda _request: Response(200, body), set(), Slices())
        connection.connection_made(transport)
        began = time.process_time()
        for data in sent:
            connection.data_received(data)
            await asyncio.sleep(0)
        return time.process_time() - began, transport.written

    return asyncio.run(run())


def library(sent: list[bytes], body: bytes) -> tuple[float, int]:
    async def run() -> tuple[float, int]:
        transport: Any = Transport()
        wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        wire.initiate_connection()
        transport.write(wire.data_to_send())
        began = time.process_time()
        for data in sent:
            for event in wire.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    request = Request(transport)
                    for name, value in event.headers:
                        request.headers[name] = value
                    answer(wire, event.stream_id, body)
            transport.write(wire.data_to_send())
            await asyncio.sleep(0)
        return time.process_time() - began, transport.written

    return asyncio.run(run())


def answer(wire: h2.connection.H2Connection, stream: int, body: bytes) -> None:
    fields = [
        (b":status", b"200"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
    ]
    wire.send_headers(stream, fields)
    most = wire.max_outbound_frame_size
    for start in range(0, len(body), most):
        wire.send_data(stream, body[start : start + most], end_stream=start + most >= len(body))


def main() -> None:
    sent = client()
    ways: dict[str, Callable[[list[bytes], bytes], tuple[float, int]]] = {"ours": ours, "h2": library}
    for name, body in BODIES.items():
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, serve in ways.items():
                seconds, written = serve(sent, body)
                assert written > REQUESTS * len(body)
                spent[way].append(seconds / REQUESTS * 1e6)
        shown = {way: f"{median(each):.1f} µs ({min(each):.1f} to {max(each):.1f})" for way, each in spent.items()}
        ratio = median(spent["h2"]) / median(spent["ours"])
        print(f"{name}: ours {shown['ours']}, h2 {shown['h2']}, {ratio:.1f} times as much")


if __name__ == "__main__":
    main()
