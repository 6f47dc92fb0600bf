"""The second look at workloads that hold quota: places left for later, and other places for those on failed nodes.

Each is looked at a second after it needs it, and then ever more rarely. Where a failed node has no replacement the
workload is evicted, or, if the configuration says so, waits for one. Who needs a second look, and what it makes of the
status, is `admission.placement`'s.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError, Conflict
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Client, Object
from gpuaas.engine.engine import Engine
from gpuaas.engine.lifecycle import NODE_FAILURES, evict, is_true, lasting_checks, required_checks, reserve
from gpuaas.engine.queues import Queue
from gpuaas.engine.topology_values import HOSTNAME
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.topology_assignment import (
    checked_pod_sets,
    failed_node_of,
    is_of_one_pod,
    needs_second_look,
    unhealthy_of,
    with_places,
)
from gpuaas.kueue.workload_state import status_with, workload_state_of
from gpuaas.runtime.events import NORMAL, WARNING, Recorder
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.writes import write_status

_log = logging.getLogger(__name__)
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0  # seconds
_EVENT_LIMIT = 1024


class SecondLook:
    def __init__(
        self,
        client: Client,
        workloads: Informer,
        engine: Engine,
        configured: Configured,
        clock: Clock,
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._engine = engine
        self._configured = configured
        self._clock = clock
        self._recorder = recorder
        self._due: dict[str, asyncio.Task[None]] = {}
        self._running = False
        workloads.subscribe(self._changed)

    async def run(self) -> None:
        """Until cancelled; begins when the engine knows everything."""
        self._running = True
        try:
            for obj in self._workloads.all():
                self._changed(None, obj)
            await asyncio.Event().wait()
        finally:
            self._running = False
            for task in self._due.values():
                task.cancel()

    def _changed(self, _: Object | None, new: Object | None) -> None:
        if not self._running or new is None or not needs_second_look(new):
            return
        key = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
        if key not in self._due:
            self._due[key] = asyncio.ensure_future(self._look_until_done(key))

    async def _look_until_done(self, key: str) -> None:
        wait = _FIRST_WAIT
        try:
            while True:
                await self._clock.sleep(wait)
                obj = self._find(key)
                if obj is None or not needs_second_look(obj):
                    return
                try:
                    await self._look(key, obj)
                except Conflict:
                    continue  # written meanwhile
                except ApiError as error:
                    _log.warning("second look at %s: %s", key, error)
                wait = min(2 * wait, _LONGEST_WAIT)
        finally:
            del self._due[key]
            if self._running:
                self._changed(None, self._find(key))  # it may need one again by now

    async def _look(self, key: str, obj: Object) -> None:
        item = self._engine.items.get(key)
        if item is None or not item.reserved or item.evicted or item.queue is None:
            return
        failed = failed_node_of(obj)
        stays = bool(failed) and self._configured.now.nodes.keeps_single_pods and is_of_one_pod(obj)
        if not stays:
            pod_sets = checked_pod_sets(obj, item.workload.pod_sets)
            name, words = self._engine.place(key, pod_sets, failed)
            if words:
                await self._not_found(obj, item.queue, failed, f"couldn't assign flavors to pod set {name}: {words}")
                return
        if not any(given.delayed and given.domains is None for given in item.admission or ()):
            await self._found(obj, failed)

    async def _found(self, obj: Object, failed: str) -> None:
        key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        item = self._engine.items[key]
        assert item.admission is not None
        before = workload_state_of(obj)
        queue, now = item.queue, round(self._clock.now() * 1000)
        assert queue is not None
        flavors = frozenset(flavor for given in item.admission for _, flavor in given.flavors)
        all_flavors = frozenset(f.flavor for group in queue.spec.groups for f in group.flavors)
        required = required_checks(queue.spec.checks, flavors, all_flavors)
        life = reserve(replace(before, topology_pending=False, unhealthy=()), queue.name, required, now)
        given = with_places(obj, item.admission, self._levels(flavors))
        await write_status(self._client, WORKLOADS, obj, status_with(obj, life, given))
        if is_true(life.admitted) and not failed:
            words = f"Admitted by ClusterQueue {queue.name}, wait time since reservation was 0s"
            self._recorder.event(WORKLOADS, obj, NORMAL, "Admitted", words)

    async def _not_found(self, obj: Object, queue: Queue, failed: str, words: str) -> None:
        if not (failed and self._configured.now.nodes.fail_fast):
            self._recorder.event(WORKLOADS, obj, WARNING, "SecondPassFailed", words[:_EVENT_LIMIT])
            return
        nodes = ",".join(unhealthy_of(obj))
        message = f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"
        now, lasting = round(self._clock.now() * 1000), lasting_checks(queue.spec.checks)
        life = evict(workload_state_of(obj), NODE_FAILURES, message, now, lasting=lasting)
        await write_status(self._client, WORKLOADS, obj, status_with(obj, life))
        self._recorder.event(WORKLOADS, obj, NORMAL, f"EvictedDueTo{NODE_FAILURES}", message)

    def _levels(self, flavors: frozenset[str]) -> dict[str, Sequence[str]]:
        """What is recorded of each flavor's levels: of hosts only their names."""
        places = self._engine.places
        found: dict[str, Sequence[str]] = {}
        for name in flavors:
            if places.has_places(name):
                levels = places.topologies[self._engine.flavors[name].topology or ""].levels
                found[name] = levels[-1:] if levels[-1] == HOSTNAME else levels
        return found

    def _find(self, key: str) -> Object | None:
        namespace, _, name = key.partition("/")
        return self._workloads.get(namespace, name)
