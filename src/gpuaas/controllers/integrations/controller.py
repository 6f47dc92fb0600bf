"""The loop of one kind of job: its workload is made, and the job follows it, suspended until admitted and after.

Each reconcile takes one step, in upstream's order. Whether a job is held at all is `JobsConfig`'s and its ancestors'
question; the choice among several workloads is module matching's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.admission.configuration import Configuration, Configured
from gpuaas.admission.integrations import outcome, podsets
from gpuaas.admission.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.admission.integrations.config import JobsConfig
from gpuaas.admission.integrations.integration import Integration
from gpuaas.admission.integrations.jobs import PriorityMissing, is_elastic, prebuilt_of, priority_of, queue_of
from gpuaas.admission.integrations.keys import IS_GROUP, STOPPING
from gpuaas.admission.integrations.podsets import CannotStart, FlavorMissing
from gpuaas.admission.integrations.registry import KINDS, kinds_of
from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.kueue import PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import NAMESPACES
from gpuaas.controllers.integrations.matching import Matching
from gpuaas.controllers.integrations.workloads import Later, Workloads, patch_to
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import (
    Key,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    owners_of,
    uid_of,
)

POD_PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
USER_STOPPED = "gpuaas.dev/stopped-by-user"
_EVENT_LIMIT = 1024


class JobController(Controller):
    """Subclasses name the integration they run."""

    integration: Integration
    workers = 32  # each waits for its writes; the more wait together, the more the store writes at once
    tells_series = True
    always_on = False
    """Looks after what is held already even where the configuration has its integration off."""

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._series = series or new_series()
        self._configured = configured or Configured()
        self._configured.subscribe(self._reconfigured)
        of = deps.informers.of
        self.jobs = self.follow(of(self.integration.resource), self.job_keys)
        self.workloads = Workloads(self.client, of(WORKLOADS), self.clock)
        self.follow(of(WORKLOADS), self.workload_keys)
        self._namespaces, self._flavors = of(NAMESPACES), of(RESOURCE_FLAVORS)
        self.workload_classes, self.pod_classes = of(PRIORITY_CLASSES), of(POD_PRIORITY_CLASSES)
        self._followed += [self._namespaces, self._flavors, self.workload_classes, self.pod_classes]
        for resource in KINDS.resources:
            of(resource)  # known before an owner is asked for; kinds that are not served are not waited for
        for resource in self.integration.needs:
            self._followed.append(of(resource))
        for resource in self.integration.children:
            self.follow(of(resource), self._controller_keys)
        self.matching = Matching(self)

    @property
    def config(self) -> JobsConfig:
        return self._configured.now.jobs

    def ancestor(self, obj: Object, *, held: bool) -> tuple[Resource, Object] | None:
        return kinds_of(self.config.frameworks).ancestor(obj, self.find, without_queue=held)

    def _reconfigured(self, before: Configuration, now: Configuration) -> None:
        if before.jobs != now.jobs:
            for job in self.jobs.all():
                for key in self.job_keys(job):
                    self.queue.add(key)

    def job_keys(self, obj: Mapping[str, Any]) -> Iterable[Any]:
        return (key_of(obj),)

    def _controller_keys(self, child: Mapping[str, Any]) -> Iterable[Any]:
        owner, resource = controller_of(child), self.integration.resource
        if owner is not None and (owner["apiVersion"], owner["kind"]) == (resource.api_version, resource.kind):
            yield Key(child["metadata"]["namespace"], owner["name"])

    def workload_keys(self, workload: Mapping[str, Any]) -> Iterable[Any]:
        """Its job, and the children of its job."""
        owners = workload["metadata"].get("ownerReferences")
        if not owners:
            return ()  # most often: this is asked of every workload by every controller
        resource, namespace = self.integration.resource, workload["metadata"].get("namespace", "")
        found = [
            Key(namespace, reference["name"])
            for reference in owners
            if reference.get("kind") == resource.kind and reference.get("apiVersion") == resource.api_version
        ]
        return found + [key_of(child) for reference in owners for child in self.jobs.owned_by(reference["uid"])]

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        informer = self.informers.of(resource)
        return informer.get(namespace if resource.namespaced else "", name)

    def flavor(self, name: str) -> Object | None:
        return self._flavors.get("", name)

    def priority(self, job: Object, pod_sets: list[Object]) -> Object:
        try:
            return priority_of(
                job,
                self.integration.priority_class(job),
                pod_sets,
                lambda name: self.workload_classes.get("", name),
                self.pod_classes.all,
            )
        except PriorityMissing as error:
            raise Later(str(error)) from error

    def tell(self, job: Object, reason: str, message: str, *, warning: bool = False) -> None:
        kind = WARNING if warning else NORMAL
        self.recorder.event(self.integration.resource, job, kind, reason, message[:_EVENT_LIMIT])

    def created(self, job: Object, workload: Object) -> None:
        self.tell(job, "CreatedWorkload", f"Created Workload: {key_of(workload)}")
        if (job["metadata"].get("generation") or 1) > 1:
            return  # it is not the job's first, or not made for its creation
        born, made = (parse_rfc3339(each["metadata"]["creationTimestamp"]) for each in (job, workload))
        kind = self.integration.resource.kind
        place = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
        beside = self._series.of("LocalQueue", *place)
        self._series.observe("kueue_workload_creation_latency_seconds", max(0.0, made - born), kind, *beside)

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
        if ancestor is not None:
            await self._follow_ancestor(job, ancestor[1])
            return None
        return await self.step(job)

    def held(self, namespace: str) -> bool | None:
        """Whether jobs there wait although they name no queue; None where none is looked at."""
        if not (self.always_on or self.config.enables(self.integration.framework)):
            return None
        found = self._namespaces.get("", namespace)
        if found is None or not self.config.selects(labels_of(found)):
            return None
        return self.config.holds_without_queue(labels_of(found))

    def waits_by_itself(self, obj: Object) -> bool:
        """Whether it is to have workloads, and nobody above it has one for it."""
        held = self.held(obj["metadata"]["namespace"])
        if held is None or not (held or queue_of(obj)):
            return False
        try:
            return self.ancestor(obj, held=held) is None
        except (OwnerMissing, TooDeep) as error:
            raise Later(str(error)) from error

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
        """A job its user stopped by its own means is deactivated, and active again once it is started; True if told.

        The mark tells that from a workload somebody else deactivated, which stays so.
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
        """The mark says that it has begun to stop, until everything is as it was; that waits for its pods to go."""
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
        if kind.is_active(job):
            return job
        restored = kind.restored(job, infos) if infos else job
        return await patch_to(self.client, resource, job, _marked(restored, stopping=False))

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

    def millis(self) -> int:
        return round(self.clock.now() * 1000)


def _marked(job: Mapping[str, Any], *, stopping: bool) -> Object:
    annotations = {key: value for key, value in annotations_of(job).items() if key != STOPPING}
    if stopping:
        annotations[STOPPING] = "true"
    metadata = {key: value for key, value in job["metadata"].items() if key != "annotations"}
    return {**job, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def _is_single_pods(workload: Mapping[str, Any]) -> bool:
    """It dies with its pod: queued again it would only hold what nothing can use."""
    owners = owners_of(workload)
    return len(owners) == 1 and owners[0].get("kind") == "Pod" and annotations_of(workload).get(IS_GROUP) != "true"
