"""AppWrappers: any objects, held and started as one. Where their pods are, they say themselves (`podSets`), or it is known.

What admission adds to the pods is written beside each component (`podSetInfos`); the wrapper's own controller puts it
into what it makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import topology
from gpuaas.kueue.integrations.integration import CannotCompose, Find, Finish, Suspendable
from gpuaas.kueue.integrations.podsets import Info, expect

Object = dict[str, Any]
View = Mapping[str, Any]

APP_WRAPPERS = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", True, "AppWrapper")
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_POD = "template.spec.template"
_NOTES = "workload.codeflare.dev.appwrapper/"
_INDEX, _GROUP, _GROUPS = (
    f"{_NOTES}tas-pod-index-label",
    f"{_NOTES}tas-sub-group-index-label",
    f"{_NOTES}tas-sub-group-count",
)
_COMPLETION_INDEX, _JOB_INDEX = "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-index"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_OF_CONTAINERS = (
    "name", "image", "command", "args", "resources", "terminationMessagePath", "terminationMessagePolicy",
    "imagePullPolicy", "securityContext",
)  # fmt: skip
_CONTAINER_DEFAULTS = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_KEPT = (
    "restartPolicy", "dnsPolicy", "nodeSelector", "nodeName", "securityContext", "affinity", "schedulerName",
    "tolerations", "priorityClassName", "preemptionPolicy", "overhead", "topologySpreadConstraints",
)  # fmt: skip
_POD_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}


class AppWrapper(Suspendable):
    framework = "workload.codeflare.dev/appwrapper"
    resource = APP_WRAPPERS
    webhook = "appwrapper"

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        found: list[Object] = []
        for component, part in _parts(job):
            template = value_at(component["template"], part["path"])
            if not isinstance(template, Mapping) or not template.get("spec"):
                raise CannotCompose(f"{part['path']} does not refer to a v1.PodSpecTemplate")
            metadata = {key: (template.get("metadata") or {}).get(key) for key in ("labels", "annotations")}
            kept = {key: value for key, value in metadata.items() if value}
            made: Object = {
                "name": f"{job['metadata']['name']}-{len(found)}".lower(),
                "count": int(part.get("replicas", 1)),
                "template": {"metadata": kept, "spec": _counted(template["spec"])},
            }
            asked = _topology(kept, part.get("annotations") or {})
            if asked is not None:
                made["topologyRequest"] = asked
            found.append(made)
        return found

    def is_active(self, job: View) -> bool:
        return _holds(job, "QuotaReserved")

    def started(self, job: View, infos: Sequence[Info]) -> Object:
        parts = list(_parts(job))
        expect(infos, len(parts))
        left = iter(infos)
        components = [
            {**component, "podSetInfos": [_told(next(left)) for _ in pod_sets_of(component)]}
            for component in job["spec"].get("components") or ()
        ]
        return {**job, "spec": {**job["spec"], "components": components, "suspend": False}}

    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        components = [
            {key: value for key, value in component.items() if key != "podSetInfos"}
            for component in job["spec"].get("components") or ()
        ]
        return {**job, "spec": {**job["spec"], "components": components}}

    def finished(self, job: View) -> Finish | None:
        match (job.get("status") or {}).get("phase"):
            case "Succeeded":
                return Finish("AppWrapper finished successfully", True)
            case "Failed" if not _holds(job, "ResourcesDeployed"):
                return Finish("AppWrapper failed", False)
        return None

    def pods_ready(self, job: View) -> bool:
        return _holds(job, "PodsReady")


def _counted(spec: View) -> Object:
    """Of a pod what matters to a workload, filled in as the server would fill in the pod."""
    made: Object = {key: _container_list(spec[key]) for key in ("initContainers", "containers") if spec.get(key)}
    made |= {key: spec[key] for key in _KEPT if spec.get(key)}
    return {**_POD_DEFAULTS, **made}


def _container_list(containers: Sequence[View]) -> list[Object]:
    found = []
    for container in containers:
        image = str(container.get("image", ""))
        pull = "IfNotPresent" if "@" in image or _tag(image) not in ("", "latest") else "Always"
        kept = {key: container[key] for key in _OF_CONTAINERS if container.get(key)}
        found.append({**_CONTAINER_DEFAULTS, "imagePullPolicy": pull, **kept})
    return found


def _tag(image: str) -> str:
    return image.rsplit("/", 1)[-1].partition(":")[2]


def pod_sets_of(component: View) -> list[Object]:
    """`path`, `replicas` and `annotations` of each: as declared, else as they are known to be in such objects."""
    return [dict(each) for each in component.get("podSets") or ()] or inferred(component["template"])


def inferred(template: View) -> list[Object]:
    match f"{template.get('apiVersion')}/{template.get('kind')}":
        case "v1/Pod":
            return [{"path": "template", "replicas": 1}]
        case "apps/v1/Deployment" | "apps/v1/StatefulSet":
            return [{"path": _POD, "replicas": _number(template, "template.spec.replicas")}]
        case "batch/v1/Job":
            return [
                {
                    "path": _POD,
                    "replicas": _pods_of_job(template, "template"),
                    "annotations": {_INDEX: _COMPLETION_INDEX},
                }
            ]
        case "jobset.x-k8s.io/v1alpha2/JobSet":
            return [_of_job_set(template, index) for index in _each(template, "template.spec.replicatedJobs")]
        case "kubeflow.org/v1/PyTorchJob":
            prefixes = [f"template.spec.pytorchReplicaSpecs.{each}" for each in ("Master", "Worker")]
            notes = {_INDEX: _REPLICA_INDEX}
            found = [each for each in prefixes if value_at(template, f"{each}.template") is not None]
            return [
                {"path": f"{each}.template", "replicas": _number(template, f"{each}.replicas"), "annotations": notes}
                for each in found
            ]
        case "ray.io/v1/RayCluster":
            return _of_ray(template, "template.spec")
        case "ray.io/v1/RayJob":
            return _of_ray(template, "template.spec.rayClusterSpec")
    return []


def value_at(template: Any, path: str) -> Any:
    """What is there, by a path such as `template.spec.groups[0].template`; None for nothing."""
    found, rest = template, path.removeprefix("template")
    if not path.startswith("template") or _STEP.sub("", rest):
        return None
    for name, index in _STEP.findall(rest):
        if name:
            found = found.get(name) if isinstance(found, Mapping) else None
        else:
            at = natural(index)
            found = found[at] if isinstance(found, Sequence) and at is not None and at < len(found) else None
    return found


def _parts(job: View) -> Iterator[tuple[View, Object]]:
    for component in job["spec"].get("components") or ():
        for part in pod_sets_of(component):
            yield component, part


def _of_job_set(template: View, index: int) -> Object:
    where = f"template.spec.replicatedJobs[{index}]"
    replicas = _number(template, f"{where}.replicas")
    notes = {_INDEX: _COMPLETION_INDEX, _GROUP: _JOB_INDEX, _GROUPS: str(replicas)}
    count = replicas * _pods_of_job(template, f"{where}.template")
    return {"path": f"{where}.template.spec.template", "replicas": count, "annotations": notes}


def _of_ray(template: View, prefix: str) -> list[Object]:
    groups = [f"{prefix}.workerGroupSpecs[{index}]" for index in _each(template, f"{prefix}.workerGroupSpecs")]
    workers = [{"path": f"{each}.template", "replicas": _number(template, f"{each}.replicas")} for each in groups]
    return [{"path": f"{prefix}.headGroupSpec.template", "replicas": 1}, *workers]


def _pods_of_job(template: View, path: str) -> int:
    parallelism, completions = (value_at(template, f"{path}.spec.{each}") for each in ("parallelism", "completions"))
    at_once = parallelism if isinstance(parallelism, int) else 1
    return min(at_once, completions) if isinstance(completions, int) else at_once


def _each(template: View, path: str) -> range:
    found = value_at(template, path)
    return range(len(found)) if isinstance(found, list) else range(0)


def _number(template: View, path: str) -> int:
    found = value_at(template, path)
    return found if isinstance(found, int) else 1


def _topology(metadata: View, notes: Mapping[str, str]) -> Object | None:
    return topology.request(
        metadata,
        index_label=notes.get(_INDEX, ""),
        group_label=notes.get(_GROUP, ""),
        group_count=natural(notes.get(_GROUPS, "")),
    )


def _told(info: Info) -> Object:
    parts = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": [dict(each) for each in info.tolerations],
        "schedulingGates": [dict(each) for each in info.gates],
    }
    return {key: value for key, value in parts.items() if value}


def _holds(job: View, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
