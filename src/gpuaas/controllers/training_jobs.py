"""The training operator's jobs (PyTorchJob and its siblings) → one pod and one service for each replica.

The kinds differ in the name of their replica map and in which role decides; that is the table below. A replica's
restart policy is its pods'; a pod that failed for good fails the job. A suspended job has no pods.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import PODS, SERVICES
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_reference, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import condition_of, phase_of, pod_from_template
from gpuaas.runtime.writes import write_status

_NAME, _TYPE = "training.kubeflow.org/job-name", "training.kubeflow.org/replica-type"
_INDEX = "training.kubeflow.org/replica-index"
_PORT = 23456

View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Training:
    kind: str
    field: str
    leaders: tuple[str, ...]  # whose success is the job's; without one of them all workers have to succeed
    version: str = "v1"

    @property
    def resource(self) -> Resource:
        return Resource("kubeflow.org", self.version, f"{self.kind.lower()}s", True, self.kind)


KINDS = (
    Training("PyTorchJob", "pytorchReplicaSpecs", ("Master",)),
    Training("TFJob", "tfReplicaSpecs", ("Chief", "Master")),
    Training("XGBoostJob", "xgbReplicaSpecs", ("Master",)),
    Training("PaddleJob", "paddleReplicaSpecs", ("Master",)),
    Training("JAXJob", "jaxReplicaSpecs", ()),
    Training("MPIJob", "mpiReplicaSpecs", ("Launcher",), "v2beta1"),
)


def roles_of(training: Training, job: View) -> Mapping[str, View]:
    found: Mapping[str, View] = job["spec"].get(training.field) or {}
    return found


def replicas_of(role: View) -> int:
    found = role.get("replicas")
    return 1 if found is None else int(found)


def wanted_pod(training: Training, job: View, role: str, index: int) -> Object:
    spec = roles_of(training, job)[role]
    pod = pod_from_template(spec.get("template") or {}, job, training.resource)
    name = job["metadata"]["name"]
    pod["metadata"].pop("generateName")
    pod["metadata"]["name"] = f"{name}-{role.lower()}-{index}"
    pod["metadata"]["labels"] = {
        **(pod["metadata"].get("labels") or {}),
        _NAME: name,
        _TYPE: role.lower(),
        _INDEX: str(index),
        "training.kubeflow.org/operator-name": f"{training.kind.lower()}-controller",
        **({"training.kubeflow.org/job-role": "master"} if role in training.leaders else {}),
    }
    policy = spec.get("restartPolicy") or "Never"
    pod["spec"] = {**pod["spec"], "restartPolicy": "Never" if policy == "ExitCode" else policy}
    environment = _rendezvous(training, job, role, index)
    pod["spec"]["containers"] = [
        {**one, "env": [*(one.get("env") or ()), *environment]} for one in pod["spec"].get("containers") or ()
    ]
    return pod


def decide_status(training: Training, job: View, pods: Sequence[View], now: float) -> Object:
    """Only grows: a job that has ended stays as it ended."""
    status = dict(job.get("status") or {})
    roles = roles_of(training, job)
    counted = {role: _count([pod for pod in pods if labels_of(pod).get(_TYPE) == role.lower()]) for role in roles}
    status["replicaStatuses"] = counted
    book = _Conditions(training, job, now)
    book.put("Created", "Created", "is created.")
    suspended = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
    failed = [(role, one["failed"]) for role, one in counted.items() if one.get("failed")]
    if suspended:
        book.put("Suspended", "Suspended", "is suspended.")
        book.unset("Running", "Suspended", "is suspended.")
        status.pop("startTime", None)
    else:
        status.setdefault("startTime", rfc3339(now))
        book.unset("Suspended", "Resumed", "is resumed.")
        if failed:
            role, number = failed[0]
            book.put("Failed", "Failed", f"is failed because {number} {role} replica(s) failed.")
            book.unset("Running", "Failed", "is failed.")
        elif _has_succeeded(training, roles, counted):
            book.put("Succeeded", "Succeeded", "is successfully completed.")
            book.unset("Running", "Succeeded", "is successfully completed.")
        elif all(counted[role].get("active", 0) >= replicas_of(roles[role]) for role in roles):
            book.put("Running", "Running", "is running.")
    if book.ended:
        status.setdefault("completionTime", rfc3339(now))
    status["conditions"] = book.all()
    return status


def _is_anothers(job: View) -> bool:
    managed = (job["spec"].get("runPolicy") or {}).get("managedBy") or ""
    return bool(managed.startswith("kueue.x-k8s.io/"))


def has_ended(job: View) -> bool:
    return any((found := condition_of(job, kind)) and found["status"] == "True" for kind in ("Succeeded", "Failed"))


def _has_succeeded(training: Training, roles: Mapping[str, View], counted: Mapping[str, Object]) -> bool:
    leaders = [role for role in training.leaders if role in roles]
    deciding = leaders or [role for role in roles if role not in ("PS", "Evaluator")]
    return all(counted[role].get("succeeded", 0) >= max(replicas_of(roles[role]), 1) for role in deciding)


def _count(pods: Sequence[View]) -> Object:
    phases = [phase_of(pod) for pod in pods]
    found = {
        "active": sum(phase == "Running" for phase in phases),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }
    return {key: value for key, value in found.items() if value}


def _rendezvous(training: Training, job: View, role: str, index: int) -> list[Object]:
    roles = roles_of(training, job)
    leaders = [one for one in training.leaders if one in roles]
    first = leaders[0] if leaders else role
    before = sum(replicas_of(roles[one]) for one in leaders if one != role)
    values = {
        "MASTER_ADDR": f"{job['metadata']['name']}-{first.lower()}-0",
        "MASTER_PORT": str(_PORT),
        "WORLD_SIZE": str(sum(map(replicas_of, roles.values()))),
        "RANK": str(index if role in leaders else before + index),
        "PYTHONUNBUFFERED": "1",
    }
    return [{"name": key, "value": value} for key, value in values.items()]


class _Conditions:
    def __init__(self, training: Training, job: View, now: float) -> None:
        self._kind, self._name, self._now = training.kind, job["metadata"]["name"], rfc3339(now)
        self._found = {one["type"]: dict(one) for one in (job.get("status") or {}).get("conditions") or ()}

    @property
    def ended(self) -> bool:
        return any(self._found.get(kind, {}).get("status") == "True" for kind in ("Succeeded", "Failed"))

    def put(self, kind: str, reason: str, words: str, value: str = "True") -> None:
        if self._found.get(kind, {}).get("status") == value:
            return
        self._found.pop(kind, None)  # the last one in the list is what people see as the state
        self._found[kind] = {
            "type": kind,
            "status": value,
            "reason": f"{self._kind}{reason}",
            "message": f"{self._kind} {self._name} {words}",
            "lastUpdateTime": self._now,
            "lastTransitionTime": self._now,
        }

    def unset(self, kind: str, reason: str, words: str) -> None:
        """What held holds no longer; its place in the list stays."""
        if self._found.get(kind, {}).get("status") == "True":
            self._found[kind] |= {
                "status": "False",
                "reason": f"{self._kind}{reason}",
                "message": f"{self._kind} {self._name} {words}",
                "lastUpdateTime": self._now,
                "lastTransitionTime": self._now,
            }

    def all(self) -> list[Object]:
        return list(self._found.values())


class TrainingController(Controller):
    training: Training
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._jobs = self.follow(deps.informers.of(self.training.resource))
        self._pods = self.follow(deps.informers.of(PODS), owner_key(self.training.kind))
        self._services = deps.informers.of(SERVICES)

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self._jobs.get(*key)
        if job is None or not job.get("spec") or is_deleting(job) or has_ended(job) or _is_anothers(job):
            return None
        if (job["spec"].get("runPolicy") or {}).get("suspend"):
            pods = [pod for pod in self._pods.owned_by(uid_of(job)) if not is_deleting(pod)]
            await asyncio.gather(*map(self._delete, pods))
        else:
            await self._fill(job)
        pods = self._pods.owned_by(uid_of(job))
        status = decide_status(self.training, job, [pod for pod in pods if not is_deleting(pod)], self.clock.now())
        if await write_status(self.client, self.training.resource, job, status):
            self._tell(job, status)
        if has_ended({"status": status}):
            await self._clean(job, pods)
        return None

    async def _fill(self, job: Object) -> None:
        there = {pod["metadata"]["name"] for pod in self._pods.owned_by(uid_of(job))}
        for role, spec in roles_of(self.training, job).items():
            pods = [wanted_pod(self.training, job, role, index) for index in range(replicas_of(spec))]
            await asyncio.gather(*(self._make(job, pod) for pod in pods if pod["metadata"]["name"] not in there))

    async def _make(self, job: Object, pod: Object) -> None:
        namespace, name = job["metadata"]["namespace"], pod["metadata"]["name"]
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "ownerReferences": [controller_reference(job, self.training.resource)]},
            "spec": {
                "clusterIP": "None",
                "selector": {key: labels_of(pod)[key] for key in (_NAME, _TYPE, _INDEX)},
                "ports": [{"name": f"{self.training.kind.lower()}-port", "port": _PORT, "protocol": "TCP"}],
            },
        }
        try:
            await self.client.create(PODS, pod, namespace)
        except AlreadyExists:
            return
        message = f"Created pod: {name}"
        self.recorder.event(self.training.resource, job, NORMAL, "SuccessfulCreatePod", message)
        if self._services.get(namespace, name) is None:
            try:
                await self.client.create(SERVICES, service, namespace)
            except AlreadyExists:
                return

    async def _clean(self, job: Object, pods: Sequence[Object]) -> None:
        """What `cleanPodPolicy` says of the pods of a job that has ended; by default they stay."""
        policy = (job["spec"].get("runPolicy") or {}).get("cleanPodPolicy") or "None"
        if policy == "None":
            return
        gone = [pod for pod in pods if policy == "All" or phase_of(pod) in ("Running", "Pending")]
        await asyncio.gather(*(self._delete(pod) for pod in gone if not is_deleting(pod)))

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self.client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid_of(pod))
        except NotFound:
            return

    def _tell(self, job: Object, status: Object) -> None:
        for kind in ("Suspended", "Succeeded", "Failed"):
            before, now = condition_of(job, kind), condition_of({"status": status}, kind)
            if now is not None and now["status"] == "True" and (before is None or before["status"] != "True"):
                level = WARNING if kind == "Failed" else NORMAL
                self.recorder.event(self.training.resource, job, level, f"{self.training.kind}{kind}", now["message"])


def _controller(training: Training) -> type[TrainingController]:
    name = f"{training.kind.lower()}-controller"
    return type(
        f"{training.kind}Controller", (TrainingController,), {"training": training, "name": name, "component": name}
    )


TRAINING_CONTROLLERS: tuple[type[Controller], ...] = tuple(map(_controller, KINDS))
