"""Header blocks of clients (HPACK, RFC 7541), unpacked within limits and in time by their length.

The table and Huffman's code are the `hpack` library's. The loop is not: the library copies the rest of the block for each
literal field, which is quadratic (3.2 s for 256 kB), takes any number of changes of the table's size, and can only
end the connection where a header list is too large. Here a list over the limit is not kept and the table stays right, so
that the request alone can be refused; at twice the limit nothing more is unpacked.
"""

from typing import Final

from hpack import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from gpuaas.apiserver.wirelimits import FIELD_OVERHEAD, MAX_HEADERS

Fields = list[tuple[bytes, bytes]]

LARGEST_BLOCK: Final = 2 * MAX_HEADERS  # as it is sent
_GIVEN_UP: Final = 2 * MAX_HEADERS  # of a header list
_SIZE_UPDATES: Final = 2  # of the table in one block: RFC 7541, section 4.2
_INTEGER: Final = 4  # bytes after the first


class TooLarge(Exception):
    """A header list so large that its rest was not unpacked: the table is not right any more."""


class HeaderBlocks:
    """Of one connection, in the order they came."""

    def __init__(self) -> None:
        self._table = HeaderTable()

    def unpack(self, block: bytes) -> Fields | None:
        """The fields; None where they are more than `MAX_HEADERS`. Raises TooLarge and HPACKDecodingError."""
        try:
            return self._fields(block)
        except IndexError:
            raise HPACKDecodingError("a header block without its end") from None

    def _fields(self, block: bytes) -> Fields | None:
        table, fields = self._table, Fields()
        size = updates = at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = (first & 0x7F, at + 1) if first != 0xFF else _integer(block, at, 0x7F)
                field = table.get_by_index(index)
            elif first & 0xE0 == 0x20:
                updates += 1
                if size or updates > _SIZE_UPDATES:
                    raise HPACKDecodingError(f"limit is {_SIZE_UPDATES} changes of the table's size, before any field")
                at = self._resize(block, at)
                continue
            else:
                field, at = self._literal(block, at)
                if first & 0x40:
                    table.add(*field)
            size += len(field[0]) + len(field[1]) + FIELD_OVERHEAD
            if size <= MAX_HEADERS:
                fields.append(field)
            elif size > _GIVEN_UP:
                raise TooLarge(f"request headers of more than {_GIVEN_UP} bytes: limit is {MAX_HEADERS}")
        return fields if size <= MAX_HEADERS else None

    def _literal(self, block: bytes, at: int) -> tuple[tuple[bytes, bytes], int]:
        index, at = _integer(block, at, 0x3F if block[at] & 0x40 else 0x0F)
        if index:
            name: bytes = self._table.get_by_index(index)[0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _integer(block, at, 0x1F)
        if size > HeaderTable.DEFAULT_SIZE:
            raise HPACKDecodingError(f"a table of {size} bytes: limit is {HeaderTable.DEFAULT_SIZE}")
        self._table.maxsize = size
        return at


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _INTEGER, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise HPACKDecodingError(f"an integer of more bytes than the limit of {_INTEGER + 1}")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    packed = block[at] & 0x80
    size, start = _integer(block, at, 0x7F)
    end = start + size
    if end > len(block):
        raise HPACKDecodingError("a header block without its end")
    text = block[start:end]
    return decode_huffman(text) if packed else text, end
