"""Asks pods to leave their cards: what Kueue manages through its eviction, so that it queues again; all else through the
eviction API, which respects disruption budgets. Either way the node's kubelet gives each pod its grace period.

The reason is Kueue's `NodeFailures`: the one after which upstream lets a workload queue again at once. Asking again is
harmless; a pod or workload that is leaving already is left alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError, NotFound, TooManyRequests
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import PODS
from gpuaas.engine.lifecycle import NODE_FAILURES, evict, lasting_checks
from gpuaas.engine.values import Check
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.outcome import eviction_of, is_finished, is_reserved
from gpuaas.kueue.workload_state import status_with, workload_state_of
from gpuaas.runtime.events import NORMAL, Recorder
from gpuaas.runtime.informer import Informer, Informers
from gpuaas.runtime.metadata import annotations_of, is_deleting
from gpuaas.runtime.writes import write_status

_LEAVES: Final = "CardDrained"  # reason of the event on a pod


class Drain:
    def __init__(self, client: Client, informers: Informers, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._workloads, self._checks = informers.of(WORKLOADS), informers.of(ADMISSION_CHECKS)

    @property
    def followed(self) -> list[Informer]:
        return [self._workloads, self._checks]

    async def ask(self, pod: Object, why: str) -> str:
        """Why the pod may not go now; empty where it goes. Raises ApiError, after which it is asked again."""
        if is_deleting(pod):
            return ""
        workload = self._workload_of(pod)
        if workload is not None:
            if eviction_of(workload) is None:
                await self._requeue(workload, pod, why)
            return ""
        return await self._evict(pod, why)

    def _workload_of(self, pod: Mapping[str, Any]) -> Object | None:
        """The workload on whose quota it runs; None where Kueue does not manage it."""
        name = annotations_of(pod).get(keys.WORKLOAD)
        found = self._workloads.get(pod["metadata"]["namespace"], name) if name else None
        return found if found is not None and is_reserved(found) and not is_finished(found) else None

    async def _requeue(self, workload: Object, pod: Object, why: str) -> None:
        message = f"Evicted from node {pod['spec'].get('nodeName')}: {why}"
        life, now = workload_state_of(workload), round(self._clock.now() * 1000)
        lasting = lasting_checks(self._check(each.name) for each in life.checks)
        try:
            after = evict(life, NODE_FAILURES, message, now, lasting=lasting)
            await write_status(self._client, WORKLOADS, workload, status_with(workload, after))
        except NotFound:
            return
        self._recorder.event(WORKLOADS, workload, NORMAL, f"EvictedDueTo{NODE_FAILURES}", message)
        self._recorder.event(PODS, pod, NORMAL, _LEAVES, f"its workload queues again: {why}")

    def _check(self, name: str) -> Check:
        found = self._checks.get("", name) or {}
        return Check(name, controller=(found.get("spec") or {}).get("controllerName", ""))

    async def _evict(self, pod: Object, why: str) -> str:
        metadata = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": metadata.get("uid", "")}},
        }
        try:
            await self._client.create(PODS, body, metadata["namespace"], name=metadata["name"], subresource="eviction")
        except NotFound:
            return ""
        except TooManyRequests as refusal:
            return _reason(refusal)
        self._recorder.event(PODS, pod, NORMAL, _LEAVES, f"evicted: {why}")
        return ""


def _reason(refusal: ApiError) -> str:
    causes = refusal.details.get("causes") or ()
    said = next((str(cause.get("message") or "") for cause in causes), "")
    return said or str(refusal)
