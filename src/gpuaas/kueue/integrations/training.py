"""The training operator's jobs: PyTorchJob and its siblings, which differ in the names of their roles only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.fielderrors import child, keyed
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.integration import Find, Finish
from gpuaas.kueue.integrations.templated import Part, Templated, count_of, finish_by

Object = dict[str, Any]
View = Mapping[str, Any]

REPLICA_INDEX = "training.kubeflow.org/replica-index"


class TrainingKind(Templated):
    def __init__(self, kind: str, field: str, roles: Sequence[str], version: str = "v1") -> None:
        plural = f"{kind.lower()}s"
        self.resource = Resource("kubeflow.org", version, plural, True, kind)
        self.framework = f"kubeflow.org/{kind.lower()}"
        self.webhook = kind.lower()
        self.prebuilt = kind != "JAXJob"
        self.defaults_all = kind == "MPIJob"
        self._field = field
        self._roles = roles

    def parts(self, job: View, find: Find) -> list[Part]:
        specs = job["spec"].get(self._field) or {}
        where = child("spec", self._field)
        return [
            Part(
                role.lower(),
                count_of(specs[role].get("replicas"), 1),
                specs[role].get("template") or {},
                child(keyed(where, role), "template", "metadata"),
                REPLICA_INDEX,
            )
            for role in self._present(job)
        ]

    def with_templates(self, job: View, templates: Sequence[Object]) -> Object:
        specs = dict(job["spec"].get(self._field) or {})
        for role, template in zip(self._present(job), templates, strict=True):
            specs[role] = {**specs[role], "template": template}
        return {**job, "spec": {**job["spec"], self._field: specs}}

    def is_suspended(self, job: View) -> bool:
        return bool((job["spec"].get("runPolicy") or {}).get("suspend"))

    def suspended(self, job: View) -> Object:
        return _with_suspend(job, True)

    def unsuspended(self, job: View) -> Object:
        return _with_suspend(job, False)

    def is_active(self, job: View) -> bool:
        return any(each.get("active") for each in ((job.get("status") or {}).get("replicaStatuses") or {}).values())

    def finished(self, job: View) -> Finish | None:
        return finish_by(job, "Succeeded", "Failed")

    def pods_ready(self, job: View) -> bool:
        conditions = (job.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Running" and each["status"] == "True" for each in conditions)

    def priority_class(self, job: View) -> str | None:
        policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
        return policy.get("priorityClass") or None

    def default(self, job: Object) -> None:
        """Where the launcher works too, the workers come after it."""
        specs = job["spec"].get(self._field) or {}
        launcher, worker = specs.get("Launcher"), specs.get("Worker")
        if not job["spec"].get("runLauncherAsWorker") or not launcher or not worker:
            return
        if keys.POD_SET_GROUP in (_metadata(launcher).get("annotations") or {}):
            return  # placed together, and counted together
        metadata = _metadata(worker)
        notes = {**(metadata.get("annotations") or {}), keys.INDEX_OFFSET: "1"}
        template = {**(worker.get("template") or {}), "metadata": {**metadata, "annotations": notes}}
        specs = {**specs, "Worker": {**worker, "template": template}}
        job["spec"] = {**job["spec"], self._field: specs}

    def _present(self, job: View) -> list[str]:
        specs = job["spec"].get(self._field) or {}
        return [role for role in self._roles if specs.get(role) is not None]


def _metadata(role: View) -> View:
    found: View = (role.get("template") or {}).get("metadata") or {}
    return found


def _with_suspend(job: View, value: bool) -> Object:
    policy = {**(job["spec"].get("runPolicy") or {}), "suspend": value}
    return {**job, "spec": {**job["spec"], "runPolicy": policy}}


TRAINING_KINDS = (
    TrainingKind("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
    TrainingKind("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    TrainingKind("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    TrainingKind("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    TrainingKind("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    TrainingKind("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), "v2beta1"),
)
