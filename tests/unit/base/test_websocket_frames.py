"""WebSocket frames: what is written is read again in any pieces, on either side; rules that are broken end it with a code."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base import websocket_frames as ws
from gpuaas.base.websocket_frames import Control, Decoder, Piece, SocketFault

MESSAGE = st.tuples(st.sampled_from([ws.TEXT, ws.BINARY, ws.PING, ws.PONG]), st.binary(max_size=120))
LONG = st.tuples(st.just(ws.BINARY), st.integers(0, 70_000).map(bytes))


def read(decoder: Decoder, wire: bytes, size: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    message = b""
    for at in range(0, len(wire), size):
        for event in decoder.feed(wire[at : at + size]):
            if isinstance(event, Control):
                found.append((event.kind, event.payload))
                continue
            message = event.data if event.first else message + event.data
            if event.last:
                found.append((ws.TEXT if event.text else ws.BINARY, message))
    return found


@given(
    st.lists(st.one_of(MESSAGE, LONG), max_size=6),
    st.binary(min_size=4, max_size=4),
    st.booleans(),
    st.integers(1, 9000),
)
def test_what_is_written_is_read_again_in_any_pieces(
    messages: list[tuple[int, bytes]], mask: bytes, masked: bool, size: int
) -> None:
    wire = b"".join(ws.frame(kind, data, mask if masked else b"") for kind, data in messages)
    assert read(Decoder(masked=masked), wire, size) == messages


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(wire: bytes, masked: bool) -> None:
    decoder = Decoder(masked=masked)
    with contextlib.suppress(SocketFault):
        list(decoder.feed(wire))
    assert len(decoder._held) <= len(wire)


def test_a_message_in_parts_with_a_ping_between_them() -> None:
    first, rest = b"\x02\x03abc", b"\x80\x02de"
    found = list(Decoder(masked=False).feed(first + ws.frame(ws.PING, b"x") + rest))
    assert found == [Piece(b"abc", True, False, False), Control(ws.PING, b"x"), Piece(b"de", False, True, False)]


BROKEN: list[tuple[str, bytes]] = [
    ("a server's frame from a client", b"\x82\x01x"),
    ("a reserved bit", b"\xc2\x80\0\0\0\0"),
    ("an unknown kind", b"\x83\x80\0\0\0\0"),
    ("a long ping", b"\x89\xfe\x00\x7e\0\0\0\0"),
    ("a ping in parts", b"\x09\x80\0\0\0\0"),
    ("a part of no message", b"\x80\x80\0\0\0\0"),
    ("a message in a message", b"\x02\x80\0\0\0\0\x82\x80\0\0\0\0"),
    ("a negative length", b"\x82\xff" + b"\xff" * 8 + b"\0\0\0\0"),
]


@pytest.mark.parametrize("wire", [each[1] for each in BROKEN], ids=[each[0] for each in BROKEN])
def test_rules_that_are_broken_end_it(wire: bytes) -> None:
    with pytest.raises(SocketFault):
        list(Decoder(masked=True).feed(wire))


def test_a_message_of_any_length_is_not_kept() -> None:
    decoder = Decoder(masked=True)
    list(decoder.feed(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0"))
    for _ in range(64):
        (piece,) = decoder.feed(bytes(65536))
        assert isinstance(piece, Piece)
        assert not decoder._held
