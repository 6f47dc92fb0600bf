"""Keeps on each ResourceFlavor into how many shares the cards of its nodes are divided.

The annotation `gpuaas.dev/card-shares` is what rows and the ledger read, so that one share of four counts as a quarter of
a card. Where nodes of one flavor are shared differently, the fewest shares count: the part is then never shown too small.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.errors import NotFound
from gpuaas.base.numbers import natural
from gpuaas.client.kueue import RESOURCE_FLAVORS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES
from gpuaas.devices.offer import GPU
from gpuaas.devices.shares import ANNOTATION, encode
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import annotations_of, labels_of

View = Mapping[str, Any]
_REPLICAS: Final = f"{GPU}.replicas"
_RENAMED: Final = f"{GPU}.shared"


class CardShares(Controller):
    """Its only key is the empty one."""

    name = "card-shares"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._flavors = self.follow(deps.informers.of(RESOURCE_FLAVORS), lambda _: ("",), delay=0.02)
        self._nodes = self.follow(deps.informers.of(NODES), _if_shared, by=_sharing, delay=0.05)
        self._nodes.add_index("shared", _if_shared)

    async def reconcile(self, key: str) -> Requeue | None:
        shared = self._nodes.indexed("shared", "")
        for flavor in self._flavors.all():
            wanted = encode(_shares(flavor, shared))
            if annotations_of(flavor).get(ANNOTATION) != wanted:
                try:
                    change = {"metadata": {"annotations": {ANNOTATION: wanted}}}
                    await self.client.patch(RESOURCE_FLAVORS, flavor["metadata"]["name"], change)
                except NotFound:
                    continue
        return None


def _shares(flavor: Object, shared: Iterable[View]) -> dict[str, int]:
    selector = (flavor.get("spec") or {}).get("nodeLabels") or {}
    found: dict[str, int] = {}
    for node in shared:
        labels = labels_of(node)
        if selector and all(labels.get(name) == value for name, value in selector.items()):
            resource, count = _sharing(node)
            found[resource] = min(count, found.get(resource, count))
    return found


def _sharing(node: View) -> tuple[str, int]:
    count = natural(labels_of(node).get(_REPLICAS, "")) or 1
    renamed = _RENAMED in ((node.get("status") or {}).get("capacity") or {})
    return _RENAMED if renamed else GPU, count


def _if_shared(node: View) -> Iterable[str]:
    return ("",) if _sharing(node)[1] > 1 else ()
