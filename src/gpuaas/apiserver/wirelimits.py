"""Limits on what a client may send before its request is understood, the same for HTTP/1.1 and HTTP/2.

Header fields are counted as RFC 9113 counts a header list (name, value and 32 bytes each), so that many small ones are
limited as well. A body takes as much memory as it has bytes, however small the pieces it comes in, and of a client that
has shown no credentials only a short one is kept. Frames that ask for nothing come out of an allowance that grows with
time and with what the server sent. When all connections are taken, one that has not authenticated makes room.
"""

import re
from collections.abc import Callable
from typing import Any, Final

MAX_BODY: Final = 3 * 1024 * 1024
MAX_HEADERS: Final = 64 * 1024  # of a request's header list, and of its target
FIELD_OVERHEAD: Final = 32  # counted for each header field, as in RFC 9113, section 6.5.2
MAX_FRAMING: Final = 16  # bytes of chunk sizes and extensions for each byte of a body
UNKNOWN_BODY: Final = 64 * 1024  # of a body that is kept of a client that has not authenticated
PARSED_AT_ONCE: Final = 16 * 1024  # bytes between two looks at the clock
TOO_LARGE_HEADERS: Final = b"request headers too large: limit is %d bytes, counting %d more for each field" % (
    MAX_HEADERS,
    FIELD_OVERHEAD,
)

_BURST: Final = 2000.0  # frames that ask for nothing, at once
_PER_SECOND: Final = 500.0
_PER_BYTE: Final = 1 / 256  # for each byte sent: a client confirms what it has read

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_HOST: Final = re.compile(rb"[A-Za-z0-9._~:\[\]%!$&'()*+;=-]*")  # RFC 3986, without the list that a proxy could make


def is_field(name: bytes, value: bytes) -> bool:
    """Whether HTTP/1.1 could carry the field: a token in lower case, and a value without control characters."""
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


def is_value(value: bytes) -> bool:
    return _VALUE.fullmatch(value) is not None


def is_host(value: bytes) -> bool:
    """One host, with or without a port. Repeated headers are joined by newlines, which no host contains."""
    return _HOST.fullmatch(value) is not None


def head_problem(version: str, headers: dict[bytes, bytes]) -> tuple[int, bytes] | None:
    """Why a request whose headers have arrived is not understood as it is."""
    if version not in ("1.1", "1.0"):
        return 505, b"HTTP/%b is not spoken here, only HTTP/1.1, HTTP/1.0 and, with TLS, HTTP/2" % version.encode()
    host = headers.get(b"host")
    if host is None:
        return (400, b"missing required Host header") if version == "1.1" else _unframed(headers)
    if b"\n" in host:
        return 400, b"too many Host headers"
    if not is_host(host):
        return 400, b"malformed Host header"
    return None if version == "1.1" else _unframed(headers)


def _unframed(headers: dict[bytes, bytes]) -> tuple[int, bytes] | None:
    """HTTP/1.0 knows no chunks: a proxy that speaks it takes them for the next request."""
    return (400, b"Transfer-Encoding in an HTTP/1.0 request") if b"transfer-encoding" in headers else None


class Body:
    """A request's body as it arrives. It is dropped where it is too large, or long and its client is unknown."""

    __slots__ = ("_asked", "_limit", "_more", "_whole", "dropped", "kept", "size")

    def __init__(self, limit: int = MAX_BODY) -> None:
        self._limit = limit
        self._whole = b""  # as most come: in one piece
        self._more: bytearray | None = None
        self.size = 0  # of what arrived
        self.kept = 0  # of that in memory
        self.dropped = False
        self._asked = False

    def add(self, piece: bytes, is_known: Callable[[], bool], *, others: int = 0) -> None:
        """`others`: bytes that are kept of other bodies of a client of which nothing is known yet."""
        self.size += len(piece)
        if self.dropped:
            return
        if not self._asked and self.size + others > UNKNOWN_BODY:
            self._asked = True
            self.dropped = not is_known()
        if self.dropped or self.size > self._limit:
            self._whole, self._more, self.kept, self.dropped = b"", None, 0, True
            return
        self.kept = self.size
        if self._more is not None:
            self._more += piece
        elif self._whole:
            self._more = bytearray(self._whole)
            self._more += piece
            self._whole = b""
        else:
            self._whole = piece

    def take(self) -> bytes:
        whole, self._whole = self._whole if self._more is None else bytes(self._more), b""
        self._more = None
        return whole


class FrameAllowance:
    """How many frames that ask for nothing (PING, SETTINGS, RST_STREAM, empty DATA …) a connection may still send."""

    __slots__ = ("_left", "_sent", "_since")

    def __init__(self, now: float) -> None:
        self._left = _BURST
        self._since = now
        self._sent = 0

    def spend(self, now: float, sent: int, cost: float = 1.0) -> bool:
        """Whether there was enough left; `sent` is the number of bytes the server has sent on the connection."""
        if self._left < cost:
            grown = (now - self._since) * _PER_SECOND + (sent - self._sent) * _PER_BYTE
            self._left, self._since, self._sent = min(_BURST, self._left + grown), now, sent
        self._left -= cost
        return self._left >= 0


def admit(connections: set[Any], connection: Any, most: int) -> bool:
    """Adds a connection, if need be in the place of the one that has been silent for longest without credentials."""
    if len(connections) >= most:
        idle = min((each for each in connections if each.replaceable), key=lambda each: each.waits_since, default=None)
        if idle is None:
            return False
        connections.discard(idle)
        idle.abort()
    connections.add(connection)
    return True
