"""Header blocks as the `hpack` library packs them, and such as no client packs them."""

from __future__ import annotations

import hpack
import hypothesis.strategies as st
import pytest
from hypothesis import given

from gpuaas.apiserver.headerblocks import HeaderBlocks, TooLarge
from gpuaas.apiserver.wirelimits import MAX_HEADERS

NAMES = st.sampled_from([b":method", b":path", b"accept", b"authorization", b"x-own", b"cookie"]) | st.binary(
    max_size=20
)
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=200)), max_size=20)


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 100, 4096])), max_size=6))
def test_blocks_of_one_connection_say_what_was_packed(
    blocks: list[tuple[list[tuple[bytes, bytes]], bool, int | None]],
) -> None:
    encoder, ours, library = hpack.Encoder(), HeaderBlocks(), hpack.Decoder()
    for fields, huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman)
        assert ours.unpack(block) == fields == [tuple(each) for each in library.decode(block, raw=True)]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_as_the_library_reads_them_or_refused(block: bytes) -> None:
    try:
        found = HeaderBlocks().unpack(block)
    except (hpack.HPACKError, TooLarge):
        return
    assert found == [tuple(each) for each in hpack.Decoder().decode(block, raw=True)]


def test_a_list_that_is_too_large_leaves_the_table_right() -> None:
    encoder, ours = hpack.Encoder(), HeaderBlocks()
    many = [(b"x-%d" % n, b"y" * 90) for n in range(600)]
    assert ours.unpack(encoder.encode([*many, (b"kept", b"for later")])) is None
    assert ours.unpack(encoder.encode([(b"kept", b"for later")])) == [(b"kept", b"for later")]


@pytest.mark.parametrize("block", [b"\x82" * MAX_HEADERS, b"\x00\x01a\x00" * 5_000])
def test_a_list_that_is_far_too_large_is_not_unpacked_to_its_end(block: bytes) -> None:
    with pytest.raises(TooLarge, match=f"limit is {MAX_HEADERS}"):
        HeaderBlocks().unpack(block)


@pytest.mark.parametrize(
    "block",
    [b"\x20" * 3, b"\x82\x20", b"\x3f\xe2\x1f", b"\xff" + b"\x80" * 9 + b"\x01", b"\x80", b"\xff\x7f", b"\x00\x05ab", b"\x00", b"\x41", b"\x00\x81\xff\x00"],
)  # fmt: skip
def test_a_block_that_breaks_the_rules_is_refused(block: bytes) -> None:
    with pytest.raises(hpack.HPACKError):
        HeaderBlocks().unpack(block)
