"""KubeRay's clusters, jobs and services."""

from typing import Annotated, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    FreeObject,
    Int32,
    Int64,
    Part,
    PodTemplate,
    Quantity,
    Resource,
    Says,
    StringMap,
    Time,
    says,
)
from gpuaas.api.custom.embedded import (
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ResourceRequirements,
    SecurityContext,
    Service,
    VolumeMount,
)

ManagedBy = Annotated[
    str,
    says(
        rules=[
            ("self == oldSelf", "the managedBy field is immutable"),
            (
                "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']",
                "the managedBy field value must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'",
            ),
        ]
    ),
]


class HeadGroupSpec(Part):
    template: PodTemplate
    enable_ingress: bool = False
    head_service: Service | None = None
    labels: StringMap = field(default_factory=dict)
    ray_start_params: StringMap = field(default_factory=dict)
    resources: StringMap = field(default_factory=dict)
    service_type: str = ""


class AuthOptions(Part):
    enable_k8s_token_auth: bool = field(name="enableK8sTokenAuth", default=False)
    mode: Literal["disabled", "token"] | None = None
    secret_name: str = ""


class AutoscalerOptions(Part):
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    idle_timeout_seconds: Int32 | None = None
    image: str = ""
    image_pull_policy: str = ""
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] | None = None
    version: Literal["v1", "v2"] | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()


class RedisCredential(Part):
    value: str = ""
    value_from: EnvVarSource | None = None


class GcsStorage(Part):
    access_modes: tuple[str, ...] = ()
    claim_name: str = ""
    deletion_policy: Literal["DeleteWithCluster", "Retain"] | None = None
    size: Quantity | None = None
    storage_class_name: str = ""
    sub_path: str = ""


class GcsFaultTolerance(Part):
    backend: Literal["redis", "rocksdb"] | None = None
    redis_address: str = ""
    storage: GcsStorage | None = None
    external_storage_namespace: str = ""
    redis_password: RedisCredential | None = None
    redis_username: RedisCredential | None = None


class UpgradeStrategy(Part):
    type: Literal["Recreate", "None"] | None = None


class ScaleStrategy(Part):
    workers_to_delete: tuple[str, ...] = ()


class WorkerGroupSpec(Part):
    group_name: str
    max_replicas: Annotated[Int32, says(default=2147483647)]
    min_replicas: Annotated[Int32, says(default=0)]
    template: PodTemplate
    idle_timeout_seconds: Int32 | None = None
    labels: StringMap = field(default_factory=dict)
    num_of_hosts: Annotated[Int32, says(default=1)] = 1
    ray_start_params: StringMap = field(default_factory=dict)
    replicas: Annotated[Int32, says(default=0)] = 0
    resources: StringMap = field(default_factory=dict)
    scale_strategy: ScaleStrategy | None = None
    suspend: bool = False


class RayClusterSpec(Part):
    head_group_spec: HeadGroupSpec
    auth_options: AuthOptions | None = None
    autoscaler_options: AutoscalerOptions | None = None
    enable_in_tree_autoscaling: bool = False
    gcs_fault_tolerance_options: GcsFaultTolerance | None = None
    head_service_annotations: StringMap = field(default_factory=dict)
    history_server_options: FreeObject = field(default_factory=dict)
    managed_by: ManagedBy = ""
    network_policy: FreeObject = field(default_factory=dict)
    ray_version: str = ""
    suspend: bool = False
    tls_options: FreeObject = field(default_factory=dict)
    upgrade_strategy: UpgradeStrategy | None = None
    worker_group_specs: tuple[WorkerGroupSpec, ...] = ()


class HeadInfo(Part):
    pod_ip: str = field(name="podIP", default="")
    pod_name: str = ""
    service_ip: str = field(name="serviceIP", default="")
    service_name: str = ""


class RayClusterStatus(Part):
    available_worker_replicas: Int32 | None = None
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    desired_cpu: Quantity | None = field(name="desiredCPU", default=None)
    desired_gpu: Quantity | None = field(name="desiredGPU", default=None)
    desired_memory: Quantity | None = None
    desired_tpu: Quantity | None = field(name="desiredTPU", default=None)
    desired_worker_replicas: Int32 | None = None
    endpoints: StringMap = field(default_factory=dict)
    head: HeadInfo | None = None
    last_update_time: Annotated[Time, says(nullable=True)] = ""
    max_worker_replicas: Int32 | None = None
    min_worker_replicas: Int32 | None = None
    observed_generation: Int64 | None = None
    ready_worker_replicas: Int32 | None = None
    reason: str = ""
    state: str = ""
    state_transition_times: dict[str, Time] = field(default_factory=dict)


class RayCluster(Resource):
    """A Ray head with groups of workers."""

    spec: RayClusterSpec | None = None
    status: RayClusterStatus | None = None


