"""Which places a status changes, remembered for the next one that is written alike, where nothing was wrong with it.

Thousands of workloads are admitted, evicted and finished in the same way, each in its own words and at its own time.
What was found out of one, that it reads as itself, that it is right and what of it is new, is true of them all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gpuaas.apiserver import validation_cache
from gpuaas.base.memo import digest

_MOST: Final = 8192
_LARGEST: Final = 8 * 1024  # bytes; larger ones are rare, and would be most of what is kept
_encode = msgspec.json.Encoder().encode


class KnownStatuses:
    """Of one version of a kind, whose rules do not ask for the words and times of conditions (`validation_cache.asks_no_words`)."""

    __slots__ = ("_changes", "_free")

    def __init__(self, free: Sequence[validation_cache.Path] = ()) -> None:
        """`free`: where numbers are that decide nothing either (`validation_cache.free_numbers`)."""
        self._changes: dict[bytes, msgspec.Raw] = {}
        self._free = free

    def key(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> bytes:
        return digest(_encode(validation_cache.status_outline(obj, old, self._free)))

    def change(self, key: bytes) -> msgspec.Raw | None:
        return self._changes.get(key)

    def remember(self, key: bytes, change: Any) -> None:
        said = _encode(change)
        if len(said) > _LARGEST:
            return
        if len(self._changes) >= _MOST:
            del self._changes[next(iter(self._changes))]
        self._changes[key] = msgspec.Raw(said)
