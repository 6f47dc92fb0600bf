"""SPDY/3.1 frames: what is sent is read again in any pieces, what is malformed or too large is refused, nothing grows."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.apiserver.streaming import spdy_frames as spdy
from gpuaas.apiserver.streaming.spdy_frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    Ping,
    Reset,
    SpdyFault,
    SynReply,
    SynStream,
)

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEADERS = st.dictionaries(st.text("abcdefghijklmnop-", min_size=1, max_size=20), TEXT, max_size=8)
STREAM = st.integers(1, (1 << 31) - 1)
DATA = st.builds(Data, STREAM, st.binary(min_size=1, max_size=300), st.booleans())
FRAME = st.one_of(
    st.builds(SynStream, STREAM, HEADERS, st.booleans()),
    st.builds(SynReply, STREAM, HEADERS, st.just(False)),
    st.builds(Reset, STREAM, st.integers(0, 11)),
    st.builds(Ping, st.integers(0, (1 << 32) - 1)),
    DATA,
)


def written(frames: Sequence[Frame]) -> bytes:
    encoder, made = Encoder(), b""
    for frame in frames:
        match frame:
            case SynStream(stream, headers, fin):
                made += encoder.syn_stream(stream, headers, fin=fin)
            case SynReply(stream, headers):
                made += encoder.syn_reply(stream, headers)
            case Reset(stream, status):
                made += spdy.reset(stream, status)
            case Ping(number):
                made += spdy.ping(number)
            case Data(stream, piece, fin):
                made += spdy.data(stream, piece, fin=fin)
    return made


def joined(frames: Sequence[Frame]) -> list[Frame]:
    """The pieces of one data frame put together; each frame of these tests has data of its own."""
    found: list[Frame] = []
    for frame in frames:
        last = found[-1] if found else None
        if isinstance(frame, Data) and isinstance(last, Data) and last.stream == frame.stream and not last.fin:
            found[-1] = Data(frame.stream, last.piece + frame.piece, frame.fin)
        else:
            found.append(frame)
    return found


@settings(max_examples=200)
@given(st.lists(FRAME, max_size=8), st.integers(1, 64))
def test_what_is_written_is_read_again_in_any_pieces(frames: list[Frame], size: int) -> None:
    wire, decoder = written(frames), Decoder()
    read = [frame for at in range(0, len(wire), size) for frame in decoder.feed(wire[at : at + size])]
    assert joined(read) == joined(frames)


@settings(max_examples=300)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_read_or_refused(wire: bytes, size: int) -> None:
    decoder = Decoder()
    with contextlib.suppress(SpdyFault):
        for at in range(0, len(wire), size):
            list(decoder.feed(wire[at : at + size]))
    assert len(decoder._held) <= len(wire)


def block(plain: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def opening(plain: bytes) -> bytes:
    return spdy.control(spdy.SYN_STREAM, 0, number(1) + bytes(6) + block(plain))


MALFORMED: list[tuple[str, bytes, str]] = [
    ("version 2", b"\x80\x02\x00\x01\x00\x00\x00\x00", "SPDY version 2, only 3 is spoken"),
    ("a control frame too long", b"\x80\x03\x00\x01\x00\x00\x40\x01", "a control frame of 16385 bytes, at most 16384"),
    ("SYN_STREAM too short", spdy.control(spdy.SYN_STREAM, 0, bytes(9)), "a frame of 9 bytes, at least 10"),
    ("PING too short", spdy.control(spdy.PING, 0, bytes(3)), "a frame of 3 bytes, at least 4"),
    ("RST_STREAM too short", spdy.control(spdy.RST_STREAM, 0, bytes(4)), "a frame of 4 bytes, at least 8"),
    ("GOAWAY too short", spdy.control(spdy.GOAWAY, 0, b""), "a frame of 0 bytes, at least 8"),
    ("no zlib", spdy.control(spdy.SYN_STREAM, 0, number(1) + bytes(6) + b"plain"), "cannot be decompressed"),
    (
        "another dictionary",
        spdy.control(spdy.SYN_STREAM, 0, number(1) + bytes(6) + zlib.compress(b"x")),
        "a frame of 1",
    ),
    ("an empty block", opening(b""), "a frame of 0 bytes, at least 4"),
    ("fields that are not there", opening(number(1)), "ends within a field"),
    ("a field beyond the end", opening(number(1) + number(100) + b"x"), "ends within a field"),
    ("a length of 4 GiB", opening(number(1) + b"\xff" * 4 + b"x"), "ends within a field"),
    ("too many fields", opening(number(65) + bytes(8 * 65)), "a header block with 65 fields, at most 64"),
    ("a bomb", opening(bytes(10_000_000)), "a header block of more than 16384 bytes"),
]


@pytest.mark.parametrize(("wire", "words"), [each[1:] for each in MALFORMED], ids=[each[0] for each in MALFORMED])
def test_what_is_malformed_is_refused_with_words(wire: bytes, words: str) -> None:
    with pytest.raises(SpdyFault, match=words):
        list(Decoder().feed(wire))


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    """Its checksum stands in the header of every compressed block of SPDY/3."""
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


def test_a_long_data_frame_is_not_kept() -> None:
    decoder = Decoder()
    head = number(1) + b"\x01\xff\xff\xff"
    list(decoder.feed(head))
    size = 0
    for _ in range(256):
        pieces = list(decoder.feed(bytes(65535)))
        size += sum(len(each.piece) for each in pieces if isinstance(each, Data))
        assert not decoder._held
    assert size == 256 * 65535


def test_empty_data_costs_and_an_end_is_an_end() -> None:
    assert list(Decoder().feed(spdy.data(3, b""))) == [spdy.Ignored()]
    assert list(Decoder().feed(spdy.data(3, b"", fin=True))) == [Data(3, b"", True)]
    assert list(Decoder().feed(spdy.control(spdy.WINDOW_UPDATE, 0, number(1) + number(0)))) == [spdy.Ignored()]
