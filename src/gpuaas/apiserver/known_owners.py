"""Who owned what after a status had changed in some way, remembered for the next one that changes alike.

Alike here means: the same but for times, as long as these follow each other in the same order. Thousands of workloads
are admitted and finished with the same words, each at its own time, and times decide about the order of managers
alone. Each gets the times of its own.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gpuaas.api.kinds import Object

_MOST: Final = 1024
_LARGEST: Final = 8 * 1024  # bytes; larger ones are rare, and would be most of what is kept
_TIME: Final = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"')
_MARKS: Final = [b"\0%d" % number for number in range(64)]  # JSON has no such byte
_encode = msgspec.json.Encoder().encode

Found = list[tuple[Object, int]]
"""Entries of managedFields, and which of the times each has, in their order."""


class KnownOwners:
    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, Found] = {}

    def of(self, change: Any, find: Callable[[], list[Object] | None]) -> list[Object] | None:
        """`change` holds everything that matters, all times that can come to stand in the entries among it."""
        said = _encode(change)
        times = sorted(set(_TIME.findall(said)))
        if len(said) > _LARGEST or len(times) > len(_MARKS):
            return find()
        marks = dict(zip(times, _MARKS, strict=False))
        key = _TIME.sub(lambda time: marks[time[1]], said)
        found = self._found.get(key)
        if found is not None:
            told = [time.decode() for time in times]
            return [entry if entry["time"] == told[at] else {**entry, "time": told[at]} for entry, at in found]
        entries = find()
        if entries and all(entry.get("time", "").encode() in marks for entry in entries):
            if len(self._found) >= _MOST:
                del self._found[next(iter(self._found))]
            self._found[key] = [(entry, times.index(entry["time"].encode())) for entry in entries]
        return entries
