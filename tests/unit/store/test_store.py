"""What readers and writers are promised."""

import asyncio
import gc
from collections.abc import Callable

import msgspec
import pytest
from tests.unit.store.conftest import remove, rendered, write

from gpuaas.store import Compacted, Entry, FutureRevision, Store, StoreError

Run = Callable[..., None]


def keys(store: Store, prefix: str) -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def test_a_write_is_visible_after_its_commit_and_latest_before_it(run: Run) -> None:
    async def scenario(store: Store) -> None:
        done = write(store, "/pods/a/x", 1)
        assert store.get("/pods/a/x") is None
        assert store.list("/pods/") == []
        latest = store.latest("/pods/a/x")
        assert latest is not None
        assert latest.revision == 1
        assert store.revision == 0
        entry = await done
        assert store.get("/pods/a/x") is entry
        assert (entry.revision, entry.created, store.revision) == (1, 1, 1)

    run(scenario)


def test_writes_in_flight_to_one_key_build_on_each_other(run: Run) -> None:
    async def scenario(store: Store) -> None:
        pending = [write(store, "/pods/a/x", n) for n in range(5)]
        pending.append(remove(store, "/pods/a/x"))
        assert store.latest("/pods/a/x") is None
        pending.append(write(store, "/pods/a/x", "again"))
        entries = await asyncio.gather(*pending)
        assert [entry.revision for entry in entries] == [1, 2, 3, 4, 5, 6, 7]
        assert [entry.created for entry in entries] == [1, 1, 1, 1, 1, 1, 7]
        watch = store.watch("/pods/a/", 0)
        assert [event.type for event in await watch.next()] == ["ADDED", *["MODIFIED"] * 4, "DELETED", "ADDED"]

    run(scenario)


def test_writes_leave_nothing_to_the_garbage_collector(run: Run) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/first")
        gc.collect()
        gc.disable()
        try:
            for number in range(5):
                await asyncio.gather(*[write(store, f"/pods/a/{each}", number) for each in range(20)])
                write(store, "/pods/a/hasty", number)
                store.hasten()
            assert gc.collect() == 0
        finally:
            gc.enable()

    run(scenario)


def test_a_render_that_fails_changes_nothing_and_costs_no_revision(run: Run) -> None:
    async def scenario(store: Store) -> None:
        def fails(revision: int) -> tuple[bytes, None]:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            store.put("/pods/a/x", fails)
        assert store.latest("/pods/a/x") is None
        assert (await write(store, "/pods/a/y")).revision == 1

    run(scenario)


def test_deleting_what_is_not_there_is_the_callers_mistake(run: Run) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(KeyError):
            remove(store, "/pods/a/x")

    run(scenario)


def test_a_cancelled_writer_does_not_stop_the_batch(run: Run) -> None:
    async def scenario(store: Store) -> None:
        first, second = write(store, "/pods/a/x"), write(store, "/pods/a/y")
        first.cancel()
        await second
        assert keys(store, "/pods/") == ["/pods/a/x", "/pods/a/y"]

    run(scenario)


def test_lists_are_in_key_order_by_plural_and_by_namespace(run: Run) -> None:
    written = ["/pods/b/2", "/pods/b/1", "/pods/a/9", "/pods/a-b/5", "/nodes//n2", "/nodes//n1", "batch/jobs/a/j"]

    async def scenario(store: Store) -> None:
        await asyncio.gather(*(write(store, key) for key in written))
        # "-" comes before "/", as in etcd
        assert keys(store, "/pods/") == ["/pods/a-b/5", "/pods/a/9", "/pods/b/1", "/pods/b/2"]
        assert keys(store, "/pods/b/") == ["/pods/b/1", "/pods/b/2"]
        assert keys(store, "/nodes/") == keys(store, "/nodes//") == ["/nodes//n1", "/nodes//n2"]
        assert keys(store, "") == sorted(written)
        assert keys(store, "batch/pods/") == keys(store, "/pods/none/") == []
        assert [store.count(prefix) for prefix in ("/pods/", "/pods/a/", "/pods/c/", "/x/", "")] == [4, 1, 0, 0, 7]
        await remove(store, "/pods/a/9")
        await write(store, "/pods/a/1")
        assert keys(store, "/pods/a/") == ["/pods/a/1"]

    run(scenario)


