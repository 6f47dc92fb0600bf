"""Tasks that begin at once: a coroutine runs to its first wait before its caller goes on.

A task of asyncio begins in the loop's next turn, and when the loop is busy a turn is milliseconds. What has been decided
and only has to be written does not wait for that.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def begin(work: Coroutine[Any, Any, Result]) -> "asyncio.Future[Result]":
    """The task of the rest; already done if there was nothing to wait for. Until its first wait, `work` has no task of
    its own: what asks for the current task must not stand there."""
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        return _done(end.value)
    except BaseException as error:
        failed: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed
    return asyncio.get_running_loop().create_task(_rest(work, waits_for))


def _done(value: Result) -> "asyncio.Future[Result]":
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


async def _rest(work: Coroutine[Any, Any, Result], waits_for: Any) -> Result:
    return await _go_on(work, waits_for)


@types.coroutine
def _go_on(work: Coroutine[Any, Any, Result], waits_for: Any) -> Generator[Any, Any, Result]:
    """Passes through what the task waits for and the result of each wait."""
    try:
        while True:
            try:
                result = yield waits_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                waits_for = work.throw(error)
            else:
                waits_for = work.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
