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
        return SimpleNamespace(changed=True, left=0, preemptions=[], admissions=[], passed=[])


@pytest.mark.parametrize(("takes", "at_a_stretch"), [(0.0, 50), (0.015, 2), (0.05, 1)], ids=["quick", "slow", "slower"])
@scenario
async def test_long_decisions_are_made_in_stretches(takes: float, at_a_stretch: int) -> None:
    clock = VirtualClock()
    engine = SlowEngine(clock, takes)
    client: Any = SimpleNamespace(hasten=lambda: None)
    mirror: Any = SimpleNamespace(engine=engine)
    scheduler = Scheduler(client, Any, mirror, clock, Any)  # type: ignore[arg-type]
    running = asyncio.ensure_future(scheduler.run())
    seen = [engine.left]
    while engine.left:
        await asyncio.sleep(0)
        clock._now += takes  # what others do in their turn
        seen.append(engine.left)
    running.cancel()
    assert max(before - after for before, after in pairwise(seen)) == at_a_stretch