def test_changed_says_how_long_a_list_stays_valid(run: Run) -> None:
    async def scenario(store: Store) -> None:
        assert store.changed("/pods/") == 0
        await write(store, "/pods/a/x")
        await write(store, "/pods/b/x")
        assert (store.changed("/pods/"), store.changed("/pods/a/"), store.changed("/pods/b/")) == (2, 1, 2)
        await write(store, "/nodes//n")
        assert store.changed("/pods/") == 2
        await remove(store, "/pods/a/x")
        assert store.changed("/pods/") == store.changed("/pods/a/") == 4

    run(scenario)


def test_the_store_goes_on_where_it_was_after_a_close(run: Run) -> None:
    async def first(store: Store) -> None:
        await asyncio.gather(*(write(store, f"/pods/a/{n}", n) for n in range(4)))
        await write(store, "/pods/a/2", "two")
        await remove(store, "/pods/a/3")

    async def second(store: Store) -> None:
        assert store.revision == 6
        assert keys(store, "/pods/") == ["/pods/a/0", "/pods/a/1", "/pods/a/2"]
        entry = store.get("/pods/a/2")
        assert entry is not None
        assert (entry.revision, entry.created, entry.obj["value"]) == (5, 3, "two")
        watch = store.watch("/pods/", 4)  # read from the file: memory starts empty
        assert [(e.type, e.revision, e.previous and e.previous.revision) for e in await watch.next()] == [
            ("MODIFIED", 5, 3),
            ("DELETED", 6, 4),
        ]
        assert (await write(store, "/pods/a/4")).revision == 7

    run(first)
    run(second)


def test_closing_commits_what_is_queued_and_refuses_what_comes_later(run: Run) -> None:
    async def first(store: Store) -> None:
        done = write(store, "/pods/a/x")
        await store.close()
        assert (await done).revision == 1
        with pytest.raises(StoreError, match="closed"):
            write(store, "/pods/a/y")

    async def second(store: Store) -> None:
        assert keys(store, "") == ["/pods/a/x"]

    run(first)
    run(second)


@pytest.mark.parametrize("options", [{}, {"window_events": 2}, {"window_bytes": 1}], ids=["memory", "mixed", "file"])
def test_a_list_of_the_past_is_what_it_was(run: Run, options: dict[str, int]) -> None:
    async def scenario(store: Store) -> None:
        seen: list[list[bytes]] = [[]]

        async def note(done: asyncio.Future[object]) -> None:
            await done
            seen.append([entry.raw for entry in store.list("/pods/")])

        await note(write(store, "/pods/a/x", 1))
        await note(write(store, "/pods/a/y", 2))
        await note(write(store, "/nodes//n", 0))
        await note(remove(store, "/pods/a/x"))
        await note(write(store, "/pods/a/y", 3))
        await note(write(store, "/pods/a/x", 4))
        await note(remove(store, "/pods/a/y"))
        for revision, expected in enumerate(seen):
            assert [entry.raw for entry in store.list_at("/pods/", revision)] == expected, revision
        with pytest.raises(FutureRevision):
            store.list_at("/pods/", 8)
        await store.compact(4)
        with pytest.raises(Compacted, match=r"too old resource version: 3 \(4\)"):
            store.list_at("/pods/", 3)
        for revision in range(4, 8):
            assert [entry.raw for entry in store.list_at("/pods/", revision)] == seen[revision], revision

    run(scenario, **options)


def test_compaction_keeps_every_live_object_and_only_those(run: Run) -> None:
    async def first(store: Store) -> None:
        for round_ in range(3):
            await asyncio.gather(*(write(store, f"/pods/a/{n}", round_) for n in range(10)))
        await asyncio.gather(*(remove(store, f"/pods/a/{n}") for n in range(5)))
        await store.compact(store.revision + 1000)
        assert store.compacted == store.revision == 35
        await store.compact(3)  # never back
        assert store.compacted == 35

    async def second(store: Store) -> None:
        assert (store.revision, store.compacted) == (35, 35)
        assert [entry.obj["value"] for entry in store.list("/pods/")] == [2] * 5
        assert store._log._db.execute("SELECT count(*) FROM log").fetchone() == (5,)
        assert (await write(store, "/pods/a/new")).revision == 36

    run(first)
    run(second)


