"""Rows of GPUs by product and resource, and of each node: how many there are, are used and are free.

`Gpus` keeps for each node what it offers, and for each pod that holds GPUs where and how many; the sums are made when
rows are read, in time linear in the nodes. What is used follows the requests of pods that have not finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from gpuaas.api.owner import owner_named
from gpuaas.base.numbers import natural
from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.offer import GPU
from gpuaas.devices.shares import in_text, share_of
from gpuaas.kueue.ledger import is_gpu
from gpuaas.views.free import NodeOffer
from gpuaas.views.rows import GpuRow, Holder, NodeGpus, NodeRow, NodeTypes

View = Mapping[str, Any]
PRODUCT_LABEL = "nvidia.com/gpu.product"
EXECUTOR_LABEL = "gpuaas.dev/executor"
_UNKNOWN: Final = "unknown"
_COUNTED = ("total", "used", "free")


_Held = tuple[tuple[str, int], ...]


class _Node(msgspec.Struct, gc=False):
    product: str
    gpus: _Held
    ready: bool
    schedulable: bool
    executor: str
    labels: dict[str, str]
    shares: int = 1  # into how many its cards are divided


class _Pod(msgspec.Struct, gc=False):
    node: str
    held: _Held
    owner: str


class Gpus:
    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[tuple[str, str], _Pod] = {}
        self._on_node: dict[str, dict[tuple[str, str], None]] = {}
        self._used: dict[tuple[str, str], dict[str, int]] = {}  # by node and resource; of each owner

    def node_changed(self, name: str, obj: View | None) -> None:
        if obj is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = _node_of(obj)

    def pod_changed(self, namespace: str, name: str, obj: View | None) -> bool:
        """Whether it holds other GPUs than before."""
        before = self._pods.pop((namespace, name), None)
        if before is not None:
            self._account(namespace, name, before, sign=-1)
        held = None if obj is None else held_by(obj)
        if obj is not None and held is not None:
            pod = self._pods[namespace, name] = _Pod(*held, owner_named(obj))
            self._account(namespace, name, pod, sign=1)
        return before != self._pods.get((namespace, name))

    def types(self) -> NodeTypes:
        executors = {node.executor for node in self._nodes.values()} - {""}
        products = {node.product for node in self._nodes.values()} - {_UNKNOWN}
        return NodeTypes(sorted(executors), sorted(products))

    def listed(self, *, usage: bool = True, per_node: bool = True) -> list[GpuRow]:
        """By product and resource. Without `usage`, `used` and `free` are None; without `per_node`, only sums."""
        found: dict[tuple[str, str], list[NodeGpus]] = {}
        units: dict[tuple[str, str], dict[int, list[int]]] = {}  # by shares of a card: in all, and used
        for name in sorted(self._nodes) if per_node else self._nodes:
            node = self._nodes[name]
            for resource, total in node.gpus:
                used = self._used_of(name, resource) if usage else None
                free = None if used is None else total - used
                key = (node.product, resource)
                owners = self._owners_on(name, resource) if usage and per_node else {}
                found.setdefault(key, []).append(NodeGpus(name, total, used, free, owners))
                shares = node.shares if node.shares > 1 and _is_shared(resource, node) else 1
                sums = units.setdefault(key, {}).setdefault(shares, [0, 0])
                sums[0] += total
                sums[1] += used or 0
        users, cards = self._users() if usage else {}, {key: _cards(key[1], by) for key, by in units.items()}
        return [_row(key, parts, cards[key], per_node, users.get(key, {})) for key, parts in sorted(found.items())]

    def offers(self) -> list[NodeOffer]:
        """What each node that has GPUs has free for new pods."""
        return [
            NodeOffer(
                node.product,
                node.labels,
                {resource: (total, max(0, total - self._used_of(name, resource))) for resource, total in node.gpus},
                usable=node.ready and node.schedulable,
                shares={name: node.shares for name, _ in node.gpus if node.shares > 1 and _is_shared(name, node)},
            )
            for name, node in self._nodes.items()
            if node.gpus
        ]

    def _used_of(self, node: str, resource: str) -> int:
        used = self._used.get((node, resource))
        return sum(used.values()) if used else 0

    def _owners_on(self, node: str, resource: str) -> dict[str, int]:
        return {owner: amount for owner, amount in sorted(self._used.get((node, resource), {}).items()) if owner}

    def _users(self) -> dict[tuple[str, str], dict[str, int]]:
        """By product and resource, how many each owner that is known holds; who holds the most comes first."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        for (name, resource), used in self._used.items():
            node = self._nodes.get(name)
            if node is None:
                continue
            sums = found.setdefault((node.product, resource), {})
            for owner, amount in used.items():
                if owner:
                    sums[owner] = sums.get(owner, 0) + amount
        return {key: dict(sorted(sums.items(), key=lambda each: (-each[1], each[0]))) for key, sums in found.items()}

    def nodes(self, *, holders: bool = True) -> list[NodeRow]:
        """By name; without `holders`, nothing about pods."""
        return [self._node_row(name, self._nodes[name], holders=holders) for name in sorted(self._nodes)]

    def _node_row(self, name: str, node: _Node, *, holders: bool) -> NodeRow:
        gpus = dict(node.gpus)
        used = {resource: self._used_of(name, resource) for resource in gpus}
        held = [
            Holder(*pod, resource, amount, self._pods[pod].owner)
            for pod in sorted(self._on_node.get(name, ()))
            for resource, amount in self._pods[pod].held
        ]
        return NodeRow(
            name, node.product, node.ready, node.schedulable, gpus, used if holders else {}, held if holders else []
        )

    def _account(self, namespace: str, name: str, pod: _Pod, *, sign: int) -> None:
        if not pod.held:
            return
        for resource, amount in pod.held:
            key = (pod.node, resource)
            used = self._used.setdefault(key, {})
            left = used.get(pod.owner, 0) + sign * amount
            if left:
                used[pod.owner] = left
            else:
                used.pop(pod.owner, None)
            if not used:
                del self._used[key]
        on_node = self._on_node.setdefault(pod.node, {})
        if sign > 0:
            on_node[namespace, name] = None
            return
        del on_node[namespace, name]
        if not on_node:
            del self._on_node[pod.node]


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
        labels=labels,
        shares=natural(labels.get(f"{GPU}.replicas", "")) or 1,
    )


def _is_shared(resource: str, node: _Node) -> bool:
    renamed = any(name == f"{GPU}.shared" for name, _ in node.gpus)
    return resource == (f"{GPU}.shared" if renamed else GPU)


def _cards(resource: str, units: Mapping[int, Sequence[int]]) -> tuple[Fraction, Fraction]:
    """How many whole cards these are, in all and used; `units` by the shares a card is divided into."""
    part = share_of(resource)
    in_all, used = (sum((part * sums[at] / shares for shares, sums in units.items()), Fraction(0)) for at in (0, 1))
    return in_all, used


def _row(
    key: tuple[str, str], parts: list[NodeGpus], cards: Sequence[Fraction], per_node: bool, users: dict[str, int]
) -> GpuRow:
    known = parts[0].used is not None
    total, used, free = (
        sum(getattr(each, name) for each in parts) if known or name == "total" else None for name in _COUNTED
    )
    in_all, taken = in_text(cards[0]), in_text(cards[1]) if known else None
    return GpuRow(*key, len(parts), total or 0, used, free, parts if per_node else [], in_all, taken, users)


def _gpus(amounts: View | None) -> Iterator[tuple[str, int]]:
    return ((name, parse_quantity(amount).value) for name, amount in (amounts or {}).items() if is_gpu(name))
