"""Workloads as the integrations handle them: found by their job, written with care, let go of."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.kueue import FINALIZER, WORKLOADS
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.kueue.integrations import outcome
from gpuaas.kueue.integrations.pods import group_of
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.observe.series import Series
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import controller_of, finalizers_of, is_deleting, owners_of
from gpuaas.runtime.writes import merge_diff, write_status

BY_JOB = "job"
OWNER_GONE = "The workload's owner no longer exists"


class Later(ApiError):
    """Not possible yet; the key is looked at again, each time a little later."""

    code, reason = 409, "Conflict"


class Workloads:
    def __init__(self, client: Client, informer: Informer, clock: Clock) -> None:
        informer.add_index(BY_JOB, jobs_of)
        self._client = client
        self._informer = informer
        self._clock = clock

    def get(self, namespace: str, name: str) -> Object | None:
        return self._informer.get(namespace, name)

    def of(self, resource: Resource, namespace: str, name: str) -> list[Object]:
        """Those a job of this name controls, also one that had the name before."""
        return self._informer.indexed(BY_JOB, job_key(resource.api_version, resource.kind, namespace, name))

    def owned_by(self, uid: str) -> list[Object]:
        return self._informer.owned_by(uid)

    async def finish(self, workload: Object, reason: str, message: str) -> None:
        if not outcome.is_finished(workload):
            await self.write(workload, outcome.ended(workload, reason, message, self._clock.now()))

    async def write(self, workload: Object, status: Object) -> None:
        await write_status(self._client, WORKLOADS, workload, status)

    async def change(self, workload: Object, changed: Object) -> Object:
        """Make the workload's metadata and spec so, unless another client wrote it since."""
        return await patch_to(self._client, WORKLOADS, workload, changed)

    async def let_go(self, workload: Object) -> None:
        if FINALIZER not in finalizers_of(workload):
            return
        left = [each for each in finalizers_of(workload) if each != FINALIZER]
        metadata = {key: value for key, value in workload["metadata"].items() if key != "finalizers"}
        try:
            await self.change(
                workload, {**workload, "metadata": {**metadata, **({"finalizers": left} if left else {})}}
            )
        except NotFound:
            return

    async def delete(self, workload: Object) -> bool:
        """Whether this asked for its deletion."""
        await self.let_go(workload)
        if is_deleting(workload):
            return False
        metadata = workload["metadata"]
        try:
            await self._client.delete(WORKLOADS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except NotFound:
            return False
        return True

    async def orphan(self, workload: Object) -> None:
        """Its job is gone: give back what it holds, and let it be deleted."""
        if not is_deleting(workload) and controller_of(workload) is not None:
            try:
                await self.finish(workload, "OwnerNotFound", OWNER_GONE)
            except NotFound:
                return
            workload = self.get(workload["metadata"]["namespace"], workload["metadata"]["name"]) or workload
        await self.let_go(workload)


def count_ungated(series: Series, gate: str, workload: Mapping[str, Any], pod: Mapping[str, Any], now: float) -> None:
    """How long after its workload's admission a pod was let go."""
    admitted = conditions_of(workload).get("Admitted")
    if admitted is None or not is_true(admitted):
        return
    waited = max(0.0, now - parse_rfc3339(admitted["lastTransitionTime"]))
    queue, group = workload["status"]["admission"]["clusterQueue"], str(bool(group_of(pod))).lower()
    series.observe("kueue_pod_scheduling_gate_removal_seconds", waited, gate, queue, group)


async def patch_to(client: Client, resource: Resource, obj: Object, changed: Mapping[str, Any]) -> Object:
    """Make the object so by a merge patch that fails if it is no longer the one we saw; the object it became."""
    patch = merge_diff(obj, changed)
    if not patch:
        return obj
    metadata = obj["metadata"]
    patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": metadata["resourceVersion"]}
    return await client.patch(resource, metadata["name"], patch, metadata.get("namespace", ""))


def job_key(api_version: str, kind: str, namespace: str, name: str) -> str:
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}/{namespace}/{name}"


def jobs_of(workload: Mapping[str, Any]) -> Iterable[str]:
    """The keys of its owners."""
    namespace = workload["metadata"].get("namespace", "")
    return [
        job_key(each.get("apiVersion", ""), each.get("kind", ""), namespace, each.get("name", ""))
        for each in owners_of(workload)
    ]
