"""LeaderWorkerSets under Kueue: one workload a replica, which its pods join as a group; module pods does the rest."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.controllers.integrations.held import HeldController
from gpuaas.controllers.integrations.workloads import patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.jobs import labels_of, queue_of
from gpuaas.kueue.integrations.leader_worker_set import (
    GROUP_INDEX,
    LEADER_WORKER_SET,
    SET_NAME,
    member,
    name_of,
    workload,
)
from gpuaas.kueue.integrations.pods import has_ended, has_gate
from gpuaas.kueue.integrations.replicated import replicas_of
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting, uid_of

SET = "leader worker set"


class LeaderWorkerSetJobs(HeldController):
    integration = LEADER_WORKER_SET
    name = f"{LEADER_WORKER_SET.framework}-kueue-controller"
    component = name

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps, configured, series)
        self._pods = self.follow(deps.informers.of(PODS), _set_of)
        self._pods.add_index(SET, lambda pod: map(str, _set_of(pod)))

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self.jobs.get(*key)
        if obj is None or is_deleting(obj) or not obj.get("spec") or not self.waits_by_itself(obj):
            return None
        await self._sync(obj)
        for pod in self._pods.indexed(SET, str(key)):
            await self._join(pod, obj)
        return None

    async def _sync(self, obj: Object) -> None:
        """A workload for each replica, and none for those it has no more."""
        owned = {each["metadata"]["name"]: each for each in self.workloads.owned_by(uid_of(obj))}
        for group in range(replicas_of(obj)):
            known = owned.pop(name_of(obj, group), None)
            if known is None:
                await self._create(obj, group)
                continue
            if known["spec"].get("queueName", "") != queue_of(obj):
                changed = {**known, "spec": {**known["spec"], "queueName": queue_of(obj)}}
                known = await self.workloads.change(known, changed)
            known = await self.sync_gates(obj, known)
            await self.sync_priority(obj, known)
        for left in owned.values():
            await self.workloads.delete(left)

    async def _create(self, obj: Object, group: int) -> None:
        made = workload(obj, group)
        made["spec"] |= self.priority(obj, made["spec"]["podSets"])
        try:
            created = await self.client.create(WORKLOADS, made, made["metadata"]["namespace"])
        except AlreadyExists:
            return
        self.created(obj, created)

    async def _join(self, pod: Object, obj: Object) -> None:
        group = labels_of(pod).get(GROUP_INDEX)
        if group is None or has_ended(pod) or is_deleting(pod):
            return
        if keys.MANAGED in labels_of(pod):
            if not queue_of(obj) or not has_gate(pod) or queue_of(pod) == queue_of(obj):
                return
            labels = {**labels_of(pod), keys.QUEUE: queue_of(obj)}
            changed = {**pod, "metadata": {**pod["metadata"], "labels": labels}}
        else:
            changed = member(pod, obj, group)
        try:
            await patch_to(self.client, PODS, pod, changed)
        except NotFound:
            return


def _set_of(pod: Mapping[str, Any]) -> Iterable[Key]:
    name = (pod["metadata"].get("labels") or {}).get(SET_NAME)
    if name:
        yield Key(pod["metadata"]["namespace"], name)
