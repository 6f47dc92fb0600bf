"""One HTTP/1.1 exchange with a notebook's server, over a connection of its own to a Unix socket.

The answer is read as it comes: its head within a limit of size and time, its body in pieces, no faster than they are
taken. A connection is not used twice, so nothing of one user's exchange can reach another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

import httptools

HEAD_LIMIT: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_CONNECT: Final = 5.0  # seconds
_CROWDED: Final = 0.05

Fields = Sequence[tuple[bytes, bytes]]


class NotThere(Exception):
    """No server listens on the socket, or it did not answer as HTTP; the text says which."""


class Exchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.rest = b""  # of a connection that has become a WebSocket: what came behind the head
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0
        self._headed = self._over = False
        self._pieces: list[bytes] = []

    # What httptools calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headed = self.status == 101 or self.status >= 200
        if not self._headed:
            self.fields = []

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self._over = self._headed

    # The exchange.

    async def ask(self, head: bytes, body: bytes, *, within: float) -> None:
        """Sends the request and reads the head of the answer."""
        try:
            async with asyncio.timeout(within):
                self.writer.write(head + body)
                await self.writer.drain()
                while not self._headed:
                    self._feed(await self.reader.read(_PIECE))
        except TimeoutError:
            raise NotThere(f"its server did not answer within {within:.0f} s") from None
        except OSError as error:
            raise NotThere(f"its server broke the connection off: {error.strerror or error}") from None

    def _feed(self, data: bytes) -> None:
        if not data:
            raise NotThere("its server closed the connection without an answer")
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            raise NotThere(f"its server did not answer as HTTP/1.1: {error}") from None
        if not self._headed and self._size > HEAD_LIMIT:
            raise NotThere(f"its answer has headers of more than {HEAD_LIMIT} bytes")

    async def body(self) -> AsyncGenerator[bytes, None]:
        while True:
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                yield piece
            if self._over:
                return
            data = await self.reader.read(_PIECE)
            if not data:
                return  # a body that ends with the connection, or one that was cut short
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                return

    def close(self) -> None:
        self.writer.close()


async def connect(socket: Path) -> Exchange:
    try:
        async with asyncio.timeout(_CONNECT):
            while True:
                try:
                    reader, writer = await asyncio.open_unix_connection(socket, limit=_PIECE)
                    break
                except BlockingIOError:  # more connect at once than the server has room for: its backlog is short
                    await asyncio.sleep(_CROWDED)
    except (OSError, TimeoutError):
        raise NotThere("its server does not listen yet") from None
    return Exchange(reader, writer)


async def fetch(socket: Path, target: str, *, within: float, limit: int) -> tuple[int, bytes]:
    """Status and body of a GET; raises NotThere, also for a body beyond the limit."""
    exchange = await connect(socket)
    try:
        head = f"GET {target} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\nconnection: close\r\n\r\n"
        await exchange.ask(head.encode(), b"", within=within)
        found = bytearray()
        async with asyncio.timeout(within):
            async for piece in exchange.body():
                found += piece
                if len(found) > limit:
                    raise NotThere(f"its answer has more than {limit} bytes")
        return exchange.status, bytes(found)
    except TimeoutError:
        raise NotThere(f"its server did not answer within {within:.0f} s") from None
    finally:
        exchange.close()
