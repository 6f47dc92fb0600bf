"""Kueue's Workload in its storage version v1beta2: what waits for quota and what it was given.

The rules of the CRD stand beside the types; what only Kueue's webhook refuses is in `validation_workload`. How topology
assignments are packed into slices is in `assignments`.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import Int32, Part, PodTemplate, Quantity, Resource, Says, StringMap, Time, Toleration, says
from gpuaas.api.kueue.quotas import LABEL, SUBDOMAIN, TOLERATION_RULES, Conditions, Subdomain

_RESERVED = "c.type == 'QuotaReserved' && c.status == 'True'"
_ADMITTED = "c.type == 'Admitted' && c.status == 'True'"


def holds(self: str, condition: str) -> str:
    """CEL: the object's status has this condition."""
    return f"has({self}.status) && has({self}.status.conditions) && {self}.status.conditions.exists(c, {condition})"


WAS_RESERVED = holds("oldSelf", _RESERVED)
SAME_NUMBER_RULE = (
    f"{holds('self', _RESERVED)} && has(self.status.admission) ? size(self.spec.podSets) =="
    " size(self.status.admission.podSetAssignments) : true",
    "podSetAssignments must have the same number of podSets as the spec",
)
QUEUE_AND_TIME_RULES = (
    (
        f"(({WAS_RESERVED}) && ({holds('self', _RESERVED)})) ? ((has(oldSelf.spec.queueName) =="
        " has(self.spec.queueName)) && (!has(oldSelf.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName))"
        " : true",
        "queueName is immutable while workload quota reserved",
    ),
    (
        f"(({holds('oldSelf', _ADMITTED)}) && ({holds('self', _ADMITTED)}))?"
        "((has(oldSelf.spec.maximumExecutionTimeSeconds)?oldSelf.spec.maximumExecutionTimeSeconds:0) == "
        " (has(self.spec.maximumExecutionTimeSeconds)?self.spec.maximumExecutionTimeSeconds:0)):true",
        "maximumExecutionTimeSeconds is immutable while workload quota reserved",
    ),
)
_BOTH_REFS = "has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)"
_REF_RULES = (
    (
        f"({WAS_RESERVED}) ? (!has(oldSelf.spec.priorityClassRef) && !has(self.spec.priorityClassRef)) ||"
        f" ({_BOTH_REFS}) : true",
        "priorityClassRef is immutable while workload quota reserved",
    ),
    (
        f"({WAS_RESERVED} && {_BOTH_REFS}) ? oldSelf.spec.priorityClassRef.group == self.spec.priorityClassRef.group"
        " : true",
        "priorityClassRef.group is immutable while workload quota reserved",
    ),
    (
        f"({WAS_RESERVED} && {_BOTH_REFS}) ? oldSelf.spec.priorityClassRef.kind == self.spec.priorityClassRef.kind"
        " : true",
        "priorityClassRef.kind is immutable while workload quota reserved",
    ),
    (
        f"({WAS_RESERVED} && {_BOTH_REFS} && self.spec.priorityClassRef.group == 'scheduling.k8s.io' &&"
        " self.spec.priorityClassRef.kind == 'PriorityClass') ? oldSelf.spec.priorityClassRef.name =="
        " self.spec.priorityClassRef.name : true",
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
    ),
)

PodSetName = Annotated[str, says(maxLength=63, pattern=LABEL)]
ClusterName = Annotated[str, says(maxLength=256)]
TopologyKey = Annotated[str, says(maxLength=63)]
MAX_POD_SETS = 18

# -- spec -------------------------------------------------------------------------------------------------------------


class SliceTopologyConstraint(Part):
    topology: Annotated[str, says(minLength=1, maxLength=63)]
    size: Annotated[Int32, says(minimum=1)]


