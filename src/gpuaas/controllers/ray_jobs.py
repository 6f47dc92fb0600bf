"""RayJob → a RayCluster of its own and, once that is ready, a Job that submits the entry point and waits for it.

Only the default way of submitting (K8sJobMode) is run. A suspended job has neither; each start has a cluster of
another name, so that what is left of the last one cannot be taken for it. One that failed is started again as often as
its `backoffLimit` says.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import JOBS
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, controller_reference, is_deleting, uid_of
from gpuaas.runtime.pods import condition_of
from gpuaas.runtime.values import template_hash
from gpuaas.runtime.writes import write_status

RAY_JOBS = Resource("ray.io", "v1", "rayjobs", True, "RayJob")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
_OURS = "ray.io/kuberay-operator"
ENDED = ("Complete", "Failed")
_DEADLINES = (
    ("activeDeadlineSeconds", "DeadlineExceeded"),
    ("preRunningDeadlineSeconds", "PreRunningDeadlineExceeded"),  # until it runs
)
_PASSED_ON = ("gpuaas.dev/start-seconds", "kueue.x-k8s.io/elastic-job")

View = Mapping[str, Any]


def wanted_cluster(job: View, name: str) -> Object:
    wishes = {key: value for key, value in annotations_of(job).items() if key in _PASSED_ON}
    made: Object = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": {"ray.io/originated-from-cr-name": job["metadata"]["name"], "ray.io/originated-from-crd": "RayJob"},
        "ownerReferences": [controller_reference(job, RAY_JOBS)],
    }
    if wishes:
        made["annotations"] = wishes
    spec = {**job["spec"]["rayClusterSpec"], "suspend": False}
    return {"apiVersion": RAY_CLUSTERS.api_version, "kind": "RayCluster", "metadata": made, "spec": spec}


def wanted_submitter(job: View, cluster: str, job_id: str) -> Object:
    metadata, spec = job["metadata"], job["spec"]
    address = f"http://{cluster}-head-svc.{metadata['namespace']}.svc.cluster.local:8265"
    template = spec.get("submitterPodTemplate") or _submitter(spec)
    first, *others = template["spec"]["containers"]
    if not first.get("command"):
        submit = f"ray job submit --address {address} --submission-id {job_id} -- {spec.get('entrypoint', '')}"
        first = {**first, "command": ["/bin/bash", "-ce"], "args": [submit]}
    pod = {**template, "spec": {"restartPolicy": "Never", **template["spec"], "containers": [first, *others]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayJob"},
            "ownerReferences": [controller_reference(job, RAY_JOBS)],
        },
        "spec": {"backoffLimit": (spec.get("submitterConfig") or {}).get("backoffLimit", 2), "template": pod},
    }


def _submitter(spec: View) -> Object:
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    container = {"name": "ray-job-submitter", "image": head.get("image", ""), "resources": resources}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _counted(job: View, status: Object) -> Object:
    """An end counts; a failure is not yet the end while tries are left, unless its time is over."""
    match status.get("jobDeploymentStatus"):
        case "Complete":
            return {**status, "succeeded": status.get("succeeded", 0) + 1}
        case "Failed":
            failed = status.get("failed", 0) + 1
            again = failed <= job["spec"].get("backoffLimit", 0) and status.get("reason") != "DeadlineExceeded"
            return {**status, "failed": failed, "jobDeploymentStatus": "Retrying" if again else "Failed"}
        case _:
            return status


class RayJobController(Controller):
    name = "rayjob-controller"
    component = "rayjob-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._jobs = self.follow(deps.informers.of(RAY_JOBS))
        self._clusters = self.follow(deps.informers.of(RAY_CLUSTERS), owner_key("RayJob"))
        self._submitters = self.follow(deps.informers.of(JOBS), owner_key("RayJob"))

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self._jobs.get(*key)
        if job is None or not job.get("spec") or is_deleting(job) or (job["spec"].get("managedBy") or _OURS) != _OURS:
            return None
        status = dict(job.get("status") or {})
        if status.get("jobDeploymentStatus") in ENDED:
            return await self._tidy(job, status)
        if job["spec"].get("suspend"):
            status = await self._suspend(job, status)
        elif job["spec"].get("submissionMode", "K8sJobMode") != "K8sJobMode" or not job["spec"].get("rayClusterSpec"):
            status = self._refuse(job, status)
        elif status.get("jobDeploymentStatus") == "Retrying":
            status = await self._retry(job, status)
        elif (missed := self._missed(job, status)) is not None:
            status = _counted(job, status | missed)
        else:
            status = _counted(job, await self._go_on(job, status))
        status["observedGeneration"] = job["metadata"].get("generation", 1)
        await write_status(self.client, RAY_JOBS, job, status)
        if status.get("jobDeploymentStatus") in ENDED:
            return Requeue(0.0)
        left = [seconds for _, _, seconds in self._deadlines(job, status)]
        return Requeue(max(0.0, min(left))) if left else None

    def _deadlines(self, job: Object, status: Object) -> list[tuple[str, str, float]]:
        """The limits that count now: field, reason, and how many seconds are left."""
        if not status.get("startTime") or job["spec"].get("suspend"):
            return []
        counted = _DEADLINES[:1] if status.get("jobDeploymentStatus") == "Running" else _DEADLINES
        passed = self.clock.now() - parse_rfc3339(status["startTime"])
        return [(name, why, job["spec"][name] - passed) for name, why in counted if job["spec"].get(name) is not None]

    def _missed(self, job: Object, status: Object) -> Object | None:
        for name, reason, left in self._deadlines(job, status):
            if left > 0:
                continue
            began = datetime.fromtimestamp(parse_rfc3339(status["startTime"]), UTC).strftime(
                "%Y-%m-%d %H:%M:%S +0000 UTC"
            )
            field = name[0].upper() + name[1:]
            words = f"The RayJob has passed the {name}. StartTime: {began}. {field}: {job['spec'][name]}"
            ended = {"jobDeploymentStatus": "Failed", "reason": reason, "message": words}
            return {**ended, "endTime": rfc3339(self.clock.now())}
        return None

    def _refuse(self, job: Object, status: Object) -> Object:
        mode = job["spec"].get("submissionMode")
        why = f"spec.submissionMode {mode} with a cluster of its own is not run here; K8sJobMode with rayClusterSpec is"
        if status.get("jobDeploymentStatus") != "ValidationFailed":
            self.recorder.event(RAY_JOBS, job, WARNING, "InvalidRayJobSpec", why)
        return {**status, "jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed", "message": why}

    async def _suspend(self, job: Object, status: Object) -> Object:
        gone = await self._remove_all(job)
        state = "Suspended" if gone else "Suspending" if status.get("rayClusterName") else "Suspended"
        kept = {key: value for key, value in status.items() if key in ("failed", "succeeded")}
        if state == "Suspending":
            return {**status, "jobDeploymentStatus": state}
        return {**kept, "jobDeploymentStatus": state}

    async def _retry(self, job: Object, status: Object) -> Object:
        if not await self._remove_all(job):
            return status
        return {key: value for key, value in status.items() if key in ("failed", "succeeded")}

    async def _go_on(self, job: Object, status: Object) -> Object:
        metadata, now = job["metadata"], rfc3339(self.clock.now())
        if not status.get("rayClusterName"):
            suffix = template_hash({"uid": uid_of(job), "revision": metadata.get("resourceVersion", "")})[:5]
            status |= {
                "rayClusterName": f"{metadata['name'][:40]}-{suffix}",
                "jobId": f"{metadata['name']}-{suffix}",
                "jobDeploymentStatus": "Initializing",
                "jobStatus": "",
                "startTime": now,
            }
            return status  # the name is written down before anything bears it
        name = status["rayClusterName"]
        cluster = self._clusters.get(metadata["namespace"], name)
        if cluster is None:
            await self._create(job, RAY_CLUSTERS, wanted_cluster(job, name), "RayCluster")
            return status
        found = dict(cluster.get("status") or {})
        status["rayClusterStatus"] = {
            key: found[key] for key in ("state", "head", "desiredWorkerReplicas") if key in found
        }
        submitter = self._submitters.get(metadata["namespace"], metadata["name"])
        if submitter is None:
            if found.get("state") == "ready":
                await self._create(job, JOBS, wanted_submitter(job, name, status["jobId"]), "RayJobSubmitter")
                status |= {"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}
            return status
        return self._judge(submitter, status, now)

    def _judge(self, submitter: Object, status: Object, now: str) -> Object:
        for kind, deployment, job_status in (("Complete", "Complete", "SUCCEEDED"), ("Failed", "Failed", "FAILED")):
            ended = condition_of(submitter, kind)
            if ended is None or ended["status"] != "True":
                continue
            status |= {"jobDeploymentStatus": deployment, "jobStatus": job_status, "endTime": now}
            status["message"] = "Job finished successfully." if kind == "Complete" else ended.get("message", "")
            if kind == "Failed":
                status["reason"] = "AppFailed"
            return status
        running = (submitter.get("status") or {}).get("ready")
        return {**status, "jobDeploymentStatus": "Running", "jobStatus": "RUNNING" if running else "PENDING"}

    async def _tidy(self, job: Object, status: Object) -> Requeue | None:
        """`shutdownAfterJobFinishes` deletes the cluster of a job that has ended."""
        if status.get("reason") in dict(_DEADLINES).values():
            for submitter in self._submitters.owned_by(uid_of(job)):
                await self._remove(JOBS, submitter)  # its output is not needed
        if not job["spec"].get("shutdownAfterJobFinishes"):
            return None
        ended = parse_rfc3339(status["endTime"]) if status.get("endTime") else self.clock.now()
        left = ended + (job["spec"].get("ttlSecondsAfterFinished") or 0) - self.clock.now()
        if left > 0:
            return Requeue(left)
        for cluster in self._clusters.owned_by(uid_of(job)):
            await self._remove(RAY_CLUSTERS, cluster)
        return None

    async def _remove_all(self, job: Object) -> bool:
        """Whether there was nothing left to remove."""
        clusters = self._clusters.owned_by(uid_of(job))
        submitters = self._submitters.owned_by(uid_of(job))
        for submitter in submitters:
            await self._remove(JOBS, submitter)
        for cluster in clusters:
            await self._remove(RAY_CLUSTERS, cluster)
        return not clusters and not submitters

    async def _remove(self, resource: Resource, obj: Object) -> None:
        if is_deleting(obj):
            return
        metadata = obj["metadata"]
        try:
            await self.client.delete(
                resource, metadata["name"], metadata["namespace"], uid=uid_of(obj), propagation=Propagation.FOREGROUND
            )
        except NotFound:
            return

    async def _create(self, job: Object, resource: Resource, obj: Object, word: str) -> None:
        try:
            await self.client.create(resource, obj, obj["metadata"]["namespace"])
        except AlreadyExists:
            return
        name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        self.recorder.event(RAY_JOBS, job, NORMAL, f"Created{word}", f"Created {resource.kind} {name}")
