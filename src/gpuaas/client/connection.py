"""HTTP/1.1 over asyncio streams: keep-alive connections to one server, parsed in C.

A connection carries one request at a time; `Pool` lends them out and takes back those that may be used again. What
goes wrong on the way is an OSError, never a parser's error. What requests mean is module http's business.
"""

import asyncio
import contextlib
import re
import ssl
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httptools

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
READ_SIZE = 1 << 16
IDLE_CONNECTIONS = 64
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # as Kubernetes writes them

Headers = Sequence[tuple[str, str]]


class Response:
    """An answer whose head is here and whose body may still be coming."""

    def __init__(self, connection: "Connection", release: Callable[["Connection", bool], None]) -> None:
        self._connection = connection
        self._release = release
        self._body: deque[bytes] = deque()
        self._complete = False
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headed = False
        self._reusable = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.warnings: list[str] = []

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = text
        if key == "warning" and (found := _WARNING.match(text)):
            self.warnings.append(re.sub(r"\\(.)", r"\1", found[1]))

    def on_headers_complete(self) -> None:
        self._headed = True
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._complete = True
        self._reusable = self._parser.should_keep_alive()  # afterwards the parser has forgotten it

    # What the caller calls

    async def head(self) -> None:
        while not self._headed:
            await self._more()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, unpacked. Leaving early closes the connection."""
        unpack = zlib.decompressobj(wbits=31) if self.headers.get("content-encoding") == "gzip" else None
        try:
            while True:
                while self._body:
                    piece = self._body.popleft()
                    yield unpack.decompress(piece) if unpack else piece
                if self._complete:
                    break
                await self._more()
        finally:
            self.close()

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    def close(self) -> None:
        if self._release is not _released:
            release, self._release = self._release, _released
            release(self._connection, self._reusable)

    async def _more(self) -> None:
        data = await self._connection.reader.read(READ_SIZE)
        if not data:
            if self._headed and "content-length" not in self.headers and "transfer-encoding" not in self.headers:
                self._complete = True  # a body that ends with the connection
                return
            raise ConnectionResetError("the server closed the connection before its answer was complete")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionError(f"the server's answer is not HTTP: {error}") from error


def _released(_connection: "Connection", _reusable: bool) -> None: ...


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.used = False

    @property
    def alive(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing() and self.reader.exception() is None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.writer.close()

    def drop(self) -> None:
        """At once, without a farewell that a loop about to end would not wait for."""
        with contextlib.suppress(Exception):
            self.writer.transport.abort()


class Pool:
    """Connections to one server. `context` gives the TLS settings, None for plain HTTP."""

    def __init__(
        self,
        server: str,
        context: Callable[[], Awaitable[ssl.SSLContext | None]],
        server_name: str = "",
        patience: float = ANSWER_SECONDS,
    ) -> None:
        parts = urlsplit(server)
        self.base_path = parts.path.rstrip("/")
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._authority = parts.netloc
        self._server_name = server_name
        self._patience = patience
        self._make_context = context
        self._context: ssl.SSLContext | None = None
        self._has_context = False
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        # Beyond the connections that are kept, each request would cost a handshake: it waits for its turn instead.
        self._turns = asyncio.Semaphore(IDLE_CONNECTIONS)

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    async def request(self, method: str, target: str, headers: Headers, body: bytes = b"") -> Response:
        """Send, and return when the head of the answer is here."""
        message = self._encode(method, target, headers, body)
        async with self._turns:
            return await self._exchange(method, message)

    async def _exchange(self, method: str, message: bytes) -> Response:
        while True:
            connection = await self._take()
            reused = connection.used
            response = Response(connection, self._give_back)
            try:
                connection.used = True
                connection.writer.write(message)
                async with asyncio.timeout(self._patience):
                    await connection.writer.drain()
                    await response.head()
                return response
            except ConnectionError:
                response.close()
                # A kept connection may have been closed by the server just now; reading again is harmless.
                if not (reused and method == "GET"):
                    raise
            except BaseException:
                response.close()
                raise

    async def dedicated(self, method: str, target: str, headers: Headers) -> tuple[Connection, int, bytes, bytes]:
        """A request on a connection of its own, which may leave HTTP: with it status, head and a body that is no upgrade."""
        connection = await self._connect()
        try:
            async with asyncio.timeout(self._patience):
                connection.writer.write(self._encode(method, target, headers, b""))
                await connection.writer.drain()
                head = await connection.reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
                size = re.search(rb"(?i)\r\ncontent-length: *([0-9]{1,6})\r\n", head)
                body = await connection.reader.readexactly(int(size[1])) if size and status != 101 else b""
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError):
            self._give_back(connection, False)
            raise ConnectionError("the server's answer is not HTTP, or was cut off") from None
        except BaseException:
            self._give_back(connection, False)
            raise
        return connection, status, head, body

    def drop(self, connection: Connection) -> None:
        """Of a dedicated connection, when it has served."""
        self._give_back(connection, False)

    def close(self) -> None:
        for connection in (*self._idle, *self._lent):
            connection.drop()
        self._idle.clear()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                self._lent.add(connection)
                return connection
            connection.close()
        return await self._connect()

    async def _connect(self) -> Connection:
        if not self._has_context:
            self._context = await self._make_context()
            self._has_context = True
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                self._host,
                self._port,
                ssl=self._context,
                server_hostname=(self._server_name or self._host) if self._context else None,
            )
        connection = Connection(reader, writer)
        self._lent.add(connection)
        return connection

    def _give_back(self, connection: Connection, reusable: bool) -> None:
        self._lent.discard(connection)
        if reusable and connection.alive and len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()

    def _encode(self, method: str, target: str, headers: Headers, body: bytes) -> bytes:
        lines = [f"{method} {self.base_path}{target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header or path contains a line break")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