def test_maintenance_keeps_recent_history_and_a_bounded_file(run: Run) -> None:
    async def scenario(store: Store) -> None:
        async def churn(count: int) -> None:
            for start in range(0, count, 500):
                await asyncio.gather(*(write(store, f"/pods/a/{n % 50}", "x" * 500) for n in range(start, start + 500)))

        now = 1000.0
        await churn(12_000)
        await store.maintain(now)
        assert store.compacted == 0  # none of it is five minutes old
        await churn(1_000)
        await store.maintain(now + 301)
        assert store.compacted == 3_000  # of what is old enough, 10,000 revisions stay
        sizes = []
        for _ in range(5):
            now += 700
            await churn(12_000)
            await store.maintain(now)
            sizes.append(store.path.stat().st_size)
        assert store.revision - store.compacted < 25_000
        assert max(sizes[2:]) < 1.3 * sizes[1]
        wal = store.path.with_name(store.path.name + "-wal")
        assert wal.stat().st_size == 0
        assert store.count("/pods/") == 50

    run(scenario)


def test_decoded_objects_are_bounded_and_come_back(run: Run) -> None:
    async def scenario(store: Store) -> None:
        entries = await asyncio.gather(*(write(store, f"/pods/a/{n}", "x" * 100) for n in range(100)))
        assert sum(entry.value is not None for entry in entries) < 10
        assert all(entry.obj["value"] == "x" * 100 for entry in entries)
        assert sum(entry.value is not None for entry in entries) < 10

    run(scenario, decoded_bytes=1000)


def test_of_an_object_written_again_only_the_newest_version_stays_decoded(run: Run) -> None:
    async def scenario(store: Store) -> None:
        versions = [await write(store, "/pods/a/x", f"{n:03}" * 30) for n in range(50)]
        other = await write(store, "/pods/a/y")
        assert [entry.value is not None for entry in versions] == [False] * 49 + [True]
        assert versions[0].obj["value"] == "000" * 30  # whoever asks for an old one still gets it
        await write(store, "/pods/a/z", "z" * 100)
        assert other.value is not None  # what was dropped early is not counted any more

    run(scenario, decoded_bytes=1000)


def test_what_was_decoded_long_ago_is_not_kept(run: Run) -> None:
    async def scenario(store: Store) -> None:
        first = await write(store, "/pods/a/x")
        await store.maintain(0)
        second = await write(store, "/pods/a/y")
        assert [first.value is not None, second.value is not None] == [True, True]
        await store.maintain(30)
        assert [first.value is not None, second.value is not None] == [False, True]
        assert first.obj == first.copy()  # decoded anew, and kept as long again
        await store.maintain(60)
        assert [first.value is not None, second.value is not None] == [True, False]

    run(scenario)


def test_an_outline_shows_the_metadata_and_is_written_again_as_the_whole_object() -> None:
    owned = [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}]
    whole = {
        "kind": "ConfigMap",
        "metadata": {"name": "x", "finalizers": ["a"], "managedFields": owned},
        "data": {"k": "v"},
    }
    outline = Entry("/configmaps/a/x", 1, 1, msgspec.json.encode(whole)).outline()
    assert (outline["metadata"]["name"], outline["metadata"]["finalizers"]) == ("x", ["a"])
    assert msgspec.json.decode(msgspec.json.encode(outline)) == whole


def test_more_writes_than_one_batch_holds_all_arrive_in_order(run: Run) -> None:
    async def scenario(store: Store) -> None:
        large = b'"' + b"x" * (3 << 20) + b'"'
        writes = [store.put(f"/pods/a/{n}", lambda revision: (large, None)) for n in range(5)]
        writes += [write(store, f"/pods/b/{n}") for n in range(1500)]
        entries = await asyncio.gather(*writes)
        assert [entry.revision for entry in entries] == list(range(1, 1506))

    run(scenario)


def test_too_many_writes_in_flight_are_refused_and_no_revision_is_lost(run: Run) -> None:
    async def scenario(store: Store) -> None:
        raw, value = rendered("/pods/a/x", 0, None)
        writes = [store.put("/pods/a/x", lambda revision: (raw, value)) for _ in range(16_384)]
        with pytest.raises(StoreError, match="too many writes are waiting"):
            store.put("/pods/a/x", lambda revision: (raw, value))
        await asyncio.gather(*writes)
        assert (await write(store, "/pods/a/x")).revision == 16_385

    run(scenario)
