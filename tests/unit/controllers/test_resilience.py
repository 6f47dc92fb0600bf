"""What level-triggered means: whatever fails and however often everything is restarted, the end is the same."""

import random
from typing import Any

import pytest

from gpuaas.base.errors import Conflict, Unavailable
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS
from gpuaas.controllers import all_controllers
from gpuaas.runtime.controller import Controllers, Deps
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import deployment, job, namespace
from gpuaas.testing.time import Stage, scenario

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Unreliable(FakeCluster):
    """Fails one request in six, before or after doing it, and drops its watches now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self.calm = False

    async def _arrive(self, verb: str, resource: Resource) -> None:
        await super()._arrive(verb, resource)
        if self.calm:
            return
        if self._chance.random() < 0.03:
            self.disconnect()
        if self._chance.random() < 0.03:
            self.compact()
        if self._chance.random() < 0.15:
            if verb in ("update", "patch"):
                raise Conflict(resource.group, resource.plural, "x", "somebody was faster")
            raise Unavailable("not now")

    async def create(self, resource: Resource, obj: Any, namespace: str = "", **options: Any) -> Any:
        made = await super().create(resource, obj, namespace, **options)
        if not self.calm and self._chance.random() < 0.05:
            raise Unavailable("made, but the answer was lost")
        return made


class WorkloadState:
    """All controllers, alive until they are killed."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.deps = Deps.over(cluster, cluster.clock, cluster, root_ca="PEM")
        self._running = Controllers(self.deps, all_controllers(self.deps))
        self.stage = Stage(cluster, cluster.clock, self.deps)  # type: ignore[arg-type]

    async def live(self, seconds: float) -> None:
        await self._running.start()
        await self.stage.advance(seconds)
        await self._running.stop()


def _kubelet(cluster: FakeCluster, succeed: str) -> None:
    """Pods of the job end well, the others run."""
    for pod in cluster.all(PODS):
        if pod.get("status", {}).get("phase", "Pending") != "Pending" or pod["metadata"].get("deletionTimestamp"):
            continue
        name, where = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if pod["metadata"].get("labels", {}).get("job-name") == succeed:
            cluster.set_status(PODS, name, where, phase="Succeeded")
        else:
            cluster.set_status(PODS, name, where, phase="Running", conditions=[READY])


@pytest.mark.parametrize("seed", range(6))
def test_faults_and_restarts_do_not_change_the_end(seed: int) -> None:
    @scenario
    async def check() -> None:
        cluster = Unreliable(seed)
        chance = random.Random(seed)
        cluster.put(NAMESPACES, namespace("default"))
        cluster.put(DEPLOYMENTS, deployment("web", 4))
        cluster.put(JOBS, job("work", parallelism=3, completions=7))
        for state in range(8):
            await WorkloadState(cluster).live(chance.uniform(0.1, 20))
            _kubelet(cluster, "work")
            if state == 4:
                spec = deployment("web", 4, image="two")["spec"]
                cluster.put(DEPLOYMENTS, {**cluster.read(DEPLOYMENTS, "web", "default"), "spec": spec})
        cluster.calm = True
        for _ in range(15):
            await WorkloadState(cluster).live(60)
            _kubelet(cluster, "work")
        web = [pod for pod in cluster.all(PODS) if pod["metadata"].get("labels", {}).get("app") == "web"]
        assert [pod["spec"]["containers"][0]["image"] for pod in web] == ["two"] * 4
        assert sorted(one["spec"]["replicas"] for one in cluster.all(REPLICA_SETS)) in ([4], [0, 4])
        status = cluster.read(JOBS, "work", "default")["status"]
        done = [pod for pod in cluster.all(PODS) if pod.get("status", {}).get("phase") == "Succeeded"]
        assert status["succeeded"] == len(done), "each pod that succeeded is counted once"
        assert status["succeeded"] >= 7
        assert status["conditions"][-1]["type"] == "Complete"
        assert not any(pod["metadata"].get("finalizers") for pod in done)
        cluster.check_untouched()

    check()
