"""Copies: the Workload and the job as they are made on a worker, and what of the remote status comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.base.quantity import parse_quantity
from gpuaas.client.kueue import WORKLOADS
from gpuaas.kueue.integrations import keys, podsets
from gpuaas.kueue.integrations.registry import JOB_KINDS
from gpuaas.kueue.multikueue.adapters import Adapter, Copied
from gpuaas.kueue.multikueue.names import DISPATCH, EPOCH, HUB, HUB_WORKLOAD, LEASE, ORIGIN
from gpuaas.kueue.workload_state import conditions_of

Object = dict[str, Any]
View = Mapping[str, Any]

_KINDS = {kind.framework: kind for kind in JOB_KINDS}
_OF_JOB_CONTROLLER = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_AMOUNTS = frozenset({"requests", "limits", "overhead"})
_NOT_COMPARED = frozenset({"preemptionGates", "active"})
ADAPTER_REASON = "MultiKueueAdapter"


def epoch_of(workload: View) -> int:
    """The number of evictions so far: it orders the offers of one workload."""
    stats = ((workload.get("status") or {}).get("schedulingStats") or {}).get("evictions") or ()
    return sum(each.get("count", 0) for each in stats)


def clone_of(workload: View, origin: str, hub: str, lease: str) -> Object:
    """The workload as a worker gets it: no owners, no finalizers, nothing of its status."""
    metadata = workload["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != keys.JOB_UID}
    notes = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != DISPATCH}
    if hub:
        notes[HUB] = hub
    if lease:
        notes |= {LEASE: lease, EPOCH: str(epoch_of(workload))}
    made: Object = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": {**labels, ORIGIN: origin},
    }
    if notes:
        made["annotations"] = notes
    spec = {key: value for key, value in workload["spec"].items() if key != "active"}
    return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": made, "spec": spec}


def same_spec(one: View, other: View, *, classes_rule: bool) -> bool:
    """Whether the copy still says what the hub's workload says: empty is absent, quantities by value. `classes_rule`: of
    one priority class, each cluster has its own value."""
    a, b = (_plain({key: value for key, value in each.items() if key not in _NOT_COMPARED}) for each in (one, other))
    if classes_rule and a.get("priorityClassRef") == b.get("priorityClassRef"):
        a.pop("priority", None)
        b.pop("priority", None)
    return bool(a == b)


def only_priority_differs(one: View, other: View) -> bool:
    apart = _NOT_COMPARED | {"priority", "priorityClassRef"}
    a, b = (_plain({key: value for key, value in each.items() if key not in apart}) for each in (one, other))
    return bool(a == b)


def _plain(value: Any, *, amounts: bool = False) -> Any:
    if isinstance(value, Mapping):
        found = {key: _plain(each, amounts=amounts or key in _AMOUNTS) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (None, "", [], {}, False, 0)}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if amounts and isinstance(value, str | int):
        try:
            return parse_quantity(str(value)).nano
        except ValueError:
            return value
    return value


# The job.


def remote_job(adapter: Adapter, job: View, workload: View, origin: str, hub: str = "") -> Object:
    """The job as the worker gets it: as its user wrote it, suspended, bound to the workload made beforehand."""
    kind = _KINDS.get(adapter.framework)
    made: Object = dict(job)
    if kind is not None:
        infos = podsets.originals(workload)
        if not kind.is_suspended(made) and infos:
            made = kind.restored(kind.suspended(made), infos)
        elif not kind.is_suspended(made):
            made = kind.suspended(made)
    made = adapter.with_manager(made, "")
    if adapter.framework == "batch/job":
        made["spec"] = _without_selector(made["spec"])
    if adapter.framework == "pod":
        made["spec"] = {key: value for key, value in made["spec"].items() if key != "nodeName"}
    metadata = job["metadata"]
    dropped = (keys.MANAGED, *_OF_JOB_CONTROLLER) if adapter.framework == "pod" else _OF_JOB_CONTROLLER
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in dropped}
    notes = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _LOCAL_NOTES}
    labels[ORIGIN] = origin
    if hub:
        notes[HUB] = hub
    if adapter.prebuilt:
        notes[keys.PREBUILT] = workload["metadata"]["name"]
    else:
        notes |= {keys.ORIGIN_UID: metadata["uid"], HUB_WORKLOAD: workload["metadata"]["name"]}
    meta: Object = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}
    if notes:
        meta["annotations"] = notes
    return {
        "apiVersion": adapter.resource.api_version,
        "kind": adapter.resource.kind,
        "metadata": meta,
        "spec": made.get("spec") or {},
    }


_PROFILE = ("opendatahub.io/hardware-profile-name", "opendatahub.io/hardware-profile-namespace")
"""A hardware profile is applied on the hub. The worker may not have it, or another one of the same name: its webhook would
refuse the copy, or change it so that it no longer matches its workload."""
_LOCAL_NOTES = frozenset({_LAST_APPLIED, DISPATCH, keys.STOPPING, keys.WORKLOAD, *_PROFILE})


def _without_selector(spec: View) -> Object:
    template = spec["template"]
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _OF_JOB_CONTROLLER}
    kept = {key: value for key, value in metadata.items() if key != "labels"}
    if labels:
        kept["labels"] = labels
    own = {key: value for key, value in spec.items() if key not in ("selector", "manualSelector")}
    return {**own, "template": {**template, "metadata": kept}}


def forwarded(adapter: Adapter, job: View, remote: View) -> Object | None:
    """The patch of the remote job's spec that brings what follows the hub's; None if nothing differs."""
    local, there = job.get("spec") or {}, remote.get("spec") or {}
    patch = {name: local.get(name) for name in adapter.forwarded if local.get(name) != there.get(name)}
    return {"spec": patch} if patch else None


# The way back.


class Deferred(Exception):
    """The hub's job is still suspended while the remote one runs; `status` is written until the next try."""

    def __init__(self, status: Object | None) -> None:
        self.status = status
        super().__init__()


