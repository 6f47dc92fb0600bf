"""What waits in one ClusterQueue, in order: the next head, what is parked, and what wakes it.

Workloads of one shape share a bucket. A shape found not to fit is parked as a whole (no workload of that shape could fare
better), and a flush wakes shapes, not workloads: both cost nothing per workload. Single workloads can be held as
well (their back-off is not over, their namespace is not selected). Invariant: a pending item is either in flight,
held, or in the bucket of its shape; `queued` says the latter. The first of each shape that is not parked is in view
(`_top`, by rank; entries that no longer lead are skipped when they surface). Why a shape is parked is decided in `cycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from gpuaas.engine.items import Item, Rank, Shape

Entry = tuple[Rank, Item]


class Bucket:
    """Pending items of one shape (and, under admission fair sharing, of one LocalQueue), as a heap.

    Items leave lazily: an entry whose item is no longer queued, or has a new rank, is skipped when it surfaces.
    """

    __slots__ = ("by_local_queue", "heap", "local_queue", "shape", "size")

    def __init__(self, shape: Shape, local_queue: str | None) -> None:
        self.shape = shape
        self.local_queue = local_queue
        self.heap: list[Entry] = []
        self.size = 0
        self.by_local_queue: dict[str, int] = {}

    def count(self, item: Item, change: int) -> None:
        """One more or one less of an item's LocalQueue."""
        key = item.workload.queue_key
        self.size += change
        self.by_local_queue[key] = self.by_local_queue.get(key, 0) + change

    def head(self) -> Item | None:
        heap = self.heap
        while heap:
            rank, item = heap[0]
            if item.queued and item.bucket is self and item.rank is rank:
                return item
            heappop(heap)
        return None

    def live(self) -> Iterator[Item]:
        seen: set[str] = set()
        for rank, item in self.heap:
            if item.queued and item.bucket is self and item.rank is rank and item.key not in seen:
                seen.add(item.key)
                yield item


