"""Nodes that fall silent become Unknown after the grace period; conditions become taints; pods there are not ready.

Silence is measured by our own clock from the last change of the node's lease, so that a node's wrong clock does no
harm, and a control plane that was away gives every node the whole grace period again. A lease may announce that it is
renewed more seldom than usual: the grace period is then longer by as much. A node that has conditions and never had a
lease was written by hand, by a test or a planner: it is not expected to be renewed, and its conditions count. (A real controller manager calls such a node lost; comparisons with one switch that off.)

A new node is left alone for a moment: tests and planners make nodes in several steps, and a write of ours between their
reading a node and writing its status would make them begin again. (A real controller manager takes between 5 and 220 ms
to take the taint off that nodes are born with.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import LEASES, NODES, PODS
from gpuaas.controllers.node_lifecycle.health import readiness, silent_conditions, wanted_taints
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import key_of
from gpuaas.runtime.pods import condition_of, is_finished, is_ready

GRACE = 50.0  # for leases of 40 seconds
_LONGEST_LEASE = 600.0
BIRTH = 0.2
ON_NODE = "node"  # index of pods, shared by all who ask for it
_LEASE_NAMESPACE = "kube-node-lease"


@dataclass(slots=True)
class _Heard:
    renewal: str
    at: float


class NodeLifecycleController(Controller):
    name = "node-lifecycle-controller"
    component = "node-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._nodes = self.follow(deps.informers.of(NODES), _name)
        self._leases = self.follow(deps.informers.of(LEASES), _nobody)
        self._pods = deps.informers.of(PODS)
        self._pods.add_index(ON_NODE, node_of)
        self._heard: dict[str, _Heard] = {}
        self._made: dict[str, float] = {}  # until when each is left to those who make it

    async def reconcile(self, key: str) -> Requeue | None:
        node = self._nodes.get("", key)
        if node is None:
            self._heard.pop(key, None)
            self._made.pop(key, None)
            return None
        if key not in self._made:
            self._meet(node)
        if (early := self._made[key] - self.clock.now()) > 0:
            return Requeue(early)
        left = self._patience(node)
        if left <= 0 and readiness(node) != "Unknown":
            await self._declare_silent(node)
            return Requeue(GRACE)
        await self._taint(node)
        if readiness(node) != "True":
            await self._unready_pods(key)
        return Requeue(min(max(left, 1.0), GRACE)) if left > 0 else Requeue(GRACE)

    def _meet(self, node: Object) -> None:
        name = node["metadata"]["name"]
        self._made[name] = self.clock.now() + BIRTH
        message = f"Node {name} event: Registered Node {name} in Controller"
        self.recorder.event(NODES, node, NORMAL, "RegisteredNode", message)

    def _patience(self, node: Object) -> float:
        """Seconds until the silence is too long."""
        name, now = node["metadata"]["name"], self.clock.now()
        lease = self._leases.get(_LEASE_NAMESPACE, name)
        if lease is None and readiness(node):
            return GRACE
        renewal = str(((lease or {}).get("spec") or {}).get("renewTime") or "")
        heard = self._heard.get(name)
        if heard is None or heard.renewal != renewal:
            heard = self._heard[name] = _Heard(renewal, now)
        return heard.at + _grace(lease) - now

    async def _declare_silent(self, node: Object) -> None:
        name = node["metadata"]["name"]
        was_ready = readiness(node) == "True"
        status = {"conditions": silent_conditions(node, self.clock.now())}
        await self.client.patch(NODES, name, {"status": status}, subresource="status")
        if was_ready:
            message = f"Node {name} status is now: NodeNotReady"
            self.recorder.event(NODES, node, NORMAL, "NodeNotReady", message)

    async def _taint(self, node: Object) -> None:
        taints = wanted_taints(node, self.clock.now())
        if taints is None:
            return
        metadata = node["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"taints": taints or None}}
        await self.client.patch(NODES, metadata["name"], patch)

    async def _unready_pods(self, name: str) -> None:
        """Their readiness is unknown, so they are not ready: endpoints must not point at them."""
        for pod in self._pods.indexed(ON_NODE, name):
            if is_finished(pod) or not is_ready(pod):
                continue
            known = condition_of(pod, "Ready") or {}
            changed = {**known, "status": "False", "lastTransitionTime": rfc3339(self.clock.now())}
            conditions = [changed if one["type"] == "Ready" else one for one in pod["status"]["conditions"]]
            key = key_of(pod)
            patch = {"status": {"conditions": conditions}}
            try:
                await self.client.patch(PODS, key.name, patch, key.namespace, subresource="status")
            except NotFound:
                continue
            self.recorder.event(PODS, pod, WARNING, "NodeNotReady", "Node is not ready")


def _grace(lease: Mapping[str, Any] | None) -> float:
    announced = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
    return max(GRACE, min(announced, _LONGEST_LEASE) * 1.25)


def node_of(pod: Mapping[str, Any]) -> Iterable[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


def _name(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["name"],)


def _nobody(_: Mapping[str, Any]) -> Iterable[str]:
    """A renewed lease is no news; that it was not renewed is found when the patience ends."""
    return ()
