"""Eviction of a pod's workload by its node: Kueue's eviction, so that the workload queues again and loses no retry.

The reason is Kueue's own for what a node did to a workload, `NodeFailures`; the message says what it was. A pod that no
workload stands behind is left to its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Client, Object
from gpuaas.engine.lifecycle import NODE_FAILURES, evict
from gpuaas.executors.owners import Owners
from gpuaas.kueue.integrations.outcome import eviction_of, is_finished, is_reserved
from gpuaas.kueue.workload_state import status_with, workload_state_of
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import owners_of, uid_of
from gpuaas.runtime.writes import write_status

_OF_OWNER = "of owner"


class Evictions:
    def __init__(self, deps: Deps, component: str) -> None:
        self._client: Client = deps.client
        self._clock: Clock = deps.clock
        self.owners = Owners(deps.client, deps.discovery)
        self._workloads = deps.informers.of(WORKLOADS)
        self._workloads.add_index(_OF_OWNER, _owner_uids)
        self._recorder = deps.events.recorder(component)

    async def evict(self, pod: Object, message: str) -> bool:
        """Whether the pod leaves with its workload: it has been evicted now or before."""
        workload = await self._workload(pod)
        if workload is None:
            return False
        if eviction_of(workload) is not None:
            return True
        if is_finished(workload) or not is_reserved(workload):
            return False
        life = evict(workload_state_of(workload), NODE_FAILURES, message, round(self._clock.now() * 1000))
        try:
            await write_status(self._client, WORKLOADS, workload, status_with(workload, life))
        except NotFound:
            return False
        self._recorder.event(WORKLOADS, workload, NORMAL, f"EvictedDueTo{NODE_FAILURES}", message[:1024])
        return True

    async def _workload(self, pod: Mapping[str, Any]) -> Object | None:
        for owner in await self.owners.chain(pod):
            for workload in self._workloads.indexed(_OF_OWNER, uid_of(owner)):
                return workload
        return None


def _owner_uids(workload: Mapping[str, Any]) -> Iterable[str]:
    return [each["uid"] for each in owners_of(workload)]
