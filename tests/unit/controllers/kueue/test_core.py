"""What Kueue's core promises: quota is given once, taken back when it is free, and everybody is told why they wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Internal
from gpuaas.client.kueue import (
    CLUSTER_QUEUES,
    FINALIZER,
    KUEUE,
    LOCAL_QUEUES,
    PREEMPTIONS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.kueue.workload_state import holds
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]


def flavor(name: str) -> Object:
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {}}


def cluster_queue(name: str, gpus: int, flavor: str = "l4", **spec: Any) -> Object:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}
    whole = {"resourceGroups": [group], "namespaceSelector": {}, **spec}
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": whole}


def local_queue(name: str, queue: str) -> Object:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": queue}}


def workload(name: str, gpus: int, *, priority: int = 0, queue: str = "main", **spec: Any) -> Object:
    containers = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    pod_set = {"name": "main", "count": gpus, "template": {"spec": {"containers": containers}}}
    whole = {"queueName": queue, "podSets": [pod_set], "priority": priority, "active": True, **spec}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": whole}


@asynccontextmanager
async def house(gpus: int = 4, **spec: Any) -> AsyncIterator[Stage]:
    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))
    async with stage(KueueCore, QueueStatuses, cluster=cluster) as world:
        world.cluster.put(NAMESPACES, namespace("team"))
        world.cluster.put(RESOURCE_FLAVORS, flavor("l4"))
        world.cluster.put(CLUSTER_QUEUES, cluster_queue("research", gpus, **spec))
        world.cluster.put(LOCAL_QUEUES, local_queue("main", "research"))
        await world.settle()
        yield world


def condition(world: Stage, name: str, kind: str) -> tuple[str, str, str] | None:
    for each in (world.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return None


def is_admitted(world: Stage, name: str) -> bool:
    found = condition(world, name, "Admitted")
    return found is not None and found[0] == "True"


@scenario
async def test_what_fits_is_admitted_and_what_does_not_is_told_the_arithmetic() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 2))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 3))
        await world.settle()
        assert condition(world, "first", "QuotaReserved") == (
            "True",
            "QuotaReserved",
            "Quota reserved in ClusterQueue research",
        )
        assert condition(world, "first", "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert world.cluster.read(WORKLOADS, "first", "team")["status"]["admission"] == {
            "clusterQueue": "research",
            "podSetAssignments": [
                {
                    "name": "main",
                    "flavors": {"nvidia.com/gpu": "l4"},
                    "resourceUsage": {"nvidia.com/gpu": "2"},
                    "count": 2,
                }
            ],
        }
        assert condition(world, "second", "QuotaReserved") == (
            "False",
            "Pending",
            "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor l4, 1 more needed",
        )
        waits = world.cluster.read(WORKLOADS, "second", "team")["status"]
        assert waits["resourceRequests"] == [{"name": "main", "resources": {"nvidia.com/gpu": "3"}}]
        world.cluster.remove(WORKLOADS, "first", "team")
        await world.settle()
        runs = world.cluster.read(WORKLOADS, "second", "team")["status"]
        assert "admission" in runs
        assert "resourceRequests" not in runs, "what it uses says it now"


@scenario
async def test_who_waits_is_told_of_which_generation_it_was_judged() -> None:
    async with house(1) as world:
        world.cluster.put(WORKLOADS, workload("first", 1))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 1))
        await world.settle()
        obj = world.cluster.read(WORKLOADS, "second", "team")
        world.cluster.put(WORKLOADS, {**obj, "spec": {**obj["spec"], "priority": -1}})
        await world.settle()
        found = world.cluster.read(WORKLOADS, "second", "team")
        (said,) = [each for each in found["status"]["conditions"] if each["type"] == "QuotaReserved"]
        assert said["observedGeneration"] == found["metadata"]["generation"] > obj["metadata"]["generation"]


@scenario
async def test_a_waiting_workload_starts_when_the_one_before_it_finishes() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 4))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 4))
        await world.settle()
        assert not is_admitted(world, "second")
        finished = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}
        status = world.cluster.read(WORKLOADS, "first", "team")["status"]
        world.cluster.set_status(WORKLOADS, "first", "team", conditions=[*status["conditions"], finished])
        await world.settle()
        assert is_admitted(world, "second")


@scenario
async def test_deleting_a_workload_frees_its_quota() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 4))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 4))
        world.cluster.remove(WORKLOADS, "first", "team")
        await world.settle()
        assert is_admitted(world, "second")


@scenario
async def test_a_higher_priority_evicts_a_lower_one_and_keeps_out_until_the_quota_is_free() -> None:
    async with house(4, preemption={"withinClusterQueue": "LowerPriority"}) as world:
        world.cluster.put(WORKLOADS, workload("dev", 4))
        await world.settle()
        await world.advance(90)
        world.cluster.put(WORKLOADS, workload("prod", 4, priority=100))
        await world.settle()
        status, reason, message = condition(world, "dev", "Evicted") or ("", "", "")
        assert (status, reason) == ("True", "Preempted")
        assert "due to prioritization in the ClusterQueue" in message
        assert (condition(world, "dev", "Preempted") or ("", ""))[1] == "InClusterQueue"
        (entry,) = world.cluster.all(PREEMPTIONS, "team")
        assert entry["spec"]["victim"]["name"] == "dev"
        assert (entry["spec"]["rule"], entry["spec"]["freed"]) == ("InClusterQueue", {"nvidia.com/gpu": "4"})
        assert (entry["spec"]["ranSeconds"], entry["spec"]["gpuSecondsLost"]) == (90, 360)
        assert is_admitted(world, "dev"), "its quota is counted until its pods are gone"
        assert not is_admitted(world, "prod")
        priorities = "preemptor effective priority: 100 (base: 100, boost: 0); preemptee effective priority: 0 (base: 0"
        told = [each for each in world.cluster.events("team") if "Preempted workload team/dev (UID: " in each]
        assert len(told) == 1
        assert f"in ClusterQueue research; {priorities}, boost: 0)" in told[0]


@scenario
async def test_a_queue_that_does_not_exist_is_named() -> None:
    async with house() as world:
        world.cluster.put(WORKLOADS, workload("lost", 1, queue="nowhere"))
        await world.settle()
        assert condition(world, "lost", "QuotaReserved") == (
            "False",
            "Inadmissible",
            "LocalQueue nowhere doesn't exist",
        )


@scenario
async def test_what_is_said_of_a_queue_that_cannot_be_used_is_said_of_the_newest_generation() -> None:
    async with house() as world:
        world.cluster.put(WORKLOADS, workload("lost", 1, queue="nowhere"))
        await world.settle()
        obj = world.cluster.read(WORKLOADS, "lost", "team")
        world.cluster.put(WORKLOADS, {**obj, "spec": {**obj["spec"], "priority": 7}})
        await world.settle()
        changed = world.cluster.read(WORKLOADS, "lost", "team")
        said = {each["type"]: each for each in changed["status"]["conditions"]}["QuotaReserved"]
        assert (said["observedGeneration"], changed["metadata"]["generation"]) == (2, 2)


@scenario
async def test_a_stopped_queue_admits_nothing_and_a_drained_one_evicts() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("running", 2))
        await world.settle()
        world.cluster.put(CLUSTER_QUEUES, cluster_queue("research", 4, stopPolicy="HoldAndDrain"))
        world.cluster.put(WORKLOADS, workload("late", 1))
        await world.settle()
        assert (condition(world, "running", "Evicted") or ("", ""))[1] == "ClusterQueueStopped"
        assert condition(world, "late", "QuotaReserved") == (
            "False",
            "Inadmissible",
            "ClusterQueue research is inactive",
        )


FAULTS = pytest.mark.parametrize(
    "fault", [Internal("the disk is full"), KeyError("a mistake of ours")], ids=["said", "not"]
)


@FAULTS
@scenario
async def test_an_admission_that_could_not_be_written_is_tried_again(fault: Exception) -> None:
    async with house(4) as world:
        world.cluster.fail_next("update", WORKLOADS, fault)
        world.cluster.put(WORKLOADS, workload("unlucky", 4))
        await world.advance(2)
        assert not world.cluster.faults
        assert is_admitted(world, "unlucky")


@FAULTS
@scenario
async def test_a_preemption_that_could_not_be_written_is_tried_again(fault: Exception) -> None:
    async with house(4, preemption={"withinClusterQueue": "LowerPriority"}) as world:
        world.cluster.put(WORKLOADS, workload("low", 4))
        await world.settle()
        world.cluster.fail_next("update", WORKLOADS, fault)
        world.cluster.put(WORKLOADS, workload("high", 4, priority=100))
        await world.advance(2)
        assert not world.cluster.faults
        evicted = condition(world, "low", "Evicted")
        assert evicted is not None
        assert evicted[:2] == ("True", "Preempted")


@scenario
async def test_a_victim_whose_admission_is_still_being_written_is_evicted_after_it() -> None:
    async with house(4, preemption={"withinClusterQueue": "LowerPriority"}) as world:
        update, admission_may_go = world.cluster.update, asyncio.Event()

        async def slow(resource: Resource, obj: Object, *rest: Any, **options: Any) -> Object:
            if obj["metadata"]["name"] == "low" and "admission" in obj.get("status", {}):
                await admission_may_go.wait()
            return await update(resource, obj, *rest, **options)

        world.cluster.update = slow  # type: ignore[method-assign]
        world.cluster.put(WORKLOADS, workload("low", 4))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("high", 4, priority=100))
        await world.settle()
        admission_may_go.set()
        await world.advance(1)
        assert condition(world, "low", "QuotaReserved") is not None
        evicted = condition(world, "low", "Evicted")
        assert evicted is not None
        assert evicted[:2] == ("True", "Preempted")
        assert len(world.cluster.all(PREEMPTIONS)) == 1


@scenario
async def test_room_of_a_victim_is_given_to_others_only_when_the_victim_has_been_told_to_leave() -> None:
    """A victim frees more than its cause needs; neighbours get the rest in the same cycle, as upstream decides."""
    async with house(3, cohortName="all", preemption={"reclaimWithinCohort": "Any"}) as world:
        for name in ("other", "third", "fourth"):
            world.cluster.put(CLUSTER_QUEUES, cluster_queue(name, 2, cohortName="all"))
            world.cluster.put(LOCAL_QUEUES, local_queue(name, name))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("borrower", 7, queue="other"))
        await world.settle()
        written: list[tuple[str, bool, bool]] = []
        update = world.cluster.update

        async def noted(resource: Resource, obj: Object, *rest: Any, **options: Any) -> Object:
            made = await update(resource, obj, *rest, **options)
            if resource is WORKLOADS:
                written.append((obj["metadata"]["name"], "admission" in obj["status"], holds(obj, "Evicted")))
            return made

        world.cluster.update = noted  # type: ignore[method-assign]
        world.cluster.put(WORKLOADS, workload("owner", 3, priority=9))
        world.cluster.put(WORKLOADS, workload("one", 2, queue="third"))
        world.cluster.put(WORKLOADS, workload("two", 2, queue="fourth"))
        await world.settle()
        evicted = condition(world, "borrower", "Evicted")
        assert evicted is not None
        assert evicted[0] == "True"
        given = {("one", True, False), ("two", True, False)}
        assert given <= set(written), "both got room the borrower has not left yet"
        assert written.index(("borrower", True, True)) < min(map(written.index, given))


@scenario
async def test_words_that_change_all_the_time_are_written_now_and_then_and_the_newest_in_the_end() -> None:
    async with house(64) as world:
        world.cluster.put(WORKLOADS, workload("base", 4))
        for number in range(30):
            world.cluster.put(WORKLOADS, workload(f"small-{number}", 1))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("waiting", 60))
        for number in range(29):
            await world.settle()
            world.cluster.remove(WORKLOADS, f"small-{number}", "team")
        await world.settle()
        assert 2 <= len([event for event in world.cluster.events() if "more needed" in event]) <= 6
        await world.advance(3)
        found = condition(world, "waiting", "QuotaReserved")
        assert found is not None
        assert "1 more needed" in found[2]


@scenario
async def test_nobody_stands_in_the_line_of_a_stopped_local_queue() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("running", 4))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("waiting", 1))
        await world.settle()
        assert pending(world) == (1, 1)
        stopped = local_queue("main", "research")
        stopped["spec"]["stopPolicy"] = "Hold"
        world.cluster.put(LOCAL_QUEUES, stopped)
        await world.settle()
        assert pending(world) == (0, 0)
        world.cluster.put(LOCAL_QUEUES, local_queue("main", "research"))
        await world.settle()
        assert pending(world) == (1, 1)


def pending(world: Stage) -> tuple[int, int]:
    cluster_queue, local = (
        world.cluster.read(*at) for at in ((CLUSTER_QUEUES, "research"), (LOCAL_QUEUES, "main", "team"))
    )
    return cluster_queue["status"]["pendingWorkloads"], local["status"]["pendingWorkloads"]


@scenario
async def test_a_deactivated_workload_is_evicted_and_its_quota_is_free_at_once() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 4))
        world.cluster.put(WORKLOADS, workload("second", 4))
        await world.settle()
        obj = world.cluster.read(WORKLOADS, "first", "team")
        world.cluster.put(WORKLOADS, {**obj, "spec": {**obj["spec"], "active": False}})
        await world.settle()
        assert condition(world, "first", "Evicted") == ("True", "Deactivated", "The workload is deactivated")
        assert is_admitted(world, "second")


@scenario
async def test_a_workload_that_ran_too_long_is_deactivated() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("long", 1, maximumExecutionTimeSeconds=60))
        await world.settle()
        await world.advance(61)
        assert world.cluster.read(WORKLOADS, "long", "team")["spec"]["active"] is False
        assert (condition(world, "long", "Evicted") or ("", ""))[1] == "DeactivatedDueToMaximumExecutionTimeExceeded"


@scenario
async def test_changing_a_priority_class_changes_its_workloads() -> None:
    async with house(4) as world:
        world.cluster.put(PRIORITY_CLASSES, {"metadata": {"name": "prod"}, "value": 10})
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "prod"}
        world.cluster.put(WORKLOADS, workload("job", 8, priority=10, priorityClassRef=reference))
        await world.settle()
        world.cluster.put(PRIORITY_CLASSES, {"metadata": {"name": "prod"}, "value": 500})
        await world.settle()
        assert world.cluster.read(WORKLOADS, "job", "team")["spec"]["priority"] == 500


@scenario
async def test_the_statuses_of_queues_count_what_waits_and_what_runs() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 3))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 3))
        await world.settle()
        status = world.cluster.read(CLUSTER_QUEUES, "research")["status"]
        assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 1, 1)
        assert status["flavorsReservation"] == [
            {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}]}
        ]
        assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [("Active", "True", "Ready")]
        local = world.cluster.read(LOCAL_QUEUES, "main", "team")["status"]
        assert (local["pendingWorkloads"], local["admittedWorkloads"]) == (1, 1)


@scenario
async def test_a_missing_flavor_makes_the_queue_inactive_in_upstreams_words() -> None:
    async with house(4) as world:
        world.cluster.remove(RESOURCE_FLAVORS, "l4")
        await world.settle()
        assert world.cluster.exists(RESOURCE_FLAVORS, "l4"), "it is kept while a queue refers to it"
        world.cluster.put(CLUSTER_QUEUES, cluster_queue("other", 1, "h200"))
        await world.settle()
        active = world.cluster.read(CLUSTER_QUEUES, "other")["status"]["conditions"][0]
        assert (active["status"], active["reason"]) == ("False", "FlavorNotFound")
        assert active["message"] == "Can't admit new workloads: references missing ResourceFlavor(s): h200."


@scenario
async def test_nothing_is_admitted_twice_after_a_restart() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("first", 3))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("second", 3))
        await world.settle()
        async with stage(KueueCore, QueueStatuses, cluster=world.cluster) as again:
            await again.settle()
            admitted = [name for name in ("first", "second") if is_admitted(again, name)]
        assert admitted == ["first"]


@scenario
async def test_objects_without_a_spec_do_no_harm() -> None:
    async with house(4) as world:
        world.cluster.put(LOCAL_QUEUES, {"metadata": {"name": "empty", "namespace": "team"}})
        world.cluster.put(CLUSTER_QUEUES, {"metadata": {"name": "empty"}})
        world.cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "empty"}})
        world.cluster.put(WORKLOADS, workload("lost", 1, queue="empty"))
        world.cluster.put(WORKLOADS, workload("good", 1))
        await world.settle()
        assert is_admitted(world, "good")
        assert condition(world, "lost", "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue  doesn't exist")


def limit_range(**limits: Any) -> Object:
    return {"metadata": {"name": "sizes", "namespace": "team"}, "spec": {"limits": [{"type": "Container", **limits}]}}


@scenario
async def test_a_limit_range_gives_requests_to_those_that_ask_for_nothing() -> None:
    async with house(4) as world:
        world.cluster.put(LIMIT_RANGES, limit_range(defaultRequest={"nvidia.com/gpu": "3"}))
        silent = workload("silent", 1)
        silent["spec"]["podSets"][0]["template"]["spec"]["containers"] = [{"name": "c"}]
        world.cluster.put(WORKLOADS, silent)
        await world.settle()
        given = world.cluster.read(WORKLOADS, "silent", "team")["status"]["admission"]["podSetAssignments"][0]
        assert given["resourceUsage"] == {"nvidia.com/gpu": "3"}


@scenario
async def test_a_limit_range_keeps_out_what_is_too_large_until_it_allows_it() -> None:
    async with house(4) as world:
        world.cluster.put(LIMIT_RANGES, limit_range(max={"nvidia.com/gpu": "500m"}))
        world.cluster.put(WORKLOADS, workload("job", 1))
        await world.settle()
        found = condition(world, "job", "QuotaReserved")
        assert found is not None
        assert found[2].startswith("resources didn't satisfy LimitRange constraints: ")
        world.cluster.put(LIMIT_RANGES, limit_range(max={"nvidia.com/gpu": "1"}))
        await world.settle()
        assert is_admitted(world, "job")


@scenario
async def test_the_overhead_of_a_runtime_class_counts_and_counts_anew_when_it_changes() -> None:
    async with house(4) as world:

        def overhead(gpus: str) -> Object:
            return {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"nvidia.com/gpu": gpus}}}

        world.cluster.put(RUNTIME_CLASSES, overhead("4"))
        job = workload("job", 1)
        job["spec"]["podSets"][0]["template"]["spec"]["runtimeClassName"] = "kata"
        world.cluster.put(WORKLOADS, job)
        await world.settle()
        assert not is_admitted(world, "job")
        world.cluster.put(RUNTIME_CLASSES, overhead("2"))
        await world.settle()
        given = world.cluster.read(WORKLOADS, "job", "team")["status"]["admission"]["podSetAssignments"][0]
        assert given["resourceUsage"] == {"nvidia.com/gpu": "3"}


@scenario
async def test_who_takes_only_the_quota_away_takes_the_admission_with_it() -> None:
    async with house(4) as world:
        world.cluster.put(WORKLOADS, workload("job", 3))
        await world.settle()
        world.cluster.put(CLUSTER_QUEUES, cluster_queue("research", 4, stopPolicy="Hold"))
        await world.settle()
        conditions = world.cluster.read(WORKLOADS, "job", "team")["status"]["conditions"]
        taken = [{**each, "status": "False"} for each in conditions]
        world.cluster.set_status(WORKLOADS, "job", "team", conditions=taken)
        await world.settle()
        assert "admission" not in world.cluster.read(WORKLOADS, "job", "team")["status"]
        world.cluster.put(CLUSTER_QUEUES, cluster_queue("research", 4))
        await world.settle()
        assert is_admitted(world, "job")


@scenario
async def test_a_workload_its_job_left_behind_is_finished_and_gives_its_quota_back() -> None:
    async with house(4) as world:
        left = workload("left", 4)
        left["metadata"] |= {"labels": {"kueue.x-k8s.io/job-uid": "1234"}, "finalizers": [FINALIZER]}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1234"}
        world.cluster.put(WORKLOADS, {**left, "metadata": {**left["metadata"], "ownerReferences": [owner]}})
        await world.settle()
        world.cluster.put(WORKLOADS, workload("next", 4))
        await world.settle()
        assert not is_admitted(world, "next")
        await world.cluster.patch(WORKLOADS, "left", {"metadata": {"ownerReferences": None}}, "team")
        await world.settle()
        assert condition(world, "left", "Finished") == (
            "True",
            "OwnerNotFound",
            "The workload's owner no longer exists",
        )
        assert not world.cluster.read(WORKLOADS, "left", "team")["metadata"].get("finalizers")
        assert is_admitted(world, "next")
