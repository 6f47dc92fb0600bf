"""What the configuration changes: how long things are kept, who waits for whom, what counts; at start and while running."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FINALIZER,
    KUEUE,
    KUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NAMESPACES
from gpuaas.controllers.integrations.kinds import controller_for
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.controllers.kueue_operator import KueueOperator
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.supervise import ReadyRules
from gpuaas.engine.usage_share import UsageConfig
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.registry import JOB_KINDS
from gpuaas.kueue.resources import ResourceRules
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
POD_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")


@asynccontextmanager
async def house(configured: Configured, gpus: int = 4, **spec: Any) -> AsyncIterator[Stage]:
    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE, POD_CLASSES))

    def made(kind: Any) -> Any:
        def factory(deps: Deps) -> Controller:
            found: Controller = kind(deps, configured)
            return found

        return factory

    kinds = (KueueOperator, KueueCore, QueueStatuses, controller_for(JOB_KINDS[0]))
    async with stage(*map(made, kinds), cluster=cluster) as world:
        furnish(world, gpus, **spec)
        await world.settle()
        yield world


def furnish(world: Stage, gpus: int, **spec: Any) -> None:
    world.cluster.put(NAMESPACES, namespace("team"))
    world.cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": {}})
    queue(world, "research", gpus, **spec)
    local_queue(world, "main", "research")


def queue(world: Stage, name: str, gpus: int, **spec: Any) -> None:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "l4", "resources": resources}]}
    whole = {"resourceGroups": [group], "namespaceSelector": {}, **spec}
    world.cluster.put(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": whole})


def local_queue(world: Stage, name: str, cluster_queue: str) -> None:
    world.cluster.put(
        LOCAL_QUEUES, {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": cluster_queue}}
    )


def workload(world: Stage, name: str, gpus: int, queue: str = "main", **spec: Any) -> None:
    containers = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    pod_set = {"name": "main", "count": gpus, "template": {"spec": {"containers": containers}}}
    whole = {"queueName": queue, "podSets": [pod_set], "priority": 0, "active": True, **spec}
    meta = {"name": name, "namespace": "team", "finalizers": [FINALIZER]}
    world.cluster.put(WORKLOADS, {"metadata": meta, "spec": whole})


def mark(world: Stage, name: str, kind: str, status: str, reason: str) -> None:
    """What a job's controller would write."""
    found = world.cluster.read(WORKLOADS, name, "team").get("status") or {}
    others = [each for each in found.get("conditions") or () if each["type"] != kind]
    now = rfc3339(world.clock.now())
    condition = {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}
    world.cluster.set_status(WORKLOADS, name, "team", conditions=[*others, condition])


