"""The catalogue of Kueue's metrics: names, kinds, labels and buckets as Kueue 0.19 has them, the meaning in our words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpuaas.observe.series import DEFAULT_BUCKETS, Kind, Labels, Measure, Series

KUEUE_VERSION: Final = "0.19.2"
"""Whose behaviour this is."""
COMMON: Final = {"replica_role": "standalone"}
"""On every one of them."""

CREATION_LATENCY: Final = "kueue_workload_creation_latency_seconds"
ADMITTED_ACTIVE: Final = "kueue_admitted_active_workloads"
"""The one that takes labels of workloads as well."""

_LOCAL: Final = ("name", "namespace")
_CLASS: Final = ("priority_class",)
_CAUSE: Final = ("reason", "underlying_cause")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource")


def _waits(number: int) -> tuple[float, ...]:
    """1 s, then 2.5 s and on, doubling."""
    return (1.0, *(2.5 * 2**step for step in range(number - 1)))


def _counter(name: str, labels: Labels, words: str) -> Measure:
    return Measure(f"kueue_{name}", "counter", words, labels)


def _gauge(name: str, labels: Labels, words: str) -> Measure:
    return Measure(f"kueue_{name}", "gauge", words, labels)


def _histogram(name: str, labels: Labels, words: str, buckets: tuple[float, ...]) -> Measure:
    return Measure(f"kueue_{name}", "histogram", words, labels, buckets)


def _both(
    name: str, extra: Labels, words: str, *, buckets: tuple[float, ...] = (), local: bool = True
) -> list[Measure]:
    """Per ClusterQueue and, by the same name, per LocalQueue."""
    kind: Kind = "histogram" if buckets else "counter" if name.endswith("_total") else "gauge"
    made = [Measure(f"kueue_{name}", kind, f"{words}, per ClusterQueue", ("cluster_queue", *extra), buckets)]
    if local:
        fewer = _waits(14) if buckets else ()
        per_local_queue = f"{words}, per LocalQueue"
        made.append(Measure(f"kueue_local_queue_{name}", kind, per_local_queue, (*_LOCAL, *extra), fewer))
    return made


_ALL: Final = (
    _counter(
        "multikueue_workloads_dispatched_total",
        ("cluster_queue", "cluster"),
        "Workloads that were offered to a worker cluster",
    ),
    _counter(
        "multikueue_workloads_admitted_total",
        ("cluster_queue", "cluster"),
        "Workloads that a worker cluster admitted and runs for the hub",
    ),
    _counter(
        "admission_attempts_total",
        ("result",),
        "Times the workloads at the heads of the queues were looked at, by whether one was admitted",
    ),
    _histogram(
        "admission_attempt_duration_seconds",
        ("result",),
        "How long a look at the heads of the queues took",
        DEFAULT_BUCKETS,
    ),
    _gauge(
        "admission_cycle_preemption_skips",
        ("cluster_queue",),
        "Workloads passed over in the last look because another one took their victims or their room",
    ),
    *_both("pending_workloads", ("status",), "Workloads that wait, in line (active) or until something changes"),
    _gauge(
        "unadmitted_workloads", ("cluster_queue", *_CAUSE), "Workloads that are not admitted, by what is in the way"
    ),
    _gauge(
        "local_queue_unadmitted_workloads",
        (*_LOCAL, "cluster_queue", *_CAUSE),
        "Workloads that are not admitted, by what is in the way, per LocalQueue",
    ),
    *_both("finished_workloads", (), "Finished workloads that still exist"),
    *_both("reserving_active_workloads", (), "Workloads that hold quota"),
    *_both("admitted_active_workloads", (), "Workloads that are admitted and not finished"),
    *_both("quota_reserved_workloads_total", _CLASS, "Times quota was reserved"),
    *_both("admitted_workloads_total", _CLASS, "Times a workload was admitted"),
    *_both("finished_workloads_total", _CLASS, "Workloads that finished"),
    *_both("evicted_workloads_total", (*_CAUSE, *_CLASS), "Times a workload was evicted"),
    *_both(
        "evicted_workloads_once_total", (*_CAUSE, *_CLASS), "Workloads evicted for a reason once or more", local=False
    ),
    _counter(
        "replaced_workload_slices_total", ("cluster_queue",), "Slices of elastic jobs that a larger one took over"
    ),
    _counter(
        "preempted_workloads_total", ("preempting_cluster_queue", "reason"), "Workloads preempted, by who took the room"
    ),
    *_both("quota_reserved_wait_time_seconds", _CLASS, "From queued to quota reserved", buckets=_waits(14)),
    *_both("admission_wait_time_seconds", _CLASS, "From queued to admitted", buckets=_waits(16)),
    *_both("admission_checks_wait_time_seconds", _CLASS, "From quota reserved to admitted", buckets=_waits(14)),
    *_both("ready_wait_time_seconds", _CLASS, "From queued to all pods ready", buckets=_waits(14)),
    *_both("admitted_until_ready_wait_time_seconds", _CLASS, "From admitted to all pods ready", buckets=_waits(14)),
    *_both("pods_ready_to_evicted_time_seconds", _CAUSE, "From pods ready to evicted", buckets=_waits(14), local=False),
    *_both(
        "workload_eviction_latency_seconds", ("reason",), "From evicted to quota free", buckets=_waits(14), local=False
    ),
    _histogram(
        "workload_creation_latency_seconds",
        ("job_kind",),
        "From a job's creation to its workload's",
        tuple(0.01 * 2**step for step in range(11)),
    ),
    _histogram(
        "pod_scheduling_gate_removal_seconds",
        ("name", "cluster_queue", "is_group"),
        "From admitted to a pod's gate removed",
        DEFAULT_BUCKETS,
    ),
    _gauge(
        "cluster_queue_status",
        ("cluster_queue", "status"),
        "1 for the status a ClusterQueue has (pending, active, terminating), 0 for the others",
    ),
    _gauge(
        "local_queue_status",
        (*_LOCAL, "active"),
        "1 for what a LocalQueue's Active condition says (True, False, Unknown), 0 for the others",
    ),
    _gauge("cluster_queue_resource_reservation", _QUOTA, "What is reserved of a resource"),
    _gauge("cluster_queue_resource_usage", _QUOTA, "What admitted workloads hold of a resource"),
    _gauge(
        "cluster_queue_resource_pending", ("cluster_queue", "resource"), "What waiting workloads ask for of a resource"
    ),
    _gauge("cluster_queue_nominal_quota", _QUOTA, "The nominal quota of a resource"),
    _gauge("cluster_queue_borrowing_limit", _QUOTA, "What may be borrowed from the cohort; +Inf without a limit"),
    _gauge("cluster_queue_lending_limit", _QUOTA, "What may be lent to the cohort; +Inf without a limit"),
    _gauge("local_queue_resource_reservation", (*_LOCAL, "flavor", "resource"), "What is reserved of a resource"),
    _gauge("local_queue_resource_usage", (*_LOCAL, "flavor", "resource"), "What admitted workloads hold of a resource"),
    _gauge(
        "local_queue_admission_fair_sharing_usage",
        (*_LOCAL, "cluster_queue"),
        "What a LocalQueue used lately, weighed: who used less goes first",
    ),
    _gauge(
        "cluster_queue_weighted_share",
        ("cluster_queue", "cohort"),
        "What a ClusterQueue borrows per thousand of what can be lent, over its weight; NaN for a borrower of no weight",
    ),
    _gauge(
        "cohort_weighted_share",
        ("cohort",),
        "What a cohort borrows per thousand of what can be lent, over its weight; NaN for a borrower of no weight",
    ),
    _gauge("cohort_subtree_quota", ("cohort", "flavor", "resource"), "The quota of a cohort and all below it"),
    _gauge("cohort_subtree_resource_reservations", ("cohort", "flavor", "resource"), "What is reserved below a cohort"),
    _counter(
        "cohort_subtree_admitted_workloads_total",
        ("cohort", *_CLASS),
        "Times a workload was admitted in a queue below the cohort",
    ),
    _gauge(
        "cohort_subtree_admitted_active_workloads",
        ("cohort",),
        "Workloads of queues below the cohort that are admitted and not finished",
    ),
    _gauge(
        "cohort_info",
        ("cohort", "parent_cohort", "root_cohort"),
        "1, with the cohort above it and the topmost one in its labels",
    ),
    _gauge(
        "cluster_queue_info",
        ("cluster_queue", "parent_cohort", "root_cohort"),
        "1, with its cohort and the topmost one in its labels",
    ),
)


def object_of(name: str, labels: Labels) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the object whose custom labels a sample takes, where its labels name one."""
    own = MEASURES[name].labels
    match own[0]:
        case "name" if own[1] == "namespace":
            return "LocalQueue", labels[1], labels[0]
        case "cohort" if "cluster_queue" not in own:
            return "Cohort", "", labels[0]
        case "preempting_cluster_queue":
            return "ClusterQueue", "", labels[0]
        case _ if "cluster_queue" in own:
            return "ClusterQueue", "", labels[own.index("cluster_queue")]
    return None


def widened(names: Mapping[str, Labels]) -> dict[str, Measure]:
    """The catalogue with custom labels, whose names are given by the kinds of objects they come from."""
    made = {}
    for name, measure in MEASURES.items():
        found = object_of(name, measure.labels)
        source = found[0] if found is not None else "LocalQueue" if name == CREATION_LATENCY else ""
        of_workloads = names.get("Workload", ()) if name == ADMITTED_ACTIVE else ()
        made[name] = replace(measure, labels=(*measure.labels, *of_workloads, *names.get(source, ())))
    return made


def new_series() -> Series:
    """Where everybody of one cluster counts."""
    return Series(MEASURES, COMMON)


MEASURES: Final = {each.name: each for each in _ALL}
BUILD_INFO: Final = Measure(
    "kueue_build_info",
    "gauge",
    "1, with the version that runs in its labels",
    ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
)
