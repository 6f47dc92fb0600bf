"""A store in a temporary folder, and a way to run a scenario on a loop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Entry, Store

Scenario = Callable[[Store], Awaitable[None]]


def write(store: Store, key: str, value: Any = None) -> asyncio.Future[Entry]:
    """Put an object that carries its own revision, as the API server does."""
    return store.put(key, lambda revision: rendered(key, revision, value))


def remove(store: Store, key: str) -> asyncio.Future[Entry]:
    return store.delete(key, lambda revision: rendered(key, revision, "gone"))


def rendered(key: str, revision: int, value: Any) -> tuple[bytes, Any]:
    obj = {"key": key, "revision": revision, "value": value}
    return msgspec.json.encode(obj), obj


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def run(path: Path) -> Callable[..., None]:
    """Run a scenario against the store at `path`, which is opened before and closed after it."""

    def runner(scenario: Scenario, **options: Any) -> None:
        async def whole() -> None:
            store = await Store.open(path, clock=VirtualClock(), fsync=False, **options)
            try:
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(whole())

    return runner
