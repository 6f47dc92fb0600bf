"""Rows of GPUs by product and resource, and of each node: how many there are, are used and are free.

`Gpus` keeps for each node what it offers, and for each pod that holds GPUs where and how many; the sums are made when
rows are read, in time linear in the nodes. What is used follows the requests of pods that have not finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from gpuaas.base.numbers import natural
from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.offer import GPU
from gpuaas.devices.shares import in_text, share_of
from gpuaas.kueue.ledger import is_gpu
from gpuaas.views.rows import GpuRow, Holder, NodeGpus, NodeRow, NodeTypes

View = Mapping[str, Any]
PRODUCT_LABEL = "nvidia.com/gpu.product"
EXECUTOR_LABEL = "gpuaas.dev/executor"
_UNKNOWN: Final = "unknown"
_COUNTED = ("total", "used", "free")


class _Node(msgspec.Struct, gc=False):
    product: str
    gpus: tuple[tuple[str, int], ...]
    ready: bool
    schedulable: bool
    executor: str
    shares: int = 1  # into how many its cards are divided


class Gpus:
    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[tuple[str, str], tuple[str, tuple[tuple[str, int], ...]]] = {}
        self._on_node: dict[str, dict[tuple[str, str], None]] = {}
        self._used: dict[tuple[str, str], int] = {}  # by node and resource

    def node_changed(self, name: str, obj: View | None) -> None:
        if obj is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = _node_of(obj)

    def pod_changed(self, namespace: str, name: str, obj: View | None) -> None:
        self._account(namespace, name, *self._pods.pop((namespace, name), ("", ())), sign=-1)
        held = None if obj is None else held_by(obj)
        if held is not None:
            self._pods[namespace, name] = held
            self._account(namespace, name, *held, sign=1)

    def types(self) -> NodeTypes:
        executors = {node.executor for node in self._nodes.values()} - {""}
        products = {node.product for node in self._nodes.values()} - {_UNKNOWN}
        return NodeTypes(sorted(executors), sorted(products))

    def listed(self, *, usage: bool = True, per_node: bool = True) -> list[GpuRow]:
        """By product and resource. Without `usage`, `used` and `free` are None; without `per_node`, only sums."""
        found: dict[tuple[str, str], list[NodeGpus]] = {}
        cards: dict[tuple[str, str], list[Fraction]] = {}  # in all, and used
        for name in sorted(self._nodes) if per_node else self._nodes:
            node = self._nodes[name]
            for resource, total in node.gpus:
                used = self._used.get((name, resource), 0) if usage else None
                free = None if used is None else total - used
                key = (node.product, resource)
                found.setdefault(key, []).append(NodeGpus(name, total, used, free))
                part = share_of(resource) / (node.shares if _is_shared(resource, node) else 1)
                sums = cards.setdefault(key, [Fraction(0), Fraction(0)])
                sums[0] += part * total
                sums[1] += part * (used or 0)
        return [_row(key, parts, cards[key], per_node) for key, parts in sorted(found.items())]

    def nodes(self, *, holders: bool = True) -> list[NodeRow]:
        """By name; without `holders`, nothing about pods."""
        return [self._node_row(name, self._nodes[name], holders=holders) for name in sorted(self._nodes)]

    def _node_row(self, name: str, node: _Node, *, holders: bool) -> NodeRow:
        gpus = dict(node.gpus)
        used = {resource: self._used.get((name, resource), 0) for resource in gpus}
        held = [
            Holder(*pod, resource, amount)
            for pod in sorted(self._on_node.get(name, ()))
            for resource, amount in self._pods[pod][1]
        ]
        return NodeRow(
            name, node.product, node.ready, node.schedulable, gpus, used if holders else {}, held if holders else []
        )

    def _account(self, namespace: str, pod: str, node: str, held: tuple[tuple[str, int], ...], *, sign: int) -> None:
        if not held:
            return
        for resource, amount in held:
            key = (node, resource)
            left = self._used.get(key, 0) + sign * amount
            if left:
                self._used[key] = left
            else:
                self._used.pop(key, None)
        on_node = self._on_node.setdefault(node, {})
        if sign > 0:
            on_node[namespace, pod] = None
            return
        del on_node[namespace, pod]
        if not on_node:
            del self._on_node[node]


def held_by(pod: View) -> tuple[str, tuple[tuple[str, int], ...]] | None:
    """The node ("" while it has none) and the GPUs of a pod that has not finished; None where it asks for none."""
    spec = pod.get("spec") or {}
    held: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in _gpus((container.get("resources") or {}).get("requests")):
            held[name] = held.get(name, 0) + amount
    if not held or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    return spec.get("nodeName") or "", tuple((name, amount) for name, amount in held.items() if amount)


def _node_of(obj: View) -> _Node:
    labels, status = obj["metadata"].get("labels") or {}, obj.get("status") or {}
    ready: View = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), {})
    return _Node(
        product=labels.get(PRODUCT_LABEL, _UNKNOWN),
        gpus=tuple(_gpus(status.get("allocatable"))),
        ready=ready.get("status") == "True",
        schedulable=not (obj.get("spec") or {}).get("unschedulable"),
        executor=labels.get(EXECUTOR_LABEL, ""),
        shares=natural(labels.get(f"{GPU}.replicas", "")) or 1,
    )


def _is_shared(resource: str, node: _Node) -> bool:
    renamed = any(name == f"{GPU}.shared" for name, _ in node.gpus)
    return resource == (f"{GPU}.shared" if renamed else GPU)


def _row(key: tuple[str, str], parts: list[NodeGpus], cards: Sequence[Fraction], per_node: bool) -> GpuRow:
    known = parts[0].used is not None
    total, used, free = (
        sum(getattr(each, name) for each in parts) if known or name == "total" else None for name in _COUNTED
    )
    in_all, taken = in_text(cards[0]), in_text(cards[1]) if known else None
    return GpuRow(*key, len(parts), total or 0, used, free, parts if per_node else [], in_all, taken)


def _gpus(amounts: View | None) -> Iterator[tuple[str, int]]:
    return ((name, parse_quantity(amount).value) for name, amount in (amounts or {}).items() if is_gpu(name))
