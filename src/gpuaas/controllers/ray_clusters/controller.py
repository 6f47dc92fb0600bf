"""The loop of Ray clusters: a service, a head, workers to the number of each group; none of them while suspended."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS, SERVICES
from gpuaas.controllers.ray_clusters.pods import (
    GROUP,
    HEAD,
    NODE_TYPE,
    RAY_CLUSTERS,
    groups_of,
    head_pod,
    head_service,
    service_name,
    wanted_workers,
    worker_pod,
)
from gpuaas.controllers.ray_clusters.status import decide_status, is_suspended, is_suspending
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.failed_pods import FailedPods
from gpuaas.runtime.metadata import Key, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import deletion_order, is_finished
from gpuaas.runtime.writes import namespace_is_ending, write_status

_OURS = "ray.io/kuberay-operator"


class RayClusterController(Controller):
    name = "raycluster-controller"
    component = "raycluster-controller"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._clusters = self.follow(deps.informers.of(RAY_CLUSTERS))
        self._pods = self.follow(deps.informers.of(PODS), owner_key("RayCluster"))
        self._services = self.follow(deps.informers.of(SERVICES), owner_key("RayCluster"))
        self._failed = FailedPods()

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster = self._clusters.get(*key)
        if (
            cluster is None
            or not cluster.get("spec")
            or is_deleting(cluster)
            or (cluster["spec"].get("managedBy") or _OURS) != _OURS
        ):
            return None
        failure: ApiError | None = None
        pause = self._failed.wait(uid_of(cluster), self._pods.owned_by(uid_of(cluster)), self.clock.now())
        try:
            await self._make_service(cluster)  # suspended or not
            if is_suspending(cluster):
                await self._remove_all(cluster)
            elif not is_suspended(cluster) and not cluster["spec"].get("suspend") and not pause:
                await self._make_head(cluster)
                for group in groups_of(cluster):
                    await self._size_group(cluster, group)
        except ApiError as error:
            if namespace_is_ending(error):
                return None
            failure = error
        service = self._services.get(key.namespace, service_name(cluster))
        pods = self._pods.owned_by(uid_of(cluster))
        words = failure.message if failure is not None else ""
        status = decide_status(cluster, pods, service, words, self.clock.now())
        await write_status(self.client, RAY_CLUSTERS, cluster, status)
        if failure is not None:
            raise failure
        return Requeue(pause) if pause else None

    async def _remove_all(self, cluster: Object) -> None:
        """Recorded even where there were none, so that users see a cluster that was suspended from the start."""
        pods = [pod for pod in self._pods.owned_by(uid_of(cluster)) if not is_deleting(pod)]
        await asyncio.gather(*map(self._delete, pods))
        self._event(cluster, NORMAL, "DeletedPod", f"Deleted Pods for RayCluster {key_of(cluster)} due to suspension")

    async def _make_service(self, cluster: Object) -> None:
        name = service_name(cluster)
        if self._services.get(cluster["metadata"]["namespace"], name) is not None:
            return
        try:
            await self.client.create(SERVICES, head_service(cluster), cluster["metadata"]["namespace"])
        except AlreadyExists:
            return
        self._event(cluster, NORMAL, "CreatedService", f"Created service {cluster['metadata']['namespace']}/{name}")

    async def _make_head(self, cluster: Object) -> None:
        heads = [pod for pod in self._pods.owned_by(uid_of(cluster)) if labels_of(pod).get(NODE_TYPE) == HEAD]
        for pod in heads:
            if is_finished(pod) and not is_deleting(pod):
                await self._delete(pod)
                self._event(cluster, NORMAL, "DeletedHeadPod", f"Deleted head Pod {key_of(pod)}; {_phase(pod)}")
        if heads:
            return  # its name is free again only when it has gone
        await self._create(cluster, head_pod(cluster), "Head", "head")

    async def _size_group(self, cluster: Object, group: Mapping[str, Any]) -> None:
        found = [
            pod
            for pod in self._pods.owned_by(uid_of(cluster))
            if labels_of(pod).get(GROUP) == group["groupName"] and labels_of(pod).get(NODE_TYPE) != HEAD
        ]
        ended = [pod for pod in found if is_finished(pod) and not is_deleting(pod)]
        named = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        live = [pod for pod in found if not is_finished(pod) and not is_deleting(pod)]
        unwanted = [pod for pod in live if pod["metadata"]["name"] in named]
        kept = [pod for pod in live if pod["metadata"]["name"] not in named]
        missing = wanted_workers(group) - len(kept)
        if missing < 0:
            unwanted += deletion_order(kept, self.clock.now())[:-missing]
        for pod in (*ended, *unwanted):
            await self._delete(pod)
            self._event(cluster, NORMAL, "DeletedWorkerPod", f"Deleted worker Pod {key_of(pod)}; {_phase(pod)}")
        made = [self._create(cluster, worker_pod(cluster, group), "Worker", "worker") for _ in range(max(missing, 0))]
        _raise_first(await asyncio.gather(*made, return_exceptions=True))

    async def _create(self, cluster: Object, pod: Object, word: str, node_type: str) -> None:
        try:
            made = await self.client.create(PODS, pod, cluster["metadata"]["namespace"])
        except AlreadyExists:
            return
        except ApiError as error:
            if not namespace_is_ending(error):
                name = pod["metadata"].get("name") or pod["metadata"].get("generateName")
                words = f"Failed to create {node_type} Pod {cluster['metadata']['namespace']}/{name}, {error.message}"
                self._event(cluster, WARNING, f"FailedToCreate{word}Pod", words)
            raise
        self._event(cluster, NORMAL, f"Created{word}Pod", f"Created {node_type} Pod {key_of(made)}")

    async def _delete(self, pod: Object) -> None:
        key = key_of(pod)
        try:
            await self.client.delete(PODS, key.name, key.namespace, uid=uid_of(pod))
        except NotFound:
            return

    def _event(self, cluster: Object, kind: str, reason: str, message: str) -> None:
        self.recorder.event(RAY_CLUSTERS, cluster, kind, reason, message)


def _phase(pod: Mapping[str, Any]) -> str:
    policy = pod["spec"].get("restartPolicy", "Always")
    return f"Pod status: {(pod.get('status') or {}).get('phase', '')}; Pod restart policy: {policy}"


def _raise_first(results: Sequence[BaseException | None]) -> None:
    for one in results:
        if one is not None:
            raise one
