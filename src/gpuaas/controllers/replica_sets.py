"""ReplicaSet, or its elder the ReplicationController → pods: as many as it says, of whom the least useful go first.

Too few: pods are made in growing batches; too many: `deletion_order` says which. A failure to do either is recorded in the
condition ReplicaFailure. Which ReplicaSet has how many replicas is decided elsewhere (deployments, or the user).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.base.selectors import LabelSelector, from_label_selector
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.failed_pods import FailedPods
from gpuaas.runtime.metadata import Key, controller_of, is_controlled_by, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import (
    NOTHING,
    ORPHANS,
    PodControl,
    condition_of,
    deletion_order,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    orphan_index,
    pod_from_template,
    seconds_to_available,
    selector_of,
    selects,
)
from gpuaas.runtime.values import without_zeros
from gpuaas.runtime.writes import write_status

BURST = 500
FAILURE = "ReplicaFailure"
_BACKING_OFF = "Back-off creating pods: those created last have failed"


@dataclass(frozen=True, slots=True)
class Plan:
    create: int = 0
    delete: Sequence[Object] = ()


def decide(replica_set: Mapping[str, Any], active: Sequence[Object], related: Iterable[Object], now: float) -> Plan:
    """What is missing or too much. `related` are the pods of all replica sets of the same owner."""
    if is_deleting(replica_set):
        return Plan()
    missing = _wanted(replica_set) - len(active)
    if missing >= 0:
        return Plan(create=min(missing, BURST))
    on_node = Counter(pod["spec"].get("nodeName") or "" for pod in related if is_active(pod))
    return Plan(delete=deletion_order(active, now, on_node)[: min(-missing, BURST)])


def decide_status(
    replica_set: Mapping[str, Any], active: Sequence[Object], terminating: int, failure: str, now: float
) -> Object:
    """`failure` is what went wrong with making or removing pods, if anything did."""
    min_ready = replica_set["spec"].get("minReadySeconds") or 0
    wanted_labels = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    fields = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted_labels.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        "terminatingReplicas": terminating,
        "observedGeneration": replica_set["metadata"].get("generation"),
        "conditions": _conditions(replica_set, len(active), failure, now),
    }
    return without_zeros(fields, "replicas", "terminatingReplicas")


def _conditions(replica_set: Mapping[str, Any], active: int, failure: str, now: float) -> list[Object]:
    known = (replica_set.get("status") or {}).get("conditions") or []
    others = [one for one in known if one["type"] != FAILURE]
    if not failure:
        return others
    if condition_of(replica_set, FAILURE) is not None:
        return list(known)
    reason = "FailedCreate" if active < _wanted(replica_set) else "FailedDelete"
    condition = {
        "type": FAILURE,
        "status": "True",
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": failure,
    }
    return [*others, condition]


def _wanted(replica_set: Mapping[str, Any]) -> int:
    replicas = replica_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


class ReplicaSetController(Controller):
    name = "replicaset-controller"
    component = "replicaset-controller"
    workers = 5
    resource = REPLICA_SETS

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._sets = self.follow(deps.informers.of(self.resource))
        pods = deps.informers.of(PODS)
        pods.add_index(ORPHANS, orphan_index)
        self._pods = self.follow(pods, self._concerned)
        self._control = PodControl(self.client, self.recorder, self.resource)
        self._failed = FailedPods()

    def selector(self, replica_set: Mapping[str, Any]) -> LabelSelector:
        return selector_of(replica_set)

    def status(
        self, replica_set: Mapping[str, Any], active: Sequence[Object], terminating: int, failure: str, now: float
    ) -> Object:
        return decide_status(replica_set, active, terminating, failure, now)

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        """The set that controls the pod, or every set that might adopt it."""
        namespace = pod["metadata"].get("namespace") or ""
        reference = controller_of(pod)
        if reference is not None:
            return (Key(namespace, reference["name"]),) if reference["kind"] == self.resource.kind else ()
        candidates = self._sets.in_namespace(namespace)
        return [key_of(one) for one in candidates if selects(one, labels_of(pod), self.selector)]

    async def reconcile(self, key: Key) -> Requeue | None:
        replica_set = self._sets.get(*key)
        if replica_set is None:
            return None
        if is_deleting(replica_set):
            self._failed.forget(uid_of(replica_set))
        pods = self._pods.owned_by(uid_of(replica_set)) + self._pods.indexed(ORPHANS, key.namespace)
        selector = self.selector(replica_set)
        active = await self._control.claim(replica_set, selector, filter(is_active, pods))
        terminating = sum(
            is_terminating(pod) and is_controlled_by(pod, replica_set) and selector.matches(labels_of(pod))
            for pod in pods
        )
        now = self.clock.now()
        plan = decide(replica_set, active, self._related(replica_set), now)
        pause = self._failed.wait(uid_of(replica_set), filter(partial(is_controlled_by, owner=replica_set), pods), now)
        paused = bool(plan.create and pause)
        error = None if paused else await self._apply(replica_set, plan)
        failure = error.message if error else _BACKING_OFF if paused else ""
        status = self.status(replica_set, active, terminating, failure, now)
        if paused and condition_of(replica_set, FAILURE) is None:
            self.recorder.event(self.resource, replica_set, WARNING, "BackOff", _BACKING_OFF)
        await write_status(self.client, self.resource, replica_set, status)
        if error is not None:
            raise error
        min_ready = replica_set["spec"].get("minReadySeconds") or 0
        wait = seconds_to_available(active, min_ready, now) if min_ready else None
        waits = [each for each in (wait, pause if paused else None) if each is not None]
        return Requeue(min(waits)) if waits else None

    async def _apply(self, replica_set: Object, plan: Plan) -> ApiError | None:
        template = replica_set["spec"]["template"]
        pods = [pod_from_template(template, replica_set, self.resource) for _ in range(plan.create)]
        try:
            await self._control.create_many(replica_set, pods)
            if plan.delete:
                await asyncio.gather(*(self._control.delete(replica_set, pod) for pod in plan.delete))
        except ApiError as error:
            return error
        return None

    def _related(self, replica_set: Object) -> list[Object]:
        reference = controller_of(replica_set)
        if reference is None:
            return self._pods.owned_by(uid_of(replica_set))
        siblings = self._sets.owned_by(reference["uid"])
        return [pod for sibling in siblings for pod in self._pods.owned_by(uid_of(sibling))]


class ReplicationManager(ReplicaSetController):
    """The same for replication controllers, whose selector is plain labels and whose status counts no leavers."""

    name = "replicationcontroller-controller"
    component = "replication-controller"
    resource = REPLICATION_CONTROLLERS

    def selector(self, replica_set: Mapping[str, Any]) -> LabelSelector:
        labels = replica_set["spec"].get("selector")
        return from_label_selector({"matchLabels": labels}) or NOTHING if labels else NOTHING

    def status(
        self, replica_set: Mapping[str, Any], active: Sequence[Object], terminating: int, failure: str, now: float
    ) -> Object:
        status = decide_status(replica_set, active, terminating, failure, now)
        status.pop("terminatingReplicas", None)
        return status
