"""The rows themselves: what travels from the server and what a page or a table shows. Light to import.

Field names are those of `-o json`. A row holds values of its own time alone: an age is made from `created` where the
row is shown.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

GROUP = "views.gpuaas.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class JobRow(msgspec.Struct, rename="camel", gc=False):
    namespace: str
    job: str
    """`kind/name` of what the user made."""
    queue: str
    state: str
    position: int | None
    gpus: str
    created: str
    workload: str
    cluster_queue: str
    flavors: list[str]
    priority: int
    nodes: list[str] | UnsetType = UNSET

    def shown(self, now: float) -> dict[str, Any]:
        """As `gpuaas ps -o json` shows it: with its age in place of its time."""
        from gpuaas.api.durations import age

        found: dict[str, Any] = {
            "namespace": self.namespace,
            "job": self.job,
            "queue": self.queue,
            "state": self.state,
            "position": self.position,
            "gpus": self.gpus,
            "age": age(self.created, now),
            "workload": self.workload,
            "clusterQueue": self.cluster_queue,
            "flavors": self.flavors,
            "priority": self.priority,
        }
        if self.nodes is not UNSET:
            found["nodes"] = self.nodes
        return found


class QueueRow(msgspec.Struct, rename="camel"):
    clusterqueue: str
    cohort: str
    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str
    waiting: int
    state: str
    borrowing_limit: str | None
    lending_limit: str | None
    admitted: int
    cards: str = ""
    """How many whole cards are used, for resources of cards."""

    def shown(self) -> dict[str, Any]:
        """As `gpuaas queues -o json` shows it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class NodeGpus(msgspec.Struct):
    """One resource of one node."""

    node: str
    total: int
    used: int | None
    free: int | None


class GpuRow(msgspec.Struct, rename="camel"):
    product: str
    resource: str
    nodes: int
    total: int
    used: int | None  # None: the pods are not to be seen
    free: int | None
    per_node: list[NodeGpus]
    cards: str = ""
    """How many whole cards the total stands for: a slice is its part of a card."""
    cards_used: str | None = None

    def shown(self) -> dict[str, Any]:
        """As `gpuaas gpus -o json` shows it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class NodeTypes(msgspec.Struct):
    """What kinds of nodes there are, whatever their number."""

    executors: list[str]
    """What runs pods on them: `process`, `simulated`; nothing on other clusters."""
    products: list[str]


class Holder(msgspec.Struct):
    namespace: str
    pod: str
    resource: str
    amount: int


class NodeRow(msgspec.Struct):
    """One node and who holds its GPUs: what the page of nodes shows."""

    node: str
    product: str
    ready: bool
    schedulable: bool
    gpus: dict[str, int]
    used: dict[str, int]
    holders: list[Holder]
