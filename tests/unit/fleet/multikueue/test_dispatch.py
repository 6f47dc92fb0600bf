"""What a hub promises about the jobs it sends to workers, and what it does when a worker, a link or a setting fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.fleet.multikueue.world import QUEUE, TEAM, World

from gpuaas.client.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.resources import JOBS
from gpuaas.kueue.multikueue.names import HUB, ORIGIN, REDISPATCH_LOST
from gpuaas.kueue.multikueue.rules import INCREMENTAL, MultiKueueRules
from gpuaas.testing.time import scenario

LOST = MultiKueueRules(worker_lost_timeout=120)


def conditions(obj: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in ((obj or {}).get("status") or {}).get("conditions") or ()}


def check(world: World, job: str) -> tuple[str, str]:
    [found] = (world.workload(job) or {})["status"]["admissionChecks"]
    return found["state"], found["message"]


def reserved(world: World) -> int:
    return int(world.clusters["hub"].read(CLUSTER_QUEUES, "main")["status"].get("reservingWorkloads", 0))


async def running(world: World, job: str, **options: Any) -> str:
    world.submit(job, **options)
    await world.until(lambda: ((world.job(job) or {}).get("status") or {}).get("active") == 1, 20)
    return world.cluster_of(job)


@scenario
async def test_a_job_runs_on_one_worker_and_its_copies_are_removed() -> None:
    async with World() as world:
        assert await running(world, "train") == "worker1", "the order of the configuration breaks ties"
        assert check(world, "train") == ("Ready", 'The workload was admitted on "worker1"')
        assert world.left_on("worker2") == []
        copy = world.workload("train", "worker1")
        assert copy is not None
        assert copy["metadata"]["labels"][ORIGIN] == "multikueue"
        remote = world.job("train", "worker1")
        assert remote is not None
        assert "managedBy" not in remote["spec"]
        assert remote["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] == copy["metadata"]["name"]
        await world.until(lambda: world.is_done("train"), 40)
        finished = conditions(world.workload("train"))["Finished"]
        assert (finished["reason"], finished["message"]) == ("Succeeded", "done")
        await world.advance(290)
        assert world.left_on("worker1"), "its logs can still be read"
        await world.until(lambda: not world.left_on("worker1"), 60)
        assert [(each.cluster, each.end is not None) for each in world.record.runs] == [("worker1", True)]


@scenario
async def test_strict_removes_the_remote_objects_of_a_finished_job_at_once() -> None:
    async with World(strict=True) as world:
        await running(world, "train")
        await world.until(lambda: world.is_done("train"), 40)
        await world.until(lambda: not world.left_on("worker1"), 5)


@scenario
async def test_a_worker_that_evicts_the_copy_sends_the_job_elsewhere() -> None:
    async with World(["worker1", "worker2"], gpus=1) as world:
        assert await running(world, "train", lasts=500) == "worker1"
        copy = world.workload("train", "worker1")
        assert copy is not None
        world.clusters["worker1"].put(CLUSTER_QUEUES, _stopped(world, "worker1"))
        await world.until(lambda: world.cluster_of("train") == "worker2", 30)
        events = world.clusters["hub"].events(TEAM)
        words = 'Workload evicted on worker cluster: "worker1", resetting for re-admission. Previously: "Ready"'
        assert any(f"Normal MultiKueue workload/{copy['metadata']['name']} {words}" in each for each in events)
        assert not world.record.overlaps()


def _stopped(world: World, cluster: str) -> dict[str, Any]:
    queue = world.clusters[cluster].read(CLUSTER_QUEUES, "main")
    return {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}}


@scenario
async def test_an_eviction_on_the_hub_stops_the_remote_job_before_it_frees_quota() -> None:
    async with World(["worker1"]) as world:
        await running(world, "train", lasts=500)
        workload = world.workload("train")
        assert workload is not None
        name = workload["metadata"]["name"]
        await world.clusters["hub"].patch(WORKLOADS, name, {"spec": {"active": False}}, TEAM)
        await world.until(lambda: conditions(world.workload("train"))["QuotaReserved"]["status"] == "False", 20)
        assert [each.end is not None for each in world.record.runs] == [True], "the remote job stopped first"
        await world.until(lambda: not world.left_on("worker1"), 10)


@scenario
async def test_running_work_stays_on_a_cluster_that_leaves_the_configuration() -> None:
    async with World() as world:
        assert await running(world, "train", lasts=60) == "worker1"
        world.configure(["worker2"])
        assert await running(world, "later", lasts=60) == "worker2", "only new work goes elsewhere"
        assert world.cluster_of("train") == "worker1"
        await world.until(lambda: world.is_done("train"), 60)
        assert [each.cluster for each in world.record.runs if each.job == "train"] == ["worker1"]


@scenario
async def test_strict_evicts_work_of_a_cluster_that_leaves_the_configuration() -> None:
    async with World(strict=True) as world:
        assert await running(world, "train", lasts=60) == "worker1"
        world.configure(["worker2"])
        await world.until(lambda: world.cluster_of("train") == "worker2", 30)
        assert world.record.overlaps(), "the old copy runs on, as upstream leaves it"


@pytest.mark.parametrize("fault", ["refused", "silent", "revoked"])
def test_a_lost_worker_frees_its_quota_and_the_job_runs_elsewhere_but_never_twice(fault: str) -> None:
    @scenario
    async def body() -> None:
        async with World(rules=LOST) as world:
            assert await running(world, "train", lasts=500) == "worker1"
            world.wires["worker1"].become(fault)
            await world.advance(110)
            assert world.cluster_of("train") == "worker1", "not before the timeout"
            await world.until(lambda: world.cluster_of("train") == "worker2", 60)
            assert not world.record.overlaps()
            world.wires["worker1"].become("")
            await world.advance(60)
            assert world.cluster_of("train") == "worker2", "clusterName wins when the lost worker returns"
            assert world.left_on("worker1") == []
            await world.until(lambda: world.is_done("train"), 600)

    body()


@scenario
async def test_a_lost_only_worker_frees_the_quota_of_the_hub_at_once() -> None:
    async with World(["worker1"], rules=LOST) as world:
        await running(world, "train", lasts=500)
        assert reserved(world) == 1
        world.wires["worker1"].become("refused")
        await world.until(lambda: check(world, "train")[0] != "Ready", 200, 0.5)
        await world.advance(1)
        evicted = conditions(world.workload("train"))["Evicted"]
        assert evicted["reason"] == "AdmissionCheck"
        assert 'Admitting remote lost, Previously: "Ready"' in evicted["message"]
        stats = (world.workload("train") or {})["status"]["schedulingStats"]["evictions"]
        assert stats[0]["count"] == 1


@scenario
async def test_the_copy_of_a_worker_without_leases_that_returns_in_time_runs_on() -> None:
    """Upstream's Kueue stops nothing by itself: its copy is kept while no other cluster has replaced it."""
    async with World(["worker1"], rules=LOST, leases=False) as world:
        await running(world, "train", lasts=400)
        world.wires["worker1"].become("refused")
        await world.advance(200)
        assert world.cluster_of("train") == ""
        world.wires["worker1"].become("")
        await world.until(lambda: world.cluster_of("train") == "worker1", 100)
        await world.until(lambda: world.is_done("train"), 400)
        assert len(world.record.runs) == 1, "it was never started again"


