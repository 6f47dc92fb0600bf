"""Groups of pods and jobs that start together: JobSet, LeaderWorkerSet, AppWrapper."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    Int32,
    Int64,
    IntOrString,
    Part,
    PodTemplate,
    Resource,
    Says,
    StringMap,
    Toleration,
    says,
)
from gpuaas.api.custom.embedded import JobTemplateSpec, PersistentVolumeClaim


class Coordinator(Part):
    replicated_job: str
    job_index: int | None = None
    pod_index: int | None = None


class FailurePolicyRule(Part):
    action: Literal[
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ]
    name: str
    on_job_failure_message_patterns: tuple[str, ...] = ()
    on_job_failure_reasons: tuple[str, ...] = ()
    target_replicated_jobs: Annotated[tuple[str, ...], says(list_type="atomic")] = ()


class FailurePolicy(Part):
    SCHEMA: ClassVar[Says] = says(rules=[("self == oldSelf", "Value is immutable")])

    max_restarts: Int32 | None = None
    restart_strategy: Annotated[Literal["Recreate", "BlockingRecreate", "InPlaceRestart"], says(default="Recreate")] = (
        "Recreate"
    )
    rules: tuple[FailurePolicyRule, ...] = ()


class Network(Part):
    SCHEMA: ClassVar[Says] = says(rules=[("self == oldSelf", "Value is immutable")])

    enable_dns_hostnames: bool = field(name="enableDNSHostnames", default=False)
    publish_not_ready_addresses: bool = False
    subdomain: str = ""


class DependsOn(Part):
    name: str
    status: Literal["Ready", "Complete"]


class ReplicatedJob(Part):
    name: str
    template: JobTemplateSpec
    depends_on: Annotated[
        tuple[DependsOn, ...], says(maxItems=5, keys=["name"], rules=[("self == oldSelf", "Value is immutable")])
    ] = ()
    group_name: Annotated[str, says(default="default")] = "default"
    replicas: Annotated[Int32, says(default=1)] = 1


class StartupPolicy(Part):
    SCHEMA: ClassVar[Says] = says(rules=[("self == oldSelf", "Value is immutable")])

    startup_policy_order: Literal["AnyOrder", "InOrder"]


class SuccessPolicy(Part):
    SCHEMA: ClassVar[Says] = says(rules=[("self == oldSelf", "Value is immutable")])

    operator: Literal["All", "Any"]
    target_replicated_jobs: Annotated[tuple[str, ...], says(list_type="atomic")] = ()


class RetentionPolicy(Part):
    when_deleted: Annotated[Literal["Delete", "Retain"], says(default="Delete")] = "Delete"


class VolumeClaimPolicy(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
                "namespace cannot be set for VolumeClaimPolicies templates",
            )
        ]
    )

    retention_policy: RetentionPolicy | None = None
    templates: Annotated[tuple[PersistentVolumeClaim, ...], says(maxItems=50, list_type="atomic")] = ()


class JobSetSpec(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && self.replicatedJobs.exists(x, has(x.dependsOn)))",
                "StartupPolicy and DependsOn APIs are mutually exclusive",
            )
        ]
    )

    coordinator: Coordinator | None = None
    failure_policy: FailurePolicy | None = None
    managed_by: str = ""
    network: Network | None = None
    replicated_jobs: Annotated[tuple[ReplicatedJob, ...], says(keys=["name"])] = ()
    startup_policy: StartupPolicy | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool = False
    ttl_seconds_after_finished: Annotated[Int32, says(minimum=0)] | None = None
    volume_claim_policies: Annotated[
        tuple[VolumeClaimPolicy, ...],
        says(maxItems=50, list_type="atomic", rules=[("self == oldSelf", "Value is immutable")]),
    ] = ()


class ReplicatedJobsStatus(Part):
    active: Int32
    failed: Int32
    name: str
    ready: Int32
    succeeded: Int32
    suspended: Int32
    job_restarts: Annotated[tuple[Int32, ...], says(maxItems=1024, list_type="atomic")] = ()
    job_restarts_count_towards_max: Annotated[tuple[Int32, ...], says(maxItems=1024, list_type="atomic")] = ()


class JobSetStatus(Part):
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    current_in_place_restart_attempt: Annotated[Int32, says(minimum=0)] | None = None
    previous_in_place_restart_attempt: Annotated[Int32, says(minimum=0)] | None = None
    replicated_jobs_status: Annotated[tuple[ReplicatedJobsStatus, ...], says(keys=["name"])] = ()
    restarts: Int32 | None = None
    restarts_count_towards_max: Int32 | None = None
    terminal_state: str = ""


class JobSet(Resource):
    """Jobs that belong together and succeed or fail as one."""

    spec: JobSetSpec | None = None
    status: JobSetStatus | None = None


class PersistentVolumeClaimRetentionPolicy(Part):
    when_deleted: str = ""
    when_scaled: str = ""


class SubGroupPolicy(Part):
    sub_group_policy_type: Annotated[Literal["LeaderWorker", "LeaderExcluded"], says(default="LeaderWorker")] = (
        "LeaderWorker"
    )
    sub_group_size: Int32 | None = None


class LeaderWorkerTemplate(Part):
    worker_template: PodTemplate
    leader_template: PodTemplate | None = None
    persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy | None = None
    restart_policy: Annotated[
        Literal["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"],
        says(default="RecreateGroupOnPodRestart"),
    ] = "RecreateGroupOnPodRestart"
    size: Annotated[Int32, says(default=1)] = 1
    sub_group_policy: SubGroupPolicy | None = None
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class NetworkConfig(Part):
    subdomain_policy: Literal["Shared", "UniquePerReplica"]


class RollingUpdateConfiguration(Part):
    max_surge: Annotated[IntOrString, says(default=0)] | None = None
    max_unavailable: Annotated[IntOrString, says(default=1)] | None = None
    partition: Annotated[Int32, says(default=0)] = 0


class RolloutStrategy(Part):
    type: Annotated[Literal["RollingUpdate"], says(default="RollingUpdate")]
    rolling_update_configuration: RollingUpdateConfiguration | None = None


class LeaderWorkerSetSpec(Part):
    leader_worker_template: LeaderWorkerTemplate
    network_config: NetworkConfig | None = None
    replicas: Annotated[Int32, says(default=1)] = 1
    rollout_strategy: RolloutStrategy | None = None
    startup_policy: Annotated[Literal["LeaderCreated", "LeaderReady"], says(default="LeaderCreated")] = "LeaderCreated"


class LeaderWorkerSetStatus(Part):
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    hpa_pod_selector: str = ""
    observed_generation: Int64 | None = None
    ready_replicas: Int32 | None = None
    replicas: Int32 | None = None
    updated_replicas: Int32 | None = None


class LeaderWorkerSet(Resource):
    """Replicas that are each a leader with its workers."""

    spec: LeaderWorkerSetSpec | None = None
    status: LeaderWorkerSetStatus | None = None


class SchedulingGate(Part):
    name: str


class PodSetInfo(Part):
    annotations: StringMap = field(default_factory=dict)
    labels: StringMap = field(default_factory=dict)
    node_selector: StringMap = field(default_factory=dict)
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class PodSet(Part):
    path: str
    annotations: StringMap = field(default_factory=dict)
    replicas: Int32 | None = None


class WrappedComponent(Part):
    template: Annotated[dict[str, Any], says(**{"x-kubernetes-embedded-resource": True}, preserve=True)]
    annotations: StringMap = field(default_factory=dict)
    pod_set_infos: tuple[PodSetInfo, ...] = ()
    pod_sets: tuple[PodSet, ...] = ()


class AppWrapperSpec(Part):
    components: tuple[WrappedComponent, ...]
    managed_by: str = ""
    suspend: bool = False


class ComponentStatus(Part):
    api_version: str
    kind: str
    name: str
    pod_sets: tuple[PodSet, ...]
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()


class AppWrapperStatus(Part):
    component_status: tuple[ComponentStatus, ...] = ()
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    phase: str = ""
    resetting_count: Int32 | None = None


class AppWrapper(Resource):
    """Any objects, queued and run as one unit."""

    spec: AppWrapperSpec | None = None
    status: AppWrapperStatus | None = None