class PodSetTopologyRequest(Part):
    """How near to each other the pods must run."""

    required: TopologyKey | None = None
    preferred: TopologyKey | None = None
    unconstrained: bool | None = None
    pod_index_label: Annotated[str, says(maxLength=317)] | None = None
    sub_group_index_label: Annotated[str, says(maxLength=317)] | None = None
    sub_group_count: Int32 | None = None
    pod_set_group_name: Annotated[str, says(maxLength=256)] | None = None
    pod_set_slice_required_topology: TopologyKey | None = None
    pod_set_slice_size: Int32 | None = None
    podset_slice_required_topology_constraints: Annotated[
        tuple[SliceTopologyConstraint, ...], says(maxItems=3, list_type="atomic")
    ] = ()


class PodSet(Part):
    """Pods that are alike."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "has(self.minCount) ? self.minCount <= self.count : true",
                "minCount should be positive and less or equal to count",
            )
        ]
    )

    name: Annotated[PodSetName, says(default="main")] = "main"
    template: Annotated[PodTemplate, says("What the pods look like.")]
    count: Annotated[Int32, says("How many pods.", minimum=0, default=1)] = 1
    min_count: Annotated[Int32, says("How few pods would do.", minimum=1)] | None = None
    topology_request: PodSetTopologyRequest | None = None


class PriorityClassRef(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "(self.group == 'scheduling.k8s.io') ? self.kind == 'PriorityClass' : true",
                "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            ),
            (
                "(self.group == 'kueue.x-k8s.io') ? self.kind == 'WorkloadPriorityClass' : true",
                "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
            ),
        ]
    )

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    name: Annotated[str, says(minLength=1, maxLength=253, pattern=SUBDOMAIN)]


class PreemptionGate(Part):
    name: Annotated[str, says(minLength=1, maxLength=63)]


class WorkloadSpec(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(self.priorityClassRef) || has(self.priority)",
                "priority should not be nil when priorityClassRef is set",
            )
        ]
    )

    pod_sets: Annotated[tuple[PodSet, ...], says(keys=["name"], minItems=1, maxItems=MAX_POD_SETS)] = ()
    queue_name: Annotated[Subdomain, says("The local queue it waits in.")] = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: Annotated[bool, says("False evicts it and keeps it from being admitted.", default=True)] = True
    maximum_execution_time_seconds: Annotated[Int32, says(minimum=1)] | None = None
    preemption_gates: Annotated[tuple[PreemptionGate, ...], says(keys=["name"], maxItems=8)] = ()


# -- status -----------------------------------------------------------------------------------------------------------


class IndividualValues(Part):
    roots: Annotated[
        tuple[Annotated[str, says(maxLength=63)], ...], says(minItems=1, maxItems=100_000, list_type="atomic")
    ]
    prefix: Annotated[str, says(maxLength=63)] | None = None
    suffix: Annotated[str, says(maxLength=63)] | None = None


class LevelValues(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "has(self.universal) != has(self.individual)",
                "exactly one of the fields in [universal individual] must be set",
            )
        ]
    )

    universal: Annotated[str, says(maxLength=63)] | None = None
    individual: IndividualValues | None = None


class PodCounts(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "[has(self.universal),has(self.individual)].filter(x,x==true).size() == 1",
                "exactly one of the fields in [universal individual] must be set",
            )
        ]
    )

    universal: Annotated[Int32, says(minimum=1)] | None = None
    individual: Annotated[
        tuple[Annotated[Int32, says(minimum=1)], ...], says(minItems=1, maxItems=100_000, list_type="atomic")
    ] = ()


class AssignmentSlice(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
                "podCounts.individual must have length equal to domainCount",
            ),
            (
                "self.valuesPerLevel.all(x, !has(x.individual) || size(x.individual.roots) == self.domainCount)",
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this"
                " TopologyAssignmentSlice",
            ),
        ]
    )

    domain_count: Annotated[Int32, says(minimum=1)]
    values_per_level: Annotated[tuple[LevelValues, ...], says(minItems=1, maxItems=16, list_type="atomic")]
    pod_counts: PodCounts


class TopologyAssignment(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        ]
    )

    levels: Annotated[
        tuple[Annotated[str, says(maxLength=317)], ...], says(minItems=1, maxItems=16, list_type="atomic")
    ]
    slices: Annotated[tuple[AssignmentSlice, ...], says(maxItems=1000, list_type="atomic")]


class PodSetAssignment(Part):
    """What one pod set was given."""

    name: Annotated[PodSetName, says(default="main")] = "main"
    flavors: dict[str, Subdomain] = field(default_factory=dict)
    resource_usage: dict[str, Quantity] = field(default_factory=dict)
    count: Annotated[Int32, says(minimum=0)] | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Annotated[Literal["Pending", "Ready"], says(maxLength=7)] | None = None


class Admission(Part):
    cluster_queue: Subdomain = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], says(keys=["name"], maxItems=MAX_POD_SETS)] = ()


class RequeueState(Part):
    count: Annotated[Int32, says(minimum=0)] | None = None
    requeue_at: Time | None = None


class ReclaimablePod(Part):
    name: PodSetName
    count: Annotated[Int32, says(minimum=0)]


class PodSetUpdate(Part):
    name: PodSetName
    labels: StringMap = field(default_factory=dict)
    annotations: StringMap = field(default_factory=dict)
    node_selector: StringMap = field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], says(maxItems=8, list_type="atomic", rules=TOLERATION_RULES)] = ()


class AdmissionCheckState(Part):
    name: Annotated[str, says(minLength=1, maxLength=316)]
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    last_transition_time: Time
    message: Annotated[str, says(maxLength=32768)]
    requeue_after_seconds: Annotated[Int32, says(minimum=0)] | None = None
    retry_count: Annotated[Int32, says(minimum=0)] | None = None
    pod_set_updates: Annotated[tuple[PodSetUpdate, ...], says(maxItems=MAX_POD_SETS, list_type="atomic")] = ()


class PodSetRequest(Part):
    name: PodSetName
    resources: dict[str, Quantity] = field(default_factory=dict)


class Eviction(Part):
    reason: Annotated[str, says(maxLength=316)]
    underlying_cause: Annotated[str, says(maxLength=316)]
    count: Annotated[Int32, says(minimum=0)]


class SchedulingStats(Part):
    evictions: Annotated[tuple[Eviction, ...], says(keys=["reason", "underlyingCause"], maxItems=256)] = ()


class UnhealthyNode(Part):
    name: Annotated[str, says(maxLength=63)]


class PreemptionGateState(Part):
    name: Annotated[str, says(minLength=1, maxLength=63)]
    position: Literal["Closed", "Open"]
    last_transition_time: Time


class WorkloadStatus(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
                "clusterName is immutable once set",
            ),
            (
                "!has(self.clusterName) || (!has(self.nominatedClusterNames) || (has(self.nominatedClusterNames) &&"
                " size(self.nominatedClusterNames) == 0))",
                "clusterName and nominatedClusterNames are mutually exclusive",
            ),
        ]
    )

    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[tuple[ReclaimablePod, ...], says(keys=["name"], maxItems=MAX_POD_SETS)] = ()
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], says(keys=["name"], maxItems=8)] = ()
    resource_requests: Annotated[tuple[PodSetRequest, ...], says(keys=["name"], maxItems=MAX_POD_SETS)] = ()
    accumulated_past_execution_time_seconds: Int32 | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[tuple[ClusterName, ...], says(maxItems=20, list_type="atomic")] = ()
    cluster_name: ClusterName | None = None
    unhealthy_nodes: Annotated[tuple[UnhealthyNode, ...], says(keys=["name"], maxItems=8)] = ()
    preemption_gates: Annotated[tuple[PreemptionGateState, ...], says(keys=["name"], maxItems=8)] = ()


class Workload(Resource):
    """A piece of work that starts as a whole, once its quota is reserved."""

    SCHEMA: ClassVar[Says] = says(rules=[SAME_NUMBER_RULE, *_REF_RULES, *QUEUE_AND_TIME_RULES])

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
