"""Makes what module sets wants. The workers of a leader go with it, and it goes when one of them does or starts again,
unless the set says otherwise: a group is replaced as a whole. A new template is rolled out by the leaders' StatefulSet.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import PODS, SERVICES, STATEFUL_SETS
from gpuaas.controllers.leader_worker_sets import sets
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, is_controlled_by, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import is_ready
from gpuaas.runtime.writes import merge_diff, write_status

_KIND = sets.LEADER_WORKER_SETS
_WHOLE = "RecreateGroupOnPodRestart"


class LeaderWorkerSetController(Controller):
    name = "leaderworkerset-controller"
    component = "leaderworkerset"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._wholes = self.follow(deps.informers.of(_KIND))
        self._sets = self.follow(deps.informers.of(STATEFUL_SETS), _whole_of)
        self._pods = self.follow(deps.informers.of(PODS), _whole_of)
        self._services = deps.informers.of(SERVICES)
        self._followed.append(self._services)

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self._wholes.get(*key)
        if obj is None or not obj.get("spec") or is_deleting(obj):
            return None
        await self._ensure_service(obj)
        leaders = await self._ensure_leaders(obj)
        if leaders is None:
            return None
        pods = [pod for pod in self._pods.owned_by(uid_of(leaders)) if not is_deleting(pod)]
        for broken in [pod for pod in pods if self._is_broken(obj, pod)]:
            pods.remove(broken)
            await self._remove(PODS, broken)
        groups = [(pod, await self._ensure_workers(obj, pod)) for pod in pods]
        await write_status(self.client, _KIND, obj, sets.status(obj, groups, rfc3339(self.clock.now())))
        return None

    async def _ensure_service(self, obj: Object) -> None:
        metadata = obj["metadata"]
        if self._services.get(metadata["namespace"], metadata["name"]) is not None:
            return
        try:
            await self.client.create(SERVICES, sets.service(obj), metadata["namespace"])
        except AlreadyExists:
            return

    async def _ensure_leaders(self, obj: Object) -> Object | None:
        """None while a set of that name has another owner."""
        metadata, wanted = obj["metadata"], sets.leaders(obj)
        known = self._sets.get(metadata["namespace"], metadata["name"])
        if known is None:
            words = f"Created leader statefulset {metadata['name']}"
            self.recorder.event(_KIND, obj, NORMAL, "GroupsProgressing", words)
            return await self.client.create(STATEFUL_SETS, wanted, metadata["namespace"])
        if not is_controlled_by(known, obj):
            return None
        patch: Object = {}
        if known["spec"].get("replicas") != wanted["spec"]["replicas"]:
            patch["spec"] = {"replicas": wanted["spec"]["replicas"]}
        if labels_of(known).get(sets.REVISION) != labels_of(wanted)[sets.REVISION]:
            patch = {"metadata": {"labels": wanted["metadata"]["labels"]}, "spec": patch.get("spec", {})}
            patch["spec"]["template"] = merge_diff(known["spec"]["template"], wanted["spec"]["template"])
        if not patch:
            return known
        return await self.client.patch(STATEFUL_SETS, metadata["name"], patch, metadata["namespace"])

    async def _ensure_workers(self, obj: Object, leader: Object) -> Object | None:
        name, namespace = leader["metadata"]["name"], leader["metadata"]["namespace"]
        known = self._sets.get(namespace, name)
        if known is not None:
            if is_controlled_by(known, leader) or is_deleting(known):
                return known
            await self._remove(STATEFUL_SETS, known)  # of a leader that has gone
            return None
        if sets.size_of(obj) < 2 or sets.GROUP not in labels_of(leader):
            return None
        if obj["spec"].get("startupPolicy") == "LeaderReady" and not is_ready(leader):
            return None
        try:
            return await self.client.create(STATEFUL_SETS, sets.workers(obj, leader), namespace)
        except AlreadyExists:
            return None

    def _is_broken(self, obj: Object, leader: Object) -> bool:
        if obj["spec"]["leaderWorkerTemplate"].get("restartPolicy", _WHOLE) != _WHOLE:
            return False
        known = self._sets.get(leader["metadata"]["namespace"], leader["metadata"]["name"])
        mine = known is not None and is_controlled_by(known, leader)
        workers = self._pods.owned_by(uid_of(known)) if known is not None and mine else []
        return _has_restarted(leader) or any(is_deleting(pod) or _has_restarted(pod) for pod in workers)

    async def _remove(self, resource: Resource, obj: Object) -> None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        try:
            await self.client.delete(resource, name, namespace, uid=uid_of(obj), propagation=Propagation.FOREGROUND)
        except NotFound:
            return


def _has_restarted(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status") or {}
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return any(each.get("restartCount", 0) > 0 for each in containers)


def _whole_of(obj: Mapping[str, Any]) -> Iterable[Key]:
    name = (obj["metadata"].get("labels") or {}).get(sets.NAME)
    return (Key(obj["metadata"]["namespace"], name),) if name else ()
