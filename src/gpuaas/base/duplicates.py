"""Which items of a list equal an earlier one, in time by the length of the list."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any


def duplicates(values: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The index and value of each item that came before. Items are JSON values."""
    seen: set[Hashable] = set()
    for index, value in enumerate(values):
        known = identity(value)
        if known in seen:
            yield index, value
        seen.add(known)


def identity(value: Any) -> Hashable:
    """Something hashable that is equal exactly when the JSON values are equal to Python."""
    if value.__class__ is str:
        return str(value)
    if isinstance(value, dict):
        return "object", frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "array", tuple(map(identity, value))
    hashable: Hashable = value
    return hashable
