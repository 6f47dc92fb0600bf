"""config.kueue.x-k8s.io Configuration: what people put into Kueue's config map, as a view with Kueue's defaults.

One view reads v1beta1 and v1beta2: fields one of them lacks are optional, fields neither acts on are ignored. Durations
are Go's (`5m0s`); they stay strings here.
"""

from typing import Annotated, Any, Literal

from msgspec import field

from gpuaas.api.crds import Int32, LabelSelector, Part, Quantity, says

GROUP = "config.kueue.x-k8s.io"

ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


class RequeuingStrategy(Part):
    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_limit_count: Annotated[Int32, says("Absent: no limit.")] | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Part):
    enable: Annotated[bool, says("v1beta1 only; in v1beta2 the presence of this part says it.")] = True
    timeout: str = "30m"
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    recovery_timeout: Annotated[str, says("Absent: as long as the timeout.")] | None = None


class IncrementalDispatcher(Part):
    step_size: Int32 = 3


class ExternalFramework(Part):
    name: str


class MultiKueue(Part):
    gc_interval: str = "1m"
    origin: str = "multikueue"
    worker_lost_timeout: str = "15m"
    dispatcher_name: str = ALL_AT_ONCE
    external_frameworks: tuple[ExternalFramework, ...] = ()
    incremental_dispatcher_config: IncrementalDispatcher = IncrementalDispatcher()


class FairSharing(Part):
    enable: Annotated[bool, says("v1beta1 only; in v1beta2 the presence of this part says it.")] = True
    preemption_strategies: tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...] = ()


class AdmissionFairSharing(Part):
    usage_half_life_time: str = "0s"
    usage_sampling_interval: str = "5m"
    resource_weights: dict[str, float] = field(default_factory=dict)


class ResourceTransformation(Part):
    input: str
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: dict[str, Quantity] = field(default_factory=dict)


class DeviceClassMapping(Part):
    name: str
    device_class_names: tuple[str, ...]
    sources: tuple[dict[str, Any], ...] = ()


class Resources(Part):
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class Integrations(Part):
    frameworks: tuple[str, ...] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


class WorkloadRetention(Part):
    after_finished: str | None = None
    after_deactivated_by_kueue: str | None = None


class RetentionPolicies(Part):
    workloads: WorkloadRetention | None = None


class CustomLabel(Part):
    name: str
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Literal["Cohort", "LocalQueue", "ClusterQueue", "Workload"] = "ClusterQueue"
    tracked_values: tuple[str, ...] = ()


class LocalQueueMetrics(Part):
    enable: bool = True
    local_queue_selector: LabelSelector | None = None


class Metrics(Part):
    bind_address: str = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[CustomLabel, ...] = ()
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics()


class Configuration(Part):
    """Settings of the admission engine."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "Configuration"
    namespace: str = "kueue-system"
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations = Integrations()
    multi_kueue: MultiKueue = MultiKueue()
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Resources()
    feature_gates: dict[str, bool] = field(default_factory=dict)
    object_retention_policies: RetentionPolicies | None = None
    metrics: Metrics = Metrics()
