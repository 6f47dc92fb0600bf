"""Slices: a workload that replaces a smaller one of its job that runs already, and needs only what it asks for beyond.

What the one before holds passes to its successor, flavor by flavor: no pod set may change flavors, because its pods
keep running. Both are known until the successor is admitted; who is replaced leaves with that very decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuaas.engine.items import Item
from gpuaas.engine.queues import Queue
from gpuaas.engine.values import PodSet


class Predecessor:
    """The workload that is replaced, and what each of its pod sets holds."""

    __slots__ = ("_flavors", "_held", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        admission = item.admission or ()
        self._flavors = {given.name: dict(given.flavors) for given in admission}
        self._held = {given.name: dict(given.usage) for given in admission}

    def beyond(self, pod_sets: Sequence[PodSet], amounts: Sequence[dict[str, int]]) -> tuple[dict[str, int], ...]:
        """What the pod sets ask for beyond what they have; less than nothing where they shrink."""
        return tuple(
            {resource: amount - self._held.get(pod_set.name, {}).get(resource, 0) for resource, amount in asked.items()}
            for pod_set, asked in zip(pod_sets, amounts, strict=True)
        )

    def keeps_from(self, flavor: str, pod_sets: Sequence[PodSet], resource: str) -> str:
        """Why these pod sets cannot get this flavor, in upstream's words; empty when it is theirs."""
        for pod_set in pod_sets:
            own = self._flavors.get(pod_set.name, {}).get(resource, "")
            if own != flavor:
                return f"could not assign {flavor} flavor since the original workload is assigned: {own}"
        return ""


def predecessor(item: Item, queue: Queue, items: Mapping[str, Item]) -> Predecessor | None:
    """The one it replaces, while that runs in the same queue. One that is being evicted has nothing to pass on."""
    key = item.workload.replaces
    found = items.get(key) if key.startswith(f"{item.workload.namespace}/") else None
    if found is None or not found.reserved or found.queue is not queue or found.evicted:
        return None
    return Predecessor(found)
