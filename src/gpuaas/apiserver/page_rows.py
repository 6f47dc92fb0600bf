"""Rows that only pages ask for, under the caller's RBAC: the backlog, the ledger, the last hour, jobs by any column.

A user who may list Workloads of a namespace sees its part of the backlog and of the last hour; one who may list
Preemptions of a namespace sees the ledger's entries about its jobs. `Views` has one of these as `pages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from gpuaas.apiserver.security.identity import User
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, PREEMPTIONS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.views.backlog import Backlog
from gpuaas.views.browse import Found, JobQuery, browse, counted
from gpuaas.views.dashboard import CohortRow, Dashboard
from gpuaas.views.jobs import Positions
from gpuaas.views.preemptions import PreemptionRow
from gpuaas.views.rows import JobRow
from gpuaas.views.snapshot import Snapshot


class Reasons(Protocol):
    """One word for why a workload waits (controllers.kueue.waiting)."""

    def of(self, key: str) -> str: ...

    def counted(self, cluster_queue: str) -> list[tuple[str, int]]: ...


MayList = Callable[[User, Resource, str], bool]


class PageRows:
    def __init__(self, snapshot: Snapshot, may_list: MayList, positions: Callable[[], Positions]) -> None:
        self.reasons: Reasons | None = None
        """Set where there is an engine."""
        self._snapshot = snapshot
        self._may_list = may_list
        self._positions = positions

    def sees(self, user: User, resource: Resource) -> bool:
        """Whether the user may list this somewhere: in some namespace that has a queue or jobs. Where not, a page says
        so, for what it would show is no zero."""
        known = ("", *self._snapshot.queues.namespaces(), *self._snapshot.jobs.namespaces())
        return any(self._may_list(user, resource, where) for where in known)

    def local_queues(self, user: User, cluster_queue: str) -> list[tuple[str, str]]:
        """Namespace and name of those that lead to a ClusterQueue, of the namespaces where the user may list them."""
        takes = self._takes(user, LOCAL_QUEUES)
        return [each for each in self._snapshot.queues.leading_to(cluster_queue) if takes(each[0])]

    def backlogs(self, user: User) -> list[Backlog]:
        return list(self._dashboard.backlogs.listed(self._takes(user, WORKLOADS)))

    def heads(self, user: User) -> list[JobRow]:
        """The first in each queue, of those the user may see."""
        takes = self._takes(user, WORKLOADS)
        return [
            row
            for row in self._rows_at({key for key, place in self._positions().items() if place == 1})
            if takes(row.namespace)
        ]

    def reason(self, row: JobRow) -> str:
        """Of a row that was listed for the user."""
        return self.reasons.of(f"{row.namespace}/{row.workload}") if self.reasons and row.state == "Pending" else ""

    def reason_counts(self, user: User, cluster_queue: str) -> list[tuple[str, int]]:
        """How many workloads wait for which reason; nothing for a user who may not see all of them."""
        if self.reasons is None or not self._may_list(user, WORKLOADS, ""):
            return []
        return self.reasons.counted(cluster_queue)

    def preemptions(self, user: User, *, since: str = "", limit: int = 100) -> tuple[list[PreemptionRow], bool]:
        """The newest first, back to a time; and whether there are more."""
        found: list[PreemptionRow] = []
        for _, row in self._dashboard.preemptions.latest(self._takes(user, PREEMPTIONS), since):
            if len(found) == limit:
                return found, True
            found.append(row)
        return found, False

    def history(self, user: User, times: Sequence[float]) -> dict[str, list[float]]:
        """The GPUs each ClusterQueue held at each of these times."""
        return self._dashboard.history.sampled(times, self._takes(user, WORKLOADS))

    def cohorts(self, user: User) -> Mapping[str, CohortRow]:
        """By name; nothing for a user who may not see queues."""
        return self._dashboard.cohorts if self._may_list(user, CLUSTER_QUEUES, "") else {}

    def jobs(self, user: User, query: JobQuery, limit: int, token: str = "") -> Found:
        return browse(self.every_job(user), query, limit, token)

    def at(self, user: User, namespace: str, workload: str) -> list[JobRow]:
        """The row of one Workload, where there is one and the user may see it."""
        if not self._may_list(user, WORKLOADS, namespace):
            return []
        return list(self._rows_at({f"{namespace}/{workload}"}))

    def groups(self, user: User, query: JobQuery, column: str) -> list[tuple[str, int]]:
        return counted(self.every_job(user), query, column)

    @property
    def _dashboard(self) -> Dashboard:
        if self._snapshot.dashboard is None:
            raise RuntimeError("a snapshot without a clock keeps nothing for pages")
        return self._snapshot.dashboard

    def every_job(self, user: User) -> Iterator[JobRow]:
        """Of the namespaces where the user may list Workloads, in no order."""
        takes = self._takes(user, WORKLOADS)
        return (row for row in self._snapshot.jobs.each(self._positions()) if takes(row.namespace))

    def _rows_at(self, keys: set[str]) -> Iterator[JobRow]:
        return self._snapshot.jobs.at(sorted(keys), self._positions())

    def _takes(self, user: User, resource: Resource) -> Callable[[str], bool]:
        """Whether the user may see what a namespace has of it; each namespace is asked about once."""
        if self._may_list(user, resource, ""):
            return lambda _: True
        known: dict[str, bool] = {}

        def takes(namespace: str) -> bool:
            found = known.get(namespace)
            if found is None:
                found = known[namespace] = self._may_list(user, resource, namespace)
            return found

        return takes
