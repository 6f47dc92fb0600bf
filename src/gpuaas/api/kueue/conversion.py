"""Between v1beta1 and v1beta2 of Kueue's objects, both ways, as Kueue converts them.

Each function takes an object in either version and the version wanted, and returns a new object that shares what did
not change; nothing is changed in place. What one version has no word for is dropped (the tables in `older` show it), so
only objects that use neither side's extras survive the round trip whole.
"""

from collections.abc import Callable
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.api.kueue import assignments

GROUP = "kueue.x-k8s.io"
OLD, NEW = "v1beta1", "v1beta2"

_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def cluster_queue(obj: Object, to: str) -> Object:
    return _converted(obj, to, _cluster_queue_up, _cluster_queue_down)


def cohort(obj: Object, to: str) -> Object:
    return _converted(obj, to, _queue_status_up, _same)


def local_queue(obj: Object, to: str) -> Object:
    return _converted(obj, to, _local_queue_up, _local_queue_down)


def admission_check(obj: Object, to: str) -> Object:
    return _converted(
        obj, to, lambda old: _inside(old, "spec", lambda spec: _without(spec, "retryDelayMinutes")), _same
    )


def multi_kueue_config(obj: Object, to: str) -> Object:
    return _converted(obj, to, _same, lambda new: _inside(new, "spec", lambda spec: _without(spec, "quotaManagement")))


def multi_kueue_cluster(obj: Object, to: str) -> Object:
    return _converted(
        obj, to, lambda old: _inside(old, "spec", _source_up), lambda new: _inside(new, "spec", _source_down)
    )


def workload(obj: Object, to: str) -> Object:
    return _converted(obj, to, _workload_up, _workload_down)


def _converted(obj: Object, to: str, up: Callable[[Object], Object], down: Callable[[Object], Object]) -> Object:
    wanted = f"{GROUP}/{to}"
    if obj.get("apiVersion") == wanted:
        return obj
    return {**(up(obj) if to == NEW else down(obj)), "apiVersion": wanted}


def _same(obj: Object) -> Object:
    return obj


# -- ClusterQueue, Cohort, LocalQueue ---------------------------------------------------------------------------------

_OLD_FUNGIBILITY = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}


def _cluster_queue_up(old: Object) -> Object:
    obj = _inside(_queue_status_up(old), "status", lambda status: _without(status, "pendingWorkloadsStatus"))
    return _inside(obj, "spec", _queue_spec_up)


def _queue_spec_up(old: Object) -> Object:
    spec = _without(_renamed(old, "cohort", "cohortName"), "admissionChecks")
    names = old.get("admissionChecks")
    if isinstance(names, list) and names:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    return _inside(spec, "flavorFungibility", _fungibility_up)


def _fungibility_up(old: Object) -> Object:
    return {key: "MayStopSearch" if _OLD_FUNGIBILITY.get(key) == value else value for key, value in old.items()}


def _cluster_queue_down(new: Object) -> Object:
    def down(spec: Object) -> Object:
        return _renamed(_without(spec, "concurrentAdmissionPolicy"), "cohortName", "cohort")

    return _inside(new, "spec", down)


def _queue_status_up(old: Object) -> Object:
    """v1beta1 had a consumption history in the fair sharing status of every kind; v1beta2 only in local queues."""

    def up(status: Object) -> Object:
        return _inside(status, "fairSharing", lambda sharing: _without(sharing, "admissionFairSharingStatus"))

    return _inside(old, "status", up)


def _local_queue_up(old: Object) -> Object:
    return _inside(old, "status", lambda status: _renamed(_without(status, "flavors"), "flavorUsage", "flavorsUsage"))


def _local_queue_down(new: Object) -> Object:
    return _inside(new, "status", lambda status: _renamed(status, "flavorsUsage", "flavorUsage"))


# -- MultiKueueCluster ------------------------------------------------------------------------------------------------


