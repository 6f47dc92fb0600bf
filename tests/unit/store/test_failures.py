"""What happens when the disk is full, the file broken, newer, older, foreign, or in use: words, and no silent loss."""

import asyncio
import os
import resource
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.store.conftest import remove, rendered, write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store, StoreError

Run = Callable[..., None]


def opening(path: Path) -> None:
    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock())
        await store.close()

    asyncio.run(scenario())


def fill(path: Path, count: int = 200) -> None:
    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock())
        await asyncio.gather(*(write(store, f"/pods/a/{n:03}", "x" * 1000) for n in range(count)))
        await store.close()

    asyncio.run(scenario())


def crashed_copy(path: Path, target: Path, commits: int = 30) -> None:
    """What a kill leaves: the file and its write-ahead log, copied while the store is open and one write in flight."""

    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock())
        for n in range(commits):
            await write(store, f"/pods/a/{n:03}", "x" * 1000)
        write(store, "/pods/a/in-flight")
        for suffix in ("", "-wal"):
            shutil.copy(path.with_name(path.name + suffix), target.with_name(target.name + suffix))
        await store.close()

    asyncio.run(scenario())


def max_page_count(store: Store) -> Iterator[None]:
    db = store._log._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")
    yield
    db.execute("PRAGMA max_page_count = 1000000")


def file_size_limit(store: Store) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("full", [max_page_count, file_size_limit])
def test_a_full_disk_fails_the_batch_and_what_builds_on_it_and_nothing_else(run: Run, full: object) -> None:
    async def first(store: Store) -> None:
        await write(store, "/pods/a/kept", 1)
        watch = store.watch("/pods/", store.revision)
        with contextmanager(full)(store):  # type: ignore[arg-type]
            large = "x" * 200_000
            failing = [write(store, "/pods/a/kept", large), write(store, "/pods/a/new", large)]
            await asyncio.sleep(0)  # the first batch is under way; these queue behind it
            failing += [write(store, "/pods/a/kept", "on top"), remove(store, "/pods/a/new")]
            outcomes = await asyncio.gather(*failing, return_exceptions=True)
            assert all(isinstance(outcome, StoreError) for outcome in outcomes), outcomes
            assert any(word in str(outcomes[0]) for word in ("no space left", "input/output error"))
            kept = store.latest("/pods/a/kept")
            assert kept is store.get("/pods/a/kept")
            assert kept is not None
            assert kept.obj["value"] == 1
            assert store.latest("/pods/a/new") is None
            assert watch.drain() == []
        after = await write(store, "/pods/a/kept", 2)
        assert after.revision == 6  # failed revisions are never used again
        assert [event.revision for event in await watch.next()] == [6]
        assert store.broken is None

    async def second(store: Store) -> None:
        assert [(entry.key, entry.obj["value"]) for entry in store.list("")] == [("/pods/a/kept", 2)]

    run(first)
    run(second)


def test_after_a_failed_sync_no_write_is_accepted_because_nobody_knows_what_is_on_the_disk(run: Run) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/x", 1)

        def failed_sync(rows: object, ceiling: object) -> None:
            cause = sqlite3.OperationalError("disk I/O error")
            cause.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise StoreError("input/output error on the store's file") from cause

        store._log.append = failed_sync  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="input/output error"):
            await write(store, "/pods/a/x", 2)
        with pytest.raises(StoreError, match="no more writes are accepted, restart"):
            write(store, "/pods/a/x", 3)
        assert store.broken
        assert store.get("/pods/a/x").obj["value"] == 1  # type: ignore[union-attr]

    run(scenario)


def test_a_file_in_use_is_refused_and_says_by_whom(path: Path, run: Run) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(StoreError, match=rf"in use by another process \(pid {os.getpid()}\)"):
            await Store.open(path, clock=VirtualClock())

    run(scenario)
    opening(path)  # free again


def test_the_file_and_its_companions_are_private(path: Path, run: Run) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/secrets/a/x")
        await store.backup(path.with_name("backup.db"))
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file

    run(scenario)


def not_a_database(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 1000)


