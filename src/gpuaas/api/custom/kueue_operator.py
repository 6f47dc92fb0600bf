"""The custom resource of OpenShift's Kueue operator; its configuration becomes Kueue's own."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import FreeObject, Int32, Int64, Part, Resource, Says, Time, says


class ExternalFramework(Part):
    group: Annotated[
        str,
        says(
            maxLength=253,
            minLength=1,
            rules=[("self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "")],
        ),
    ]
    resource: Annotated[
        str, says(maxLength=63, minLength=1, rules=[("self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "")])
    ]
    version: Annotated[
        str, says(maxLength=63, minLength=1, rules=[("self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "")])
    ]


class LabelKey(Part):
    key: Annotated[
        str,
        says(
            maxLength=317,
            minLength=1,
            rules=[
                (
                    "self.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([a-z0-9]([-a-z0-9]*[a-z0-9])?)$')",
                    "",
                )
            ],
        ),
    ]


class Integrations(Part):
    frameworks: Annotated[
        tuple[
            Literal[
                "BatchJob",
                "RayJob",
                "RayCluster",
                "RayService",
                "JobSet",
                "MPIJob",
                "PaddleJob",
                "PyTorchJob",
                "TFJob",
                "TrainJob",
                "XGBoostJob",
                "JaxJob",
                "AppWrapper",
                "Pod",
                "Deployment",
                "StatefulSet",
                "LeaderWorkerSet",
                "SparkApplication",
            ],
            ...,
        ],
        says(
            maxItems=18,
            minItems=1,
            list_type="set",
            rules=[("self.all(x, self.exists_one(y, x == y))", "each item in frameworks must be unique")],
        ),
    ]
    external_frameworks: Annotated[tuple[ExternalFramework, ...], says(maxItems=32, keys=["group"])] = ()
    label_keys_to_copy: Annotated[tuple[LabelKey, ...], says(maxItems=64, keys=["key"])] = ()


class ResourceWeight(Part):
    name: Annotated[
        str,
        says(
            maxLength=317,
            minLength=1,
            rules=[
                (
                    "!format.qualifiedName().validate(self).hasValue()",
                    "must be a qualified name (e.g., 'nvidia.com/gpu' or 'cpu')",
                )
            ],
        ),
    ]
    weight: Annotated[
        str,
        says(
            maxLength=32,
            minLength=1,
            rules=[
                (
                    "self.matches(r'^[+]?([0-9]*\\.?[0-9]+)([eE][+-]?[0-9]+)?$')",
                    "must be a non-negative number (e.g., '1.0', '0.5', '.5', '+0.5', '1e-3')",
                )
            ],
        ),
    ]


class CustomFairSharing(Part):
    usage_half_life_time_seconds: Annotated[Int32, says(maximum=31536000, minimum=1)]
    resource_weights: Annotated[tuple[ResourceWeight, ...], says(maxItems=16, minItems=1, keys=["name"])] = ()
    usage_sampling_interval_seconds: Annotated[Int32, says(maximum=3600, minimum=1)] | None = None


class AdmissionFairSharing(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "has(self.configuration) && self.configuration == 'Custom' ? has(self.custom) : !has(self.custom)",
                "custom is required when configuration is Custom, and forbidden otherwise",
            )
        ]
    )

    configuration: Literal["Default", "Custom"]
    custom: CustomFairSharing | None = None


class RequeuingStrategy(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.backoffBaseSeconds == 0 || self.backoffMaxSeconds == 0 || self.backoffBaseSeconds <= self.backoffMaxSeconds",
                "backoffBaseSeconds must be less than or equal to backoffMaxSeconds",
            )
        ]
    )

    backoff_base_seconds: Annotated[Int32, says(maximum=3600, minimum=30)] | None = None
    backoff_max_seconds: Annotated[Int32, says(maximum=7200, minimum=30)] | None = None
    retry_limit: Annotated[Int32, says(maximum=200, minimum=1)] | None = None
    time_reference: Literal["Eviction", "Creation"] | None = None


class ByWorkload(Part):
    admission: Literal["", "Parallel", "Sequential"]
    recovery_timeout_seconds: Annotated[Int32, says(maximum=86400, minimum=0)] | None = None
    requeuing_strategy: Annotated[RequeuingStrategy, says(minProperties=1)] | None = None
    timeout_seconds: Annotated[Int32, says(maximum=86400, minimum=30)] | None = None


class GangScheduling(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "has(self.policy) && self.policy == 'ByWorkload' ?  has(self.byWorkload) : !has(self.byWorkload)",
                "byWorkload is required when policy is byWorkload, and forbidden otherwise",
            )
        ]
    )

    policy: Literal["ByWorkload", "ByWorkloadDefaults", "None", ""]
    by_workload: ByWorkload | None = None


class MultiKueue(Part):
    external_frameworks: Annotated[tuple[ExternalFramework, ...], says(maxItems=32, minItems=1, keys=["group"])] = ()


class Preemption(Part):
    preemption_policy: Literal["", "Classical", "FairSharing"]


class WorkloadManagement(Part):
    label_policy: Literal["", "QueueName", "None"]


class KueueConfig(Part):
    integrations: Integrations
    admission_fair_sharing: AdmissionFairSharing | None = None
    gang_scheduling: GangScheduling | None = None
    multi_kueue: MultiKueue | None = None
    preemption: Preemption | None = None
    resources: FreeObject = field(default_factory=dict)
    workload_management: WorkloadManagement | None = None


class KueueSpec(Part):
    config: KueueConfig
    log_level: Annotated[Literal["", "Normal", "Debug", "Trace", "TraceAll"], says(default="Normal")] = "Normal"
    management_state: Annotated[str, says(pattern="^(Managed|Unmanaged|Force|Removed)$")] = ""
    observed_config: Annotated[dict[str, Any], says(nullable=True, preserve=True)] = field(default_factory=dict)
    operator_log_level: Annotated[Literal["", "Normal", "Debug", "Trace", "TraceAll"], says(default="Normal")] = (
        "Normal"
    )
    unsupported_config_overrides: Annotated[dict[str, Any], says(nullable=True, preserve=True)] = field(
        default_factory=dict
    )


class OperatorCondition(Part):
    last_transition_time: Time
    status: Literal["True", "False", "Unknown"]
    type: Annotated[
        str,
        says(
            maxLength=316,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    message: str = ""
    reason: str = ""


class Generation(Part):
    group: str
    name: str
    namespace: str
    resource: str
    hash: str = ""
    last_generation: Int64 | None = None


class KueueStatus(Part):
    conditions: Annotated[tuple[OperatorCondition, ...], says(keys=["type"])] = ()
    generations: Annotated[tuple[Generation, ...], says(keys=["group", "resource", "namespace", "name"])] = ()
    latest_available_revision: Annotated[Int32, says(rules=[("self >= oldSelf", "must only increase")])] | None = None
    observed_generation: Int64 | None = None
    ready_replicas: Int32 | None = None
    version: str = ""


class Kueue(Resource):
    """The one Kueue of the cluster, named cluster."""

    SCHEMA: ClassVar[Says] = says(
        rules=[("self.metadata.name == 'cluster'", "Kueue is a singleton, .metadata.name must be 'cluster'")]
    )

    spec: KueueSpec
    status: KueueStatus | None = None
