"""Go's `sort.Slice`: pattern-defeating quicksort, step by step, so that equal elements end in Go's order.

NVIDIA's plugin sorts free replicas again after each one it takes, and which of two equally free cards comes first depends
on this algorithm. Up to 12 elements it is a stable insertion sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_INSERTION: Final = 12
_NINTHER: Final = 50
_SHIFTING: Final = 50
_INCREASING, _DECREASING, _UNKNOWN = "increasing", "decreasing", "unknown"


def go_sort(items: list[Any], key: Callable[[Any], int]) -> None:
    """Sorts in place by `key`."""
    _Sorter(items, key).sort(0, len(items), len(items).bit_length())


class _Sorter:
    def __init__(self, items: list[Any], key: Callable[[Any], int]) -> None:
        self.items = items
        self.keys = [key(item) for item in items]

    def less(self, i: int, j: int) -> bool:
        return self.keys[i] < self.keys[j]

    def swap(self, i: int, j: int) -> None:
        self.items[i], self.items[j] = self.items[j], self.items[i]
        self.keys[i], self.keys[j] = self.keys[j], self.keys[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while b - a > _INSERTION and limit > 0:
            length = b - a
            if not balanced:
                self.break_patterns(a, b)
                limit -= 1
            pivot, hint = self.choose_pivot(a, b)
            if hint == _DECREASING:
                self.items[a:b], self.keys[a:b] = self.items[a:b][::-1], self.keys[a:b][::-1]
                pivot, hint = (b - 1) - (pivot - a), _INCREASING
            if balanced and partitioned and hint == _INCREASING and self.finish_nearly_sorted(a, b):
                return
            if a > 0 and not self.less(a - 1, pivot):
                a = self.partition_equal(a, b, pivot)
                continue
            middle, partitioned = self.partition(a, b, pivot)
            left, right = middle - a, b - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle
        for i in range(a + 1, b):  # insertion sort; Go's heap sort past the limit is never reached by short lists
            while i > a and self.less(i, i - 1):
                self.swap(i, i - 1)
                i -= 1

    def partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        self.swap(a, pivot)
        i, j, swapped = a + 1, b - 1, False
        while True:
            while i <= j and self.less(i, a):
                i += 1
            while i <= j and not self.less(j, a):
                j -= 1
            if i > j:
                break
            self.swap(i, j)
            i, j, swapped = i + 1, j - 1, True
        self.swap(j, a)
        return j, not swapped

    def partition_equal(self, a: int, b: int, pivot: int) -> int:
        self.swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self.less(a, i):
                i += 1
            while i <= j and self.less(a, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i, j = i + 1, j - 1

    def finish_nearly_sorted(self, a: int, b: int) -> bool:
        i = a + 1
        for _ in range(5):
            while i < b and not self.less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < _SHIFTING:
                return False
            self.swap(i, i - 1)
            j = i - 1
            while i - a >= 2 and j >= 1 and self.less(j, j - 1):
                self.swap(j, j - 1)
                j -= 1
            j = i + 1
            while b - i >= 2 and j < b and self.less(j, j - 1):
                self.swap(j, j - 1)
                j += 1
        return False

    def break_patterns(self, a: int, b: int) -> None:
        length = b - a
        random, mask = length, (1 << length.bit_length()) - 1
        first = a + length // 4 * 2 - 1
        for i in range(3):
            random ^= (random << 13) & 0xFFFFFFFFFFFFFFFF
            random ^= random >> 7
            random ^= (random << 17) & 0xFFFFFFFFFFFFFFFF
            other = random & mask
            self.swap(first + i, a + (other - length if other >= length else other))

    def choose_pivot(self, a: int, b: int) -> tuple[int, str]:
        length = b - a
        swaps = [0]
        i, j, k = (a + length // 4 * part for part in (1, 2, 3))
        if length >= _NINTHER:
            i, j, k = (self.median(at - 1, at, at + 1, swaps) for at in (i, j, k))
        j = self.median(i, j, k, swaps)
        return j, {0: _INCREASING, 12: _DECREASING}.get(swaps[0], _UNKNOWN)

    def median(self, a: int, b: int, c: int, swaps: list[int]) -> int:
        a, b = self.order(a, b, swaps)
        b, c = self.order(b, c, swaps)
        a, b = self.order(a, b, swaps)
        return b

    def order(self, a: int, b: int, swaps: list[int]) -> tuple[int, int]:
        if self.less(b, a):
            swaps[0] += 1
            return b, a
        return a, b
