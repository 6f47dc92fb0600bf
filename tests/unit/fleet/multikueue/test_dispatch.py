"""What a hub promises: a job runs on one worker, and whatever fails on the way, in the end it has run."""

from __future__ import annotations

from tests.unit.fleet.multikueue.world import World

from gpuaas.testing.time import scenario


@scenario
async def test_a_job_runs_on_one_worker_and_nothing_is_left_there() -> None:
    async with World() as world:
        world.submit("train")
        await world.until(lambda: world.cluster_of("train"), 10)
        assert world.cluster_of("train") == "worker1", "the order of the configuration breaks ties"
        await world.until(lambda: (world.job("train") or {})["status"].get("active") == 1, 5)
        assert world.left_on("worker2") == []
        await world.until(lambda: world.is_done("train"), 40)
        await world.until(lambda: not world.left_on("worker1"), 400)
        assert [(each.cluster, each.end is not None) for each in world.record.runs] == [("worker1", True)]