def _source_up(old: Object) -> Object:
    spec = _without(_without(old, "kubeConfig"), "clusterProfileRef")
    source: Object = {}
    config = old.get("kubeConfig")
    if isinstance(config, dict) and config.get("location"):
        source["kubeConfig"] = {key: value for key, value in config.items() if value != ""}
    if old.get("clusterProfileRef"):
        source["clusterProfileRef"] = old["clusterProfileRef"]
    return {**spec, "clusterSource": source}


def _source_down(new: Object) -> Object:
    source = new.get("clusterSource") or {}
    # v1beta1 cannot do without a kubeConfig, so an empty one stands for "none".
    config = {"location": "", "locationType": "", **(source.get("kubeConfig") or {})}
    spec = {**_without(new, "clusterSource"), "kubeConfig": config}
    if source.get("clusterProfileRef"):
        spec["clusterProfileRef"] = source["clusterProfileRef"]
    return spec


# -- Workload ---------------------------------------------------------------------------------------------------------


def _workload_up(old: Object) -> Object:
    def status_up(status: Object) -> Object:
        status = _renamed(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
        return _with_assignments(status, _packed)

    return _inside(_inside(old, "spec", _workload_spec_up), "status", status_up)


def _workload_spec_up(old: Object) -> Object:
    spec = _without(_without(old, "priorityClassSource"), "priorityClassName")
    for source, (group, kind) in _SOURCES.items():
        if old.get("priorityClassSource") == source:
            spec["priorityClassRef"] = {"group": group, "kind": kind, "name": old.get("priorityClassName", "")}
    return spec


def _workload_down(new: Object) -> Object:
    def status_down(status: Object) -> Object:
        status = _without(status, "preemptionGates")
        status = _renamed(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
        return _with_assignments(status, _unpacked)

    return _inside(_inside(new, "spec", _workload_spec_down), "status", status_down)


def _workload_spec_down(new: Object) -> Object:
    spec = _without(_without(new, "priorityClassRef"), "preemptionGates")
    reference = new.get("priorityClassRef") or {}
    for source, target in _SOURCES.items():
        if (reference.get("group"), reference.get("kind")) == target:
            spec |= {"priorityClassSource": source, "priorityClassName": reference.get("name", "")}
    if isinstance(spec.get("podSets"), list):
        spec["podSets"] = [_inside(pod_set, "topologyRequest", _request_down) for pod_set in spec["podSets"]]
    return spec


def _request_down(request: Object) -> Object:
    return _without(request, "podsetSliceRequiredTopologyConstraints")


def _with_assignments(status: Object, change: Callable[[Object], Object]) -> Object:
    """The status with `change` done to the topology assignment of every pod set."""

    def changed(admission: Object) -> Object:
        pod_sets = admission.get("podSetAssignments")
        if not isinstance(pod_sets, list):
            return admission
        return {
            **admission,
            "podSetAssignments": [_inside(pod_set, "topologyAssignment", change) for pod_set in pod_sets],
        }

    return _inside(status, "admission", changed)


def _packed(assignment: Object) -> Object:
    return assignments.pack(assignment.get("levels") or (), assignment.get("domains") or ())


def _unpacked(assignment: Object) -> Object:
    return {"levels": assignment.get("levels") or [], "domains": assignments.unpack(assignment)}


# -- dict algebra -----------------------------------------------------------------------------------------------------


def _inside(obj: Object, key: str, change: Callable[[Object], Object]) -> Object:
    """The object with `change` done to one of its parts. Conversion comes before validation: it may be anything."""
    anything: Any = obj
    part = anything.get(key) if isinstance(anything, dict) else None
    return {**obj, key: change(part)} if isinstance(part, dict) else obj


def _without(part: Object, key: str) -> Object:
    """Always a new dict, so that callers may go on and put things into it."""
    return {name: value for name, value in part.items() if name != key}


def _renamed(part: Object, old: str, new: str) -> Object:
    return {new if name == old else name: value for name, value in part.items()}
