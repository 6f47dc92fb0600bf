"""What the controllers of all held kinds share: whether an object waits at all, and its workload's priority and gates.

Whether it is held is `JobsConfig`'s and its ancestors' question.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.kueue import PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import NAMESPACES
from gpuaas.controllers.integrations.workloads import Later, Workloads
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations import keys, outcome
from gpuaas.kueue.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.integration import Integration
from gpuaas.kueue.integrations.jobs import PriorityMissing, priority_class_of, priority_of, queue_of
from gpuaas.kueue.integrations.registry import KINDS, kinds_of
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, key_of, labels_of, owners_of

POD_PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
_EVENT_LIMIT = 1024


class HeldController(Controller):
    """Subclasses name the integration they run."""

    integration: Integration
    workers = 32  # each waits for its writes; the more wait together, the more the store writes at once
    tells_series = True
    always_on = False
    """Looks after what is held already even where the configuration has its integration off."""
    of_owned = True
    """Only workloads with an owner concern its jobs."""

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._series = series or new_series()
        self._configured = configured or Configured()
        self._configured.subscribe(self._reconfigured)
        of = deps.informers.of
        self.jobs = self.follow(of(self.integration.resource), self.job_keys)
        self.workloads = Workloads(self.client, of(WORKLOADS), self.clock)
        self.follow(of(WORKLOADS), self.workload_keys, owned=self.of_owned)
        self._namespaces = of(NAMESPACES)
        self.workload_classes, self.pod_classes = of(PRIORITY_CLASSES), of(POD_PRIORITY_CLASSES)
        self._followed += [self._namespaces, self.workload_classes, self.pod_classes]
        for resource in KINDS.resources:
            of(resource)  # known before an owner is asked for; kinds that are not served are not waited for

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

    def workload_keys(self, workload: Mapping[str, Any]) -> Iterable[Any]:
        """Its job, and the children of its job."""
        owners = owners_of(workload)
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

    def held(self, namespace: str) -> bool | None:
        """Whether jobs there wait although they name no queue; None where none is looked at."""
        if not (self.always_on or self.config.enables(self.integration.framework)):
            return None
        found = self._namespaces.get("", namespace)
        if found is None or not self.config.selects(labels_of(found)):
            return None
        return self.config.holds_without_queue(labels_of(found))

    def waits_by_itself(self, obj: Object) -> bool:
        """Whether it is to have workloads, and no ancestor has one for it."""
        held = self.held(obj["metadata"]["namespace"])
        if held is None or not (held or queue_of(obj)):
            return False
        try:
            return self.ancestor(obj, held=held) is None
        except (OwnerMissing, TooDeep) as error:
            raise Later(str(error)) from error

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

    async def sync_gates(self, job: Object, workload: Object) -> Object:
        wanted, known = (annotations_of(each).get(keys.GATED_BY, "") for each in (job, workload))
        if wanted == known:
            return workload
        annotations = {key: value for key, value in annotations_of(workload).items() if key != keys.GATED_BY}
        if wanted:
            annotations[keys.GATED_BY] = wanted
        metadata = {**workload["metadata"], "annotations": annotations}
        workload = await self.workloads.change(workload, {**workload, "metadata": metadata})
        self.tell(job, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{wanted}"')
        return workload

    async def sync_priority(self, job: Object, workload: Object) -> Object:
        """The job's label rules its class, also while it runs; other classes, and none at all, stay as they were."""
        spec = workload["spec"]
        ref = spec.get("priorityClassRef")
        if ref is None and outcome.is_reserved(workload):
            return workload
        if ref is not None and ref.get("kind") != "WorkloadPriorityClass":
            return workload
        if (ref or {}).get("name", "") == priority_class_of(job):
            return workload
        found = self.priority(job, list(spec.get("podSets") or ()))
        if (found.get("priorityClassRef"), found["priority"]) == (ref, spec.get("priority")):
            return workload
        kept = {key: value for key, value in spec.items() if key not in ("priority", "priorityClassRef")}
        workload = await self.workloads.change(workload, {**workload, "spec": {**kept, **found}})
        self.tell(job, "UpdatedWorkload", f"Updated workload priority class: {key_of(workload)}")
        return workload

    def millis(self) -> int:
        return round(self.clock.now() * 1000)
