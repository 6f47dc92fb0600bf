"""Rows of jobs: one for each Workload, with its state, its place in its queue and where its pods are.

`Jobs` keeps a row for each Workload and changes it with the Workload. What depends on others is filled in when rows are
read: the position (the engine knows it), the ClusterQueue of a job that is not admitted (its LocalQueue names it), and
the nodes (the pods know them). Rows are kept in the order of their times, so that a page costs the rows it passes,
whatever changed before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec

from gpuaas.api.owner import owner_named
from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.shares import in_text, share_of
from gpuaas.kueue.explain.evidence import given_flavors
from gpuaas.kueue.explain.snapshot import owner_of, state_of
from gpuaas.kueue.ledger import is_gpu
from gpuaas.views.flavors import Flavors
from gpuaas.views.paging import Key, key_of, limit_of, token_of
from gpuaas.views.rows import JobRow

View = Mapping[str, Any]
Family = tuple[str, ...]
Positions = Mapping[str, int]
"""Of the Workloads that wait, by `namespace/name`: the place in their ClusterQueue, counted from 1."""
_SHAPE: Final = (str, int, str, str)  # of sort keys
FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class JobFilter:
    namespaces: Collection[str] | None = None  # None: all
    finished: bool = True  # whether jobs that have finished are among them
    states: Collection[str] = ()  # (): any
    queue: str = ""  # of this LocalQueue
    owner: str = ""  # of this user

    def takes(self, row: JobRow) -> bool:
        return (
            (self.finished or row.state not in FINISHED)
            and (self.namespaces is None or row.namespace in self.namespaces)
            and (not self.states or row.state in self.states)
            and (not self.queue or row.queue == self.queue)
            and (not self.owner or row.owner == self.owner)
        )


class JobPage(msgspec.Struct):
    rows: list[JobRow]
    continue_: str


@dataclass(slots=True)
class _Kept:
    row: JobRow  # position, ClusterQueue and nodes as the Workload alone tells them
    shared: tuple[tuple[str, str, int], ...]  # by flavor, what it was given of cards
    family: Family  # uids under which its pods can be found, and its own key
    filled: JobRow  # as it was read last


class Jobs:
    def __init__(self, cluster_queue_of: Callable[[str, str], str], flavors: Flavors | None = None) -> None:
        """`cluster_queue_of(namespace, name)`: where a LocalQueue leads to, "" where there is none."""
        self._cluster_queue_of = cluster_queue_of
        self._flavors = flavors or Flavors()
        self._kept: dict[str, _Kept] = {}
        self._unfinished: dict[str, int] = {}  # by namespace
        self._by_time: list[tuple[str, ...]] = []  # when each was created, and its key; sorted

    def changed(self, namespace: str, name: str, workload: View | None) -> None:
        key = f"{namespace}/{name}"
        before = self._kept.pop(key, None)
        if before is not None:
            if before.row.state not in FINISHED:
                self._count(namespace, -1)
            del self._by_time[bisect_left(self._by_time, (before.row.created, key))]
        if workload is not None:
            row = row_of(workload)
            self._kept[key] = _Kept(row, given_cards(workload), family_of(workload), row)
            insort(self._by_time, (row.created, key))
            if row.state not in FINISHED:
                self._count(namespace, 1)

    def namespaces(self) -> set[str]:
        """Those that have jobs."""
        return {kept.row.namespace for kept in self._kept.values()}

    def unfinished_elsewhere(self, namespace: str) -> int:
        return sum(number for where, number in self._unfinished.items() if where != namespace)

    def find(self, namespace: str, name: str, kind: str = "") -> str | None:
        """The name of the newest Workload of a job of that name (and kind), or of that name itself."""
        found = [
            kept.row
            for kept in self._kept.values()
            if kept.row.namespace == namespace and _is_called(kept.row, kind, name)
        ]
        newest = max(found, key=lambda row: row.created, default=None)
        return None if newest is None else newest.workload

    def listed(
        self,
        wanted: JobFilter,
        positions: Positions,
        *,
        limit: int | None = None,
        token: str = "",
        nodes_of: Callable[[Family], list[str]] | None = None,
    ) -> JobPage:
        """A page of rows, the oldest first. `nodes_of(family)` adds where the pods of each are."""
        most, after = limit_of(limit), key_of(token, _SHAPE) if token else None
        found: list[JobRow] = []
        last: Key = ()
        for key, kept in self._in_order(wanted, positions, after):
            if len(found) == most:
                return JobPage(found, token_of(last))
            found.append(self._filled(kept, positions, nodes_of))
            last = key
        return JobPage(found, "")

    def each(self, positions: Positions) -> Iterator[JobRow]:
        """Every row, in no order."""
        return (self._filled(kept, positions, None) for kept in self._kept.values())

    def at(self, keys: Collection[str], positions: Positions) -> Iterator[JobRow]:
        """The rows of these Workloads (`namespace/name`), of those that are there."""
        return (self._filled(self._kept[key], positions, None) for key in keys if key in self._kept)

    def _in_order(self, wanted: JobFilter, positions: Positions, after: Key | None) -> Iterator[tuple[Key, _Kept]]:
        """Those that are wanted, after a sort key. Only jobs made in the same second are put in order by their place."""
        at = bisect_left(self._by_time, (str(after[0]),)) if after else 0
        while at < len(self._by_time):
            created, together = self._by_time[at][0], list[tuple[Key, _Kept]]()
            while at < len(self._by_time) and self._by_time[at][0] == created:
                kept = self._kept[self._by_time[at][1]]
                at += 1
                if wanted.takes(kept.row):
                    together.append((_sort_key(kept.row, positions), kept))
            together.sort(key=lambda each: each[0])
            for each in together:
                if after is None or each[0] > after:
                    yield each

    def _filled(self, kept: _Kept, positions: Positions, nodes_of: Callable[[Family], list[str]] | None) -> JobRow:
        row = kept.row
        found = {
            "position": positions.get(f"{row.namespace}/{row.workload}"),
            "cluster_queue": row.cluster_queue or self._cluster_queue_of(row.namespace, row.queue),
            "gpus": in_text(self._flavors.cards(kept.shared)) if kept.shared and self._flavors.any_shared else row.gpus,
        }
        if nodes_of is not None:
            return msgspec.structs.replace(row, **found, nodes=nodes_of(kept.family))
        if any(getattr(kept.filled, name) != value for name, value in found.items()):
            kept.filled = msgspec.structs.replace(row, **found)
        return kept.filled

    def _count(self, namespace: str, change: int) -> None:
        number = self._unfinished.get(namespace, 0) + change
        if number:
            self._unfinished[namespace] = number
        else:
            self._unfinished.pop(namespace, None)


def row_of(workload: View) -> JobRow:
    meta, spec = workload["metadata"], workload.get("spec") or {}
    kind, name = owner_of(workload)
    admission = (workload.get("status") or {}).get("admission") or {}
    return JobRow(
        namespace=meta.get("namespace", ""),
        job=f"{kind.lower()}/{name}",
        queue=spec.get("queueName", ""),
        state=state_of(workload),
        position=None,
        gpus=in_text(gpus_of(spec)),
        created=meta["creationTimestamp"],
        workload=meta["name"],
        cluster_queue=admission.get("clusterQueue", ""),
        flavors=given_flavors(workload),
        priority=spec.get("priority", 0),
        owner=owner_named(workload),
    )


def family_of(workload: View) -> Family:
    """What the pods of a workload name: its uid or that of its owners, or the workload itself in an annotation."""
    meta = workload["metadata"]
    owners = (each["uid"] for each in meta.get("ownerReferences") or ())
    return (meta["uid"], f"{meta['namespace']}/{meta['name']}", *owners)


def given_cards(workload: View) -> tuple[tuple[str, str, int], ...]:
    """By flavor and resource, what of cards the workload was given."""
    admission = (workload.get("status") or {}).get("admission") or {}
    return tuple(
        (flavor, resource, parse_quantity((each.get("resourceUsage") or {}).get(resource, "0")).value)
        for each in admission.get("podSetAssignments") or ()
        for resource, flavor in (each.get("flavors") or {}).items()
        if is_gpu(resource)
    )


def gpus_of(spec: View) -> Fraction:
    """Of all the pods of a workload; a MIG slice is its part of a card."""
    total = Fraction(0)
    for pod_set in spec.get("podSets") or ():
        for container in ((pod_set.get("template") or {}).get("spec") or {}).get("containers") or ():
            resources = container.get("resources") or {}
            asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}  # as pods are defaulted
            for name, amount in asked.items():
                if is_gpu(name):
                    total += parse_quantity(amount).value * pod_set.get("count", 1) * share_of(name)
    return total


def _sort_key(row: JobRow, positions: Positions) -> Key:
    """The oldest first; of those made in the same second, those that wait last, in their order."""
    return row.created, positions.get(f"{row.namespace}/{row.workload}", 0), row.workload, row.namespace


def _is_called(row: JobRow, kind: str, name: str) -> bool:
    if row.workload == name and kind in ("", "Workload"):
        return True
    owner_kind, _, owner = row.job.partition("/")
    return owner == name and kind.lower() in ("", owner_kind)
