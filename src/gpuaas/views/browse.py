"""Jobs by any column: filtered, sorted, counted in groups, and in pages that go on after the key of the last row.

A page costs one walk over the rows and a heap as large as the page, whatever it is sorted by. The key is the sorted
value and then the Workload's own name, so it is unique and every row has one place.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpuaas.base.errors import BadRequest
from gpuaas.views.jobs import FINISHED
from gpuaas.views.paging import Key, key_of, token_of
from gpuaas.views.rows import JobRow

_LAST: Final = 2**53  # of numbers: where what has none goes
SORTED_BY: Final[Mapping[str, Callable[[JobRow], str | int | float]]] = {
    "created": lambda row: row.created,
    "job": lambda row: row.job.partition("/")[2],
    "namespace": lambda row: row.namespace,
    "user": lambda row: row.owner,
    "queue": lambda row: row.cluster_queue,
    "state": lambda row: row.state,
    "gpus": lambda row: float(row.gpus),
    "priority": lambda row: row.priority,
    "position": lambda row: _LAST if row.position is None else row.position,
}
GROUPED_BY: Final = ("state", "queue", "namespace", "user", "priority")
_KINDS: Final[Mapping[str, type]] = {"gpus": float, "priority": int, "position": int}


@dataclass(frozen=True, slots=True)
class JobQuery:
    namespace: str = ""
    states: tuple[str, ...] = ()
    queue: str = ""
    """The ClusterQueue."""
    user: str = ""
    text: str = ""
    """In the job's name, its namespace, its queue or its owner."""
    finished: bool = True
    sort: str = "created"
    descending: bool = True

    def takes(self, row: JobRow) -> bool:
        return (
            (self.finished or row.state not in FINISHED)
            and (not self.states or row.state in self.states)
            and (not self.namespace or row.namespace == self.namespace)
            and (not self.queue or row.cluster_queue == self.queue)
            and (not self.user or row.owner == self.user)
            and (not self.text or any(self.text in each.lower() for each in _searched(row)))
        )


class Found(msgspec.Struct):
    rows: list[JobRow]
    total: int
    continue_: str


def browse(rows: Iterable[JobRow], query: JobQuery, limit: int, token: str = "") -> Found:
    value = SORTED_BY.get(query.sort)
    if value is None:
        raise BadRequest(f"sort: {query.sort!r} is none of {', '.join(SORTED_BY)}")
    kind = _KINDS.get(query.sort, str)
    after = key_of(token, (kind, str, str)) if token else None
    total = 0

    def eligible() -> Iterable[tuple[Key, JobRow]]:
        nonlocal total
        for row in rows:
            if query.takes(row):
                total += 1
                key = (value(row), row.namespace, row.workload)
                if after is None or (key < after if query.descending else key > after):
                    yield key, row

    pick: Any = heapq.nlargest if query.descending else heapq.nsmallest
    best: list[tuple[Key, JobRow]] = pick(limit + 1, eligible(), key=lambda pair: pair[0])
    shown = best[:limit]
    return Found([row for _, row in shown], total, token_of(shown[-1][0]) if len(best) > limit else "")


def counted(rows: Iterable[JobRow], query: JobQuery, column: str) -> list[tuple[str, int]]:
    """How many rows each value of a column has, the most first."""
    if column not in GROUPED_BY:
        raise BadRequest(f"group: {column!r} is none of {', '.join(GROUPED_BY)}")
    value = SORTED_BY[column]
    found = Counter(str(value(row)) for row in rows if query.takes(row))
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))


def _searched(row: JobRow) -> tuple[str, ...]:
    return row.job, row.namespace, row.cluster_queue, row.queue, row.owner
