"""JobSet → Jobs that start, succeed, fail and start again as one.

A suspended set has no jobs: they are made when it runs, from its templates as they are then, and removed when it is
suspended. Too many failures (more than the failure policy allows) end it; until then all jobs are recreated.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import JOBS, SERVICES
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_reference, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import condition_of
from gpuaas.runtime.writes import write_status

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", True, "JobSet")
_OURS = "jobset.sigs.k8s.io/jobset-controller"
_SET, _PART = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
_ATTEMPT, _INDEX = "jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/job-index"
COMPLETED, FAILED, SUSPENDED = "Completed", "Failed", "Suspended"

View = Mapping[str, Any]


def parts_of(job_set: View) -> Sequence[View]:
    found: Sequence[View] = job_set["spec"].get("replicatedJobs") or ()
    return found


def restarts_of(job_set: View) -> int:
    return int((job_set.get("status") or {}).get("restarts") or 0)


def wanted_job(job_set: View, part: View, index: int) -> Object:
    metadata, template = job_set["metadata"], part["template"]
    name = f"{metadata['name']}-{part['name']}-{index}"
    replicas = part.get("replicas", 1)
    marks = {
        _SET: metadata["name"],
        _PART: part["name"],
        "jobset.sigs.k8s.io/replicatedjob-replicas": str(replicas),
        _INDEX: str(index),
        _ATTEMPT: str(restarts_of(job_set)),
    }
    pod = template["spec"]["template"]
    meta = {**(pod.get("metadata") or {})}
    for kind in ("labels", "annotations"):
        meta[kind] = {**(meta.get(kind) or {}), **marks}
    spec = {
        "completionMode": "Indexed",
        **template["spec"],
        "template": {**pod, "metadata": meta, "spec": _pod_spec(job_set, pod)},
        "suspend": False,
    }
    given = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**(given.get("labels") or {}), **marks},
            "annotations": {**(given.get("annotations") or {}), **marks},
            "ownerReferences": [controller_reference(job_set, JOB_SETS)],
        },
        "spec": spec,
    }


def decide_parts(job_set: View, jobs: Sequence[View]) -> list[Object]:
    """The counts of each replicated job, of this attempt's jobs."""
    found = []
    for part in parts_of(job_set):
        own = [job for job in jobs if labels_of(job).get(_PART) == part["name"]]
        ready = sum(_is_ready(job) for job in own if not _ended(job))
        found.append(
            {
                "name": part["name"],
                "ready": ready,
                "succeeded": sum(_ended(job) == "Complete" for job in own),
                "failed": sum(_ended(job) == "Failed" for job in own),
                "active": sum(bool((job.get("status") or {}).get("active")) for job in own if not _ended(job)),
                "suspended": part.get("replicas", 1) if job_set["spec"].get("suspend") else 0,
            }
        )
    return found


