"""What the pages show beyond the commands' rows: the backlog, the preemption ledger, the last hour, and the cohorts' tree.

Fed by the same changes as `Snapshot`, which has one of these inside the server only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gpuaas.client.kueue import COHORTS, PREEMPTIONS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.views.backlog import Backlogs
from gpuaas.views.history import History
from gpuaas.views.preemptions import Preemptions

View = Mapping[str, Any]
FOLLOWED_BY_PAGES = (COHORTS, PREEMPTIONS)


class CohortRow(msgspec.Struct):
    """A cohort that is an object; one that queues only name has no row."""

    parent: str
    quotas: dict[tuple[str, str], str]
    """What the cohort owns itself, by flavor and resource."""


class Dashboard:
    def __init__(self, cluster_queue_of: Callable[[str, str], str], now: Callable[[], float]) -> None:
        self.backlogs = Backlogs(cluster_queue_of)
        self.preemptions = Preemptions()
        self.history = History(now)
        self.cohorts: dict[str, CohortRow] = {}

    def take(self, resource: Resource, namespace: str, name: str, obj: View | None) -> None:
        if resource == WORKLOADS:
            self.backlogs.workload_changed(namespace, name, obj)
            self.history.workload_changed(namespace, name, obj)
        elif resource == PREEMPTIONS:
            self.preemptions.changed(namespace, name, obj)
            self.history.preempted(namespace, name, obj)
        elif resource == COHORTS:
            if obj is None:
                self.cohorts.pop(name, None)
            else:
                self.cohorts[name] = cohort_row(obj)


def cohort_row(obj: View) -> CohortRow:
    spec = obj.get("spec") or {}
    quotas = {
        (flavor["name"], quota["name"]): str(quota["nominalQuota"])
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for quota in flavor.get("resources") or ()
    }
    return CohortRow(spec.get("parentName", ""), quotas)
