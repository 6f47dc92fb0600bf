"""Amounts as whole numbers: thousandths of cpu, whole units (bytes, cards) of everything else, as kube-scheduler counts."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.api.kubernetes.pod_resources import pod_totals
from gpuaas.base.quantity import Quantity, parse_quantity

Amounts = dict[str, int]

CPU, MEMORY, PODS = "cpu", "memory", "pods"
_NATIVE = frozenset({CPU, MEMORY, PODS, "ephemeral-storage", "storage"})


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """What the pod takes of a node, without the place it takes as a pod."""
    return {
        name: amount for name, quantity in pod_totals(pod, "requests").items() if (amount := _whole(name, quantity))
    }


def allocatable_of(node: Mapping[str, Any]) -> Amounts:
    status = node.get("status") or {}
    offered = status.get("allocatable") or status.get("capacity") or {}
    return {name: _whole(name, parse_quantity(text)) for name, text in offered.items()}


def is_extended(resource: str) -> bool:
    """A resource of a device or the like (nvidia.com/gpu), not one that every node has."""
    return resource not in _NATIVE and not resource.startswith(("hugepages-", "kubernetes.io/"))


def extended(amounts: Iterable[str]) -> list[str]:
    return sorted(name for name in amounts if is_extended(name))


def _whole(resource: str, amount: Quantity) -> int:
    return amount.milli if resource == CPU else amount.value
