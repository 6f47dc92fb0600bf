"""Scenarios in virtual time: run the loop until nothing happens, then move the clock."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec

from gpuaas.base.clock import VirtualClock
from gpuaas.runtime.controller import Controller, Controllers, Deps
from gpuaas.runtime.quota import Quota
from gpuaas.testing.cluster import FakeCluster

P = ParamSpec("P")

# A hop from a write through a watch and a queue to the next write takes a handful of turns of the loop.
_QUIET_TURNS = 60


def scenario(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Lets pytest run an async test."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


class Stage:
    """A cluster in memory with controllers at work on it."""

    def __init__(self, cluster: FakeCluster, clock: VirtualClock, deps: Deps) -> None:
        self.cluster = cluster
        self.clock = clock
        self.deps = deps

    async def settle(self) -> None:
        """Until no write has happened for a while of turns; time stands still."""
        quiet, seen = 0, self.cluster.revision
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            if self.cluster.revision != seen:
                quiet, seen = 0, self.cluster.revision
            else:
                quiet += 1

    async def advance(self, seconds: float) -> None:
        """Move time on, stopping at each sleeper's wake-up, and let everything settle there."""
        target = self.clock.now() + seconds
        while True:
            await self.settle()
            deadline = self.clock.next_deadline()
            if deadline is None or deadline > target:
                break
            self.clock.advance(max(0.0, deadline - self.clock.now()))
        self.clock.advance(max(0.0, target - self.clock.now()))
        await self.settle()


@asynccontextmanager
async def stage(
    *factories: Callable[[Deps], Controller],
    cluster: FakeCluster | None = None,
    root_ca: str = "",
    quota: Quota | None = None,
) -> AsyncIterator[Stage]:
    """Controllers running against a cluster in memory, stopped at the end; none may have changed a shared object."""
    clock = VirtualClock() if cluster is None else cluster.clock
    assert isinstance(clock, VirtualClock)
    cluster = cluster or FakeCluster(clock)
    deps = Deps.over(cluster, clock, cluster, root_ca=root_ca, quota=quota)
    running = Controllers(deps, [factory(deps) for factory in factories])
    await running.start()
    on = Stage(cluster, clock, deps)
    try:
        await on.settle()
        yield on
        cluster.check_untouched()
    finally:
        await running.stop()
