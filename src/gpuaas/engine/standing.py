"""How queues and cohorts stand: what waits, what runs, what is used and borrowed, and the fair share. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuaas.engine.queues import Queue
from gpuaas.engine.shares import share
from gpuaas.engine.tree import FlavorResources, Usage

if TYPE_CHECKING:
    from gpuaas.engine.world import World


@dataclass(frozen=True, slots=True)
class Used:
    flavor: str
    resource: str
    total: int
    borrowed: int


@dataclass(frozen=True, slots=True)
class QueueStanding:
    name: str
    inactive: tuple[str, str] | None
    """Upstream's reason and words, where the queue admits nothing."""
    pending: int
    inadmissible: int
    """Of the pending: tried, and waiting for something to change."""
    reserving: int
    used: tuple[Used, ...]
    """For every flavor and resource it has quota for, in its own order."""
    weighted_share: int


@dataclass(frozen=True, slots=True)
class LocalStanding:
    name: str
    pending: int
    reserving: int
    used: tuple[Used, ...]
    recent_usage: float
    """Under admission fair sharing: what it used lately, weighed."""


def queue_standing(world: World, name: str) -> QueueStanding | None:
    queue = world.forest.queues.get(name)
    if queue is None:
        return None
    world.refresh()
    world.forest.settle(queue)
    return QueueStanding(
        name,
        queue.inactive,
        len(queue.pending),
        queue.pending.inadmissible(),
        len(queue.running),
        _used(queue, queue.usage, world.forest.frs, queue.parent is not None),
        share(queue, world.forest.frs).status,
    )


def local_standing(world: World, key: str) -> LocalStanding | None:
    local = world.local_queues.get(key)
    queue = None if local is None else world.forest.queues.get(local.cluster_queue)
    if queue is None:
        return None
    usage: Usage = {}
    reserving = 0
    for item in queue.running.values():
        if item.workload.queue_key == key:
            reserving += 1
            for fr, amount in item.usage.items():
                usage[fr] = usage.get(fr, 0) + amount
    pending = sum(1 for item in queue.pending.items() if item.workload.queue_key == key)
    return LocalStanding(key, pending, reserving, _used(queue, usage, world.forest.frs, False), world.local_usage(key))


def cohort_share(world: World, name: str) -> int | None:
    """A cohort's weighted share, as its status says it."""
    world.refresh()
    world.forest.settle_all()
    for tree in world.forest.trees():
        for cohort in tree.cohorts:
            if cohort.name == name and not tree.cyclic:
                return share(cohort, world.forest.frs).status
    return None


def waiting_order(world: World, cluster_queue: str) -> list[tuple[str, str, int, int]]:
    """All pending of a ClusterQueue as they would be taken: (key, LocalQueue, place there, place in its LocalQueue)."""
    queue = world.forest.queues.get(cluster_queue)
    found: list[tuple[str, str, int, int]] = []
    seen: dict[str, int] = {}
    for position, item in enumerate(queue.pending.ordered() if queue is not None else ()):
        local = item.workload.queue_key
        found.append((item.key, local, position, seen.get(local, 0)))
        seen[local] = seen.get(local, 0) + 1
    return found


def _used(queue: Queue, usage: Usage, frs: FlavorResources, lends: bool) -> tuple[Used, ...]:
    return tuple(
        Used(*frs.pair(fr), usage.get(fr, 0), max(0, usage.get(fr, 0) - queue.nominal(fr)) if lends else 0)
        for group in queue.groups
        for numbers in group.frs
        for fr in numbers.values()
    )
