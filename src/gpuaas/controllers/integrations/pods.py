"""Pods and pod groups under Kueue: gated until their workload is admitted, deleted when it is evicted.

A key is a pod's, or a group's. The steps are those of every job (`QueueableController`); what differs is that a group's
workload is shared by many pods, which come and go, and that starting and stopping is done to each of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.controllers.integrations.queueable import QueueableController
from gpuaas.controllers.integrations.workloads import Later, count_ungated, patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys, pod_groups, podsets
from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.jobs import annotations_of, new_workload, owner_reference, prebuilt_of, queue_of
from gpuaas.kueue.integrations.outcome import eviction_of, is_finished, is_reserved, released
from gpuaas.kueue.integrations.pods import (
    Pods,
    can_run,
    group_of,
    has_gate,
    is_managed,
    is_suspended,
    role_of,
    started,
    unit,
)
from gpuaas.kueue.integrations.podsets import CannotStart, FlavorMissing, Info
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import finalizers_of, is_deleting, key_of, owners_of, uid_of

GROUP = "pod group"
COMPONENT = "pod-kueue-controller"


class UnitKey(NamedTuple):
    namespace: str
    name: str
    group: bool = False

    def __str__(self) -> str:
        return f"{'group/' if self.group else ''}{self.namespace}/{self.name}"


class PodController(QueueableController):
    integration: Pods
    name = COMPONENT
    component = COMPONENT

    always_on = True
    of_owned = False  # a group's workload may be made before its pods

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        self._pods = Pods()
        self.integration = self._pods
        super().__init__(deps, configured, series)
        self.jobs.add_index(GROUP, _groups)

    def job_keys(self, obj: Mapping[str, Any]) -> Iterable[UnitKey]:
        namespace, group = obj["metadata"].get("namespace", ""), group_of(obj)
        if group:
            yield UnitKey(namespace, group, True)
        elif is_managed(obj):
            yield UnitKey(namespace, obj["metadata"]["name"])

    def workload_keys(self, workload: Mapping[str, Any]) -> Iterable[UnitKey]:
        metadata = workload["metadata"]
        owners = metadata.get("ownerReferences")
        if pod_groups.is_group_workload(workload):
            # One made beforehand has no owners yet; without pods it waits for them.
            waited_for = owners or self.jobs.indexed(GROUP, f"{metadata['namespace']}/{metadata['name']}")
            concerns = waited_for or eviction_of(workload) is not None
            return (UnitKey(metadata["namespace"], metadata["name"], True),) if concerns else ()
        if not owners:
            return ()
        return [
            UnitKey(metadata["namespace"], reference["name"])
            for reference in owners
            if reference.get("kind") == PODS.kind and reference.get("apiVersion") == PODS.api_version
        ]

    async def reconcile(self, key: UnitKey) -> Requeue | None:
        self._pods.now = self.clock.now()
        pods = self._members(key)
        if not pods or (not key.group and is_deleting(pods[0])):
            await self._gone(key, pods)
            return None
        if not self.config.enables(self._pods.framework) and keys.SUSPENDING_PARENT not in annotations_of(pods[0]):
            return None  # only those of sets are looked after
        held = self.held(key.namespace)
        if held is None or (not held and not queue_of(pods[0])):
            return None
        return await self.step(unit(pods, key.name if key.group else ""))

    def _members(self, key: UnitKey) -> list[Object]:
        if key.group:
            found = [pod for pod in self.jobs.indexed(GROUP, f"{key.namespace}/{key.name}") if is_managed(pod)]
            return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))
        pod = self.jobs.get(key.namespace, key.name)
        return [pod] if pod is not None and is_managed(pod) and not group_of(pod) else []

    async def _gone(self, key: UnitKey, pods: Sequence[Object]) -> None:
        if key.group:
            workload = self.workloads.get(key.namespace, key.name)
            if workload is not None and pod_groups.is_group_workload(workload):
                await self._without_pods(workload)
            return
        for workload in self.workloads.of(PODS, key.namespace, key.name):
            if not pod_groups.is_group_workload(workload):
                await self.workloads.orphan(workload)
        await self._finalize(pods)

    async def _without_pods(self, workload: Object) -> None:
        """Nothing runs that an eviction would wait for; a set that is there makes pods again, if it can."""
        if eviction_of(workload) is not None and is_reserved(workload) and not is_finished(workload):
            await self.workloads.write(workload, released(workload, self.millis()))
        elif not _has_set(workload):
            await self.workloads.orphan(workload)

    # Which workload, and of which pods.

    async def settle(self, job: Object) -> tuple[Object, Object | None]:
        if not job["group"]:
            return await super().settle(job)
        return await self._settle_group(job)

    async def _settle_group(self, job: Object) -> tuple[Object, Object | None]:
        group, pods = job["group"], job["pods"]
        workload = self.workloads.get(job["metadata"]["namespace"], prebuilt_of(pods[0]) or group)
        if workload is None:
            return job, None
        if not pod_groups.is_group_workload(workload) and not prebuilt_of(pods[0]):
            words = f'A Workload named "{group}" already exists but is not a pod group workload; '
            self.tell(pods[0], "WorkloadNameConflict", words + "this pod group cannot be admitted", warning=True)
            await self._finalize([pod for pod in pods if not can_run(pod)])
            raise _Refused
        if not pod_groups.is_group_workload(workload) and any(each.get("controller") for each in owners_of(workload)):
            raise _Refused  # it has another controller
        if pod_groups.is_abandoned(pods, workload):
            await self._finalize(pods)
            raise Later("its pods are leaving")
        found = pod_groups.fit(pods, workload, self.clock.now())
        if found.keeps is None:
            if await self.workloads.delete(workload):
                self.tell(pods[0], "DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}")
            raise Later("no matching workloads: deleted 1 workloads")
        workload = await self._own(found.keeps, workload)
        await self._remove(found.excess)
        await self._finalize(found.replaced)
        absent = 0 if prebuilt_of(pods[0]) else found.absent
        status = pod_groups.waiting(workload, absent, self.clock.now())
        if status is not None:
            await self.workloads.write(workload, status)
            raise Later("the number of pods was recorded")
        return unit(found.keeps, group), workload

    async def _own(self, pods: Sequence[Object], workload: Object) -> Object:
        """Every pod of the group owns its workload: it goes with the last of them."""
        known = {each["uid"] for each in owners_of(workload)}
        new = [owner_reference(pod, PODS, controller=False) for pod in pods if uid_of(pod) not in known]
        if not new:
            return workload
        metadata = {**workload["metadata"], "ownerReferences": [*owners_of(workload), *new]}
        changed = await self.workloads.change(workload, {**workload, "metadata": metadata})
        words = f"Added {len(new)} owner reference(s)"
        self.recorder.event(WORKLOADS, workload, NORMAL, "OwnerReferencesAdded", words)
        return changed

    async def _remove(self, pods: Sequence[Object]) -> None:
        for pod in pods:
            if annotations_of(pod).get(keys.SUSPENDING_PARENT):
                continue  # its parent would only make it again; it stays gated
            await self._finalize([pod])
            if not is_deleting(pod) and await self._delete(pod):
                self.tell(pod, "ExcessPodDeleted", "Excess pod deleted")

    async def _finalize(self, pods: Sequence[Object]) -> None:
        for pod in pods:
            if keys.MANAGED not in finalizers_of(pod):
                continue
            left = [each for each in finalizers_of(pod) if each != keys.MANAGED]
            patch = {"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"], "finalizers": left or None}}
            try:
                await self.client.patch(PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"])
            except NotFound:
                continue

    async def _delete(self, pod: Object) -> bool:
        try:
            await self.client.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], uid=uid_of(pod))
        except NotFound:
            return False
        return True

    # Making, starting and stopping.

    async def begin(self, job: Object) -> Requeue | None:
        if job["group"]:
            await self._begin_group(job)
            return None
        return await super().begin(job)

    async def _begin_group(self, job: Object) -> None:
        pods = job["pods"]
        if prebuilt_of(pods[0]) or self._pods.is_active(job):
            return  # its parent makes the workload, or the last pods are still going
        await self._finalize([pod for pod in pods if not can_run(pod)])
        try:
            pod_groups.check_complete(pods, job["group"])
            kept, excess = pod_groups.excess_of(pods)
            await self._remove(excess)
            job = unit(kept, job["group"])
            pod_sets = podsets.sanitized(self._pods.pod_sets(job, self.find))
            pod_groups.check_roles(pod_sets)
            labels = pod_groups.shared_labels(kept, self.config.label_keys_to_copy)
            annotations = pod_groups.shared_annotations(kept, self.config.annotation_keys_to_copy)
        except CannotCompose as error:
            self.tell(pods[0], "ErrWorkloadCompose", str(error), warning=True)
            return
        await self._create_group(job, pod_sets, labels, annotations)

    async def _create_group(
        self, job: Object, pod_sets: list[Object], labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> None:
        pods = job["pods"]
        workload = new_workload(pods[0], PODS, pod_sets)
        metadata = workload["metadata"]
        metadata["name"] = job["group"]
        metadata["labels"] = {**metadata["labels"], **labels}
        metadata["labels"].pop(keys.JOB_UID, None)
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations, keys.IS_GROUP: "true"}
        metadata["ownerReferences"] = [owner_reference(pod, PODS, controller=False) for pod in pods]
        workload["spec"] |= self.priority(pods[0], pod_sets)
        self.created(pods[0], await self.client.create(WORKLOADS, workload, metadata["namespace"]))

    async def start(self, job: Object, workload: Object) -> None:
        if (workload.get("status") or {}).get("clusterName"):
            return  # MultiKueue runs it on a worker: the pods here keep their gate
        message = f"Admitted by clusterQueue {workload['status']['admission']['clusterQueue']}"
        try:
            infos = {info.name: info for info in podsets.from_admission(workload, self.flavor)}
            plan = [(pod, started(pod, _info_for(pod, job, infos))) for pod in job["pods"] if has_gate(pod)]
        except FlavorMissing as error:
            raise Later(str(error)) from error
        except CannotStart as error:
            await self.workloads.finish(workload, "FailedToStart", str(error))
            return
        for pod, changed in plan:
            if is_deleting(pod):
                continue
            await patch_to(self.client, PODS, pod, changed)
            self.tell(pod, "Started", message)
            count_ungated(self._series, keys.ADMISSION_GATE, workload, pod, self.clock.now())

    async def stop(self, job: Object, workload: Object | None, message: str) -> Object:
        deleted = workload is not None and is_deleting(workload)
        reason = _stop_reason(workload, message)
        for pod in job["pods"]:
            if is_deleting(pod) or (not deleted and is_suspended(pod)):
                continue
            try:
                await self._mark(pod, reason, message)
            except NotFound:
                continue
            await self._delete(pod)
            self.tell(pod, "Stopped", message)
        if job["group"] and deleted:
            await self._finalize([self.jobs.get(*key_of(pod)) or pod for pod in job["pods"]])
        return job

    async def _mark(self, pod: Object, reason: str, message: str) -> None:
        """Controllers that count failures see by the condition that this pod was evicted."""
        status = pod.get("status") or {}
        others = [each for each in status.get("conditions") or () if each["type"] != "TerminationTarget"]
        condition = {
            "type": "TerminationTarget",
            "status": "True",
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": reason,
            "message": message,
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [*others, condition]}}
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        await self.client.patch(PODS, name, patch, namespace, subresource="status")

    async def over(self, job: Object) -> None:
        await self._finalize(job["pods"])

    async def sync_queue(self, job: Object, workload: Object) -> None:
        if annotations_of(job["pods"][0]).get(keys.GROUP_SERVING) != "true":
            await super().sync_queue(job, workload)


class _Refused(Later):
    def __init__(self) -> None:
        super().__init__("a workload with the pod group name already exists")


def _info_for(pod: Object, job: Object, infos: Mapping[str, Info]) -> Info:
    name = role_of(pod) if job["group"] else keys.MAIN
    if name not in infos:
        raise CannotStart(f"invalid podset infos: podSetInfo with the name '{name}' is not found")
    return infos[name]


def _stop_reason(workload: Mapping[str, Any] | None, message: str) -> str:
    if workload is not None and is_deleting(workload):
        return "WorkloadDeleted"
    eviction = eviction_of(workload) if workload is not None else None
    if eviction is not None:
        return f"WorkloadEvictedDueTo{eviction.get('reason', '')}"
    return "NotAdmitted" if message.startswith("Not admitted") else "NoMatchingWorkload"


def _groups(pod: Mapping[str, Any]) -> Iterable[str]:
    group = group_of(pod)
    return (f"{pod['metadata'].get('namespace', '')}/{group}",) if group else ()


def _has_set(workload: Object) -> bool:
    """A set that still exists recreates the pods."""
    return not is_deleting(workload) and any(each["kind"] != PODS.kind for each in owners_of(workload))
