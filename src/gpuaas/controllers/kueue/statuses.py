"""The statuses of ClusterQueues and LocalQueues, and the finalizers that keep quotas and flavors while they are used."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FINALIZER,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.kueue.activity import Active, check_names, cluster_queue_active, flavor_names, local_queue_active
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.quotas import cluster_queue_named
from gpuaas.kueue.usage_counts import Share, Tally, cluster_queue_status, local_queue_status, share_of
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import is_deleting
from gpuaas.runtime.pace import Pace
from gpuaas.runtime.writes import write_status

# What a key means: the resource, the namespace, the name.
Thing = tuple[Resource, str, str]
_BURST, _RATE = 10, 1.0  # writes of the counts of one queue: at once, and a second (upstream too gathers for one)
_COUNTED = frozenset({"flavorsReservation", "flavorsUsage"})  # not there at all where nothing is counted


class QueueStatuses(Controller):
    name = "kueue-statuses"
    workers = 4

    def __init__(self, deps: Deps, configured: Configured | None = None) -> None:
        super().__init__(deps)
        self._configured = configured or Configured()
        self.tally = Tally()
        self._paces: dict[Thing, Pace] = {}
        self._held: dict[Thing, str] = {}
        of = deps.informers.of
        self._workloads = of(WORKLOADS)
        self._queues = self.follow(of(CLUSTER_QUEUES), lambda obj: [_thing(CLUSTER_QUEUES, obj)])
        self._locals = self.follow(of(LOCAL_QUEUES), lambda obj: [_thing(LOCAL_QUEUES, obj)])
        self.follow(self._queues, self._around_cluster_queue, by=standing)
        self.follow(self._locals, self._around_local_queue, by=standing)
        self._flavors = self.follow(of(RESOURCE_FLAVORS), self._around_flavor)
        self._checks = self.follow(
            of(ADMISSION_CHECKS), lambda obj: [_thing(ADMISSION_CHECKS, obj), *self._all_queues()]
        )
        self._topologies = self.follow(of(TOPOLOGIES), lambda obj: [_thing(TOPOLOGIES, obj), *self._all_queues()])
        self._cohorts = self.follow(of(COHORTS), lambda _: self._all_queues(), by=_parent)
        self._followed.append(self._workloads)
        self._workloads.subscribe(self._count)

    def _count(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        meta = obj["metadata"]
        local = self._locals.get(meta["namespace"], (obj.get("spec") or {}).get("queueName", ""))
        name = cluster_queue_named(local) if local is not None else ""
        share = share_of(new, name, self._configured.now.counts.reclaims) if new else None
        if share is not None and local is not None and _is_stopped(local):
            share = replace(share, pending=False)  # it stands in no line
        for each in self.tally.put(f"{meta['namespace']}/{meta['name']}", share):
            self._look_at(each)

    def _look_at(self, share: Share | None) -> None:
        if share is None:
            return
        namespace, _, name = share.local_queue.partition("/")
        self._count_again((LOCAL_QUEUES, namespace, name))
        if share.cluster_queue:
            self._count_again((CLUSTER_QUEUES, "", share.cluster_queue))

    def _count_again(self, queue: Thing) -> None:
        """Not before its counts may be written again."""
        pace = self._paces.get(queue)
        self.queue.add_after(queue, pace.wait(self.clock.monotonic()) if pace is not None else 0.0)

    def _around_cluster_queue(self, obj: Mapping[str, Any]) -> list[Thing]:
        name = obj["metadata"]["name"]
        things = [_thing(LOCAL_QUEUES, each) for each in self._locals.all() if cluster_queue_named(each) == name]
        # What it held on to may be let go.
        return [*things, *_leaving(RESOURCE_FLAVORS, self._flavors), *_leaving(ADMISSION_CHECKS, self._checks)]

    def _around_flavor(self, obj: Mapping[str, Any]) -> list[Thing]:
        return [_thing(RESOURCE_FLAVORS, obj), *self._all_queues(), *_leaving(TOPOLOGIES, self._topologies)]

    def _around_local_queue(self, obj: Mapping[str, Any]) -> list[Thing]:
        """A LocalQueue that comes or goes changes whom its workloads count for."""
        meta = obj["metadata"]
        for each in self._workloads.indexed("queue", f"{meta['namespace']}/{meta['name']}"):
            self._count(each, each)
        return [(CLUSTER_QUEUES, "", cluster_queue_named(obj))]

    def _all_queues(self) -> list[Thing]:
        return [_thing(CLUSTER_QUEUES, each) for each in self._queues.all()]

    async def reconcile(self, key: Thing) -> Requeue | None:
        resource, namespace, name = key
        informer = self.informers.known(resource)
        obj = informer.get(namespace, name) if informer is not None else None
        if obj is None:
            self._paces.pop(key, None)
            self._held.pop(key, None)
            return None
        if resource is not LOCAL_QUEUES and await self._hold_or_release(resource, obj):
            return None
        if resource is CLUSTER_QUEUES:
            return await self._write(
                resource, obj, cluster_queue_status(obj, self.tally.cluster_queues[name]), self._active(obj)
            )
        if resource is LOCAL_QUEUES:
            found = self._queues.get("", cluster_queue_named(obj))
            totals = self.tally.local_queues[f"{namespace}/{name}"]
            active = self._active(found) if found is not None else (False, "", "")
            active = local_queue_active(obj, found, active)
            return await self._write(resource, obj, local_queue_status(found, totals), active)
        return None

    async def _write(self, resource: Resource, obj: Object, counts: Object, active: Active) -> Requeue | None:
        """Writes what changed; where nothing but counts does, and does all the time, only a few times a second."""
        conditions = _with_condition(obj, active, rfc3339(self.clock.now()))
        pace = self._paces.setdefault(_thing(resource, obj), Pace(_BURST, _RATE))
        wait = pace.wait(self.clock.monotonic())
        if wait and conditions == (obj.get("status") or {}).get("conditions"):
            return Requeue(wait)
        kept = {key: value for key, value in (obj.get("status") or {}).items() if key not in _COUNTED}
        if await write_status(self.client, resource, obj, {**kept, **counts, "conditions": conditions}):
            pace.spend()
        return None

    async def _hold_or_release(self, resource: Resource, obj: Object) -> bool:
        """The finalizer is there while the object is in use, or may come to be; whether it was changed. But for queues,
        who takes it off by hand means it: it does not come back."""
        meta = obj["metadata"]
        finalizers = list(meta.get("finalizers") or ())
        if not is_deleting(obj):
            known = resource is not CLUSTER_QUEUES and self._held.get(_thing(resource, obj)) == meta["uid"]
            if known or FINALIZER in finalizers:
                self._held[_thing(resource, obj)] = meta["uid"]
                return False
            finalizers.append(FINALIZER)
        elif FINALIZER not in finalizers or self._in_use(resource, meta["name"]):
            return False
        else:
            finalizers.remove(FINALIZER)
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": finalizers or None}}
        await self.client.patch(resource, meta["name"], patch)
        return True

    def _in_use(self, resource: Resource, name: str) -> bool:
        if resource is CLUSTER_QUEUES:
            return self.tally.cluster_queues[name].reserving > 0
        if resource is RESOURCE_FLAVORS:
            return any(name in flavor_names(each) for each in self._queues.all())
        if resource is ADMISSION_CHECKS:
            return any(name in check_names(each) for each in self._queues.all())
        return any((each.get("spec") or {}).get("topologyName") == name for each in self._flavors.all())

    def _active(self, queue: Object) -> Active:
        return cluster_queue_active(
            queue,
            lambda name: self._flavors.get("", name),
            lambda name: self._checks.get("", name),
            lambda name: self._topologies.get("", name),
            lambda name: self._cohorts.get("", name),
        )


def _parent(cohort: Mapping[str, Any]) -> Any:
    return (cohort.get("spec") or {}).get("parentName")


def _is_stopped(local: Mapping[str, Any]) -> bool:
    return ((local.get("spec") or {}).get("stopPolicy") or "None") != "None"


def standing(queue: Mapping[str, Any]) -> tuple[Any, ...]:
    """What others depend on in a queue: what was asked of it and whether it is active, not how much is in it."""
    meta = queue["metadata"]
    conditions = (queue.get("status") or {}).get("conditions") or ()
    active = next((each["status"] for each in conditions if each["type"] == "Active"), None)
    return meta["uid"], meta.get("generation"), meta.get("deletionTimestamp"), active


def _with_condition(obj: Object, active: Active, now: str) -> list[Object]:
    good, reason, message = active
    status = "True" if good else "False"
    others = [each for each in (obj.get("status") or {}).get("conditions") or () if each["type"] != "Active"]
    found = next((each for each in (obj.get("status") or {}).get("conditions") or () if each["type"] == "Active"), None)
    since = found["lastTransitionTime"] if found is not None and found["status"] == status else now
    condition = {
        "type": "Active",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": obj["metadata"].get("generation", 1),
    }
    return [*others, condition]


def _leaving(resource: Resource, informer: Informer) -> list[Thing]:
    return [_thing(resource, each) for each in informer.all() if is_deleting(each)]


def _thing(resource: Resource, obj: Mapping[str, Any]) -> Thing:
    return resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
