"""Backups are consistent while writes go on; what is restored was checked, and revisions never go back."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.conftest import remove, write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Compacted, Store, StoreError, restore

Run = Callable[..., None]


async def contents(path: Path) -> tuple[int, dict[str, object]]:
    store = await Store.open(path, clock=VirtualClock())
    try:
        return store.revision, {entry.key: entry.obj["value"] for entry in store.list("")}
    finally:
        await store.close()


def test_a_backup_made_during_writes_is_a_state_that_was(run: Run, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        stop = False

        async def pairs() -> None:
            """Two keys that are only ever written together: a copy with unequal ones was never a state."""
            number = 0
            while not stop:
                number += 1
                await asyncio.gather(write(store, "/pods/a/x", number), write(store, "/pods/a/y", number))

        writing = asyncio.create_task(pairs())
        for n in range(5):
            await store.backup(tmp_path / f"backup-{n}.db")
        stop = True
        await writing

    run(scenario)
    assert not list(tmp_path.glob(".*.partial"))
    for n in range(5):
        restore(tmp_path / f"backup-{n}.db", tmp_path / "restored.db")
        _, objects = asyncio.run(contents(tmp_path / "restored.db"))
        assert not objects or objects["/pods/a/x"] == objects["/pods/a/y"]


def test_a_restored_store_goes_on_above_everything_its_predecessor_handed_out(run: Run, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"

    async def before(store: Store) -> None:
        await write(store, "/pods/a/x", 1)
        await write(store, "/pods/a/gone")
        await remove(store, "/pods/a/gone")
        await store.backup(backup)
        for n in range(10):
            await write(store, "/pods/a/x", n)
        with pytest.raises(StoreError, match="in use by another process"):
            restore(backup, store.path)

    async def after(store: Store) -> None:
        assert [(entry.key, entry.obj["value"]) for entry in store.list("")] == [("/pods/a/x", 1)]
        assert store.revision > 13
        with pytest.raises(Compacted):  # a client that saw revision 13 must list again
            store.watch("/pods/", 13)
        assert (await write(store, "/pods/a/y")).revision == store.revision
        assert len(store.watch("/pods/", store.revision - 1).drain()) == 1

    run(before)
    floor = restore(backup, tmp_path / "store.db")
    assert floor > 13
    run(after)


def test_over_a_broken_store_revisions_start_far_above_the_backups(run: Run, tmp_path: Path) -> None:
    async def before(store: Store) -> None:
        await write(store, "/pods/a/x", 1)
        await store.backup(tmp_path / "backup.db")

    run(before)
    (tmp_path / "store.db").write_bytes(b"broken" * 1000)
    assert restore(tmp_path / "backup.db", tmp_path / "store.db") > 1_000_000
    assert asyncio.run(contents(tmp_path / "store.db"))[1] == {"/pods/a/x": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no such file"), (b"text" * 5000, "not a gpuaas store"), (b"", "another program, not a gpuaas store")],
)
def test_what_is_no_backup_is_refused_and_the_store_stays(
    run: Run, tmp_path: Path, content: bytes | None, words: str
) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/x", 1)

    run(scenario)
    source = tmp_path / "backup.db"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(StoreError, match=words):
        restore(source, tmp_path / "store.db")
    assert asyncio.run(contents(tmp_path / "store.db")) == (1, {"/pods/a/x": 1})


def test_a_backup_with_a_flipped_bit_is_refused(run: Run, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        await write(store, "/pods/a/x", "x" * 500)
        await store.backup(tmp_path / "backup.db")

    run(scenario)
    raw = bytearray((tmp_path / "backup.db").read_bytes())
    raw[raw.index(b"x" * 400) + 10] ^= 1
    (tmp_path / "backup.db").write_bytes(raw)
    with pytest.raises(StoreError, match="does not match its checksum"):
        restore(tmp_path / "backup.db", tmp_path / "store.db")
