"""What can happen to the engine's world. A value (a queue, a flavor, a workload, ...) given as it is means "it is so
now"; the changes here say what values cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuaas.engine.topology_values import Node, Topology
from gpuaas.engine.values import ClusterQueue, Cohort, Flavor, LocalQueue, Millis, Namespace, PodSetAdmission, Workload

Kind = Literal["Flavor", "Cohort", "ClusterQueue", "LocalQueue", "Namespace", "Topology", "Node"]


@dataclass(frozen=True, slots=True)
class Gone:
    """The object of this kind and name exists no more."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """The workload holds quota: found so at the start, or another admitted it."""

    workload: Workload
    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    at: Millis
    evicted: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that holds quota may run: whatever it had to wait for is ready."""

    key: str
    at: Millis


@dataclass(frozen=True, slots=True)
class Evicted:
    """A running workload was evicted; it keeps its quota until it is `Released`."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """A workload gave up its quota and waits again; `workload` if its own words changed too."""

    key: str
    workload: Workload | None = None


@dataclass(frozen=True, slots=True)
class PodsReady:
    """Whether all pods of an admitted workload are ready; matters where admission waits for that."""

    key: str
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """The workload finished, was deactivated or deleted: it neither waits nor holds quota."""

    key: str
    wakes: bool = True
    """Whether what was found inadmissible is looked at again now."""


@dataclass(frozen=True, slots=True)
class OtherUsage:
    """What pods that are not placed through a topology take of a node now, their number as `pods`."""

    node: str
    amounts: tuple[tuple[str, int], ...]
    wakes: bool = False
    """Whether what found no place is looked at again now."""


Value = Flavor | Cohort | ClusterQueue | LocalQueue | Namespace | Topology | Node | Workload
Change = Value | Gone | Reserved | Admitted | Evicted | Released | Finished | PodsReady | OtherUsage
