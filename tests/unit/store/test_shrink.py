"""The file stays in proportion to what is kept: freed pages go back, and history is bounded by bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.conftest import remove, write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store
from gpuaas.store.retention import HistorySize

Run = Callable[..., None]
_KILO, _MEGA = 1 << 10, 1 << 20


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


def test_what_compaction_frees_goes_back_to_the_file_system(path: Path, run: Run) -> None:
    async def scenario(store: Store) -> None:
        for number in range(200):
            await write(store, f"/pods/a/{number}", "x" * 200 * _KILO)
        for number in range(200):
            await remove(store, f"/pods/a/{number}")
        assert size(path) > 40 * _MEGA
        await store.compact(store.revision)
        await store.maintain()
        assert size(path) < 10 * _MEGA

    run(scenario)


def test_history_is_bounded_by_bytes_without_any_maintenance(path: Path, run: Run) -> None:
    async def scenario(store: Store) -> None:
        watch = store.watch("/pods/", 0)
        for number in range(1_000):
            await write(store, "/pods/a/one", f"{number}" + "x" * 100 * _KILO)
        assert size(path) < 45 * _MEGA, "of 100 MB that were written"
        assert store.compacted > 0
        recent = store.events_after("/pods/", store.revision - 50, -1)[0]
        assert len(recent) == 50, "the newest history stays"
        watch.close()

    run(scenario, history_bytes=16 * _MEGA)


def test_the_bound_holds_after_a_restart(path: Path, run: Run) -> None:
    async def before(store: Store) -> None:
        for _ in range(100):
            await write(store, "/pods/a/one", "x" * 100 * _KILO)
        assert store.compacted == 0

    async def after(store: Store) -> None:
        await write(store, "/pods/a/one", 1)
        for _ in range(20):
            await asyncio.sleep(0.01)
            await write(store, "/pods/a/two", 1)
        assert store.compacted > 0

    run(before)
    run(after, history_bytes=4 * _MEGA)
    run(after, history_bytes=4 * _MEGA)


def test_live_objects_are_no_history(path: Path, run: Run) -> None:
    async def scenario(store: Store) -> None:
        for number in range(100):
            await write(store, f"/pods/a/{number}", "x" * 100 * _KILO)
        assert store.compacted == 0

    run(scenario, history_bytes=4 * _MEGA)


def test_compactions_that_meet_do_not_undo_each_other(path: Path) -> None:
    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock(), fsync=False)
        for number in range(5_000):
            write(store, f"/pods/a/{number % 7}", number)
        await write(store, "/pods/a/0", "last")
        await asyncio.gather(*(store.compact(end) for end in (4_500, 2_100, 5_001, 3_000)))
        assert store.compacted == 5_001
        await store.close()
        again = await Store.open(path, clock=VirtualClock(), fsync=False)
        assert again.compacted == 5_001
        assert again.count("/pods/") == 7
        await again.close()

    asyncio.run(scenario())


class TestHistorySize:
    def test_nothing_is_due_below_the_limit(self) -> None:
        history = HistorySize(1_000)
        history.add(1, 1_000)
        assert history.target() == 0

    def test_the_newest_three_quarters_stay(self) -> None:
        history = HistorySize(6_400)
        for revision in range(1, 102):
            history.add(revision, 100)
        assert history.bytes == 10_100
        target = history.target()
        assert 101 - 48 - 1 <= target <= 101 - 48 + 1
        history.forget(target)
        assert history.bytes <= 4_800
        assert history.target() == 0

    @pytest.mark.parametrize("upto", [0, 5, 101])
    def test_forgetting_part_of_a_block_keeps_the_block(self, upto: int) -> None:
        history = HistorySize(64_000)
        for revision in range(1, 101):
            history.add(revision, 100)
        history.forget(upto)
        assert 10_000 - 100 * upto <= history.bytes <= 10_000

    def test_steps_end_where_blocks_end(self) -> None:
        history = HistorySize(6_400)
        for revision in range(1, 11):
            history.add(revision, 50)
        assert history.ends(7) == [2, 4, 6]
