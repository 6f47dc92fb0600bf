"""Rows of free GPUs: how many there are, how many of them one pod could get, and how many are free for one user.

A user is served by queues: a ClusterQueue has quota for flavors, and a flavor's labels say which nodes it stands for. So
of a product `for_you` is, for the best of the user's queues, the sum over its flavors of the smaller of two amounts: the
quota that is left (borrowed included, without preemption) and what nodes of the flavor have free. `largest` asks the same
for one pod, which has to fit on one node: "16 free, the largest 4" says that a pod of 8 waits.

Pure. The stock of nodes is the same for all users: nodes are put in classes by the labels that flavors look at, so it
costs nodes times those labels, and for each flavor the classes that share its rarest label. A user's rows then cost
queues times flavors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from gpuaas.devices.shares import in_text, share_of
from gpuaas.views.rows import FreeRow, QueueGpus

MOST_QUEUES: Final = 20
"""Of one row; a user with more sees the best."""
Labels = Mapping[str, str]
Left = Mapping[tuple[str, str], int]
"""Quota that is left, by flavor and resource."""
_Kind = tuple[str, str]  # product and resource


@dataclass(frozen=True, slots=True)
class NodeOffer:
    product: str
    labels: Labels
    gpus: Mapping[str, tuple[int, int]]  # by resource: in all, and free
    usable: bool = True  # takes new pods
    shares: Mapping[str, int] = field(default_factory=dict)  # by resource: into how many parts its cards are shared


@dataclass(frozen=True, slots=True)
class UsableQueue:
    """A LocalQueue that the user may submit to, and what its ClusterQueue has left."""

    namespace: str
    name: str
    cluster_queue: str


@dataclass(slots=True)
class _Sum:
    total: int = 0
    free: int = 0
    largest: int = 0
    cards: Fraction = Fraction(0)  # whole cards that the total stands for; only kept for all nodes

    def add(self, total: int, free: int, largest: int) -> None:
        self.total += total
        self.free += free
        if largest > self.largest:
            self.largest = largest


_Sums = dict[_Kind, _Sum]


@dataclass(frozen=True, slots=True)
class Stock:
    """What nodes have, the same for all users."""

    all_of: Mapping[_Kind, _Sum]
    by_flavor: Mapping[str, Mapping[_Kind, _Sum]]
    """Of the nodes that each flavor stands for."""


def stock_of(nodes: Iterable[NodeOffer], flavors: Mapping[str, Labels]) -> Stock:
    """`flavors`: their node labels."""
    keys = sorted({key for labels in flavors.values() for key in labels})
    all_of: _Sums = {}
    classes: dict[tuple[str | None, ...], _Sums] = {}
    for node in nodes:
        sums = classes.setdefault(tuple(node.labels.get(key) for key in keys), {})
        for resource, (total, free) in node.gpus.items():
            kind, placeable = (node.product, resource), free if node.usable else 0
            for each in (all_of, sums):
                each.setdefault(kind, _Sum()).add(total, placeable, placeable)
            all_of[kind].cards += share_of(resource, node.shares) * total
    with_label: dict[tuple[int, str | None], list[tuple[str | None, ...]]] = {}
    for where in classes:
        for index, value in enumerate(where):
            with_label.setdefault((index, value), []).append(where)
    at = {key: index for index, key in enumerate(keys)}
    by_flavor: dict[str, _Sums] = {}
    for name, labels in flavors.items():
        wanted = [(at[key], value) for key, value in labels.items()]
        found = by_flavor[name] = {}
        # Of the labels, the one that the fewest classes have: a flavor for one host looks at one class.
        some = min((with_label.get(each, []) for each in wanted), key=len) if wanted else list(classes)
        for where in some:
            if all(where[index] == value for index, value in wanted):
                for kind, each_sum in classes[where].items():
                    found.setdefault(kind, _Sum()).add(each_sum.total, each_sum.free, each_sum.largest)
    return Stock(all_of, by_flavor)


def free_rows(stock: Stock, queues: Sequence[UsableQueue], left: Mapping[str, Left]) -> list[FreeRow]:
    """By product and resource. `left`: by ClusterQueue; one that admits nothing is not in it."""
    names = dict.fromkeys(queue.cluster_queue for queue in queues if queue.cluster_queue in left)
    given = {name: _given(left[name], stock) for name in names}
    return [_row(kind, found, queues, given) for kind, found in sorted(stock.all_of.items())]


def _given(left: Left, stock: Stock) -> _Sums:
    """What one ClusterQueue would admit, of what is free."""
    given: _Sums = {}
    for (flavor, resource), quota in left.items():
        for kind, found in stock.by_flavor.get(flavor, {}).items():
            if kind[1] == resource:
                given.setdefault(kind, _Sum()).add(found.total, min(quota, found.free), min(quota, found.largest))
    return given


def _row(kind: _Kind, found: _Sum, queues: Sequence[UsableQueue], given: Mapping[str, Mapping[_Kind, _Sum]]) -> FreeRow:
    none = _Sum()
    mine = [
        QueueGpus(queue.namespace, queue.name, queue.cluster_queue, min(got.free, found.free), got.largest)
        for queue in queues
        if (got := given.get(queue.cluster_queue, {}).get(kind, none)).free
    ]
    mine.sort(key=lambda each: (-each.free, -each.largest, each.namespace, each.queue))
    return FreeRow(
        *kind,
        total=found.total,
        free=found.free,
        largest=found.largest,
        for_you=max((each.free for each in mine), default=0),
        largest_for_you=max((each.largest for each in mine), default=0),
        queues=mine[:MOST_QUEUES],
        cards=in_text(found.cards),
    )
