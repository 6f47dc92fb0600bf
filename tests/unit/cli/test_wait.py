"""Waiting for a job that is over: everything it wrote is shown, and nobody waits for more than that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpuaas.cli import wait


def last_words(tell: Callable[[asyncio.Event], Awaitable[None]]) -> bool:
    """Whether the telling came to its end."""

    async def act() -> bool:
        heard = asyncio.Event()
        task = asyncio.ensure_future(tell(heard))
        await wait._last_words(task, heard)  # type: ignore[arg-type]
        return not task.cancelled()

    return asyncio.run(act())


def test_words_that_still_come_are_waited_for() -> None:
    shown: list[str] = []

    async def tell(heard: asyncio.Event) -> None:
        for word in ("one", "two", "three"):
            await asyncio.sleep(0)
            heard.set()
            shown.append(word)

    assert last_words(tell)
    assert shown == ["one", "two", "three"]


def test_a_stream_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_LAST_WORDS", 0.0)

    async def tell(_heard: asyncio.Event) -> None:
        await asyncio.Event().wait()

    assert not last_words(tell)


def test_what_goes_wrong_while_telling_is_not_swallowed() -> None:
    async def tell(_heard: asyncio.Event) -> None:
        raise RuntimeError("the server is gone")

    with pytest.raises(RuntimeError, match="the server is gone"):
        last_words(tell)