@scenario
async def test_redispatch_can_be_turned_off_for_lost_workers() -> None:
    async with World(rules=LOST, leases=False) as world:
        world.configure(world.workers, **{REDISPATCH_LOST: "Never"})
        assert await running(world, "train", lasts=400) == "worker1"
        world.wires["worker1"].become("refused")
        await world.advance(300)
        assert world.cluster_of("train") == "worker1"
        world.wires["worker1"].become("")
        await world.until(lambda: world.is_done("train"), 400)
        assert len(world.record.runs) == 1


@scenario
async def test_a_kind_that_a_worker_does_not_serve_is_not_sent_there() -> None:
    async with World() as world:
        await world.crash("worker1")
        world.clusters["worker1"].unserve(JOBS)
        world.wires["worker1"].become("")
        await world.advance(70)
        assert conditions(world.clusters["hub"].read(MULTIKUEUE_CLUSTERS, "worker1"))["Active"]["status"] == "True"
        assert await running(world, "train") == "worker2"


@scenario
async def test_strict_keeps_a_worker_out_that_does_not_serve_a_kind() -> None:
    async with World(strict=True) as world:
        await world.crash("worker1")
        world.clusters["worker1"].unserve(JOBS)
        world.wires["worker1"].become("")
        await world.advance(700)
        active = conditions(world.clusters["hub"].read(MULTIKUEUE_CLUSTERS, "worker1"))["Active"]
        assert (active["status"], active["reason"]) == ("False", "ClientConnectionFailed")
        assert active["message"] == 'no matches for kind "Job" in version "batch/v1"'
        found = conditions(world.clusters["hub"].read(ADMISSION_CHECKS, "mk"))["Active"]
        assert (found["reason"], found["message"]) == ("SomeActiveClusters", "Inactive clusters: [worker1]")


@scenario
async def test_a_connection_that_returns_wakes_what_waits() -> None:
    async with World(["worker1"]) as world:
        world.wires["worker1"].become("refused")
        await world.advance(5)
        world.submit("train")
        await world.advance(30)
        assert world.left_on("worker1") == []
        world.wires["worker1"].become("")
        await world.until(lambda: world.cluster_of("train") == "worker1", 70)


