"""Inputs of the engine: flavors, quotas, queues, pod sets and workloads, as immutable values.

Nothing here knows an API object: `gpuaas.kueue` makes these from Kubernetes objects. Amounts are ints (see
`amounts`), times are ints in milliseconds, and every value can be shared between many workloads: equal pod sets
should be one object, since the engine groups pending workloads by them. Topology's own values are in
`topology_values`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from gpuaas.engine.constraints import Taint, Term, Toleration
from gpuaas.engine.topology_values import TopologyRequest

Millis = int
Key = str
"""`namespace/name` of a workload."""

LQKey = str
"""`namespace/name` of a LocalQueue."""


class Preemption(Enum):
    """Whom a queue's policy lets its workloads preempt."""

    UNSET = ""
    """The empty policy, not defaulted: preempts no workload, but differs from `NEVER` where upstream compares with it."""
    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER_EQUAL = "LowerOrNewerEqualPriority"
    ANY = "Any"


class StopPolicy(Enum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


@dataclass(frozen=True, slots=True)
class Flavor:
    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: int
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    flavor: str
    quotas: tuple[tuple[str, Quota], ...]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class Cohort:
    name: str
    parent: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fungibility:
    """Whether the flavor scan goes on after a flavor that would do by borrowing, or by preempting."""

    borrow_stops: bool = True
    preempt_stops: bool = False
    preempt_before_borrow: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    within_queue: Preemption = Preemption.NEVER
    reclaim: Preemption = Preemption.NEVER
    borrow_within_cohort: bool = False
    borrow_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """An admission check a queue asks for; no flavors means all of them."""

    name: str
    on_flavors: frozenset[str] = frozenset()
    controller: str = ""
    active: bool = True


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str | None = None
    strict: bool = False
    namespaces: Term | None = ()
    """Requirements on the labels of a namespace; None selects no namespace at all."""
    fungibility: Fungibility = Fungibility()
    preemption: PreemptionPolicy = PreemptionPolicy()
    checks: tuple[Check, ...] = ()
    stop: StopPolicy = StopPolicy.NONE
    weight: float = 1.0
    usage_based: bool = False
    """Admission fair sharing: the LocalQueue that used less goes first."""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    namespace: str
    name: str
    cluster_queue: str
    stop: StopPolicy = StopPolicy.NONE
    weight: float = 1.0

    @property
    def key(self) -> LQKey:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PodSet:
    """Pods of one shape. `requests` is what one pod takes of each resource, sorted by resource."""

    name: str
    count: int
    requests: tuple[tuple[str, int], ...] = ()
    min_count: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    topology: TopologyRequest | None = None
    placement: tuple[tuple[str, int], ...] | None = None
    """What one pod takes of a node, where that differs from what it takes of the quota."""
    preferred: tuple[tuple[int, Term], ...] = ()
    """Nodes its pods would rather be on, with how much that counts."""
    apart: str = ""
    """What makes pods that ask for the same another shape all the same."""
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._identity()))

    def _identity(self) -> tuple[object, ...]:
        return (
            self.name, self.count, self.requests, self.min_count, self.tolerations, self.node_selector,
            self.affinity, self.topology, self.placement, self.preferred, self.apart,
        )  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PodSet):
            return NotImplemented
        return self._hash == other._hash and self._identity() == other._identity()


CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]


@dataclass(frozen=True, slots=True)
class Workload:
    namespace: str
    name: str
    uid: str
    queue: str
    created: Millis
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    ordered_at: Millis | None = None
    """When it queued, where that is not its creation (evicted by a check or by the readiness timeout)."""
    requeue_at: Millis | None = None
    parked: bool = False
    """Its `Requeued` condition is False: it waits, whatever `requeue_at` says."""
    failed_checks: bool = False
    """Some admission check says Retry or Rejected."""
    job_uid: str = ""
    problem: str = ""
    """Why no queue can take it as it is (a request above its limit, outside a LimitRange): upstream's words."""
    replaces: Key = ""
    """The slice of the same job that it takes over from; see `slices`."""

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}"

    @property
    def queue_key(self) -> LQKey:
        return f"{self.namespace}/{self.queue}"


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """What one pod set was given: a flavor and a total for each resource, how many pods, and where."""

    name: str
    flavors: tuple[tuple[str, str], ...]
    usage: tuple[tuple[str, int], ...]
    count: int
    domains: tuple[tuple[tuple[str, ...], int], ...] | None = None
    """Topology: (values of the recorded levels, pods) pairs."""
    delayed: bool = False
    """The topology is to be chosen once the admission checks are ready."""
