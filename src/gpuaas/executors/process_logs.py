"""What processes wrote: their log files, with the time each line was seen.

Processes write straight into their files, so that no line is lost while the control plane is away. When a line came is
noted on the side (`Watcher` looks at the sizes now and then); for what came unseen the next look's time stands.
"""

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.executors.logs import Line
from gpuaas.runtime.informer import Informer

_LOOK_EVERY = 0.25


class ProcessLines:
    def __init__(self, folder: Path, pods: Informer, clock: Clock) -> None:
        self._folder = folder
        self._pods = pods
        self._clock = clock

    async def past(self, pod: Mapping[str, Any], container: str) -> AsyncIterator[Line]:
        for line in self._lines(pod, container):
            yield line

    async def coming(
        self, pod: Mapping[str, Any], container: str, after: Line | None, count: int
    ) -> AsyncIterator[Line]:
        metadata = pod["metadata"]
        while True:
            latest = self._pods.get(metadata["namespace"], metadata["name"])
            over = latest is None or (latest.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            for number, line in enumerate(self._lines(pod, container)):
                if number >= count:
                    count += 1
                    yield line
            if over:
                return
            await self._clock.sleep(_LOOK_EVERY)

    def _lines(self, pod: Mapping[str, Any], container: str) -> Iterator[Line]:
        folder = self._folder / pod["metadata"]["uid"] / container
        note_sizes(folder, self._clock.now())
        offsets, times = _times(folder)
        try:
            file = (folder / "log").open("rb")
        except OSError:
            return
        with file:
            at = 0
            for text in file:
                if not text.endswith(b"\n") and not (folder / "exit").exists():
                    return  # still being written
                found = bisect_right(offsets, at)
                yield Line(times[min(found, len(times) - 1)] if times else self._clock.now(), text.rstrip(b"\n"))
                at += len(text)


def note_sizes(folder: Path, now: float) -> None:
    """Everything up to the present size was written by now."""
    try:
        size = (folder / "log").stat().st_size
    except OSError:
        return
    offsets, _ = _times(folder)
    if size and (not offsets or size > offsets[-1]):
        with (folder / "times").open("a") as file:
            file.write(f"{size} {now:.6f}\n")


def _times(folder: Path) -> tuple[list[int], list[float]]:
    try:
        rows = [line.split() for line in (folder / "times").read_text().splitlines()]
    except OSError:
        return [], []
    whole = [row for row in rows if len(row) == 2]
    return [int(size) for size, _ in whole], [float(at) for _, at in whole]
