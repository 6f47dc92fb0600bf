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
    owner: str = ""
    """The user who created it; "" where that is not known."""
    nodes: list[str] | UnsetType = UNSET

    def shown(self, now: float) -> dict[str, Any]:
        """As `gpuaas ps -o json` shows it: with its age in place of its time."""
        from gpuaas.api.durations import age

        found: dict[str, Any] = {
            "namespace": self.namespace,
            "job": self.job,
            "owner": self.owner,
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
    users: dict[str, int] = {}
    """How many each user holds."""


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
    users: dict[str, int] = {}
    """How many each user holds, by name; only the caller's own for one who may not list all pods."""

    def shown(self) -> dict[str, Any]:
        """As `gpuaas gpus -o json` shows it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class QueueGpus(msgspec.Struct, rename="camel"):
    """What one LocalQueue would admit now, and nodes have free."""

    namespace: str
    queue: str
    cluster_queue: str
    free: int
    largest: int


class FreeRow(msgspec.Struct, rename="camel"):
    """The free GPUs of one product: on all nodes, and for the caller. No names of nodes, pods or other users."""

    product: str
    resource: str
    total: int
    free: int
    """On nodes that take new pods."""
    largest: int
    """The most that are free on one node: a pod that asks for more waits, however many there are in all."""
    for_you: int
    """The most that one of the caller's queues would admit now without evicting anything, of those that are free."""
    largest_for_you: int
    """The same for one pod."""
    queues: list[QueueGpus]
    """The caller's queues with the most, best first."""
    cards: str = ""
    """How many whole cards the total stands for: a slice is its part of a card."""

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
    owner: str = ""
    """The user whose pod it is; "" where that is not known."""


class NodeRow(msgspec.Struct):
    """One node and who holds its GPUs: what the page of nodes shows."""

    node: str
    product: str
    ready: bool
    schedulable: bool
    gpus: dict[str, int]
    used: dict[str, int]
    holders: list[Holder]
