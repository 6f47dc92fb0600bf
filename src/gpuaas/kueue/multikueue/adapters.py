"""How each kind of job goes to a worker and what comes back: one row a kind.

A row says where the job names its manager, what of the remote status is copied to the job on the hub, which fields
follow the hub's job after the start, and how the remote job is deleted. Kinds of our integrations that have no row cannot
be dispatched: their check is rejected with upstream's words (`WITHOUT` names them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, PODS, STATEFUL_SETS
from gpuaas.kueue.integrations.leader_worker_set import LEADER_WORKER_SET
from gpuaas.kueue.integrations.registry import JOB_KINDS
from gpuaas.kueue.multikueue.names import CONTROLLER

Object = dict[str, Any]
View = Mapping[str, Any]


class Copied(Enum):
    """What of the remote status becomes the local one."""

    BY_SUSPENSION = "as batch Jobs do: only while both agree about being suspended, or at the end"
    WHOLE = "all of it"
    POD = "all of it, but for PodScheduled until it is true there"
    NOTHING = "nothing: a local controller writes it"


@dataclass(frozen=True, slots=True)
class Adapter:
    framework: str
    resource: Resource
    copied: Copied = Copied.WHOLE
    managed_by: tuple[str, ...] = ("spec", "managedBy")
    """Where the job names its manager; empty where the kind has no such field."""
    own_manager: str = ""
    """What the kind's own controller is called there: a job that says so is as one that says nothing."""
    forwarded: tuple[str, ...] = ()
    """Fields of `spec` that follow the hub's job once the remote one is there."""
    background: bool = False
    """Deleted with propagation Background; otherwise with the kind's default."""
    prebuilt: bool = True
    """The remote job names its workload. A StatefulSet's follows from the uid of the set on the hub instead."""

    def manager_of(self, job: View) -> str:
        found: Any = job
        for part in self.managed_by:
            found = (found or {}).get(part)
        return str(found or "")

    def undelegated(self, job: View) -> str:
        """Why the hub's job is not MultiKueue's to dispatch; empty if it is."""
        if not self.managed_by or self.manager_of(job) == CONTROLLER:
            return ""
        path = ".".join(self.managed_by)
        return f'Expecting {path} to be "{CONTROLLER}" not "{self.manager_of(job)}"'

    def with_manager(self, job: View, manager: str) -> Object:
        """The job with this manager; without one where it is empty."""
        return _replaced(job, self.managed_by, manager) if self.managed_by else dict(job)


def _replaced(obj: View, path: tuple[str, ...], value: str) -> Object:
    first, *rest = path
    if rest:
        inner = obj.get(first)
        if not inner and not value:
            return dict(obj)
        return {**obj, first: _replaced(inner or {}, tuple(rest), value)}
    kept = {key: each for key, each in obj.items() if key != first}
    return {**kept, first: value} if value else kept


_RAY = "ray.io/kuberay-operator"
_RUN_POLICY = ("spec", "runPolicy", "managedBy")
_TRAINING = "kubeflow.org/training-operator"


def _rows() -> dict[str, Adapter]:
    of = {kind.framework: kind.resource for kind in JOB_KINDS}
    rows = [
        Adapter("batch/job", JOBS, Copied.BY_SUSPENSION, own_manager="kubernetes.io/job-controller", background=True),
        Adapter("ray.io/raycluster", of["ray.io/raycluster"], own_manager=_RAY),
        Adapter("ray.io/rayjob", of["ray.io/rayjob"], own_manager=_RAY),
        Adapter("ray.io/rayservice", of["ray.io/rayservice"], own_manager=_RAY, forwarded=("serveConfigV2",)),
        Adapter(
            "jobset.x-k8s.io/jobset", of["jobset.x-k8s.io/jobset"], own_manager="jobset.sigs.k8s.io/jobset-controller"
        ),
        Adapter(
            "trainer.kubeflow.org/trainjob",
            of["trainer.kubeflow.org/trainjob"],
            own_manager="trainer.kubeflow.org/trainjob-controller",
        ),
        Adapter(
            "workload.codeflare.dev/appwrapper",
            of["workload.codeflare.dev/appwrapper"],
            own_manager="workload.codeflare.dev/appwrapper-controller",
        ),
        *(
            Adapter(framework, of[framework], managed_by=_RUN_POLICY, own_manager=manager)
            for framework, manager in (
                ("kubeflow.org/pytorchjob", _TRAINING),
                ("kubeflow.org/tfjob", _TRAINING),
                ("kubeflow.org/xgboostjob", _TRAINING),
                ("kubeflow.org/paddlejob", _TRAINING),
                ("kubeflow.org/jaxjob", _TRAINING),
                ("kubeflow.org/mpijob", "kubeflow.org/mpi-operator"),
            )
        ),
        Adapter("pod", PODS, Copied.POD, managed_by=()),
        Adapter("statefulset", STATEFUL_SETS, Copied.NOTHING, managed_by=(), prebuilt=False),
    ]
    return {row.framework: row for row in rows}


ADAPTERS: Final[Mapping[str, Adapter]] = _rows()
"""By framework."""
WITHOUT: Final = frozenset({"deployment", "kubeflow.org/notebook", LEADER_WORKER_SET.framework})
"""Integrations whose kinds cannot be dispatched. Pods of a Deployment are dispatched as pods. A LeaderWorkerSet has several
workloads, which would have to go to one cluster together: not done yet."""
_BY_KIND: Final = {(row.resource.group, row.resource.kind): row for row in ADAPTERS.values()}


def adapter_for(group: str, kind: str) -> Adapter | None:
    return _BY_KIND.get((group, kind))
