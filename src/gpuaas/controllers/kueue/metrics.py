"""What happens to workloads, counted as it happens: reserved, admitted, ready, evicted, finished, and how long it took.

Fed with each change of a workload and each cycle of the engine; costs a few dictionary lookups a change. What can be
computed from the state at a scrape (pending workloads, quotas, shares) is module gauges'.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.client.protocol import Object
from gpuaas.engine.assign import Mode
from gpuaas.engine.cycle import NO_LONGER_FITS, OVERLAPS
from gpuaas.engine.engine import Engine
from gpuaas.engine.plan import Plan
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations.outcome import REPLACED
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.observe.series import Series

View = Mapping[str, Any]
Conditions = Mapping[str, View]
LocalQueueOf = Callable[[str, str], "Object | None"]


class KueueCounts:
    def __init__(
        self, series: Series, engine: Engine, configured: Configured, clock: Clock, local_queue: LocalQueueOf
    ) -> None:
        self.series = series
        self.skips: Counter[str] = Counter()
        """Of the last cycle: heads passed over although they had victims, by ClusterQueue."""
        self._engine = engine
        self._configured = configured
        self._clock = clock
        self._local_queue = local_queue
        self._cohorts: set[str] = set()
        self.silent: set[str] = set()
        """Cohorts that queues still name, but whose object went: no series is shown for them until their next change."""

    # Cycles.

    def looked(self, plan: Plan, seconds: float) -> None:
        if not plan.heads:
            return
        result = "success" if plan.admissions else "inadmissible"
        self.series.count("kueue_admission_attempts_total", result)
        self.series.observe("kueue_admission_attempt_duration_seconds", seconds, result)
        for victim in plan.preemptions:
            self.series.count("kueue_preempted_workloads_total", victim.by_queue, victim.rule.value)
        self.skips = Counter(
            passed.cluster_queue
            for passed in plan.skipped
            if passed.words in (OVERLAPS, NO_LONGER_FITS)
            and passed.assignment is not None
            and passed.assignment.mode is Mode.PREEMPT
        )

    # Workloads.

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Only what is seen to happen counts: what is there from the beginning, or goes, happened before or elsewhere."""
        if old is None or new is None or old.get("status") is new.get("status"):
            return
        before, after = conditions_of(old), conditions_of(new)
        for kind, tell in (
            ("QuotaReserved", self._reserved),
            ("Admitted", self._admitted),
            ("PodsReady", self._ready),
            ("Finished", self._finished),
        ):
            if is_true(after.get(kind)) and not is_true(before.get(kind)):
                tell(new, after)
        if is_true(after.get("Evicted")):
            self._evicted(old, new, before)
            if is_true(before.get("QuotaReserved")) and not is_true(after.get("QuotaReserved")):
                reason, since = after["Evicted"].get("reason", ""), self._since(after["Evicted"])
                self.series.observe("kueue_workload_eviction_latency_seconds", since, _queue(old), reason)

    def _reserved(self, obj: Object, conditions: Conditions) -> None:
        waited = self._since_queued(obj, conditions)
        self._count("quota_reserved_workloads_total", obj, _class(obj))
        self._observe("quota_reserved_wait_time_seconds", obj, waited, _class(obj))

    def _admitted(self, obj: Object, conditions: Conditions) -> None:
        self._count("admitted_workloads_total", obj, _class(obj))
        self._observe("admission_wait_time_seconds", obj, self._since_queued(obj, conditions), _class(obj))
        if (obj.get("status") or {}).get("admissionChecks"):
            waited = self._since(conditions.get("QuotaReserved"))
            self._observe("admission_checks_wait_time_seconds", obj, waited, _class(obj))
        queue = self._engine.forest.queues.get(_queue(obj))
        for cohort in queue.ancestors() if queue is not None else ():
            self._cohorts.add(cohort.name)
            self.silent.discard(cohort.name)
            self.series.count("kueue_cohort_subtree_admitted_workloads_total", cohort.name, _class(obj))

    def _ready(self, obj: Object, conditions: Conditions) -> None:
        self._observe("ready_wait_time_seconds", obj, self._since_queued(obj, conditions), _class(obj))
        waited = self._since(conditions.get("Admitted"))
        self._observe("admitted_until_ready_wait_time_seconds", obj, waited, _class(obj))

    def _finished(self, obj: Object, conditions: Conditions) -> None:
        self._count("finished_workloads_total", obj, _class(obj))
        if conditions["Finished"].get("reason") == REPLACED:
            self.series.count("kueue_replaced_workload_slices_total", _queue(obj))

    def _evicted(self, old: Object, new: Object, before: Conditions) -> None:
        """Each eviction raises one number in the workload's own statistics."""
        if not _queue(new):
            return  # it held nothing
        known = _evictions(old)
        for (reason, cause), number in _evictions(new).items():
            if number <= known.get((reason, cause), 0):
                continue
            self._count("evicted_workloads_total", new, reason, cause, _class(new))
            if number == 1:
                labels = (_queue(new), reason, cause, _class(new))
                self.series.count("kueue_evicted_workloads_once_total", *labels)
            if is_true(before.get("PodsReady")):
                ran = self._since(before["PodsReady"])
                self.series.observe("kueue_pods_ready_to_evicted_time_seconds", ran, _queue(new), reason, cause)

    # Queues that go take their series with them.

    def cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["name"]
            self.series.forget(cluster_queue=name)
            self.series.forget(preempting_cluster_queue=name)
        if (old or {}).get("spec") != (new or {}).get("spec"):
            self.silent.discard(((new or {}).get("spec") or {}).get("cohortName", ""))
            self._look_around()

    def cohort_changed(self, old: Object | None, new: Object | None) -> None:
        """With its object its counts go, even if a queue still names it."""
        if (old or {}).get("spec") == (new or {}).get("spec"):
            return
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self.series.forget(cohort=name)
            self.silent.add(name)
        else:
            self.silent.discard(name)
        self._look_around()

    def _look_around(self) -> None:
        """A cohort is there while an object or a queue names it; with the last one its counts go."""
        there = {cohort.name for tree in self._engine.forest.trees() for cohort in tree.cohorts}
        for name in self._cohorts - there:
            self.series.forget(cohort=name)
        self._cohorts &= there
        self.silent &= there

    def local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self.series.forget(name=old["metadata"]["name"], namespace=old["metadata"]["namespace"])

    def _count(self, name: str, obj: Object, *labels: str) -> None:
        self.series.count(f"kueue_{name}", _queue(obj), *labels)
        local = self._local(obj)
        if local is not None:
            self.series.count(f"kueue_local_queue_{name}", *local, *labels)

    def _observe(self, name: str, obj: Object, seconds: float, *labels: str) -> None:
        self.series.observe(f"kueue_{name}", seconds, _queue(obj), *labels)
        local = self._local(obj)
        if local is not None:
            self.series.observe(f"kueue_local_queue_{name}", seconds, *local, *labels)

    def _local(self, obj: Object) -> tuple[str, str] | None:
        """Name and namespace of its LocalQueue, where LocalQueue metrics are on."""
        settings = self._configured.now.metrics
        name, namespace = (obj.get("spec") or {}).get("queueName", ""), obj["metadata"]["namespace"]
        if not settings.local_queues:
            return None
        found = self._local_queue(namespace, name)
        if found is None or not settings.tells(found["metadata"].get("labels") or {}):
            return None
        return name, namespace

    def _since_queued(self, obj: Object, conditions: Conditions) -> float:
        requeued = conditions.get("Requeued")
        since = requeued["lastTransitionTime"] if requeued else obj["metadata"]["creationTimestamp"]
        return max(0.0, self._clock.now() - parse_rfc3339(since))

    def _since(self, condition: View | None) -> float:
        if condition is None:
            return 0.0
        return max(0.0, self._clock.now() - parse_rfc3339(condition["lastTransitionTime"]))


def _queue(obj: View) -> str:
    return str(((obj.get("status") or {}).get("admission") or {}).get("clusterQueue", ""))


def _class(obj: View) -> str:
    return str(((obj.get("spec") or {}).get("priorityClassRef") or {}).get("name", ""))


def _evictions(obj: View) -> dict[tuple[str, str], int]:
    evictions = ((obj.get("status") or {}).get("schedulingStats") or {}).get("evictions") or ()
    return {(each["reason"], each.get("underlyingCause", "")): each["count"] for each in evictions}
