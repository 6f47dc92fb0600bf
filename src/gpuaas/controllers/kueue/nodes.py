"""Nodes that fail under placed workloads: noted in `status.unhealthyNodes`, for which other places are looked for then.

A second failed node before the first one is replaced evicts the workload. Pods that are bound to a node they can never
start on are failed, so that their jobs make others. What counts as failed is `admission.node_health`'s, the new places
are `second_look`'s.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import ADMISSION_CHECKS, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES, PODS
from gpuaas.engine.lifecycle import NODE_FAILURES, evict, lasting_checks
from gpuaas.engine.topology_values import HOSTNAME
from gpuaas.engine.values import Check
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.outcome import eviction_of, is_finished
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.integrations.podsets import CannotStart, from_admission
from gpuaas.kueue.integrations.slices import slice_name
from gpuaas.kueue.node_health import ready_condition, runs, verdict
from gpuaas.kueue.topology_assignment import hosts_of, is_placed_pod, unhealthy_of
from gpuaas.kueue.workload_state import status_with, workload_state_of
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import annotations_of
from gpuaas.runtime.writes import write_status

_TOGETHER = 0.1  # seconds: what happens to pods at once is looked at once
_FAILS_AFTER = 30.0  # seconds
_WORKLOADS, _BOUND, _RUNNING = "places on node", "bound to node", "runs for on node"
_TERMINATED = "Pod terminated by Kueue NodeController due to node taint"


class PlacedNodes(Controller):
    """Its keys are the names of nodes."""

    name = "tas-node-controller"
    component = "tas-resource-flavor-controller"
    tells_series = True

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._configured = configured or Configured()
        of = deps.informers.of
        self._nodes = self.follow(of(NODES), _itself, by=_health)
        self._pods = self.follow(of(PODS), _node_of_news, delay=_TOGETHER)
        self._workloads, self._flavors = of(WORKLOADS), of(RESOURCE_FLAVORS)
        self._checks = of(ADMISSION_CHECKS)
        self._followed += [self._workloads, self._flavors, self._checks]
        self._workloads.add_index(_WORKLOADS, _hosts)
        self._pods.add_index(_BOUND, _bound_to)
        self._pods.add_index(_RUNNING, _runs_for)

    async def reconcile(self, key: str) -> Requeue | None:
        rules, node = self._configured.now.nodes, self._nodes.get("", key)
        if not rules.replaces:
            return None
        ready = None if node is None else ready_condition(node)
        left = self._left(ready)
        if left is not None and left > 0 and not rules.on_pod_termination:
            return Requeue(left)
        placed = self._workloads.indexed(_WORKLOADS, key)
        if node is None or ready is None or (rules.over_time and left is not None and left <= 0):
            for workload in placed:
                await self._fail(workload, key)
            return None
        await self._judge(node)
        return Requeue(left) if rules.over_time and left is not None else None

    def _left(self, ready: Mapping[str, Any] | None) -> float | None:
        """How long until a node that is not ready has been so for too long; None for one that is."""
        if ready is None or ready.get("status") == "True":
            return None
        since = ready.get("lastTransitionTime")
        return 0.0 if not since else parse_rfc3339(since) + _FAILS_AFTER - self.clock.now()

    async def _judge(self, node: Object) -> None:
        name, rules = node["metadata"]["name"], self._configured.now.nodes
        bound: dict[tuple[str, str], list[Object]] = {}
        for pod in self._pods.indexed(_BOUND, name):
            bound.setdefault((pod["metadata"]["namespace"], annotations_of(pod)[keys.WORKLOAD]), []).append(pod)
        concerned = {_name(each): each for each in self._workloads.indexed(_WORKLOADS, name)}
        for key in bound:
            found = self._workloads.get(*key)
            if key not in concerned and found is not None and not is_finished(found) and eviction_of(found) is None:
                concerned[key] = found
        for key, workload in concerned.items():
            mine = bound.get(key, [])
            running = runs(self._pods.indexed(_RUNNING, f"{name} {key[0]}/{slice_name(workload)}"))
            said = verdict(workload, node, rules, self._added(workload), mine, running)
            if said.failed and await self._fail(workload, name):
                continue
            if not said.failed:
                await self._recover(workload, name)
            for pod in said.stray:
                await self._end(pod)

    def _added(self, workload: Object) -> dict[str, Any]:
        """What flavors and checks added to the tolerations of each pod set."""
        if not (workload.get("status") or {}).get("admission"):
            return {}
        try:
            infos = from_admission(workload, lambda name: self._flavors.get("", name))
        except CannotStart:
            return {}
        return {info.name: info.tolerations for info in infos}

    async def _fail(self, workload: Object, node: str) -> bool:
        """Note it. Whether the workload leaves because this is not the first."""
        life, unhealthy = workload_state_of(workload), unhealthy_of(workload)
        if node in unhealthy:
            return False
        if not unhealthy:
            await self._write(workload, replace(life, unhealthy=(node,)))
            return False
        listed = ", ".join((*unhealthy, node))
        message = f"Workload eviction triggered due to multiple TAS assigned node failures, including: {listed}"
        now, lasting = round(self.clock.now() * 1000), lasting_checks(self._check(each.name) for each in life.checks)
        await self._write(workload, evict(life, NODE_FAILURES, message, now, lasting=lasting))
        self.recorder.event(WORKLOADS, workload, NORMAL, f"EvictedDueTo{NODE_FAILURES}", message[:1024])
        return True

    def _check(self, name: str) -> Check:
        found = self._checks.get("", name) or {}
        return Check(name, controller=(found.get("spec") or {}).get("controllerName", ""))

    async def _recover(self, workload: Object, node: str) -> None:
        life = workload_state_of(workload)
        if node in life.unhealthy:
            left = tuple(each for each in life.unhealthy if each != node)
            await self._write(workload, replace(life, unhealthy=left))

    async def _write(self, workload: Object, life: Any) -> None:
        try:
            await write_status(self.client, WORKLOADS, workload, status_with(workload, life))
        except NotFound:
            return

    async def _end(self, pod: Object) -> None:
        """It will never start: failed, its job makes another."""
        if has_ended(pod):
            return
        condition = {
            "type": "TerminatedByKueue",
            "status": "True",
            "reason": "UnschedulableOnAssignedNode",
            "message": _TERMINATED,
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        status = pod.get("status") or {}
        after = {**status, "phase": "Failed", "conditions": [*(status.get("conditions") or ()), condition]}
        try:
            await write_status(self.client, PODS, pod, after)
        except NotFound:
            return
        self.recorder.event(PODS, pod, NORMAL, "PodTerminatedByKueue", _TERMINATED, action="PodTerminated")


def _itself(node: Mapping[str, Any]) -> Iterable[str]:
    return (node["metadata"]["name"],)


def _health(node: Mapping[str, Any]) -> Any:
    """What of a node is worth another look."""
    ready = ready_condition(node)
    return ready is not None and ready.get("status") == "True", (node.get("spec") or {}).get("taints")


def _node_of_news(pod: Mapping[str, Any]) -> Iterable[str]:
    """A pod that waits for its one node, or has just left its node."""
    if not is_placed_pod(pod):
        return ()
    spec = pod["spec"]
    if not spec.get("nodeName"):
        return _selected_host(pod)
    return (spec["nodeName"],) if has_ended(pod) or pod["metadata"].get("deletionTimestamp") else ()


def _selected_host(pod: Mapping[str, Any]) -> tuple[str, ...]:
    host = (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME)
    return (host,) if host else ()


def _hosts(workload: Mapping[str, Any]) -> Iterable[str]:
    found = set(hosts_of(workload))
    return () if not found or is_finished(workload) or eviction_of(workload) is not None else found


def _bound_to(pod: Mapping[str, Any]) -> Iterable[str]:
    return _selected_host(pod) if keys.WORKLOAD in annotations_of(pod) and is_placed_pod(pod) else ()


def _runs_for(pod: Mapping[str, Any]) -> Iterable[str]:
    """All slices of an elastic job share its pods, by the name they share."""
    notes, node = annotations_of(pod), pod["spec"].get("nodeName")
    workload = notes.get(keys.SLICE_NAME) or notes.get(keys.WORKLOAD)
    return (f"{node} {pod['metadata']['namespace']}/{workload}",) if node and workload else ()


def _name(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
