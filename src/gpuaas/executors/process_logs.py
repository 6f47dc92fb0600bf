"""What processes wrote: their log files (module log_files), read in worker threads, a piece at a time.

Processes write straight into their files, so that no line is lost while the control plane is away. When a line came is
noted on the side (`LogKeeper` looks at the sizes now and then); for what came unseen the next look's time stands. A
reader takes the next piece when the one before has been taken from it, so that a slow client costs no memory.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from gpuaas.base.clock import Clock
from gpuaas.executors import log_files
from gpuaas.executors.files import NotRegular
from gpuaas.executors.limits import LogLimits
from gpuaas.executors.log_files import Asked
from gpuaas.executors.logs import Options
from gpuaas.runtime.informer import Informer

_log = logging.getLogger(__name__)
_LOOK_EVERY = 0.25
_THREADS = 4  # that read logs; other readers wait for their turn
_NOT_REGULAR = b"(nothing: the log of this container was replaced by something that is not a regular file)\n"
R = TypeVar("R")


class ProcessLines:
    def __init__(self, folder: Path, pods: Informer, clock: Clock, limits: LogLimits | None = None) -> None:
        self._folder = folder
        self._pods = pods
        self._clock = clock
        self._limits = limits or LogLimits()
        self._threads = ThreadPoolExecutor(_THREADS, "log-reader")

    async def read(self, pod: Mapping[str, Any], container: str, options: Options) -> AsyncIterator[bytes]:
        folder = self._folder / pod["metadata"]["uid"] / container
        follow = options.follow and not options.previous
        asked = Asked(options.tail_lines, options.since, options.timestamps, follow)
        try:
            position = await self._beside(log_files.begin, folder, asked, self._limits, self._clock.now())
        except NotRegular:
            yield _NOT_REGULAR
            return
        while True:
            over = not follow or self._is_over(pod)
            while log_files.has_more(folder, position):
                piece = await self._beside(log_files.read_piece, folder, position, self._limits, self._clock.now())
                if not piece:
                    break
                yield piece
            if over:
                return
            await self._clock.sleep(_LOOK_EVERY)

    def _is_over(self, pod: Mapping[str, Any]) -> bool:
        metadata = pod["metadata"]
        latest = self._pods.get(metadata["namespace"], metadata["name"])
        return latest is None or (latest.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    async def _beside(self, work: Callable[..., R], *arguments: Any) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class LogKeeper:
    """Looks at the logs of running processes: when they grew, and whether they take more of the disk than they may."""

    def __init__(self, limits: LogLimits | None = None) -> None:
        self._limits = limits or LogLimits()
        self._trimming: set[Path] = set()
        self._warned = False

    def look(self, folder: Path, now: float) -> None:
        try:
            log_files.note_size(folder, now)
            log_files.thin_times(folder)
        except OSError as error:  # a full disk, or the file was replaced: the log itself is not concerned
            _log.debug("%s: %s", folder, error)
        if not self._warned and folder not in self._trimming and log_files.is_too_large(folder, self._limits):
            self._trimming.add(folder)
            future = asyncio.get_running_loop().run_in_executor(None, log_files.trim, folder, self._limits)
            future.add_done_callback(lambda done: self._trimmed(folder, done))

    def _trimmed(self, folder: Path, done: "asyncio.Future[bool]") -> None:
        self._trimming.discard(folder)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            _log.warning("the log %s could not be trimmed: %s", folder / "log", error)
        elif not done.result():
            self._warned = True
            _log.warning("logs of processes have no bound: the file system of %s cannot punch holes", folder)
