"""Ray: clusters, and the jobs and services that bring a cluster of their own.

A head, worker groups, and the submitter.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required, too_many
from gpuaas.base.quantity import parse_quantity
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.integration import CannotCompose, Find, Finish
from gpuaas.kueue.integrations.jobs import annotations_of, is_elastic
from gpuaas.kueue.integrations.slices import gated, is_gated
from gpuaas.kueue.integrations.templated import Part, Templated, count_of

Object = dict[str, Any]
View = Mapping[str, Any]

CLUSTERS = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
RAY_JOBS = Resource("ray.io", "v1", "rayjobs", True, "RayJob")
RAY_SERVICES = Resource("ray.io", "v1", "rayservices", True, "RayService")
HEAD, SUBMITTER = "head", "submitter"
_SIZES, _GENERATION = "kueue.x-k8s.io/raycluster-podset-replica-sizes", "kueue.x-k8s.io/raycluster-generation"
_FAULT_TOLERANCE = "ray.io/ft-enabled"
_CLEANUP = {"cpu": "200m", "memory": "256Mi"}
_AUTOSCALER: Object = {"cpu": "500m", "memory": "512Mi"}
_SUBMITS: Object = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}


class RayCluster(Templated):
    framework = "ray.io/raycluster"
    resource = CLUSTERS
    webhook = "raycluster"
    elastic = True
    checks_only_held = True

    def parts(self, job: View, find: Find) -> list[Part]:
        return cluster_parts(job["spec"], "spec")

    def with_templates(self, job: View, templates: Sequence[Object]) -> Object:
        return {**job, "spec": cluster_with(job["spec"], templates)}

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        return with_cleanup(super().pod_sets(job, find), job["spec"], annotations_of(job))

    def is_active(self, job: View) -> bool:
        status = job.get("status") or {}
        return status.get("state") == "ready" or bool(status.get("availableWorkerReplicas"))

    def finished(self, job: View) -> Finish | None:
        return None  # a cluster serves until it is deleted

    def pods_ready(self, job: View) -> bool:
        return (job.get("status") or {}).get("state") == "ready"

    def default(self, job: Object) -> None:
        if is_elastic(job):
            templates = [gated(part.template) for part in cluster_parts(job["spec"], "spec")]
            job["spec"] = cluster_with(job["spec"], templates)

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        spec = job["spec"]
        found: list[FieldError] = []
        if is_elastic(job):
            found += _gate_errors(spec)
        elif spec.get("enableInTreeAutoscaling"):
            words = (
                "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the "
                f'ElasticJobsViaWorkloadSlices feature gate and set the "{keys.ELASTIC}": "true" annotation'
            )
            found.append(invalid("spec.enableInTreeAutoscaling", True, words))
        return [*found, *_group_errors(spec, "spec"), *super().create_errors(job, find)]


class _ClusterMaker(Templated):
    """What makes a Ray cluster of its own, whose autoscaler may change its size."""

    elastic = True
    needs = children = (CLUSTERS,)
    checks_only_held = True

    @abstractmethod
    def _cluster(self, job: View) -> View:
        """As it is asked for."""

    @abstractmethod
    def _status(self, job: View) -> View:
        """Where the cluster it has now is named."""

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        cluster = self._cluster(job)
        pod_sets = with_cleanup(super().pod_sets(job, find), cluster, annotations_of(job))
        running = self._running(job, find) if cluster.get("enableInTreeAutoscaling") and is_elastic(job) else None
        return pod_sets if running is None else _as_running(pod_sets, running)

    def slice_name_part(self, job: View) -> str:
        generation = annotations_of(job).get(_GENERATION)
        return super().slice_name_part(job) + (f"_{generation}" if generation else "")

    def slice_notes(self, job: View, pod_sets: Sequence[View], find: Find) -> dict[str, str]:
        running = self._running(job, find)
        sizes = [{"name": each["name"], "count": each["count"]} for each in pod_sets]
        generation = "" if running is None else str(running["metadata"].get("generation", 1))
        return {_SIZES: json.dumps(sizes, separators=(",", ":")), _GENERATION: generation}

    def _running(self, job: View, find: Find) -> Object | None:
        name = self._status(job).get("rayClusterName")
        return find(CLUSTERS, job["metadata"]["namespace"], name) if name else None


class RayService(_ClusterMaker):
    """Its cluster's spec is its own: suspended is the cluster. Upstream calls that spec by another name in its words."""

    framework = "ray.io/rayservice"
    resource = RAY_SERVICES
    webhook = "rayservice"
    _where = "spec.rayClusterSpec"

    def parts(self, job: View, find: Find) -> list[Part]:
        return cluster_parts(_config(job), self._where)

    def with_templates(self, job: View, templates: Sequence[Object]) -> Object:
        return _with_config(job, cluster_with(_config(job), templates))

    def is_suspended(self, job: View) -> bool:
        return bool(_config(job).get("suspend"))

    def suspended(self, job: View) -> Object:
        return _with_config(job, {**_config(job), "suspend": True})

    def unsuspended(self, job: View) -> Object:
        return _with_config(job, {**_config(job), "suspend": False})

    def _cluster(self, job: View) -> View:
        return _config(job)

    def _status(self, job: View) -> View:
        return (job.get("status") or {}).get("activeServiceStatus") or {}

    def is_active(self, job: View) -> bool:
        return self.pods_ready(job)

    def finished(self, job: View) -> Finish | None:
        return None  # it serves until it is deleted

    def pods_ready(self, job: View) -> bool:
        conditions = (job.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def default(self, job: Object) -> None:
        if is_elastic(job):
            templates = [gated(part.template) for part in cluster_parts(_config(job), self._where)]
            job.update(self.with_templates(job, templates))

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        return [*_cluster_errors(job, _config(job), self._where), *super().create_errors(job, find)]


class RayJob(_ClusterMaker):
    framework = "ray.io/rayjob"
    resource = RAY_JOBS
    webhook = "rayjob"

    def handles(self, job: View) -> bool:
        return not job["spec"].get("clusterSelector")

    def unsuspended(self, job: View) -> Object:
        """Where others say false, KubeRay's RayJob says nothing."""
        return {**job, "spec": {key: value for key, value in job["spec"].items() if key != "suspend"}}

    def parts(self, job: View, find: Find) -> list[Part]:
        spec = job["spec"]
        parts = cluster_parts(spec.get("rayClusterSpec") or {}, "spec.rayClusterSpec")
        match spec.get("submissionMode", "K8sJobMode"):
            case "K8sJobMode":
                parts.append(Part(SUBMITTER, 1, _submitter(spec), "spec.submitterPodTemplate.metadata"))
            case "SidecarMode" if parts:
                head = parts[0]
                sidecar = {"name": "ray-job-submitter", "resources": _SUBMITS}
                parts[0] = Part(HEAD, 1, head.template, head.path, added=(*head.added, sidecar))
        return parts

    def with_templates(self, job: View, templates: Sequence[Object]) -> Object:
        spec = dict(job["spec"])
        if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode":
            *templates, spec["submitterPodTemplate"] = templates
        return {**job, "spec": {**spec, "rayClusterSpec": cluster_with(spec["rayClusterSpec"], templates)}}

    def _cluster(self, job: View) -> View:
        return job["spec"].get("rayClusterSpec") or {}

    def _status(self, job: View) -> View:
        return job.get("status") or {}

    def is_active(self, job: View) -> bool:
        return (job.get("status") or {}).get("jobDeploymentStatus", "") not in ("", "Suspended")

    def on_hold(self, job: View) -> bool:
        return (job.get("status") or {}).get("jobDeploymentStatus") == "ValidationFailed"

    def finished(self, job: View) -> Finish | None:
        status = job.get("status") or {}
        if status.get("jobDeploymentStatus") not in ("Complete", "Failed"):
            return None
        return Finish(status.get("message", ""), status.get("jobStatus") == "SUCCEEDED")

    def pods_ready(self, job: View) -> bool:
        return ((job.get("status") or {}).get("rayClusterStatus") or {}).get("state") == "ready"

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        spec = job["spec"]
        cluster, selector = spec.get("rayClusterSpec"), spec.get("clusterSelector")
        if selector:
            words = "a kueue managed job should not use an existing cluster"
            return [invalid("spec.clusterSelector", selector, words)] if cluster else []
        if not cluster:
            words = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            return [required("spec.rayClusterSpec", words)]
        found: list[FieldError] = []
        if not spec.get("shutdownAfterJobFinishes"):
            words = "a kueue managed job should delete the cluster after finishing"
            found.append(invalid("spec.shutdownAfterJobFinishes", False, words))
        found += _cluster_errors(job, cluster, "spec.rayClusterSpec")
        return [*found, *super().create_errors(job, find)]


def _config(service: View) -> View:
    found: View = service["spec"].get("rayClusterConfig") or {}
    return found


def _with_config(service: View, config: View) -> Object:
    return {**service, "spec": {**service["spec"], "rayClusterConfig": config}}


def cluster_parts(spec: View, path: str) -> list[Part]:
    head = spec.get("headGroupSpec") or {}
    added: tuple[Object, ...] = ()
    if spec.get("enableInTreeAutoscaling"):
        asked = (spec.get("autoscalerOptions") or {}).get("resources")
        resources = {"requests": _AUTOSCALER, "limits": _AUTOSCALER} if asked is None else asked
        added = ({"name": "autoscaler", "resources": resources},)
    where = child(path, "headGroupSpec", "template", "metadata")
    parts = [Part(HEAD, 1, head.get("template") or {}, where, added=added)]
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        where = child(path, "workerGroupSpecs", index, "template", "metadata")
        parts.append(Part(group["groupName"].lower(), workers_of(group), group.get("template") or {}, where))
    return parts


def workers_of(group: View) -> int:
    """As many as the operator will make: within the group's bounds, so that a minimum above `replicas` counts."""
    wanted = max(count_of(group.get("replicas"), 1), count_of(group.get("minReplicas"), 0))
    if group.get("maxReplicas") is not None:
        wanted = min(wanted, int(group["maxReplicas"]))
    return wanted * max(1, count_of(group.get("numOfHosts"), 1))


def _as_running(pod_sets: list[Object], cluster: View) -> list[Object]:
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    known = {group["groupName"].lower(): workers_of(group) for group in groups if group.get("replicas") is not None}
    strange = set(known) - {each["name"] for each in pod_sets}
    if strange:
        words = f"has worker group {min(strange)} which is not found in Ray object spec"
        raise CannotCompose(f"PodSet name mismatch: RayCluster {cluster['metadata']['name']} {words}")
    return [{**each, "count": known.get(each["name"], each["count"])} for each in pod_sets]


def cluster_with(spec: View, templates: Sequence[Object]) -> Object:
    head, *groups = templates
    changed = {**spec, "headGroupSpec": {**spec["headGroupSpec"], "template": head}}
    if spec.get("workerGroupSpecs"):
        workers = zip(spec["workerGroupSpecs"], groups, strict=True)
        changed["workerGroupSpecs"] = [{**group, "template": template} for group, template in workers]
    return changed


def with_cleanup(pod_sets: list[Object], spec: View, annotations: Mapping[str, str]) -> list[Object]:
    """A cluster that survives its head's loss is cleaned up by a job at the end; its head is counted as large."""
    tolerant = annotations.get(_FAULT_TOLERANCE, "").lower() == "true" or spec.get("gcsFaultToleranceOptions")
    if not tolerant or not pod_sets:
        return pod_sets
    template = pod_sets[0]["template"]
    first, *others = (template.get("spec") or {}).get("containers") or [{}]
    resources = first.get("resources") or {}
    requests = dict(resources.get("requests") or {})
    for name, least in _CLEANUP.items():
        if name not in requests or parse_quantity(requests[name]).nano < parse_quantity(least).nano:
            requests[name] = least
    head = {**first, "resources": {**resources, "requests": requests}}
    changed = {**template, "spec": {**template["spec"], "containers": [head, *others]}}
    return [{**pod_sets[0], "template": changed}, *pod_sets[1:]]


def _submitter(spec: View) -> Object:
    if spec.get("submitterPodTemplate"):
        return dict(spec["submitterPodTemplate"])
    head = ((spec.get("rayClusterSpec") or {}).get("headGroupSpec") or {}).get("template") or {}
    containers = (head.get("spec") or {}).get("containers") or [{}]
    container = {"name": "ray-job-submitter", "image": containers[0].get("image", ""), "resources": _SUBMITS}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _cluster_errors(job: View, spec: View, path: str) -> list[FieldError]:
    """Of a cluster that a job or a service brings."""
    found: list[FieldError] = []
    if spec.get("enableInTreeAutoscaling") and not is_elastic(job):
        words = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        found.append(invalid(child(path, "enableInTreeAutoscaling"), True, words))
    return [*found, *_group_errors(spec, path)]


def _gate_errors(spec: View) -> list[FieldError]:
    words = "an elastic job must have the ElasticJobSchedulingGate"
    head, *workers = cluster_parts(spec, "spec")
    return [
        invalid(child(part.path.removesuffix(".metadata"), "spec", "schedulingGates"), None, words)
        for part in (*workers, head)
        if not is_gated(part.template)
    ]


def _group_errors(spec: View, path: str) -> list[FieldError]:
    where, groups = child(path, "workerGroupSpecs"), spec.get("workerGroupSpecs") or ()
    found: list[FieldError] = []
    if len(groups) + 1 > keys.MAX_POD_SETS:
        found.append(too_many(where, len(groups) + 1, keys.MAX_POD_SETS))
    for index, group in enumerate(groups):
        if group.get("groupName") == HEAD:
            found.append(forbidden(child(where, index, "groupName"), f'"{HEAD}" is reserved for the head group'))
    return found
