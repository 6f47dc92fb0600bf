"""The tasks behind a connection: they end with it, and a failure of one is logged rather than lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger("gpuaas.apiserver")


class Work:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None], then: Callable[[], None]) -> None:
        """`then` is called when it has ended, unless it was cancelled."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, then))

    def _ended(self, task: asyncio.Task[None], then: Callable[[], None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, OSError):
            _log.error("a stream of a pod ended", exc_info=error)
        then()

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
