"""Jobs on workers: made, followed and deleted, and their status brought to the hub's job.

How each kind is treated is a row of `kueue.multikueue.adapters`. A remote job without this hub's origin
label belongs to another client: the hub never writes to it.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.fleet.multikueue.worker import Worker
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.multikueue.adapters import ADAPTERS, Adapter, adapter_for
from gpuaas.kueue.multikueue.copies import Deferred, copied_status, forwarded, inactive_status, remote_job
from gpuaas.kueue.multikueue.decide import SYNC_AGAIN
from gpuaas.kueue.multikueue.names import HUB, ORIGIN
from gpuaas.kueue.multikueue.owners import Job, job_of, workload_named
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import annotations_of, is_deleting, labels_of
from gpuaas.runtime.writes import write_status


class NotOurs(ApiError):
    """A job of this name is on the worker already."""

    code, reason = 409, "Conflict"


class RemoteJobs:
    def __init__(self, deps: Deps, configured: Configured, hub: Callable[[], str]) -> None:
        self._hub = hub
        self._client = deps.client
        self._clock = deps.clock
        self._configured = configured
        self._of: dict[Resource, Informer] = {
            each.resource: deps.informers.of(each.resource) for each in enabled(configured)
        }

    @property
    def informers(self) -> Iterable[Informer]:
        return self._of.values()

    @property
    def origin(self) -> str:
        return self._configured.now.multikueue.origin

    def local(self, workload: Object, job: Job, adapter: Adapter) -> list[Object]:
        """The hub's job; of a group of pods, all that are there."""
        informer = self._of.get(adapter.resource)
        if informer is None:
            return []
        namespace = workload["metadata"]["namespace"]
        return [found for name in job.names if (found := informer.get(namespace, name)) is not None]

    async def sync(self, worker: Worker, workload: Object, job: Job, adapter: Adapter, *, create: bool) -> float | None:
        """Makes what is missing there and copies the status of what is; seconds until that is to be tried again."""
        again = None
        for local in self.local(workload, job, adapter):
            if is_deleting(local):
                continue
            remote = worker.get(adapter.resource, local["metadata"]["namespace"], local["metadata"]["name"])
            if remote is None:
                if create:
                    await self._create(worker, adapter, local, workload)
                continue
            if workload_named(remote) not in ("", workload["metadata"]["name"]):
                self._require_ours(adapter, remote)
                again = SYNC_AGAIN  # of an earlier job of the name, which goes
                continue
            await self._forward(worker, adapter, local, remote)
            if not await self._copy_back(adapter, local, remote):
                again = SYNC_AGAIN
        return again

    async def _create(self, worker: Worker, adapter: Adapter, local: Object, workload: Object) -> None:
        made = remote_job(adapter, local, workload, self.origin, self._hub())
        meta = made["metadata"]
        try:
            await worker.client.create(adapter.resource, made, meta["namespace"])
        except AlreadyExists:
            found = await worker.client.get(adapter.resource, meta["name"], meta["namespace"])
            self._require_ours(adapter, found)

    def _require_ours(self, adapter: Adapter, found: Object) -> None:
        name = found["metadata"]["name"]
        if labels_of(found).get(ORIGIN) != self.origin:
            words = "remote object is not owned by MultiKueue: expected"
            raise NotOurs(f"{words} {ORIGIN}={self.origin} on {adapter.resource} {name}")
        if annotations_of(found).get(HUB, self._hub()) != self._hub():
            raise NotOurs(f"{adapter.resource} {name} is there already, made by another hub")

    async def _forward(self, worker: Worker, adapter: Adapter, local: Object, remote: Object) -> None:
        patch = forwarded(adapter, local, remote)
        if patch is not None:
            meta = remote["metadata"]
            await worker.client.patch(adapter.resource, meta["name"], patch, meta["namespace"])

    async def _copy_back(self, adapter: Adapter, local: Object, remote: Object) -> bool:
        """Whether the hub shows what the worker does."""
        try:
            status = copied_status(adapter, local, remote, rfc3339(self._clock.now()))
        except Deferred as deferred:
            if deferred.status is not None:
                await self._write(adapter, local, deferred.status)
            return False
        if status is not None:
            await self._write(adapter, local, status)
        return True

    async def _write(self, adapter: Adapter, local: Object, status: Object) -> None:
        try:
            await write_status(self._client, adapter.resource, local, status)
        except NotFound:
            return
        except Conflict:
            newest = self._of[adapter.resource].get(local["metadata"]["namespace"], local["metadata"]["name"])
            if newest is None or newest is local:
                raise
            await write_status(self._client, adapter.resource, newest, status)

    async def clear_active(self, workload: Object, job: Job, adapter: Adapter) -> None:
        for local in self.local(workload, job, adapter):
            status = inactive_status(adapter, local)
            if status is not None:
                await self._write(adapter, local, status)

    # Deleting.

    async def delete(self, worker: Worker, workload: Object, job: Job, adapter: Adapter) -> None:
        namespace, name = workload["metadata"]["namespace"], workload["metadata"]["name"]
        for each in job.names:
            remote = worker.get(adapter.resource, namespace, each)
            if remote is not None and workload_named(remote) in ("", name):
                await self._delete(worker, adapter, remote)
        if adapter.resource.kind == "Pod":
            await self.delete_of_copy(worker, workload)

    async def delete_of_copy(self, worker: Worker, copy: Mapping[str, Any]) -> None:
        """The jobs on the worker that were made for a copy whose workload the hub does not have any more."""
        namespace, name = copy["metadata"]["namespace"], copy["metadata"]["name"]
        known = job_of(copy)
        kinds = [adapter_for(known.group, known.kind)] if known is not None else list(enabled(self._configured))
        for adapter in kinds:
            if adapter is not None:
                for remote in worker.of_workload(adapter.resource, namespace, name):
                    await self._delete(worker, adapter, remote)

    async def delete_orphans(self, worker: Worker, is_over: Callable[[str, str], bool]) -> None:
        """Jobs there whose copy is gone and whose workload, by namespace and name, is over."""
        for adapter in enabled(self._configured):
            for remote in worker.all(adapter.resource):
                namespace, name = remote["metadata"].get("namespace", ""), workload_named(remote)
                if not name or worker.get(WORKLOADS, namespace, name) is not None or not is_over(namespace, name):
                    continue
                if annotations_of(remote).get(HUB, self._hub()) == self._hub():
                    await self._delete(worker, adapter, remote)

    async def _delete(self, worker: Worker, adapter: Adapter, remote: Object) -> None:
        meta = remote["metadata"]
        if is_deleting(remote):
            return
        how = Propagation.BACKGROUND if adapter.background else None
        with contextlib.suppress(NotFound):
            await worker.client.delete(
                adapter.resource, meta["name"], meta["namespace"], propagation=how, uid=meta["uid"]
            )
        worker.forget(adapter.resource, meta["namespace"], meta["name"])


def enabled(configured: Configured) -> list[Adapter]:
    """The rows whose integration is on."""
    jobs = configured.now.jobs
    return [each for each in ADAPTERS.values() if jobs.enables(each.framework)]