def condition(world: Stage, name: str, kind: str) -> tuple[str, str]:
    for each in (world.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def is_admitted(world: Stage, name: str) -> bool:
    return condition(world, name, "Admitted")[0] == "True"


def kueue(world: Stage, **config: Any) -> None:
    spec = {"config": {"integrations": {"frameworks": ["BatchJob"]}, **config}}
    world.cluster.put(KUEUES, {"metadata": {"name": "cluster"}, "spec": spec})


# How long things are kept.


@scenario
async def test_a_finished_workload_is_deleted_when_its_time_is_over() -> None:
    async with house(Configured(Configuration(finished_kept=3600))) as world:
        workload(world, "done", 1)
        await world.settle()
        mark(world, "done", "Finished", "True", "Succeeded")
        await world.advance(3599)
        assert world.cluster.exists(WORKLOADS, "done", "team")
        await world.advance(1)
        assert not world.cluster.exists(WORKLOADS, "done", "team")
        words = "Normal Deleted workload/done Deleted finished workload due to elapsed retention"
        assert words in world.cluster.events("team")


@scenario
async def test_a_finished_workload_is_kept_where_nothing_is_said() -> None:
    async with house(Configured()) as world:
        workload(world, "done", 1)
        await world.settle()
        mark(world, "done", "Finished", "True", "Succeeded")
        await world.advance(10 * 86_400)
        assert world.cluster.exists(WORKLOADS, "done", "team")


@scenario
async def test_a_time_that_is_set_later_counts_for_what_has_finished_before() -> None:
    configured = Configured()
    async with house(configured) as world:
        workload(world, "done", 1)
        await world.settle()
        mark(world, "done", "Finished", "True", "Succeeded")
        await world.advance(100)
        configured.become(Configuration(finished_kept=60))
        await world.settle()
        assert not world.cluster.exists(WORKLOADS, "done", "team")


def job(name: str, **labels: str) -> Object:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
    metadata = {"name": name, "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "main", **labels}}
    return {"metadata": metadata, "spec": {"suspend": True, "parallelism": 1, "template": template}}


@scenario
async def test_a_job_kueue_gave_up_on_is_deleted_when_its_time_is_over() -> None:
    async with house(Configured(Configuration(jobs=JobsConfig(delete_deactivated_after=600)))) as world:
        world.cluster.put(JOBS, job("long", **{"kueue.x-k8s.io/max-exec-time-seconds": "60"}))
        await world.advance(61)
        assert world.cluster.read(JOBS, "long", "team")["spec"]["suspend"]
        await world.advance(598)
        assert world.cluster.exists(JOBS, "long", "team")
        await world.advance(3)
        assert not world.cluster.exists(JOBS, "long", "team")
        words = "Normal Deleted job/long Deleted job: deactivation retention period expired"
        assert words in world.cluster.events("team")


@scenario
async def test_a_job_its_user_deactivated_is_kept() -> None:
    async with house(Configured(Configuration(jobs=JobsConfig(delete_deactivated_after=0)))) as world:
        world.cluster.put(JOBS, job("mine"))
        await world.settle()
        (found,) = world.cluster.all(WORKLOADS, "team")
        world.cluster.put(WORKLOADS, {**found, "spec": {**found["spec"], "active": False}})
        await world.advance(3600)
        assert world.cluster.exists(JOBS, "mine", "team")


# Waiting for pods.


@scenario
async def test_pods_that_are_not_ready_in_time_send_their_workload_back_and_then_away() -> None:
    rules = ReadyRules(timeout=120_000, backoff_base=10_000, backoff_limit=1)
    async with house(Configured(Configuration(ready=rules))) as world:
        workload(world, "slow", 1)
        await world.advance(119)
        assert condition(world, "slow", "Evicted") == ("", "")
        await world.advance(1)
        assert condition(world, "slow", "Evicted") == ("True", "PodsReadyTimeout")
        state = world.cluster.read(WORKLOADS, "slow", "team")["status"]["requeueState"]
        assert state == {"count": 1, "requeueAt": rfc3339(world.clock.now() + 10)}


@scenario
async def test_nobody_is_sent_back_where_nobody_waits() -> None:
    async with house(Configured(Configuration(ready=None))) as world:
        workload(world, "slow", 1)
        await world.advance(86_400)
        assert is_admitted(world, "slow")


@scenario
async def test_one_at_a_time_until_the_cluster_says_otherwise() -> None:
    async with house(Configured()) as world:
        kueue(world, gangScheduling={"policy": "ByWorkload", "byWorkload": {"admission": "Sequential"}})
        await world.settle()
        workload(world, "first", 1)
        await world.settle()
        workload(world, "second", 1)
        await world.settle()
        assert (is_admitted(world, "first"), is_admitted(world, "second")) == (True, False)
        kueue(world, gangScheduling={"policy": "ByWorkload", "byWorkload": {"admission": "Parallel"}})
        await world.settle()
        assert is_admitted(world, "second")


@scenario
async def test_ready_pods_let_the_next_one_in() -> None:
    async with house(Configured(Configuration(engine=Config(block_admission=True)))) as world:
        workload(world, "first", 1)
        await world.settle()
        workload(world, "second", 1)
        await world.settle()
        assert not is_admitted(world, "second")
        assert condition(world, "second", "QuotaReserved") == ("False", "Waiting")
        mark(world, "first", "PodsReady", "True", "Started")
        await world.settle()
        assert is_admitted(world, "second")


@scenario
async def test_the_next_one_waits_for_pods_after_a_restart_too() -> None:
    configured = Configured(Configuration(engine=Config(block_admission=True)))
    async with house(configured) as world:
        workload(world, "first", 1)
        await world.settle()
        async with stage(lambda deps: KueueCore(deps, configured), cluster=world.cluster) as again:
            workload(world, "second", 1)
            await again.settle()
            assert (is_admitted(world, "first"), is_admitted(world, "second")) == (True, False)


# What counts.


@scenario
async def test_excluded_resources_take_no_quota() -> None:
    rules = ResourceRules(exclude_prefixes=("nvidia.com/",))
    async with house(Configured(Configuration(resources=rules)), gpus=1) as world:
        workload(world, "large", 100)
        await world.settle()
        assert is_admitted(world, "large")


# OpenShift's Kueue object.


@scenario
async def test_the_objects_status_says_that_it_is_in_force_and_what_has_no_effect() -> None:
    configured = Configured()
    async with house(configured) as world:
        kueue(
            world,
            preemption={"preemptionPolicy": "FairSharing"},
            multiKueue={"externalFrameworks": [{"name": "A.v1.b"}]},
        )
        await world.settle()
        assert configured.now.engine.fair_sharing == BOTH_STRATEGIES
        status = world.cluster.read(KUEUES, "cluster")["status"]
        found = {each["type"]: (each["status"], each["message"]) for each in status["conditions"]}
        assert found["Available"][0] == "True"
        assert found["Available"][1].startswith(
            "The configuration is in force; multiKueue.externalFrameworks: has no effect here"
        )
        assert (found["Degraded"][0], found["Progressing"][0]) == ("False", "False")


@scenario
async def test_what_the_server_was_started_with_holds_again_once_the_object_is_gone() -> None:
    configured = Configured(Configuration(finished_kept=60))
    async with house(configured) as world:
        kueue(world, workloadManagement={"labelPolicy": "None"})
        await world.settle()
        assert configured.now.jobs.manage_without_queue
        assert configured.now.finished_kept == 60
        world.cluster.remove(KUEUES, "cluster")
        await world.settle()
        assert configured.now == Configuration(finished_kept=60)


@scenario
async def test_an_object_that_cannot_be_followed_changes_nothing_and_is_told_so() -> None:
    configured = Configured()
    async with house(configured) as world:
        kueue(world, integrations={"frameworks": ["Spaceship"]})
        await world.settle()
        assert configured.now == Configuration()
        conditions = world.cluster.read(KUEUES, "cluster")["status"]["conditions"]
        (degraded,) = [each for each in conditions if each["type"] == "Degraded"]
        assert (degraded["status"], degraded["reason"]) == ("True", "InvalidConfiguration")
        assert 'integrations.frameworks[0]: Unsupported value: "Spaceship"' in degraded["message"]


@scenario
async def test_fair_sharing_takes_effect_while_workloads_wait() -> None:
    """Two borrow one's whole quota: by priority nobody gives way to a third, by shares somebody does."""
    policy = {"reclaimWithinCohort": "Any"}
    async with house(Configured(), gpus=0, cohortName="all", preemption=policy) as world:
        queue(world, "b", 0, cohortName="all", preemption=policy)
        queue(world, "lender", 4, cohortName="all")
        local_queue(world, "b", "b")
        for number in range(4):
            workload(world, f"a{number}", 1)
        await world.settle()
        workload(world, "late", 1, queue="b")
        await world.settle()
        assert not any(condition(world, f"a{number}", "Evicted")[0] for number in range(4))
        kueue(world, preemption={"preemptionPolicy": "FairSharing"})
        await world.settle()
        evicted = [condition(world, f"a{number}", "Preempted")[1] for number in range(4)]
        assert sorted(evicted) == ["", "", "", "InCohortFairSharing"]


@scenario
async def test_admission_fair_sharing_lines_up_what_already_waits_by_use() -> None:
    """Main has used the queue; once use counts, its workload stands behind the one of a queue that has not."""
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    configured = Configured(Configuration(engine=Config(usage_sharing=UsageConfig(half_life=600_000))))
    async with house(configured, gpus=1, **scope) as world:
        local_queue(world, "other", "research")
        workload(world, "first", 1)
        await world.settle()
        workload(world, "again", 1)
        await world.advance(1)
        workload(world, "new", 1, queue="other")
        await world.settle()
        mark(world, "first", "Finished", "True", "Succeeded")
        await world.settle()
        assert (is_admitted(world, "again"), is_admitted(world, "new")) == (False, True)


@scenario
async def test_use_no_longer_counts_once_it_is_switched_off() -> None:
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    fair = Configuration(engine=Config(usage_sharing=UsageConfig(half_life=600_000)))
    configured = Configured(fair)
    async with house(configured, gpus=1, **scope) as world:
        local_queue(world, "other", "research")
        workload(world, "first", 1)
        await world.settle()
        workload(world, "again", 1)
        await world.advance(1)
        workload(world, "new", 1, queue="other")
        await world.settle()
        configured.become(replace(fair, engine=Config()))
        mark(world, "first", "Finished", "True", "Succeeded")
        await world.settle()
        assert (is_admitted(world, "again"), is_admitted(world, "new")) == (True, False)


@scenario
async def test_what_a_queue_consumed_stands_in_its_status_and_outlives_a_restart() -> None:
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    configured = Configured(Configuration(engine=Config(usage_sharing=UsageConfig(half_life=300_000))))
    async with house(configured, gpus=4, **scope) as world:
        workload(world, "first", 4)
        await world.advance(300)
        told = world.cluster.read(LOCAL_QUEUES, "main", "team")["status"]["fairSharing"]["admissionFairSharingStatus"]
        assert told == {"consumedResources": {"nvidia.com/gpu": "3"}, "lastUpdate": rfc3339(world.clock.now())}
        cores: list[KueueCore] = []

        def another(deps: Deps) -> KueueCore:
            cores.append(KueueCore(deps, Configured(configured.now)))
            return cores[0]

        async with stage(another, cluster=world.cluster) as again:
            await again.settle()
            ledger = cores[0].engine.ledger
            assert ledger is not None
            assert ledger.consumed("team/main") == {"nvidia.com/gpu": 3.0}


@scenario
async def test_who_waits_for_a_check_counts_as_used_once_it_may_run() -> None:
    """Otherwise its queue would pay for it again and again, as long as it runs."""
    rule = {"admissionChecksStrategy": {"admissionChecks": [{"name": "ready"}]}}
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}, **rule}
    configured = Configured(Configuration(engine=Config(usage_sharing=UsageConfig(half_life=600_000))))
    active = {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": ""}]}
    check = {"metadata": {"name": "ready"}, "spec": {"controllerName": "example.com/checks"}, "status": active}
    cores: list[KueueCore] = []

    def core(deps: Deps) -> KueueCore:
        cores.append(KueueCore(deps, Configured(configured.now)))
        return cores[0]

    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))
    cluster.put(ADMISSION_CHECKS, check)
    async with stage(core, QueueStatuses, cluster=cluster) as world:
        furnish(world, 4, **scope)
        workload(world, "first", 2)
        await world.settle()
        assert (condition(world, "first", "QuotaReserved")[0], is_admitted(world, "first")) == ("True", False)
        ledger = cores[0].engine.ledger
        assert ledger is not None
        assert list(ledger.memento()["team/main"].penalties) == ["team/first"]
        [waits] = world.cluster.read(WORKLOADS, "first", "team")["status"]["admissionChecks"]
        world.cluster.set_status(WORKLOADS, "first", "team", admissionChecks=[{**waits, "state": "Ready"}])
        await world.settle()
        assert is_admitted(world, "first")
        assert ledger.memento()["team/main"].penalties == {}
        assert ledger.consumed("team/main")["nvidia.com/gpu"] > 0


