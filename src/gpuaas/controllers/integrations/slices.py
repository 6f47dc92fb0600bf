"""The slices of an elastic job: the one that stands for it now is found, resized or left to be replaced.

`slice_of`, `job_of` and `holder_of` lead from a pod to the slice whose quota it runs on.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.protocol import Object
from gpuaas.controllers.integrations.workloads import BY_JOB, Later, job_key, patch_to
from gpuaas.kueue.integrations import keys, outcome, slices
from gpuaas.kueue.workload_state import conditions_of
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import annotations_of, controller_of, is_controlled_by, is_deleting, key_of

if TYPE_CHECKING:
    from gpuaas.controllers.integrations.queueable import QueueableController


_GRACE = 5.0  # seconds


def slice_of(pod: Mapping[str, Any]) -> str:
    """The name that all slices of its job share; "" for pods of other jobs."""
    return annotations_of(pod).get(keys.SLICE_NAME, "")


def job_of(pod: Mapping[str, Any], workloads: Informer) -> str | None:
    """The job of the slice it names, as workloads are indexed by it; where that is deleted, the pod's own controller."""
    namespace = pod["metadata"]["namespace"]
    found = workloads.get(namespace, slice_of(pod))
    owner = (controller_of(found) if found is not None else None) or controller_of(pod)
    return None if owner is None else job_key(owner["apiVersion"], owner["kind"], namespace, owner["name"])


def holder_of(job: str, workloads: Informer) -> Object | None:
    """The slice of the job that holds quota."""
    return slices.chain_of(workloads.indexed(BY_JOB, job)).holder


class NoSlice(Exception):
    """What there is has other pod sets than the job: it cannot become the job's by resizing."""


class Slices:
    def __init__(self, controller: "QueueableController") -> None:
        self._controller = controller
        self._workloads = controller.workloads
        self._kind = controller.integration

    async def settle(self, job: Object, pod_sets: list[Object]) -> tuple[Object | None, Object | None]:
        """The slice that says what the job says, None if there is none yet, and the one its pods run on; or NoSlice."""
        await self._tidy(job)
        chain = slices.chain_of(self.live(job))
        for workload, reason, words in chain.over:
            if reason == outcome.REPLACED and self._is_new(chain.holder):
                self._controller.queue.add_after(key_of(job), _GRACE)
            else:
                await self._workloads.finish(workload, reason, words)
        current, wanted = chain.current, slices.sizes_of(pod_sets)
        if current is None:
            return None, chain.holder
        sizes = slices.sizes_of(current["spec"].get("podSets") or ())
        if set(sizes) != set(wanted):
            raise NoSlice
        if sizes == wanted:
            return current, chain.holder
        if outcome.is_reserved(current) and not slices.only_shrinks(sizes, wanted):
            return None, chain.holder
        return await self._workloads.change(current, slices.resized(current, wanted)), chain.holder

    def _is_new(self, holder: Object | None) -> bool:
        """Whether it was admitted just now: then the scheduler is about to finish the one it replaces."""
        reserved = conditions_of(holder).get("QuotaReserved") if holder is not None else None
        if reserved is None:
            return False
        return self._controller.clock.now() - parse_rfc3339(reserved["lastTransitionTime"]) < _GRACE

    async def _tidy(self, job: Object) -> None:
        """Finished ones may be deleted; those of an earlier job of the same name belong to none."""
        for workload in self._all(job):
            if not is_controlled_by(workload, job):
                await self._workloads.orphan(workload)
            elif is_deleting(workload) and outcome.is_finished(workload):
                await self._workloads.let_go(workload)

    def live(self, job: Object) -> list[Object]:
        return slices.in_order([each for each in self._all(job) if is_controlled_by(each, job)])

    def _all(self, job: Object) -> list[Object]:
        metadata = job["metadata"]
        return self._workloads.of(self._kind.resource, metadata["namespace"], metadata["name"])

    def linked(self, job: Object, workload: Object) -> Object:
        live = self.live(job)
        if len(live) > 1:
            raise Later(f"unexpected workload-slices count: {len(live)}")
        return slices.linked(workload, live)

    def runs_on_quota(self, job: Object) -> bool:
        """Whether some slice of it holds quota: then its pods run on that while a larger one waits."""
        return slices.chain_of(self.live(job)).holder is not None

    async def note(self, job: Object, pod_sets: list[Object]) -> Object:
        """What the job's kind writes on it about its sizes."""
        notes = self._kind.slice_notes(job, pod_sets, self._controller.find)
        known = annotations_of(job)
        if all(known.get(key) == value for key, value in notes.items()):
            return job
        changed = {**job, "metadata": {**job["metadata"], "annotations": {**known, **notes}}}
        return await patch_to(self._controller.client, self._kind.resource, job, changed)
