"""Clusters of a fleet: Open Cluster Management's cluster and placement kinds, and the cluster inventory's profile.

The placement decisions themselves are made elsewhere; this is what people write and what they read back.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    FreeObject,
    Int32,
    Int64,
    IntOrString,
    LabelSelector,
    Part,
    Quantity,
    Resource,
    Says,
    Time,
    says,
)


class ManagedClusterClientConfig(Part):
    url: str
    ca_bundle: Annotated[str, says(format="byte")] = ""


class ClusterTaint(Part):
    effect: Literal["NoSelect", "PreferNoSelect", "NoSelectIfNew"]
    key: Annotated[
        str,
        says(
            maxLength=316,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    time_added: Annotated[Time, says(nullable=True)] = ""
    value: Annotated[str, says(maxLength=1024)] = ""


class ManagedClusterSpec(Part):
    hub_accepts_client: bool = False
    lease_duration_seconds: Annotated[Int32, says(default=60)] = 60
    managed_cluster_client_configs: tuple[ManagedClusterClientConfig, ...] = ()
    taints: tuple[ClusterTaint, ...] = ()


class ClusterClaim(Part):
    name: Annotated[str, says(maxLength=253, minLength=1)] = ""
    value: Annotated[str, says(maxLength=1024, minLength=1)] = ""


class KubernetesVersion(Part):
    kubernetes: str = ""


class ManagedClusterStatus(Part):
    allocatable: dict[str, Quantity] = field(default_factory=dict)
    capacity: dict[str, Quantity] = field(default_factory=dict)
    cluster_claims: tuple[ClusterClaim, ...] = ()
    conditions: tuple[Condition, ...] = ()
    version: KubernetesVersion | None = None


class ManagedCluster(Resource):
    """A cluster the hub manages."""

    spec: ManagedClusterSpec | None = None
    status: ManagedClusterStatus | None = None


class ClusterSelector(Part):
    selector_type: Annotated[
        Literal["ExclusiveClusterSetLabel", "LabelSelector"], says(default="ExclusiveClusterSetLabel")
    ]
    label_selector: LabelSelector | None = None


class ManagedClusterSetSpec(Part):
    cluster_selector: Annotated[ClusterSelector, says(default={"selectorType": "ExclusiveClusterSetLabel"})] | None = (
        None
    )


class ConditionsOnly(Part):
    conditions: tuple[Condition, ...] = ()


class ManagedClusterSet(Resource):
    """A group of clusters that can be bound to namespaces."""

    spec: (
        Annotated[
            ManagedClusterSetSpec, says(default={"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}})
        ]
        | None
    ) = None
    status: ConditionsOnly | None = None


class ManagedClusterSetBindingSpec(Part):
    cluster_set: Annotated[str, says(minLength=1)] = ""


class ManagedClusterSetBinding(Resource):
    """Lets placements of this namespace choose from a cluster set."""

    spec: ManagedClusterSetBindingSpec | None = None
    status: ConditionsOnly | None = None


class ClaimRequirement(Part):
    key: str
    operator: str
    values: Annotated[tuple[str, ...], says(list_type="atomic")] = ()


class ClaimSelector(Part):
    match_expressions: tuple[ClaimRequirement, ...] = ()


class GroupClusterSelector(Part):
    claim_selector: ClaimSelector | None = None
    label_selector: LabelSelector | None = None


class DecisionGroup(Part):
    group_cluster_selector: GroupClusterSelector
    group_name: Annotated[str, says(pattern="^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$")]


class GroupStrategy(Part):
    clusters_per_decision_group: (
        Annotated[IntOrString, says(default="100%", pattern="^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$")] | None
    ) = None
    decision_groups: tuple[DecisionGroup, ...] = ()


class DecisionStrategy(Part):
    group_strategy: GroupStrategy | None = None


class CelSelector(Part):
    cel_expressions: tuple[str, ...] = ()


class RequiredClusterSelector(Part):
    cel_selector: CelSelector | None = None
    claim_selector: ClaimSelector | None = None
    label_selector: LabelSelector | None = None


class Predicate(Part):
    required_cluster_selector: RequiredClusterSelector | None = None


class AddOnScore(Part):
    resource_name: str
    score_name: str


class ScoreCoordinate(Part):
    type: Annotated[Literal["BuiltIn", "AddOn"], says(default="BuiltIn")]
    add_on: AddOnScore | None = None
    built_in: str = ""


class PrioritizerConfig(Part):
    score_coordinate: ScoreCoordinate
    weight: Annotated[Int32, says(default=1, maximum=10, minimum=-10)] = 1


class PrioritizerPolicy(Part):
    configurations: tuple[PrioritizerConfig, ...] = ()
    mode: Annotated[str, says(default="Additive")] = "Additive"


class SpreadConstraint(Part):
    topology_key: Annotated[
        str,
        says(
            maxLength=316,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        ),
    ]
    topology_key_type: Literal["Label", "Claim"]
    max_skew: Annotated[Int32, says(default=1, minimum=1)] = 1
    when_unsatisfiable: Annotated[Literal["DoNotSchedule", "ScheduleAnyway"], says(default="ScheduleAnyway")] = (
        "ScheduleAnyway"
    )


class SpreadPolicy(Part):
    spread_constraints: Annotated[tuple[SpreadConstraint, ...], says(maxItems=8)] = ()


class ClusterToleration(Part):
    effect: Literal["NoSelect", "PreferNoSelect", "NoSelectIfNew"] | None = None
    key: Annotated[
        str,
        says(
            maxLength=316,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ] = ""
    operator: Annotated[str, says(default="Equal")] = "Equal"
    toleration_seconds: Int64 | None = None
    value: Annotated[str, says(maxLength=1024)] = ""


class PlacementSpec(Part):
    cluster_sets: tuple[str, ...] = ()
    decision_strategy: DecisionStrategy | None = None
    number_of_clusters: Int32 | None = None
    predicates: tuple[Predicate, ...] = ()
    prioritizer_policy: PrioritizerPolicy | None = None
    spread_policy: SpreadPolicy | None = None
    tolerations: tuple[ClusterToleration, ...] = ()


class DecisionGroupStatus(Part):
    cluster_count: Annotated[Int32, says(default=0)] = 0
    decision_group_index: Int32 | None = None
    decision_group_name: str = ""
    decisions: tuple[str, ...] = ()


class PlacementStatus(Part):
    conditions: tuple[Condition, ...] = ()
    decision_groups: tuple[DecisionGroupStatus, ...] = ()
    number_of_selected_clusters: Int32 | None = None


class Placement(Resource):
    """Which clusters, how many, and by what preference."""

    spec: PlacementSpec
    status: PlacementStatus | None = None


class Decision(Part):
    cluster_name: str
    reason: str


class PlacementDecisionStatus(Part):
    decisions: tuple[Decision, ...]


class PlacementDecision(Resource):
    """The clusters a placement has chosen."""

    status: PlacementDecisionStatus | None = None


class AddOnScoreItem(Part):
    name: str
    value: Annotated[Int32, says(maximum=100, minimum=-100)]


class AddOnPlacementScoreStatus(Part):
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    scores: Annotated[tuple[AddOnScoreItem, ...], says(keys=["name"])] = ()
    valid_until: Time = ""


class AddOnPlacementScore(Resource):
    """Scores an add-on gives a cluster, for placements to weigh."""

    status: AddOnPlacementScoreStatus | None = None


class ClusterManager(Part):
    SCHEMA: ClassVar[Says] = says(rules=[("self == oldSelf", "ClusterManager is immutable")])

    name: str


class ClusterProfileSpec(Part):
    cluster_manager: ClusterManager
    display_name: str = ""


class Extension(Part):
    extension: FreeObject
    name: str


class ClusterAccess(Part):
    server: str
    certificate_authority: str = field(name="certificate-authority", default="")
    certificate_authority_data: Annotated[str, says(format="byte")] = field(
        name="certificate-authority-data", default=""
    )
    disable_compression: bool = field(name="disable-compression", default=False)
    extensions: tuple[Extension, ...] = ()
    insecure_skip_tls_verify: bool = field(name="insecure-skip-tls-verify", default=False)
    proxy_url: str = field(name="proxy-url", default="")
    tls_server_name: str = field(name="tls-server-name", default="")


class AccessProvider(Part):
    name: str
    cluster: ClusterAccess | None = None


class ClusterProperty(Part):
    name: Annotated[str, says(maxLength=253, minLength=1)]
    value: Annotated[str, says(maxLength=1024, minLength=1)]
    last_observed_time: Time = ""


class ClusterProfileStatus(Part):
    access_providers: Annotated[tuple[AccessProvider, ...], says(keys=["name"])] = ()
    conditions: Annotated[tuple[Condition, ...], says(keys=["type"])] = ()
    credential_providers: Annotated[tuple[AccessProvider, ...], says(keys=["name"])] = ()
    properties: Annotated[tuple[ClusterProperty, ...], says(keys=["name"])] = ()
    version: KubernetesVersion | None = None


class ClusterProfile(Resource):
    """What is known of a cluster in an inventory."""

    spec: ClusterProfileSpec
    status: ClusterProfileStatus | None = None
