"""The places one flavor offers: its nodes as a tree of domains, and what each leaf has left.

A leaf is a node where the lowest level is the host name, otherwise all nodes with the same labels together. The tree
is rebuilt when nodes change; usage lives outside (`topology`), so that it survives that, and one host's usage counts
in every flavor that has the host. It remembers which leaves changed, for those who count what fits (`topology_count`).
Where pods go is decided in `topology_fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuaas.engine.constraints import Toleration
from gpuaas.engine.topology_count import Amounts, Identity, Leaf, Tally, Wanted
from gpuaas.engine.topology_values import HOSTNAME, Node

_TALLIES = 32  # kinds of pods whose counts are kept
_CHANGES = 4096  # remembered changes; who has not looked for longer counts everything again


class PlaceTree:
    __slots__ = (
        "_changes", "_forgotten", "_tallies", "balanced", "by_host", "flavor", "leaves", "levels", "name",
        "tolerations",
    )  # fmt: skip

    def __init__(self, flavor: str, name: str, levels: tuple[str, ...], tolerations: tuple[Toleration, ...]) -> None:
        self.flavor = flavor
        self.name = name
        self.levels = levels
        self.tolerations = tolerations
        self.balanced = False
        """Whether preferred levels are filled evenly."""
        self.by_host = bool(levels) and levels[-1] == HOSTNAME
        self.leaves: dict[Identity, Leaf] = {}
        """By what identifies them: the host alone, or the values of all levels."""
        self._tallies: dict[Wanted, Tally] = {}
        self._changes: list[Identity] = []
        self._forgotten = 0
        """How often remembered changes were dropped."""

    def tally(self, wanted: Wanted, assumed: Mapping[Identity, Amounts]) -> Tally:
        """How much fits where now, if so much more were taken already; for one search, until the next is asked for."""
        tally = self._tallies.pop(wanted, None) or Tally(len(self.levels), self.leaves, wanted)
        if len(self._tallies) >= _TALLIES:
            del self._tallies[next(iter(self._tallies))]  # the one not asked for the longest
        self._tallies[wanted] = tally
        dropped, position = tally.seen
        tally.refresh(self._changes[position:] if dropped == self._forgotten else self.leaves, assumed)
        tally.seen = self._forgotten, len(self._changes)
        return tally

    def changed(self, identity: Identity) -> None:
        """What is used of a leaf, or what it has."""
        if len(self._changes) >= _CHANGES:
            self._changes.clear()
            self._forgotten += 1
        self._changes.append(identity)

    def grow(self, nodes: Iterable[Node], usage: Mapping[Identity, Amounts]) -> None:
        for node in nodes:
            values, identity = self._place_of(node)
            leaf = self.leaves.get(identity)
            if leaf is None:
                leaf = self.leaves[identity] = Leaf(values, usage[identity])
                if self.by_host:
                    leaf.labels, leaf.taints = dict(node.labels), node.taints
            for resource, amount in node.allocatable:
                leaf.capacity[resource] = leaf.capacity.get(resource, 0) + amount
            for resource, amount in node.other_usage:
                leaf.capacity[resource] = leaf.capacity.get(resource, 0) - amount

    def take(self, node: Node, amounts: Mapping[str, int]) -> None:
        """Others take so much more of a node."""
        identity = self._place_of(node)[1]
        leaf = self.leaves[identity]
        for resource, amount in amounts.items():
            leaf.capacity[resource] = leaf.capacity.get(resource, 0) - amount
        self.changed(identity)

    def _place_of(self, node: Node) -> tuple[tuple[str, ...], Identity]:
        """The values of all levels, and what identifies the leaf."""
        labels = dict(node.labels)
        values = tuple(labels[level] for level in self.levels)
        return values, values[-1:] if self.by_host else values

    def level(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None