def another_program(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (name TEXT)")
    db.close()


def newer(path: Path) -> None:
    fill(path, 1)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()


def a_changed_byte(path: Path) -> None:
    fill(path)
    raw = bytearray(path.read_bytes())
    spot = raw.index(b"x" * 900, len(raw) // 2) + 50
    raw[spot] = ord("y")
    path.write_bytes(raw)


def a_zeroed_page(path: Path) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.seek(8192 * 5)
        file.write(bytes(8192))


def a_cut_end(path: Path) -> None:
    fill(path)
    os.truncate(path, path.stat().st_size // 2)


def a_missing_row(path: Path) -> None:
    fill(path, 3)

    async def change() -> None:
        store = await Store.open(path, clock=VirtualClock())
        await write(store, "/pods/a/001", "second")
        await store.close()

    asyncio.run(change())
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM log WHERE revision = 2")
    db.close()


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (not_a_database, "not a gpuaas store"),
        (another_program, "is a database of another program"),
        (newer, "has format 7, and this gpuaas knows formats up to 1: a newer version wrote it"),
        (a_changed_byte, "does not match its checksum"),
        (a_zeroed_page, "the store's file is broken"),
        (a_cut_end, "the store's file is broken"),
        (a_missing_row, "revision 4 replaces 2, which is not there"),
        (a_folder, "cannot be opened"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_words(path: Path, damage: Callable[[Path], None], words: str) -> None:
    damage(path)
    with pytest.raises(StoreError, match=words):
        opening(path)
    with pytest.raises(StoreError, match=words):  # and it was left as it is, lock and all
        opening(path)


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        opening(tmp_path / "file" / "store.db")


def test_a_torn_end_of_the_last_transaction_costs_only_that_transaction(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    crashed_copy(tmp_path / "store.db", copy)
    wal = copy.with_name("copy.db-wal")
    os.truncate(wal, wal.stat().st_size - 100)

    async def scenario() -> None:
        store = await Store.open(copy, clock=VirtualClock())
        assert store.revision == 29
        assert (await write(store, "/pods/a/next")).revision > 30  # 30 was handed out before the crash
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("commits", [0, 5])
def test_a_revision_handed_out_before_a_crash_is_never_handed_out_again(tmp_path: Path, commits: int) -> None:
    crashed_copy(tmp_path / "store.db", tmp_path / "copy.db", commits)

    async def scenario() -> None:
        store = await Store.open(tmp_path / "copy.db", clock=VirtualClock())
        assert store.revision == commits
        assert (await write(store, "/pods/a/next")).revision > commits + 1
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("spot", [8, 18, 32 + 24 + 100, 20_000, 100_000])
def test_damage_before_acknowledged_commits_in_the_write_ahead_log_is_refused(tmp_path: Path, spot: int) -> None:
    copy = tmp_path / "copy.db"
    crashed_copy(tmp_path / "store.db", copy)
    wal = copy.with_name("copy.db-wal")
    raw = bytearray(wal.read_bytes())
    assert len(raw) > 200_000
    raw[spot] ^= 0xFF
    wal.write_bytes(raw)
    for _ in range(2):  # looking does not change it
        with pytest.raises(StoreError, match="committed transactions behind the damage"):
            opening(copy)
    assert wal.read_bytes() == bytes(raw)


def test_an_older_format_is_upgraded_with_all_its_history(path: Path, run: Run) -> None:
    old = sqlite3.connect(path)
    old.execute("CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT, created INTEGER, event INTEGER, bytes BLOB)")
    rows = [(1, "/pods/a/x", 1, 0), (3, "/pods/a/y", 3, 0), (4, "/pods/a/x", 1, 0), (5, "/pods/a/y", 3, 1)]
    for revision, key, created, event in rows:
        raw = rendered(key, revision, "old")[0]
        old.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", (revision, key, created, event, raw))
    old.commit()
    old.close()

    async def scenario(store: Store) -> None:
        assert store.revision >= 5
        assert [(entry.key, entry.revision, entry.created) for entry in store.list("")] == [("/pods/a/x", 4, 1)]
        events = store.watch("/pods/", 1).drain()
        assert [(event.type, event.revision) for event in events] == [("ADDED", 3), ("MODIFIED", 4), ("DELETED", 5)]
        assert (await write(store, "/pods/a/z")).revision > 5

    run(scenario)
    run(scenario_of_one_more_start)
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA user_version").fetchone() == (1,)
    assert check.execute("SELECT count(*) FROM sqlite_master WHERE name = 'log_0'").fetchone() == (0,)
    check.close()


async def scenario_of_one_more_start(store: Store) -> None:
    assert store.count("/pods/") == 2


def test_an_upgrade_that_fails_leaves_the_old_file(path: Path) -> None:
    old = sqlite3.connect(path)
    old.execute("CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT, created INTEGER, event INTEGER)")
    old.commit()
    old.close()
    with pytest.raises(StoreError, match="bytes"):
        opening(path)
    check = sqlite3.connect(path)
    assert check.execute("SELECT name FROM sqlite_master").fetchall() == [("log",)]
    check.close()
