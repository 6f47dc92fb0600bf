"""What labels and annotations of a job say to Kueue, and the workload made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuaas.base.names import is_label_value
from gpuaas.base.numbers import integer
from gpuaas.client.kueue import FINALIZER, GROUP, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.names import workload_name
from gpuaas.kueue.integrations.podsets import spelled

Object = dict[str, Any]
View = Mapping[str, Any]
PriorityClasses = Callable[[], Sequence[View]]


class PriorityMissing(Exception):
    """The priority class that is named does not exist."""


def labels_of(job: View) -> Mapping[str, str]:
    return job["metadata"].get("labels") or {}


def annotations_of(job: View) -> Mapping[str, str]:
    return job["metadata"].get("annotations") or {}


def queue_of(job: View) -> str:
    return labels_of(job).get(keys.QUEUE, "")


def priority_class_of(job: View) -> str:
    return labels_of(job).get(keys.PRIORITY_CLASS, "")


def is_elastic(job: View) -> bool:
    """A job that may grow and shrink while it runs, or a workload of one."""
    return annotations_of(job).get(keys.ELASTIC) == "true"


def without_elastic(job: View) -> Object:
    """The job as it is seen where there are no elastic ones."""
    if keys.ELASTIC not in annotations_of(job):
        return dict(job)
    notes = {key: value for key, value in annotations_of(job).items() if key != keys.ELASTIC}
    return {**job, "metadata": {**job["metadata"], "annotations": notes}}


def prebuilt_of(job: View) -> str:
    return annotations_of(job).get(keys.PREBUILT) or labels_of(job).get(keys.PREBUILT, "")


def max_exec_time_of(job: View) -> int | None:
    value = integer(labels_of(job).get(keys.MAX_EXEC_TIME, ""))
    return value if value is not None and 0 < value < 2**31 else None


def new_workload(
    job: View,
    resource: Resource,
    pod_sets: Sequence[Object],
    copied: Sequence[str] = (),
    extra: str = "",
    annotated: Sequence[str] = (),
) -> Object:
    """The workload that stands for the job; priority is added by `with_priority`. `extra` makes its name another;
    `copied` and `annotated`: the labels and annotations it takes over."""
    metadata = job["metadata"]
    uid = metadata.get("uid", "")
    labels = {key: labels_of(job)[key] for key in copied if key in labels_of(job)}
    if not is_label_value(uid):
        labels[keys.JOB_UID] = uid
    annotations = {key: value for key, value in annotations_of(job).items() if key.startswith(keys.PROVISIONING)}
    annotations |= {key: annotations_of(job)[key] for key in annotated if key in annotations_of(job)}
    if annotations_of(job).get(keys.GATED_BY):
        annotations[keys.GATED_BY] = annotations_of(job)[keys.GATED_BY]
    meta: Object = {
        "name": workload_name(resource.kind, resource.group, metadata["name"], uid, extra),
        "namespace": metadata["namespace"],
        "labels": labels,
        "finalizers": [FINALIZER],
        "ownerReferences": [owner_reference(job, resource)],
    }
    if annotations:
        meta["annotations"] = annotations
    spec: Object = {"podSets": [spelled(each) for each in pod_sets], "queueName": queue_of(job)}
    if not spec["queueName"]:
        del spec["queueName"]
    seconds = max_exec_time_of(job)
    if seconds is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": meta, "spec": spec}


def owner_reference(job: View, resource: Resource, *, controller: bool = True) -> Object:
    metadata = job["metadata"]
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controller else reference


def priority_of(
    job: View,
    named: str | None,
    pod_sets: Sequence[View],
    workload_classes: Callable[[str], View | None],
    pod_classes: PriorityClasses,
) -> Object:
    """`priority` and `priorityClassRef` of a workload: its label's class, else the pods', else the cluster's default."""
    label = priority_class_of(job)
    if label:
        found = workload_classes(label)
        if found is None:
            raise PriorityMissing(f'workloadpriorityclasses.kueue.x-k8s.io "{label}" not found')
        return _priority(GROUP, "WorkloadPriorityClass", label, found["value"])
    name = _pods_class(pod_sets) if named is None else named
    known = pod_classes()
    if name:
        chosen = next((each for each in known if each["metadata"]["name"] == name), None)
        if chosen is None:
            raise PriorityMissing(f'priorityclasses.scheduling.k8s.io "{name}" not found')
    else:
        defaults = [each for each in known if each.get("globalDefault")]
        chosen = min(defaults, key=lambda each: int(each.get("value", 0)), default=None)
    if chosen is None:
        return {"priority": 0}
    return _priority("scheduling.k8s.io", "PriorityClass", chosen["metadata"]["name"], chosen.get("value", 0))


def _priority(group: str, kind: str, name: str, value: int) -> Object:
    return {"priority": value, "priorityClassRef": {"group": group, "kind": kind, "name": name}}


def _pods_class(pod_sets: Sequence[View]) -> str:
    names = (((each.get("template") or {}).get("spec") or {}).get("priorityClassName") for each in pod_sets)
    return next((name for name in names if name), "")
