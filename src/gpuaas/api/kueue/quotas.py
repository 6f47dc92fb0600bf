"""Kueue's quota objects in their storage version v1beta2: flavors, cluster queues, cohorts, local queues.

The types say what the CRD schema says (limits, defaults, CEL rules with their texts); what only Kueue's webhooks
refuse is in `validation`. How v1beta1 differs is in `older`.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Part,
    Quantity,
    Resource,
    Says,
    StringMap,
    Time,
    Toleration,
    builtin,
    says,
)

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)

EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
EFFECTS_MESSAGE = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
TOLERATION_RULES = (
    (
        "self.all(x, !has(x.key) ? x.operator == 'Exists' : true)",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    (
        "self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    (
        "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    (
        "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    (f"self.all(x, !has(x.effect) || x.effect in {EFFECTS})", EFFECTS_MESSAGE),
)
IMMUTABLE = ("self == oldSelf", "field is immutable")

Subdomain = Annotated[str, says(maxLength=253, pattern=SUBDOMAIN)]
StopPolicy = Annotated[Literal["None", "Hold", "HoldAndDrain"], says(default="None")]
Conditions = Annotated[tuple[Condition, ...], says(keys=["type"], maxItems=16)]


class FairSharing(Part):
    """How much this member counts when unused quota is shared out."""

    weight: Annotated[Quantity, says("Relative weight; 0 borrows only what no other queue wants.", default=1)] = 1


class WeightedShare(Part):
    weighted_share: Annotated[Int64, says("The dominant share of borrowed quota, divided by the weight.")]


# -- ResourceFlavor ---------------------------------------------------------------------------------------------------


class ResourceFlavorSpec(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(self.topologyName) || self.nodeLabels.size() >= 1",
                "at least one nodeLabel is required when topology is set",
            ),
            (
                "!has(oldSelf.topologyName) || (has(self.nodeLabels) == has(oldSelf.nodeLabels) && (!has(self.nodeLabels)"
                " || self.nodeLabels == oldSelf.nodeLabels))",
                "nodeLabels are immutable when topologyName is set",
            ),
            (
                "!has(oldSelf.topologyName) || (has(self.tolerations) == has(oldSelf.tolerations) &&"
                " (!has(self.tolerations) || self.tolerations == oldSelf.tolerations))",
                "tolerations are immutable when topologyName is set",
            ),
            (
                "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
                "topologyName is immutable when topologyName is set",
            ),
        ]
    )

    node_labels: Annotated[
        StringMap, says("Labels of the nodes this flavor stands for.", maxProperties=8, map_type="atomic")
    ] = field(default_factory=dict)
    node_taints: Annotated[
        tuple[Annotated[dict[str, Any], builtin("api.core.v1.Taint")], ...],
        says(
            "Taints of those nodes; only workloads that tolerate them may use the flavor.",
            maxItems=8,
            list_type="atomic",
            rules=[(f"self.all(x, x.effect in {EFFECTS})", EFFECTS_MESSAGE)],
        ),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...],
        says("Added to the pods that get this flavor.", maxItems=8, list_type="atomic", rules=TOLERATION_RULES),
    ] = ()
    topology_name: Annotated[Subdomain, says("The Topology the nodes form.")] | None = None


class ResourceFlavor(Resource):
    """A kind of hardware that quota can be given in."""

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


# -- quota: shared by ClusterQueue and Cohort -------------------------------------------------------------------------


class ResourceQuota(Part):
    name: Annotated[str, says("The resource, cpu or nvidia.com/gpu for example.")]
    nominal_quota: Annotated[Quantity, says("What may be used without borrowing.")]
    borrowing_limit: Annotated[Quantity, says("The most that may be borrowed; absent: no limit.")] | None = None
    lending_limit: Annotated[Quantity, says("The most that others may borrow; absent: all of it.")] | None = None


class FlavorQuotas(Part):
    name: Subdomain
    resources: Annotated[
        tuple[ResourceQuota, ...],
        says("One entry for each covered resource, in the same order.", keys=["name"], minItems=1, maxItems=64),
    ]


class ResourceGroup(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
                "flavors must have the same number of resources as the coveredResources",
            )
        ]
    )

    covered_resources: Annotated[
        tuple[str, ...], says("The resources this group has quota for.", minItems=1, maxItems=64, list_type="atomic")
    ]
    flavors: Annotated[
        tuple[FlavorQuotas, ...],
        says("The flavors to try, in order.", keys=["name"], minItems=1, maxItems=64),
    ]


ResourceGroups = Annotated[
    tuple[ResourceGroup, ...],
    says("Quota by resource and flavor. A resource or flavor is in one group only.", maxItems=16, list_type="atomic"),
]

# -- ClusterQueue -----------------------------------------------------------------------------------------------------


class BorrowWithinCohort(Part):
    policy: Annotated[Literal["Never", "LowerPriority"], says(default="Never")] = "Never"
    max_priority_threshold: Int32 | None = None


class Preemption(Part):
    """Whom a pending workload may preempt."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
                " self.borrowWithinCohort.policy != 'Never')",
                "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            )
        ]
    )

    reclaim_within_cohort: Annotated[Literal["Never", "LowerPriority", "Any"], says(default="Never")] = "Never"
    borrow_within_cohort: Annotated[BorrowWithinCohort, says(default={})] | None = None
    within_cluster_queue: Annotated[
        Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"], says(default="Never")
    ] = "Never"


