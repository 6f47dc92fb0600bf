"""StatefulSets under Kueue: one workload a set, which its pods join as a group; module pods does the rest.

Scaled to zero a set keeps its workload, on hold and without quota; scaled up again it queues again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS, STATEFUL_SETS
from gpuaas.controllers.integrations.held import HeldController
from gpuaas.controllers.integrations.workloads import patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys, outcome
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of, owner_reference, queue_of
from gpuaas.kueue.integrations.pods import group_of, has_ended
from gpuaas.kueue.integrations.replicated import (
    STATEFUL_SET,
    belongs_to_others,
    member,
    owner_notes,
    replicas_of,
    stateful_set_workload,
    workload_name_of,
)
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.metadata import Key, controller_of, finalizers_of, is_deleting, owners_of, uid_of

ON_HOLD = "StatefulSet scaled to zero; workload on hold"
OFF_HOLD = "Workload no longer on hold; waiting for quota reservation"


class StatefulSetJobs(HeldController):
    integration = STATEFUL_SET
    name = "statefulset-kueue-controller"
    component = "statefulset-kueue-controller"

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps, configured, series)
        self._pods = self.follow(deps.informers.of(PODS), self._set_of)

    def _set_of(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        owner = controller_of(pod)
        if owner is None or annotations_of(pod).get(keys.SUSPENDING_PARENT) != STATEFUL_SET.framework:
            return
        if (owner.get("apiVersion"), owner.get("kind")) == (STATEFUL_SETS.api_version, STATEFUL_SETS.kind):
            yield Key(pod["metadata"]["namespace"], owner["name"])

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self.jobs.get(*key)
        if obj is None or is_deleting(obj) or belongs_to_others(obj):
            return None
        if not self.waits_by_itself(obj):
            return None
        for pod in self._pods.owned_by(uid_of(obj)):
            await self._join(pod, obj)
        await self._sync(obj)
        return None

    async def _join(self, pod: Object, obj: Object) -> None:
        if has_ended(pod) or is_deleting(pod):
            if keys.MANAGED in finalizers_of(pod):
                left = [each for each in finalizers_of(pod) if each != keys.MANAGED]
                await self._patch(pod, {**pod, "metadata": {**pod["metadata"], "finalizers": left}})
            return
        name = self._name(obj)
        if group_of(pod) != name:
            await self._patch(pod, member(pod, obj, name))
        elif queue_of(obj) and queue_of(pod) != queue_of(obj):
            labels = {**labels_of(pod), keys.QUEUE: queue_of(obj)}
            await self._patch(pod, {**pod, "metadata": {**pod["metadata"], "labels": labels}})

    def _name(self, obj: Object) -> str:
        namespace = obj["metadata"]["namespace"]
        return workload_name_of(obj, lambda name: self.workloads.get(namespace, name))

    async def _patch(self, pod: Object, changed: Object) -> None:
        try:
            await patch_to(self.client, PODS, pod, changed)
        except NotFound:
            return

    async def _sync(self, obj: Object) -> None:
        replicas = replicas_of(obj)
        workload = self.workloads.get(obj["metadata"]["namespace"], self._name(obj))
        if workload is None:
            if replicas:
                await self._create(obj)
            return
        workload = await self._bring_in_line(obj, workload, replicas)
        workload = await self.sync_gates(obj, workload)
        if replicas == 0 and outcome.is_reserved(workload) and not outcome.is_finished(workload):
            if workload["spec"].get("active", True):
                status = outcome.unreserved(workload, "OnHold", ON_HOLD, self.millis())
                await self.workloads.write(workload, status)
        elif replicas and outcome.is_on_hold(workload):
            status = outcome.unreserved(workload, "Pending", OFF_HOLD, self.millis())
            await self.workloads.write(workload, status)

    async def _bring_in_line(self, obj: Object, workload: Object, replicas: int) -> Object:
        changed = workload
        if replicas and uid_of(obj) not in {each["uid"] for each in owners_of(workload)}:
            owners = [*owners_of(workload), owner_reference(obj, STATEFUL_SETS, controller=False)]
            notes = {**annotations_of(workload), **owner_notes(obj)}
            changed = {
                **changed,
                "metadata": {**workload["metadata"], "ownerReferences": owners, "annotations": notes},
            }
        if replicas and workload["spec"].get("queueName", "") != queue_of(obj):
            changed = {**changed, "spec": {**workload["spec"], "queueName": queue_of(obj)}}
        return await self.workloads.change(workload, changed)

    async def _create(self, obj: Object) -> None:
        workload = stateful_set_workload(obj)
        workload["spec"] |= self.priority(obj, workload["spec"]["podSets"])
        try:
            made = await self.client.create(WORKLOADS, workload, workload["metadata"]["namespace"])
        except AlreadyExists:
            return
        self.created(obj, made)
