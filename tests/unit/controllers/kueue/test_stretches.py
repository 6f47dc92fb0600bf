"""However much there is to decide, requests and whoever else shares the loop get their turn in between."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.controllers.kueue.scheduler import Scheduler
from gpuaas.testing.time import scenario


class SlowEngine:
    """Fifty cycles to go, each of which takes some time."""

    def __init__(self, clock: VirtualClock, takes: float) -> None:
        self.left = 50
        self.forest = SimpleNamespace(queues={})
        self._clock, self._takes = clock, takes

    def unsettled(self) -> bool:
        return self.left > 0

    def next_wakeup(self) -> None:
        return None

    def cycle(self, now: int, heads: int) -> Any:
        self.left -= 1
        self._clock._now += self._takes
        return SimpleNamespace(changed=True, left=0, preemptions=[], admissions=[], skipped=[])


def scheduler_of(engine: SlowEngine, clock: VirtualClock) -> Scheduler:
    client: Any = SimpleNamespace(hasten=lambda: None)
    mirror: Any = SimpleNamespace(engine=engine)
    return Scheduler(client, Any, mirror, clock, Any)  # type: ignore[arg-type]


@pytest.mark.parametrize(("takes", "at_a_stretch"), [(0.0, 50), (0.015, 2), (0.05, 1)], ids=["quick", "slow", "slower"])
@scenario
async def test_long_decisions_are_made_in_stretches(takes: float, at_a_stretch: int) -> None:
    clock = VirtualClock()
    engine = SlowEngine(clock, takes)
    running = asyncio.ensure_future(scheduler_of(engine, clock).run())
    seen = [engine.left]
    while engine.left:
        await asyncio.sleep(0)
        clock.advance(takes)  # what others do in their turn
        seen.append(engine.left)
    running.cancel()
    assert max(before - after for before, after in pairwise(seen)) == at_a_stretch


@pytest.mark.parametrize("takes", [0.05, 0.03, 0.004])
@scenario
async def test_others_get_as_much_time_as_long_decisions_take(takes: float) -> None:
    clock = VirtualClock()
    began, engine = clock.now(), SlowEngine(clock, takes)
    running = asyncio.ensure_future(scheduler_of(engine, clock).run())
    while engine.left:
        await asyncio.sleep(0)
        clock.advance(0.001)
    running.cancel()
    assert 50 * takes / (clock.now() - began) == pytest.approx(0.5, abs=0.06)
