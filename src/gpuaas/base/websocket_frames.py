"""WebSocket frames (RFC 6455) of a peer, decoded as their bytes arrive. Pure.

A data frame is handed on in pieces, so that a message of any length takes no memory; a control frame is kept whole, which
is 125 bytes at most. `masked` says which side is read: clients must mask what they send, servers must not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, PROTOCOL_ERROR, POLICY, TOO_BIG = 1000, 1002, 1008, 1009
_LONGEST_CONTROL: Final = 125


class SocketFault(Exception):
    """The peer broke the rules: the connection ends, with this code."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message; `first` and `last` mark its ends."""

    data: bytes
    first: bool
    last: bool
    text: bool


@dataclass(frozen=True, slots=True)
class Control:
    kind: int
    payload: bytes


class Decoder:
    def __init__(self, *, masked: bool) -> None:
        self._masked = masked
        self._held = bytearray()
        self._left = -1  # bytes of the data frame that are still to come; -1 between frames
        self._mask = b""
        self._turn = 0  # position in the mask
        self._fin = False
        self._within = False  # a message has begun
        self._first = False
        self._text = False

    def feed(self, data: bytes) -> Iterator[Piece | Control]:
        """Raises SocketFault, after which nothing more may be fed."""
        held = self._held
        held += data
        start = 0
        try:
            while True:
                if self._left >= 0:
                    piece = bytes(held[start : start + self._left])
                    if not piece and self._left:
                        return
                    start += len(piece)
                    yield self._piece(piece)
                    continue
                found = _head(held, start, masked=self._masked)
                if found is None:
                    return
                kind, fin, body, size = found
                if kind >= CLOSE:
                    if not fin or size > _LONGEST_CONTROL:
                        raise SocketFault(PROTOCOL_ERROR, "a control frame that is too long, or comes in parts")
                    if len(held) < body + size:
                        return
                    mask = bytes(held[body - 4 : body]) if self._masked else b""
                    payload = unmasked(bytes(held[body : body + size]), mask)
                    start = body + size
                    yield Control(kind, payload)
                    continue
                self._begin(kind, fin)
                self._mask = bytes(held[body - 4 : body]) if self._masked else b""
                self._left, self._turn, self._fin, start = size, 0, fin, body
        finally:
            del held[:start]

    def _begin(self, kind: int, fin: bool) -> None:
        if (kind == CONTINUED) is not self._within:
            raise SocketFault(PROTOCOL_ERROR, "a part of a message outside of one, or a message within another")
        if kind != CONTINUED:
            self._text, self._first, self._within = kind == TEXT, True, True

    def _piece(self, piece: bytes) -> Piece:
        plain = unmasked(piece, self._mask, self._turn)
        self._turn = (self._turn + len(piece)) % 4
        self._left -= len(piece)
        ended = not self._left
        if ended:
            self._left = -1
        first, self._first = self._first, False
        last = ended and self._fin
        if last:
            self._within = False
        return Piece(plain, first, last, self._text)


def _head(held: bytearray, start: int, *, masked: bool) -> tuple[int, bool, int, int] | None:
    """Kind, whether it is the last of its message, where its payload begins and how long that is; None: not here yet."""
    if len(held) - start < 2:
        return None
    first, second = held[start], held[start + 1]
    kind = first & 0xF
    if first & 0x70 or kind not in (CONTINUED, TEXT, BINARY, CLOSE, PING, PONG):
        raise SocketFault(PROTOCOL_ERROR, "a frame of an unknown kind")
    if bool(second & 0x80) is not masked:
        raise SocketFault(PROTOCOL_ERROR, "a frame that is not masked as its side must")
    size, body = second & 0x7F, start + 2
    if size >= 126:
        width = 2 if size == 126 else 8
        if len(held) < body + width:
            return None
        size, body = int.from_bytes(held[body : body + width], "big"), body + width
        if size >> 63:
            raise SocketFault(PROTOCOL_ERROR, "a frame whose length is negative")
    body += 4 if masked else 0
    return None if len(held) < body else (kind, bool(first & 0x80), body, size)


def unmasked(data: bytes, mask: bytes, turn: int = 0) -> bytes:
    """Masking and unmasking are the same."""
    if not mask or not data:
        return data
    turned = mask[turn:] + mask[:turn]
    whole = (turned * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")


def frame(kind: int, payload: bytes, mask: bytes = b"") -> bytes:
    """One whole message; with a mask where a client sends it."""
    size, flag = len(payload), 0x80 if mask else 0
    if size < 126:
        head = bytes((0x80 | kind, flag | size))
    elif size < 1 << 16:
        head = bytes((0x80 | kind, flag | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, flag | 127)) + size.to_bytes(8, "big")
    return head + mask + unmasked(payload, mask)
