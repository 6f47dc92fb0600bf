"""What leadership promises: one at a time, and a holder that falls silent loses it."""

import asyncio

from gpuaas.base.clock import VirtualClock
from gpuaas.client.resources import LEASES
from gpuaas.runtime.lease import LeaseHolder
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.time import scenario


def _holder(cluster: FakeCluster, who: str) -> LeaseHolder:
    return LeaseHolder(cluster, cluster.clock, "kube-system", "leader", who)


async def _pass(clock: VirtualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1)
        for _ in range(20):
            await asyncio.sleep(0)


@scenario
async def test_the_first_gets_it_and_the_second_waits() -> None:
    cluster = FakeCluster()
    assert await _holder(cluster, "a").try_once()
    assert not await _holder(cluster, "b").try_once()
    spec = cluster.read(LEASES, "leader", "kube-system")["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("a", 0)


@scenario
async def test_a_silent_holder_loses_it_and_the_new_one_counts_the_transition() -> None:
    clock = VirtualClock()
    cluster = FakeCluster(clock)
    first, second = _holder(cluster, "a"), _holder(cluster, "b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await _pass(clock, 10)
    assert not waiting.done()
    await _pass(clock, 10)
    assert waiting.done()
    spec = cluster.read(LEASES, "leader", "kube-system")["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    assert not await first.try_once()


@scenario
async def test_work_stops_when_the_lease_is_lost() -> None:
    clock = VirtualClock()
    cluster = FakeCluster(clock)
    stopped: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    leading = asyncio.create_task(_holder(cluster, "a").lead(work))
    await _pass(clock, 5)
    assert stopped == []
    lease = cluster.read(LEASES, "leader", "kube-system")
    cluster.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "thief", "leaseDurationSeconds": 600}})
    await _pass(clock, 15)
    assert stopped == ["stopped"]
    await leading
