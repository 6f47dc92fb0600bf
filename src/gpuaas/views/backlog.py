"""What waits, by LocalQueue: how many workloads, how many GPUs they ask for, and since when the oldest waits.

Kept with each change of a Workload, so that a page that shows the backlog of every queue costs the queues and not the
workloads that wait in them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from gpuaas.devices.shares import as_number
from gpuaas.kueue.explain.snapshot import state_of
from gpuaas.views.jobs import gpus_of

View = Mapping[str, Any]
_Queue = tuple[str, str]  # namespace and LocalQueue


class Backlog(msgspec.Struct, rename="camel"):
    """Of one LocalQueue."""

    namespace: str
    queue: str
    cluster_queue: str
    jobs: int
    gpus: float
    oldest: str
    """When the oldest was created."""


class Backlogs:
    def __init__(self, cluster_queue_of: Callable[[str, str], str]) -> None:
        self._cluster_queue_of = cluster_queue_of
        self._of: dict[str, tuple[_Queue, str, Fraction]] = {}  # workload → its queue, when it was created, its GPUs
        self._times: dict[_Queue, list[tuple[str, str]]] = {}  # sorted
        self._gpus: dict[_Queue, Fraction] = {}

    def workload_changed(self, namespace: str, name: str, workload: View | None) -> None:
        key = f"{namespace}/{name}"
        before = self._of.pop(key, None)
        if before is not None:
            self._drop(key, *before)
        if workload is None or state_of(workload) != "Pending":
            return
        spec = workload.get("spec") or {}
        queue, created, gpus = (
            (namespace, spec.get("queueName", "")),
            workload["metadata"]["creationTimestamp"],
            gpus_of(spec),
        )
        self._of[key] = (queue, created, gpus)
        insort(self._times.setdefault(queue, []), (created, key))
        self._gpus[queue] = self._gpus.get(queue, Fraction(0)) + gpus

    def listed(self, takes: Callable[[str], bool]) -> Iterator[Backlog]:
        """Of the namespaces that `takes` says."""
        for (namespace, queue), times in sorted(self._times.items()):
            if takes(namespace):
                leads = self._cluster_queue_of(namespace, queue)
                yield Backlog(namespace, queue, leads, len(times), as_number(self._gpus[namespace, queue]), times[0][0])

    def _drop(self, key: str, queue: _Queue, created: str, gpus: Fraction) -> None:
        times = self._times[queue]
        del times[bisect_left(times, (created, key))]
        self._gpus[queue] -= gpus
        if not times:
            del self._times[queue], self._gpus[queue]
