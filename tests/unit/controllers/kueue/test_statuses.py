"""What the statuses of queues say, and how long flavors and checks are kept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FINALIZER,
    KUEUE,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.resources import NAMESPACES
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"


def queue(name: str, *flavors: str, **spec: Any) -> Object:
    quotas = [{"name": each, "resources": [{"name": "cpu", "nominalQuota": "4"}]} for each in flavors]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}] if flavors else []
    whole = {"resourceGroups": groups, "namespaceSelector": {}, **spec}
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": whole}


def checked(*rules: Object) -> Object:
    return {"admissionChecksStrategy": {"admissionChecks": list(rules)}}


def flavor(name: str) -> Object:
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {}}


def check(name: str, controller: str = "ours", active: str = "True") -> Object:
    conditions = [{"type": "Active", "status": active, "reason": "X", "message": "", "lastTransitionTime": None}]
    return {"metadata": {"name": name}, "spec": {"controllerName": controller}, "status": {"conditions": conditions}}


def admitted(name: str, cluster_queue: str) -> Object:
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "a"}, "resourceUsage": {"cpu": "1"}}
    moment = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": "X", "message": "", "lastTransitionTime": moment}
        for kind in ("QuotaReserved", "Admitted")
    ]
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"queueName": "main", "podSets": [pod_set], "active": True},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": cluster_queue, "podSetAssignments": [assignment]},
        },
    }


@asynccontextmanager
async def house() -> AsyncIterator[Stage]:
    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))
    async with stage(KueueCore, QueueStatuses, cluster=cluster) as world:
        world.cluster.put(NAMESPACES, namespace("team"))
        for name in ("a", "b"):
            world.cluster.put(RESOURCE_FLAVORS, flavor(name))
        yield world


def active(world: Stage, name: str) -> tuple[str, str, str]:
    found = world.cluster.read(CLUSTER_QUEUES, name)["status"]["conditions"][0]
    return found["status"], found["reason"], found["message"]


@scenario
async def test_a_flavor_goes_when_the_last_queue_stops_naming_it() -> None:
    async with house() as world:
        world.cluster.put(CLUSTER_QUEUES, queue("research", "a", "b"))
        await world.settle()
        world.cluster.remove(RESOURCE_FLAVORS, "a")
        await world.settle()
        assert world.cluster.exists(RESOURCE_FLAVORS, "a")
        world.cluster.put(CLUSTER_QUEUES, queue("research", "b"))
        await world.settle()
        assert not world.cluster.exists(RESOURCE_FLAVORS, "a")


@scenario
async def test_flavors_and_checks_go_with_the_queue_that_named_them() -> None:
    async with house() as world:
        world.cluster.put(ADMISSION_CHECKS, check("budget"))
        world.cluster.put(CLUSTER_QUEUES, queue("research", "a", **checked({"name": "budget"})))
        await world.settle()
        world.cluster.remove(RESOURCE_FLAVORS, "a")
        world.cluster.remove(ADMISSION_CHECKS, "budget")
        await world.settle()
        assert world.cluster.exists(RESOURCE_FLAVORS, "a")
        assert world.cluster.exists(ADMISSION_CHECKS, "budget")
        world.cluster.remove(CLUSTER_QUEUES, "research")
        await world.settle()
        assert not world.cluster.exists(CLUSTER_QUEUES, "research")
        assert not world.cluster.exists(RESOURCE_FLAVORS, "a")
        assert not world.cluster.exists(ADMISSION_CHECKS, "budget")


@scenario
async def test_a_topology_goes_with_the_flavor_that_named_it() -> None:
    async with house() as world:
        world.cluster.put(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}})
        placed = flavor("placed")
        placed["spec"] = {"topologyName": "racks", "nodeLabels": {"x": "y"}}
        world.cluster.put(RESOURCE_FLAVORS, placed)
        await world.settle()
        world.cluster.remove(TOPOLOGIES, "racks")
        await world.settle()
        assert world.cluster.exists(TOPOLOGIES, "racks")
        world.cluster.remove(RESOURCE_FLAVORS, "placed")
        await world.settle()
        assert not world.cluster.exists(TOPOLOGIES, "racks")


@scenario
async def test_what_others_refer_to_is_held_even_if_it_was_created_without_the_finalizer() -> None:
    async with house() as world:
        world.cluster.put(ADMISSION_CHECKS, check("budget"))
        world.cluster.put(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}})
        world.cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "bare"}, "spec": {}})
        bare = queue("bare", "bare")
        del bare["metadata"]["finalizers"]
        world.cluster.put(CLUSTER_QUEUES, bare)
        await world.settle()
        for resource, name in (
            (ADMISSION_CHECKS, "budget"),
            (TOPOLOGIES, "racks"),
            (RESOURCE_FLAVORS, "bare"),
            (CLUSTER_QUEUES, "bare"),
        ):
            assert world.cluster.read(resource, name)["metadata"].get("finalizers") == [FINALIZER], name


@scenario
async def test_a_local_queue_without_its_cluster_queue_counts_nothing_that_holds_quota() -> None:
    async with house() as world:
        world.cluster.put(CLUSTER_QUEUES, queue("research", "a"))
        world.cluster.put(
            LOCAL_QUEUES, {"metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "research"}}
        )
        world.cluster.put(WORKLOADS, admitted("job", "research"))
        await world.settle()
        assert world.cluster.read(LOCAL_QUEUES, "main", "team")["status"]["reservingWorkloads"] == 1
        world.cluster.remove(CLUSTER_QUEUES, "research")
        await world.settle()
        await world.cluster.patch(CLUSTER_QUEUES, "research", {"metadata": {"finalizers": None}})
        await world.settle()
        assert not world.cluster.exists(CLUSTER_QUEUES, "research")
        status = world.cluster.read(LOCAL_QUEUES, "main", "team")["status"]
        assert (status["reservingWorkloads"], status["admittedWorkloads"], status["pendingWorkloads"]) == (0, 0, 0)
        assert "flavorsReservation" not in status
        assert "flavorsUsage" not in status
        assert status["conditions"][0]["reason"] == "ClusterQueueDoesNotExist"


@scenario
async def test_a_deactivated_workload_holds_nothing_and_keeps_no_queue() -> None:
    async with house() as world:
        world.cluster.put(CLUSTER_QUEUES, queue("research", "a"))
        inactive = admitted("job", "research")
        inactive["spec"]["active"] = False
        world.cluster.put(WORKLOADS, inactive)
        await world.settle()
        status = world.cluster.read(CLUSTER_QUEUES, "research")["status"]
        assert (status["reservingWorkloads"], status["admittedWorkloads"], status["pendingWorkloads"]) == (0, 0, 0)
        world.cluster.remove(CLUSTER_QUEUES, "research")
        await world.settle()
        assert not world.cluster.exists(CLUSTER_QUEUES, "research")


@pytest.mark.parametrize(
    ("rules", "reason", "words"),
    [
        (
            [{"name": "east"}, {"name": "west"}],
            "MultipleMultiKueueAdmissionChecks",
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: east,west",
        ),
        (
            [{"name": "east", "onFlavors": ["a"]}],
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            "Cannot specify MultiKueue AdmissionCheck per flavor, found: east",
        ),
        (
            [{"name": "east"}, {"name": "nodes"}],
            "MultiKueueWithProvisioningRequest",
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: east, nodes",
        ),
    ],
)
def test_checks_that_cannot_stand_together_make_a_queue_inactive(rules: list[Object], reason: str, words: str) -> None:
    @scenario
    async def story() -> None:
        async with house() as world:
            world.cluster.put(ADMISSION_CHECKS, check("east", MULTIKUEUE))
            world.cluster.put(ADMISSION_CHECKS, check("west", MULTIKUEUE))
            world.cluster.put(ADMISSION_CHECKS, check("nodes", PROVISIONING))
            world.cluster.put(CLUSTER_QUEUES, queue("research", "a", "b", **checked(*rules)))
            await world.settle()
            assert active(world, "research") == ("False", reason, f"Can't admit new workloads: {words}.")
            world.cluster.put(CLUSTER_QUEUES, queue("research", "a", "b", **checked({"name": "east"})))
            await world.settle()
            assert active(world, "research")[0] == "True"

    story()


@scenario
async def test_queues_in_cohorts_that_go_round_in_a_circle_are_inactive_until_it_is_broken() -> None:
    async with house() as world:
        for name, parent in (("one", "two"), ("two", "one")):
            world.cluster.put(COHORTS, {"metadata": {"name": name}, "spec": {"parentName": parent}})
        world.cluster.put(CLUSTER_QUEUES, queue("research", "a", cohortName="one"))
        world.cluster.put(LOCAL_QUEUES, {**IN_TEAM, "spec": {"clusterQueue": "research"}})
        world.cluster.put(WORKLOADS, waiting("waits"))
        await world.settle()
        words = "Can't admit new workloads: is in a Cohort that is its own ancestor."
        assert active(world, "research") == ("False", "HasCycle", words)
        told = {each["type"]: each["message"] for each in status(world, "waits")["conditions"]}
        assert told["QuotaReserved"] == "ClusterQueue research is inactive"
        world.cluster.put(COHORTS, {"metadata": {"name": "two"}, "spec": {}})
        await world.settle()
        assert active(world, "research") == ("True", "Ready", "Can admit new workloads")
        assert "admission" in status(world, "waits")


IN_TEAM = {"metadata": {"name": "main", "namespace": "team"}}


def waiting(name: str) -> Object:
    obj = admitted(name, "research")
    return {key: value for key, value in obj.items() if key != "status"}


def status(world: Stage, name: str) -> Object:
    found: Object = world.cluster.read(WORKLOADS, name, "team")["status"]
    return found
