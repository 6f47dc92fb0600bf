"""When workloads that wait are told why: one alone at once, in a crowd those that still wait a moment later."""

import pytest

from gpuaas.client.kueue import LOCAL_QUEUES, WORKLOADS
from gpuaas.testing.time import Stage, scenario

from .test_metrics import house, queue, workload

CROWD = 12


def crowd(on: Stage) -> list[str]:
    """Twelve queues, and in each a workload that is too large."""
    names = [f"w{number}" for number in range(CROWD)]
    for name in names:
        queue(on, f"queue-{name}", 4)
        local = {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": f"queue-{name}"}}
        on.cluster.put(LOCAL_QUEUES, local)
    for name in names:
        workload(on, name, 400, queue=name)
    return names


def told(on: Stage, name: str) -> bool:
    return any(
        condition["type"] == "QuotaReserved" and condition["reason"] == "Pending"
        for condition in (on.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions", ())
    )


@scenario
async def test_who_waits_alone_is_told_at_once() -> None:
    async with house() as world:
        workload(world.on, "w", 400)
        await world.on.settle()
        assert told(world.on, "w")


@pytest.mark.parametrize("moment", [0.3, 5.0])
@scenario
async def test_in_a_crowd_all_that_still_wait_a_moment_later_are_told(moment: float) -> None:
    async with house() as world:
        names = crowd(world.on)
        await world.on.settle()
        assert not any(told(world.on, name) for name in names)
        await world.on.advance(moment)
        assert all(told(world.on, name) for name in names)


@scenario
async def test_who_gets_in_within_the_moment_is_never_told_that_it_waits() -> None:
    async with house() as world:
        names = crowd(world.on)
        await world.on.settle()
        queue(world.on, "queue-w3", 1000)
        await world.on.settle()
        await world.on.advance(0.3)
        events = [event for event in world.on.cluster.events("team") if " workload/w3 " in event]
        assert any(event.startswith("Normal QuotaReserved") for event in events)
        assert not any(event.startswith("Warning Pending") for event in events)
        assert told(world.on, names[0])
