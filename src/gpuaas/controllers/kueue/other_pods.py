"""What pods that Kueue does not place take of nodes: it is not there for those it does.

Counted only where there are topologies; elsewhere it is not needed. That something is taken counts at once. That something
became free lets those who wait be looked at again, but together for all pods that left within a moment: there may be
many. Pods with chosen places count with their workloads.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.client.protocol import Object
from gpuaas.engine.changes import OtherUsage
from gpuaas.engine.topology import Places
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.topology_assignment import room_of, takes_room
from gpuaas.runtime.informer import Informer

_TOGETHER = 1.0  # seconds

Amounts = dict[str, int]


class OtherPods:
    """`tell` is given each change of what others take of a node."""

    def __init__(self, pods: Informer, places: Places, tell: Callable[[OtherUsage], None], clock: Clock) -> None:
        self._pods = pods
        self._places = places
        self._tell = tell
        self._clock = clock
        self._counting = False
        self._of_pod: dict[tuple[str, str], tuple[str, Amounts]] = {}
        self._of_node: dict[str, Amounts] = {}
        self._freed: set[str] = set()
        pods.subscribe(self._changed)

    def of(self, node: str) -> OtherUsage:
        return OtherUsage(node, tuple(sorted(self._of_node.get(node, {}).items())))

    def topology_changed(self, _: Object | None, new: Object | None) -> None:
        """With the first topology there is something to count for."""
        if new is None or self._counting:
            return
        self._counting = True
        for pod in self._pods.all():
            self._changed(None, pod)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if not self._counting:
            return
        obj = new or old
        assert obj is not None
        key = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        before = self._of_pod.get(key)
        if before is not None and old is not None and new is not None and _same(old, new):
            return
        now = None if new is None or not takes_room(new) else (new["spec"]["nodeName"], room_of(new))
        if now == before:
            return
        if before is not None:
            del self._of_pod[key]
            self._add(*before, -1)
        if now is not None:
            self._of_pod[key] = now
            self._add(*now, 1)
        for node in {each[0] for each in (before, now) if each is not None}:
            self._tell(self.of(node))
        if before is not None and (now is None or now[0] != before[0] or _less(now[1], before[1])):
            self._free(before[0])

    def _add(self, node: str, amounts: Amounts, times: int) -> None:
        used = self._of_node.setdefault(node, {})
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + times * amount
            if not used[resource]:
                del used[resource]
        if not used:
            del self._of_node[node]

    def _free(self, node: str) -> None:
        if not self._freed:
            asyncio.ensure_future(self._wake_later())  # noqa: RUF006 - it ends by itself, and soon
        self._freed.add(node)

    async def _wake_later(self) -> None:
        await self._clock.sleep(_TOGETHER)
        freed, self._freed = self._freed, set()
        node = next((name for name in freed if self._places.matters(name)), None)
        if node is not None:
            usage = self.of(node)
            self._tell(OtherUsage(usage.node, usage.amounts, wakes=True))


def _same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Most news of a pod are about its status."""
    return has_ended(old) == has_ended(new) and old["spec"] == new["spec"]


def _less(now: Amounts, before: Amounts) -> bool:
    return any(amount > now.get(resource, 0) for resource, amount in before.items())
