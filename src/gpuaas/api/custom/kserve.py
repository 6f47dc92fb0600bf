"""KServe's inference services and serving runtimes.

A predictor, transformer or explainer embeds a whole pod, and its model a whole container, as upstream has it. Kept as
given: the frameworks `model` has replaced, and the router and scaling of an LLMInferenceService.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import FreeObject, Int32, Int64, Part, PodSpec, Resource, Says, StringMap, Time, Toleration, says
from gpuaas.api.custom.embedded import (
    Affinity,
    Container,
    EnvVar,
    LocalObjectReference,
    PodResourceClaim,
    Volume,
)

# -- runtimes ---------------------------------------------------------------------------------------------------------


class BuiltInAdapter(Part):
    env: tuple[EnvVar, ...] = ()
    mem_buffer_bytes: int | None = None
    model_loading_timeout_millis: int | None = None
    runtime_management_port: int | None = None
    server_type: str = ""


class StorageHelper(Part):
    disabled: bool = False


class SupportedModelFormat(Part):
    name: str
    auto_select: bool = False
    priority: Annotated[Int32, says(minimum=1)] | None = None
    version: str = ""


class RuntimePod(Part):
    """The part of a pod a runtime may shape."""

    containers: tuple[Container, ...]
    affinity: Affinity | None = None
    annotations: StringMap = field(default_factory=dict)
    host_ipc: bool = field(name="hostIPC", default=False)
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    labels: StringMap = field(default_factory=dict)
    node_selector: StringMap = field(default_factory=dict)
    resource_claims: Annotated[tuple[PodResourceClaim, ...], says(keys=["name"])] = ()
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()


class RuntimeWorkers(RuntimePod):
    pipeline_parallel_size: int | None = None
    tensor_parallel_size: int | None = None


class ServingRuntimeSpec(RuntimePod):
    built_in_adapter: BuiltInAdapter | None = None
    disabled: bool = False
    grpc_data_endpoint: str = ""
    grpc_endpoint: str = ""
    http_data_endpoint: str = ""
    multi_model: bool = False
    protocol_versions: tuple[str, ...] = ()
    replicas: int | None = None
    storage_helper: StorageHelper | None = None
    supported_model_formats: tuple[SupportedModelFormat, ...] = ()
    worker_spec: RuntimeWorkers | None = None


class ServingRuntime(Resource):
    """How models of some formats are served, in one namespace."""

    spec: ServingRuntimeSpec | None = None
    status: dict[str, Any] = field(default_factory=dict)


class ClusterServingRuntime(Resource):
    """How models of some formats are served, everywhere."""

    spec: ServingRuntimeSpec | None = None
    status: dict[str, Any] = field(default_factory=dict)


# -- InferenceService -------------------------------------------------------------------------------------------------


class StorageSpec(Part):
    key: str = ""
    parameters: StringMap = field(default_factory=dict)
    path: str = ""
    service_account_name: str = ""


class Batcher(Part):
    max_batch_size: int | None = None
    max_latency: int | None = None
    timeout: int | None = None


class Logger(Part):
    batch_interval: str = ""
    batch_size: int | None = None
    marshaller_url: str = ""
    metadata_annotations: tuple[str, ...] = ()
    metadata_headers: tuple[str, ...] = ()
    mode: Literal["all", "request", "response"] | None = None
    storage: StorageSpec | None = None
    url: str = ""


class StorageUri(Part):
    uri: Annotated[str, says(minLength=1)]
    mount_path: Annotated[str, says(default="/mnt/models", maxLength=255, pattern="^/.*")] = "/mnt/models"


class ComponentPod(Part):
    """A pod, and how many of it there are."""

    EMBEDS: ClassVar[str] = "api.core.v1.PodSpec"

    annotations: StringMap = field(default_factory=dict)
    auto_scaling: FreeObject = field(default_factory=dict)
    batcher: Batcher | None = None
    canary_traffic_percent: Int64 | None = None
    container_concurrency: Int64 | None = None
    deployment_strategy: FreeObject = field(default_factory=dict)
    labels: StringMap = field(default_factory=dict)
    logger: Logger | None = None
    max_replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = None
    scale_metric_type: Literal["Utilization", "Value", "AverageValue"] | None = None
    scale_target: Int32 | None = None
    storage_uris: Annotated[tuple[StorageUri, ...], says(minItems=1, list_type="atomic")] = ()
    timeout: Int64 | None = None


class Framework(Part):
    """A container that serves models of one framework, the older way; its other fields are kept as given."""

    SCHEMA: ClassVar[Says] = says(preserve=True)

    protocol_version: str = ""
    runtime_version: str = ""
    storage: StorageSpec | None = None
    storage_uri: str = ""


class ModelFormat(Part):
    name: str
    version: str = ""


class Model(Part):
    """A container that serves a model, by the runtime that knows its format."""

    EMBEDS: ClassVar[str] = "api.core.v1.Container"

    model_format: ModelFormat
    protocol_version: str = ""
    runtime: str = ""
    runtime_version: str = ""
    storage: StorageSpec | None = None
    storage_uri: str = ""


class WorkerPod(Part):
    EMBEDS: ClassVar[str] = "api.core.v1.PodSpec"

    pipeline_parallel_size: int | None = None
    tensor_parallel_size: int | None = None


class Predictor(ComponentPod):
    name: Annotated[str, says(pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")] = ""
    model: Model | None = None
    huggingface: Framework | None = None
    lightgbm: Framework | None = None
    onnx: Framework | None = None
    paddle: Framework | None = None
    pmml: Framework | None = None
    pytorch: Framework | None = None
    sklearn: Framework | None = None
    tensorflow: Framework | None = None
    triton: Framework | None = None
    xgboost: Framework | None = None
    storage_container_name: str = ""
    worker_spec: WorkerPod | None = None


class Explainer(ComponentPod):
    art: FreeObject = field(default_factory=dict)


class Canary(Part):
    predictor: FreeObject  # a second predictor in full would make the definition half as large again
    traffic_percent: Annotated[Int32, says(maximum=100, minimum=0)]


class InferenceServiceSpec(Part):
    predictor: Predictor
    canary: Annotated[tuple[Canary, ...], says(list_type="atomic")] = ()
    explainer: Explainer | None = None
    transformer: ComponentPod | None = None


class Address(Part):
    ca_certs: str = field(name="CACerts", default="")
    audience: str = ""
    name: str = ""
    url: str = ""


class ServingCondition(Part):
    status: str
    type: str
    last_transition_time: str = ""
    message: str = ""
    reason: str = ""
    severity: str = ""


class Traffic(Part):
    configuration_name: str = ""
    latest_revision: bool = False
    percent: Int64 | None = None
    revision_name: str = ""
    tag: str = ""
    url: str = ""


class ComponentStatus(Part):
    address: Address | None = None
    grpc_url: str = ""
    latest_created_revision: str = ""
    latest_ready_revision: str = ""
    latest_rolledout_revision: str = ""
    previous_rolledout_revision: str = ""
    rest_url: str = ""
    traffic: tuple[Traffic, ...] = ()
    url: str = ""


class ModelCopies(Part):
    failed_copies: Annotated[int, says(default=0)]
    total_copies: int | None = None


class ModelFailure(Part):
    exit_code: Int32 | None = None
    location: str = ""
    message: str = ""
    model_revision_name: str = ""
    reason: (
        Literal[
            "ModelLoadFailed",
            "RuntimeUnhealthy",
            "RuntimeDisabled",
            "NoSupportingRuntime",
            "RuntimeNotRecognized",
            "InvalidPredictorSpec",
        ]
        | None
    ) = None
    time: Time = ""


ModelState = Literal["", "Pending", "Standby", "Loading", "Loaded", "FailedToLoad"]


class ModelStates(Part):
    active_model_state: Annotated[ModelState, says(default="Pending")]
    target_model_state: Annotated[ModelState, says(default="")] = ""


class ModelStatus(Part):
    transition_status: Annotated[
        Literal["", "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec"], says(default="UpToDate")
    ]
    copies: ModelCopies | None = None
    last_failure_info: ModelFailure | None = None
    states: ModelStates | None = None


class InferenceServiceStatus(Part):
    SCHEMA: ClassVar[Says] = says(preserve=True)

    address: Address | None = None
    annotations: StringMap = field(default_factory=dict)
    cluster_serving_runtime_name: str = ""
    components: dict[str, ComponentStatus] = field(default_factory=dict)
    conditions: tuple[ServingCondition, ...] = ()
    deployment_mode: str = ""
    model_status: ModelStatus | None = None
    observed_generation: Int64 | None = None
    serving_runtime_name: str = ""
    url: str = ""


class InferenceService(Resource):
    """A model behind an address."""

    spec: InferenceServiceSpec | None = None
    status: InferenceServiceStatus | None = None


# -- LLMInferenceService ----------------------------------------------------------------------------------------------


class LLMModel(Part):
    uri: str
    criticality: Literal["Critical", "Standard", "Sheddable"] | None = None
    lora: FreeObject = field(default_factory=dict)
    name: str = ""


class Parallelism(Part):
    data: Annotated[Int32, says(minimum=1)] | None = None
    data_local: Annotated[Int32, says(minimum=1)] | None = None
    data_rpc_port: Annotated[Int32, says(maximum=65535, minimum=1)] | None = field(name="dataRPCPort", default=None)
    expert: bool = False
    pipeline: Annotated[Int32, says(minimum=1)] | None = None
    tensor: Annotated[Int32, says(minimum=1)] | None = None


class LLMPods(Part):
    annotations: StringMap = field(default_factory=dict)
    labels: StringMap = field(default_factory=dict)
    parallelism: Parallelism | None = None
    replicas: Annotated[Int32, says(minimum=0)] | None = None
    scaling: FreeObject = field(default_factory=dict)
    template: PodSpec | None = None
    worker: PodSpec | None = None


class LLMInferenceServiceSpec(LLMPods):
    base_refs: tuple[LocalObjectReference, ...] = ()
    model: LLMModel | None = None
    prefill: LLMPods | None = None
    rollout_strategy: FreeObject = field(default_factory=dict)
    router: FreeObject = field(default_factory=dict)
    storage_initializer: FreeObject = field(default_factory=dict)
    tracing: FreeObject = field(default_factory=dict)


class LLMInferenceServiceStatus(Part):
    SCHEMA: ClassVar[Says] = says(preserve=True)

    address: Address | None = None
    addresses: tuple[Address, ...] = ()
    annotations: StringMap = field(default_factory=dict)
    conditions: tuple[ServingCondition, ...] = ()
    observed_generation: Int64 | None = None
    url: str = ""


class LLMInferenceService(Resource):
    """A large language model behind a gateway, spread over one or many pods."""

    spec: LLMInferenceServiceSpec | None = None
    status: LLMInferenceServiceStatus | None = None