def copied_status(adapter: Adapter, job: View, remote: View, now: str) -> Object | None:
    """The status the hub's job is to have; None leaves it alone. Raises Deferred while the hub's job is suspended and the
    remote one runs: a suspended Job may not have a start time."""
    there = remote.get("status") or {}
    match adapter.copied:
        case Copied.NOTHING:
            return None
        case Copied.WHOLE:
            return dict(there) or None
        case Copied.POD:
            return _pod_status(job.get("status") or {}, there)
        case Copied.BY_SUSPENSION:
            return _job_status(job, remote, now)


def _job_status(job: View, remote: View, now: str) -> Object | None:
    there = remote.get("status") or {}
    here_suspended, there_suspended = (bool((each.get("spec") or {}).get("suspend")) for each in (job, remote))
    if here_suspended and there_suspended:
        return dict(there)  # also that it counts nothing any more
    if not here_suspended or _has_ended(remote):
        return dict(there) or None
    raise Deferred(_suspended(job, now))


def _suspended(job: View, now: str) -> Object | None:
    known = conditions_of(job).get("Suspended")
    if known is not None and known.get("status") == "True":
        return None
    others = [each for each in (job.get("status") or {}).get("conditions") or () if each["type"] != "Suspended"]
    condition = {
        "type": "Suspended",
        "status": "True",
        "reason": ADAPTER_REASON,
        "message": "Set by MultiKueue adapter",
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
    return {**(job.get("status") or {}), "conditions": [*others, condition]}


def _has_ended(job: View) -> bool:
    found = conditions_of(job)
    return any((found.get(kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _pod_status(here: View, there: View) -> Object | None:
    if not there:
        return None
    scheduled = conditions_of({"status": there}).get("PodScheduled") or {}
    if scheduled.get("status") == "True":
        return dict(there)
    kept = [each for each in here.get("conditions") or () if each["type"] == "PodScheduled"]
    others = [each for each in there.get("conditions") or () if each["type"] != "PodScheduled"]
    return {**there, "conditions": [*others, *kept]}


def inactive_status(adapter: Adapter, job: View) -> Object | None:
    """The hub's status of a job whose worker is lost: it counts no running pods any more; None if it counts none."""
    status = job.get("status") or {}
    if adapter.copied is Copied.BY_SUSPENSION:
        if not any(status.get(name) for name in ("active", "ready", "terminating")):
            return None
        return {key: value for key, value in status.items() if key not in ("active", "ready", "terminating")}
    if adapter.copied is Copied.WHOLE and status:
        return _zeroed(status)
    return None


def _zeroed(status: View) -> Object | None:
    """Counts of running pods of the other kinds, wherever their operators write them."""

    def cleared(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: 0 if key in _RUNNING and isinstance(each, int) else cleared(each) for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [cleared(each) for each in value]
        return value

    made: Object = cleared(status)
    for name in ("state", "jobDeploymentStatus"):
        if made.get(name):
            made[name] = "suspended" if name == "state" else "Suspended"
    return None if made == status else made


_RUNNING = frozenset(
    {"active", "ready", "readyReplicas", "availableReplicas", "readyWorkerReplicas", "availableWorkerReplicas"}
)
