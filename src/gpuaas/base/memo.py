"""What was found out about a value, remembered for the next one that is just like it.

Objects repeat in their larger parts: the jobs of a sweep have one template, the pods of a job one spec, and what is
true of one is true of all. Equal here means equal as JSON, byte for byte: to tell costs a small part of looking again.
What is remembered must follow from the value alone, and callers must not change it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

import msgspec

Found = TypeVar("Found")
_LARGEST: Final = 16 * 1024  # bytes; larger values are rare, and would be most of what is kept
_PIECE: Final = 2047
_encode = msgspec.json.Encoder().encode


class Repeats(Generic[Found]):
    """The newest `most` values and what was found; memory is bounded by both limits."""

    __slots__ = ("_found", "_most")

    def __init__(self, most: int = 128) -> None:
        self._most = most
        self._found: dict[bytes, Found] = {}

    def of(self, value: Any, find: Callable[[], Found]) -> Found:
        key = _encode(value)
        found = self._found.get(key)
        if found is None:
            found = find()
            if len(key) <= _LARGEST:
                if len(self._found) >= self._most:
                    del self._found[next(iter(self._found))]
                self._found[key] = found
        return found


def digest(text: bytes) -> bytes:
    """Of pieces so short that the interpreter is not let go of for each: others would take it for milliseconds."""
    made = blake2b(digest_size=16)
    for start in range(0, len(text), _PIECE):
        made.update(text[start : start + _PIECE])
    return made.digest()


class FoundRight(Generic[Found]):
    """The newest `most` values with which nothing was found to be wrong. A value is kept as a digest of it, so that many
    can be."""

    __slots__ = ("_most", "_right")

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._right: dict[bytes, None] = {}

    def of(self, value: Any, find: Callable[[], list[Found]]) -> list[Found]:
        """What is wrong with it."""
        key = digest(_encode(value))
        if key in self._right:
            return []
        wrong = find()
        if not wrong:
            if len(self._right) >= self._most:
                del self._right[next(iter(self._right))]
            self._right[key] = None
        return wrong
