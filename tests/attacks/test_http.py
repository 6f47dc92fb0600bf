"""Requests before their body is read: HTTP/2 frames and header blocks, framing of HTTP/1.1, targets and queries.

None of these needs credentials unless it says so. `quiet` asserts that a second client waited no longer than `HOLD` for
an object while the attack ran; before the limits it waited for 0.5 s to over 60 s.
"""

from __future__ import annotations

import itertools
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import hpack
import pytest
from tests.attacks.harness import DEADLINE, Bystander, bounded
from tests.conformance.service import Service
from tests.conformance.wire import Answer, Closed, Wire

from gpuaas.apiserver import frames

HOLD = 1.0  # seconds; what is measured is printed and far below, but the machine of the tests may be busy
CALM = frames.ENHANCE_YOUR_CALM
GET = [(b":method", b"GET"), (b":path", b"/version"), (b":scheme", b"https"), (b":authority", b"localhost")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with bounded(tmp_path_factory.mktemp("http") / "home") as running:
        yield running


@contextmanager
def quiet(service: Service, name: str) -> Iterator[None]:
    """Others are served while this runs, and afterwards."""
    with Bystander(service) as other:
        time.sleep(0.05)
        yield
        time.sleep(0.05)
    print(f"{name}: a second client waited {other.worst * 1000:.0f} ms at most, p99 {other.p99 * 1000:.1f} ms")
    assert not other.failures
    assert other.worst < HOLD, f"{name} kept a second client waiting for {other.worst:.1f} s"


class Two:
    """A connection that speaks HTTP/2 by hand: any frames in any order."""

    def __init__(self, service: Service) -> None:
        address = urlsplit(service.url)
        assert address.hostname
        assert address.port
        tls = service.tls()
        tls.set_alpn_protocols(["h2"])
        self.wire = Wire(address.hostname, address.port, tls, DEADLINE)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder(max_header_list_size=1 << 20)
        self.send(frames.PREFACE + frames.settings({}))

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # the server may have closed the connection: that is read afterwards
            self.wire.send(data)

    def get(self, stream: int, *more: tuple[bytes, bytes], end: bool = True) -> bytes:
        block = self.encoder.encode([*GET, *more])
        return frames.frame(frames.HEADERS, frames.END_HEADERS | (frames.END_STREAM if end else 0), stream, block)

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """What the server sends until it closes the connection."""
        while True:
            try:
                head = int.from_bytes(self.wire._exactly(frames.HEADER_SIZE), "big")
                payload = self.wire._exactly(head >> 48)
            except (Closed, OSError):
                return
            yield head >> 40 & 255, head >> 32 & 255, head & frames.LARGEST_WINDOW, payload

    def ending(self) -> tuple[int, str]:
        """The code and the words of GOAWAY; (-1, "") where the connection just ends."""
        for kind, _, _, payload in self.frames():
            if kind == frames.GOAWAY:
                return struct.unpack(">I", payload[4:8])[0], payload[8:].decode()
        return -1, ""

    def status(self, stream: int) -> int:
        """Of the answer on a stream; minus the error code where the stream is reset."""
        for kind, _, number, payload in self.frames():
            if kind == frames.HEADERS:
                status = dict(self.decoder.decode(payload))[":status"]
                if number == stream:
                    return int(status)
            elif number == stream and kind == frames.RST_STREAM:
                return -struct.unpack(">I", payload)[0]
            elif kind == frames.GOAWAY:
                raise AssertionError(f"the connection ends: {payload!r}")
        raise AssertionError("the connection ended")

    def close(self) -> None:
        self.wire.close()


def headers(stream: int, block: bytes) -> bytes:
    """A header block in as many frames as it needs."""
    return frames.header_frames(stream, block, frames.END_STREAM, frames.LARGEST_FRAME)


INDEXED = b"\x90"  # one byte for `accept-encoding: gzip, deflate`
LITERAL = b"\x00\x01a\x00"
BLOCKS = {
    "an indexed field 16,000 times": (INDEXED * 16_000, 1),
    "an indexed field 1,200 times, on 200 streams": (INDEXED * 1_200, 200),
    "a field without a value 60,000 times": (LITERAL * 60_000, 1),
    "60,000 changes of the table's size": (b"\x20" * 60_000, 1),
    "240,000 changes of the table's size": (b"\x20" * 240_000, 1),
    "a length of 60,000 digits": (b"\xff" + b"\x80" * 60_000 + b"\x01", 1),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_header_block_is_limited_before_it_is_unpacked(service: Service, name: str) -> None:
    block, times = BLOCKS[name]
    with quiet(service, name):
        two = Two(service)
        start = two.encoder.encode(GET) if block[0] != 0x20 else b""
        two.send(b"".join(headers(stream, start + block) for stream in range(1, 2 * times, 2)))
        began = time.monotonic()
        code, words = two.ending() if times == 1 else (CALM, "limit")
        two.close()
    assert time.monotonic() - began < 2
    assert code in (CALM, frames.COMPRESSION_ERROR)
    assert code != CALM or "limit" in words


def test_too_many_headers_are_refused_by_name_and_the_connection_goes_on(service: Service) -> None:
    two = Two(service)
    many = two.encoder.encode([*GET, *((b"x-%d" % n, b"y" * 40) for n in range(900))])
    two.send(headers(1, many) + two.get(3))
    assert [two.status(1), two.status(3)] == [431, 200]
    two.close()


def many(kind: int, payload: bytes, count: int, *, flags: int = 0, stream: int = 0) -> bytes:
    return frames.frame(kind, flags, stream, payload) * count


FLOODS: dict[str, Callable[[Two], bytes]] = {
    "pings": lambda two: many(frames.PING, b"12345678", 100_000),
    "settings": lambda two: many(frames.SETTINGS, b"", 100_000),
    "settings with a table size": lambda two: frames.settings({1: 0}) * 60_000,
    "windows of the connection": lambda two: many(frames.WINDOW_UPDATE, struct.pack(">I", 1), 100_000),
    "priorities": lambda two: many(frames.PRIORITY, b"\0\0\0\0\1", 100_000, stream=3),
    "unknown frames": lambda two: many(0x42, b"", 200_000),
    "empty data": lambda two: two.get(1, end=False) + many(frames.DATA, b"", 200_000, stream=1),
    "empty continuations": lambda two: (
        frames.frame(frames.HEADERS, 0, 1, b"") + many(frames.CONTINUATION, b"", 100_000, stream=1)
    ),
    "streams begun and taken back": lambda two: b"".join(
        two.get(stream) + frames.reset(stream, 8) for stream in range(1, 40_001, 2)
    ),
    "resets of one stream": lambda two: two.get(1) + frames.reset(1, 8) * 100_000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_ask_for_nothing_are_limited_in_number(service: Service, name: str) -> None:
    with quiet(service, name):
        two = Two(service)
        two.send(FLOODS[name](two))
        code, words = two.ending()
        two.close()
    assert (code, "limit" in words) in ((CALM, True), (-1, False)), words


def test_windows_of_many_streams_are_changed_once_for_each_frame(service: Service) -> None:
    """One SETTINGS frame of 16 kB names the window of a stream 2,730 times, for 250 open streams."""
    sizes = b"".join(struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, 65_535 + n % 2) for n in range(2_730))
    with quiet(service, "settings of open streams"):
        two = Two(service)
        two.send(b"".join(two.get(stream, end=False) for stream in range(1, 498, 2)))
        two.send(frames.frame(frames.SETTINGS, 0, 0, sizes) * 20 + two.get(501))
        assert two.status(501) == 200
        two.close()


@pytest.mark.parametrize(("stream", "outcome"), [(0, "ends"), (1, "reset")])
def test_a_window_that_grows_by_nothing_is_a_protocol_error(service: Service, stream: int, outcome: str) -> None:
    two = Two(service)
    two.send(two.get(1, end=False) + frames.window_update(stream, 0))
    if outcome == "ends":
        assert two.ending()[0] == frames.PROTOCOL_ERROR
    else:
        assert two.status(1) == -frames.PROTOCOL_ERROR
    two.close()


def resident(service: Service) -> int:
    return service.rss() // 1_000_000


def test_bodies_in_pieces_of_one_byte_take_their_size_in_memory(service: Service) -> None:
    before = resident(service)
    held: list[Wire | Two] = []
    with quiet(service, "bodies byte by byte"):
        for _ in range(3):
            wire = service.connect()
            wire.send(b"POST /version HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            wire.send(b"1\r\nx\r\n" * 1_000_000)
            held.append(wire)
        for _ in range(3):
            two = Two(service)
            two.send(two.get(1, end=False) + frames.frame(frames.DATA, 0, 1, b"x") * 200_000)
            held.append(two)
        time.sleep(0.3)
    grown = resident(service) - before
    print(f"six bodies of a megabyte in pieces of a byte: {grown} MB")
    assert grown < 60
    for each in held:
        each.close()


def test_bodies_of_unknown_clients_are_not_kept(service: Service) -> None:
    before = resident(service)
    held: list[Any] = []
    for _ in range(60):
        wire = service.connect()
        wire.send(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n" + b"x" * 2_900_000)
        held.append(wire)
    time.sleep(0.3)
    grown = resident(service) - before
    print(f"60 unfinished bodies of 2.9 MB: {grown} MB")
    assert grown < 100
    held[0].send(b"x" * 100_000)
    assert held[0].read().status == 401
    before = resident(service)
    for _ in range(10):
        two = Two(service)
        for stream in range(1, 499, 2):
            two.send(two.get(stream, end=False) + frames.frame(frames.DATA, 0, stream, b"x" * 16_000) * 3)
        held.append(two)
    time.sleep(0.5)
    grown = resident(service) - before
    print(f"2,500 unfinished bodies of 48 kB on ten connections: {grown} MB")
    assert grown < 60
    for wire in held:
        wire.close()


def exchange(service: Service, data: bytes) -> tuple[Answer | None, bytes]:
    """The first answer to some bytes, and what follows it until the end."""
    wire = service.connect()
    with suppress(OSError):
        wire.send(data)
    try:
        answer = wire.read()
    except (Closed, OSError):
        return None, b""
    rest = b""
    wire._socket.settimeout(0.2)
    with suppress(Closed, OSError, TimeoutError):
        while True:
            wire._more()
    rest = wire._left
    wire.close()
    return answer, rest


HEAD = b"GET /version HTTP/1.1\r\nhost: x\r\n"
ENDLESS = {
    "a header of any length": (HEAD + b"big: ", b"x" * 16_384, 431),
    "a name of any length": (HEAD, b"x" * 16_384, 431),
    "a target of any length": (b"GET /", b"x" * 16_384, 431),
    "a header without a value, again and again": (HEAD, b"a:\r\n" * 4_096, 431),
    "an extension of a chunk": (
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5;x=",
        b"y" * 16_384,
        400,
    ),
    "trailers": (
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        b"a: b\r\n" * 3_000,
        431,
    ),
    "a trailer of any length": (
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ",
        b"x" * 16_384,
        400,
    ),
    "empty lines": (b"", b"\r\n" * 8_192, 400),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_end_is_refused_at_its_limit(service: Service, name: str) -> None:
    start, more, status = ENDLESS[name]
    before = resident(service)
    with quiet(service, name):
        answer, _ = exchange(service, start + more * 1_000)
    print(f"{name}: 16 MB sent, {resident(service) - before} MB kept")
    assert answer is not None, "no answer"
    assert answer.status == status
    assert b"limit" in answer.body
    assert resident(service) - before < 16


SMUGGLED = b"GET /livez?smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
AMBIGUOUS = {
    "no Host": b"GET /version HTTP/1.1\r\n\r\n",
    "two Hosts": HEAD + b"host: y\r\n\r\n",
    "two equal Hosts": HEAD + b"host: x\r\n\r\n",
    "a Host that is a list": b"GET /version HTTP/1.1\r\nhost: x, y\r\n\r\n",
    "length and chunks": HEAD + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 0\r\ncontent-length: 44\r\n\r\n",
    "a list of lengths": HEAD + b"content-length: 0, 44\r\n\r\n",
    "a length with a sign": HEAD + b"content-length: +0\r\n\r\n",
    "a length in hexadecimal": HEAD + b"content-length: 0x0\r\n\r\n",
    "a length of full-width digits": HEAD + "content-length: \uff10\r\n\r\n".encode(),
    "a length of twenty digits": HEAD + b"content-length: 99999999999999999999\r\n\r\n",
    "chunks that are not last": HEAD + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunks twice": HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /version HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": HEAD + b"x: a\r\n b\r\n\r\n",
    "a folded first line": b"GET /version HTTP/1.1\r\n host: x\r\n\r\n",
    "a bare line feed": b"GET /version HTTP/1.1\nhost: x\n\n",
    "a bare carriage return": HEAD + b"x: a\rb: c\r\n\r\n",
    "a null byte": HEAD + b"x: a\0b\r\n\r\n",
    "a space before the colon": HEAD + b"content-length : 44\r\n\r\n",
    "a control character in a name": HEAD + b"x\x01: a\r\n\r\n",
    "an empty name": HEAD + b": a\r\n\r\n",
    "no colon": HEAD + b"x\r\n\r\n",
    "a giant chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a negative chunk": HEAD + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    "a chunk in hexadecimal with a prefix": HEAD + b"transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "a chunk with blanks": HEAD + b"transfer-encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n",
    "a chunk that is longer than it says": HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "a chunk that ends with a line feed": HEAD + b"transfer-encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "another version": b"GET /version HTTP/1.2\r\nhost: x\r\n\r\n",
    "no version": b"GET /version\r\n\r\n",
    "HTTP/2 in the clear": frames.PREFACE,
    "a tab in the request line": b"GET\t/version\tHTTP/1.1\r\nhost: x\r\n\r\n",
    "a null byte in the target": b"GET /ver\0sion HTTP/1.1\r\nhost: x\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_that_two_readers_could_understand_differently_is_refused(service: Service, name: str) -> None:
    answer, rest = exchange(service, AMBIGUOUS[name] + SMUGGLED)
    assert answer is not None, "no answer"
    assert answer.status in (400, 505), answer
    assert answer.headers.get("connection") == "close"
    assert rest == b""


def test_http_1_0_needs_no_host(service: Service) -> None:
    answer, _ = exchange(service, b"GET /version HTTP/1.0\r\n\r\n")
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize("trailer", ["authorization: Bearer TOKEN", "host: y", "content-length: 5"])
def test_trailers_are_no_headers(service: Service, trailer: str) -> None:
    sent = b"GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    answer, _ = exchange(service, sent + trailer.replace("TOKEN", service.token).encode() + b"\r\n\r\n")
    assert answer is not None
    assert answer.status in (400, 401), answer


@pytest.mark.parametrize("name", ["impersonate-user", "impersonate-group"])
def test_nobody_impersonates_in_a_trailer(service: Service, name: str) -> None:
    head = f"authorization: Bearer {service.token}\r\n".encode()
    sent = b"GET /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\n" + head + b"transfer-encoding: chunked\r\n\r\n0\r\n"
    answer, _ = exchange(service, sent + f"{name}: nobody\r\n\r\n".encode())
    assert answer is not None
    assert answer.status in (200, 400), answer


H2_FIELDS = {
    "a name with a space": (b"x y", b"z"),
    "a name in upper case": (b"X", b"z"),
    "a name with a colon": (b"x:y", b"z"),
    "a name with a line": (b"x\r\nhost", b"z"),
    "a name that is empty": (b"", b"z"),
    "a value with a line": (b"x", b"a\r\nb: c"),
    "a value with a null byte": (b"x", b"a\0b"),
    "a value with a control character": (b"x", b"a\x01b"),
    "a transfer encoding": (b"transfer-encoding", b"chunked"),
    "a pseudo-header at the end": (b":path", b"/livez"),
}


@pytest.mark.parametrize("name", H2_FIELDS)
def test_a_field_that_http_1_could_not_carry_is_refused_in_http_2(service: Service, name: str) -> None:
    two = Two(service)
    two.send(two.get(1, H2_FIELDS[name]))
    assert two.status(1) == -frames.PROTOCOL_ERROR
    two.close()


def test_two_hosts_and_two_lengths_are_refused_in_http_2(service: Service) -> None:
    two = Two(service)
    two.send(two.get(1, (b"host", b"x"), (b"host", b"y")))
    two.send(two.get(3, (b"content-length", b"0"), (b"content-length", b"0")))
    assert [two.status(1), two.status(3)] == [-frames.PROTOCOL_ERROR] * 2
    two.close()


@pytest.mark.parametrize("digits", ["٣", "３", "१", "³"], ids=["Arabic", "full-width", "Devanagari", "superscript"])
@pytest.mark.parametrize("option", ["limit", "resourceVersion", "timeoutSeconds", "timeout"])
def test_only_ascii_digits_are_numbers(service: Service, digits: str, option: str) -> None:
    unit = "s" if option == "timeout" else ""
    answer = service.ask("GET", f"/api/v1/namespaces?{option}={quote(digits)}{unit}")
    assert answer.status == 400, answer


QUERIES = {
    "a timeout of 60,000 digits": "/version?timeout=" + "1" * 60_000,
    "a timeout of 15,000 spans": "/version?timeout=" + "1h" * 15_000 + "x",
    "30,000 parameters": "/version?" + "a&" * 30_000,
    "20,000 escapes": "/version?a=" + "%20" * 20_000,
    "a path of 60,000 parts": "/apis/a/b/c" + "/" * 60_000,
    "60,000 dots": "/api/v1/" + "../" * 20_000,
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_target_is_read_in_time_by_its_length(service: Service, name: str) -> None:
    with quiet(service, name):
        wire = service.connect(DEADLINE)
        began = time.monotonic()
        answers = [wire.ask("GET", QUERIES[name]).status for _ in range(3)]
        wire.close()
    assert time.monotonic() - began < 2
    assert set(answers) <= {200, 400, 401, 404}


def test_too_many_parameters_are_refused_by_name(service: Service) -> None:
    answer = service.ask("GET", "/api/v1/namespaces?" + "a&" * 30_000)
    assert answer.status == 400
    assert "limit is" in answer.json()["message"]


SELECTORS = {
    "7,000 absent labels": ("labelSelector", ",".join(f"!k{n}" for n in range(7_000))),
    "30,000 labels": ("labelSelector", "a," * 30_000 + "a"),
    "11,000 values": ("labelSelector", "a in (" + ",".join(map(str, range(11_000))) + ")"),
    "60,000 brackets": ("labelSelector", "a in " + "(" * 60_000),
    "3,000 names": ("fieldSelector", ",".join(f"metadata.name!=n{n}" for n in range(3_000))),
    "20,000 backslashes": ("fieldSelector", "metadata.name=" + "\\" * 20_000),
    "a token of 60,000 bytes": ("continue", "e" * 60_000),
    "a revision of 60,000 digits": ("resourceVersion", "1" * 60_000),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_is_limited_or_costs_no_more_for_each_object_than_the_object(service: Service, name: str) -> None:
    for index in range(300):
        if service.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c{index}"}}).status == 409:  # fmt: skip
            break
    option, text = SELECTORS[name]
    with quiet(service, name):
        began = time.monotonic()
        answer = service.ask("GET", f"/api/v1/namespaces/default/configmaps?{option}={quote(text, safe=',()!=')}")
    spent = time.monotonic() - began
    print(f"{name}: {answer.status} after {spent * 1000:.0f} ms, {answer.body[-120:]!r}")
    assert answer.status in (200, 400), answer.status
    assert spent < 1


def test_repeated_headers_are_put_together_in_linear_time(service: Service) -> None:
    """Impersonate-Group is the header that may be repeated; each value is checked by itself."""
    wire = service.connect(DEADLINE)
    with quiet(service, "1,500 groups and extras"):
        for name in (b"impersonate-group: g", b"impersonate-extra-a: g"):
            lines = b"".join(b"%b%d\r\n" % (name, n) for n in range(1_000))
            head = f"authorization: Bearer {service.token}\r\nimpersonate-user: x\r\n".encode()
            began = time.monotonic()
            wire.send(b"GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + head + lines + b"\r\n")
            assert wire.read().status == 403
            assert time.monotonic() - began < 1
    wire.close()


ACCEPTS = {
    "10,000 media ranges": ",".join(["application/json;as=Table;v=v9"] * 2_000),
    "30,000 parameters": "application/json" + ";" * 60_000,
    "a number of 60,000 digits": "application/json;q=" + "9" * 60_000,
}


@pytest.mark.parametrize("name", ACCEPTS)
def test_what_is_accepted_is_limited(service: Service, name: str) -> None:
    with quiet(service, name):
        for turn in itertools.count():
            began = time.monotonic()
            answer = service.ask("GET", "/api/v1/namespaces", accept=ACCEPTS[name] + f";t={turn}")
            assert time.monotonic() - began < 1
            if turn == 5:
                break
    assert answer.status in (200, 406), answer


def test_methods_that_clients_make_up_are_counted_as_one(service: Service) -> None:
    before = resident(service)
    for turn in range(4):
        two = Two(service)
        for stream in range(1, 100, 2):
            method = b"M%04d" % (turn * 1000 + stream) + b"X" * 40_000
            size = len(method) - 127
            length = bytes((127, size & 127 | 128, size >> 7 & 127 | 128, size >> 14))
            two.send(headers(stream, b"\x02" + length + method + b"\x84\x87\x01\x01x"))
        assert two.status(99) in (400, 401, 405)
        two.close()
    print(f"200 methods of 40 kB: {resident(service) - before} MB")
    shown = service.ask("GET", "/metrics").body.decode()
    assert "XXXX" not in shown
    assert 'method="other"' in shown


def test_a_websocket_may_send_so_many_frames_and_no_more(service: Service) -> None:
    wire = service.connect()
    wire.send(
        b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\norigin: http://x\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        + f"authorization: Bearer {service.token}\r\n\r\n".encode()
    )
    assert wire._until(b"\r\n\r\n").startswith(b"HTTP/1.1 101")
    with quiet(service, "pings of a WebSocket"):
        with suppress(OSError):
            wire.send(b"\x89\x80abcd" * 200_000)
        with suppress(Closed, OSError):
            while True:
                wire._more()
    wire.close()
    assert b"\x88\x02\x03\xf0" in wire._left, "closed for a reason of policy (1008)"


def test_times_with_a_million_digits_are_not_remembered(service: Service) -> None:
    before = resident(service)
    for index in range(40):
        body = {
            "metadata": {"name": f"t{index}"},
            "involvedObject": {"namespace": "default"},
            "firstTimestamp": f"2026-01-01T00:00:00.{index:06d}{'1' * 2_900_000}Z",
        }
        assert service.ask("POST", "/api/v1/namespaces/default/events?dryRun=All", body).status == 201
    grown = resident(service) - before
    print(f"40 times of 2.9 MB: {grown} MB kept")
    assert grown < 60, "each of them is kept"


def test_half_open_connections_do_not_keep_others_out(service: Service) -> None:
    """More connections than are served at once, of which none asks for anything: those that ask take their places."""
    held: list[Wire] = []
    try:
        with quiet(service, "silent connections"):
            for _ in range(300):
                wire = service.connect()
                wire.send(b"GET /version HTTP/1.1\r\nhost: x\r\n")
                held.append(wire)
            assert service.ask("GET", "/version").status == 200
    finally:
        for wire in held:
            wire.close()
    assert isinstance(service.tls(), ssl.SSLContext)
    assert Path(service.home).exists()
