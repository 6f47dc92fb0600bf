"""Rows of free GPUs: how many there are, how many of them one pod could get, and how many are free for one user.

A user is served by queues: a ClusterQueue has quota for flavors, and a flavor's labels say which nodes it stands for. So
of a product `for_you` is, for the best of the user's queues, the sum over its flavors of the smaller of two amounts: the
quota that is left (borrowed included, without preemption) and what nodes of the flavor have free. `largest` asks the same
for one pod, which has to fit on one node: "16 free, the largest 4" says that a pod of 8 waits.

Pure. Nodes are put in classes by the labels that flavors look at, so the cost is nodes times those labels plus classes
times flavors of queues, and queues of one ClusterQueue are computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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

    def add(self, total: int, free: int) -> None:
        self.total += total
        self.free += free
        self.largest = max(self.largest, free)


@dataclass(slots=True)
class _Class:
    """Nodes that flavors cannot tell apart."""

    labels: Labels
    sums: dict[_Kind, _Sum] = field(default_factory=dict)


def free_rows(
    nodes: Iterable[NodeOffer],
    flavors: Mapping[str, Labels],
    queues: Sequence[UsableQueue],
    left: Mapping[str, Left],
) -> list[FreeRow]:
    """By product and resource. `flavors`: their node labels. `left`: by ClusterQueue; one that admits nothing is not
    in it."""
    classes, all_of = _classes(nodes, {key for labels in flavors.values() for key in labels})
    names = dict.fromkeys(queue.cluster_queue for queue in queues if queue.cluster_queue in left)
    given = {name: _given(left[name], flavors, classes) for name in names}
    return [_row(kind, found, queues, given) for kind, found in sorted(all_of.items())]


def _classes(nodes: Iterable[NodeOffer], keys: Collection[str]) -> tuple[list[_Class], dict[_Kind, _Sum]]:
    classes: dict[tuple[str | None, ...], _Class] = {}
    all_of: dict[_Kind, _Sum] = {}
    ordered = sorted(keys)
    for node in nodes:
        where = tuple(node.labels.get(key) for key in ordered)
        found = classes.get(where)
        if found is None:
            found = classes[where] = _Class(node.labels)
        for resource, (total, free) in node.gpus.items():
            kind = (node.product, resource)
            for sums in (all_of, found.sums):
                sums.setdefault(kind, _Sum()).add(total, free if node.usable else 0)
    return list(classes.values()), all_of


def _given(left: Left, flavors: Mapping[str, Labels], classes: Sequence[_Class]) -> dict[_Kind, _Sum]:
    """What one ClusterQueue would admit, of what is free."""
    given: dict[_Kind, _Sum] = {}
    for (flavor, resource), quota in left.items():
        wanted = flavors.get(flavor)
        if wanted is None or quota <= 0:
            continue
        placed: dict[_Kind, _Sum] = {}
        for each in classes:
            if all(each.labels.get(key) == value for key, value in wanted.items()):
                for kind, found in each.sums.items():
                    if kind[1] == resource:
                        total = placed.setdefault(kind, _Sum())
                        total.free += found.free
                        total.largest = max(total.largest, found.largest)
        for kind, found in placed.items():
            best = given.setdefault(kind, _Sum())
            best.free += min(quota, found.free)
            best.largest = max(best.largest, min(quota, found.largest))
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
    )
