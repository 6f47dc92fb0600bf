"""What is begun runs to its first wait at once, and from there on is a task like any other."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gpuaas.runtime.eager import begin


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_it_runs_to_its_first_wait_before_its_starter_goes_on() -> None:
    said: list[str] = []

    async def work(gate: "asyncio.Future[str]") -> str:
        said.append("began")
        said.append(await gate)
        await asyncio.sleep(0)
        return "result"

    async def starter() -> str:
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = begin(work(gate))
        said.append("starter went on")
        gate.set_result("gate opened")
        return await task

    assert run(starter()) == "result"
    assert said == ["began", "starter went on", "gate opened"]


def test_what_waits_for_nothing_is_done_at_once() -> None:
    async def work() -> int:
        return 7

    async def starter() -> tuple[bool, int]:
        task = begin(work())
        return task.done(), await task

    assert run(starter()) == (True, 7)


@pytest.mark.parametrize("waits", [False, True])
def test_a_failure_is_the_task_s_not_its_starter_s(waits: bool) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("no")

    async def starter() -> None:
        task = begin(work())
        with pytest.raises(ValueError, match="no"):
            await task

    run(starter())


def test_what_it_waits_for_may_fail() -> None:
    async def work(gate: "asyncio.Future[None]") -> str:
        try:
            await gate
        except KeyError:
            return "caught"
        return "missed"

    async def starter() -> str:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = begin(work(gate))
        gate.set_exception(KeyError("gone"))
        return await task

    assert run(starter()) == "caught"


def test_it_can_be_cancelled_where_it_waits() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            said.append("cleaned up")

    async def starter() -> None:
        task = begin(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(starter())
    assert said == ["cleaned up"]
