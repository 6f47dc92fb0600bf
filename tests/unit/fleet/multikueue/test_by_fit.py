"""The dispatcher by fit: a job goes where it fits, a burst spreads, and the choice and its reasons are on the workload."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.unit.fleet.multikueue.world import QUEUE, TEAM, World

from gpuaas.client.kueue import LOCAL_QUEUES
from gpuaas.kueue.multikueue.explain import candidates
from gpuaas.kueue.multikueue.names import PIN, PREFER
from gpuaas.kueue.multikueue.rules import BY_FIT, MultiKueueRules
from gpuaas.testing.time import scenario

RULES = MultiKueueRules(dispatcher=BY_FIT)
THREE = ["worker1", "worker2", "worker3"]


def reasons(world: World, job: str) -> dict[str, tuple[bool, str]]:
    workload = world.workload(job)
    assert workload is not None
    return {each["cluster"]: (each["chosen"], each["reason"]) for each in candidates(workload)}


def made_on(world: World, cluster: str) -> int:
    return sum(each.verb == "create" and each.resource == "workloads" for each in world.clusters[cluster].writes)


@scenario
async def test_a_job_is_offered_to_the_one_cluster_where_it_fits() -> None:
    async with World(rules=RULES, sizes={"worker1": 2, "worker2": 8}) as world:
        world.submit("train", gpus=4)
        await world.until(lambda: world.cluster_of("train") == "worker2", 10)
        assert reasons(world, "train") == {
            "worker1": (False, "too large: it asks for 4 nvidia.com/gpu, the quota there is 2"),
            "worker2": (True, "8 of 8 nvidia.com/gpu free, 0 ahead"),
        }
        assert made_on(world, "worker1") == 0, "no copy that would have to go again"
        workload = (world.workload("train") or {})["metadata"]["name"]
        events = [each for each in world.clusters["hub"].events(TEAM) if "Dispatched" in each]
        assert events == [
            f"Normal Dispatched workload/{workload} Offered to worker2 (8 of 8 nvidia.com/gpu free, 0 ahead); not to "
            "worker1 (too large: it asks for 4 nvidia.com/gpu, the quota there is 2)"
        ]


@scenario
async def test_a_burst_spreads_over_the_clusters() -> None:
    async with World(THREE, rules=RULES) as world:
        for number in range(24):
            world.submit(f"job{number}", lasts=500)
        await world.until(lambda: all(world.cluster_of(f"job{each}") for each in range(24)), 60)
        assert Counter(world.cluster_of(f"job{each}") for each in range(24)) == dict.fromkeys(THREE, 8)
        assert [made_on(world, each) for each in THREE] == [8, 8, 8], "each job had one copy"


@scenario
async def test_a_job_that_fits_nowhere_now_waits_on_the_shortest_queues_and_runs_where_room_comes_first() -> None:
    async with World([*THREE, "worker4"], rules=RULES, gpus=1) as world:
        for number in range(4):
            world.submit(f"job{number}", lasts=[400.0, 300.0, 40.0, 500.0][number])
        await world.until(lambda: all(world.cluster_of(f"job{each}") for each in range(4)), 60)
        first = world.cluster_of("job2")
        queue = world.clusters["hub"].read(LOCAL_QUEUES, QUEUE, TEAM)
        assert queue["spec"]["clusterQueue"] == "main"
        await _more_quota_on_the_hub(world, 5)
        world.submit("late", lasts=20)
        await world.advance(3)
        assert sum(chosen for chosen, _ in reasons(world, "late").values()) == 3
        await world.until(lambda: bool(world.cluster_of("late")), 120)
        assert world.cluster_of("late") == first
        assert not world.record.overlaps()


async def _more_quota_on_the_hub(world: World, gpus: int) -> None:
    from gpuaas.client.kueue import CLUSTER_QUEUES

    hub = world.clusters["hub"]
    queue = hub.read(CLUSTER_QUEUES, "main")
    [group] = queue["spec"]["resourceGroups"]
    [flavor] = group["flavors"]
    grown = {**flavor, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}]}
    hub.put(CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], "resourceGroups": [{**group, "flavors": [grown]}]}})
    await world.settle()


@scenario
async def test_a_request_that_fits_the_hub_and_no_worker_is_flagged_with_what_would_fit() -> None:
    async with World(rules=RULES, gpus=4) as world:
        world.submit("huge", gpus=6)
        await world.advance(20)
        assert [world.left_on(each) for each in world.workers] == [[], []]
        assert world.explain("huge") == [
            f"cluster {name} was not chosen: too large: it asks for 6 nvidia.com/gpu, the quota there is 4"
            for name in world.workers
        ]


@scenario
async def test_pins_and_preferences_of_the_job_are_honoured() -> None:
    async with World(THREE, rules=RULES) as world:
        world.submit("pinned", **{PIN: "worker3"})
        world.submit("preferring", **{PREFER: "worker2"})
        await world.until(lambda: world.cluster_of("pinned") and world.cluster_of("preferring"), 20)
        assert (world.cluster_of("pinned"), world.cluster_of("preferring")) == ("worker3", "worker2")
        assert reasons(world, "pinned")["worker1"] == (False, "not one of the clusters the job asks for: worker3")


@scenario
async def test_a_pin_holds_when_every_cluster_is_nominated_at_once_too() -> None:
    async with World(THREE) as world:
        world.submit("pinned", **{PIN: "worker2"})
        await world.until(lambda: bool(world.cluster_of("pinned")), 20)
        assert world.cluster_of("pinned") == "worker2"


@scenario
async def test_a_cluster_without_the_queue_is_not_chosen_and_why_names_it() -> None:
    async with World(rules=RULES) as world:
        world.clusters["worker1"].remove(LOCAL_QUEUES, QUEUE, TEAM)
        await world.advance(2)
        world.submit("train")
        await world.until(lambda: world.cluster_of("train") == "worker2", 20)
        assert reasons(world, "train")["worker1"] == (
            False,
            "LocalQueue user-queue doesn't exist in namespace team there",
        )


@scenario
async def test_why_follows_the_job_to_its_worker_and_says_when_that_is_lost() -> None:
    async with World(rules=MultiKueueRules(dispatcher=BY_FIT, worker_lost_timeout=120)) as world:
        world.submit("train", lasts=300)
        await world.until(lambda: bool(world.cluster_of("train")), 20)
        assert world.explain("train")[0] == "it runs on cluster worker1"
        assert world.explain("train")[-1] == "worker1: The workload is admitted"
        world.wires["worker1"].become("refused")
        await world.advance(20)
        told: Any = world.explain("train")[-1]
        assert told.startswith("worker1: cannot be reached since ")
        assert "connection refused; in " in told
        assert told.endswith("s the job goes to another cluster; the job stops there by itself before")
