"""A hub and workers in memory and virtual time: real controllers on each, links between them that can be cut.

Jobs run by `Runner`, which stands for a cluster's Job controller and its nodes and keeps a record of when each job ran
where. A link fails as networks and servers do: refused, silent, or refusing the credential.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.base.errors import NotFound, Unauthorized
from gpuaas.base.ids import SeededIds
from gpuaas.client.kubeconfig import Access
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    FINALIZER,
    KUEUE,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.protocol import Client, Propagation, WatchEvent
from gpuaas.client.resources import JOBS, NAMESPACES, SECRETS
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.integrations.held import POD_PRIORITY_CLASSES
from gpuaas.controllers.integrations.kinds import controller_for
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.fleet.multikueue.checks import MultiKueueChecks
from gpuaas.fleet.multikueue.clusters import MultiKueueClusters
from gpuaas.fleet.multikueue.dispatch import Dispatch
from gpuaas.fleet.multikueue.hub_leases import HubLeaseController
from gpuaas.fleet.multikueue.lease_renewal import LeaseRenewal
from gpuaas.fleet.multikueue.nominations import LOCALS, QUEUES
from gpuaas.fleet.multikueue.worker import Follows
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.registry import JOB_KINDS, KINDS
from gpuaas.kueue.multikueue.explain import dispatch_lines
from gpuaas.kueue.multikueue.leases import lease_name
from gpuaas.kueue.multikueue.names import CONTROLLER
from gpuaas.kueue.multikueue.rules import MultiKueueRules
from gpuaas.runtime.controller import Controller, Controllers, Deps, Requeue
from gpuaas.runtime.metadata import Key, key_of
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace

Object = dict[str, Any]
TEAM, QUEUE = "team", "user-queue"
RESOURCES = tuple(dict.fromkeys((*BUILT_IN, *KUEUE, *KINDS.resources, POD_PRIORITY_CLASSES)))
_BATCH = controller_for(next(kind for kind in JOB_KINDS if kind.framework == "batch/job"))
_PATIENCE = 15.0
_QUIET_TURNS = 40
AT_START = 1.0
"""Seconds that the controllers of a worker that starts again may take to stop what has run out."""
_DATA = "-----BEGIN CERTIFICATE-----"


@dataclass(slots=True)
class Run:
    """A job that ran somewhere."""

    job: str
    cluster: str
    begin: float
    end: float | None = None


@dataclass(slots=True)
class Record:
    runs: list[Run] = field(default_factory=list)

    def begin(self, job: str, cluster: str, now: float) -> None:
        if not any(each.job == job and each.cluster == cluster and each.end is None for each in self.runs):
            self.runs.append(Run(job, cluster, now))

    def end(self, job: str, cluster: str, now: float) -> None:
        for each in self.runs:
            if each.end is None and each.cluster == cluster and job in ("", each.job):
                each.end = now

    def overlaps(self) -> list[tuple[Run, Run]]:
        return [
            (a, b)
            for i, a in enumerate(self.runs)
            for b in self.runs[i + 1 :]
            if a.job == b.job
            and a.cluster != b.cluster
            and min(x.end if x.end is not None else float("inf") for x in (a, b)) - max(a.begin, b.begin) > AT_START
        ]


class Runner(Controller):
    """The Job controller and the nodes of one cluster, as far as a status tells of them."""

    name = "job-controller"

    def __init__(self, deps: Deps, cluster: str, record: Record, lasts: Callable[[str], float]) -> None:
        super().__init__(deps)
        self._cluster = cluster
        self._record = record
        self._lasts = lasts
        self._began: dict[str, float] = {}
        self._jobs = self.follow(deps.informers.of(JOBS))

    async def reconcile(self, key: Key) -> Requeue | None:
        job, now = self._jobs.get(*key), self.clock.monotonic()
        if job is None:
            self._record.end(key.name, self._cluster, now)
            return None
        if job["spec"].get("managedBy"):
            return None
        uid, status = job["metadata"]["uid"], dict(job.get("status") or {})
        if any(each["type"] == "Complete" for each in status.get("conditions") or ()):
            return None
        if job["spec"].get("suspend"):
            self._began.pop(uid, None)
            self._record.end(key.name, self._cluster, now)
            if status.get("active"):
                await self._write(job, {name: each for name, each in status.items() if name != "active"})
            return None
        began = self._began.setdefault(uid, now)
        self._record.begin(key.name, self._cluster, now)
        left = began + self._lasts(key.name) - now
        if left > 0:
            status = {**status, "active": 1, "startTime": status.get("startTime") or rfc3339(now)}
            await self._write(job, status)
            return Requeue(left)
        self._record.end(key.name, self._cluster, now)
        done = {"type": "Complete", "status": "True", "lastTransitionTime": rfc3339(now), "message": "done"}
        await self._write(
            job,
            {
                "startTime": status.get("startTime"),
                "succeeded": 1,
                "completionTime": rfc3339(now),
                "conditions": [done],
            },
        )
        return None

    async def _write(self, job: Object, status: Object) -> None:
        if status != (job.get("status") or {}):
            await self.client.update(JOBS, {**job, "status": status}, TEAM, subresource="status")


class Link:
    """A client whose way to the server can fail."""

    def __init__(self, server: FakeCluster, state: Wire, clock: VirtualClock) -> None:
        self._server = server
        self._wire = state
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._server, name)
        if name == "watch":
            return self._watch

        async def sent(*args: Any, **kwargs: Any) -> Any:
            await self._pass()
            answer = await call(*args, **kwargs)
            await self._pass(answered=True)
            return answer

        return sent if asyncio.iscoroutinefunction(call) else call

    def drop(self) -> None:
        """Nothing is kept open here."""

    async def _pass(self, *, answered: bool = False) -> None:
        if self._wire.delay:
            await self._clock.sleep(self._wire.delay)
        match self._wire.fault:
            case "refused":
                raise ConnectionRefusedError("connection refused")
            case "silent":
                await self._clock.sleep(_PATIENCE)
                raise TimeoutError("no answer")
            case "revoked" if not answered:
                raise Unauthorized

    async def _watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
        await self._pass()
        epoch = self._wire.epoch
        events = self._server.watch(*args, **kwargs)
        try:
            while True:
                coming = asyncio.ensure_future(anext(events))
                broken = asyncio.ensure_future(self._wire.changed.wait())
                try:
                    await asyncio.wait({coming, broken}, return_when=asyncio.FIRST_COMPLETED)
                    if self._wire.fault == "silent":  # what comes is lost, and nothing says so
                        await asyncio.Event().wait()
                    if self._wire.epoch != epoch or self._wire.fault == "refused":
                        raise ConnectionResetError("connection reset")
                    event = await coming
                except StopAsyncIteration:
                    return
                finally:
                    coming.cancel()
                    broken.cancel()
                    await asyncio.gather(coming, broken, return_exceptions=True)
                yield event
        finally:
            await events.aclose()


@dataclass
class Wire:
    fault: str = ""
    delay: float = 0.0
    epoch: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, fault: str) -> None:
        self.fault = fault
        if fault in ("", "refused"):
            self.epoch += 1
        self.changed.set()
        self.changed = asyncio.Event()


class Skewed:
    """A clock of a machine that is set wrong."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self.monotonic, self.sleep = clock.monotonic, clock.sleep

    def now(self) -> float:
        return self._clock.now() + self._seconds


