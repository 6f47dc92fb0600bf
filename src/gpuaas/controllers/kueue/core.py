"""Kueue's core: one engine for the cluster, fed from its objects, and the life of every workload.

`KueueCore` is a controller whose keys are workloads: each reconcile takes the one step that is due (`engine.supervise`).
Cycles run beside it (module scheduler); statuses of queues and flavors are module statuses'.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FINALIZER,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NAMESPACES, NODES, PODS
from gpuaas.controllers.kueue.bounds import Bounds
from gpuaas.controllers.kueue.custom_labels import tell_custom_labels
from gpuaas.controllers.kueue.devices import DeviceInventory, counted_life
from gpuaas.controllers.kueue.gauges import KueueCollector
from gpuaas.controllers.kueue.metrics import KueueCounts
from gpuaas.controllers.kueue.other_pods import OtherPods
from gpuaas.controllers.kueue.scheduler import Scheduler
from gpuaas.controllers.kueue.second_pass import SecondLook
from gpuaas.controllers.kueue.shares import WeightedShares
from gpuaas.controllers.kueue.statuses import QueueStatuses, standing
from gpuaas.controllers.kueue.unadmitted import FinerReasons, Unadmitted
from gpuaas.controllers.kueue.usage import UsageSampling
from gpuaas.controllers.kueue.waiting import WaitingReasons
from gpuaas.controllers.kueue.world import Mirror
from gpuaas.devices.shares import shares_of_flavor
from gpuaas.engine.amounts import written_in_bytes
from gpuaas.engine.engine import Engine
from gpuaas.engine.lifecycle import WorkloadState, lasting_checks, required_checks
from gpuaas.engine.plan import Plan
from gpuaas.engine.supervise import WorkloadContext, next_step
from gpuaas.engine.values import StopPolicy
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.dra.claims import Devices
from gpuaas.kueue.integrations.keys import JOB_UID
from gpuaas.kueue.quotas import cluster_queue_named
from gpuaas.kueue.unadmitted import explained
from gpuaas.kueue.visibility import pending_entry
from gpuaas.kueue.workload_state import conditions_of, is_true, pending_status, status_with, workload_state_of
from gpuaas.kueue.workloads import Reader, gates_of
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, is_deleting
from gpuaas.runtime.writes import write_status

ADMISSION = "kueue-admission"
UNUSABLE = "Inadmissible"


class KueueCore(Controller):
    name = "kueue"
    component = "kueue-workload-controller"
    tells_series = True
    workers = 16

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._configured = configured or Configured()
        self._configured.subscribe(self._reconfigured)
        self.engine = Engine(self._configured.now.engine)
        written_in_bytes(self._configured.now.devices.in_bytes)
        of = deps.informers.of
        self._bounds = Bounds(of, of(WORKLOADS), self._read_again)
        self._devices = DeviceInventory(of, of(WORKLOADS), self._count_again, lambda: self.mirror.reader.forget())
        self.mirror = Mirror(self.engine, self._changed, _reader(self._configured.now, self._bounds, self._devices))
        self._followed += (*self._bounds.follow(), *self._devices.follow())
        self.mirror.others = OtherPods(of(PODS), self.engine.places, self.mirror.other_usage, deps.clock)
        of(TOPOLOGIES).subscribe(self.mirror.others.topology_changed)
        self._followed.append(of(PODS))
        self._local_queues, self._cluster_queues = of(LOCAL_QUEUES), of(CLUSTER_QUEUES)
        self._classes = of(PRIORITY_CLASSES)
        for resource, handler in (
            (NAMESPACES, self.mirror.namespace),
            (RESOURCE_FLAVORS, self.mirror.flavor),
            (TOPOLOGIES, self.mirror.topology),
            (NODES, self.mirror.node),
            (ADMISSION_CHECKS, self.mirror.check),
            (COHORTS, self.mirror.cohort),
            (CLUSTER_QUEUES, self.mirror.cluster_queue),
            (LOCAL_QUEUES, self.mirror.local_queue),
        ):
            informer = of(resource)
            informer.subscribe(handler)
            self._followed.append(informer)
        self._workloads = self.follow(of(WORKLOADS))
        self._workloads.subscribe(self.mirror.workload)
        self.counts = KueueCounts(
            series or new_series(), self.engine, self._configured, deps.clock, self._local_queues.get
        )
        self._admitted_by_labels = tell_custom_labels(
            self.counts.series, self._configured.started_with.metrics.custom, self._workloads, of
        )
        self._workloads.subscribe(self.counts.changed)
        self._local_queues.subscribe(self.counts.local_queue_changed)
        self._cluster_queues.subscribe(self.counts.cluster_queue_changed)
        of(COHORTS).subscribe(self.counts.cohort_changed)
        self._workloads.add_index("queue", _queue_of)
        self._workloads.add_index("class", _class_of)
        # Their statuses change with every workload; that must not bring every other workload up again.
        self.follow(self._local_queues, self._workloads_of_local_queue, by=standing)
        self.follow(self._cluster_queues, self._workloads_of_cluster_queue, by=standing)
        self.follow(self._classes, self._workloads_of_class)
        recorder = deps.events.recorder(ADMISSION, series=True)
        self.scheduler = Scheduler(self.client, self._workloads, self.mirror, deps.clock, recorder, deps.turn)
        self._finer = FinerReasons(self.engine, self._configured)
        self._unadmitted = Unadmitted(self._workloads, self._configured)
        self.waiting = WaitingReasons(self.engine)
        self.scheduler.looked = self._looked
        flavors = of(RESOURCE_FLAVORS)
        self.scheduler.shares_of = lambda name: shares_of_flavor(flavors.get("", name))
        self.scheduler.words.granular = lambda: self._configured.now.reasons.granular
        self._shares = WeightedShares(deps, self._configured, self.engine)
        self._usage = UsageSampling(self.client, self._local_queues, self.engine, deps.clock, self._changed)
        self._second_look = SecondLook(
            self.client, self._workloads, self.engine, self._configured, deps.clock, recorder
        )
        self._started = False
        self._places: Mapping[str, int] | None = None
        self._places_seen: tuple[int, ...] = ()

    def _looked(self, plan: Plan, seconds: float) -> None:
        self.counts.looked(plan, seconds)
        self._finer.looked(plan)
        self.waiting.looked(plan)
        for key, error in plan.faults:
            namespace, _, name = key.partition("/")
            if (obj := self._workloads.get(namespace, name)) is not None:
                self.aside.note(self.name, obj, error)

    def _changed(self) -> None:
        if self._started:
            self.scheduler.wake()

    def _reconfigured(self, before: Configuration, now: Configuration) -> None:
        if before.engine != now.engine:
            self.engine.configure(now.engine)
            self._usage.reconfigured()
        written_in_bytes(now.devices.in_bytes)
        if _way_of_reading(before) != _way_of_reading(now):
            self.mirror.reader = _reader(now, self._bounds, self._devices)
            self._read_again(self._workloads.all())
        if (before.ready, before.finished_kept, before.reasons) != (now.ready, now.finished_kept, now.reasons):
            for obj in self._workloads.all():
                self.queue.add(_key(obj))
        self._changed()

    def _read_again(self, workloads: Iterable[Object]) -> None:
        for obj in workloads:
            self.mirror.workload(obj, obj)

    def _count_again(self, workloads: Iterable[Object]) -> None:
        for obj in workloads:
            self.mirror.workload(obj, obj)
            self.queue.add(_key(obj))

    async def run(self) -> None:
        await self.synced()
        self._started = True  # not before everything is known: half a picture admits too much
        self.scheduler.wake()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.scheduler.run(), name="kueue scheduler")
            group.create_task(super().run(), name="kueue workloads")
            group.create_task(self._usage.run(), name="kueue usage")
            group.create_task(self._shares.run(), name="kueue shares")
            group.create_task(self._second_look.run(), name="kueue second look")

    # Workloads.

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self._workloads.get(key.namespace, key.name)
        if obj is None:
            return None
        if is_deleting(obj):
            await self._let_go(obj)
            return None
        finished = conditions_of(obj).get("Finished")
        if finished is not None and is_true(finished):
            if _is_orphan(obj):
                await self._let_go(obj)
            return await self._forget_finished(obj, finished)
        if _is_orphan(obj):
            await self._finish_orphan(obj)
            return None
        if await self._sync_priority(obj):
            return None
        return await self._step(obj)

    async def _step(self, obj: Object) -> Requeue | None:
        state, now = workload_state_of(obj), self.clock.now()
        counted = counted_life(obj, state, self.mirror.reader, self._configured.now.reasons, round(now * 1000))
        if counted != state:
            await write_status(self.client, WORKLOADS, obj, status_with(obj, counted))
            return None
        around = self._workload_context(obj, state)
        step = next_step(state, around, self._configured.now.ready, round(now * 1000))
        reasons = self._configured.now.reasons
        if reasons.granular:
            step = replace(step, state=explained(step.state, round(now * 1000), explicit=reasons.explicit))
        if step.state != state:
            await self._apply(obj, state, step.state)
            if step.event:
                kind = WARNING if step.warning else NORMAL
                self.recorder.event(WORKLOADS, obj, kind, step.event, step.words[:1024])
            return None
        if (obj.get("status") or {}).get("admission") and state.reserved is not None and not state.reserved.status:
            await write_status(self.client, WORKLOADS, obj, status_with(obj, state))  # what it held goes with the quota
            return None
        await self._say_if_unusable(obj, state)
        return None if step.again_at is None else Requeue(max(0.0, step.again_at / 1000 - now))

    async def _apply(self, obj: Object, before: WorkloadState, after: WorkloadState) -> None:
        meta = obj["metadata"]
        if after.active != before.active:
            patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"active": after.active}}
            await self.client.patch(WORKLOADS, meta["name"], patch, meta["namespace"])
            return
        await write_status(self.client, WORKLOADS, obj, status_with(obj, after))

    async def _say_if_unusable(self, obj: Object, state: WorkloadState) -> None:
        """A workload whose queue cannot be used gets the condition here; the scheduler never sees it."""
        if (state.reserved is not None and state.reserved.status) or gates_of(obj):
            return
        message = self._unusable(obj)
        granular = self._configured.now.reasons.granular
        said = self._finer.why(obj, message) if granular else (UNUSABLE, message) if message else None
        if said is None:
            return
        reason, words = said
        status = pending_status(obj, words, round(self.clock.now() * 1000), reason)
        if status != obj.get("status"):
            await write_status(self.client, WORKLOADS, obj, status)

    def _unusable(self, obj: Object) -> str:
        namespace, name = obj["metadata"]["namespace"], (obj.get("spec") or {}).get("queueName", "")
        local = self._local_queues.get(namespace, name)
        if local is None:
            return f"LocalQueue {name} doesn't exist"
        if ((local.get("spec") or {}).get("stopPolicy") or "None") != "None":
            return f"LocalQueue {name} is inactive"
        cluster = cluster_queue_named(local)
        if self._cluster_queues.get("", cluster) is None:
            return f"ClusterQueue {cluster} doesn't exist"
        queue = self.engine.forest.queues.get(cluster)
        if queue is not None and queue.inactive is not None:
            return f"ClusterQueue {cluster} is inactive"
        return ""

    def _workload_context(self, obj: Object, state: WorkloadState) -> WorkloadContext:
        meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        queue_name = spec.get("queueName", "")
        local = self._local_queues.get(meta["namespace"], queue_name)
        given = status.get("admission")
        name = given["clusterQueue"] if given else (cluster_queue_named(local) if local else None)
        queue = self.engine.forest.queues.get(name) if name else None
        assigned = frozenset(
            flavor
            for each in (given or {}).get("podSetAssignments") or ()
            for flavor in (each.get("flavors") or {}).values()
        )
        required: frozenset[str] = frozenset()
        lasting: frozenset[str] = frozenset()
        if queue is not None:
            lasting = lasting_checks(queue.spec.checks)
            flavors = frozenset(f.flavor for group in queue.spec.groups for f in group.flavors)
            required = required_checks(queue.spec.checks, assigned if given else None, flavors)
        return WorkloadContext(
            f"{meta['namespace']}/{meta['name']}",
            queue_name,
            name,
            required,
            _stop_of(local),
            _stop_of(self._cluster_queues.get("", name)) if name else StopPolicy.NONE,
            gates_of(obj),
            lasting,
        )

    async def _sync_priority(self, obj: Object) -> bool:
        """The value of its priority class is the workload's, also when the class changes."""
        spec = obj.get("spec") or {}
        ref = spec.get("priorityClassRef") or {}
        if ref.get("kind") != "WorkloadPriorityClass":
            return False
        found = self._classes.get("", ref.get("name", ""))
        if found is None or found["value"] == spec.get("priority"):
            return False
        meta = obj["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"priority": found["value"]}}
        await self.client.patch(WORKLOADS, meta["name"], patch, meta["namespace"])
        return True

    async def _forget_finished(self, obj: Object, finished: Mapping[str, Any]) -> Requeue | None:
        """One that has been finished for long enough is deleted, where the configuration says so."""
        kept = self._configured.now.finished_kept
        if kept is None:
            return None
        left = parse_rfc3339(finished["lastTransitionTime"]) + kept - self.clock.now()
        if left > 0:
            return Requeue(left)
        meta = obj["metadata"]
        await self.client.delete(WORKLOADS, meta["name"], meta["namespace"], uid=meta["uid"])
        self.recorder.event(WORKLOADS, obj, NORMAL, "Deleted", "Deleted finished workload due to elapsed retention")
        return None

    async def _finish_orphan(self, obj: Object) -> None:
        """Its job is gone: no other controller would release its quota."""
        status = obj.get("status") or {}
        condition = {
            "type": "Finished",
            "status": "True",
            "reason": "OwnerNotFound",
            "message": "The workload's owner no longer exists",
            "lastTransitionTime": rfc3339(self.clock.now()),
            "observedGeneration": obj["metadata"].get("generation", 1),
        }
        conditions = [each for each in status.get("conditions") or () if each["type"] != "Finished"]
        await write_status(self.client, WORKLOADS, obj, {**status, "conditions": [*conditions, condition]})

    async def _let_go(self, obj: Object) -> None:
        """Takes our finalizer off a workload without owner; while its job lives, the job's controller decides."""
        meta = obj["metadata"]
        if FINALIZER not in (meta.get("finalizers") or ()) or meta.get("ownerReferences"):
            return
        left = [each for each in meta["finalizers"] if each != FINALIZER]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}}
        await self.client.patch(WORKLOADS, meta["name"], patch, meta["namespace"])

    def collector(self, statuses: QueueStatuses) -> KueueCollector:
        """Kueue's metrics."""
        return KueueCollector(
            self.engine,
            self.counts,
            statuses.tally,
            self._configured,
            self._cluster_queues,
            self._local_queues,
            self._unadmitted,
            self._admitted_by_labels,
        )

    # Who waits.

    def cluster_queue_of(self, namespace: str, local_queue: str) -> str | None:
        found = self._local_queues.get(namespace, local_queue)
        return None if found is None else cluster_queue_named(found)

    def pending(self, cluster_queue: str) -> list[Object] | None:
        """The workloads that wait in a ClusterQueue, the next one first, as the visibility API shows them."""
        queue = self.engine.forest.queues.get(cluster_queue)
        if queue is None:
            return None
        places: dict[str, int] = {}
        found: list[Object] = []
        for position, item in enumerate(queue.pending.ordered()):
            namespace, _, name = item.key.partition("/")
            obj = self._workloads.get(namespace, name)
            place = places.get(item.workload.queue_key, 0)
            places[item.workload.queue_key] = place + 1
            if obj is not None:
                found.append(pending_entry(obj, position, place))
        return found

    def positions(self) -> Mapping[str, int]:
        """The places of all that wait in their ClusterQueues, from 1; the same mapping until something could change it.

        The order of a queue follows from its Workloads and its configuration, whose news the engine takes before any
        other reader sees the informers move; under admission fair sharing it also follows from time.
        """
        seen = tuple(each.revision for each in (self._workloads, self._local_queues, self._cluster_queues))
        if self._places is None or self._places_seen != seen or self.engine.ledger is not None:
            self._places_seen = seen
            self._places = {
                item.key: place
                for queue in self.engine.forest.queues.values()
                for place, item in enumerate(queue.pending.ordered(), 1)
            }
        return self._places

    async def synced(self) -> None:
        """Returns when the engine knows all that was there when the controllers began."""
        for informer in self._followed:
            await informer.synced()

    # Whose news concerns whom.

    def _workloads_of_local_queue(self, queue: Mapping[str, Any]) -> list[Key]:
        meta = queue["metadata"]
        return [_key(obj) for obj in self._workloads.indexed("queue", f"{meta['namespace']}/{meta['name']}")]

    def _workloads_of_cluster_queue(self, queue: Mapping[str, Any]) -> list[Key]:
        name = queue["metadata"]["name"]
        return [
            key
            for local in self._local_queues.all()
            if cluster_queue_named(local) == name
            for key in self._workloads_of_local_queue(local)
        ]

    def _workloads_of_class(self, found: Mapping[str, Any]) -> list[Key]:
        return [_key(obj) for obj in self._workloads.indexed("class", found["metadata"]["name"])]


