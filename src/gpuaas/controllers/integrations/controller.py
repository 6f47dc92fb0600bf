"""The loop of one kind of job: its workload is made, and the job follows it, suspended until admitted and after."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.controllers.integrations.queueable import QueueableController
from gpuaas.controllers.integrations.workloads import Later, patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import outcome, podsets
from gpuaas.kueue.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.kueue.integrations.integration import Suspendable
from gpuaas.kueue.integrations.jobs import is_elastic, queue_of
from gpuaas.kueue.integrations.keys import STOPPING
from gpuaas.kueue.integrations.podsets import CannotStart, FlavorMissing
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, controller_of, is_controlled_by, is_deleting, key_of, uid_of


class JobController(QueueableController):
    integration: Suspendable

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps, configured, series)
        for resource in self.integration.needs:
            self._followed.append(deps.informers.of(resource))
        for resource in self.integration.children:
            self.follow(deps.informers.of(resource), self._controller_keys)

    def _controller_keys(self, child: Mapping[str, Any]) -> Iterable[Any]:
        owner, resource = controller_of(child), self.integration.resource
        if owner is not None and (owner["apiVersion"], owner["kind"]) == (resource.api_version, resource.kind):
            yield Key(child["metadata"]["namespace"], owner["name"])

    async def reconcile(self, key: Any) -> Requeue | None:
        job = self.jobs.get(*key)
        if job is None or is_deleting(job):
            for workload in self.workloads.of(self.integration.resource, *key):
                await self.workloads.orphan(workload)
            return None
        held = self.held(key.namespace)
        if held is None or not job.get("spec") or not self.integration.handles(job):
            return None
        try:
            ancestor = self.ancestor(job, held=held)
        except TooDeep as error:
            self.tell(job, "JobNestingTooDeep", str(error), warning=True)
            return None
        except OwnerMissing as error:
            raise Later(str(error)) from error
        if not held and not queue_of(job) and (ancestor is None or not queue_of(ancestor[1])):
            return None
        if ancestor is not None and not self._has_own_workload(job):
            await self._follow_ancestor(job, ancestor[1])
            return None
        return await self.step(job)

    def _has_own_workload(self, job: Object) -> bool:
        """A job that got its owner only after its quota is stopped with its own workload, not with its owner's."""
        found = self.workloads.of(self.integration.resource, *key_of(job))
        return any(is_controlled_by(each, job) and not outcome.is_finished(each) for each in found)

    async def _follow_ancestor(self, job: Object, ancestor: Object) -> None:
        """A child has no workload of its own; it waits with its ancestor's."""
        kind = self.integration
        if kind.finished(job) is not None or kind.is_suspended(job):
            return
        live = [each for each in self.workloads.owned_by(uid_of(ancestor)) if not outcome.is_finished(each)]
        newest = max(live, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
        if newest is not None:
            elastic = self.config.elastic and (is_elastic(job) or is_elastic(ancestor))
            if outcome.is_admitted(newest) or (elastic and outcome.eviction_of(newest) is None):
                return  # while an elastic one grows there may be moments in which none is admitted
        await patch_to(self.client, kind.resource, job, kind.suspended(job))
        self.tell(job, "Suspended", "Kueue managed child job suspended")

    async def start(self, job: Object, workload: Object) -> None:
        try:
            started = self.integration.started(job, podsets.from_admission(workload, self.flavor))
        except FlavorMissing as error:
            raise Later(str(error)) from error
        except CannotStart as error:
            await self.workloads.finish(workload, "FailedToStart", str(error))
            return
        await patch_to(self.client, self.integration.resource, job, started)
        self.tell(job, "Started", f"Admitted by clusterQueue {workload['status']['admission']['clusterQueue']}")

    async def stop(self, job: Object, workload: Object | None, message: str) -> Object:
        """Suspended, with its templates as the workload has them; the job as it is then."""
        kind, infos = self.integration, podsets.originals(workload)
        if kind.steps:
            return await self._stop_in_steps(job, infos, message)
        if kind.is_suspended(job):
            late = kind.stops_itself and infos and not kind.is_active(job)
            return await patch_to(self.client, kind.resource, job, kind.restored(job, infos)) if late else job
        changed = kind.suspended(job)
        job = await patch_to(self.client, kind.resource, job, kind.restored(changed, infos) if infos else changed)
        self.tell(job, "Stopped", message)
        return job

    async def _stop_in_steps(self, job: Object, infos: list[podsets.Info], message: str) -> Object:
        """The mark says that it has begun to stop, until everything is as it was."""
        kind, resource = self.integration, self.integration.resource
        if not (job["spec"].get("suspend") or kind.is_suspended(job)):
            job = await patch_to(self.client, resource, job, _marked(kind.suspended(job), stopping=True))
            self.tell(job, "Stopped", message)
        metadata = job["metadata"]
        if (job.get("status") or {}).get("startTime"):
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": {"startTime": None}}
            job = await self.client.patch(
                resource, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        restored = kind.restored(job, infos) if infos else job
        return await patch_to(self.client, resource, job, _marked(restored, stopping=False))


def _marked(job: Mapping[str, Any], *, stopping: bool) -> Object:
    annotations = {key: value for key, value in annotations_of(job).items() if key != STOPPING}
    if stopping:
        annotations[STOPPING] = "true"
    metadata = {key: value for key, value in job["metadata"].items() if key != "annotations"}
    return {**job, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
