"""Streams of a connection, without a network: what is unread is bounded, floods are cut off, and ends are heeded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from gpuaas.apiserver.streaming import channels, duplex
from gpuaas.apiserver.streaming import spdy_frames as spdy
from gpuaas.apiserver.streaming.channels import Channels
from gpuaas.apiserver.streaming.duplex import Carried, Link, SocketLink, Stream, Terms
from gpuaas.apiserver.streaming.port_forwards import SpdyForwards, port_of
from gpuaas.apiserver.streaming.remote_commands import SpdyCommand, serve, status_of
from gpuaas.apiserver.streaming.sessions import Sessions
from gpuaas.apiserver.streaming.spdy import MAX_STREAMS
from gpuaas.base import websocket_frames as ws
from gpuaas.base.errors import TooManyRequests

pytestmark = pytest.mark.anyio
MASK = b"\1\2\3\4"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = True
        self.closed = self.aborted = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def set_protocol(self, _: Any) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, _: str) -> None: ...


def link(carried: Carried, *, socket: bool, allowed: bool = True, idle: float = 100.0) -> tuple[Link, Wire, list[str]]:
    wire, ended = Wire(), list[str]()
    kind = SocketLink if socket else Link
    made = kind(carried, Terms(lambda: allowed, idle, lambda: ended.append("ended")), cast("Any", wire), set())
    made.begin(b"")
    return made, wire, ended


async def silent(_: Mapping[str, Stream]) -> None:
    await asyncio.Event().wait()


def message(channel: int, data: bytes) -> bytes:
    return ws.frame(ws.BINARY, bytes((channel,)) + data, MASK)


async def test_input_that_is_not_read_stops_the_reading_and_goes_on_when_it_is() -> None:
    streams: dict[str, Stream] = {}

    async def keep(found: Mapping[str, Stream]) -> None:
        streams.update(found)
        await asyncio.Event().wait()

    made, wire, _ = link(Channels(channels.REMOTE_COMMAND, keep, closes=True), socket=True)
    await asyncio.sleep(0)
    sent = 0
    while wire.reading:
        made.data_received(message(0, bytes(100_000)))
        sent += 100_000
    assert sent <= duplex.MAX_HELD + 100_000
    while not wire.reading:
        sent -= len(await streams["stdin"].inbox.read())
    assert sent > 0
    made.data_received(message(255, b"\0"))
    while data := await streams["stdin"].inbox.read():
        sent -= len(data)
    assert sent == 0
    made.connection_lost(None)


async def test_a_message_for_a_channel_that_is_not_there_ends_it() -> None:
    made, wire, ended = link(Channels(["", "stdout"], silent, closes=True), socket=True)
    made.data_received(message(0, b"typed"))
    assert ended == ["ended"]
    assert bytes(wire.sent) == ws.frame(ws.CLOSE, ws.POLICY.to_bytes(2, "big"))


FLOODS = [
    pytest.param(True, ws.frame(ws.PING, b"", MASK), id="pings"),
    pytest.param(True, ws.frame(ws.PONG, b"x", MASK), id="pongs"),
    pytest.param(True, message(4, b""), id="empty messages"),
    pytest.param(False, spdy.ping(1), id="spdy pings"),
    pytest.param(False, spdy.data(1, b""), id="empty data"),
    pytest.param(False, spdy.reset(1, 1), id="resets"),
    pytest.param(False, spdy.control(spdy.SETTINGS, 0, bytes(4)), id="settings"),
    pytest.param(False, spdy.control(spdy.WINDOW_UPDATE, 0, bytes(4) + b"\x7f\xff\xff\xff"), id="windows"),
    pytest.param(False, spdy.control(77, 0, b""), id="unknown frames"),
]


@pytest.mark.parametrize(("socket", "frame"), FLOODS)
async def test_frames_that_carry_nothing_run_out(socket: bool, frame: bytes) -> None:
    carried = Channels(channels.REMOTE_COMMAND, silent, closes=True) if socket else SpdyForwards(refuse)
    made, _, ended = link(carried, socket=socket)
    for _ in range(1000):
        made.data_received(frame)
    assert not ended
    made.data_received(frame * 5000)
    assert ended == ["ended"]


async def refuse(port: int) -> Any:
    raise OSError(f"nothing listens on {port}")


async def test_streams_that_are_opened_and_left_are_bounded() -> None:
    session, encoder = SpdyForwards(refuse), spdy.Encoder()
    made, wire, _ = link(session, socket=False)
    for number in range(MAX_STREAMS + 5):
        headers = {"streamtype": "error", "port": "80", "requestid": str(number)}
        made.data_received(encoder.syn_stream(2 * number + 1, headers, fin=True))
    frames = list(spdy.Decoder().feed(bytes(wire.sent)))
    assert sum(isinstance(each, spdy.SynReply) for each in frames) == MAX_STREAMS
    assert sum(isinstance(each, spdy.Reset) for each in frames) == 5
    made.connection_lost(None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"streamtype": "error"},
        {"streamtype": "error", "port": "0", "requestid": "1"},
        {"streamtype": "data", "port": "80", "requestid": "1"},
        {"streamtype": "error", "port": "65536", "requestid": "1"},
    ],
)
async def test_a_stream_without_sense_is_refused(headers: dict[str, str]) -> None:
    made, wire, _ = link(SpdyForwards(refuse), socket=False)
    made.data_received(spdy.Encoder().syn_stream(1, headers))
    assert bytes(wire.sent) == spdy.reset(1, spdy.REFUSED_STREAM)


@pytest.mark.parametrize("numbers", [[2], [3, 1], [1, 1]])
async def test_numbers_of_streams_are_odd_and_rise(numbers: list[int]) -> None:
    encoder = spdy.Encoder()
    made, _, ended = link(SpdyForwards(refuse), socket=False)
    for number in numbers:
        made.data_received(encoder.syn_stream(number, {"streamtype": "error", "port": "80", "requestid": str(number)}))
    assert ended == ["ended"]


async def test_a_port_that_is_not_there_is_said_on_the_error_stream() -> None:
    encoder = spdy.Encoder()
    made, wire, _ = link(SpdyForwards(refuse), socket=False)
    for number, kind in ((1, "error"), (3, "data")):
        made.data_received(encoder.syn_stream(number, {"streamtype": kind, "port": "80", "requestid": "0"}))
    for _ in range(10):
        await asyncio.sleep(0)
    frames = [each for each in spdy.Decoder().feed(bytes(wire.sent)) if isinstance(each, spdy.Data)]
    assert frames[0] == spdy.Data(1, b"port 80: nothing listens on 80", False)
    assert {each.stream for each in frames if each.fin} == {1, 3}
    made.connection_lost(None)


class Fake:
    """A command that says what it read, and its size."""

    def __init__(self) -> None:
        self.read_input = b""
        self.sizes: list[tuple[int, int]] = []
        self.closed = asyncio.Event()
        self.killed = False

    def start(self) -> None: ...

    async def read(self, *, errors: bool) -> bytes:
        await self.closed.wait()
        data, self.read_input = self.read_input, b""
        return b"" if errors else data

    async def write(self, data: bytes) -> None:
        self.read_input += data

    def close_input(self) -> None:
        self.closed.set()

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def ended(self) -> int:
        return 3

    def kill(self) -> None:
        self.killed = True


async def test_a_command_over_spdy_begins_with_its_last_stream_and_ends_with_a_status() -> None:
    remote, encoder = Fake(), spdy.Encoder()
    names = frozenset({"error", "stdin", "stdout", "resize"})
    made, wire, ended = link(SpdyCommand(names, remote), socket=False)
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "resize")):
        made.data_received(encoder.syn_stream(number, {"streamtype": name}))
    made.data_received(spdy.data(7, b'{"Width":80,"Height":24}{"Width":0,"Height":1}{"Wid'))
    made.data_received(spdy.data(7, b'th":100,"Height":50}') + spdy.data(3, b"typed", fin=True))
    for _ in range(30):
        await asyncio.sleep(0)
    found: dict[int, bytes] = {}
    for frame in spdy.Decoder().feed(bytes(wire.sent)):
        if isinstance(frame, spdy.Data):
            found[frame.stream] = found.get(frame.stream, b"") + frame.piece
    assert remote.sizes == [(80, 24), (100, 50)]
    assert found[5] == b"typed"
    assert json.loads(found[1]) == json.loads(json.dumps(status_of(3)))
    assert remote.killed
    assert ended == ["ended"]


async def test_a_client_that_goes_ends_the_command() -> None:
    remote = Fake()
    carried = Channels(channels.REMOTE_COMMAND, lambda streams: serve(remote, streams), closes=True)
    made, _, ended = link(carried, socket=True)
    await asyncio.sleep(0)
    made.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert remote.killed
    assert ended == ["ended"]


async def test_who_may_no_longer_and_who_is_idle_is_let_go() -> None:
    now = asyncio.get_running_loop().time()
    made, wire, ended = link(Channels(channels.REMOTE_COMMAND, silent, closes=True), socket=True, allowed=False)
    made.look(now + 1)
    assert not ended
    made.look(now + 40)
    assert ended
    assert bytes(wire.sent) == ws.frame(ws.CLOSE, ws.POLICY.to_bytes(2, "big"))
    made, _, ended = link(Channels(channels.REMOTE_COMMAND, silent, closes=True), socket=True, idle=100.0)
    made.data_received(ws.frame(ws.PING, b"", MASK))
    made.look(now + 99)
    assert not ended
    made.look(now + 200)
    assert ended


async def test_a_client_that_reads_none_of_its_answers_is_cut_off() -> None:
    made, wire, _ = link(SpdyForwards(refuse), socket=False)
    wire.sent += bytes(4 * 1024 * 1024)
    made.data_received(spdy.ping(1))
    assert wire.aborted


def test_sessions_are_counted_for_each_user_and_in_all() -> None:
    sessions = Sessions(of_user=2, in_all=3)
    ends = [sessions.begin("ann"), sessions.begin("ann"), sessions.begin("bob")]
    with pytest.raises(TooManyRequests, match='user "ann" has 2 sessions'):
        sessions.begin("ann")
    with pytest.raises(TooManyRequests, match="3 sessions"):
        sessions.begin("eve")
    ends[0]()
    ends[0]()
    sessions.begin("eve")
    with pytest.raises(TooManyRequests):
        sessions.begin("ann")


@pytest.mark.parametrize(("text", "port"), [("80", 80), ("65535", 65535), ("0", None), ("65536", None), ("-1", None), ("٣", None), ("", None)])  # fmt: skip
def test_ports(text: str, port: int | None) -> None:
    assert port_of(text) == port
