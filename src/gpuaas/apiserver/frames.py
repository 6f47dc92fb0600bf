"""HTTP/2 on the wire (RFC 9113): frames, their flags and errors, and header blocks of answers. Nothing that waits.

What is read of a client's headers is the `hpack` library's; what we say of ours is so little that it needs no table: every
field is written out, by the number of its name where it has one. What the frames mean is `http2`'s.
"""

from functools import lru_cache
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_SIZE: Final = 9
LARGEST_FRAME: Final = 16384  # that we take, and that others take unless they say so
LARGEST_WINDOW: Final = 2**31 - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, COMPRESSION_ERROR = 0x5, 0x6, 0x7, 0x9
ENHANCE_YOUR_CALM: Final = 0xB

MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 0x3, 0x4, 0x5, 0x6

_STATUS_NUMBERS = {200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}
_STATUS, _CONTENT_LENGTH, _CONTENT_TYPE, _DATE = 8, 28, 31, 33


class ConnectionFault(Exception):
    """The client broke the rules so that nothing more can be understood: the connection ends, with this code."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class StreamFault(Exception):
    """Something is wrong with one stream; the others go on."""

    def __init__(self, stream: int, code: int) -> None:
        super().__init__(f"stream {stream}: error {code}")
        self.stream = stream
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frame_header(kind, flags, stream, len(payload)) + payload


def frame_header(kind: int, flags: int, stream: int, size: int) -> bytes:
    return (size << 48 | kind << 40 | flags << 32 | stream).to_bytes(HEADER_SIZE, "big")


def settings(values: dict[int, int]) -> bytes:
    body = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items())
    return frame(SETTINGS, 0, 0, body)


def window_update(stream: int, more: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big"))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last: int, code: int, words: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + words.encode())


def without_padding(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(PROTOCOL_ERROR, "more padding than there is frame")
    return payload[1 : len(payload) - payload[0]]


def header_frames(stream: int, block: bytes, flags: int, largest: int) -> bytes:
    """A header block, in as many frames as it needs."""
    if len(block) <= largest:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    pieces = [block[start : start + largest] for start in range(0, len(block), largest)]
    frames = [frame(HEADERS, flags, stream, pieces[0])]
    frames += [frame(CONTINUATION, 0, stream, piece) for piece in pieces[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream, pieces[-1]))
    return b"".join(frames)


def answer_block(
    status: int, content_type: bytes, length: int | None, date: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    parts = [_kind_of_answer(status, content_type)]
    if length is not None:
        parts.append(_named(_CONTENT_LENGTH, b"%d" % length))
    parts.append(_named(_DATE, date))
    parts.extend(b"\x00" + _text(name.lower()) + _text(value) for name, value in headers)
    return b"".join(parts)


@lru_cache(maxsize=256)
def _kind_of_answer(status: int, content_type: bytes) -> bytes:
    number = _STATUS_NUMBERS.get(status)
    first = bytes((0x80 | number,)) if number is not None else _named(_STATUS, b"%d" % status)
    return first + (_named(_CONTENT_TYPE, content_type) if content_type else b"")


def _named(number: int, value: bytes) -> bytes:
    """A field whose name is in the standard's table, not to be put into the client's."""
    return _number(number, 4) + _text(value)


def _text(value: bytes) -> bytes:
    return _number(len(value), 7) + value


def _number(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    made = bytearray((most,))
    value -= most
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
