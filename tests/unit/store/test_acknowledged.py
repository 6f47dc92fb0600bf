"""Acknowledged writes that are missing after an unclean stop, in all the ways a write-ahead log gets lost."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.conftest import write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Compacted, FutureRevision, Store, StoreError, restore
from gpuaas.store.acknowledged import Acknowledged, note_of

WRITES = 60
PARTS = ("", "-wal", "-shm")


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store as a kill leaves it: 60 writes acknowledged, most of them in the write-ahead log only."""
    path, copy = tmp_path / "store.db", tmp_path / "copy" / "store.db"
    copy.parent.mkdir()

    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock())
        for number in range(WRITES):
            await write(store, f"/pods/a/{number:03}", "x" * 1000)
        for suffix in PARTS:
            shutil.copy(beside(path, suffix), beside(copy, suffix))
        shutil.copy(note_of(path), note_of(copy))
        await store.close()

    asyncio.run(scenario())
    return copy


def opened(path: Path, **options: bool) -> int:
    async def scenario() -> int:
        store = await Store.open(path, clock=VirtualClock(), **options)
        await store.close()
        return store.revision

    return asyncio.run(scenario())


def no_wal(path: Path) -> None:
    beside(path, "-wal").unlink()


def empty_wal(path: Path) -> None:
    os.truncate(beside(path, "-wal"), 0)


def header_only(path: Path) -> None:
    os.truncate(beside(path, "-wal"), 32)


def cut(share: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        wal = beside(path, "-wal")
        os.truncate(wal, int(wal.stat().st_size * share))

    return damage


def cut_at_a_frame(path: Path) -> None:
    wal = beside(path, "-wal")
    step = 24 + 8192
    os.truncate(wal, 32 + (wal.stat().st_size - 32) // step // 2 * step)


def no_wal_and_no_index(path: Path) -> None:
    no_wal(path)
    beside(path, "-shm").unlink()


def no_companions(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()


def zeroed_end(path: Path) -> None:
    wal = beside(path, "-wal")
    size = wal.stat().st_size
    os.truncate(wal, size // 2)
    os.truncate(wal, size)


def other_wal(path: Path) -> None:
    """The log of another store."""
    other = path.parent / "other" / "store.db"
    other.parent.mkdir()

    async def scenario() -> None:
        store = await Store.open(other, clock=VirtualClock())
        await write(store, "/pods/a/other")
        shutil.copy(beside(other, "-wal"), beside(path, "-wal"))
        await store.close()

    asyncio.run(scenario())


def no_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        beside(path, suffix).unlink()


DAMAGES = [no_wal, empty_wal, header_only, cut(0.9), cut(0.5), cut(0.1), cut_at_a_frame,
           no_wal_and_no_index, no_companions, zeroed_end, other_wal, no_database]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_missing_is_said_and_can_be_accepted(killed: Path, damage: Callable[[Path], None]) -> None:
    damage(killed)
    for _ in range(2):  # looking does not make it forget
        with pytest.raises(StoreError, match=r"--accept lost-writes"):
            opened(killed)
    reached = opened(killed, accept_loss=True)
    assert reached > WRITES, "no revision that clients have seen is handed out again"
    assert opened(killed) == reached


def test_the_refusal_names_both_revisions(killed: Path) -> None:
    cut(0.5)(killed)
    with pytest.raises(StoreError, match=rf"has revision {WRITES}, the last one found has \d+: up to \d+ changes"):
        opened(killed)


def test_a_kill_alone_loses_nothing_and_is_not_refused(killed: Path) -> None:
    assert opened(killed) == WRITES
    assert opened(killed) == WRITES


def test_clients_of_lost_revisions_have_to_list_again(killed: Path) -> None:
    cut(0.5)(killed)

    async def scenario() -> None:
        store = await Store.open(killed, clock=VirtualClock(), accept_loss=True)
        kept = store.count("/pods/")
        assert 0 < kept < WRITES
        for seen in (kept, WRITES):
            with pytest.raises(Compacted):
                store.watch("/pods/", seen)
        with pytest.raises(FutureRevision):
            store.watch("/pods/", store.revision + 1)
        watch = store.watch("/pods/", store.revision)
        await write(store, "/pods/a/new")
        assert [event.key for event in watch.drain()] == ["/pods/a/new"]
        await store.close()

    asyncio.run(scenario())


def test_without_syncs_it_is_a_warning(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    no_wal(killed)
    assert opened(killed, fsync=False) > WRITES
    assert "writes are missing" in caplog.text


@pytest.mark.parametrize("note", [b"", b"x", b"00000000000000000099 00000000\n", b"\xff" * 30])
def test_a_damaged_note_proves_nothing(killed: Path, note: bytes) -> None:
    note_of(killed).write_bytes(note)
    assert opened(killed) == WRITES
    assert Acknowledged(killed).revision == WRITES


def test_a_note_that_cannot_be_written_does_not_stop_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    note_of(path).mkdir()
    assert opened(path) == 0


def test_a_restored_store_begins_its_note_again(killed: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.db"

    async def scenario() -> None:
        store = await Store.open(tmp_path / "store.db", clock=VirtualClock())
        await store.backup(saved)
        await store.close()

    asyncio.run(scenario())
    floor = restore(saved, killed)
    assert opened(killed) == floor
