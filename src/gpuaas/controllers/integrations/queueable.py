"""The steps of whatever has a workload of its own: it is made, and what it stands for follows it.

Each reconcile takes one step, in upstream's order. The choice among several workloads is module matching's; how one is
started and stopped is its controller's.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.kueue import RESOURCE_FLAVORS
from gpuaas.client.protocol import Object, Propagation
from gpuaas.controllers.integrations.held import HeldController
from gpuaas.controllers.integrations.matching import Matching
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import outcome
from gpuaas.kueue.integrations.integration import Queueable
from gpuaas.kueue.integrations.jobs import is_elastic, prebuilt_of, queue_of
from gpuaas.kueue.integrations.keys import IS_GROUP
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.metadata import annotations_of, is_deleting, key_of, owners_of, uid_of

USER_STOPPED = "gpuaas.dev/stopped-by-user"


class QueueableController(HeldController):
    integration: Queueable

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps, configured, series)
        self._flavors = deps.informers.of(RESOURCE_FLAVORS)
        self._followed.append(self._flavors)
        self.matching = Matching(self)

    def flavor(self, name: str) -> Object | None:
        return self._flavors.get("", name)

    @abstractmethod
    async def start(self, job: Object, workload: Object) -> None: ...

    @abstractmethod
    async def stop(self, job: Object, workload: Object | None, message: str) -> Object:
        """Stopped, with its templates as the workload has them; the job as it is then."""

    async def settle(self, job: Object) -> tuple[Object, Object | None]:
        return await self.matching.settle(job)

    async def over(self, job: Object) -> None:
        """Nothing more will happen to the job."""

    async def step(self, job: Object) -> Requeue | None:
        kind = self.integration
        job, workload = await self.settle(job)
        if workload is not None and await self._sync_active(job, workload):
            return None
        if workload is not None and outcome.is_finished(workload):
            await self.over(job)
            if kind.finished(job) is None:
                self._tell_finished(job, workload)
            await self.workloads.let_go(workload)
            return None
        if workload is not None and is_deleting(workload):
            job = await self.stop(job, workload, "Workload is deleted")
            if not kind.steps or kind.is_suspended(job):
                await self.workloads.let_go(workload)
            return None
        if kind.on_hold(job):
            if workload is not None and outcome.is_reserved(workload):
                status = outcome.unreserved(workload, "OnHold", "Job is on hold", self.millis())
                await self.workloads.write(workload, status)
            return None
        finish = kind.finished(job)
        if finish is not None:
            for each in self._all_of(job, workload):
                await self.workloads.finish(each, "Succeeded" if finish.success else "Failed", finish.message)
                self._tell_finished(job, each)
            await self.over(job)
            return None
        if workload is None:
            return await self.begin(job)
        return await self._live(job, workload)

    async def _sync_active(self, job: Object, workload: Object) -> bool:
        """A job its user stopped by its own means is deactivated, and active again once it is started; True if written.

        The mark separates that from a workload that an administrator deactivated, which stays inactive.
        """
        wanted, notes = self.integration.is_wanted(job), annotations_of(workload)
        marked = USER_STOPPED in notes
        if wanted != marked or outcome.is_finished(workload) or is_deleting(workload):
            return False
        changed = {key: value for key, value in notes.items() if key != USER_STOPPED}
        if not wanted:
            changed[USER_STOPPED] = "true"
        metadata = {**workload["metadata"], "annotations": changed}
        spec = {**workload["spec"], "active": wanted}
        await self.workloads.change(workload, {**workload, "metadata": metadata, "spec": spec})
        return True

    async def begin(self, job: Object) -> Requeue | None:
        if prebuilt_of(job):
            await self.stop(job, None, "missing workload")
            return Requeue(1.0)  # until the workload is there
        if not self.integration.is_active(job) or self._is_elastic(job):  # the last pods of its time before go first
            await self.matching.create(job)
        return None

    async def _live(self, job: Object, workload: Object) -> Requeue | None:
        """A workload that is neither new nor finished: tell how its pods do, then start or stop the job."""
        kind = self.integration
        status = outcome.reclaimed(workload, kind.reclaimable(job, self.find))
        if status is None and self.config.wait_for_pods_ready:
            status = outcome.pods_ready(workload, kind.pods_ready(job), self.millis())
        if status is not None:
            await self.workloads.write(workload, status)
            return None
        if outcome.eviction_of(workload) is not None:
            return await self._evicted(job, workload)
        if not kind.is_suspended(job):
            if not outcome.is_admitted(workload) and not self._runs_on(job):
                await self.stop(job, workload, "Not admitted by cluster queue")
            return None
        if not workload["spec"].get("active", True):
            return None  # its eviction is on its way: what its user stopped must not be started once more
        if outcome.is_admitted(workload):
            await self.start(job, workload)
            return None
        if outcome.is_reserved(workload):
            self._tell_checks(job, workload)
        await self.sync_queue(job, workload)
        return None

    def _all_of(self, job: Object, workload: Object | None) -> list[Object]:
        """The workloads that are over with the job: of an elastic one also the slice it ran on while it waited to grow."""
        if self._is_elastic(job) and not prebuilt_of(job):
            return self.matching.slices.live(job)
        return [] if workload is None else [workload]

    def _is_elastic(self, job: Object) -> bool:
        return self.integration.elastic and is_elastic(job) and self.config.elastic

    def _runs_on(self, job: Object) -> bool:
        """An elastic job runs on while it waits to grow: its pods on what it has, the new ones gated."""
        return self._is_elastic(job) and self.matching.slices.runs_on_quota(job)

    async def sync_queue(self, job: Object, workload: Object) -> None:
        queue = queue_of(job)
        if workload["spec"].get("queueName", "") != queue:
            await self.workloads.change(workload, {**workload, "spec": {**workload["spec"], "queueName": queue}})

    async def _evicted(self, job: Object, workload: Object) -> Requeue | None:
        eviction = outcome.eviction_of(workload)
        assert eviction is not None
        job = await self.stop(job, workload, eviction.get("message", ""))
        if self.integration.steps and not self.integration.is_suspended(job):
            return None  # still stopping
        if outcome.is_reserved(workload) and not self.integration.is_active(job):
            requeue = not (self._configured.now.nodes.keeps_single_pods and _is_single_pods(workload))
            await self.workloads.write(workload, outcome.released(workload, self.millis(), requeue=requeue))
            return None
        return await self._give_up(job, workload, eviction)

    async def _give_up(self, job: Object, workload: Object, eviction: Mapping[str, Any]) -> Requeue | None:
        """A job Kueue itself deactivated is deleted after a while, where the configuration says so."""
        after = self.config.delete_deactivated_after
        by_kueue = eviction.get("reason", "").startswith("DeactivatedDueTo")
        if after is None or workload["spec"].get("active", True) or not by_kueue:
            return None
        left = parse_rfc3339(eviction["lastTransitionTime"]) + after - self.clock.now()
        if left > 0:
            return Requeue(left)
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        resource = self.integration.resource
        await self.client.delete(resource, name, namespace, propagation=Propagation.BACKGROUND, uid=uid_of(job))
        self.tell(job, "Deleted", "Deleted job: deactivation retention period expired")
        return None

    def _tell_finished(self, job: Object, workload: Object) -> None:
        self.tell(job, "FinishedWorkload", f"Workload '{key_of(workload)}' is declared finished")

    def _tell_checks(self, job: Object, workload: Object) -> None:
        pending = [
            f"{check['name']}: {check['message']}"
            for check in workload["status"].get("admissionChecks") or ()
            if check.get("state") == "Pending" and check.get("message")
        ]
        if pending:
            self.tell(job, "UpdatedAdmissionCheck", "; ".join(pending))


def _is_single_pods(workload: Mapping[str, Any]) -> bool:
    """It dies with its pod: queued again it would only hold what nothing can use."""
    owners = owners_of(workload)
    return len(owners) == 1 and owners[0].get("kind") == "Pod" and annotations_of(workload).get(IS_GROUP) != "true"
