"""What stands at the moment of a scrape: who waits and runs, quotas, use and shares of queues and cohorts.

Read off the engine and the tally, both of which keep their sums as they go; a scrape looks at queues, never at single
workloads. Written in Prometheus' text form, together with what module metrics counted.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import gpuaas
from gpuaas.client.protocol import Object
from gpuaas.controllers.kueue.custom_labels import AdmittedByLabels
from gpuaas.controllers.kueue.metrics import KueueCounts
from gpuaas.controllers.kueue.unadmitted import Unadmitted
from gpuaas.engine.engine import Engine
from gpuaas.engine.queues import Queue
from gpuaas.engine.shares import share
from gpuaas.engine.tree import CohortNode, Node
from gpuaas.engine.values import Quota
from gpuaas.engine.world import natural
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.usage_counts import Tally
from gpuaas.observe.kueue import BUILD_INFO, COMMON, KUEUE_VERSION
from gpuaas.observe.series import Labels, lines
from gpuaas.runtime.informer import Informer

Sample = tuple[str, Labels, float]


class KueueCollector:
    def __init__(
        self,
        engine: Engine,
        counts: KueueCounts,
        tally: Tally,
        configured: Configured,
        cluster_queues: Informer,
        local_queues: Informer,
        unadmitted: Unadmitted,
        admitted: AdmittedByLabels | None = None,
    ) -> None:
        self._engine = engine
        self._counts = counts
        self._tally = tally
        self._configured = configured
        self._cluster_queues = cluster_queues
        self._local_queues = local_queues
        self._unadmitted = unadmitted
        self._admitted = admitted

    def lines(self) -> Iterator[str]:
        self._engine.refresh()
        self._engine.forest.settle_all()
        version = (f"v{KUEUE_VERSION}+gpuaas-{gpuaas.__version__}", "", "", "", "python", "")
        yield from lines(BUILD_INFO, [(version, 1.0)], {})
        yield from self._counts.series.lines()
        found: dict[str, list[tuple[Labels, float]]] = {}
        series = self._counts.series
        for name, labels, value in self._samples():
            if series.beside is not None:
                labels = series.beside.extended(f"kueue_{name}", labels)
            found.setdefault(name, []).append((labels, value))
        for name, samples in found.items():
            yield from lines(series.measures[f"kueue_{name}"], sorted(samples), COMMON)

    def _samples(self) -> Iterator[Sample]:
        for queue in self._engine.forest.queues.values():
            yield from self._queue(queue)
        for tree in self._engine.forest.trees():
            if not tree.cyclic:
                for cohort in tree.cohorts:
                    yield from self._cohort(cohort)
        if self._configured.now.reasons.granular:
            yield from self._not_admitted()
        if self._configured.now.metrics.local_queues:
            waiting = {
                key: counts
                for queue in self._engine.forest.queues.values()
                for key, counts in _waiting_of_locals(queue).items()
            }
            for obj in self._local_queues.all():
                if self._configured.now.metrics.tells(obj["metadata"].get("labels") or {}):
                    yield from self._local(obj, waiting)

    def _not_admitted(self) -> Iterator[Sample]:
        totals: Counter[Labels] = Counter()
        for (namespace, name, reason, cause), number in self._unadmitted:
            local = self._engine.local_queues.get(f"{namespace}/{name}")
            if local is None:
                continue
            totals[local.cluster_queue, reason, cause] += number
            obj = self._local_queues.get(namespace, name)
            if obj is not None and self._configured.now.metrics.tells(obj["metadata"].get("labels") or {}):
                where = (name, namespace, local.cluster_queue)
                yield "local_queue_unadmitted_workloads", (*where, reason, cause), number
        for labels, number in totals.items():
            yield "unadmitted_workloads", labels, number

    def _queue(self, queue: Queue) -> Iterator[Sample]:
        name, totals = queue.name, self._tally.cluster_queues[queue.name]
        active, inadmissible = _waiting(queue)
        yield "pending_workloads", (name, "active"), active
        yield "pending_workloads", (name, "inadmissible"), inadmissible
        yield "reserving_active_workloads", (name,), totals.reserving
        if self._admitted is None:
            yield "admitted_active_workloads", (name,), totals.admitted
        else:
            for values, number in self._admitted.of(name):
                yield "admitted_active_workloads", (name, *values), number
        yield "finished_workloads", (name,), totals.finished
        yield "admission_cycle_preemption_skips", (name,), self._counts.skips[name]
        status = self._status(queue)
        for each in ("pending", "active", "terminating"):
            yield "cluster_queue_status", (name, each), float(each == status)
        parent, root = _place(queue)
        yield "cluster_queue_info", (name, parent, root), 1.0
        if self._engine.config.fair_sharing is not None:
            yield "cluster_queue_weighted_share", (name, parent), self._share(queue)
        if self._configured.now.metrics.cluster_queue_resources:
            yield from self._resources(queue, parent, totals.usage)

    def _status(self, queue: Queue) -> str:
        obj = self._cluster_queues.get("", queue.name)
        if obj is not None and obj["metadata"].get("deletionTimestamp"):
            return "terminating"
        return "active" if queue.inactive is None else "pending"

    def _resources(self, queue: Queue, cohort: str, admitted: Mapping[tuple[str, str], int]) -> Iterator[Sample]:
        frs = self._engine.forest.frs
        for fr, quota in queue.quotas.items():
            flavor, resource = frs.flavor[fr], frs.resource[fr]
            labels = (cohort, queue.name, flavor, resource)
            for name, amount in _limits(quota):
                yield name, labels, math.inf if amount is None else natural(resource, amount)
            yield "cluster_queue_resource_reservation", labels, natural(resource, queue.usage.get(fr, 0))
            yield "cluster_queue_resource_usage", labels, natural(resource, admitted.get((flavor, resource), 0))
        asked = dict.fromkeys(queue.group_of, 0) | queue.pending.requests()
        for resource, amount in asked.items():
            yield "cluster_queue_resource_pending", (queue.name, resource), natural(resource, amount)

    def _cohort(self, cohort: CohortNode) -> Iterator[Sample]:
        frs, name = self._engine.forest.frs, cohort.name
        leaves = list(_leaves(cohort))
        parent, root = _place(cohort)
        yield "cohort_info", (name, parent, root), 1.0
        if name in self._counts.silent:
            return
        admitted = sum(self._tally.cluster_queues[leaf.name].admitted for leaf in leaves)
        yield "cohort_subtree_admitted_active_workloads", (name,), admitted
        for fr, quota in cohort.subtree.items():
            flavor, resource = frs.flavor[fr], frs.resource[fr]
            yield "cohort_subtree_quota", (name, flavor, resource), natural(resource, quota)
            reserved = sum(leaf.usage.get(fr, 0) for leaf in leaves)
            yield "cohort_subtree_resource_reservations", (name, flavor, resource), natural(resource, reserved)
        if self._engine.config.fair_sharing is not None:
            yield "cohort_weighted_share", (name,), self._share(cohort)

    def _local(self, obj: Object, waiting: Mapping[str, tuple[int, int]]) -> Iterator[Sample]:
        metadata = obj["metadata"]
        where, key = (metadata["name"], metadata["namespace"]), f"{metadata['namespace']}/{metadata['name']}"
        totals = self._tally.local_queues[key]
        active, inadmissible = waiting.get(key, (0, 0))
        yield "local_queue_pending_workloads", (*where, "active"), active
        yield "local_queue_pending_workloads", (*where, "inadmissible"), inadmissible
        yield "local_queue_reserving_active_workloads", where, totals.reserving
        yield "local_queue_admitted_active_workloads", where, totals.admitted
        yield "local_queue_finished_workloads", where, totals.finished
        conditions = (obj.get("status") or {}).get("conditions") or ()
        said = next((each["status"] for each in conditions if each["type"] == "Active"), "Unknown")
        for each in ("True", "False", "Unknown"):
            yield "local_queue_status", (*where, each), float(each == said)
        local = self._engine.local_queues.get(key)
        queue = self._engine.forest.queues.get(local.cluster_queue) if local is not None else None
        if queue is None:
            return
        if queue.spec.usage_based and self._engine.ledger is not None:
            used = self._engine.local_usage(key)
            yield "local_queue_admission_fair_sharing_usage", (*where, queue.name), used
        if self._configured.now.metrics.cluster_queue_resources:
            for fr in queue.quotas:
                flavor, resource = self._engine.forest.frs.flavor[fr], self._engine.forest.frs.resource[fr]
                for name, amounts in (("reservation", totals.reservation), ("usage", totals.usage)):
                    amount = natural(resource, amounts.get((flavor, resource), 0))
                    yield f"local_queue_resource_{name}", (*where, flavor, resource), amount

    def _share(self, node: Node) -> float:
        endless, value = share(node, self._engine.forest.frs).rank
        return math.nan if endless else value


def _waiting(queue: Queue) -> tuple[int, int]:
    """In line, and until something changes; a queue that admits nothing has no line."""
    inadmissible = queue.pending.inadmissible()
    active = len(queue.pending) - inadmissible
    return (0, active + inadmissible) if queue.inactive is not None else (active, inadmissible)


def _waiting_of_locals(queue: Queue) -> dict[str, tuple[int, int]]:
    found = queue.pending.by_local_queue()
    return found if queue.inactive is None else {key: (0, active + parked) for key, (active, parked) in found.items()}


def _limits(quota: Quota) -> tuple[tuple[str, int | None], ...]:
    return (
        ("cluster_queue_nominal_quota", quota.nominal),
        ("cluster_queue_borrowing_limit", quota.borrowing),
        ("cluster_queue_lending_limit", quota.lending),
    )


def _place(node: Node) -> tuple[str, str]:
    """The cohort it is in, and the topmost one; a topmost cohort is its own root."""
    above = list(node.ancestors())
    root = above[-1].name if above else node.name if isinstance(node, CohortNode) else ""
    return (above[0].name if above else ""), root


def _leaves(cohort: CohortNode) -> Iterator[Node]:
    yield from cohort.leaves
    for child in cohort.children:
        yield from _leaves(child)