class DeletionRuleCondition(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
                "JobStatus and JobDeploymentStatus cannot be used together within the same deletion condition.",
            ),
            (
                "has(self.jobStatus) || has(self.jobDeploymentStatus)",
                "the deletion condition requires either the JobStatus or the JobDeploymentStatus field.",
            ),
        ]
    )

    job_deployment_status: Literal["Failed"] | None = None
    job_status: Literal["SUCCEEDED", "FAILED"] | None = None
    ttl_seconds: Annotated[Int32, says(default=0, minimum=0)] = 0


class DeletionRule(Part):
    condition: DeletionRuleCondition
    policy: Literal["DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone"]


class DeletionPolicy(Part):
    policy: Literal["DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone"] | None = None


class DeletionStrategy(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
                "legacy policies (onSuccess/onFailure) and deletionRules cannot be used together within the same deletionStrategy",
            ),
            (
                "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
                "deletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field (cannot be empty)",
            ),
        ]
    )

    deletion_rules: Annotated[tuple[DeletionRule, ...], says(minItems=1, list_type="atomic")] = ()
    on_failure: DeletionPolicy | None = None
    on_success: DeletionPolicy | None = None


class SubmitterConfig(Part):
    backoff_limit: Int32 | None = None


class RayJobSpec(Part):
    active_deadline_seconds: Int32 | None = None
    backoff_limit: Annotated[Int32, says(default=0)] = 0
    cluster_selector: StringMap = field(default_factory=dict)
    deletion_strategy: DeletionStrategy | None = None
    entrypoint: str = ""
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_resources: str = ""
    job_id: str = ""
    managed_by: ManagedBy = ""
    metadata: StringMap = field(default_factory=dict)
    pre_running_deadline_seconds: Annotated[Int32, says(minimum=1)] | None = None
    ray_cluster_spec: RayClusterSpec | None = None
    runtime_env_yaml: str = field(name="runtimeEnvYAML", default="")
    shutdown_after_job_finishes: bool = False
    submission_mode: Annotated[str, says(default="K8sJobMode")] = "K8sJobMode"
    submitter_config: SubmitterConfig | None = None
    submitter_pod_template: PodTemplate | None = None
    suspend: bool = False
    ttl_seconds_after_finished: Annotated[Int32, says(default=0)] = 0


class RayJobInfo(Part):
    end_time: Time = ""
    start_time: Time = ""


class RayJobStatus(Part):
    dashboard_url: str = field(name="dashboardURL", default="")
    end_time: Time = ""
    failed: Annotated[Int32, says(default=0)] = 0
    job_deployment_status: str = ""
    job_id: str = ""
    job_status: str = ""
    message: str = ""
    observed_generation: Int64 | None = None
    ray_cluster_name: str = ""
    ray_cluster_status: RayClusterStatus | None = None
    ray_job_info: RayJobInfo | None = None
    reason: str = ""
    start_time: Time = ""
    succeeded: Annotated[Int32, says(default=0)] = 0


class RayJob(Resource):
    """One job on a Ray cluster made for it."""

    spec: RayJobSpec | None = None
    status: RayJobStatus | None = None


class ClusterUpgradeOption(Part):
    gateway_class_name: str
    interval_seconds: Int32
    step_size_percent: Int32
    max_surge_percent: Annotated[Int32, says(default=100)] = 100


class ServiceUpgradeStrategy(Part):
    cluster_upgrade_options: ClusterUpgradeOption | None = None
    type: str = ""


class RayServiceSpec(Part):
    ray_cluster_config: RayClusterSpec
    deployment_unhealthy_second_threshold: Int32 | None = None
    exclude_head_pod_from_serve_svc: bool = False
    managed_by: ManagedBy = ""
    ray_cluster_deletion_delay_seconds: Annotated[Int32, says(minimum=0)] | None = None
    serve_config_v2: str = ""
    serve_service: Service | None = None
    service_unhealthy_second_threshold: Int32 | None = None
    upgrade_strategy: ServiceUpgradeStrategy | None = None


class ServeDeploymentStatus(Part):
    message: str = ""
    status: str = ""


class ApplicationStatus(Part):
    message: str = ""
    serve_deployment_statuses: dict[str, ServeDeploymentStatus] = field(default_factory=dict)
    status: str = ""


class ActiveServiceStatus(Part):
    application_statuses: dict[str, ApplicationStatus] = field(default_factory=dict)
    last_traffic_migrated_time: Time = ""
    ray_cluster_name: str = ""
    ray_cluster_status: RayClusterStatus | None = None
    target_capacity: Int32 | None = None
    traffic_routed_percent: Int32 | None = None


class RayServiceStatus(Part):
    active_service_status: ActiveServiceStatus | None = None
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    last_update_time: Time = ""
    num_serve_endpoints: Int32 | None = None
    observed_generation: Int64 | None = None
    pending_service_status: ActiveServiceStatus | None = None
    service_status: str = ""


class RayService(Resource):
    """A served Ray application, upgraded without a gap."""

    spec: RayServiceSpec | None = None
    status: RayServiceStatus | None = None
