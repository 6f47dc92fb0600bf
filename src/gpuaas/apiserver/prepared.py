"""Bodies that take longer to read than a slice of the event loop are read in a worker thread.

`prepare` does with a body what module bodies would do on the loop (decode it, bound its depth and the number of its
values, look for keys that came twice) and keeps the result with the bytes. Verbs and subresources pass a
`Prepared` on like any other body; decoding it returns the kept result, or raises the kept refusal.

The thread shares the interpreter with the loop, which takes it back every few milliseconds; only a call into C holds it
for longer, and the longest (msgspec, for 3 MiB) takes 40 ms. There is one thread, so however many clients send large
bodies, the loop competes with one of them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec

OFF_LOOP: Final = 32 * 1024  # bytes: shorter bodies are read on the loop, in 20 ms at most
Result = TypeVar("Result")
_NOTHING: Final = object()
_decode = msgspec.json.Decoder().decode


class Prepared(bytes):
    """A body with what was found in it."""

    _tree: Any = _NOTHING  # for the first who reads it: a reader may change what it gets
    _json: bytes = b""
    problem: Exception | None = None
    repeats: list[str]  # keys that came twice, in the words of the format

    def keep(self, tree: Any, text: bytes, repeats: list[str]) -> None:
        self._tree, self._json, self.repeats = tree, text, repeats

    def tree(self) -> Any:
        if self.problem is not None:
            raise self.problem
        tree, self._tree = self._tree, _NOTHING
        return _decode(self._json) if tree is _NOTHING else tree


class Workers:
    """The thread, begun with the first large body."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "bodies")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
