"""Garbage is looked for when nobody asks for anything: a burst is served without."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from gpuaas.assembly.collector import begin, collect_when_quiet
from gpuaas.base.clock import VirtualClock
from gpuaas.testing.time import scenario


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class _Python:
    """What the interpreter would say, and what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = (0, 0, 0)
        self.looked: list[int] = []
        monkeypatch.setattr(gc, "get_count", lambda: self.count)
        monkeypatch.setattr(gc, "collect", self.looked.append)


async def _pass(clock: VirtualClock, seconds: float) -> None:
    clock.advance(seconds)
    for _ in range(5):
        await asyncio.sleep(0)


def test_new_objects_are_looked_at_in_the_next_quiet_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario
    async def play() -> None:
        python, clock, quiet = _Python(monkeypatch), VirtualClock(), False
        running = asyncio.create_task(collect_when_quiet(clock, lambda: quiet))
        await _pass(clock, 0)
        python.count = (30_000, 3, 0)
        await _pass(clock, 1)
        assert python.looked == [], "requests are under way"
        quiet = True
        await _pass(clock, 1)
        assert python.looked == [0]
        python.count = (100, 4, 0)
        await _pass(clock, 1)
        assert python.looked == [0], "hardly anything is new"
        python.count = (30_000, 20, 0)
        await _pass(clock, 1)
        assert python.looked == [0, 1], "now and then at those too that outlived earlier looks"
        running.cancel()

    play()


def test_python_looks_by_itself_only_when_no_quiet_moment_comes_for_very_long() -> None:
    begin()
    assert gc.isenabled()
    assert gc.get_threshold()[0] >= 1_000_000
