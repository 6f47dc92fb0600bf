"""The table of Kueue's kinds: names, versions, columns, rules and conversion, as Kueue 0.19 serves them.

Types are named, not imported: listing the kinds must not cost what building them does.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from gpuaas.api.crds import Bundled, Part, Version, schema_of
from gpuaas.api.kinds import Behaviour, Column, Object
from gpuaas.api.kueue import conversion
from gpuaas.api.kueue.validation import ClusterQueueRules, CohortRules, ResourceFlavorRules
from gpuaas.api.kueue.validation_workload import WorkloadRules

GROUP = "kueue.x-k8s.io"
STORAGE = "v1beta2"
OLDER = "v1beta1"
DEPRECATED = "This version is deprecated. Use v1beta2 instead."

_AGE = Column("Age", "date", path=".metadata.creationTimestamp")


def _type(name: str) -> type[Part]:
    module, _, kind = name.partition(".")
    found: type[Part] = getattr(import_module(f"gpuaas.api.kueue.{module}"), kind)
    return found


def _schema(type_: str) -> Object:
    return schema_of(_type(type_))


def _older_schema(type_: str, edits: str) -> Object:
    older = import_module("gpuaas.api.kueue.older")
    schema: Object = older.older_schema(_type(type_), getattr(older, edits) if edits else {})
    return schema


def _kind(
    type_: str,  # module and name of its type
    plural: str,
    short_names: tuple[str, ...],
    edits: str,  # name of the table in `older` that says how v1beta1 differs
    *,
    namespaced: bool = False,
    status: bool = True,
    deprecated: str = DEPRECATED,
    columns: tuple[Column, ...] = (),
    older_columns: tuple[Column, ...] | None = None,
    selectable: tuple[str, ...] = (),
    behaviour: Behaviour | None = None,
    convert: Callable[[Object, str], Object] | None = None,
) -> Bundled:
    return Bundled(
        group=GROUP,
        kind=type_.partition(".")[2],
        plural=plural,
        namespaced=namespaced,
        short_names=short_names,
        behaviour=behaviour,
        convert=convert,
        versions=(
            Version(
                OLDER,
                partial(_older_schema, type_, edits),
                storage=False,
                deprecated=deprecated,
                columns=columns if older_columns is None else older_columns,
                status=status,
            ),
            Version(STORAGE, partial(_schema, type_), columns=columns, status=status, selectable=selectable),
        ),
    )


def _queue_columns(cohort: str) -> tuple[Column, ...]:
    return (
        Column("Cohort", path=cohort),
        Column("Strategy", path=".spec.queueingStrategy", priority=1),
        Column("Pending Workloads", "integer", path=".status.pendingWorkloads"),
        Column("Admitted Workloads", "integer", path=".status.admittedWorkloads", priority=1),
    )


KINDS: tuple[Bundled, ...] = (
    _kind(
        "quotas.ResourceFlavor",
        "resourceflavors",
        ("flavor", "flavors", "rf"),
        "",
        status=False,
        behaviour=ResourceFlavorRules(),
    ),
    _kind(
        "quotas.ClusterQueue",
        "clusterqueues",
        ("cq",),
        "CLUSTER_QUEUE",
        columns=_queue_columns(".spec.cohortName"),
        older_columns=_queue_columns(".spec.cohort"),
        behaviour=ClusterQueueRules(),
        convert=conversion.cluster_queue,
    ),
    _kind(
        "quotas.LocalQueue",
        "localqueues",
        ("queue", "queues", "lq"),
        "LOCAL_QUEUE",
        namespaced=True,
        columns=(
            Column("ClusterQueue", path=".spec.clusterQueue"),
            Column("Pending Workloads", "integer", path=".status.pendingWorkloads"),
            Column("Admitted Workloads", "integer", path=".status.admittedWorkloads"),
        ),
        convert=conversion.local_queue,
    ),
    _kind("quotas.Cohort", "cohorts", ("co",), "COHORT", behaviour=CohortRules(), convert=conversion.cohort),
    _kind(
        "checks.WorkloadPriorityClass",
        "workloadpriorityclasses",
        ("wpc",),
        "PRIORITY_CLASS",
        status=False,
        columns=(Column("Value", "integer", path=".value"),),
    ),
    _kind(
        "workloads.Workload",
        "workloads",
        ("kwl", "kueueworkload", "kueueworkloads"),
        "WORKLOAD",
        namespaced=True,
        columns=(
            Column("Queue", path=".spec.queueName"),
            Column("Reserved in", path=".status.admission.clusterQueue"),
            Column("Admitted", path=".status.conditions[?(@.type=='Admitted')].status"),
            Column("Finished", path=".status.conditions[?(@.type=='Finished')].status"),
            _AGE,
        ),
        selectable=(".status.admission.clusterQueue",),
        behaviour=WorkloadRules(),
        convert=conversion.workload,
    ),
    _kind(
        "checks.AdmissionCheck",
        "admissionchecks",
        ("ac",),
        "ADMISSION_CHECK",
        convert=conversion.admission_check,
    ),
    _kind(
        "checks.MultiKueueConfig",
        "multikueueconfigs",
        ("mkconf",),
        "MULTI_KUEUE_CONFIG",
        status=False,
        deprecated="",  # as upstream: the only one of the eleven without the warning
        convert=conversion.multi_kueue_config,
    ),
    _kind(
        "checks.MultiKueueCluster",
        "multikueueclusters",
        ("mkc",),
        "MULTI_KUEUE_CLUSTER",
        columns=(Column("Connected", path=".status.conditions[?(@.type=='Active')].status"), _AGE),
        convert=conversion.multi_kueue_cluster,
    ),
    _kind("checks.Topology", "topologies", ("topo",), "", status=False),
    _kind(
        "checks.ProvisioningRequestConfig",
        "provisioningrequestconfigs",
        ("prc",),
        "PROVISIONING",
        status=False,
    ),
)
