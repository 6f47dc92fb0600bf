"""The workloads of a hub that run on workers: reads what `decide` needs, and carries out what it says.

A key is a workload of the hub. It is looked at when the workload changes, when a copy or a remote job does, and when a
connection comes or fails. A worker is only ever written to after its copy was seen to be this hub's (origin, and the
hub's own uid); everything written can be written again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from gpuaas.base.errors import AlreadyExists, ApiError, Forbidden, NotFound
from gpuaas.client.kueue import ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.engine.lifecycle import set_check
from gpuaas.fleet.multikueue.explain import remote_lines
from gpuaas.fleet.multikueue.nominations import LOCALS, QUEUES, Nominations
from gpuaas.fleet.multikueue.remote_jobs import NotOurs, RemoteJobs
from gpuaas.fleet.multikueue.worker import RemoteEvent, Worker
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import outcome
from gpuaas.kueue.multikueue import checks, decide
from gpuaas.kueue.multikueue.adapters import Adapter, adapter_for
from gpuaas.kueue.multikueue.copies import clone_of
from gpuaas.kueue.multikueue.decide import Remote, State
from gpuaas.kueue.multikueue.names import EVICTED_ON_MANAGER, HUB, REASON, REDISPATCH_LOST
from gpuaas.kueue.multikueue.owners import Job, job_of, workload_named
from gpuaas.kueue.workload_state import holds, status_with, workload_state_of
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, finalizers_of, is_deleting, key_of
from gpuaas.runtime.writes import write_status

MANAGER = "kueue-admission"
KEEP_FINISHED = 300.0
"""Seconds for which the remote objects of a finished job stay, so that its logs can be read on the hub."""
_TOGETHER = 0.05
_STRICT_TOGETHER = 1.0
_AGAIN = 5.0
_LOOK_AGAIN = 60.0
_EVENT_LIMIT = 1024


class Dispatch(Controller):
    name = "multikueue-workloads"
    component = "kueue-multikueue-controller"
    tells_series = True
    workers = 16

    def __init__(
        self,
        deps: Deps,
        connections: Workers,
        configured: Configured | None = None,
        series: Series | None = None,
        *,
        hub: Callable[[], str] = lambda: "",
        strict: bool = False,
    ) -> None:
        super().__init__(deps)
        self._connections = connections
        self._configured = configured or Configured()
        self._series = series or new_series()
        self._hub = hub
        self._strict = strict
        self._delay = _STRICT_TOGETHER if strict else _TOGETHER
        of = deps.informers.of
        self._ours: set[str] = set()
        of(ADMISSION_CHECKS).subscribe(self._check_changed)
        self._workloads = self.follow(of(WORKLOADS), self._concerned)
        self._subject = self._workloads
        self._checks = self.follow(of(ADMISSION_CHECKS), self._users_of_check, by=_parameters)
        self._configs = self.follow(of(MULTIKUEUE_CONFIGS), self._users_of_config, by=_config_standing)
        self._jobs = RemoteJobs(deps, self._configured, hub)
        for informer in self._jobs.informers:
            self._followed.append(informer)
        self._nominations = Nominations(deps, connections, self._configured, self.recorder, strict=strict)
        for informer in self._nominations.informers:
            self._followed.append(informer)
        connections.subscribe(self._remote_changed, self._connection_changed)

    # Whose event concerns whom.

    def _check_changed(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None and checks.is_ours(new):
            self._ours.add(name)
        else:
            self._ours.discard(name)

    def _concerned(self, workload: Mapping[str, Any]) -> Iterable[Key]:
        return (key_of(workload),) if self._check_of(workload) is not None else ()

    def _check_of(self, workload: Mapping[str, Any]) -> Object | None:
        if not self._ours:
            return None
        listed = (workload.get("status") or {}).get("admissionChecks") or ()
        return next((each for each in listed if each["name"] in self._ours), None)

    def _dispatched(self) -> Iterable[Object]:
        return (each for each in self._workloads.all() if self._check_of(each) is not None)

    def _users_of_check(self, check: Mapping[str, Any]) -> list[Key]:
        name = check["metadata"]["name"]
        return [key_of(each) for each in self._dispatched() if (self._check_of(each) or {}).get("name") == name]

    def _users_of_config(self, config: Mapping[str, Any]) -> list[Key]:
        name = config["metadata"]["name"]
        named = [each["metadata"]["name"] for each in self._checks.all() if checks.config_named(each) == name]
        return [key_of(each) for each in self._dispatched() if (self._check_of(each) or {}).get("name") in named]

    def _remote_changed(self, event: RemoteEvent) -> None:
        if event.extra:
            if event.extra in (QUEUES, LOCALS):
                for key in self._nominations.stuck:
                    self.queue.add_after(key, self._delay)
            return
        meta = event.obj["metadata"]
        name = meta["name"] if event.resource == WORKLOADS else workload_named(event.obj)
        if name:
            self.queue.add_after(Key(meta.get("namespace", ""), name), self._delay)

    def _connection_changed(self, worker: str) -> None:
        """Requeues the copies of that worker and all unfinished workloads. Upstream requeues only workloads with a copy
        there, so that pending ones miss a cluster that came back."""
        found = self._connections.get(worker)
        if found is not None and found.connected:
            for copy in found.all(WORKLOADS):
                self.queue.add_after(key_of(copy), self._delay)
        for each in self._dispatched():
            if not holds(each, "Finished"):
                self.queue.add_after(key_of(each), self._delay)

    async def run(self) -> None:
        collecting = asyncio.get_running_loop().create_task(self._collect(), name=f"{self.name} garbage")
        try:
            await super().run()
        finally:
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)

    async def _collect(self) -> None:
        """Copies whose workload the hub does not have are looked for every so often."""
        while True:
            interval = self._configured.now.multikueue.gc_interval
            await self.clock.sleep(interval or _LOOK_AGAIN)
            if not interval or not self._workloads.is_synced:
                continue
            for worker in self._connections.all():
                if not worker.connected:
                    continue
                for copy in worker.all(WORKLOADS):
                    if self._is_over(*key_of(copy)):
                        self.queue.add(key_of(copy))
                with contextlib.suppress(ApiError, OSError):  # the next round tries again
                    await self._jobs.delete_orphans(worker, self._is_over)

    def _is_over(self, namespace: str, name: str) -> bool:
        local = self._workloads.get(namespace, name)
        return local is None or is_deleting(local) or holds(local, "Finished")

    def explain(self, namespace: str, name: str) -> list[str]:
        """How its copies stand on the workers; nothing for a workload that is not dispatched."""
        workload = self._workloads.get(namespace, name)
        if workload is None or self._check_of(workload) is None or holds(workload, "Finished"):
            return []
        problems = self._nominations.problems(key_of(workload))
        timeout = self._configured.now.multikueue.worker_lost_timeout
        return list(remote_lines(self._connections, workload, problems, timeout, self.clock))

    # Reading.

    async def reconcile(self, key: Key) -> Requeue | None:
        workload = self._workloads.get(*key)
        if workload is None or is_deleting(workload):
            await self._remove_everywhere(key, workload)
            return None
        check = self._check_of(workload)
        if check is None:
            return None
        job = job_of(workload)
        adapter = adapter_for(job.group, job.kind) if job is not None else None
        refusal = self._refusal(workload, job, adapter)
        if refusal:
            if check.get("state") not in ("Rejected", "Retry") and not holds(workload, "Finished"):
                await self._answer(workload, check, decide.rejected(refusal, check))
            return None
        assert job is not None
        assert adapter is not None
        config = self._configs.get("", checks.config_named(self._checks.get("", check["name"]) or {"spec": {}}))
        if config is None and self._strict:
            return None  # upstream cannot read the group then, and leaves what runs alone
        remotes = self._remotes(workload, adapter, config)
        notes = next((annotations_of(each) for each in self._jobs.local(workload, job, adapter)), {})
        choice = self._nominations.choose(workload, adapter, config, remotes, notes)
        state = State(
            workload,
            check,
            remotes,
            self.clock.monotonic(),
            self._configured.now.multikueue.worker_lost_timeout,
            choice.clusters,
            annotations_of(config or {"metadata": {}}).get(REDISPATCH_LOST) != "Never",
            0.0 if self._strict else KEEP_FINISHED,
            self.clock.now(),
            self._strict,
        )
        plan = decide.decide(state)
        for action in plan.actions:
            await self._do(action, workload, check, job, adapter)
        nominated = any(isinstance(each, decide.Nominate) for each in plan.actions)
        await self._nominations.record(workload, choice, nominated=nominated)
        waits = [each for each in (plan.again, choice.again) if each is not None]
        return Requeue(min(waits)) if waits else None

    def _refusal(self, workload: Object, job: Job | None, adapter: Adapter | None) -> str:
        if job is None:
            return "No multikueue adapter found"
        if adapter is None:
            return f'No multikueue adapter found for owner kind "{job.described}"'
        for each in self._jobs.local(workload, job, adapter):
            undelegated = adapter.undelegated(each)
            if undelegated:
                return f"The owner is not managed by Kueue: {undelegated}"
        return ""

    def _remotes(self, workload: Object, adapter: Adapter, config: Object | None) -> list[Remote]:
        status = workload.get("status") or {}
        listed = checks.clusters_of(config) if config is not None else ()
        names = dict.fromkeys(listed)
        if not self._strict:
            names |= dict.fromkeys(
                each for each in (status.get("clusterName"), *(status.get("nominatedClusterNames") or ())) if each
            )
            names |= dict.fromkeys(each.name for each in self._connections.all() if self._copy(each, workload))
        return [self._remote(name, workload, adapter, offered=name in listed) for name in names]

    def _remote(self, name: str, workload: Object, adapter: Adapter, *, offered: bool) -> Remote:
        worker = self._connections.get(name)
        if worker is None or not worker.connected:
            return Remote(name, False, None, offered, True, self._connections.lost_since(name))
        copy = self._copy(worker, workload)
        return Remote(name, True, copy, offered, worker.sees(adapter.resource))

    def _copy(self, worker: Worker, workload: Mapping[str, Any]) -> Object | None:
        found = worker.get(WORKLOADS, *key_of(workload))
        return found if found is not None and self._is_mine(found) else None

    def _is_mine(self, copy: Mapping[str, Any]) -> bool:
        """Whether this hub made the copy: two hubs may have the same origin label."""
        return annotations_of(copy).get(HUB, self._hub()) == self._hub()

    # Doing.

    async def _do(self, action: decide.Action, workload: Object, check: Object, job: Job, adapter: Adapter) -> None:
        match action:
            case decide.Delete(cluster):
                await self._delete(cluster, workload, job, adapter)
            case decide.Create(cluster):
                await self._create(cluster, workload)
            case decide.Nominate(clusters):
                await self._nominate(workload, clusters)
            case decide.Answer():
                await self._answer(workload, check, action)
            case decide.Sync(cluster, create):
                await self._sync(cluster, workload, job, adapter, create=create)
            case decide.Finish(cluster, reason, message):
                await self._sync(cluster, workload, job, adapter, create=False)
                newest = self._workloads.get(*key_of(workload)) or workload
                await write_status(
                    self.client, WORKLOADS, newest, outcome.ended(newest, reason, message, self.clock.now())
                )
            case decide.Deactivate(cluster, message):
                await self._deactivate(cluster, workload, message)
            case decide.Reprioritize(cluster):
                await self._reprioritize(cluster, workload)
            case decide.ClearActive():
                await self._jobs.clear_active(workload, job, adapter)
            case _:
                assert_never(action)

    async def _nominate(self, workload: Object, clusters: Sequence[str]) -> None:
        status = {**(workload.get("status") or {}), "nominatedClusterNames": list(clusters)}
        if not clusters:
            status.pop("nominatedClusterNames")
        await self.client.update(
            WORKLOADS,
            {**workload, "status": status},
            workload["metadata"]["namespace"],
            subresource="status",
            field_manager=MANAGER,
        )
        for cluster in clusters:
            if cluster not in ((workload.get("status") or {}).get("nominatedClusterNames") or ()):
                self._count("dispatched", workload, cluster)

    async def _answer(self, workload: Object, check: Object, answer: decide.Answer) -> None:
        newest = self._workloads.get(*key_of(workload)) or workload
        state = workload_state_of(newest)
        found = next((each for each in state.checks if each.name == check["name"]), None)
        if found is None:
            return
        now = round(self.clock.now() * 1000)
        since = found.since if found.state == answer.state else now
        state = set_check(state, replace(found, state=answer.state, message=answer.message, since=since))
        if answer.cluster:
            state = replace(state, cluster=answer.cluster, nominated=())
        await write_status(self.client, WORKLOADS, newest, status_with(newest, state))
        if answer.event:
            kind = WARNING if answer.event == "Warning" else NORMAL
            self.recorder.event(WORKLOADS, newest, kind, REASON, answer.message[:_EVENT_LIMIT], action=REASON)
        if answer.cluster:
            self._count("admitted", workload, answer.cluster)

    def _count(self, what: str, workload: Object, cluster: str) -> None:
        queue = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue", "")
        self._series.count(f"kueue_multikueue_workloads_{what}_total", queue, cluster)

    async def _create(self, cluster: str, workload: Object) -> None:
        worker = self._connections.get(cluster)
        if worker is None or not worker.connected:
            return
        clone = clone_of(workload, self._configured.now.multikueue.origin, self._hub(), worker.lease)
        key = key_of(workload)
        try:
            await worker.client.create(WORKLOADS, clone, key.namespace)
        except AlreadyExists:
            if worker.get(WORKLOADS, *key) is None:
                self._nominations.problem(workload, cluster, "a Workload of this name that is not ours is there")
                self.queue.add_after(key, _AGAIN)
        except (NotFound, Forbidden) as error:
            self._nominations.problem(workload, cluster, str(error))
            self.queue.add_after(key, _AGAIN)
        else:
            self._nominations.problem(workload, cluster, "")

    async def _sync(self, cluster: str, workload: Object, job: Job, adapter: Adapter, *, create: bool) -> None:
        worker = self._connections.get(cluster)
        if worker is not None and worker.connected:
            try:
                again = await self._jobs.sync(worker, workload, job, adapter, create=create)
            except NotOurs as error:
                self._nominations.problem(workload, cluster, str(error))
                again = _AGAIN
            if again is not None:
                self.queue.add_after(key_of(workload), again)

    async def _deactivate(self, cluster: str, workload: Object, message: str) -> None:
        worker = self._connections.get(cluster)
        copy = self._copy(worker, workload) if worker is not None else None
        if worker is None or copy is None:
            return
        status = outcome.with_condition(copy, "DeactivationTarget", True, EVICTED_ON_MANAGER, message, self.clock.now())
        await worker.client.update(
            WORKLOADS, {**copy, "status": status}, copy["metadata"]["namespace"], subresource="status"
        )

    async def _reprioritize(self, cluster: str, workload: Object) -> None:
        worker = self._connections.get(cluster)
        if worker is None:
            return
        spec = workload["spec"]
        patch = {"spec": {"priority": spec.get("priority"), "priorityClassRef": spec.get("priorityClassRef")}}
        await worker.client.patch(WORKLOADS, workload["metadata"]["name"], patch, workload["metadata"]["namespace"])

    # Removing.

    async def _remove_everywhere(self, key: Key, workload: Object | None) -> None:
        """Deletes every copy of a workload that the hub no longer has."""
        self._nominations.forget(key)
        for worker in self._connections.all():
            copy = worker.get(WORKLOADS, *key) if worker.connected else None
            if copy is not None and self._is_mine(copy):
                await self._remove(worker, copy)

    async def _delete(self, cluster: str, workload: Object, job: Job, adapter: Adapter) -> None:
        worker = self._connections.get(cluster)
        copy = self._copy(worker, workload) if worker is not None else None
        if worker is not None and copy is not None:
            await self._jobs.delete(worker, workload, job, adapter)
            await self._remove(worker, copy, with_job=False)

    async def _remove(self, worker: Worker, copy: Object, *, with_job: bool = True) -> None:
        key = key_of(copy)
        if with_job:
            await self._jobs.delete_of_copy(worker, copy)
        meta = copy["metadata"]
        try:
            if finalizers_of(copy):
                patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": None}}
                await worker.client.patch(WORKLOADS, key.name, patch, key.namespace)
            if not is_deleting(copy):
                await worker.client.delete(WORKLOADS, key.name, key.namespace, uid=meta["uid"])
        except NotFound:
            pass
        worker.forget(WORKLOADS, *key)


def _parameters(check: Mapping[str, Any]) -> Any:
    return check["metadata"].get("uid"), check.get("spec")


def _config_standing(config: Mapping[str, Any]) -> Any:
    notes = config["metadata"].get("annotations") or {}
    return config["metadata"].get("uid"), config.get("spec"), notes.get(REDISPATCH_LOST)
