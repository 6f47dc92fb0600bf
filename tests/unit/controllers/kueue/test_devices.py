"""Claims of devices follow what the cluster has: classes, templates and slices that come and change let workloads in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gpuaas.base.clock import VirtualClock
from gpuaas.client.kueue import CLUSTER_QUEUES, KUEUE, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import CLAIM_TEMPLATES, DEVICE_CLASSES, DEVICE_SLICES, NAMESPACES
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.dra.rules import DeviceMapping, DeviceRules, Source
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
RULES = DeviceRules(
    (
        DeviceMapping("gpus", ("gpu.example.com",)),
        DeviceMapping("gpu-memory", ("mig.example.com",), (Source("counter", "gpu.example.com", "memory", "true"),)),
    )
)


@asynccontextmanager
async def house(rules: DeviceRules = RULES) -> AsyncIterator[Stage]:
    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))
    configured = Configured(Configuration(devices=rules))
    async with stage(lambda deps: KueueCore(deps, configured), QueueStatuses, cluster=cluster) as world:
        cluster.put(NAMESPACES, namespace("team"))
        cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": {}})
        quotas = [{"name": "gpus", "nominalQuota": "4"}, {"name": "gpu-memory", "nominalQuota": "64Gi"}]
        group = {"coveredResources": ["gpus", "gpu-memory"], "flavors": [{"name": "l4", "resources": quotas}]}
        cluster.put(
            CLUSTER_QUEUES,
            {"metadata": {"name": "research"}, "spec": {"resourceGroups": [group], "namespaceSelector": {}}},
        )
        cluster.put(
            LOCAL_QUEUES, {"metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "research"}}
        )
        await world.settle()
        yield world


def workload(name: str, *, template: str = "", **requests: str) -> Object:
    pod: Object = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if template:
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec = {"queueName": "main", "active": True, "podSets": [{"name": "main", "count": 2, "template": {"spec": pod}}]}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def template(name: str, device_class: str = "gpu.example.com") -> Object:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"spec": requests}}


def device_class(name: str, resource: str = "") -> Object:
    return {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}


def usage(world: Stage, name: str) -> Object | None:
    given = (world.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("admission")
    return given["podSetAssignments"][0]["resourceUsage"] if given else None


def conditions(world: Stage, name: str) -> dict[str, str]:
    found = (world.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions") or ()
    return {each["type"]: each["reason"] for each in found}


def waits_for(world: Stage, name: str, kind: str = "QuotaReserved") -> str:
    found = (world.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in found if each["type"] == kind), "")


@scenario
async def test_a_workload_waits_for_its_claim_template_and_takes_what_it_asks_for() -> None:
    async with house() as world:
        world.cluster.put(WORKLOADS, workload("job", template="one"))
        await world.settle()
        assert waits_for(world, "job").endswith('ResourceClaimTemplate.resource.k8s.io "one" not found')
        world.cluster.put(CLAIM_TEMPLATES, template("one"))
        await world.settle()
        assert usage(world, "job") == {"gpus": "2"}
        assert conditions(world, "job") == {"QuotaReserved": "QuotaReserved", "Admitted": "Admitted"}


@scenario
async def test_who_cannot_be_counted_stands_in_no_line() -> None:
    async with house() as world:
        world.cluster.put(WORKLOADS, workload("job", template="none"))
        own = workload("own", template="mine")
        pod = own["spec"]["podSets"][0]["template"]["spec"]
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
        world.cluster.put(WORKLOADS, own)
        await world.settle()
        for name in ("job", "own"):
            assert conditions(world, name) == {"QuotaReserved": "Inadmissible", "Requeued": "Inadmissible"}
        told = waits_for(world, "own"), waits_for(world, "own", "Requeued")
        assert told == (
            "KueueDRAIntegration feature does not support use of resource claims",
            "DRA resource claims not supported",
        )
        assert world.cluster.read(CLUSTER_QUEUES, "research")["status"].get("pendingWorkloads", 0) == 0
        world.cluster.put(CLAIM_TEMPLATES, template("none", "other.example.com"))
        await world.settle()
        assert "DeviceClass other.example.com is not mapped" in waits_for(world, "job", "Requeued")


@scenario
async def test_quota_of_devices_is_kept() -> None:
    async with house() as world:
        world.cluster.put(CLAIM_TEMPLATES, template("one"))
        for name in ("first", "second", "third"):
            world.cluster.put(WORKLOADS, workload(name, template="one"))
            await world.settle()
        assert [usage(world, name) for name in ("first", "second", "third")] == [{"gpus": "2"}, {"gpus": "2"}, None]
        assert "insufficient unused quota for gpus in flavor l4, 2 more needed" in waits_for(world, "third")


@scenario
async def test_a_class_that_comes_and_goes_changes_what_a_name_stands_for() -> None:
    async with house() as world:
        world.cluster.put(WORKLOADS, workload("job", **{"example.com/gpu": "1"}))
        await world.settle()
        assert "example.com/gpu" in waits_for(world, "job")
        world.cluster.put(DEVICE_CLASSES, device_class("gpu.example.com", "example.com/gpu"))
        await world.settle()
        assert usage(world, "job") == {"gpus": "2"}
        world.cluster.remove(DEVICE_CLASSES, "gpu.example.com")
        await world.settle()
        world.cluster.put(WORKLOADS, workload("later", **{"example.com/gpu": "2"}))
        await world.settle()
        assert usage(world, "job") == {"gpus": "2"}
        assert usage(world, "later") is None
        assert "example.com/gpu" in waits_for(world, "later")


@scenario
async def test_devices_that_appear_are_what_counters_are_read_from() -> None:
    async with house() as world:
        world.cluster.put(DEVICE_CLASSES, device_class("mig.example.com"))
        world.cluster.put(CLAIM_TEMPLATES, template("part", "mig.example.com"))
        world.cluster.put(WORKLOADS, workload("job", template="part"))
        await world.settle()
        assert "0 device(s) match but 1 requested" in waits_for(world, "job")
        part = {"name": "d", "consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "10Gi"}}}]}
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "pool": pool, "devices": [part]}
        world.cluster.put(DEVICE_SLICES, {"metadata": {"name": "slice"}, "spec": spec})
        await world.settle()
        assert usage(world, "job") == {"gpu-memory": "20Gi"}


@scenario
async def test_without_the_integration_claims_are_refused() -> None:
    async with house(DeviceRules(counts=False)) as world:
        world.cluster.put(WORKLOADS, workload("job", template="one"))
        await world.settle()
        assert waits_for(world, "job") == (
            "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
        )