def is_complete(job_set: View, parts: Sequence[View]) -> bool:
    policy = job_set["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [part["name"] for part in parts_of(job_set)]
    sizes = {part["name"]: part.get("replicas", 1) for part in parts_of(job_set)}
    chosen = [one for one in parts if one["name"] in targets]
    if policy.get("operator") == "Any":
        return any(one["succeeded"] for one in chosen)
    return all(one["succeeded"] >= sizes[one["name"]] for one in chosen)


def may_start(job_set: View, part: View, parts: Sequence[View]) -> bool:
    """Whether those it depends on, or that come before it, are there."""
    by_name = {one["name"]: one for one in parts}
    sizes = {one["name"]: one.get("replicas", 1) for one in parts_of(job_set)}
    if (job_set["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder":
        names = [one["name"] for one in parts_of(job_set)]
        needs = [{"name": name, "status": "Ready"} for name in names[: names.index(part["name"])]]
    else:
        needs = part.get("dependsOn") or []
    for need in needs:
        one = by_name[need["name"]]
        done = one["succeeded"] + (one["ready"] if need["status"] == "Ready" else 0)
        if done < sizes[need["name"]]:
            return False
    return True


def _pod_spec(job_set: View, pod: View) -> Object:
    network = job_set["spec"].get("network") or {}
    spec = {"restartPolicy": "OnFailure", **(pod.get("spec") or {})}
    if network.get("enableDNSHostnames", True):
        spec.setdefault("subdomain", network.get("subdomain") or job_set["metadata"]["name"])
    return spec


def _is_ready(job: View) -> bool:
    spec, status = job["spec"], job.get("status") or {}
    wanted = min(spec.get("parallelism") or 1, spec.get("completions") or spec.get("parallelism") or 1)
    return (status.get("ready") or 0) + (status.get("succeeded") or 0) >= wanted


def _ended(job: View) -> str:
    for kind in ("Complete", "Failed"):
        found = condition_of(job, kind)
        if found is not None and found["status"] == "True":
            return kind
    return ""


class JobSetController(Controller):
    name = "jobset-controller"
    component = "jobset"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._sets = self.follow(deps.informers.of(JOB_SETS))
        self._jobs = self.follow(deps.informers.of(JOBS), owner_key("JobSet"))

    async def reconcile(self, key: Key) -> Requeue | None:
        job_set = self._sets.get(*key)
        if (
            job_set is None
            or not job_set.get("spec")
            or is_deleting(job_set)
            or (job_set["spec"].get("managedBy") or _OURS) != _OURS
        ):
            return None
        owned = self._jobs.owned_by(uid_of(job_set))
        attempt = str(restarts_of(job_set))
        current = [job for job in owned if labels_of(job).get(_ATTEMPT) == attempt]
        await self._remove([job for job in owned if labels_of(job).get(_ATTEMPT) != attempt])
        parts = decide_parts(job_set, current)
        status: Object = {**(job_set.get("status") or {}), "replicatedJobsStatus": parts}
        if (job_set.get("status") or {}).get("terminalState"):
            return None
        if any(one["failed"] for one in parts):
            self._fail_or_restart(job_set, status)
        elif current and is_complete(job_set, parts):
            status["terminalState"] = COMPLETED
            self._set(job_set, status, COMPLETED, "True", "AllJobsCompleted", "jobset completed successfully")
        elif job_set["spec"].get("suspend"):
            await self._remove(current)
            self._set(job_set, status, SUSPENDED, "True", "SuspendedJobs", "jobset is suspended")
        else:
            await self._run(job_set, current, parts)
            if condition_of(job_set, SUSPENDED) is not None:
                self._set(job_set, status, SUSPENDED, "False", "ResumeJobs", "jobset is resumed")
        await write_status(self.client, JOB_SETS, job_set, status)
        if status.get("terminalState"):
            await self._remove([job for job in current if not _ended(job)])
        return None

    def _fail_or_restart(self, job_set: Object, status: Object) -> None:
        most = (job_set["spec"].get("failurePolicy") or {}).get("maxRestarts") or 0
        if restarts_of(job_set) < most:
            status["restarts"] = restarts_of(job_set) + 1
            status["restartsCountTowardsMax"] = status["restarts"]
            message = f"restarting jobset, attempt {status['restarts']}"
            self.recorder.event(JOB_SETS, job_set, WARNING, "Restarting", message)
            return
        reason, message = "FailedJobs", "jobset failed due to one or more job failures"
        if most:
            reason, message = "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts"
        status["terminalState"] = FAILED
        self._set(job_set, status, FAILED, "True", reason, message)

    async def _run(self, job_set: Object, current: Sequence[Object], parts: Sequence[Object]) -> None:
        await self._make_service(job_set)
        there = {job["metadata"]["name"] for job in current}
        wanted = [
            wanted_job(job_set, part, index)
            for part in parts_of(job_set)
            if may_start(job_set, part, parts)
            for index in range(part.get("replicas", 1))
        ]
        await asyncio.gather(*(self._create(job) for job in wanted if job["metadata"]["name"] not in there))

    async def _create(self, job: Object) -> None:
        try:
            await self.client.create(JOBS, job, job["metadata"]["namespace"])
        except AlreadyExists:
            return  # that of an earlier attempt has not gone yet; its going brings us here again

    async def _remove(self, jobs: Sequence[Object]) -> None:
        async def remove(job: Object) -> None:
            metadata = job["metadata"]
            try:
                await self.client.delete(
                    JOBS, metadata["name"], metadata["namespace"], uid=uid_of(job), propagation=Propagation.BACKGROUND
                )
            except NotFound:
                return

        await asyncio.gather(*(remove(job) for job in jobs if not is_deleting(job)))

    async def _make_service(self, job_set: Object) -> None:
        network, metadata = job_set["spec"].get("network") or {}, job_set["metadata"]
        name = network.get("subdomain") or metadata["name"]
        if not network.get("enableDNSHostnames", True):
            return
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "ownerReferences": [controller_reference(job_set, JOB_SETS)]},
            "spec": {"clusterIP": "None", "selector": {_SET: metadata["name"]}},
        }
        known = self.informers.of(SERVICES).get(metadata["namespace"], name)
        if known is None:
            try:
                await self.client.create(SERVICES, service, metadata["namespace"])
            except AlreadyExists:
                return

    def _set(self, job_set: Object, status: Object, kind: str, value: str, reason: str, message: str) -> None:
        before = condition_of(job_set, kind)
        if before is not None and before["status"] == value:
            return
        condition = {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        others = [one for one in status.get("conditions") or () if one["type"] != kind]
        status["conditions"] = [*others, condition]
        self.recorder.event(JOB_SETS, job_set, WARNING if kind == FAILED else NORMAL, reason, message)
