"""Kueue's Configuration as values, one part for each reader.

`Configuration()` is upstream's default. A file becomes one in `configuration_file`, OpenShift's Kueue object in
`configuration_operator`. `Configured` is the one in force now: subscribers are called when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuaas.base.selectors import LabelSelector
from gpuaas.engine.config import Config
from gpuaas.engine.supervise import ReadyRules
from gpuaas.kueue.dra.rules import DeviceRules
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.metric_labels import CustomLabels
from gpuaas.kueue.multikueue.rules import MultiKueueRules
from gpuaas.kueue.resources import ReadRules, ResourceRules


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    cluster_queue_resources: bool = False
    """Tell quotas and usage of every queue, flavor and resource: many series."""
    local_queues: bool = True
    local_queue_selector: LabelSelector | None = None
    """Which LocalQueues get metrics; None: all."""
    custom: CustomLabels = field(default_factory=CustomLabels)
    """Labels of objects beside the metrics' own."""

    def tells(self, labels: Mapping[str, str]) -> bool:
        if not self.local_queues:
            return False
        return self.local_queue_selector is None or self.local_queue_selector.matches(labels)


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What is done about nodes that fail under workloads with places on them."""

    replaces: bool = True
    """Look for other places at all."""
    fail_fast: bool = True
    """Evict where there are none, rather than wait for some."""
    on_pod_termination: bool = True
    """A node that is not ready or tainted counts as failed once its pods are gone; otherwise at once, or after a while."""
    on_taints: bool = True
    over_time: bool = False
    """A node that has not been ready for long counts as failed whatever its pods do."""
    keeps_single_pods: bool = True
    """A workload of a single pod keeps its place: the pod cannot move."""
    frees_pods: bool = False
    """Pods that allow it are force-deleted if they cannot end on an unreachable node."""


@dataclass(frozen=True, slots=True)
class ReasonRules:
    """How detailed the reason of a workload that is not admitted is."""

    granular: bool = False
    explicit: bool = False
    """Also before anybody has looked at it."""


@dataclass(frozen=True, slots=True)
class Configuration:
    jobs: JobsConfig = field(default_factory=JobsConfig)
    engine: Config = field(default_factory=Config)
    ready: ReadyRules | None = field(default_factory=ReadyRules)
    """waitForPodsReady; None: no workload waits."""
    requeue_by_creation: bool = False
    """A workload whose pods were not ready in time queues from its creation again, not from its eviction."""
    resources: ResourceRules = field(default_factory=ResourceRules)
    finished_kept: float | None = None
    """Seconds after which a finished workload is deleted; None: never."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    nodes: NodeRules = field(default_factory=NodeRules)
    counts: ReadRules = field(default_factory=ReadRules)
    reasons: ReasonRules = field(default_factory=ReasonRules)
    devices: DeviceRules = field(default_factory=DeviceRules)
    multikueue: MultiKueueRules = field(default_factory=MultiKueueRules)


class Configured:
    """The configuration in force."""

    def __init__(self, now: Configuration | None = None) -> None:
        self.now = now or Configuration()
        self.started_with = self.now
        """What holds while no object of the cluster says otherwise."""
        self._subscribers: list[Callable[[Configuration, Configuration], None]] = []

    def subscribe(self, changed: Callable[[Configuration, Configuration], None]) -> None:
        """Calls `changed(before, now)` after each change."""
        self._subscribers.append(changed)

    def become(self, configuration: Configuration) -> None:
        before = self.now
        if configuration == before:
            return
        self.now = configuration
        for changed in self._subscribers:
            changed(before, configuration)
