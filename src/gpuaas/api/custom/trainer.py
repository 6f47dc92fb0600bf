"""Kubeflow Trainer's jobs and the runtimes they refer to.

A runtime is a job set with policies; a job may patch a few fields of the runtime it uses (the `…Patch` parts).
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    FreeObject,
    Int32,
    Int64,
    Part,
    Resource,
    Says,
    StringMap,
    Time,
    Toleration,
    says,
)
from gpuaas.api.custom.embedded import (
    Affinity,
    EnvVar,
    LocalObjectReference,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
    Volume,
    VolumeMount,
)
from gpuaas.api.custom.sets import JobSetSpec

IMMUTABLE = ("self == oldSelf", "field is immutable")


class RuntimeRef(Part):
    SCHEMA: ClassVar[Says] = says(rules=[IMMUTABLE])

    name: Annotated[str, says(maxLength=253, minLength=1)]
    api_group: Annotated[str, says(default="trainer.kubeflow.org", maxLength=253)] = "trainer.kubeflow.org"
    kind: Annotated[str, says(default="ClusterTrainingRuntime", maxLength=253)] = "ClusterTrainingRuntime"


class Dataset(Part):
    env: Annotated[tuple[EnvVar, ...], says(maxItems=128, keys=["name"])] = ()
    secret_ref: LocalObjectReference | None = None
    storage_uri: Annotated[str, says(maxLength=2048)] = ""


class Initializer(Part):
    SCHEMA: ClassVar[Says] = says(rules=[IMMUTABLE])

    dataset: Dataset | None = None
    model: Dataset | None = None


class Metadata(Part):
    annotations: StringMap = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    labels: StringMap = field(default_factory=dict)
    name: str = ""
    namespace: str = ""


class ContainerPatch(Part):
    name: Annotated[str, says(maxLength=253, minLength=1)]
    env: Annotated[tuple[EnvVar, ...], says(maxItems=128, keys=["name"])] = ()
    security_context: SecurityContext | None = None
    volume_mounts: Annotated[tuple[VolumeMount, ...], says(maxItems=128, keys=["name"])] = ()


class SchedulingGate(Part):
    name: str


class PodSpecPatch(Part):
    affinity: Affinity | None = None
    containers: Annotated[tuple[ContainerPatch, ...], says(maxItems=64, keys=["name"], rules=[IMMUTABLE])] = ()
    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...],
        says(maxItems=64, keys=["name"], rules=[IMMUTABLE]),
    ] = ()
    init_containers: Annotated[tuple[ContainerPatch, ...], says(maxItems=64, keys=["name"], rules=[IMMUTABLE])] = ()
    node_selector: StringMap = field(default_factory=dict)
    scheduling_gates: Annotated[tuple[SchedulingGate, ...], says(maxItems=16, keys=["name"])] = ()
    security_context: Annotated[PodSecurityContext, says(rules=[IMMUTABLE])] | None = None
    service_account_name: Annotated[str, says(maxLength=253, rules=[IMMUTABLE])] = ""
    tolerations: Annotated[tuple[Toleration, ...], says(maxItems=128, list_type="atomic")] = ()
    volumes: Annotated[tuple[Volume, ...], says(maxItems=128, keys=["name"], rules=[IMMUTABLE])] = ()


class PodTemplatePatch(Part):
    metadata: Metadata | None = None
    spec: PodSpecPatch | None = None


class JobSpecPatch(Part):
    template: PodTemplatePatch | None = None


class JobTemplatePatch(Part):
    metadata: Metadata | None = None
    spec: JobSpecPatch | None = None


class ReplicatedJobPatch(Part):
    name: Annotated[str, says(maxLength=253, minLength=1)]
    template: JobTemplatePatch | None = None


class JobSetSpecPatch(Part):
    replicated_jobs: Annotated[tuple[ReplicatedJobPatch, ...], says(maxItems=100, keys=["name"])] = ()


class JobSetTemplatePatch(Part):
    metadata: Metadata | None = None
    spec: JobSetSpecPatch | None = None


class RuntimeSpecPatch(Part):
    template: JobSetTemplatePatch | None = None


class RuntimePatch(Part):
    manager: Annotated[str, says(maxLength=253, minLength=1, rules=[IMMUTABLE])]
    time: Time = ""
    training_runtime_spec: RuntimeSpecPatch | None = None


class Trainer(Part):
    SCHEMA: ClassVar[Says] = says(rules=[IMMUTABLE])

    args: Annotated[tuple[Annotated[str, says(maxLength=65536)], ...], says(maxItems=128, list_type="atomic")] = ()
    command: Annotated[tuple[Annotated[str, says(maxLength=65536)], ...], says(maxItems=128, list_type="atomic")] = ()
    env: Annotated[tuple[EnvVar, ...], says(maxItems=128, keys=["name"])] = ()
    image: Annotated[str, says(maxLength=500)] = ""
    num_nodes: Int32 | None = None
    num_proc_per_node: Int32 | None = None
    resources_per_node: ResourceRequirements | None = None


class TrainJobSpec(Part):
    runtime_ref: RuntimeRef
    active_deadline_seconds: Annotated[Int64, says(minimum=1, rules=[IMMUTABLE])] | None = None
    initializer: Initializer | None = None
    managed_by: Annotated[
        str,
        says(
            default="trainer.kubeflow.org/trainjob-controller",
            maxLength=253,
            rules=[
                (
                    "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']",
                    "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set",
                ),
                IMMUTABLE,
            ],
        ),
    ] = "trainer.kubeflow.org/trainjob-controller"
    runtime_patches: Annotated[tuple[RuntimePatch, ...], says(maxItems=16, keys=["manager"])] = ()
    suspend: Annotated[bool, says(default=False)] = False
    trainer: Trainer | None = None


class TrainJobPartStatus(Part):
    active: Annotated[Int32, says(minimum=0)]
    failed: Annotated[Int32, says(minimum=0)]
    name: Annotated[str, says(maxLength=253, minLength=1)]
    ready: Annotated[Int32, says(minimum=0)]
    succeeded: Annotated[Int32, says(minimum=0)]
    suspended: Annotated[Int32, says(minimum=0)]


class Metric(Part):
    name: Annotated[str, says(maxLength=64, minLength=1)]
    value: Annotated[str, says(maxLength=64, minLength=1)]


class TrainerStatus(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")]
    )

    estimated_remaining_seconds: Annotated[Int32, says(minimum=0)] | None = None
    last_updated_time: Time = ""
    metrics: Annotated[tuple[Metric, ...], says(maxItems=256, list_type="atomic")] = ()
    progress_percentage: Annotated[Int32, says(maximum=100, minimum=0)] | None = None


class TrainJobStatus(Part):
    conditions: Annotated[tuple[Condition, ...], says(maxItems=8, keys=["type"])] = ()
    jobs_status: Annotated[tuple[TrainJobPartStatus, ...], says(maxItems=100, keys=["name"])] = ()
    trainer_status: TrainerStatus | None = None


class TrainJob(Resource):
    """A training, run by a runtime."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name must match RFC 1035 DNS label format",
            ),
            ("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
        ]
    )

    spec: TrainJobSpec | None = None
    status: Annotated[TrainJobStatus, says(minProperties=1)] | None = None


