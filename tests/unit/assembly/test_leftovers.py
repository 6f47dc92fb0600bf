"""What going back to an older state of a store means for jobs, in words, and which logs are kept."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuaas.assembly.home import Home
from gpuaas.assembly.leftovers import effect, keep_logs, unknown
from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store

Object = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def job(name: str, *, ended: bool = False) -> Object:
    conditions = [{"type": "Complete", "status": "True"}] if ended else []
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {}, "status": {"conditions": conditions}}


def pod(name: str, owner: str = "", phase: str = "Running") -> Object:
    meta: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"kind": "Job", "name": owner}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": {"phase": phase}}


def fill(path: Path, *objects: Object) -> Path:
    async def scenario() -> None:
        store = await Store.open(path, clock=VirtualClock(), fsync=False)
        for number, obj in enumerate(objects):
            raw = msgspec.json.encode(obj)
            await store.put(f"x/y/default/{number}", lambda _, raw=raw: (raw, None))
        await store.close()

    asyncio.run(scenario())
    return path


def test_jobs_that_ended_came_and_went_since_are_named(home: Home, tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "uid-c"}}
    fill(home.store("local"), job("a", ended=True), job("b"), job("new"), pod("new-1", "new"), pod("p", "", "Failed"))
    saved = fill(tmp_path / "saved.db", job("a"), job("b"), job("gone"), pod("gone-1", "gone"), pod("p"), config)
    found = effect(home, "local", saved)
    assert found.again == ("default/a", "default/p")
    assert found.lost == ("default/new",)
    assert found.back == ("default/gone",)
    assert found.ended == ()
    lines = "\n".join(found.lines(home))
    assert "Ended since, and may run again: default/a, default/p" in lines
    assert str(home.kept_logs) in lines


def test_nothing_changed_is_nothing_to_say(home: Home, tmp_path: Path) -> None:
    fill(home.store("local"), job("a"))
    saved = fill(tmp_path / "saved.db", job("a"))
    assert effect(home, "local", saved).lines(home) == []


@pytest.mark.parametrize("present", [None, b"no database" * 1000])
def test_a_store_that_cannot_be_read_is_no_obstacle(home: Home, tmp_path: Path, present: bytes | None) -> None:
    if present is not None:
        home.store("local").write_bytes(present)
    saved = fill(tmp_path / "saved.db", job("a"))
    assert effect(home, "local", saved).lines(home) == []


def test_long_lists_are_cut(home: Home, tmp_path: Path) -> None:
    fill(home.store("local"), *(job(f"n{number}") for number in range(8)))
    saved = fill(tmp_path / "saved.db", job("a"))
    assert "and 3 more" in "\n".join(effect(home, "local", saved).lines(home))


def test_logs_go_where_people_find_them(home: Home) -> None:
    for uid, container in (("uid-known", "c"), ("uid-new", "c"), ("uid-new", "d"), ("uid-silent", "")):
        (home.pods("local") / uid / container).mkdir(parents=True)
        if container:
            (home.pods("local") / uid / container / "log").write_text(f"{uid} {container}")
    os.mkfifo(home.pods("local") / "uid-new" / "d" / "log.pipe")
    found = unknown(home, "local", {"uid-known"})
    assert [folder.name for folder in found] == ["uid-new", "uid-silent"]
    for _ in range(2):
        kept = keep_logs(home, found, {"uid-new": pod("new")})
    assert kept == [home.kept_logs / "default_new_uid-new"]
    assert sorted(log.read_text() for log in kept[0].iterdir()) == ["uid-new c", "uid-new d"]
    assert (home.pods("local") / "uid-known" / "c" / "log").exists()


def test_a_home_without_pods_has_none(home: Home) -> None:
    assert unknown(home, "local", ()) == []
