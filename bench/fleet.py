"""A hub and workers in one process, over HTTPS: how long a job takes from its submission to running, and how many a second.

Upstream's own benchmark (1 hub, 3 workers) reaches 1.31 workloads a second as shipped and 97 to 102 unthrottled.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from gpuaas.assembly.control_plane import ControlPlane, Settings
from gpuaas.assembly.fleet import read_fleet
from gpuaas.assembly.home import Home
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.kubeconfig import load
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    RESOURCE_FLAVORS,
)
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, SECRETS
from gpuaas.kueue.configuration.settings import Configuration
from gpuaas.kueue.multikueue.rules import ALL_AT_ONCE, BY_FIT, MultiKueueRules

_NODES = """
  - name: h200
    count: 16
    gpu: {product: NVIDIA-H200, count: 8}
    cpu: 256
    memory: 2Ti
"""
_WORKERS = 3
_SINGLE = 30
_BURST = 200
_LIMIT = 120.0


async def _measure(dispatcher: str) -> dict[str, float]:
    names = [f"worker{number}" for number in range(1, _WORKERS + 1)]
    with tempfile.TemporaryDirectory(prefix="gpuaas-bench-") as folder:
        async with _plane(Path(folder), names, dispatcher) as (plane, hub):
            await _wire(plane, hub, names)
            singles = [await _one(hub, f"single-{number}") for number in range(_SINGLE)]
            rate, waits = await _burst(hub)
    return {
        "single p50 s": statistics.median(singles),
        "single p99 s": max(singles),
        "burst jobs/s": rate,
        "burst p50 s": statistics.median(waits),
        "burst p99 s": sorted(waits)[int(len(waits) * 0.99) - 1],
    }


@contextlib.asynccontextmanager
async def _plane(folder: Path, names: list[str], dispatcher: str) -> AsyncIterator[tuple[ControlPlane, HttpClient]]:
    fleet = read_fleet(
        "\n".join(["clusters:", "- name: hub", *(f"- name: {each}\n  nodes:{_NODES}" for each in names)])
    )
    kueue = Configuration(multikueue=MultiKueueRules(dispatcher=dispatcher))
    settings = Settings(clusters=("hub", *names), fleet=fleet, kueue=kueue)
    async with ControlPlane(Home(folder / "home"), settings) as plane, _client(plane, "hub") as hub:
        yield plane, hub


def _client(plane: ControlPlane, name: str) -> HttpClient:
    return from_kubeconfig(plane.home.kubeconfig, name)


async def _wire(plane: ControlPlane, hub: HttpClient, names: list[str]) -> None:
    for name in names:
        async with from_kubeconfig(plane.home.kubeconfig, name) as client:
            await _queues(client, 16 * 8, {})
    check = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}
    await _queues(hub, len(names) * 16 * 8, check)
    for name in names:
        data = base64.b64encode(_kubeconfig(plane.home.kubeconfig, name)).decode()
        secret = {"metadata": {"name": name, "namespace": "kueue-system"}, "data": {"kubeconfig": data}}
        await _create(hub, SECRETS, secret)
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        await _create(hub, MULTIKUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})
    await _create(hub, MULTIKUEUE_CONFIGS, {"metadata": {"name": "all"}, "spec": {"clusters": names}})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    await _create(hub, ADMISSION_CHECKS, {"metadata": {"name": "mk"}, "spec": spec})
    deadline = time.monotonic() + _LIMIT
    while time.monotonic() < deadline:
        queue = await hub.get(CLUSTER_QUEUES, "main")
        check_now = await hub.get(ADMISSION_CHECKS, "mk")
        reasons = [each["reason"] for each in (check_now.get("status") or {}).get("conditions") or ()]
        active = [each["status"] for each in (queue.get("status") or {}).get("conditions") or ()]
        if reasons == ["Active"] and active == ["True"]:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError("the workers did not connect")


async def _queues(client: HttpClient, gpus: int, more: dict[str, Any]) -> None:
    await _create(client, RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
    quotas = [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any", "resources": quotas}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], **more}
    await _create(client, CLUSTER_QUEUES, {"metadata": {"name": "main"}, "spec": spec})
    local = {"metadata": {"name": "queue", "namespace": "default"}, "spec": {"clusterQueue": "main"}}
    await _create(client, LOCAL_QUEUES, local)


async def _create(client: HttpClient, resource: Resource, obj: dict[str, Any]) -> None:
    await client.create(resource, obj, obj["metadata"].get("namespace", ""))


def _kubeconfig(path: Path, name: str) -> bytes:
    found = load([path])
    parts = {"clusters": found.clusters, "users": found.users, "contexts": found.contexts}
    keys = {"clusters": "cluster", "users": "user", "contexts": "context"}
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": name}
    for section, entries in parts.items():
        entry = {key: value for key, value in entries[name].items() if key != "@file"}
        whole[section] = [{"name": name, keys[section]: entry}]
    return yaml.safe_dump(whole).encode()


def _job(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "600"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {"template": template}}


async def _one(hub: HttpClient, name: str) -> float:
    begin = time.monotonic()
    await _create(hub, JOBS, _job(name))
    while not (((await hub.get(JOBS, name, "default")).get("status") or {}).get("active")):
        if time.monotonic() > begin + _LIMIT:
            raise TimeoutError(f"{name} does not run")
        await asyncio.sleep(0.005)
    return time.monotonic() - begin


async def _burst(hub: HttpClient) -> tuple[float, list[float]]:
    """Jobs that run a second, as the hub's status shows them, and how long each waited."""
    listing = await hub.list(JOBS, "default")
    begun: dict[str, float] = {}
    waits: dict[str, float] = {}

    async def follow() -> None:
        while len(waits) < _BURST:
            events = hub.watch(JOBS, "default", resource_version=listing.resource_version)
            async with contextlib.aclosing(events) as stream:
                async for _, obj in stream:
                    name = obj["metadata"]["name"]
                    if (obj.get("status") or {}).get("active") and name in begun and name not in waits:
                        waits[name] = time.monotonic() - begun[name]
                        if len(waits) == _BURST:
                            return

    async def submit(name: str) -> None:
        begun[name] = time.monotonic()
        await _create(hub, JOBS, _job(name))

    following = asyncio.create_task(follow())
    begin = time.monotonic()
    await asyncio.gather(*(submit(f"burst-{number}") for number in range(_BURST)))
    async with asyncio.timeout(_LIMIT):
        await following
    return _BURST / (time.monotonic() - begin), list(waits.values())


def measure() -> dict[str, dict[str, float]]:
    print(f"\nA hub and {_WORKERS} workers in one process, {_SINGLE} jobs one by one, then {_BURST} at once")
    figures = {}
    for dispatcher in (ALL_AT_ONCE, BY_FIT):
        figures[dispatcher] = asyncio.run(_measure(dispatcher))
        print(f"  {dispatcher}")
        for name, value in figures[dispatcher].items():
            print(f"    {name:<16} {value:8.2f}")
    return figures