class World:
    def __init__(
        self,
        workers: Iterable[str] = ("worker1", "worker2"),
        *,
        gpus: int = 8,
        rules: MultiKueueRules | None = None,
        strict: bool = False,
        lasts: float = 30.0,
        leases: bool = True,
        sizes: Mapping[str, int] | None = None,
        skews: Mapping[str, float] | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.workers = list(workers)
        self.rules = rules or MultiKueueRules()
        self.strict = strict
        self.leases = leases
        self.skews = skews or {}
        """Seconds by which the clocks of clusters are wrong."""
        self.views = {QUEUES: (CLUSTER_QUEUES, ""), LOCALS: (LOCAL_QUEUES, "")} if not strict else {}
        self.record = Record()
        self.lasting: dict[str, float] = {}
        self.lasts = lasts
        self.clusters = {
            name: FakeCluster(self.clock, SeededIds(number), RESOURCES)
            for number, name in enumerate(("hub", *self.workers))
        }
        self.wires = {name: Wire() for name in self.workers}
        self._running: dict[str, Controllers] = {}
        self.connections: Workers | None = None
        self.dispatch: Dispatch | None = None
        for name, cluster in self.clusters.items():
            checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}} if name == "hub" else {}
            each = {worker: (sizes or {}).get(worker, gpus) for worker in self.workers}
            _furnish(cluster, sum(each.values()) if name == "hub" else each[name], **checks)
        self._wire_up()

    async def __aenter__(self) -> Self:
        for name in self.clusters:
            await self.start(name)
        await self.settle()
        await self.advance(5)
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._running):
            await self.stop(name)

    # Clusters.

    async def start(self, name: str, *, restored: bool = False) -> None:
        cluster = self.clusters[name]
        configured = Configured(
            Configuration(jobs=JobsConfig(frameworks=frozenset({"batch/job"})), multikueue=self.rules)
        )
        clock = Skewed(self.clock, self.skews.get(name, 0.0))
        deps = Deps.over(cluster, clock, cluster).under("kueue")
        made: list[Any] = [
            KueueCore(deps, configured),
            QueueStatuses(deps, configured),
            _BATCH(deps, configured),
            GarbageCollector(deps),
            Runner(deps, name, self.record, lambda job: self.lasting.get(job, self.lasts)),
        ]
        if name == "hub":
            made += self._hub_loops(deps, configured)
        elif self.leases:
            made.append(HubLeaseController(deps, restored=restored))
        self._running[name] = Controllers(deps, made)
        await self._running[name].start()

    def _hub_loops(self, deps: Deps, configured: Configured) -> list[Any]:
        def dial(access: Access) -> Client:
            name = access.server.removeprefix("https://")
            return Link(self.clusters[name], self.wires[name], self.clock)  # type: ignore[return-value]

        def lease(client: Client) -> LeaseRenewal | None:
            name = lease_name(self.rules.origin, "hub")
            return LeaseRenewal(client, self.clock, "kueue-system", name, "hub", self.rules.worker_lost_timeout)

        connections = Workers(
            self.clock,
            dial,
            lambda: Follows(self.rules.origin, [JOBS], self.views),
            (lambda _: None) if self.strict else lease,
            strict=self.strict,
        )
        self.connections = connections
        self.dispatch = Dispatch(deps, connections, configured, hub=lambda: "hub", strict=self.strict)
        return [MultiKueueClusters(deps, connections), MultiKueueChecks(deps), self.dispatch]

    async def stop(self, name: str) -> None:
        """The process of a cluster's controllers ends; what is stored stays."""
        running = self._running.pop(name, None)
        if running is not None:
            await running.stop()

    async def crash(self, name: str) -> None:
        """The machine: what ran on it runs no more, and nobody answers."""
        await self.stop(name)
        self.record.end("", name, self.clock.now())
        if name in self.wires:
            self.wires[name].become("refused")

    async def recover(self, name: str) -> None:
        await self.start(name)
        if name in self.wires:
            self.wires[name].become("")

    def backup(self, name: str) -> Any:
        """What the store of a cluster holds now."""
        return {kind: dict(found) for kind, found in self.clusters[name]._objects.items()}

    async def restore(self, name: str, kept: Any) -> None:
        """The machine died, and its store comes back as it was at a backup."""
        await self.crash(name)
        cluster = self.clusters[name]
        cluster._objects.clear()
        cluster._objects.update({kind: dict(found) for kind, found in kept.items()})
        cluster.revision += 1000
        cluster.compact()
        await self.start(name, restored=True)
        self.wires[name].become("")

    def _wire_up(self) -> None:
        hub = self.clusters["hub"]
        for name in self.workers:
            hub.put(SECRETS, self.secret(name))
            source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
            hub.put(MULTIKUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})
        self.configure(self.workers)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        hub.put(
            ADMISSION_CHECKS,
            {"metadata": {"name": "mk"}, "spec": {"controllerName": CONTROLLER, "parameters": parameters}},
        )

    def secret(self, name: str, text: str = "") -> Object:
        data = base64.b64encode((text or kubeconfig(name)).encode()).decode()
        return {
            "metadata": {"name": f"{name}-secret", "namespace": "kueue-system"},
            "data": {"kubeconfig": data},
        }

    def configure(self, clusters: Iterable[str], **annotations: str) -> None:
        metadata = {"name": "all", "annotations": annotations}
        self.clusters["hub"].put(MULTIKUEUE_CONFIGS, {"metadata": metadata, "spec": {"clusters": list(clusters)}})

    # Time.

    async def settle(self) -> None:
        quiet, seen = 0, self._revision()
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            if self._revision() != seen:
                quiet, seen = 0, self._revision()
            else:
                quiet += 1

    def _revision(self) -> int:
        return sum(each.revision for each in self.clusters.values())

    async def advance(self, seconds: float) -> None:
        target = self.clock.now() + seconds
        while True:
            await self.settle()
            deadline = self.clock.next_deadline()
            if deadline is None or deadline > target:
                break
            self.clock.advance(max(0.0, deadline - self.clock.now()))
        self.clock.advance(max(0.0, target - self.clock.now()))
        await self.settle()

    async def until(self, done: Callable[[], Any], limit: float, step: float = 1.0) -> None:
        passed = 0.0
        while not done():
            assert passed < limit, f"not within {limit} s\n{self.told()}"
            await self.advance(step)
            passed += step

    # Jobs.

    def submit(self, name: str, *, gpus: int = 1, lasts: float | None = None, **annotations: str) -> None:
        if lasts is not None:
            self.lasting[name] = lasts
        containers = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
        self.clusters["hub"].put(
            JOBS,
            {
                "metadata": {
                    "name": name,
                    "namespace": TEAM,
                    "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
                    "annotations": annotations,
                },
                "spec": {
                    "suspend": True,
                    "managedBy": CONTROLLER,
                    "parallelism": 1,
                    "completions": 1,
                    "template": {"spec": {"containers": containers, "restartPolicy": "Never"}},
                },
            },
        )

    async def cancel(self, name: str) -> None:
        await self.clusters["hub"].delete(JOBS, name, TEAM, propagation=Propagation.BACKGROUND)

    def job(self, name: str, cluster: str = "hub") -> Object | None:
        try:
            return self.clusters[cluster].read(JOBS, name, TEAM)
        except NotFound:
            return None

    def explain(self, job: str) -> list[str]:
        workload = self.workload(job)
        assert workload is not None
        assert self.dispatch is not None
        return [*dispatch_lines(workload), *self.dispatch.explain(TEAM, workload["metadata"]["name"])]

    def workload(self, job: str, cluster: str = "hub") -> Object | None:
        for each in self.clusters[cluster].all(WORKLOADS, TEAM):
            if each["metadata"]["name"].startswith(f"job-{job}-"):
                return each
        return None

    def cluster_of(self, job: str) -> str:
        found = self.workload(job)
        return str(((found or {}).get("status") or {}).get("clusterName") or "")

    def is_done(self, job: str) -> bool:
        found = self.job(job)
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)

    def left_on(self, cluster: str) -> list[str]:
        found = [*self.clusters[cluster].all(WORKLOADS), *self.clusters[cluster].all(JOBS)]
        return [str(key_of(each)) for each in found]

    def told(self) -> str:
        lines = []
        for name, cluster in self.clusters.items():
            for each in cluster.all(WORKLOADS):
                status = each.get("status") or {}
                said = {c["type"]: f"{c['status']}/{c.get('reason')}" for c in status.get("conditions") or ()}
                checks = [(c["state"], c["message"]) for c in status.get("admissionChecks") or ()]
                placed = status.get("clusterName"), status.get("nominatedClusterNames")
                lines.append(f"{name} {each['metadata']['name']} {placed} {said} {checks}")
            lines += [
                f"{name} job {each['metadata']['name']} {each['spec'].get('suspend')} {each.get('status')}"
                for each in cluster.all(JOBS)
            ]
        return "\n".join(lines)


def _furnish(cluster: FakeCluster, gpus: int, **checks: Any) -> None:
    for name in (TEAM, "kueue-system", "kube-system"):
        cluster.put(NAMESPACES, namespace(name))
    cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "any", "finalizers": [FINALIZER]}, "spec": {}})
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any", "resources": resources}]}
    spec = {"resourceGroups": [group], "namespaceSelector": {}, **checks}
    cluster.put(CLUSTER_QUEUES, {"metadata": {"name": "main", "finalizers": [FINALIZER]}, "spec": spec})
    cluster.put(LOCAL_QUEUES, {"metadata": {"name": QUEUE, "namespace": TEAM}, "spec": {"clusterQueue": "main"}})


def kubeconfig(name: str) -> str:
    return f"""
apiVersion: v1
kind: Config
clusters: [{{name: {name}, cluster: {{server: "https://{name}"}}}}]
users: [{{name: {name}, user: {{token: secret}}}}]
contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]
current-context: {name}
"""
