"""WebSockets (RFC 6455): how consoles in browsers watch and read logs, for a browser can read no other stream.

A stream that is asked for over one is sent in frames: of a watch each event by itself, of a log what there is. The
client is heard only to know that it is alive, or leaves. That its token may be among the subprotocols is `authn`'s.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha1
from typing import Any, Final

from gpuaas.apiserver.http import SLOW_READER, Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.security.authn import asks_for_socket, subprotocols
from gpuaas.apiserver.wirelimits import FrameAllowance

_LARGEST: Final = 64 * 1024  # of client messages, which are discarded
_SALT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_NORMAL, _PROTOCOL_ERROR, _POLICY, _TOO_BIG = 1000, 1002, 1008, 1009

Form = Callable[[bytes], bytes]
"""A piece of a stream as frames."""


def watched(request: Request, stream: Stream) -> Answer:
    """A watch, over a WebSocket where one is asked for: any one subprotocol is as good as another."""
    if not asks_for_socket(request.headers):
        return stream
    if b"origin" not in request.headers:
        return _refused(403)
    offered = subprotocols(request.headers)
    return _refused(400) if len(offered) > 1 else _upgraded(request, stream, _lines, "".join(offered))


def spoken(request: Request, stream: Stream, protocol: str) -> Answer:
    """A stream of lines, each a message, with this subprotocol; the caller has checked that it was offered."""
    return _upgraded(request, stream, _lines, protocol)


def turn_away(writer: StreamWriter) -> None:
    """Ends a WebSocket whose client may not hear it, or no longer: with the code of a violated policy."""
    if isinstance(writer, _Conversation):
        writer.end(_POLICY.to_bytes(2, "big"))
    else:
        writer.close()


def read(request: Request, stream: Stream) -> Answer:
    """Bytes, over a WebSocket where one is asked for: the first subprotocol that says how."""
    if not asks_for_socket(request.headers):
        return stream
    for name in subprotocols(request.headers) or ("",):
        form = _FORMS.get(name)
        if form is not None:
            return _upgraded(request, stream, form, name)
    return _refused(403)


def _upgraded(request: Request, stream: Stream, form: Form, protocol: str) -> Answer:
    key = request.headers.get(b"sec-websocket-key", b"")
    if not key or request.header(b"sec-websocket-version") != "13":
        return _refused(400)
    stream.socket = partial(_begin, stream.start, form, _head(key, protocol))
    return stream


def _refused(status: int) -> Response:
    return Response(status, b"", b"text/plain", ((b"sec-websocket-version", b"13"),) if status == 400 else ())


def _head(key: bytes, protocol: str) -> bytes:
    accepted = b64encode(sha1(key + _SALT, usedforsecurity=False).digest())
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"upgrade: websocket",
        b"connection: Upgrade",
        b"sec-websocket-accept: " + accepted,
    ]
    if protocol:
        lines.append(b"sec-websocket-protocol: " + protocol.encode("latin-1"))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _begin(
    start: Callable[[StreamWriter], Callable[[], None]],
    form: Form,
    head: bytes,
    transport: asyncio.Transport,
    connections: set[Any],
) -> None:
    conversation = _Conversation(transport, connections, form)
    transport.set_protocol(conversation)
    transport.write(head)
    conversation.begin(start)


class _Conversation(StreamWriter, asyncio.Protocol):
    """A connection that has become a WebSocket: the writer of its stream, and what hears its client."""

    replaceable = False  # its client has authenticated

    def __init__(self, transport: asyncio.Transport, connections: set[Any], form: Form) -> None:
        super().__init__()
        self._transport = transport
        self._connections = connections
        self._form = form
        self._heard = bytearray()
        self._loop = asyncio.get_running_loop()
        self._allowance = FrameAllowance(self._loop.time())
        self._gone: Callable[[], None] | None = None
        connections.add(self)

    def begin(self, start: Callable[[StreamWriter], Callable[[], None]]) -> None:
        gone = start(self)
        if self.closed:  # it had nothing to wait for
            gone()
            return
        self._gone = gone
        self._transport.resume_reading()

    # What the stream says.

    def write(self, data: bytes) -> None:
        if self.closed or not data:
            return
        self._transport.write(self._form(data))
        if self._transport.get_write_buffer_size() > SLOW_READER:
            self.abort()

    def close(self) -> None:
        self.end(_NORMAL.to_bytes(2, "big"))

    def end(self, reason: bytes) -> None:
        if self.closed:
            return
        self._transport.write(frame(_CLOSE, reason))
        self._transport.close()
        self._drop()

    def _drop(self) -> None:
        self.closed = True
        self.on_pause = self.on_resume = None
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while not self.closed and len(self._heard) >= 2:
            start, size = _extent(self._heard)
            if not self._heard[1] & 0x80:
                self.end(_PROTOCOL_ERROR.to_bytes(2, "big"))
            elif size > _LARGEST:
                self.end(_TOO_BIG.to_bytes(2, "big"))
            elif len(self._heard) < start + size:
                return
            elif not self._allowance.spend(self._loop.time(), 0):
                self.end(_POLICY.to_bytes(2, "big"))
            else:
                self._hear(self._heard[0] & 0xF, start, size)
                del self._heard[: start + size]

    def _hear(self, kind: int, start: int, size: int) -> None:
        if kind not in (_PING, _CLOSE):
            return  # what clients say otherwise is not listened to
        payload = _unmasked(self._heard, start, size)
        if kind == _PING:
            self._transport.write(frame(_PONG, payload))
        else:
            self.end(payload[:2])

    def pause_writing(self) -> None:
        if self.on_pause is not None:
            self.on_pause()

    def resume_writing(self) -> None:
        if self.on_resume is not None:
            self.on_resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._drop()

    # What the listener calls.

    def look(self, now: float) -> None:
        """A stream may be silent for as long as nothing happens."""

    def shut_down(self) -> None:
        self.close()

    def abort(self) -> None:
        self._transport.abort()


def frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((0x80 | kind, size)) + payload
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + size.to_bytes(2, "big") + payload
    return bytes((0x80 | kind, 127)) + size.to_bytes(8, "big") + payload


def _extent(heard: bytearray) -> tuple[int, int]:
    """Where a client's frame has its payload, behind the four bytes of its mask, and how long that is."""
    size = heard[1] & 0x7F
    if size < 126:
        return 6, size
    width = 2 if size == 126 else 8
    return 6 + width, int.from_bytes(heard[2 : 2 + width], "big") if len(heard) >= 2 + width else 0


def _unmasked(heard: bytearray, start: int, size: int) -> bytes:
    mask = bytes(heard[start - 4 : start]) * (size // 4 + 1)
    masked = int.from_bytes(heard[start : start + size], "big") ^ int.from_bytes(mask[:size], "big")
    return masked.to_bytes(size, "big")


def _lines(data: bytes) -> bytes:
    return b"".join(frame(_TEXT, line) for line in data.splitlines(keepends=True))


def _binary(data: bytes) -> bytes:
    return frame(_BINARY, data)


def _as_text(data: bytes) -> bytes:
    return frame(_TEXT, b64encode(data))


_FORMS: Mapping[str, Form] = {"": _binary, "binary.k8s.io": _binary, "base64.binary.k8s.io": _as_text}
