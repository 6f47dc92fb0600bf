"""Kubeflow's notebooks and the training operator's jobs.

The jobs differ in the name of their replica map and little else; the maps are keyed by role (Master, Worker, Launcher …).
"""

from typing import Annotated, Literal

from msgspec import field

from gpuaas.api.crds import Int32, Int64, LabelSelector, Part, PodSpec, PodTemplate, Quantity, Resource, Time, says
from gpuaas.api.custom.embedded import ContainerState, MetricSpec


class NotebookTemplate(Part):
    spec: PodSpec | None = None


class NotebookSpec(Part):
    template: NotebookTemplate | None = None


class NotebookCondition(Part):
    status: str
    type: str
    last_probe_time: Time = ""
    last_transition_time: Time = ""
    message: str = ""
    reason: str = ""


class NotebookStatus(Part):
    conditions: tuple[NotebookCondition, ...]
    container_state: ContainerState
    ready_replicas: Int32


class Notebook(Resource):
    """A notebook server of one user."""

    spec: NotebookSpec | None = None
    status: NotebookStatus | None = None


class ReplicaSpec(Part):
    replicas: Int32 | None = None
    restart_policy: str = ""
    template: PodTemplate | None = None


class RendezvousOption(Part):
    key: str = ""
    value: str = ""


class ElasticPolicy(Part):
    max_replicas: Int32 | None = None
    max_restarts: Int32 | None = None
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: Int32 | None = None
    n_proc_per_node: Int32 | None = None
    rdzv_backend: str = ""
    rdzv_conf: tuple[RendezvousOption, ...] = ()
    rdzv_host: str = ""
    rdzv_id: str = ""
    rdzv_port: Int32 | None = None
    standalone: bool = False


class SchedulingPolicy(Part):
    min_available: Int32 | None = None
    min_resources: dict[str, Quantity] = field(default_factory=dict)
    priority_class: str = ""
    queue: Annotated[str, says(rules=[("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")])] = ""
    schedule_timeout_seconds: Int32 | None = None


class RunPolicy(Part):
    active_deadline_seconds: Int64 | None = None
    backoff_limit: Int32 | None = None
    clean_pod_policy: str = ""
    managed_by: str = ""
    scheduling_policy: SchedulingPolicy | None = None
    suspend: Annotated[bool, says(default=False)] = False
    ttl_seconds_after_finished: Int32 | None = None


class PyTorchJobSpec(Part):
    pytorch_replica_specs: dict[str, ReplicaSpec]
    elastic_policy: ElasticPolicy | None = None
    nproc_per_node: str = ""
    run_policy: RunPolicy | None = None


class JobCondition(Part):
    status: str
    type: str
    last_transition_time: Time = ""
    last_update_time: Time = ""
    message: str = ""
    reason: str = ""


class ReplicaStatus(Part):
    active: Int32 | None = None
    failed: Int32 | None = None
    label_selector: LabelSelector | None = None
    selector: str = ""
    succeeded: Int32 | None = None


class JobStatus(Part):
    completion_time: Time = ""
    conditions: tuple[JobCondition, ...] = ()
    last_reconcile_time: Time = ""
    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    start_time: Time = ""


class PyTorchJob(Resource):
    """A distributed PyTorch training."""

    spec: PyTorchJobSpec | None = None
    status: JobStatus | None = None


class TFJobSpec(Part):
    tf_replica_specs: dict[str, ReplicaSpec]
    enable_dynamic_worker: bool = False
    run_policy: RunPolicy | None = None
    success_policy: str = ""


class TFJob(Resource):
    """A distributed TensorFlow training."""

    spec: TFJobSpec | None = None
    status: JobStatus | None = None


class XGBoostJobSpec(Part):
    xgb_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None


class XGBoostJob(Resource):
    """A distributed XGBoost training."""

    spec: XGBoostJobSpec | None = None
    status: JobStatus | None = None


class ReplicaRange(Part):
    max_replicas: Int32 | None = None
    max_restarts: Int32 | None = None
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: Int32 | None = None


class PaddleJobSpec(Part):
    paddle_replica_specs: dict[str, ReplicaSpec]
    elastic_policy: ReplicaRange | None = None
    run_policy: RunPolicy | None = None


class PaddleJob(Resource):
    """A distributed PaddlePaddle training."""

    spec: PaddleJobSpec | None = None
    status: JobStatus | None = None


class JAXJobSpec(Part):
    jax_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None


class JAXJob(Resource):
    """A distributed JAX training."""

    spec: JAXJobSpec | None = None
    status: JobStatus | None = None


class MPISchedulingPolicy(Part):
    min_available: Int32 | None = None
    min_resources: dict[str, Quantity] = field(default_factory=dict)
    priority_class: str = ""
    queue: str = ""
    schedule_timeout_seconds: Int32 | None = None


class MPIRunPolicy(Part):
    active_deadline_seconds: Int64 | None = None
    backoff_limit: Int32 | None = None
    clean_pod_policy: str = ""
    managed_by: str = ""
    scheduling_policy: MPISchedulingPolicy | None = None
    suspend: Annotated[bool, says(default=False)] = False
    ttl_seconds_after_finished: Int32 | None = None


class MPIJobSpec(Part):
    mpi_replica_specs: dict[str, ReplicaSpec]
    launcher_creation_policy: Annotated[str, says(default="AtStartup")] = "AtStartup"
    mpi_implementation: Annotated[Literal["OpenMPI", "Intel", "MPICH"], says(default="OpenMPI")] = "OpenMPI"
    run_launcher_as_worker: Annotated[bool, says(default=False)] = False
    run_policy: MPIRunPolicy | None = None
    slots_per_worker: Annotated[Int32, says(default=1)] = 1
    ssh_auth_mount_path: Annotated[str, says(default="/root/.ssh")] = "/root/.ssh"


class MPIJobCondition(Part):
    status: Literal["True", "False", "Unknown"]
    type: str
    last_transition_time: Time = ""
    last_update_time: Time = ""
    message: str = ""
    reason: str = ""


class MPIJobStatus(Part):
    completion_time: Time = ""
    conditions: Annotated[tuple[MPIJobCondition, ...], says(keys=["type"])] = ()
    last_reconcile_time: Time = ""
    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    start_time: Time = ""


class MPIJob(Resource):
    """A launcher and its workers, started with MPI."""

    spec: MPIJobSpec | None = None
    status: MPIJobStatus | None = None
