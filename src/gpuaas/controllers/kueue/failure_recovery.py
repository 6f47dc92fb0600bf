"""Pods that cannot end because their node is unreachable: those that allow it are deleted after a while.

There only with the feature gate `FailureRecoveryPolicy`; otherwise nothing is even followed. A pod says so with the
annotation `kueue.x-k8s.io/safe-to-forcefully-delete`: its author accepts that a pod which may still run somewhere
does no harm.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES, PODS
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting, key_of
from gpuaas.runtime.writes import write_status

SAFE = "kueue.x-k8s.io/safe-to-forcefully-delete"
UNREACHABLE = "node.kubernetes.io/unreachable"
CONDITION = "KueueFailureRecovery"
REASON = "KueueForcefullyDeleted"
PATIENCE = 60.0
"""Seconds beyond a pod's own grace period."""


class FailureRecovery(Controller):
    name = "kueue-failure-recovery"
    component = "kueue-pod-termination-controller"
    tells_series = True

    def __init__(self, deps: Deps, configured: Configured | None = None) -> None:
        super().__init__(deps)
        if configured is None or not configured.started_with.nodes.frees_pods:
            return
        self._pods = self.follow(deps.informers.of(PODS), _eligible)
        self._nodes = self.follow(deps.informers.of(NODES), self._stuck_on, by=_is_unreachable)

    def _stuck_on(self, node: Mapping[str, Any]) -> list[Key]:
        name = node["metadata"]["name"]
        return [key for pod in self._pods.all() if pod["spec"].get("nodeName") == name for key in _eligible(pod)]

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(*key)
        if pod is None or not _eligible(pod):
            return None
        left = parse_rfc3339(pod["metadata"]["deletionTimestamp"]) + PATIENCE - self.clock.now()
        if left > 0:
            return Requeue(left)
        node = self._nodes.get("", pod["spec"].get("nodeName", ""))
        if node is None or not _is_unreachable(node):
            return None
        await self._end(pod, node["metadata"]["name"])
        return None

    async def _end(self, pod: Object, node: str) -> None:
        meta, status = pod["metadata"], pod.get("status") or {}
        waited = round((meta.get("deletionGracePeriodSeconds") or 0) + PATIENCE)
        words = (
            f"Pod forcefully terminated after {waited // 60}m{waited % 60}s grace period due to unreachable node "
            f"`{node}` (triggered by `{SAFE}` annotation)"
        )
        now = rfc3339(self.clock.now())
        condition = {"type": CONDITION, "status": "True", "reason": REASON, "message": words, "lastTransitionTime": now}
        phase = status.get("phase") if status.get("phase") in ("Succeeded", "Failed") else "Failed"
        conditions = [*(status.get("conditions") or ()), condition]
        try:
            if not _is_told(pod):
                await write_status(self.client, PODS, pod, {**status, "phase": phase, "conditions": conditions})
                self.recorder.event(PODS, pod, WARNING, REASON, words, action="ForcefulTermination")
            await self.client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace=0)
        except NotFound:
            return  # it has gone by itself


def _eligible(pod: Mapping[str, Any]) -> Iterable[Key]:
    """Its key, if it is on its way out, may be helped, and has not been: what its finalizers wait for is theirs."""
    if not is_deleting(pod) or annotations_of(pod).get(SAFE) != "true":
        return ()
    done = _is_told(pod) and not pod["metadata"].get("deletionGracePeriodSeconds")
    return () if done else (key_of(pod),)


def _is_told(pod: Mapping[str, Any]) -> bool:
    return any(each.get("type") == CONDITION for each in (pod.get("status") or {}).get("conditions") or ())


def _is_unreachable(node: Mapping[str, Any]) -> bool:
    return any(each.get("key") == UNREACHABLE for each in (node.get("spec") or {}).get("taints") or ())
