"""What was offered to each worker and does not show in the usage of its queue yet.

An offer counts from the moment it is decided, before anything is written, so that two decisions at the same time do not
count the same free GPUs. It stops counting a moment after its workload was admitted somewhere: a ClusterQueue's status
follows its workloads a few times a second.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping

from gpuaas.base.clock import Clock
from gpuaas.runtime.metadata import Key

_SHOWN_AFTER = 2.0


class Promises:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offers: dict[Key, tuple[frozenset[str], Mapping[str, int]]] = {}
        self._amounts: dict[str, Counter[str]] = {}
        self._counts: Counter[str] = Counter()
        self._ending: list[tuple[float, Key]] = []

    def offer(self, key: Key, clusters: Collection[str], needs: Mapping[str, int]) -> None:
        if self._offers.get(key, (frozenset(), {}))[0] == frozenset(clusters):
            return
        self.withdraw(key)
        self._offers[key] = frozenset(clusters), needs
        for cluster in clusters:
            self._counts[cluster] += 1
            self._amounts.setdefault(cluster, Counter()).update(needs)

    def withdraw(self, key: Key) -> None:
        clusters, needs = self._offers.pop(key, (frozenset(), {}))
        for cluster in clusters:
            self._counts[cluster] -= 1
            self._amounts[cluster].subtract(needs)

    def admitted(self, key: Key) -> None:
        """Ends the offer after the delay within which the worker's queue status shows the usage."""
        if key in self._offers:
            heapq.heappush(self._ending, (self._clock.monotonic() + _SHOWN_AFTER, key))

    def of(self, cluster: str, but: Key) -> tuple[int, Mapping[str, int]]:
        """How many offers and how much in all, without those of one workload."""
        while self._ending and self._ending[0][0] <= self._clock.monotonic():
            self.withdraw(heapq.heappop(self._ending)[1])
        amounts, count = self._amounts.get(cluster, Counter()), self._counts[cluster]
        clusters, needs = self._offers.get(but, (frozenset(), {}))
        if cluster not in clusters:
            return count, dict(amounts)
        return count - 1, {name: amount - needs.get(name, 0) for name, amount in amounts.items()}
