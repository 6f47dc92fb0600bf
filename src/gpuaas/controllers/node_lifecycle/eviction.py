"""Pods leave nodes with NoExecute taints they do not tolerate, at once or after the seconds they tolerate it for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.node_lifecycle.controller import ON_NODE, node_of
from gpuaas.nodefit.constraints import tolerates
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, is_deleting, key_of, uid_of
from gpuaas.runtime.pods import is_finished


def leaves_at(
    taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]], seen: float
) -> float | None:
    """When a pod has to go: now or never (None), or when the shortest of its tolerations ends."""
    ends: list[float] = []
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        matching = [one for one in tolerations if tolerates(one, taint)]
        if not matching:
            return seen
        limits = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
        if limits:
            since = parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else seen
            ends.append(since + max(min(limits), 0))
    return min(ends, default=None)


class TaintEvictionController(Controller):
    name = "taint-eviction-controller"
    component = "taint-eviction-controller"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        pods = deps.informers.of(PODS)
        pods.add_index(ON_NODE, node_of)
        self._pods = self.follow(pods, _bound)
        self._nodes = self.follow(deps.informers.of(NODES), self._there)

    def _there(self, node: Mapping[str, Any]) -> Iterable[Key]:
        if not any(one.get("effect") == "NoExecute" for one in (node.get("spec") or {}).get("taints") or ()):
            return ()
        return [key_of(pod) for pod in self._pods.indexed(ON_NODE, node["metadata"]["name"])]

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(*key)
        if pod is None or is_deleting(pod) or is_finished(pod):
            return None
        node = self._nodes.get("", pod["spec"].get("nodeName") or "")
        taints = ((node or {}).get("spec") or {}).get("taints") or ()
        if not taints:
            return None
        now = self.clock.now()
        moment = leaves_at(taints, pod["spec"].get("tolerations") or (), now)
        if moment is None:
            return None
        if moment > now:
            return Requeue(moment - now)
        await self._evict(pod)
        return None

    async def _evict(self, pod: Object) -> None:
        key = key_of(pod)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        known = (pod.get("status") or {}).get("conditions") or ()
        others = [one for one in known if one["type"] != "DisruptionTarget"]
        patch = {"status": {"conditions": [*others, condition]}}
        self.recorder.event(PODS, pod, NORMAL, "TaintManagerEviction", f"Marking for deletion Pod {key}")
        try:
            await self.client.patch(PODS, key.name, patch, key.namespace, subresource="status")
            await self.client.delete(PODS, key.name, key.namespace, uid=uid_of(pod))
        except NotFound:
            return


def _bound(pod: Mapping[str, Any]) -> Iterable[Key]:
    return (key_of(pod),) if pod["spec"].get("nodeName") else ()