class Pending:
    __slots__ = ("_buckets", "_top", "held", "inflight", "parked", "sticky", "strict", "usage_of")

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.usage_of: Callable[[str], float] | None = None
        """Admission fair sharing: how much a LocalQueue has used; None while the queue does not look at it."""
        self.sticky: Item | None = None
        """The workload whose victims are being evicted: it goes first, so that its queue-mates do not take the room."""
        self.inflight: Item | None = None
        self.parked: set[Shape] = set()
        self.held: dict[str, Item] = {}
        self._buckets: dict[tuple[Shape, str | None], Bucket] = {}
        self._top: list[Entry] = []

    def __len__(self) -> int:
        return sum(b.size for b in self._buckets.values()) + len(self.held) + (self.inflight is not None)

    def shapes(self) -> Iterator[tuple[Shape, int]]:
        """Each shape that is queued, with how many workloads have it."""
        return ((bucket.shape, bucket.size) for bucket in self._buckets.values() if bucket.size)

    def push(self, item: Item) -> None:
        """Queue the item; if its shape is parked it waits with the others of its shape."""
        if item.queued:
            return
        local_queue = item.workload.queue_key if self.usage_of is not None else None
        bucket = self._buckets.get((item.shape, local_queue))
        if bucket is None:
            bucket = self._buckets[item.shape, local_queue] = Bucket(item.shape, local_queue)
        item.queued = True
        item.bucket = bucket
        bucket.count(item, 1)
        heappush(bucket.heap, (item.rank, item))
        if item.shape not in self.parked and bucket.head() is item:
            self._list(item)

    def hold(self, item: Item) -> None:
        item.held = True
        self.held[item.key] = item

    def pop(self) -> Item | None:
        """Take the next head; it is in flight until it is pushed back, held or removed."""
        item = self._next() if self.usage_of is None else self._next_by_usage(self.usage_of)
        self.inflight = item
        return item

    def peek(self) -> bool:
        """Whether there is a head to take."""
        if self.usage_of is not None:
            return any(self._active_heads())
        if self._sticky_waits():
            return True
        top = self._top
        while top:
            rank, item = top[0]
            if self._leads(rank, item):
                return True
            heappop(top)
            if item.listed is rank:
                item.listed = None
        return False

    def remove(self, item: Item) -> None:
        """The item is pending no more (admitted, withdrawn, finished)."""
        if item.queued:
            self._unqueue(item)
        if item.held:
            item.held = False
            del self.held[item.key]
        if self.inflight is item:
            self.inflight = None
        if self.sticky is item:
            self.sticky = None

    def park(self, shape: Shape) -> None:
        self.parked.add(shape)

    def hold_those(self, stays_out: Callable[[Item], bool], shape: Shape) -> None:
        """Take those of a parked shape that a flush must not wake (another reason keeps them out) aside."""
        for (of_shape, _), bucket in list(self._buckets.items()):
            if of_shape is shape:
                for item in list(bucket.live()):
                    if stays_out(item):
                        self._unqueue(item)
                        self.hold(item)

    def flush(self, may_return: Callable[[Item], bool]) -> bool:
        """Wake every parked shape, and the held items that may return. Says whether anything woke."""
        if not self.parked and not self.held:
            return False
        woke = False
        shapes, self.parked = self.parked, set()
        for bucket in self._buckets_of(shapes):
            head = bucket.head()
            if head is not None:
                woke = True
                if self.usage_of is None:
                    self._list(head)
        for item in [item for item in self.held.values() if may_return(item)]:
            item.held = False
            del self.held[item.key]
            self.push(item)
            woke = True
        return woke

    def unflushed(self) -> bool:
        """Whether a flush could wake anything."""
        return bool(self.held) or bool(self.parked)

    def items(self) -> Iterator[Item]:
        """All pending items, in no order."""
        for bucket in self._buckets.values():
            yield from bucket.live()
        yield from self.held.values()
        if self.inflight is not None:
            yield self.inflight

    def ordered(self) -> list[Item]:
        """All pending items as they would be taken, parked and held ones in their place."""
        usage_of, sticky = self.usage_of, self._goes_first()
        if usage_of is None:
            return sorted(self.items(), key=lambda i: (i is not sticky, i.rank))
        return sorted(self.items(), key=lambda i: (usage_of(i.workload.queue_key), i is not sticky, i.rank))

    def inadmissible(self) -> int:
        """How many were tried and wait for something to change."""
        return len(self.held) + sum(b.size for (shape, _), b in self._buckets.items() if shape in self.parked)

    def by_local_queue(self) -> dict[str, tuple[int, int]]:
        """How many of each LocalQueue are in line, and how many were tried and wait for something to change."""
        found: dict[str, list[int]] = {}
        for (shape, _), bucket in self._buckets.items():
            for key, number in bucket.by_local_queue.items():
                found.setdefault(key, [0, 0])[shape in self.parked] += number
        for item in self.held.values():
            found.setdefault(item.workload.queue_key, [0, 0])[True] += 1
        if self.inflight is not None:
            found.setdefault(self.inflight.workload.queue_key, [0, 0])[False] += 1
        return {key: (active, inadmissible) for key, (active, inadmissible) in found.items()}

    def requests(self) -> dict[str, int]:
        """What all that waits asks for together, by resource."""
        shapes = [(shape, bucket.size) for (shape, _), bucket in self._buckets.items()]
        shapes += [(item.shape, 1) for item in self.held.values()]
        if self.inflight is not None:
            shapes.append((self.inflight.shape, 1))
        total: dict[str, int] = {}
        for shape, number in shapes:
            for pod_set in shape.pod_sets:
                for resource, amount in pod_set.requests:
                    total[resource] = total.get(resource, 0) + amount * pod_set.count * number
        return total

    def order_by(self, usage_of: Callable[[str], float] | None) -> None:
        """From now on LocalQueues are looked at by what they used, or no longer; what waits is lined up again."""
        if (usage_of is None) == (self.usage_of is None):
            return
        waiting = [item for bucket in self._buckets.values() for item in bucket.live()]
        self.usage_of, self._buckets, self._top = usage_of, {}, []
        for item in waiting:
            item.queued, item.listed = False, None
        for item in waiting:
            self.push(item)

    def waits_inactive(self, item: Item) -> bool:
        return item.held or (item.queued and item.shape in self.parked)

    def memento(self) -> tuple[object, ...]:
        return (
            self.strict, self.usage_of, self.sticky, self.inflight, set(self.parked), dict(self.held), list(self._top),
            {
                key: (bucket, list(bucket.heap), bucket.size, dict(bucket.by_local_queue))
                for key, bucket in self._buckets.items()
            },
        )  # fmt: skip

    def restore(self, memento: tuple[object, ...]) -> None:
        self.strict, self.usage_of, self.sticky, self.inflight, self.parked, self.held, self._top, buckets = memento  # type: ignore[assignment]
        self._buckets = {}
        for key, (bucket, heap, size, by_local_queue) in buckets.items():  # type: ignore[attr-defined]
            bucket.heap, bucket.size, bucket.by_local_queue = heap, size, by_local_queue
            self._buckets[key] = bucket

    def _next(self) -> Item | None:
        if self._sticky_waits():
            assert self.sticky is not None
            return self._unqueue(self.sticky)
        top = self._top
        while top:
            rank, item = heappop(top)
            leads = self._leads(rank, item)
            if item.listed is rank:
                item.listed = None
            if leads:
                return self._unqueue(item)
        return None

    def _leads(self, rank: Rank, item: Item) -> bool:
        """Whether an entry of the top is what it says: the first of a shape that is not parked."""
        if item.rank is not rank or not item.queued or item.shape in self.parked:
            return False
        assert item.bucket is not None
        return item.bucket.head() is item

    def _next_by_usage(self, usage_of: Callable[[str], float]) -> Item | None:
        sticky = self._goes_first()
        best = min(
            self._active_heads(),
            key=lambda i: (usage_of(i.workload.queue_key), i is not sticky, i.rank),
            default=None,
        )
        return None if best is None else self._unqueue(best)

    def _active_heads(self) -> Iterator[Item]:
        if self._sticky_waits():
            assert self.sticky is not None
            yield self.sticky
        for (shape, _), bucket in self._buckets.items():
            if shape not in self.parked:
                head = bucket.head()
                if head is not None:
                    yield head

    def _buckets_of(self, shapes: set[Shape]) -> Iterable[Bucket]:
        if self.usage_of is not None:
            return [b for (shape, _), b in self._buckets.items() if shape in shapes]
        return [b for shape in shapes if (b := self._buckets.get((shape, None))) is not None]

    def _goes_first(self) -> Item | None:
        """In a StrictFIFO queue no workload overtakes another, not even the one whose targets were preempted."""
        return None if self.strict else self.sticky

    def _sticky_waits(self) -> bool:
        sticky = self._goes_first()
        return sticky is not None and sticky.queued and sticky.shape not in self.parked

    def _unqueue(self, item: Item) -> Item:
        bucket = item.bucket
        assert bucket is not None
        item.queued = False
        bucket.count(item, -1)
        if bucket.size == 0:
            if self._buckets.get((bucket.shape, bucket.local_queue)) is bucket:
                del self._buckets[bucket.shape, bucket.local_queue]
                bucket.heap = []  # its items know it: no ring is left to the garbage collector
            return item
        if len(bucket.heap) > 64 and len(bucket.heap) > 4 * bucket.size:
            bucket.heap = [entry for entry in bucket.heap if entry[1].queued and entry[1].rank is entry[0]]
            heapify(bucket.heap)
        if self.usage_of is None and bucket.shape not in self.parked:
            head = bucket.head()
            assert head is not None
            self._list(head)
        return item

    def _list(self, item: Item) -> None:
        if item.listed is not item.rank:
            item.listed = item.rank
            heappush(self._top, (item.rank, item))

    def out_of_view(self) -> str | None:
        """A workload that leads its shape and can never be taken; there is none."""
        if self.usage_of is not None:
            return None
        in_view = {id(rank) for rank, _ in self._top}
        for (shape, _), bucket in self._buckets.items():
            head = None if shape in self.parked else bucket.head()
            if head is not None and (head.listed is not head.rank or id(head.rank) not in in_view):
                return head.key
        return None