@scenario
async def test_a_copy_deleted_by_hand_is_dispatched_again() -> None:
    async with World(["worker1"]) as world:
        await running(world, "train", lasts=60)
        copy = world.workload("train", "worker1")
        assert copy is not None
        world.clusters["worker1"].remove(JOBS, "train", TEAM)
        await world.advance(2)
        await world.until(lambda: world.is_done("train"), 120)


@scenario
async def test_copies_of_workloads_that_are_gone_are_collected() -> None:
    async with World(["worker1"]) as world:
        await running(world, "train", lasts=500)
        world.wires["worker1"].become("refused")
        await world.cancel("train")
        await world.advance(30)
        assert world.left_on("worker1")
        world.wires["worker1"].become("")
        await world.until(lambda: not world.left_on("worker1"), 130)


@scenario
async def test_another_hubs_copies_are_left_alone() -> None:
    async with World(["worker1"]) as world:
        metadata = {
            "name": "job-foreign",
            "namespace": TEAM,
            "labels": {ORIGIN: "multikueue"},
            "annotations": {HUB: "another"},
        }
        world.clusters["worker1"].put(WORKLOADS, {"metadata": metadata, "spec": {"podSets": [], "queueName": "x"}})
        await world.advance(200)
        assert world.clusters["worker1"].exists(WORKLOADS, "job-foreign", TEAM)


@scenario
async def test_a_foreign_job_of_the_name_is_never_written_to() -> None:
    async with World(["worker1"]) as world:
        spec = {"suspend": True, "template": {"spec": {"containers": []}}}
        world.clusters["worker1"].put(JOBS, {"metadata": {"name": "train", "namespace": TEAM}, "spec": spec})
        world.submit("train")
        await world.advance(60)
        assert world.clusters["worker1"].read(JOBS, "train", TEAM)["spec"] == spec
        assert not world.is_done("train")
        words = "remote object is not owned by MultiKueue: expected kueue.x-k8s.io/multikueue-origin=multikueue"
        assert world.explain("train")[-1].startswith(f"worker1: no copy could be made there: {words}")


@scenario
async def test_the_incremental_dispatcher_nominates_more_each_round() -> None:
    rules = MultiKueueRules(dispatcher=INCREMENTAL, step_size=1)
    async with World(["worker1", "worker2"], rules=rules) as world:
        world.clusters["worker1"].put(CLUSTER_QUEUES, _stopped(world, "worker1"))
        world.submit("train")
        await world.advance(290)
        assert (world.workload("train") or {})["status"]["nominatedClusterNames"] == ["worker1"]
        await world.until(lambda: world.cluster_of("train") == "worker2", 30)


@scenario
async def test_a_priority_class_of_another_value_on_the_worker_changes_nothing() -> None:
    async with World(["worker1"]) as world:
        for name, value in (("hub", 10), ("worker1", 99)):
            world.clusters[name].put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": value})
        world.submit("train", lasts=20)
        job = world.clusters["hub"].read(JOBS, "train", TEAM)
        labels = {"kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/priority-class": "high"}
        world.clusters["hub"].put(JOBS, {**job, "metadata": {**job["metadata"], "labels": labels}})
        await world.until(lambda: world.is_done("train"), 60)
        writes = [each for each in world.clusters["worker1"].writes if each.resource == "workloads"]
        assert len(writes) < 20, "no endless correction of the priority"


@scenario
async def test_a_job_that_another_manager_runs_is_rejected() -> None:
    async with World(["worker1"]) as world:
        world.submit("train")
        job = world.clusters["hub"].read(JOBS, "train", TEAM)
        world.clusters["hub"].put(JOBS, {**job, "spec": {**job["spec"], "managedBy": "example.com/other"}})
        await world.advance(5)
        found = conditions(world.workload("train"))["Evicted"]
        words = 'Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not "example.com/other"'
        assert f"The owner is not managed by Kueue: {words}" in str(world.workload("train"))
        assert found["reason"].startswith("Deactivated")


@scenario
async def test_a_new_kubeconfig_replaces_the_connection_without_a_gap() -> None:
    async with World(["worker1"]) as world:
        await running(world, "train", lasts=100)
        world.clusters["hub"].put(*_secret(world, "worker1", "token: secret", "token: rotated"))
        await world.advance(3)
        worker = world.connections.get("worker1") if world.connections is not None else None
        assert worker is not None
        assert worker.connected
        await world.until(lambda: world.is_done("train"), 150)
        assert len(world.record.runs) == 1


def _secret(world: World, name: str, before: str, after: str) -> tuple[Any, dict[str, Any]]:
    from tests.unit.fleet.multikueue.world import kubeconfig

    from gpuaas.client.resources import SECRETS

    return SECRETS, world.secret(name, kubeconfig(name).replace(before, after))
