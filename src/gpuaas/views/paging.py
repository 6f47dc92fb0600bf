"""Pages of sorted rows. A page ends with the sort key of its last row, and the next one starts after that key.

The token holds the key, not an offset: rows that come or go between two requests move no other row from one page to
another. A row whose own key changes meanwhile (its place in the queue) may be seen twice or not at all, as in any list
that is not read from one revision.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from gpuaas.base.errors import BadRequest

MOST = 5_000  # rows in one answer; encoding them takes about 10 ms
_LONGEST_TOKEN = 2_000

Key = tuple[str | int | float, ...]


def limit_of(asked: int | None) -> int:
    return MOST if not asked or asked < 0 else min(asked, MOST)


def token_of(key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode()


def key_of(token: str, shape: tuple[type, ...]) -> Key:
    """The sort key a token holds; `shape` says what its parts are."""
    try:
        if len(token) > _LONGEST_TOKEN:
            raise ValueError
        found: Any = msgspec.json.decode(base64.urlsafe_b64decode(token))
        if type(found) is not list or tuple(type(part) for part in found) != shape:
            raise ValueError
    except ValueError:  # msgspec's and binascii's errors are ValueErrors
        raise BadRequest("continue: a token that an earlier answer gave was expected, or none") from None
    return tuple(found)
