"""Shadow pods on the hub of the pods that run for it on workers, so that `kubectl get pods` and `kubectl logs` find them.

Each pod of a dispatched job has one: the same name, the same labels, its status, no node (an annotation names cluster and
node) and a scheduling gate that keeps every node of the hub away. It belongs to the hub's job and goes with the pod. Pods
that were submitted as pods are on the hub already and have none.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from gpuaas.base.clock import Clock
from gpuaas.base.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.fleet.multikueue.worker import RemoteEvent, Worker
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.multikueue.names import CLUSTER
from gpuaas.kueue.multikueue.owners import job_of
from gpuaas.kueue.multikueue.shadow_pods import is_shadow, shadow_of, shadow_status
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting, key_of, owners_of
from gpuaas.runtime.writes import write_status

VIEW = "pods"
_TOGETHER = 0.05
_LOOK_AGAIN = 0.2


class ShadowPodController(Controller):
    name = "multikueue-pods"
    workers = 8

    def __init__(self, deps: Deps, connections: Workers) -> None:
        super().__init__(deps)
        self._connections = connections
        of = deps.informers.of
        self._pods = self.follow(of(PODS), lambda pod: (key_of(pod),) if is_shadow(pod) else ())
        self._workloads = self.follow(of(WORKLOADS), self._pods_of)
        connections.subscribe(self._remote_changed, self._connection_changed)

    def _remote_changed(self, event: RemoteEvent) -> None:
        if event.extra == VIEW:
            self.queue.add_after(key_of(event.obj), _TOGETHER)

    def _connection_changed(self, name: str) -> None:
        worker = self._connections.get(name)
        if worker is not None and worker.connected:
            for pod in worker.extra[VIEW].all():
                self.queue.add(key_of(pod))
            for shadow in self._pods.all():
                if annotations_of(shadow).get(CLUSTER) == name:
                    self.queue.add(key_of(shadow))

    def _pods_of(self, workload: Mapping[str, Any]) -> list[Key]:
        cluster = (workload.get("status") or {}).get("clusterName")
        worker = self._connections.get(cluster) if cluster else None
        if worker is None:
            return []
        name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
        return [key_of(pod) for pod in worker.extra[VIEW].of_workload(namespace, name)]

    async def reconcile(self, key: Key) -> Requeue | None:
        shadow = self._pods.get(*key)
        if shadow is not None and not is_shadow(shadow):
            return None
        found = remote_pod(self._connections, self._workloads.get, key)
        if found is None:
            await self._remove(shadow)
            return None
        if shadow is None:
            await self._create(found)
        elif not is_deleting(shadow):
            await write_status(self.client, PODS, shadow, shadow_status(shadow, found.pod))
        return None

    async def _create(self, found: "Found") -> None:
        job = job_of(found.workload)
        if job is None or job.kind == PODS.kind:
            return
        owners = [each for each in owners_of(found.workload) if each.get("controller")]
        if not owners:
            return
        shadow = shadow_of(found.pod, found.worker.name, owners[0])
        with contextlib.suppress(AlreadyExists, Forbidden, NotFound):  # the job or its namespace may be going
            await self.client.create(PODS, shadow, shadow["metadata"]["namespace"])

    async def _remove(self, shadow: Object | None) -> None:
        """Deletes a shadow whose pod is gone; kept while its worker is disconnected, where the pod may still run."""
        if shadow is None or is_deleting(shadow):
            return
        worker = self._connections.get(annotations_of(shadow).get(CLUSTER, ""))
        if worker is not None and not worker.connected and self._is_held(shadow):
            return
        meta = shadow["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await self.client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace=0)

    def _is_held(self, shadow: Object) -> bool:
        cluster = annotations_of(shadow).get(CLUSTER)
        return any(
            (each.get("status") or {}).get("clusterName") == cluster
            for owner in owners_of(shadow)
            for each in self._workloads.owned_by(owner["uid"])
        )


class Found(NamedTuple):
    worker: Worker
    pod: Object
    workload: Object


def remote_pod(connections: Workers, workload_of: Any, key: Key) -> Found | None:
    """The pod of this name that runs on a worker for a workload of the hub in the same namespace, and nothing else: what
    others run there under such a name is not the hub's to show."""
    for worker in connections.all():
        pod = worker.extra[VIEW].get(*key) if VIEW in worker.extra else None
        if pod is None:
            continue
        workload = workload_of(key.namespace, annotations_of(pod).get(keys.WORKLOAD, ""))
        if workload is not None and (workload.get("status") or {}).get("clusterName") == worker.name:
            return Found(worker, pod, workload)
    return None


def _is_pending(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("status") or {}).get("phase", "Pending") == "Pending")


class HubLogs:
    """Logs of pods here, and through their worker of those that run there. Fits the API server's LogSource."""

    def __init__(self, inner: Any, connections: Workers, workload_of: Any, clock: Clock) -> None:
        self._inner = inner
        self._connections = connections
        self._workload_of = workload_of
        self._clock = clock

    def waits_for(self, pod: Mapping[str, Any]) -> bool:
        """A shadow pod may be there before its pod has begun."""
        return is_shadow(pod)

    def read(self, pod: Mapping[str, Any], options: Any) -> AsyncIterator[bytes]:
        if pod["spec"].get("nodeName"):
            return self._here(pod, options)
        found = remote_pod(self._connections, self._workload_of, key_of(pod))
        return self._here(pod, options) if found is None else self._there(found, options)

    async def _here(self, pod: Mapping[str, Any], options: Any) -> AsyncIterator[bytes]:
        if self._inner is None:
            yield b"(nothing: no node here keeps logs)\n"
            return
        async for piece in self._inner.read(pod, options):
            yield piece

    async def _there(self, found: Found, options: Any) -> AsyncIterator[bytes]:
        while options.follow and _is_pending(found.pod):
            await self._clock.sleep(_LOOK_AGAIN)
            again = remote_pod(self._connections, self._workload_of, key_of(found.pod))
            if again is None:
                return
            found = again
        since = None if options.since is None else max(1, round(self._clock.now() - options.since))
        left = options.limit_bytes
        meta = found.pod["metadata"]
        pieces = found.worker.client.log(
            meta["name"],
            meta["namespace"],
            container=options.container,
            follow=options.follow,
            previous=options.previous,
            tail_lines=options.tail_lines,
            since_seconds=since,
            timestamps=options.timestamps,
        )
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    cut = piece if left is None else piece[:left]
                    yield cut
                    if left is not None:
                        left -= len(cut)
                        if left <= 0:
                            return
        except (ApiError, OSError) as error:
            yield f"(cluster {found.worker.name}: {error})\n".encode()
