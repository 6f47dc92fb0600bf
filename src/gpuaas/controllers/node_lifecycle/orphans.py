"""Pods of nodes that no longer exist end: nobody else will ever say what became of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.node_lifecycle.controller import ON_NODE, node_of
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import key_of, uid_of
from gpuaas.runtime.pods import is_finished

QUARANTINE = 40.0  # a node that comes back within it keeps its pods


class PodGarbageCollector(Controller):
    """Its keys are names of nodes."""

    name = "pod-garbage-collector-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        pods = deps.informers.of(PODS)
        pods.add_index(ON_NODE, node_of)
        self._nodes = self.follow(deps.informers.of(NODES), lambda node: (node["metadata"]["name"],))
        self._pods = self.follow(pods, self._on_missing)
        self._missing: dict[str, float] = {}

    def _on_missing(self, pod: Mapping[str, Any]) -> Iterable[str]:
        node = pod["spec"].get("nodeName")
        return (node,) if node and self._nodes.get("", node) is None else ()

    async def reconcile(self, key: str) -> Requeue | None:
        if self._nodes.get("", key) is not None:
            self._missing.pop(key, None)
            return None
        pods = self._pods.indexed(ON_NODE, key)
        if not pods:
            self._missing.pop(key, None)
            return None
        left = self._missing.setdefault(key, self.clock.now()) + QUARANTINE - self.clock.now()
        if left > 0:
            return Requeue(left)
        for pod in pods:
            await self._end(pod)
        return None

    async def _end(self, pod: Mapping[str, Any]) -> None:
        key = key_of(pod)
        try:
            if not is_finished(pod):
                await self.client.patch(
                    PODS, key.name, {"status": self._failed(pod)}, key.namespace, subresource="status"
                )
            await self.client.delete(PODS, key.name, key.namespace, uid=uid_of(pod), grace=0)
        except NotFound:
            return

    def _failed(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self.clock.now()),
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        known = (pod.get("status") or {}).get("conditions") or ()
        others = [one for one in known if one["type"] != "DisruptionTarget"]
        return {"phase": "Failed", "conditions": [*others, condition]}
