"""HTTP/1.1 on an asyncio protocol: requests in, responses and streams out, nothing of Kubernetes.

Below ASGI because it is the hot path of the product (measured: three times the gets, docs/adr/0002), and because it
gives the handler the peer's certificate. A handler is a plain function; it answers with a `Response`, a `Stream`, or an
awaitable of one, so that what needs no waiting costs no task. Requests of one connection are answered in order.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from time import gmtime, strftime
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from gpuaas.apiserver.load_shedding import Slices
from gpuaas.apiserver.wirelimits import (
    FIELD_OVERHEAD,
    MAX_BODY,
    MAX_FRAMING,
    MAX_HEADERS,
    PARSED_AT_ONCE,
    TOO_LARGE_HEADERS,
    Body,
    admit,
    head_problem,
)
from gpuaas.base.clock import SystemClock

PIECE: Final = 64 * 1024  # of a long body, and how much may wait in a connection's buffers
SLOW_READER: Final = 64 * 1024 * 1024  # bytes waiting for one stream's client; more and it is cut off
MAX_CONNECTIONS: Final = 4096  # more are turned away: files and memory are for those who are served
_LINGER: Final = 0.2  # seconds in which a refused client that still sends can read the refusal
_MAX_WAITING: Final = 64  # requests sent before their turn; reading stops until some are answered
REQUEST_LIMIT: Final = 60.0  # seconds from a connection's or request's first byte to its last
IDLE_LIMIT: Final = 300.0  # between requests; clients keep connections for 90 s and less

JSON: Final = b"application/json"
_wall: Final = SystemClock()  # what is said on the wire is the world's time, whatever time the cluster lives in
_REASONS = {
    200: b"OK", 201: b"Created", 202: b"Accepted", 204: b"No Content", 301: b"Moved Permanently", 302: b"Found",
    303: b"See Other", 206: b"Partial Content", 307: b"Temporary Redirect", 308: b"Permanent Redirect",
    304: b"Not Modified", 400: b"Bad Request", 401: b"Unauthorized", 403: b"Forbidden", 404: b"Not Found",
    405: b"Method Not Allowed", 406: b"Not Acceptable", 408: b"Request Timeout", 409: b"Conflict", 410: b"Gone",
    411: b"Length Required", 413: b"Request Entity Too Large", 415: b"Unsupported Media Type",
    422: b"Unprocessable Entity", 429: b"Too Many Requests", 431: b"Request Header Fields Too Large",
    500: b"Internal Server Error", 501: b"Not Implemented", 503: b"Service Unavailable", 504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported",
}  # fmt: skip
_STATUS_LINES = {code: b"HTTP/1.1 %d %s\r\n" % (code, _REASONS.get(code, b"Status")) for code in range(200, 600)}


class Request:
    __slots__ = (
        "body",
        "headers",
        "known",
        "method",
        "path",
        "peer",
        "query",
        "target",
        "too_large",
        "transport",
        "warnings",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        self.method = ""
        self.path = ""
        self.query = ""
        self.target = b""  # as it was sent, over HTTP/1.1
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.too_large = False
        self.known = False  # whether the client has authenticated
        self.transport = transport
        self.peer: Any = None
        self.warnings: list[str] = []  # for the client, whatever comes of the request

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def peer_certificate(self) -> bytes | None:
        """DER of the verified client certificate, if the client showed one."""
        connection = cast("ssl.SSLObject | None", self.transport.get_extra_info("ssl_object"))
        return connection.getpeercert(binary_form=True) if connection is not None else None


class Response:
    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Stream:
    """A response without an end of its own: `start` gets a writer and returns what to call when the client has gone."""

    __slots__ = ("content_type", "headers", "socket", "start", "status")

    def __init__(
        self,
        start: "Callable[[StreamWriter], Callable[[], None]]",
        content_type: bytes = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.socket: Callable[[asyncio.Transport, set[Any]], None] | None = None  # begins it as a WebSocket instead
        self.status = 200
        self.start = start
        self.content_type = content_type
        self.headers = headers


Answer = Response | Stream
Handler = Callable[[Request], Answer | Awaitable[Answer]]
Knows = Callable[[Request], bool]
"""Whether a request whose body has not arrived yet shows valid credentials."""


def knows_everybody(_request: Request) -> bool:
    return True


class StreamWriter(ABC):
    """The open end of a stream: pieces in, `close` ends it properly."""

    __slots__ = ("closed", "on_pause", "on_resume")

    def __init__(self) -> None:
        self.closed = False
        self.on_pause: Callable[[], None] | None = None  # the client reads slower than we write
        self.on_resume: Callable[[], None] | None = None

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class ChunkedWriter(StreamWriter):
    __slots__ = ("_connection",)

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: bytes) -> None:
        if self.closed or not data:
            return
        transport = self._connection.transport
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if transport.get_write_buffer_size() > SLOW_READER:
            self._connection.abort()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.end_stream()


class Connection(asyncio.Protocol):
    """One client. Parses what arrives, hands over whole requests one at a time, and writes the answers."""

    transport: asyncio.Transport

    def __init__(
        self,
        handler: Handler,
        connections: "set[Connection]",
        slices: Slices,
        knows: Knows = knows_everybody,
        limit: int = MAX_BODY,
    ) -> None:
        """`limit`: bytes of a body that are kept."""
        self._handler = handler
        self._knows = knows
        self._limit_of_body = limit
        self._connections = connections
        self._slices = slices
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None
        self._url = b""
        self._body: Body | None = None
        self._header_bytes = 0
        self._raw = 0  # bytes since the request began
        self._head_read = False
        self._unread = b""  # has arrived and waits for its turn to be parsed
        self._reading = False  # that turn is asked for
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        self._keep_alive = True
        self._bodyless = False  # a HEAD is answered without the body
        self._owes_continue = False
        self._ended = False  # nothing more is a request: it was refused, or another protocol has the transport
        self._upgraded = False
        self._known = False
        self._stream: StreamWriter | None = None
        self._on_gone: Callable[[], None] | None = None
        self._rest: memoryview | None = None  # of a long body, for which the client has not had room yet
        self._room = True
        # Asked once: asking for the running loop is a system call, which at this rate is a tenth of a request.
        self._loop = asyncio.get_running_loop()
        self.waits_since = self._loop.time()
        self._limit = REQUEST_LIMIT

    @property
    def replaceable(self) -> bool:
        return not (self._busy or self._known)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=PIECE)
        if not admit(self._connections, self, MAX_CONNECTIONS):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._rest = None
        self._unread = b""
        self._ended = True
        self._drop_stream()
        if self._task is not None:
            self._task.cancel()
        # The parser knows this connection: a ring that only the garbage collector would find, with all of TLS in it.
        # Not at once: this may be called from within the parser.
        self._loop.call_soon(self._let_go)

    def _let_go(self) -> None:
        del self._parser

    def data_received(self, data: bytes) -> None:
        if not self._unread and len(data) <= PARSED_AT_ONCE:
            self._feed(data)
        elif not self._ended:
            self._unread += data
            self.transport.pause_reading()
            self._read_on()

    def _read_on(self) -> None:
        if self._unread and not self._reading:
            self._reading = True
            self._slices.run(self._read_pieces)

    def _read_pieces(self) -> None:
        """Parses what has arrived piece by piece, as long as others need not wait for it."""
        self._reading = False
        while self._unread:
            if self._is_ahead() and not self._ended:
                return  # goes on when some are answered
            piece, self._unread = self._unread[:PARSED_AT_ONCE], self._unread[PARSED_AT_ONCE:]
            self._feed(piece)
            if self._unread and self._slices.is_over():  # asked after a piece: each turn does a part of the work
                self._reading = True
                self._slices.later(self._read_pieces)
                return
        if not (self._upgraded or self._is_ahead() or self.transport.is_closing()):
            self.transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        if self._ended:
            return
        self._raw += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if not self._upgraded:
                self._end_after_answers()  # whether it becomes a WebSocket or not: nothing more is a request
        except httptools.HttpParserError:
            self._refuse(400, b"not a valid HTTP/1.1 request")
        else:
            if self._raw > MAX_HEADERS:
                self._check_framing(len(data))

    def _check_framing(self, slack: int) -> None:
        """What is neither a header that has ended nor part of a body is limited as well: the parser does not report it."""
        size = self._body.size if self._body is not None else 0
        if self._ended or self._raw - size <= MAX_HEADERS + slack + MAX_FRAMING * size:
            return
        if self._request is not None and not self._head_read:
            self._refuse_headers()
        else:
            self._refuse(400, b"more than %d bytes around a body: limit for chunk sizes, extensions and trailers" % (
                MAX_HEADERS + MAX_FRAMING * size
            ), lingers=True)  # fmt: skip

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._room = False
        if self._stream is not None and self._stream.on_pause is not None:
            self._stream.on_pause()

    def resume_writing(self) -> None:
        self._room = True
        self._send_rest()
        if self._stream is not None and self._stream.on_resume is not None:
            self._stream.on_resume()

    # What httptools calls.

    def on_message_begin(self) -> None:
        if self._ended:
            return
        self._request = Request(self.transport)
        self.waits_since, self._limit = self._loop.time(), REQUEST_LIMIT
        self._url = b""
        self._body = None
        self._header_bytes = self._raw = 0
        self._head_read = False

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._header_bytes += len(url)
        if self._header_bytes > MAX_HEADERS:
            self._refuse_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self._request
        if request is None:
            return
        self._header_bytes += len(name) + len(value) + FIELD_OVERHEAD
        if self._header_bytes > MAX_HEADERS:
            self._refuse_headers()
        elif not self._head_read:  # trailers come after what they would change was decided: they are not used
            name = name.lower()
            headers = request.headers
            headers[name] = headers[name] + b"\n" + value if name in headers else value  # repeated ones, kept apart

    def on_headers_complete(self) -> None:
        request = self._request
        if request is None:
            return
        self._head_read = True
        headers = request.headers
        if problem := head_problem(self._parser.get_http_version(), headers):
            self._request = None
            self._refuse(*problem)
            return
        request.method = self._parser.get_method().decode("latin-1")
        request.target = self._url
        request.path, request.query = split_target(self._url)
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self._owes_continue = True
            self._go_on()

    def on_body(self, piece: bytes) -> None:
        request, body = self._request, self._body
        if request is None:
            return
        if body is None:
            body = self._body = Body(self._limit_of_body)
        body.add(piece, lambda: self._knows(request))
        if body.size > 8 * self._limit_of_body:
            self.abort()

    def on_message_complete(self) -> None:
        request, body = self._request, self._body
        if request is None:
            return
        self._request = self._body = None
        self._raw = 0
        self._owes_continue = False
        self.waits_since, self._limit = self._loop.time(), IDLE_LIMIT
        if body is not None:
            request.too_large = body.size > self._limit_of_body
            request.body = body.take()
        keep_alive = self._parser.should_keep_alive()
        if self._busy:
            self._waiting.append((request, keep_alive))
            if self._is_ahead():
                self.transport.pause_reading()
        else:
            self._busy = True
            self._slices.run(partial(self._answer, request, keep_alive))

    def _is_ahead(self) -> bool:
        """Whether more requests wait for their turn than are read ahead."""
        waiting = self._waiting
        return bool(waiting) and (len(waiting) > _MAX_WAITING or sum(len(each.body) for each, _ in waiting) > MAX_BODY)

    # Answering.

    def _answer(self, request: Request, keep_alive: bool) -> None:
        self._keep_alive = keep_alive and self._keep_alive
        self._bodyless = request.method == "HEAD"
        answer = self._handler(request)
        self._known = self._known or request.known
        if isinstance(answer, Response | Stream):
            self._send(answer)
        else:
            self._task = self._loop.create_task(self._wait(answer))

    async def _wait(self, answer: Awaitable[Answer]) -> None:
        result = await answer
        self._task = None
        self._send(result)

    def _send(self, answer: Answer) -> None:
        if self.transport.is_closing():
            self._busy = False
            return
        if isinstance(answer, Response):
            head = _head(answer, self._keep_alive)
            if self._bodyless:
                self.transport.write(head)
            elif len(answer.body) <= PIECE:
                self.transport.write(head + answer.body)
            else:
                self.transport.write(head)
                self._rest = memoryview(answer.body)
                self._send_rest()
                return
            self._next()
            return
        if answer.socket is not None:
            self._upgraded = self._ended = True
            self._connections.discard(self)
            self._loop.call_soon(self._let_go)
            answer.socket(self.transport, self._connections)
            return
        self.transport.write(_stream_head(answer))
        if self._bodyless:
            self._next()
            return
        writer = self._stream = ChunkedWriter(self)
        self._on_gone = answer.start(writer)
        if writer.closed:  # it had nothing to wait for
            self._drop_stream()
        elif not self._room and writer.on_pause is not None:  # an earlier answer still fills the buffers
            writer.on_pause()

    def _send_rest(self) -> None:
        """A long body goes out piece by piece, as the client takes it: what waits in buffers is memory twice over."""
        while self._room and self._rest:
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self.transport.write(piece)  # may find out that there is no more room, or that the client has gone
        if self._rest is not None and not self._rest:
            self._rest = None
            self._next()

    def end_stream(self) -> None:
        """The stream said all it had to say; the connection may serve the next request."""
        self._drop_stream()
        if not self.transport.is_closing():
            self.transport.write(b"0\r\n\r\n")
            self._next()

    def _drop_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed = True
            stream.on_pause = stream.on_resume = None
        gone, self._on_gone = self._on_gone, None
        if gone is not None:
            gone()

    def _next(self) -> None:
        self._busy = False
        self.waits_since = self._loop.time()
        if not self._keep_alive:
            self.transport.close()
        elif not self._waiting:
            self._go_on()
        else:
            request, keep_alive = self._waiting.popleft()
            if self._unread:
                self._read_on()
            elif not self._ended:
                self.transport.resume_reading()
            self._busy = True
            # Not directly: a long pipeline must not become a deep stack.
            self._loop.call_soon(self._slices.run, partial(self._answer, request, keep_alive))

    def _go_on(self) -> None:
        """Tells a client that asked first to send its body, once no earlier answer is in the way."""
        if self._owes_continue and not self._busy:
            self._owes_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _end_after_answers(self) -> None:
        self._request = None
        self._ended = True
        self._keep_alive = False
        if not self._busy:
            self.transport.close()
        else:
            self.transport.pause_reading()

    def _refuse(self, status: int, text: bytes, *, lingers: bool = False) -> None:
        """`lingers`: the client is still sending, and closing at once would take the answer away from it."""
        self._request, self._ended = None, True
        if self._busy:  # earlier requests of this connection have not been answered: no answer may overtake theirs
            self._end_after_answers()
        elif not self.transport.is_closing():
            self.transport.write(_head(Response(status, text, b"text/plain"), False) + text)
            if lingers:
                self._loop.call_later(_LINGER, self.transport.close)
            else:
                self.transport.close()

    def _refuse_headers(self) -> None:
        if not self._ended:
            self._refuse(431, TOO_LARGE_HEADERS, lingers=True)

    def look(self, now: float) -> None:
        """Lets go of a client that began a request and does not end it, or has asked nothing for long."""
        if self._busy or now - self.waits_since < self._limit:
            return
        if self._request is not None:
            self._refuse(408, b"the request did not arrive in time")
        else:
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def shut_down(self) -> None:
        """Ends streams at once; a request under way is given the time its handler takes."""
        if self._stream is not None:
            self._keep_alive = False
            self._stream.close()
        elif self._busy:
            self._keep_alive = False
        else:
            self.transport.close()


def split_target(url: bytes) -> tuple[str, str]:
    text = url.decode("latin-1")
    path, _, query = text.partition("?")
    if path.startswith(("http://", "https://")):  # the absolute form proxies send
        path = "/" + path.split("/", 3)[3] if path.count("/") > 2 else "/"
    return (unquote(path) if "%" in path else path), query


def _head(response: Response, keep_alive: bool) -> bytes:
    if response.status == 204:
        lines = [_STATUS_LINES[204]]
    else:
        lines = [
            _STATUS_LINES[response.status],
            b"content-type: ",
            response.content_type,
            b"\r\ncontent-length: %d\r\n" % len(response.body),
        ]
    lines.append(b"date: %b\r\n" % now_on_the_wire())
    lines.extend(b"%b: %b\r\n" % header for header in response.headers)
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(lines)


def now_on_the_wire() -> bytes:
    """When an answer was given, as the standard wants it on all of them."""
    return _date(int(_wall.now()))


@lru_cache(maxsize=1)
def _date(now: int) -> bytes:
    return strftime("%a, %d %b %Y %H:%M:%S GMT", gmtime(now)).encode()


def _stream_head(stream: Stream) -> bytes:
    lines = [
        _STATUS_LINES[stream.status],
        b"content-type: ",
        stream.content_type,
        b"\r\ntransfer-encoding: chunked\r\n",
        b"date: %b\r\n" % now_on_the_wire(),
    ]
    lines.extend(b"%b: %b\r\n" % header for header in stream.headers)
    lines.append(b"\r\n")
    return b"".join(lines)