class FluxPolicy(Part):
    num_proc_per_node: Annotated[
        Int32, says(default=1, rules=[("self >= 1", "NumProcPerNode in fluxPolicy must be >= 1")])
    ] = 1


class MpiPolicy(Part):
    mpi_implementation: Annotated[Literal["OpenMPI", ""], says(default="OpenMPI")] = "OpenMPI"
    num_proc_per_node: Annotated[Int32, says(default=1)] = 1
    run_launcher_as_node: Annotated[bool, says(default=False)] = False
    ssh_auth_mount_path: Annotated[str, says(default="/root/.ssh", maxLength=4096)] = "/root/.ssh"


class MLPolicy(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost),has(self.flux)].filter(x, x).size() <= 1",
                "Only one of the policy can be configured",
            )
        ]
    )

    flux: FluxPolicy | None = None
    jax: dict[str, Any] = field(default_factory=dict)
    mpi: MpiPolicy | None = None
    num_nodes: Int32 | None = None
    torch: FreeObject = field(default_factory=dict)
    xgboost: dict[str, Any] = field(default_factory=dict)


class Coscheduling(Part):
    schedule_timeout_seconds: Annotated[Int32, says(default=60)] = 60


class NetworkTopology(Part):
    highest_tier_allowed: Annotated[int, says(default=1)] = 1
    mode: Annotated[Literal["hard", "soft"], says(default="hard")] = "hard"


class Volcano(Part):
    network_topology: NetworkTopology | None = None


class PodGroupPolicy(Part):
    coscheduling: Coscheduling | None = None
    volcano: Volcano | None = None


class JobSetTemplate(Part):
    metadata: Metadata | None = None
    spec: JobSetSpec | None = None


class RuntimeSpec(Part):
    ml_policy: MLPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: Annotated[JobSetTemplate, says(minProperties=1)] | None = None


class TrainingRuntime(Resource):
    """How trainings of one framework run, for one namespace."""

    spec: Annotated[RuntimeSpec, says(minProperties=1)] | None = None


class ClusterTrainingRuntime(Resource):
    """How trainings of one framework run, for everybody."""

    spec: Annotated[RuntimeSpec, says(minProperties=1)] | None = None
