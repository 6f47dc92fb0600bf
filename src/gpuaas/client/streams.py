"""exec, attach and port-forward from the client's side: channels over a WebSocket, as kube-apiserver and we serve them.

`RemoteCommand` is a command in a pod, `Forwarded` one connection to a port of a pod. What comes is taken from the
connection only as fast as it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gpuaas.base import websocket_frames as ws
from gpuaas.base.errors import BadRequest
from gpuaas.client.connection import READ_SIZE, Connection
from gpuaas.client.http import HttpClient
from gpuaas.client.resources import PODS

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECES: Final = 16  # that wait to be read, of each stream
_LONGEST_STATUS: Final = 64 * 1024
_PORT_SIZE: Final = 2
UNKNOWN: Final = 255  # the exit code of a command of which none came


class Channels:
    """One WebSocket whose messages begin with the number of a channel."""

    def __init__(self, client: HttpClient, connection: Connection, protocol: str) -> None:
        self._client = client
        self._connection = connection
        self._decoder = ws.Decoder(masked=False)
        self.protocol = protocol
        self._is_closed = False

    @classmethod
    async def open(
        cls, client: HttpClient, namespace: str, pod: str, part: str, query: Sequence[tuple[str, str]],
        protocols: Sequence[str],
    ) -> Channels:  # fmt: skip
        headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", b64encode(os.urandom(16)).decode()),
            ("Sec-WebSocket-Protocol", ", ".join(protocols)),
        ]
        path = PODS.path(quote(namespace, safe=""), quote(pod, safe=""), part)
        connection, head = await client.upgrade(path, query, headers)
        said = head.decode("latin-1").lower().split("sec-websocket-protocol:")
        return cls(client, connection, said[1].split("\r\n")[0].strip() if len(said) > 1 else "")

    async def send(self, channel: int, data: bytes) -> None:
        self._write(ws.BINARY, bytes((channel,)) + data)
        await self._connection.writer.drain()

    def _write(self, kind: int, payload: bytes) -> None:
        self._connection.writer.write(ws.frame(kind, payload, os.urandom(4)))

    async def messages(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """Channel and bytes, of a long message in pieces; until the other side ends it."""
        channel = -1
        while data := await self._connection.reader.read(READ_SIZE):
            try:
                for event in self._decoder.feed(data):
                    if isinstance(event, ws.Control):
                        if event.kind == ws.CLOSE:
                            self._write(ws.CLOSE, event.payload[:2])
                            return
                        if event.kind == ws.PING:
                            self._write(ws.PONG, event.payload)
                        continue
                    piece = event.data
                    if event.first:
                        if not piece:
                            continue
                        channel, piece = piece[0], piece[1:]
                    if piece:
                        yield channel, piece
            except ws.SocketFault as fault:
                raise ConnectionError(f"the server's answer is no WebSocket: {fault}") from None

    def close(self) -> None:
        if not self._is_closed:
            with contextlib.suppress(OSError):
                self._write(ws.CLOSE, ws.NORMAL.to_bytes(2, "big"))
            self._leave()

    def _leave(self) -> None:
        self._is_closed = True
        self._client.leave(self._connection)

    def __del__(self) -> None:
        """Of a session that was opened and never begun, since its own client had gone by then."""
        if not self._is_closed:
            self._leave()


class RemoteCommand:
    """A command in a pod, or output one is attached to. Its methods are those of a command that runs here."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._pieces: dict[int, asyncio.Queue[bytes]] = {
            number: asyncio.Queue(_PIECES) for number in (_STDOUT, _STDERR)
        }
        self._result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.message = ""  # what the server said of an end that is no exit code
        self._task: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, client: HttpClient, namespace: str, pod: str, container: str, words: Sequence[str] | None,
        *, tty: bool, stdin: bool,
    ) -> RemoteCommand:  # fmt: skip
        """`words`: None attaches."""
        flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        query = [("command", word) for word in words or ()]
        query += [(name, "true") for name, wanted in flags.items() if wanted]
        query += [("container", container)] if container else []
        part = "attach" if words is None else "exec"
        return cls(await Channels.open(client, namespace, pod, part, query, (V5, V4)))

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._hear())

    async def _hear(self) -> None:
        status = b""
        try:
            async for channel, data in self._channels.messages():
                if channel in self._pieces:
                    await self._pieces[channel].put(data)
                elif channel == _ERROR and len(status) < _LONGEST_STATUS:
                    status += data
        except OSError as error:
            self.message = f"the connection broke off: {error}"
        self._result.set_result(self._code(status))
        for queue in self._pieces.values():
            await queue.put(b"")

    def _code(self, status: bytes) -> int:
        try:
            found: Any = msgspec.json.decode(status)
            if found.get("status") == "Success":
                return 0
            causes = (found.get("details") or {}).get("causes") or ()
            codes = [int(each["message"]) for each in causes if each.get("reason") == "ExitCode"]
            self.message = "" if codes else str(found.get("message") or "")
            return codes[0] if codes else 1
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError):
            self.message = self.message or "the connection ended before the command did"
            return UNKNOWN

    async def read(self, *, errors: bool) -> bytes:
        queue = self._pieces[_STDERR if errors else _STDOUT]
        if self._result.done() and queue.empty():
            return b""
        return await queue.get()

    async def write(self, data: bytes) -> None:
        await self._channels.send(_STDIN, data)

    def close_input(self) -> None:
        """Version 4 has no word for it: there the command's input stays open."""
        if self._channels.protocol == V5 and not self._result.done():
            self._sending = asyncio.ensure_future(self._send(_CLOSE, bytes((_STDIN,))))

    def resize(self, columns: int, rows: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        self._sending = asyncio.ensure_future(self._send(_RESIZE, size))

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(OSError):
            await self._channels.send(channel, data)

    async def ended(self) -> int:
        return await asyncio.shield(self._result)

    def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._channels.close()


class Forwarded:
    """One connection to a port of a pod."""

    def __init__(self, channels: Channels, port: int) -> None:
        self._channels = channels
        self._port = port
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, client: HttpClient, namespace: str, pod: str, port: int) -> Forwarded:
        return cls(await Channels.open(client, namespace, pod, "portforward", [("ports", str(port))], (V4,)), port)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Raises ApiError with the server's words where the port does not answer."""
        headed: dict[int, int] = {}  # bytes of the port's number that have come, by channel
        refusal = b""
        async with contextlib.aclosing(self._channels.messages()) as messages:
            async for channel, piece in messages:
                missing = _PORT_SIZE - headed.get(channel, 0)
                headed[channel] = headed.get(channel, 0) + len(piece)
                data = piece[missing:] if missing > 0 else piece
                if channel == 1:
                    refusal += data[:_LONGEST_STATUS]
                elif data:
                    yield data
        if refusal:
            raise BadRequest(refusal.decode(errors="replace"))

    async def write(self, data: bytes) -> None:
        await self._channels.send(0, data)

    def close(self) -> None:
        self._channels.close()


async def forward(there: Forwarded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection here and its other half at a port of a pod, until the pod's side has ended."""
    sending = asyncio.ensure_future(_send(reader, there))
    try:
        async for piece in there.pieces():
            writer.write(piece)
            await writer.drain()
    finally:
        sending.cancel()
        there.close()
        writer.close()


async def _send(reader: asyncio.StreamReader, there: Forwarded) -> None:
    """The protocol has no word for the end of one direction: it ends with the other."""
    with contextlib.suppress(OSError):
        while data := await reader.read(READ_SIZE):
            await there.write(data)
