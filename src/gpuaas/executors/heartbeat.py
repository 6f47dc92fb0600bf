"""Registers nodes and keeps saying that they are alive: a Node object and a Lease in kube-node-lease each.

A renewal is a write, and writes are what an idle server with many nodes does. So all nodes together renew at most
`RENEWALS` leases a second: a large fleet announces a longer lease and renews it after a quarter of it, as kubelets do,
each node at its own moment. A node that falls silent announces the usual length once more, so that its silence is
found as soon as in a small fleet.

A node with the annotation gpuaas.dev/lost falls silent until the annotation goes; what others make of the silence
(taints, eviction) is the node lifecycle controller's. Nodes that an earlier fleet had and this one has not are removed.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339_micro
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import LEASES, NODES
from gpuaas.devices import inventory
from gpuaas.devices.advertise import CONFIG, stale_labels, stale_resources
from gpuaas.executors.annotations import is_lost
from gpuaas.executors.nodes import (
    GPU_DRIVER,
    NodeSpec,
    added_resources,
    amounts_of,
    conditions,
    is_ready,
    labels_of,
    node_object,
)
from gpuaas.nodefit.names import EXECUTOR
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import annotations_of
from gpuaas.runtime.metadata import labels_of as labels_on

NAMESPACE = "kube-node-lease"
DURATION = 40
EVERY = 10.0
RENEWALS = 100.0  # a second
MANAGER = "kubelet"


class NodeKeeper(Controller):
    component = "kubelet"
    workers = 32  # renewals of one moment are committed together

    def __init__(self, deps: Deps, specs: Sequence[NodeSpec], executor: str) -> None:
        self.name = f"{executor}-nodes"
        super().__init__(deps)
        self._specs = {spec.name: spec for spec in specs}
        self._every = max(EVERY, len(self._specs) / RENEWALS)
        self._moments = {name: float(number // RENEWALS) for number, name in enumerate(self._specs)}
        self._silent: set[str] = set()
        self._nodes = self.follow(deps.informers.of(NODES), self._known)

    def _known(self, node: Mapping[str, Any]) -> Iterable[str]:
        name = node["metadata"]["name"]
        return (name,) if name in self._specs else ()

    async def run(self) -> None:
        await self._nodes.synced()
        for node in self._nodes.all():
            name = node["metadata"]["name"]
            if EXECUTOR in labels_on(node) and name not in self._specs:
                await self._remove(name)
        await asyncio.gather(*(self._register(spec) for spec in self._specs.values()))
        for name, spec in self._specs.items():
            self.queue.add(name)
            registered = self._nodes.get("", name)
            if spec.gpu_fault and registered is not None:
                self.recorder.event(NODES, registered, WARNING, "GPUDriver", spec.gpu_fault)
        await super().run()

    async def reconcile(self, key: str) -> Requeue | None:
        node = self._nodes.get("", key)
        if node is None:
            return None  # it was deleted: it stays away until the next start, as with a real kubelet
        if is_lost(node):
            if self._every > EVERY and key not in self._silent:
                self._silent.add(key)
                await self._renew(node, DURATION)
            return None
        self._silent.discard(key)
        await self._renew(node, round(self._every * DURATION / EVERY))
        if not is_ready(node):
            status = {"conditions": _with_others(conditions(self.clock.now()), node)}
            await self.client.patch(NODES, key, {"status": status}, subresource="status", field_manager=MANAGER)
        added = added_resources(self._specs[key], node)
        if added is not None:
            offered = {"status": {"allocatable": added}}
            await self.client.patch(NODES, key, offered, subresource="status", field_manager=MANAGER)
        return Requeue(self._pause(key))

    def _pause(self, name: str) -> float:
        """Until the next renewal: in a large fleet until the node's own moment of each period. Nodes that begin together
        are spread over the period, a second's worth of them at each moment: one commit of many costs little more than
        one of one."""
        if self._every == EVERY:
            return EVERY
        return EVERY + (self._moments[name] - self.clock.monotonic() - EVERY) % self._every

    async def _register(self, spec: NodeSpec) -> None:
        wanted = node_object(spec, self.clock.now())
        known = self._nodes.get("", spec.name)
        if known is None:
            try:
                await self.client.create(NODES, wanted, field_manager=MANAGER)
            except AlreadyExists:
                pass
            else:
                return
        # What its cards offer stays as it was: it depends on more than the cards, and its own controller derives it.
        amounts = amounts_of(spec)
        status = {**wanted["status"], "capacity": amounts, "allocatable": amounts}
        status["conditions"] = _with_others(status["conditions"], known or {}, without=(GPU_DRIVER,))
        metadata: Object = {"labels": labels_of(spec)}
        if known is not None and not spec.cards() and inventory.ANNOTATION in annotations_of(known):
            # It had cards, and has none now: nothing of them is offered any more.
            metadata["annotations"] = {inventory.ANNOTATION: None, CONFIG: None}
            metadata["labels"] = dict.fromkeys(stale_labels(labels_on(known), {})) | metadata["labels"]
            for part in ("capacity", "allocatable"):
                gone = stale_resources((known.get("status") or {}).get(part) or (), {})
                status[part] = {**amounts, **dict.fromkeys(gone)}
        await self.client.patch(NODES, spec.name, {"metadata": metadata}, field_manager=MANAGER)
        await self.client.patch(NODES, spec.name, {"status": status}, subresource="status", field_manager=MANAGER)

    async def _remove(self, name: str) -> None:
        for resource, namespace in ((NODES, ""), (LEASES, NAMESPACE)):
            try:
                await self.client.delete(resource, name, namespace)
            except NotFound:
                continue

    async def _renew(self, node: Object, duration: int) -> None:
        name = node["metadata"]["name"]
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": duration,
            "renewTime": rfc3339_micro(self.clock.now()),
        }
        try:
            await self.client.patch(LEASES, name, {"spec": spec}, NAMESPACE, field_manager=MANAGER)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            await self.client.create(LEASES, lease, NAMESPACE, field_manager=MANAGER)


def _with_others(own: Sequence[Object], node: Mapping[str, Any], without: Sequence[str] = ()) -> list[Object]:
    """Conditions that others keep on the node stay."""
    types = {one["type"] for one in own}.union(without)
    known = (node.get("status") or {}).get("conditions") or ()
    return [*own, *(one for one in known if one["type"] not in types)]
