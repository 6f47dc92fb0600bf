"""The engine's record of one workload: what was asked, where it stands, what it was given.

An item is in exactly one of three conditions: pending (its queue's `pending` has it), reserved (it counts in its
queue's usage and may be chosen as a victim), or gone. Who moves it is `engine` and `cycle`; the order of pending
items is `pending`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from gpuaas.engine.values import Millis, PodSet, PodSetAdmission, Workload

if TYPE_CHECKING:
    from gpuaas.engine.pending import Bucket
    from gpuaas.engine.queues import Queue
    from gpuaas.engine.topology import Placed


class Shape:
    """Priority and pod sets: workloads of one shape in one queue fare alike. Interned, so compared by identity.

    A replacement slice differs from all others, and has a shape of its own.
    """

    __slots__ = ("__weakref__", "pod_sets", "priority")

    def __init__(self, priority: int, pod_sets: tuple[PodSet, ...]) -> None:
        self.priority = priority
        self.pod_sets = pod_sets


class Shapes:
    """The shapes in use. A shape without items is dropped."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[int, tuple[PodSet, ...], str], Shape] = WeakValueDictionary()

    def of(self, workload: Workload) -> Shape:
        key = (workload.priority, workload.pod_sets, workload.replaces)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Shape(workload.priority, workload.pod_sets)
        return found


Rank = tuple[int, Millis, str, str]
"""Order in a queue: priority (negated), time, uid, key. Never equal for two items."""

VictimRank = tuple[int, Millis, str, str]
"""Order as a victim: lowest priority first, then the most recently reserved."""


class ScanMemory:
    """How far the flavor scan got, per pod set and resource; -1 when every flavor was looked at."""

    __slots__ = ("cycle", "generation", "tried")

    def __init__(self, tried: tuple[dict[str, int], ...], generation: int, cycle: int) -> None:
        self.tried = tried
        self.generation = generation
        self.cycle = cycle

    def more_to_try(self) -> bool:
        return any(index != -1 for tried in self.tried for index in tried.values())


class Item:
    __slots__ = (
        "admission", "bucket", "evicted", "held", "home", "key", "last", "listed", "placed", "priority", "queue", "queued",
        "rank", "reserved_at", "shape", "usage", "victim_rank", "workload",
    )  # fmt: skip

    def __init__(self, workload: Workload, shape: Shape, queue: Queue | None) -> None:
        self.key = workload.key
        self.queue = queue
        self.queued = False
        self.listed: Rank | None = None
        """The rank under which its queue has it in view as the first of its shape."""
        self.held = False
        self.bucket: Bucket | None = None
        self.last: ScanMemory | None = None
        self.admission: tuple[PodSetAdmission, ...] | None = None
        self.usage: dict[int, int] = {}
        self.placed: tuple[Placed, ...] = ()
        self.reserved_at: Millis | None = None
        self.victim_rank: VictimRank | None = None
        self.home = ""
        """The ClusterQueue in which it holds quota, whether or not that exists at the moment."""
        self.evicted = ""
        """Why it is being evicted, while it still holds its quota."""
        self.describe(workload, shape)

    def describe(self, workload: Workload, shape: Shape) -> None:
        """Take the workload's own words; the place in the order follows from them."""
        self.workload = workload
        self.priority = workload.priority
        self.shape = shape
        ordered = workload.created if workload.ordered_at is None else workload.ordered_at
        self.rank: Rank = (-workload.priority, ordered, workload.uid, self.key)

    def __lt__(self, other: object) -> bool:
        """Only a workload that went and came again shares a rank, with what it left in a heap: no order between them."""
        return False

    @property
    def ordered_at(self) -> Millis:
        return self.rank[1]

    @property
    def reserved(self) -> bool:
        return self.admission is not None

    def memento(self) -> tuple[object, ...]:
        return _values(self)

    def restore(self, memento: tuple[object, ...]) -> None:
        if all(map(is_, _values(self), memento)):  # as most are after a trial: setting costs ten times as much
            return
        for name, value in zip(Item.__slots__, memento, strict=True):
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"<{self.key} {'reserved' if self.reserved else 'pending'}>"


_values: Callable[[Item], tuple[object, ...]] = attrgetter(*Item.__slots__)
