"""Pods without a kubelet to report their end are ended: those of nodes that no longer exist or are out of
service, and those that are to go, have finalizers and never were on a node.

Pods that have ended stay for who wants to look, up to kube-controller-manager's terminated-pod-gc-threshold; above it the
oldest are deleted."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.node_lifecycle.controller import ON_NODE, node_of
from gpuaas.controllers.node_lifecycle.health import readiness
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import is_deleting, key_of, uid_of
from gpuaas.runtime.pods import is_finished

QUARANTINE = 40.0  # a node that comes back within it keeps its pods
LOOK_EVERY = 20.0  # how long a pod that never was on a node may take to go
MOST_ENDED = 12_500  # pods that have ended and are kept; the default of kube-controller-manager
ENDED = "ended"  # index of pods; also the key under which the superfluous are looked for
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_ALL_ENDED = "//"  # a key that is no node's and no pod's


class PodGarbageCollector(Controller):
    """Its keys are names of nodes, of pods behind their namespaces, and one for all that have ended."""

    name = "pod-garbage-collector-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        pods = deps.informers.of(PODS)
        pods.add_index(ON_NODE, node_of)
        pods.add_index(ENDED, _ended)
        self._nodes = self.follow(deps.informers.of(NODES), lambda node: (node["metadata"]["name"],))
        self._pods = self.follow(pods, self._concerned)
        self._missing: dict[str, float] = {}
        pods.subscribe(self._count)

    def _count(self, _: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if new is not None and is_finished(new) and self._pods.count(ENDED, ENDED) > MOST_ENDED:
            self.queue.add_after(_ALL_ENDED, LOOK_EVERY)

    async def _trim(self) -> None:
        ended = sorted(self._pods.indexed(ENDED, ENDED), key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        for pod in ended[: max(0, len(ended) - MOST_ENDED)]:
            if not is_deleting(pod):
                await self._end(pod, {})

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[str]:
        on = pod["spec"].get("nodeName")
        if not on:
            return (str(key_of(pod)),) if is_deleting(pod) and not is_finished(pod) else ()
        node = self._nodes.get("", on)
        return (on,) if node is None or (is_deleting(pod) and _out_of_service(node)) else ()

    async def reconcile(self, key: str) -> Requeue | None:
        if key == _ALL_ENDED:
            await self._trim()
            return None
        if "/" in key:
            return await self._never_placed(*key.split("/"))
        node = self._nodes.get("", key)
        pods = self._pods.indexed(ON_NODE, key) if node is None or _out_of_service(node) else []
        if node is None and pods:
            left = self._missing.setdefault(key, self.clock.now()) + QUARANTINE - self.clock.now()
            if left > 0:
                return Requeue(left)
            for pod in pods:
                await self._end(pod, self._lost(pod))
            return None
        self._missing.pop(key, None)
        for pod in pods:
            if is_deleting(pod):
                await self._end(pod, {"phase": "Failed"})
        return None

    async def _never_placed(self, namespace: str, name: str) -> Requeue | None:
        pod = self._pods.get(namespace, name)
        if pod is None or not is_deleting(pod) or pod["spec"].get("nodeName") or is_finished(pod):
            return None
        left = parse_rfc3339(pod["metadata"]["deletionTimestamp"]) + LOOK_EVERY - self.clock.now()
        if left > 0:
            return Requeue(left)
        await self._end(pod, {"phase": "Failed"})
        return None

    async def _end(self, pod: Mapping[str, Any], failed: Mapping[str, Any]) -> None:
        key = key_of(pod)
        try:
            if not is_finished(pod):
                await self.client.patch(PODS, key.name, {"status": failed}, key.namespace, subresource="status")
            await self.client.delete(PODS, key.name, key.namespace, uid=uid_of(pod), grace=0)
        except NotFound:
            return

    def _lost(self, pod: Mapping[str, Any]) -> dict[str, Any]:
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


def _ended(pod: Mapping[str, Any]) -> Iterable[str]:
    return (ENDED,) if is_finished(pod) else ()


def _out_of_service(node: Mapping[str, Any]) -> bool:
    """The out-of-service taint is set and the node is not ready."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint["key"] == OUT_OF_SERVICE for taint in taints) and readiness(node) != "True"
