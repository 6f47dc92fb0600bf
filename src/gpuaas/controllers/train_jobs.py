"""TrainJob → the JobSet that its runtime describes, with the job's own wishes and what was patched into it.

A suspended one has no job set; the next run creates it with what is patched then. The status repeats the job set's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.train_job import CLUSTER_RUNTIMES, MANAGER, RUNTIMES, TRAIN_JOBS, foreseen
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, annotations_of, controller_reference, is_deleting, key_of, uid_of
from gpuaas.runtime.pods import condition_of
from gpuaas.runtime.writes import write_status

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", True, "JobSet")
_OURS = "trainer.kubeflow.org/trainjob-controller"
_ENDS = {"Completed": "Complete", "Failed": "Failed"}

View = Mapping[str, Any]


def wanted_set(job: View, replicated: Sequence[Object], runtime: View | None) -> Object:
    metadata = job["metadata"]
    template = (((runtime or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    kept = {
        key: template[key] for key in ("network", "successPolicy", "failurePolicy", "startupPolicy") if key in template
    }
    wishes = {key: value for key, value in annotations_of(job).items() if key.startswith("gpuaas.dev/")}
    made: Object = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "ownerReferences": [controller_reference(job, TRAIN_JOBS)],
    }
    if wishes:
        made["annotations"] = wishes
    jobs = [_patched(one, job) for one in replicated]
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": made,
        "spec": {**kept, "replicatedJobs": jobs, "suspend": False},
    }


def decide_status(job: View, job_set: View | None, now: float) -> Object:
    status = dict(job.get("status") or {})
    found = {one["type"]: dict(one) for one in status.get("conditions") or ()}
    suspended = bool(job["spec"].get("suspend"))

    def put(kind: str, value: str, reason: str, message: str) -> None:
        if found.get(kind, {}).get("status") != value:
            found[kind] = {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastTransitionTime": rfc3339(now),
            }

    if suspended:
        put("Suspended", "True", "Suspended", "TrainJob is suspended")
    elif "Suspended" in found:
        put("Suspended", "False", "Resumed", "TrainJob is resumed")
    for theirs, ours in _ENDS.items():
        ended = condition_of(job_set, theirs) if job_set is not None else None
        if ended is not None and ended["status"] == "True":
            put(ours, "True", ended["reason"], ended["message"])
    parts = ((job_set or {}).get("status") or {}).get("replicatedJobsStatus") or []
    names = ("name", "ready", "succeeded", "failed", "active", "suspended")
    status["jobsStatus"] = [{name: one.get(name, 0) for name in names} for one in parts]
    status["conditions"] = list(found.values())
    return {key: value for key, value in status.items() if value}


def _patched(replicated: Object, job: View) -> Object:
    """With what Kueue adds when it starts the job; what others patch is in already."""
    for patch in job["spec"].get("runtimePatches") or ():
        template = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for one in template.get("replicatedJobs") or ():
            if patch.get("manager") == MANAGER and one.get("name") == replicated["name"].lower():
                added = ((one.get("template") or {}).get("spec") or {}).get("template") or {}
                replicated = _overlaid(replicated, added)
    return replicated


def _overlaid(replicated: Object, added: View) -> Object:
    job = replicated["template"]
    pod = job["spec"]["template"]
    meta, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    for kind in ("labels", "annotations"):
        if (added.get("metadata") or {}).get(kind):
            meta[kind] = {**(meta.get(kind) or {}), **added["metadata"][kind]}
    wished = added.get("spec") or {}
    if wished.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **wished["nodeSelector"]}
    for kind in ("tolerations", "schedulingGates"):
        if wished.get(kind):
            spec[kind] = [*(spec.get(kind) or ()), *wished[kind]]
    return {**replicated, "template": {**job, "spec": {**job["spec"], "template": {"metadata": meta, "spec": spec}}}}


class TrainJobController(Controller):
    name = "trainjob-controller"
    component = "trainjob_controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._jobs = self.follow(deps.informers.of(TRAIN_JOBS))
        self._sets = self.follow(deps.informers.of(JOB_SETS), owner_key("TrainJob"))
        self._runtimes = {
            one: self.follow(deps.informers.of(one), lambda _: map(key_of, self._jobs.all()))
            for one in (RUNTIMES, CLUSTER_RUNTIMES)
        }

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self._jobs.get(*key)
        if job is None or not job.get("spec") or is_deleting(job) or (job["spec"].get("managedBy") or _OURS) != _OURS:
            return None
        job_set = self._sets.get(*key)
        if job_set is not None and uid_of(job) not in [one["uid"] for one in job_set["metadata"]["ownerReferences"]]:
            return None
        ended = any((found := condition_of(job, one)) and found["status"] == "True" for one in _ENDS.values())
        if job["spec"].get("suspend"):
            if job_set is not None and not is_deleting(job_set):
                await self._remove(job_set)
        elif job_set is None and not ended:
            await self._make(job)
        await write_status(self.client, TRAIN_JOBS, job, decide_status(job, self._sets.get(*key), self.clock.now()))
        return None

    async def _make(self, job: Object) -> None:
        try:
            replicated = foreseen(job, self._find)
        except CannotCompose as why:
            self.recorder.event(TRAIN_JOBS, job, WARNING, "TrainJobResourcesCreationFailed", str(why))
            return
        ref = job["spec"]["runtimeRef"]
        clusterwide = ref.get("kind", CLUSTER_RUNTIMES.kind) == CLUSTER_RUNTIMES.kind
        runtime = self._find(CLUSTER_RUNTIMES if clusterwide else RUNTIMES, job["metadata"]["namespace"], ref["name"])
        try:
            await self.client.create(JOB_SETS, wanted_set(job, replicated, runtime), job["metadata"]["namespace"])
        except AlreadyExists:
            return

    def _find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._runtimes[resource].get(namespace if resource.namespaced else "", name)

    async def _remove(self, job_set: Object) -> None:
        key = key_of(job_set)
        try:
            await self.client.delete(
                JOB_SETS, key.name, key.namespace, uid=uid_of(job_set), propagation=Propagation.BACKGROUND
            )
        except NotFound:
            return