@scenario
async def test_weighted_shares_stand_in_statuses_as_long_as_sharing_is_fair() -> None:
    configured = Configured(Configuration(engine=Config(fair_sharing=BOTH_STRATEGIES)))
    async with house(configured, gpus=0, cohortName="all") as world:
        queue(world, "lender", 4, cohortName="all")
        world.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
        workload(world, "borrower", 1)
        await world.settle()
        assert world.cluster.read(CLUSTER_QUEUES, "research")["status"]["fairSharing"] == {"weightedShare": 250}
        assert world.cluster.read(COHORTS, "all")["status"]["fairSharing"] == {"weightedShare": 0}
        configured.become(Configuration())
        await world.settle()
        assert "fairSharing" not in world.cluster.read(CLUSTER_QUEUES, "research")["status"]


@scenario
async def test_every_local_queue_is_told_what_it_consumed_from_the_first_moment_on_and_to_the_billionth() -> None:
    configured = Configured(Configuration(engine=Config(usage_sharing=UsageConfig(half_life=600_000))))
    async with house(configured, gpus=4) as world:
        await world.settle()
        assert consumed(world) == {}
        workload(world, "first", 1)
        await world.advance(299)
        assert consumed(world) == {}
        await world.advance(1)
        assert consumed(world) == {"nvidia.com/gpu": "292893219n"}
        local_queue(world, "late", "research")
        await world.settle()
        assert consumed(world, "late") == {}


def consumed(world: Stage, queue: str = "main") -> Object:
    sharing = world.cluster.read(LOCAL_QUEUES, queue, "team")["status"]["fairSharing"]
    assert sharing["weightedShare"] == 0
    found: Object = sharing["admissionFairSharingStatus"]["consumedResources"]
    return found
