"""The places one flavor offers: its nodes as a tree of domains, and what each leaf has left.

A leaf is a node where the lowest level is the host name, otherwise all nodes with the same labels together. The tree
is rebuilt when nodes change; usage lives outside (`topology`), so that it survives that, and one host's usage counts
in every flavor that has the host. Where pods go is decided in `topology_fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuaas.engine.constraints import Taint, Toleration
from gpuaas.engine.topology_values import HOSTNAME, Node

Amounts = dict[str, int]


class Domain:
    """A place at some level; the counts are scratch space of one search (`topology_fit`)."""

    __slots__ = ("affinity", "children", "leaders", "parent", "pods", "pods_led", "slices", "slices_led", "values")

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values = values
        self.parent: Domain | None = None
        self.children: list[Domain] = []
        self.clear()

    def clear(self) -> None:
        self.pods = 0
        """Pods that fit."""
        self.pods_led = 0
        """Pods that fit beside a leader."""
        self.slices = 0
        self.slices_led = 0
        self.leaders = 0
        self.affinity = 0
        """How much the pods would like to be there."""


class Leaf(Domain):
    __slots__ = ("capacity", "labels", "taints", "usage")

    def __init__(self, values: tuple[str, ...], usage: Amounts) -> None:
        super().__init__(values)
        self.capacity: Amounts = {}
        self.usage = usage
        self.labels: Mapping[str, str] | None = None
        """The node's labels, where the leaf is a node."""
        self.taints: tuple[Taint, ...] = ()

    def free(self, empty: bool) -> Amounts:
        """What is left of it; all of it if nobody were there."""
        if empty or not self.usage:
            return dict(self.capacity)
        left = dict(self.capacity)
        for resource, amount in self.usage.items():
            left[resource] = left.get(resource, 0) - amount
        return left


class PlaceTree:
    __slots__ = ("balanced", "by_host", "domains", "flavor", "leaves", "levels", "name", "tolerations")

    def __init__(self, flavor: str, name: str, levels: tuple[str, ...], tolerations: tuple[Toleration, ...]) -> None:
        self.flavor = flavor
        self.name = name
        self.levels = levels
        self.tolerations = tolerations
        self.balanced = False
        """Whether preferred levels are filled evenly."""
        self.by_host = bool(levels) and levels[-1] == HOSTNAME
        self.leaves: dict[tuple[str, ...], Leaf] = {}
        """By what identifies them: the host alone, or the values of all levels."""
        self.domains: list[dict[tuple[str, ...], Domain]] = [{} for _ in levels]

    def grow(self, nodes: Iterable[Node], usage: Mapping[tuple[str, ...], Amounts]) -> None:
        for node in nodes:
            values, identity = self._place_of(node)
            leaf = self.leaves.get(identity)
            if leaf is None:
                leaf = self.leaves[identity] = Leaf(values, usage[identity])
                if self.by_host:
                    leaf.labels, leaf.taints = dict(node.labels), node.taints
                self._attach(leaf, len(self.levels) - 1)
            for resource, amount in node.allocatable:
                leaf.capacity[resource] = leaf.capacity.get(resource, 0) + amount
            for resource, amount in node.other_usage:
                leaf.capacity[resource] = leaf.capacity.get(resource, 0) - amount

    def take(self, node: Node, amounts: Mapping[str, int]) -> None:
        """Others take so much more of a node."""
        leaf = self.leaves[self._place_of(node)[1]]
        for resource, amount in amounts.items():
            leaf.capacity[resource] = leaf.capacity.get(resource, 0) - amount

    def _place_of(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The values of all levels, and what identifies the leaf."""
        labels = dict(node.labels)
        values = tuple(labels[level] for level in self.levels)
        return values, values[-1:] if self.by_host else values

    def level(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None

    def _attach(self, domain: Domain, level: int) -> None:
        self.domains[level][domain.values] = domain
        if level == 0:
            return
        parent = self.domains[level - 1].get(domain.values[:-1])
        if parent is None:
            parent = Domain(domain.values[:-1])
            self._attach(parent, level - 1)
        domain.parent = parent
        parent.children.append(domain)
