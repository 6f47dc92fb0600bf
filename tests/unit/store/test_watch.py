"""What watchers are promised: every committed event once, in order, from a revision on, or a clear end."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.store.conftest import remove, write

from gpuaas.store import Compacted, Event, FutureRevision, Store

Run = Callable[..., None]


def seen(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(event.type, event.key, event.revision) for event in events]


def test_a_watch_starts_after_its_revision_and_goes_on_live(run: Run) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/x")
        await write(store, "/pods/a/y")
        watch = store.watch("/pods/", 1)
        assert seen(await watch.next()) == [("ADDED", "/pods/a/y", 2)]
        waiting = asyncio.create_task(watch.next())
        await write(store, "/nodes//n")
        await write(store, "/pods/b/z")
        assert seen(await waiting) == [("ADDED", "/pods/b/z", 4)]
        await asyncio.gather(write(store, "/pods/a/x", 1), remove(store, "/pods/a/y"))
        assert seen(await watch.next()) == [("MODIFIED", "/pods/a/x", 5), ("DELETED", "/pods/a/y", 6)]

    run(scenario)


def test_a_deletion_shows_the_final_object_at_the_deletions_revision(run: Run) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/x", "alive")
        watch = store.watch("/pods/", 1)
        await remove(store, "/pods/a/x")
        (event,) = await watch.next()
        assert event.entry.obj == {"key": "/pods/a/x", "revision": 2, "value": "gone"}
        assert event.previous is not None
        assert event.previous.obj["value"] == "alive"

    run(scenario)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("/pods/", 3), ("/pods/a/", 2), ("/pods/a/x", 1), ("/nodes//", 1), ("", 4), ("/pods/c/", 0)],
)
def test_a_watch_sees_what_is_below_its_prefix(run: Run, prefix: str, expected: int) -> None:
    async def scenario(store: Store) -> None:
        live, called = store.watch(prefix, 0), []
        fan_out = store.watch(prefix, 0, called.extend)
        fan_out.resume()
        assert live.drain() == []  # synced from now on
        for key in ("/pods/a/x", "/pods/a/y", "/pods/b/x", "/nodes//n"):
            await write(store, key)
        history = store.watch(prefix, 0)
        assert len(live.drain()) == len(history.drain()) == len(called) == expected
        assert live.progress == history.progress == fan_out.progress == 4

    run(scenario)


def test_a_watcher_that_does_not_read_keeps_its_place_not_the_events(run: Run) -> None:
    async def scenario(store: Store) -> None:
        watch = store.watch("/pods/", 0, buffer=10)
        assert watch.drain() == []
        for n in range(95):
            await write(store, f"/pods/a/{n}")
        assert len(watch._buffer) <= 10
        got: list[Event] = []
        while len(got) < 95:
            batch = await watch.next()
            assert len(batch) <= 10
            got += batch
        assert [event.revision for event in got] == list(range(1, 96))
        await write(store, "/pods/a/last")
        assert seen(await watch.next()) == [("ADDED", "/pods/a/last", 96)]

    run(scenario, window_events=20)


def test_a_quiet_watcher_is_not_dropped_when_others_write_and_history_goes(run: Run) -> None:
    async def scenario(store: Store) -> None:
        watch = store.watch("/pods/", 0, buffer=2)
        await write(store, "/pods/a/x")
        assert len(await watch.next()) == 1
        assert watch.drain() == []
        for n in range(50):
            await write(store, "/nodes//n", n)
        await store.compact(store.revision)
        assert watch.progress == 51
        for n in range(4):  # more than it buffers: it falls back to history, which reaches far enough
            await write(store, "/pods/a/x", n)
        assert [event.revision for event in await watch.next()] == [52, 53]
        assert [event.revision for event in await watch.next()] == [54, 55]

    run(scenario)


def test_a_watcher_behind_the_compaction_is_told_so(run: Run) -> None:
    async def scenario(store: Store) -> None:
        pull = store.watch("/pods/", 0)
        push = store.watch("/pods/", 0, lambda events: None)
        for n in range(10):
            await write(store, "/pods/a/x", n)
        await store.compact(5)
        with pytest.raises(Compacted):
            await pull.next()
        with pytest.raises(Compacted):
            push.resume()
        with pytest.raises(Compacted) as error:
            store.watch("/pods/", 4)
        assert (error.value.requested, error.value.compacted) == (4, 5)
        assert len(await store.watch("/pods/", 5).next()) == 5
        with pytest.raises(FutureRevision) as future:
            store.watch("/pods/", 11)
        assert (future.value.requested, future.value.current) == (11, 10)

    run(scenario)


def test_a_paused_callback_gets_what_it_missed_when_it_resumes(run: Run) -> None:
    async def scenario(store: Store) -> None:
        got: list[int] = []

        def take(events: list[Event]) -> None:
            got.extend(event.revision for event in events)
            if len(got) in (2, 4):
                watch.pause()

        await write(store, "/pods/a/x")
        watch = store.watch("/pods/", 0, take)
        assert got == []
        watch.resume()
        for n in range(5):
            await write(store, "/pods/a/x", n)
        assert got == [1, 2]
        assert watch.progress == 2
        watch.resume()
        assert got == [1, 2, 3, 4, 5, 6]
        await write(store, "/pods/a/x")
        assert got[-1] == watch.progress == 7
        watch.close()
        await write(store, "/pods/a/x")
        assert got[-1] == 7

    run(scenario)


def test_a_callback_that_raises_ends_its_watch_and_nothing_else(run: Run) -> None:
    async def scenario(store: Store) -> None:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

        def fails(events: list[Event]) -> None:
            raise ValueError("broken pipe")

        good: list[Event] = []
        bad = store.watch("/pods/", 0, fails)
        fine = store.watch("/pods/", 0, good.extend)
        bad.resume()
        fine.resume()
        await write(store, "/pods/a/x")
        assert bad.closed
        assert len(good) == 1
        assert told == ["a watcher of '/pods/' failed and was ended"]

    run(scenario)


def test_closing_wakes_who_waits(run: Run) -> None:
    async def scenario(store: Store) -> None:
        watch = store.watch("/pods/", 0)
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        assert await waiting == []
        left_open = asyncio.create_task(store.watch("/pods/", 0).next())
        await asyncio.sleep(0)
        await store.close()
        assert await left_open == []

    run(scenario)


def test_all_watchers_share_one_event_so_that_its_line_is_encoded_once(run: Run) -> None:
    async def scenario(store: Store) -> None:
        got: list[Event] = []
        for _ in range(3):
            store.watch("/pods/", 0, got.extend).resume()
        store.watch("/pods/a/", 0, got.extend).resume()
        await write(store, "/pods/a/x")
        assert len(got) == 4
        assert len({id(event) for event in got}) == 1

    run(scenario)
