"""SPDY/3.1 on the wire: a decoder fed with bytes as they arrive, and the frames that are sent. Pure.

What is kept of a peer is bounded: of a control frame `MAX_CONTROL` bytes, of its header block `MAX_HEADERS` bytes after
decompression (decompression stops there), of a data frame nothing, since its payload is handed on in pieces. Kubernetes'
clients neither send WINDOW_UPDATE frames nor keep to windows, so that none are kept here: TCP's own flow control holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MAX_CONTROL: Final = 16 * 1024
MAX_HEADERS: Final = 16 * 1024
MAX_FIELDS: Final = 64
_HEAD: Final = 8
_VERSION: Final = 3
_LAST_STREAM: Final = (1 << 31) - 1

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN: Final = 0x01
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5

# The dictionary both ends prime compression with (SPDY/3, section 2.6.10.1): words with their lengths, then fragments.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_FRAGMENTS: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(
        len(word).to_bytes(4, "big") + word.encode() for word in (each.replace("_", " ") for each in _WORDS.split())
    )
    + _FRAGMENTS.encode()
)


class SpdyFault(Exception):
    """The peer broke the rules so that nothing more of the connection can be understood."""


@dataclass(frozen=True, slots=True)
class SynStream:
    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class SynReply:
    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class Headers:
    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of a data frame; `fin` with the last one of a frame that ends its stream."""

    stream: int
    piece: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    last: int


@dataclass(frozen=True, slots=True)
class Ignored:
    """A frame that changes nothing here (SETTINGS, WINDOW_UPDATE, an unknown one, empty data): it costs its sender."""


Frame = SynStream | SynReply | Headers | Data | Reset | Ping | GoAway | Ignored


class Decoder:
    def __init__(self) -> None:
        self._held = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._stream = 0  # of the data frame whose payload is arriving
        self._left = 0  # bytes of it that are still to come
        self._fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete by now. Raises SpdyFault, after which nothing more may be fed."""
        self._held += data
        start = 0
        held = self._held
        try:
            while True:
                if self._left:
                    piece = bytes(held[start : start + self._left])
                    if not piece:
                        return
                    start += len(piece)
                    self._left -= len(piece)
                    yield Data(self._stream, piece, self._fin and not self._left)
                    continue
                if len(held) - start < _HEAD:
                    return
                length = int.from_bytes(held[start + 5 : start + 8], "big")
                if not held[start] & 0x80:
                    self._stream = int.from_bytes(held[start : start + 4], "big")
                    self._fin, self._left = bool(held[start + 4] & FIN), length
                    start += _HEAD
                    if not length:
                        yield Data(self._stream, b"", True) if self._fin else Ignored()
                    continue
                if length > MAX_CONTROL:
                    raise SpdyFault(f"a control frame of {length} bytes, at most {MAX_CONTROL} are allowed")
                if len(held) - start < _HEAD + length:
                    return
                head, start = bytes(held[start : start + _HEAD]), start + _HEAD
                payload, start = bytes(held[start : start + length]), start + length
                yield self._control(head, payload)
        finally:
            del held[:start]

    def _control(self, head: bytes, payload: bytes) -> Frame:
        version, kind, flags = int.from_bytes(head[:2], "big") & 0x7FFF, int.from_bytes(head[2:4], "big"), head[4]
        if version != _VERSION:
            raise SpdyFault(f"SPDY version {version}, only {_VERSION} is spoken")
        match kind:
            case 1:
                return SynStream(_number(payload, 10), self._headers(payload[10:]), bool(flags & FIN))
            case 2:
                return SynReply(_number(payload, 4), self._headers(payload[4:]), bool(flags & FIN))
            case 3:
                return Reset(_number(payload, 8), int.from_bytes(payload[4:8], "big"))
            case 6:
                _number(payload, 4)
                return Ping(int.from_bytes(payload[:4], "big"))
            case 7:
                return GoAway(_number(payload, 8))
            case 8:
                return Headers(_number(payload, 4), self._headers(payload[4:]), bool(flags & FIN))
            case _:
                return Ignored()

    def _headers(self, block: bytes) -> dict[str, str]:
        """Every block goes through the one decompressor of the connection, whether it is of use or not."""
        try:
            plain = self._inflate.decompress(block, MAX_HEADERS + 1)
        except zlib.error as error:
            raise SpdyFault(f"a header block cannot be decompressed: {error}") from None
        if len(plain) > MAX_HEADERS or self._inflate.unconsumed_tail:
            raise SpdyFault(f"a header block of more than {MAX_HEADERS} bytes, which is the most allowed")
        count = _number(plain, 4)
        if count > MAX_FIELDS:
            raise SpdyFault(f"a header block with {count} fields, at most {MAX_FIELDS} are allowed")
        found: dict[str, str] = {}
        at = 4
        for _ in range(count):
            name, at = _text(plain, at)
            value, at = _text(plain, at)
            found[name.lower()] = value
        return found


def _number(payload: bytes, least: int) -> int:
    """The first four bytes, of a payload that must have so many at least."""
    if len(payload) < least:
        raise SpdyFault(f"a frame of {len(payload)} bytes, at least {least} were expected")
    return int.from_bytes(payload[:4], "big") & _LAST_STREAM


def _text(plain: bytes, at: int) -> tuple[str, int]:
    size = int.from_bytes(plain[at : at + 4], "big")
    end = at + 4 + size
    if at + 4 > len(plain) or end > len(plain):
        raise SpdyFault("a header block that ends within a field")
    return plain[at + 4 : end].decode("latin-1"), end


class Encoder:
    """The frames that are sent. Header blocks share one compressor: they leave in the order in which they were made."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def syn_stream(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        payload = stream.to_bytes(4, "big") + bytes(6) + self._block(headers)
        return control(SYN_STREAM, FIN if fin else 0, payload)

    def syn_reply(self, stream: int, headers: Mapping[str, str] | None = None) -> bytes:
        return control(SYN_REPLY, 0, stream.to_bytes(4, "big") + self._block(headers or {}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = len(headers).to_bytes(4, "big") + b"".join(
            len(text).to_bytes(4, "big") + text for pair in headers.items() for text in (each.encode() for each in pair)
        )
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def control(kind: int, flags: int, payload: bytes) -> bytes:
    return (
        ((0x8000 | _VERSION) << 16 | kind).to_bytes(4, "big")
        + (flags << 24 | len(payload)).to_bytes(4, "big")
        + payload
    )


def data(stream: int, payload: bytes, *, fin: bool = False) -> bytes:
    head = stream.to_bytes(4, "big") + ((FIN if fin else 0) << 24 | len(payload)).to_bytes(4, "big")
    return head + payload


def reset(stream: int, status: int) -> bytes:
    return control(RST_STREAM, 0, stream.to_bytes(4, "big") + status.to_bytes(4, "big"))


def ping(number: int) -> bytes:
    return control(PING, 0, number.to_bytes(4, "big"))


def goaway(last: int) -> bytes:
    return control(GOAWAY, 0, last.to_bytes(4, "big") + bytes(4))
