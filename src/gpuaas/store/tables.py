"""The committed state in memory: every live entry, by key and in key order for each prefix.

A shelf holds one namespace of one plural. Its dict is kept in key order lazily: creates mostly come in order, and
sorting a list with a short unsorted tail is linear, so a list costs its result.
"""

from collections.abc import Iterable

from gpuaas.store.entries import Entry


class Tables:
    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._shelves: dict[str, _Shelf] = {}
        self._plurals: dict[str, dict[str, _Shelf]] = {}
        self._changed: dict[str, int] = {}

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def list(self, prefix: str) -> list[Entry]:
        """The entries below a prefix in the order of their keys."""
        shelf = self._shelves.get(prefix)
        if shelf is not None:
            return list(shelf.ordered())
        plural = self._plurals.get(prefix)
        if plural is not None:
            if len(plural) == 1:
                return [entry for shelf in plural.values() for entry in shelf.ordered()]
            return [entry for name in sorted(plural) for entry in plural[name].ordered()]
        if prefix.count("/") >= 2:  # a plural or a namespace that holds nothing
            return []
        return [self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)]

    def count(self, prefix: str) -> int:
        shelf = self._shelves.get(prefix)
        if shelf is not None:
            return len(shelf.entries)
        plural = self._plurals.get(prefix)
        if plural is not None:
            return sum(len(shelf.entries) for shelf in plural.values())
        return 0 if prefix.count("/") >= 2 else sum(key.startswith(prefix) for key in self._entries)

    def changed(self, prefix: str) -> int:
        """A revision such that nothing below the prefix changed after it: what a cached list is valid for."""
        shelf = self._shelves.get(prefix)
        if shelf is not None:
            return shelf.changed
        return self._changed.get(prefix[: plural_end(prefix)], 0)

    def put(self, entry: Entry) -> None:
        key = entry.key
        self._entries[key] = entry
        end = plural_end(key)
        name = key[: namespace_end(key, end)]
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = _Shelf()
            self._plurals.setdefault(key[:end], {})[name] = shelf
        shelf.put(entry)
        self._changed[key[:end]] = entry.revision

    def remove(self, key: str, revision: int) -> None:
        del self._entries[key]
        end = plural_end(key)
        name = key[: namespace_end(key, end)]
        shelf = self._shelves[name]
        del shelf.entries[key]
        shelf.changed = revision
        self._changed[key[:end]] = revision
        if not shelf.entries:
            del self._shelves[name]
            del self._plurals[key[:end]][name]


class _Shelf:
    __slots__ = ("changed", "entries", "last", "sorted")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.sorted = True
        self.last = ""
        self.changed = 0

    def put(self, entry: Entry) -> None:
        key = entry.key
        if key not in self.entries:
            if key < self.last:
                self.sorted = False
            else:
                self.last = key
        self.entries[key] = entry
        self.changed = entry.revision

    def ordered(self) -> Iterable[Entry]:
        if not self.sorted:
            self.entries = dict(sorted(self.entries.items()))
            self.sorted = True
        return self.entries.values()


def plural_end(key: str) -> int:
    """Where `group/plural/` ends in a key."""
    return key.index("/", key.index("/") + 1) + 1


def namespace_end(key: str, end: int) -> int:
    """Where `group/plural/namespace/` ends in a key whose `group/plural/` ends at `end`."""
    return key.index("/", end) + 1
