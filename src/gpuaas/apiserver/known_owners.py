"""Who owned what after a change, remembered for the next object that is changed alike.

What an update takes from others and gives to its manager follows from which places it adds, changes and removes, from
who owned what before, and from the order of their times; not from what is written there. Thousands of workloads are
admitted and finished in the same places, each in its own words and at its own time.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.base.memo import digest

_MOST: Final = 256
_LARGEST: Final = 8 * 1024  # bytes; larger ones are rare, and would be most of what is kept
_encode = msgspec.json.Encoder().encode

Found = list[tuple[Object, int]]
"""Entries of managedFields, and which of the times each has, in their order."""


class KnownOwners:
    __slots__ = ("_found", "_made")

    def __init__(self) -> None:
        self._found: dict[bytes, Found] = {}
        self._made: dict[tuple[Any, ...], Object] = {}

    def of_new(
        self, obj: Object, by: tuple[str, ...], now: str, find: Callable[[], list[Object] | None]
    ) -> list[Object] | None:
        """Of an object that is made by a manager: who makes it owns all of it, whatever it is called, and whatever its
        labels and annotations say. Its status has no owner."""
        shape = _shape(obj)
        if shape is None:
            return find()
        key = (*by, *shape)
        known = self._made.get(key)
        if known is not None:
            return [{**known, "time": now}]
        entries = find()
        if entries and len(entries) == 1:
            if len(self._made) >= _MOST:
                del self._made[next(iter(self._made))]
            self._made[key] = entries[0]
        return entries

    def of(
        self,
        change: Any,
        stored: Sequence[Object],
        by: tuple[str, str],
        now: str,
        find: Callable[[], list[Object] | None],
    ) -> list[Object] | None:
        """Of a change of these places by a manager (and through which subresource), after which no entry has other times
        than those in `stored` and `now`."""
        if any("time" not in entry for entry in stored):
            return find()
        times = sorted({now, *(entry["time"] for entry in stored)})
        rank = {time: at for at, time in enumerate(times)}
        said = _encode((change, [{**entry, "time": rank[entry["time"]]} for entry in stored], by, rank[now]))
        key = digest(said)
        found = self._found.get(key)
        if found is not None:
            return [entry if entry["time"] == times[at] else {**entry, "time": times[at]} for entry, at in found]
        entries = find()
        if entries and len(said) <= _LARGEST:
            if len(self._found) >= _MOST:
                del self._found[next(iter(self._found))]
            self._found[key] = [(entry, rank[entry["time"]]) for entry in entries]
        return entries


_NAMED: Final = frozenset(("name", "namespace", "resourceVersion"))
_PARTS: Final = frozenset(("kind", "apiVersion", "metadata", "spec", "status"))


def _shape(obj: Object) -> tuple[Any, ...] | None:
    """What decides which places a new object has, where that is its spec and the keys of its metadata."""
    meta, spec = obj["metadata"], obj.get("spec")
    if spec.__class__ is not dict or not obj.keys() <= _PARTS:
        return None
    places: list[Any] = []
    for key, value in meta.items():
        if key in ("labels", "annotations") and value.__class__ is dict:
            places.append((key, *value))
        elif key == "generateName":
            places.append(key)
        elif key not in _NAMED:
            return None
    return digest(_encode(spec)), *places