def _is_orphan(obj: Mapping[str, Any]) -> bool:
    """Made for a job, and no longer owned by one."""
    meta = obj["metadata"]
    return not meta.get("ownerReferences") and bool((meta.get("labels") or {}).get(JOB_UID))


def _way_of_reading(configuration: Configuration) -> tuple[object, ...]:
    """What decides how a workload looks to the engine."""
    now = configuration
    return now.resources, now.requeue_by_creation, now.engine.block_admission, now.counts, now.devices


def _reader(configuration: Configuration, bounds: Bounds, devices: DeviceInventory) -> Reader:
    return Reader(
        configuration.resources,
        bounds.limits,
        bounds.overhead,
        by_creation=configuration.requeue_by_creation,
        counts=configuration.counts,
        devices=Devices(configuration.devices, devices),
    )


def _key(obj: Mapping[str, Any]) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


def _queue_of(obj: Mapping[str, Any]) -> list[str]:
    return [f"{obj['metadata']['namespace']}/{(obj.get('spec') or {}).get('queueName', '')}"]


def _class_of(obj: Mapping[str, Any]) -> list[str]:
    ref = (obj.get("spec") or {}).get("priorityClassRef") or {}
    return [ref["name"]] if ref.get("kind") == "WorkloadPriorityClass" else []


def _stop_of(queue: Mapping[str, Any] | None) -> StopPolicy | None:
    if queue is None or queue["metadata"].get("deletionTimestamp"):
        return None
    return StopPolicy((queue.get("spec") or {}).get("stopPolicy") or "None")
