"""Kueue's small cluster-wide objects in v1beta2: priority classes, admission checks, MultiKueue, topologies."""

from typing import Annotated, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import Int32, Part, Resource, Says, says
from gpuaas.api.kueue.quotas import IMMUTABLE, LABEL, LABEL_KEY, SUBDOMAIN, Conditions

UNIQUE = ("size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0", "must be unique")


class WorkloadPriorityClass(Resource):
    """A name for a priority in the queue, apart from the priority of pods."""

    value: Annotated[Int32, says("The higher, the sooner.")]
    description: Annotated[str, says("When to use this class.", maxLength=2048)] = ""


# -- AdmissionCheck ---------------------------------------------------------------------------------------------------


class CheckParameters(Part):
    api_group: Annotated[str, says(minLength=1, maxLength=253, pattern=SUBDOMAIN)]
    kind: Annotated[str, says(minLength=1, maxLength=63, pattern="^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")]
    name: Annotated[str, says(minLength=1, maxLength=63, pattern=LABEL)]


class AdmissionCheckSpec(Part):
    controller_name: Annotated[
        str, says("The controller that answers this check.", minLength=1, maxLength=253, rules=[IMMUTABLE])
    ]
    parameters: CheckParameters | None = None


class ConditionsOnly(Part):
    conditions: Conditions = ()


class AdmissionCheck(Resource):
    """Something outside the quota that must say yes before a workload starts."""

    spec: AdmissionCheckSpec | None = None
    status: ConditionsOnly = ConditionsOnly()


# -- MultiKueue -------------------------------------------------------------------------------------------------------


class MultiKueueConfigSpec(Part):
    clusters: Annotated[
        tuple[Annotated[str, says(maxLength=256)], ...],
        says("The clusters to try, in order.", minItems=1, maxItems=20, list_type="atomic", rules=[UNIQUE]),
    ]
    quota_management: Literal["Manual", "Automated"] | None = None


class MultiKueueConfig(Resource):
    """The clusters an admission check may send work to."""

    spec: MultiKueueConfigSpec | None = None


class KubeConfig(Part):
    location: Annotated[str, says("Name of the secret, or path of the file.", minLength=1, maxLength=256)]
    location_type: Annotated[Literal["Secret", "Path"], says(default="Secret")] = "Secret"


class ClusterProfileReference(Part):
    name: Annotated[str, says(minLength=1, maxLength=256)]


class ClusterSource(Part):
    """How to reach the cluster."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "[has(self.kubeConfig),has(self.clusterProfileRef)].filter(x,x==true).size() == 1",
                "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
            )
        ]
    )

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Part):
    cluster_source: ClusterSource


class MultiKueueCluster(Resource):
    """A worker cluster that work can be sent to."""

    spec: MultiKueueClusterSpec | None = None
    status: ConditionsOnly = ConditionsOnly()


# -- Topology ---------------------------------------------------------------------------------------------------------


class TopologyLevel(Part):
    node_label: Annotated[str, says(minLength=1, maxLength=316, pattern=LABEL_KEY)]


class TopologySpec(Part):
    levels: Annotated[
        tuple[TopologyLevel, ...],
        says(
            "From the widest level to the narrowest.",
            minItems=1,
            maxItems=16,
            list_type="atomic",
            rules=[
                IMMUTABLE,
                UNIQUE,
                (
                    "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || self[size(self) - 1].nodeLabel"
                    " == 'kubernetes.io/hostname'",
                    "the kubernetes.io/hostname label can only be used at the lowest level of topology",
                ),
            ],
        ),
    ]


class Topology(Resource):
    """How nodes are near to each other: block, rack, host."""

    spec: TopologySpec | None = None


# -- ProvisioningRequestConfig ----------------------------------------------------------------------------------------


class RetryStrategy(Part):
    backoff_limit_count: Annotated[Int32, says(default=3)] = 3
    backoff_base_seconds: Annotated[Int32, says(default=60)] = 60
    backoff_max_seconds: Annotated[Int32, says(default=1800)] = 1800


class NodeSelectorUpdate(Part):
    key: Annotated[str, says(minLength=1, maxLength=317, pattern=LABEL_KEY)]
    value_from_provisioning_class_detail: Annotated[str, says(minLength=1, maxLength=32768)]


class PodSetUpdates(Part):
    node_selector: Annotated[tuple[NodeSelectorUpdate, ...], says(keys=["key"], maxItems=8)] = ()


class ProvisioningRequestConfigSpec(Part):
    provisioning_class_name: Annotated[str, says(minLength=1, maxLength=253, pattern=SUBDOMAIN)]
    parameters: Annotated[dict[str, Annotated[str, says(maxLength=255)]], says(maxProperties=100)] = field(
        default_factory=dict
    )
    managed_resources: Annotated[tuple[str, ...], says(maxItems=100, list_type="set")] = ()
    retry_strategy: (
        Annotated[
            RetryStrategy, says(default={"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800})
        ]
        | None
    ) = None
    pod_set_updates: PodSetUpdates | None = None
    pod_set_merge_policy: Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None = None


class ProvisioningRequestConfig(Resource):
    """How a provisioning request is made for a workload that waits for nodes."""

    spec: ProvisioningRequestConfigSpec | None = None
