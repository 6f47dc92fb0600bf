"""What those are promised who cannot wait for the writer's thread: their writes are committed when `hasten` returns."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from tests.unit.store.conftest import write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store, StoreError

Run = Callable[..., None]


def committed(store: Store) -> list[Any]:
    return [entry.obj["value"] for entry in store.list("/pods/")]


def test_what_is_queued_is_committed_and_told_before_it_returns(run: Run) -> None:
    async def scenario(store: Store) -> None:
        watch = store.watch("/pods/", 0)
        done = [write(store, f"/pods/a/{number}", number) for number in range(3)]
        store.hasten()
        assert all(each.done() for each in done)
        assert committed(store) == [0, 1, 2]
        assert [event.revision for event in await watch.next()] == [1, 2, 3]

    run(scenario)


def test_it_is_there_after_a_restart(run: Run) -> None:
    async def first(store: Store) -> None:
        write(store, "/pods/a/x", 1)
        store.hasten()

    async def second(store: Store) -> None:
        assert committed(store) == [1]
        assert (await write(store, "/pods/a/y", 2)).revision > 1

    run(first)
    run(second)


def test_with_nothing_queued_nothing_happens(run: Run) -> None:
    async def scenario(store: Store) -> None:
        store.hasten()
        assert (await write(store, "/pods/a/x", 1)).revision == 1
        store.hasten()
        assert committed(store) == [1]

    run(scenario)


def test_a_batch_that_is_under_way_comes_first_and_all_go_on_after(run: Run) -> None:
    async def scenario(store: Store) -> None:
        append, held = store._log.append, threading.Event()

        def slow(rows: Sequence[Any], ceiling: int | None) -> None:
            held.wait(10)
            append(rows, ceiling)

        store._log.append = slow  # type: ignore[method-assign]
        first = write(store, "/pods/a/first", 1)
        await asyncio.sleep(0)  # it is handed to the thread
        await asyncio.sleep(0)
        second = write(store, "/pods/a/second", 2)
        held.set()
        store.hasten()
        assert [each.result().revision for each in (first, second)] == [1, 2]
        assert (await write(store, "/pods/a/third", 3)).revision == 3
        write(store, "/pods/a/fourth", 4)
        store.hasten()
        assert sorted(committed(store)) == [1, 2, 3, 4]
        assert (await write(store, "/pods/a/fifth", 5)).revision == 5

    run(scenario)


def test_while_something_else_uses_the_file_writes_take_their_time(run: Run) -> None:
    async def scenario(store: Store) -> None:
        held = threading.Event()
        other = asyncio.ensure_future(store._writer.run(lambda: held.wait(10) and None))
        await asyncio.sleep(0)
        done = write(store, "/pods/a/x", 1)
        store.hasten()
        assert not done.done()
        held.set()
        await other
        assert (await done).revision == 1

    run(scenario)


def test_a_failure_is_told_to_those_who_wrote_and_the_next_write_goes_on(run: Run) -> None:
    async def scenario(store: Store) -> None:
        append = store._log.append

        def fails(rows: Sequence[Any], ceiling: int | None) -> None:
            raise StoreError("no space left for the store")

        store._log.append = fails  # type: ignore[method-assign]
        done = write(store, "/pods/a/x", 1)
        store.hasten()
        with pytest.raises(StoreError, match="no space left"):
            await done
        assert committed(store) == []
        assert store.latest("/pods/a/x") is None
        store._log.append = append  # type: ignore[method-assign]
        await write(store, "/pods/a/x", 2)
        assert committed(store) == [2]

    run(scenario)


def make_slow(store: Store, clock: VirtualClock, slow: Callable[[int], bool]) -> None:
    """Commits take 50 ms, those whose numbers are asked for."""
    append, numbers = store._log.append, count()

    def slowly(rows: Sequence[Any], ceiling: int | None) -> None:
        if slow(next(numbers)):
            clock.advance(0.05)
        append(rows, ceiling)

    store._log.append = slowly  # type: ignore[method-assign]
    store._writer._now = clock.monotonic


def test_a_slow_disk_holds_up_the_loop_only_now_and_then(run: Run) -> None:
    clock = VirtualClock()

    async def scenario(store: Store) -> None:
        make_slow(store, clock, lambda _: True)
        for value in (1, 2):
            write(store, "/pods/a/x", value)
            store.hasten()
            assert committed(store) == [value]
        done = write(store, "/pods/a/x", 3)
        store.hasten()
        assert committed(store) == [2]
        await done
        clock.advance(1)
        write(store, "/pods/a/x", 4)
        store.hasten()
        assert committed(store) == [4]
        write(store, "/pods/a/x", 5)
        store.hasten()
        assert committed(store) == [4], "once it is known to be slow, one is enough"

    run(scenario)


def test_a_single_slow_commit_holds_up_nobody_else(run: Run) -> None:
    clock = VirtualClock()

    async def scenario(store: Store) -> None:
        make_slow(store, clock, lambda number: number % 2 == 0)
        for value in range(6):
            write(store, "/pods/a/x", value)
            store.hasten()
            assert committed(store) == [value]

    run(scenario)


def test_closing_after_it_ends(run: Run) -> None:
    async def scenario(store: Store) -> None:
        write(store, "/pods/a/x", 1)
        store.hasten()
        done = write(store, "/pods/a/x", 2)
        await store.close()
        assert done.done()

    run(scenario)
