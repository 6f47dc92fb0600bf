"""What the store hands out: entries (one version of one object), events (one change), and its errors.

Keys are `group/plural/namespace/name`, the namespace empty for cluster-scoped objects. An entry's bytes never change;
its decoded form is a convenience that may be dropped and decoded again, bounded by `DecodedCache`.
"""

from collections import OrderedDict
from typing import Any, Final, Literal

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_decode = msgspec.json.Decoder().decode
_OWNERSHIP: Final = "managedFields"  # often more than all the rest of the metadata
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class StoreError(Exception):
    """The store cannot do this, in words for the operator."""


class Compacted(StoreError):
    """History at this revision is gone: the reader has to list again."""

    def __init__(self, requested: int, compacted: int) -> None:
        super().__init__(f"too old resource version: {requested} ({compacted})")
        self.requested = requested
        self.compacted = compacted


class FutureRevision(StoreError):
    """A revision that has not been committed yet."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"too large resource version: {requested}, current: {current}")
        self.requested = requested
        self.current = current


class Entry:
    """One committed (or, from `Store.latest`, about to be committed) version of one object."""

    __slots__ = ("_cache", "created", "key", "raw", "revision", "value")

    def __init__(
        self,
        key: str,
        revision: int,
        created: int,
        raw: bytes,
        value: Any = None,
        cache: "DecodedCache | None" = None,
    ) -> None:
        self.key = key
        self.revision = revision
        self.created = created
        self.raw = raw
        self.value = value
        self._cache = cache
        if value is not None and cache is not None:
            cache.keep(self)

    @property
    def obj(self) -> Any:
        """The decoded object. It is shared: a caller that wants to change it builds a new one."""
        value = self.value
        if value is None:
            value = self.value = _decode(self.raw)
            if self._cache is not None:
                self._cache.keep(self)
        return value

    def copy(self) -> Any:
        """The object as a tree of the caller's own; much faster than copying the decoded one."""
        return _decode(self.raw)

    def outline(self) -> dict[str, Any]:
        """The object with its metadata, the caller's own; all else, and who owns which field, may be bytes still.
        Enough to write it again."""
        if self.value is not None:
            return {**self.value, "metadata": {**self.value["metadata"]}}
        parts: dict[str, Any] = _split(self.raw)
        metadata = _split(parts["metadata"])
        parts["metadata"] = {key: part if key == _OWNERSHIP else _decode(part) for key, part in metadata.items()}
        return parts

    def __repr__(self) -> str:
        return f"Entry({self.key!r}, revision={self.revision}, created={self.created})"


class Event:
    """One change. For DELETED the entry is the final object, its revision the deletion's."""

    __slots__ = ("entry", "key", "line", "previous", "revision", "type")

    def __init__(self, type: EventType, entry: Entry, previous: Entry | None) -> None:
        self.type: EventType = type
        self.revision = entry.revision
        self.key = entry.key
        self.entry = entry
        self.previous = previous
        # Free for the API server: the encoded watch line, made once for all watchers.
        self.line: bytes | None = None

    def __repr__(self) -> str:
        return f"Event({self.type}, {self.key!r}, revision={self.revision})"


class DecodedCache:
    """Bounds how many decoded objects stay in memory: first in, first out, weighed by their encoded size.

    A decoded object takes five to ten times its bytes, so keeping all of them would be most of the process.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._entries: OrderedDict[Entry, int] = OrderedDict()  # and the period in which it was decoded
        self._period = 0

    def keep(self, entry: Entry) -> None:
        self._entries[entry] = self._period
        self._bytes += len(entry.raw)
        while self._bytes > self._limit:
            self.release(next(iter(self._entries)))

    def begin_period(self) -> None:
        """Drops what was decoded before the period that ends now: a later reader decodes it again."""
        while self._entries and self._entries[oldest := next(iter(self._entries))] < self._period:
            self.release(oldest)
        self._period += 1

    def release(self, entry: Entry) -> None:
        """Drops a decoded form, also before its time: hardly anybody asks again for a version that was replaced."""
        if entry in self._entries:
            del self._entries[entry]
            self._bytes -= len(entry.raw)
            entry.value = None
