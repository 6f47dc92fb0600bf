"""Which workload is a job's: found, made, brought up to date, or, where several claim it, chosen.

At most one workload stands for a job. One that no longer says what the job says is updated while nothing is reserved
for it, and deleted otherwise; the job stops meanwhile. A workload made beforehand is taken over, or left alone if it
belongs to another owner. Of an elastic job several may live at a time; which of them is the job's is module slices'.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.base.errors import AlreadyExists, ApiError, Conflict
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.controllers.integrations.slices import NoSlice, Slices
from gpuaas.controllers.integrations.workloads import Later
from gpuaas.kueue.integrations import keys, outcome, podsets
from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.jobs import (
    is_elastic,
    max_exec_time_of,
    new_workload,
    owner_reference,
    prebuilt_of,
)
from gpuaas.runtime.metadata import annotations_of, controller_of, is_controlled_by, key_of, labels_of, uid_of

if TYPE_CHECKING:
    from gpuaas.controllers.integrations.queueable import QueueableController

OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"


class Matching:
    def __init__(self, controller: "QueueableController") -> None:
        self._controller = controller
        self._workloads = controller.workloads
        self._kind = controller.integration
        self.slices = Slices(controller)

    async def settle(self, job: Object) -> tuple[Object, Object | None]:
        """The job (it may have been stopped) and its workload; raises Later when something had to go first."""
        if prebuilt_of(job):
            await self._finish_evicted(job)
            return job, await self._prebuilt(job)
        if self._is_elastic(job):
            try:
                return await self._slice(job)
            except NoSlice:
                pass
        match, others = self._find(job)
        update = None
        suspended = self._kind.is_suspended(job)
        if match is None and others and suspended and not outcome.is_reserved(others[0]):
            update, others = others[0], others[1:]
        if match is None and not suspended and self._kind.finished(job) is None:
            job = await self._stop(job, others)
        await self._remove(job, match, others)
        if update is not None:
            return job, await self._update(job, update)
        if match is not None:
            match = await self._controller.sync_gates(job, match)
            match = await self._controller.sync_priority(job, match)
        return job, match

    async def _slice(self, job: Object) -> tuple[Object, Object | None]:
        pod_sets = self._pod_sets(job)
        job = await self.slices.note(job, pod_sets)
        current, holder = await self.slices.settle(job, pod_sets)
        if holder is not None and holder is not current:
            await self._controller.sync_priority(job, holder)
        if current is not None:
            current = await self._controller.sync_priority(job, await self._controller.sync_gates(job, current))
        return job, current

    def _is_elastic(self, job: Object) -> bool:
        return self._kind.elastic and is_elastic(job) and self._controller.config.elastic

    async def create(self, job: Object) -> None:
        workload = self._composed(job)
        if self._is_elastic(job):
            workload = self.slices.linked(job, workload)
        namespace = workload["metadata"]["namespace"]
        try:
            made = await self._controller.client.create(WORKLOADS, workload, namespace)
        except (AlreadyExists, Conflict):
            raise
        except ApiError as error:
            if error.code < 500:
                self._controller.tell(job, "ErrWorkloadCompose", error.message, warning=True)
            raise
        self._controller.created(job, made)

    # Finding.

    def _find(self, job: Object) -> tuple[Object | None, list[Object]]:
        match: Object | None = None
        others = []
        metadata = job["metadata"]
        for workload in self._workloads.of(self._kind.resource, metadata["namespace"], metadata["name"]):
            if match is None and self._is_for(job, workload):
                match = workload
            else:
                others.append(workload)
        return match, others

    def _is_for(self, job: Object, workload: Object) -> bool:
        """Whether the workload says what the job says."""
        if not is_controlled_by(workload, job):
            return False
        spec = workload["spec"]
        if spec.get("maximumExecutionTimeSeconds") != max_exec_time_of(job):
            return False
        wanted = self._pod_sets(job)
        tolerations = not outcome.is_admitted(workload)
        running = podsets.running(workload, self._controller.flavor)
        if running is not None:
            if podsets.same(wanted, running, tolerations=tolerations):
                return True
            if not self._kind.is_suspended(job):
                return False
        return podsets.same(wanted, spec.get("podSets") or (), tolerations=tolerations)

    async def _prebuilt(self, job: Object) -> Object | None:
        workload = self._workloads.get(job["metadata"]["namespace"], prebuilt_of(job))
        if workload is None:
            return None
        owner = controller_of(workload)
        if owner is not None and owner["uid"] != uid_of(job):
            return None
        if annotations_of(workload).get(keys.IS_GROUP) == "true":
            return None  # a pod group's, which has many owners and no controller
        if owner is None:
            workload = await self._take_over(job, workload)
        grown = self._is_elastic(job) and keys.REPLACES in annotations_of(workload)
        if grown or self._is_for(job, workload):
            return workload
        await self._workloads.finish(workload, "OutOfSync", OUT_OF_SYNC)
        return None

    async def _finish_evicted(self, job: Object) -> None:
        """Workloads the job had before it named another: evicted and without pods, they must not keep their quota."""
        if not self._kind.is_suspended(job) or self._kind.is_active(job):
            return
        metadata = job["metadata"]
        for each in self._workloads.of(self._kind.resource, metadata["namespace"], metadata["name"]):
            other = each["metadata"]["name"] != prebuilt_of(job) and is_controlled_by(each, job)
            if other and outcome.eviction_of(each) is not None:
                await self._workloads.finish(each, "OutOfSync", OUT_OF_SYNC)

    async def _take_over(self, job: Object, workload: Object) -> Object:
        metadata = workload["metadata"]
        owners = [*(metadata.get("ownerReferences") or ()), owner_reference(job, self._kind.resource)]
        labels = {**labels_of(workload), keys.JOB_UID: uid_of(job)}
        changed = {**workload, "metadata": {**metadata, "ownerReferences": owners, "labels": labels}}
        return await self._workloads.change(workload, changed)

    # Bringing into line.

    async def _stop(self, job: Object, others: list[Object]) -> Object:
        if len(others) == 1:
            message = "No matching Workload; restoring pod templates according to existent Workload"
            return await self._controller.stop(job, others[0], message)
        return await self._controller.stop(job, None, "Missing Workload; unable to restore pod templates")

    async def _remove(self, job: Object, match: Object | None, others: list[Object]) -> None:
        removed = 0
        for workload in others:
            if await self._workloads.delete(workload):
                removed += 1
                self._controller.tell(job, "DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}")
        if removed:
            why = "no matching workloads" if match is None else "extra workloads"
            raise Later(f"{why}: deleted {len(others)} workloads")

    async def _update(self, job: Object, workload: Object) -> Object:
        composed = self._composed(job)["spec"]
        if "active" in workload["spec"]:
            composed["active"] = workload["spec"]["active"]
        changed = await self._workloads.change(workload, {**workload, "spec": composed})
        words = f"Updated not matching Workload for suspended job: {key_of(workload)}"
        self._controller.tell(job, "UpdatedWorkload", words)
        return changed

    # Composing.

    def _composed(self, job: Object) -> Object:
        pod_sets = self._pod_sets(job)
        extra = self._kind.slice_name_part(job) if self._is_elastic(job) else ""
        config = self._controller.config
        copied = config.label_keys_to_copy, extra, config.annotation_keys_to_copy
        workload = new_workload(job, self._kind.resource, pod_sets, *copied)
        workload["spec"] |= self._controller.priority(job, pod_sets)
        return workload

    def _pod_sets(self, job: Mapping[str, Any]) -> list[Object]:
        try:
            return podsets.sanitized(self._kind.pod_sets(job, self._controller.find))
        except CannotCompose as error:
            raise Later(str(error)) from error
