"""What simulated containers wrote: a function of the pod's life and of the clock, so that no line is ever stored."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.executors.limits import ExecRefused
from gpuaas.executors.lives import Life, life_of
from gpuaas.executors.logs import Line
from gpuaas.executors.owners import Owners
from gpuaas.runtime.informer import Informer

_LOOK_EVERY = 0.5


class SimulatedLines:
    def __init__(self, owners: Owners, pods: Informer, clock: Clock, speed: float) -> None:
        self._owners = owners
        self._pods = pods
        self._clock = clock
        self._speed = speed

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
            lines = list(self._until_now(shown, container, life))
            for line in lines[count:]:
                yield line
            count = max(count, len(lines))
            if latest is not shown or _span(shown, container)[1] is not None:
                return
            await self._clock.sleep(_LOOK_EVERY)

    async def _life(self, pod: Mapping[str, Any]) -> Life:
        return life_of(pod, await self._owners.wishes(pod), self._speed)

    def _until_now(self, pod: Mapping[str, Any], container: str, life: Life) -> Iterator[Line]:
        started, ended = _span(pod, container)
        if started is None:
            return
        # A container that has ended wrote everything due by then; both times are whole seconds.
        now = self._clock.now() if ended is None else ended + 1
        for offset, text in life.of(container).lines:
            if started + offset <= now:
                yield Line(started + offset, text.encode())


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
