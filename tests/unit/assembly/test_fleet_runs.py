"""A fleet in the real API server, with all its controllers: what is created runs to its end. Fast, but in real time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gpuaas.apiserver.local import LocalClient
from gpuaas.assembly.control_plane import ControlPlane, Settings
from gpuaas.assembly.fleet import read_fleet
from gpuaas.assembly.home import Home
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NODES, PODS, SERVICE_ACCOUNTS

LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", True, "LocalQueue")
FLEET = """
speed: 20
clusters: [{name: local, nodes: [{name: card, count: 2, gpu: {product: NVIDIA-L4, count: 2}}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: l4}, spec: {nodeLabels: {nvidia.com/gpu.product: NVIDIA-L4}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: l4, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: queue, namespace: default}, spec: {clusterQueue: all}}
"""


def with_fleet(home: Path, test: Callable[[LocalClient], Awaitable[None]]) -> None:
    async def run() -> None:
        settings = Settings(fsync=False, fleet=read_fleet(FLEET))
        async with ControlPlane(Home(home), settings) as plane:
            parts = plane.clusters["local"]
            await test(LocalClient(parts.cluster, parts.access.system_user("test"), "test"))

    asyncio.run(run())


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Waits for something real; what never comes fails here."""
    for _ in range(3000):
        try:
            if answer := await found():
                return answer
        except ApiError:
            pass
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def job(name: str, gpus: int) -> Any:
    container = {"name": "c", "image": "i", "command": ["python", "train.py"]}
    return {
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "queue"},
            "annotations": {"gpuaas.dev/run-seconds": "20"},
        },
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{**container, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
                }
            }
        },
    }


def test_queued_jobs_run_one_after_the_other_on_the_nodes_of_their_flavor(tmp_path: Path) -> None:
    async def test(client: LocalClient) -> None:
        await until(lambda: client.get(SERVICE_ACCOUNTS, "default", "default"))
        await until(lambda: client.get(LOCAL_QUEUES, "queue", "default"))
        for name in ("one", "two"):
            await client.create(JOBS, job(name, 2), "default")

        async def succeeded() -> bool:
            found = [await client.get(JOBS, name, "default") for name in ("one", "two")]
            return all((one.get("status") or {}).get("succeeded") for one in found)

        await until(succeeded)
        pods = (await client.list(PODS, "default")).items
        assert {pod["spec"]["nodeName"] for pod in pods} <= {"card-0", "card-1"}
        assert all(pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"} for pod in pods)
        said = [piece async for piece in client.log(pods[0]["metadata"]["name"], "default")]
        assert said[-1] == b"(simulated) step 10/10\n"
        nodes = (await client.list(NODES)).items
        assert all(not node["spec"].get("taints") for node in nodes)

    with_fleet(tmp_path, test)


def test_the_queue_of_this_machine_goes_when_a_fleet_takes_its_place_and_comes_back(tmp_path: Path) -> None:
    async def queues(settings: Settings, expected: set[str]) -> None:
        async with ControlPlane(Home(tmp_path), settings) as plane:
            parts = plane.clusters["local"]
            client = LocalClient(parts.cluster, parts.access.system_user("test"), "test")

            async def as_expected() -> bool:
                found = await client.list(LOCAL_QUEUES, "default")
                return {each["metadata"]["name"] for each in found.items} == expected

            assert await until(as_expected)

    asyncio.run(queues(Settings(fsync=False), {"this-machine"}))
    asyncio.run(queues(Settings(fsync=False, fleet=read_fleet(FLEET)), {"queue"}))
    asyncio.run(queues(Settings(fsync=False), {"queue", "this-machine"}))
