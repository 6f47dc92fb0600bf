"""What simulated containers wrote: a function of the pod's life and of the clock, so that no line is ever stored."""

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from typing import Any

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.executors.limits import ExecRefused
from gpuaas.executors.logs import Line, Options, read_lines
from gpuaas.executors.owners import Owners
from gpuaas.executors.simulated_lifetimes import Life, life_of
from gpuaas.runtime.informer import Informer

_LOOK_EVERY = 0.5
_REMEMBERED = 32  # lives


class SimulatedLines:
    def __init__(self, owners: Owners, pods: Informer, clock: Clock, speed: float) -> None:
        self._owners = owners
        self._pods = pods
        self._clock = clock
        self._speed = speed
        self._lives: dict[tuple[Any, ...], Life] = {}

    def read(self, pod: Mapping[str, Any], container: str, options: Options) -> AsyncIterator[bytes]:
        return read_lines(self, pod, container, options)

    async def past(self, pod: Mapping[str, Any], container: str) -> AsyncIterator[Line]:
        for line in self._until_now(pod, container, await self._life(pod)):
            yield line

    async def coming(
        self, pod: Mapping[str, Any], container: str, after: Line | None, count: int
    ) -> AsyncIterator[Line]:
        life = await self._life(pod)
        metadata = pod["metadata"]
        while True:
            latest = self._pods.get(metadata["namespace"], metadata["name"])
            shown = latest if latest is not None and latest["metadata"]["uid"] == metadata["uid"] else pod
            for line in self._until_now(shown, container, life, count):
                count += 1
                yield line
            if latest is not shown or _span(shown, container)[1] is not None:
                return
            await self._clock.sleep(_LOOK_EVERY)

    async def _life(self, pod: Mapping[str, Any]) -> Life:
        """Lives of pods that were read a moment ago are kept: reading one again costs no interpretation of its scripts."""
        said = await self._owners.wishes(pod)
        key = (pod["metadata"]["uid"], pod["metadata"].get("resourceVersion", ""), tuple(sorted(said.items())))
        life = self._lives.pop(key, None) or life_of(pod, said, self._speed)
        self._lives[key] = life
        if len(self._lives) > _REMEMBERED:
            del self._lives[next(iter(self._lives))]
        return life

    def _until_now(self, pod: Mapping[str, Any], container: str, life: Life, skip: int = 0) -> Iterator[Line]:
        started, ended = _span(pod, container)
        if started is None:
            return
        # A container that has ended wrote everything due by then; both times are whole seconds.
        now = self._clock.now() if ended is None else ended + 1
        for offset, text in islice(life.of(container).lines, skip, None):  # in the order of their times
            if started + offset > now:
                break
            yield Line(started + offset, text.encode("utf-8", "surrogatepass"))


def _span(pod: Mapping[str, Any], container: str) -> tuple[float | None, float | None]:
    """When the container started and ended, as far as its status says."""
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if one["name"] != container:
            continue
        for state in (one.get("state") or {}, one.get("lastState") or {}):
            if "running" in state:
                return parse_rfc3339(state["running"]["startedAt"]), None
            if "terminated" in state:
                ended = state["terminated"]
                if ended.get("reason") == ExecRefused.reason:
                    return None, None  # it was never executed
                return parse_rfc3339(ended["startedAt"]), parse_rfc3339(ended["finishedAt"])
    return None, None
