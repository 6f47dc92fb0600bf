"""A whole cluster in process: API server with its webhooks, Kueue, and the controllers that make pods of jobs.

There are no nodes: a test plays the kubelet by writing the status of pods. Every test has a namespace of its own.
"""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import SystemClock
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.base.ids import SystemIds
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import EVENTS, JOBS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from gpuaas.controllers import KUEUE, all_controllers
from gpuaas.controllers.integrations.kinds import JOB_CONTROLLERS
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.runtime.controller import Controllers, Deps

RUNNING = {
    "garbage-collector-controller", "serviceaccount-controller", "namespace-controller", "job-controller",
    "replicaset-controller", "deployment-controller", "statefulset-controller", "kueue", "kueue-statuses", "kueue-operator", "raycluster-controller", "rayjob-controller", "notebook-controller",
    "leaderworkerset-controller", "rayservice-controller", "appwrapper-controller",
}  # fmt: skip
LIMIT = 15.0


class House:
    def __init__(self, home: Path, config: JobsConfig) -> None:
        self.config = config
        self.configured = Configured(Configuration(jobs=config))
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count(1)
        self._run(self._open(home))

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    async def _open(self, home: Path) -> None:
        clock = SystemClock()
        trust = Trust(home / "certificates", home / "users.json", clock)
        store = home / "store.db"
        self._parts = await open_cluster(
            "local", store, trust, clock, SystemIds(), fsync=False, configured=self.configured
        )
        cluster, access = self._parts.cluster, self._parts.access
        deps = Deps.over(
            LocalClient(cluster, access.system_user("controllers"), "gpuaas"),
            clock,
            LocalDiscovery(cluster),
            quota=self._parts.quota,
        )
        jobs = [kind(deps.under(KUEUE), self.configured) for kind in JOB_CONTROLLERS]
        self._controllers = Controllers(deps, [*all_controllers(deps, RUNNING, self.configured), *jobs])
        await self._controllers.start()
        self.client = LocalClient(cluster, access.system_user("tester"), "kubectl")

    def close(self) -> None:
        self._run(self._controllers.stop())
        self._run(self._parts.close())
        self._loop.close()

    # Hands.

    def create(self, resource: Resource, obj: Object) -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        made: Object = self._run(self.client.create(resource, whole, obj["metadata"].get("namespace", "")))
        return made

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        found: Object = self._run(self.client.get(resource, name, namespace))
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self.get(resource, namespace, name)
        except NotFound:
            return None

    def all(self, resource: Resource, namespace: str) -> list[Object]:
        items: list[Object] = self._run(self.client.list(resource, namespace)).items
        return items

    def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **options: Any) -> Object:
        """Tried again while others write the same object."""
        for _ in range(20):
            try:
                made: Object = self._run(self.client.patch(resource, name, patch, namespace, **options))
            except Conflict:
                continue
            return made
        raise AssertionError("writes do not end")

    def delete(self, resource: Resource, namespace: str, name: str, propagation: Propagation | None = None) -> None:
        self._run(self.client.delete(resource, name, namespace, propagation=propagation))

    def refusal(self, work: Callable[[], Any]) -> str:
        """The words with which something is refused."""
        try:
            work()
        except ApiError as error:
            return error.message
        raise AssertionError("it was allowed")

    def configure(self, configuration: Configuration) -> None:
        async def become() -> None:
            self.configured.become(configuration)

        self._run(become())

    # Eyes.

    def until(self, holds: Callable[[], Any], what: str = "") -> Any:
        """What `holds` gives, once it is true."""
        end = self._loop.time() + LIMIT
        while self._loop.time() < end:
            found = holds()
            if found:
                return found
            self._run(asyncio.sleep(0.005))
        raise AssertionError(what or "it did not happen")

    def settled(self) -> None:
        """Until no task has work for a number of turns."""
        quiet, end = 0, self._loop.time() + LIMIT
        while quiet < 30 and self._loop.time() < end:
            self._run(asyncio.sleep(0.002))
            quiet = quiet + 1 if self._controllers.idle else 0

    def workload(self, namespace: str, owner: str) -> Object | None:
        found = [
            each
            for each in self.all(WORKLOADS, namespace)
            if any(ref["name"] == owner for ref in each["metadata"].get("ownerReferences") or ())
        ]
        return found[0] if found else None

    def admitted(self, namespace: str, owner: str) -> Object:
        def holds() -> Object | None:
            found = self.workload(namespace, owner)
            return found if found is not None and condition(found, "Admitted") == "True" else None

        found: Object = self.until(holds, f"{owner} was not admitted")
        return found

    def events(self, namespace: str, kind: str) -> list[str]:
        found = [each for each in self.all(EVENTS, namespace) if each["involvedObject"]["kind"] == kind]
        return [f"{each['reason']}: {each['message']}" for each in found]

    # Furniture.

    def team(self, *, gpus: int = 4, labels: dict[str, str] | None = None, default_queue: bool = False) -> str:
        """A namespace with a queue `lq` of its own for `gpus` cards."""
        name = f"team-{next(self._numbers)}"
        self.create(NAMESPACES, {"metadata": {"name": name, "labels": labels or {}}})
        self.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": FLAVOR})
        resources = [{"name": "cpu", "nominalQuota": "100"}, {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}]
        group = {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": name, "resources": resources}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec})
        for queue in ("lq", *(("default",) if default_queue else ())):
            self.create(LOCAL_QUEUES, {"metadata": {"name": queue, "namespace": name}, "spec": {"clusterQueue": name}})
        self.until(lambda: self.find(SERVICE_ACCOUNTS, name, "default"))
        return name


FLAVOR = {
    "nodeLabels": {"card": "a100"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
}


def condition(workload: Object, kind: str) -> str:
    found = (workload.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in found if each["type"] == kind), "")


def job(namespace: str, name: str, *, gpus: int = 1, queue: str = "lq", **spec: Any) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    whole = {"template": template(gpus), **spec}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": whole}


def template(gpus: int = 1, **spec: Any) -> Object:
    amount = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "busybox", "resources": {"requests": amount, "limits": amount}}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def with_label(obj: Object, key: str, value: str) -> Object:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), key: value}}}


def with_note(obj: Object, key: str, value: str) -> Object:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), key: value}}}


def end_pods(house: House, namespace: str, phase: str = "Succeeded") -> None:
    """What a kubelet tells of pods that have ended."""
    for pod in house.all(PODS, namespace):
        name = pod["metadata"]["name"]
        house.patch(PODS, namespace, name, {"status": {"phase": phase}}, subresource="status")


def is_suspended(house: House, namespace: str, name: str, resource: Resource = JOBS) -> bool:
    return bool(house.get(resource, namespace, name)["spec"].get("suspend"))