class FlavorFungibility(Part):
    """When to go on to the next flavor instead of borrowing or preempting in this one."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt =="
                " 'TryNextFlavor')",
                "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            )
        ]
    )

    when_can_borrow: Annotated[Literal["MayStopSearch", "TryNextFlavor"], says(default="MayStopSearch")] = (
        "MayStopSearch"
    )
    when_can_preempt: Annotated[Literal["MayStopSearch", "TryNextFlavor"], says(default="TryNextFlavor")] = (
        "TryNextFlavor"
    )
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class AdmissionCheckStrategyRule(Part):
    name: Annotated[str, says(minLength=1, maxLength=316)]
    on_flavors: Annotated[
        tuple[Subdomain, ...], says("The flavors the check is for; none: all.", list_type="set", maxItems=64)
    ] = ()


class AdmissionChecksStrategy(Part):
    admission_checks: Annotated[tuple[AdmissionCheckStrategyRule, ...], says(keys=["name"], minItems=1, maxItems=64)]


class AdmissionScope(Part):
    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]


class MigrationConstraints(Part):
    last_acceptable_flavor_name: Subdomain | None = None


class Migration(Part):
    mode: Annotated[Literal["TryPreferredFlavors", "RetainFirstAdmission"], says(maxLength=253)]
    constraints: MigrationConstraints | None = None


class ConcurrentAdmissionPolicy(Part):
    migration: Migration


class ClusterQueueSpec(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f,"
                " f.resources.all(r, !has(r.borrowingLimit)))) : true",
                "borrowingLimit must be nil when cohort is empty",
            )
        ]
    )

    resource_groups: ResourceGroups = ()
    cohort_name: Annotated[Subdomain, says("The cohort to borrow from and lend to.")] = ""
    queueing_strategy: Annotated[Literal["StrictFIFO", "BestEffortFIFO"], says(default="BestEffortFIFO")] = (
        "BestEffortFIFO"
    )
    namespace_selector: Annotated[LabelSelector, Says({})] | None = None
    flavor_fungibility: Annotated[FlavorFungibility, says(default={})] | None = None
    preemption: Annotated[Preemption, says(default={})] | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ResourceUsage(Part):
    name: str
    total: Quantity = 0
    borrowed: Quantity = 0


class FlavorUsage(Part):
    name: Subdomain
    resources: Annotated[tuple[ResourceUsage, ...], says(keys=["name"], maxItems=64)]


FlavorUsages = Annotated[tuple[FlavorUsage, ...], says(keys=["name"], maxItems=64)]


class ClusterQueueStatus(Part):
    conditions: Conditions = ()
    flavors_reservation: FlavorUsages = ()
    flavors_usage: FlavorUsages = ()
    pending_workloads: Int32 = 0
    reserving_workloads: Int32 = 0
    admitted_workloads: Int32 = 0
    fair_sharing: WeightedShare | None = None


class ClusterQueue(Resource):
    """A pool of quota and the rules by which workloads get it."""

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


# -- Cohort -----------------------------------------------------------------------------------------------------------


class CohortSpec(Part):
    parent_name: Annotated[Subdomain, says("The cohort above; none: this one is a root.")] = ""
    resource_groups: ResourceGroups = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Part):
    fair_sharing: WeightedShare | None = None


class Cohort(Resource):
    """A group of queues and cohorts that share their unused quota."""

    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


# -- LocalQueue -------------------------------------------------------------------------------------------------------


class LocalQueueSpec(Part):
    cluster_queue: Annotated[Subdomain, says("The cluster queue behind this queue.", rules=[IMMUTABLE])] = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None


class LocalResourceUsage(Part):
    name: str
    total: Quantity = 0


class LocalFlavorUsage(Part):
    name: Subdomain
    resources: Annotated[tuple[LocalResourceUsage, ...], says(keys=["name"], maxItems=64)]


LocalFlavorUsages = Annotated[tuple[LocalFlavorUsage, ...], says(keys=["name"], maxItems=64)]


class AdmissionFairSharingStatus(Part):
    consumed_resources: dict[str, Quantity]
    last_update: Time


class LocalFairSharingStatus(Part):
    weighted_share: Int64
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Part):
    conditions: Conditions = ()
    flavors_reservation: LocalFlavorUsages = ()
    flavors_usage: LocalFlavorUsages = ()
    pending_workloads: Int32 = 0
    reserving_workloads: Int32 = 0
    admitted_workloads: Int32 = 0
    fair_sharing: LocalFairSharingStatus | None = None


class LocalQueue(Resource):
    """A team's own door, in its namespace, to a cluster queue."""

    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
