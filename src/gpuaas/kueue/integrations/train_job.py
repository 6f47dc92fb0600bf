"""Kubeflow Trainer's TrainJob: its pod sets are those of the job set its runtime describes, with the job's own wishes.

What a start adds is written as patches of the runtime under Kueue's name, and taken back when it stops. The job set
itself is the trainer's to make; here it is only foreseen: nodes, image, command, resources and patches of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.fielderrors import FieldError, keyed
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations.integration import CannotCompose, Find, Finish, Suspendable
from gpuaas.kueue.integrations.job_set import ended_pods, replicated_parts
from gpuaas.kueue.integrations.podsets import Info
from gpuaas.kueue.integrations.templated import count_of, finish_by
from gpuaas.kueue.integrations.topology import errors as topology_errors
from gpuaas.kueue.integrations.topology import request

Object = dict[str, Any]
View = Mapping[str, Any]

TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", True, "TrainJob")
RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", True, "TrainingRuntime")
CLUSTER_RUNTIMES = Resource(
    "trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", False, "ClusterTrainingRuntime"
)
MANAGER = "kueue.x-k8s.io/manager"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER, _NODE = "trainer", "node"


class TrainJob(Suspendable):
    framework = "trainer.kubeflow.org/trainjob"
    resource = TRAIN_JOBS
    webhook = "trainjob"
    needs = (RUNTIMES, CLUSTER_RUNTIMES)
    defaults_all = True

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        found = []
        for part in replicated_parts(foreseen(job, find)):
            pod_set: Object = {"name": part.name, "count": part.count, "template": part.template}
            asked = request(
                part.template.get("metadata"),
                index_label=part.index_label,
                group_label=part.group_label,
                group_count=part.group_count,
            )
            if asked is not None:
                pod_set["topologyRequest"] = asked
            found.append(pod_set)
        return found

    def is_active(self, job: View) -> bool:
        return any(each.get("active") for each in _statuses(job))

    def started(self, job: View, infos: Sequence[Info]) -> Object:
        patches = [_patch(info) for info in infos]
        return {**job, "spec": {**_with_patches(job, patches), "suspend": False}}

    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        return {**job, "spec": _with_patches(job, [])}

    def finished(self, job: View) -> Finish | None:
        return finish_by(job, "Complete", "Failed")

    def pods_ready(self, job: View) -> bool:
        """Each of its jobs is ready or done; the trainer lists them all once it has made them."""
        statuses = _statuses(job)
        return bool(statuses) and all(each.get("ready", 0) + each.get("succeeded", 0) > 0 for each in statuses)

    def reclaimable(self, job: View, find: Find) -> dict[str, int]:
        succeeded = {each["name"]: each.get("succeeded", 0) for each in _statuses(job)}
        return ended_pods(foreseen(job, find), succeeded) if succeeded else {}

    def default(self, job: Object) -> None:
        """A place for what a start adds; it cannot be made later."""
        patches = job["spec"].get("runtimePatches") or []
        if not any(each.get("manager") == MANAGER for each in patches):
            job["spec"] = {**job["spec"], "runtimePatches": [*patches, _own_patch([])]}

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        words = (
            '. Adjust either the "TrainJob.spec.runtimePatches" or the "TrainingRuntime.Template" annotations for the '
            "corresponding Job"
        )
        return [
            FieldError(error.reason, error.path, error.body + words)
            for part in replicated_parts(foreseen(job, find))
            for error in topology_errors(keyed("job", part.name), part.template.get("metadata"), part.count)
        ]


def foreseen(job: View, find: Find) -> list[Object]:
    """The replicated jobs of the job set the trainer will make."""
    ref = job["spec"]["runtimeRef"]
    clusterwide = ref.get("kind", CLUSTER_RUNTIMES.kind) == CLUSTER_RUNTIMES.kind
    runtime = find(CLUSTER_RUNTIMES if clusterwide else RUNTIMES, job["metadata"]["namespace"], ref["name"])
    if runtime is None:
        raise CannotCompose(f"runtime '{ref['name']}' not found")
    spec = runtime.get("spec") or {}
    jobs = (((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs")) or ()
    nodes = (job["spec"].get("trainer") or {}).get("numNodes") or (spec.get("mlPolicy") or {}).get("numNodes")
    return [_patched(_wished(_counted(each), job, nodes), job) for each in jobs]


def _counted(replicated: View) -> Object:
    """The trainer gives each job at least one pod, and as many completions as pods."""
    template = replicated["template"]
    spec = template.get("spec") or {}
    pods = max(1, count_of(spec.get("parallelism"), 1))
    counted = {**spec, "parallelism": pods, "completions": pods}
    return {**replicated, "template": {**template, "spec": counted}}


def _wished(replicated: Object, job: View, nodes: int | None) -> Object:
    template = replicated["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels.get(_STEP) != _TRAINER:
        return replicated
    trainer = job["spec"].get("trainer") or {}
    spec = dict(template["spec"])
    if nodes is not None:
        spec |= {"parallelism": nodes, "completions": nodes}
    pod = spec["template"]
    containers = [
        _container(each, trainer) if each.get("name") == _NODE else each for each in pod["spec"].get("containers") or ()
    ]
    spec["template"] = {**pod, "spec": {**pod["spec"], "containers": containers}}
    return {**replicated, "template": {**template, "spec": spec}}


def _container(container: Object, trainer: View) -> Object:
    changed = dict(container)
    for key in ("image", "command", "args"):
        if trainer.get(key):
            changed[key] = trainer[key]
    if trainer.get("resourcesPerNode"):
        changed["resources"] = trainer["resourcesPerNode"]
    if trainer.get("env"):
        env = {each["name"]: each for each in [*(container.get("env") or ()), *trainer["env"]]}
        changed["env"] = list(env.values())
    return changed


def _patched(replicated: Object, job: View) -> Object:
    """With what others than Kueue patch: where pods may run, and the annotations topology is asked by."""
    for patch in job["spec"].get("runtimePatches") or ():
        if patch.get("manager") == MANAGER:
            continue
        template = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for each in template.get("replicatedJobs") or ():
            if each.get("name") == replicated["name"]:
                replicated = _overlaid(replicated, each)
    return replicated


def _overlaid(replicated: Object, patch: View) -> Object:
    wished = ((patch.get("template") or {}).get("spec") or {}).get("template") or {}
    template = replicated["template"]
    pod = template["spec"]["template"]
    metadata = dict(pod.get("metadata") or {})
    for key in ("labels", "annotations"):
        more = (wished.get("metadata") or {}).get(key)
        if more:
            metadata[key] = {**(metadata.get(key) or {}), **more}
    spec, asked = dict(pod["spec"]), wished.get("spec") or {}
    for key in ("nodeSelector", "tolerations", "affinity", "schedulingGates"):
        if asked.get(key):
            both = {**(spec.get(key) or {}), **asked[key]} if key == "nodeSelector" else asked[key]
            spec[key] = both
    changed = {**pod, "metadata": metadata, "spec": spec}
    return {**replicated, "template": {**template, "spec": {**template["spec"], "template": changed}}}


def _patch(info: Info) -> Object:
    metadata = {"annotations": dict(info.annotations), "labels": dict(info.labels)}
    spec = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.gates),
    }
    kept = {key: value for key, value in spec.items() if value}
    template = {"metadata": {key: value for key, value in metadata.items() if value}, "spec": kept}
    return {"name": info.name, "template": {"spec": {"template": template}}}


def _with_patches(job: View, patches: Sequence[Object]) -> Object:
    others = [each for each in job["spec"].get("runtimePatches") or () if each.get("manager") != MANAGER]
    return {**job["spec"], "runtimePatches": [*others, _own_patch(patches)]}


def _own_patch(patches: Sequence[Object]) -> Object:
    spec: Object = {"replicatedJobs": list(patches)} if patches else {}
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": spec}}}


def _statuses(job: View) -> Sequence[View]:
    return (job.get("status") or {}).get("jobsStatus") or ()
