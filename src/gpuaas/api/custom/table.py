"""The table of the other custom kinds with schemas of their own: names, versions, columns, and the file of their schema.

Schemas are read when first used: listing the kinds costs nothing.
"""

from functools import partial

from gpuaas.api.crds import Bundled, Version
from gpuaas.api.custom.schemas import kind_schema
from gpuaas.api.kinds import Column, Scale

_AGE = Column("Age", "date", path=".metadata.creationTimestamp")
_age = Column("age", "date", path=".metadata.creationTimestamp")


def _kind(
    api: str,
    kind: str,
    plural: str,
    file: str,
    *,
    entry: str = "",
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    status: bool = True,
    columns: tuple[Column, ...] = (),
    scale: Scale | None = None,
    older: dict[str, str] | None = None,  # version -> its deprecation warning; the schema is the same
) -> Bundled:
    group, _, version = api.partition("/")
    schema = partial(kind_schema, file, entry or kind)
    others = tuple(
        Version(name, schema, storage=False, deprecated=warning, columns=columns, status=status)
        for name, warning in (older or {}).items()
    )
    return Bundled(
        group=group,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        short_names=short,
        categories=categories,
        versions=(*others, Version(version, schema, columns=columns, status=status, scale=scale)),
    )


def _col(name: str, path: str, type: str = "string", priority: int = 0) -> Column:
    return Column(name, type, path=path, priority=priority)


def _condition(name: str, condition: str, field: str = "status", quote: str = '"') -> Column:
    return Column(name, path=f".status.conditions[?(@.type=={quote}{condition}{quote})].{field}")


def _workers(replicas: str) -> Scale:
    status = ".status.replicaStatuses.Worker"
    return Scale(f".spec.{replicas}.Worker.replicas", f"{status}.active", f"{status}.selector")


_CLUSTER = "cluster.open-cluster-management.io"
_ADDON = "addon.open-cluster-management.io/v1alpha1"
_JOB_COLUMNS = (_col("State", ".status.conditions[-1:].type"), _AGE)

_FLEET = (
    _kind(
        f"{_CLUSTER}/v1",
        "ManagedCluster",
        "managedclusters",
        "fleet",
        namespaced=False,
        short=("mcl", "mcls"),
        columns=(
            _col("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
            _col("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
            _condition("Joined", "ManagedClusterJoined"),
            _condition("Available", "ManagedClusterConditionAvailable"),
            _AGE,
        ),
    ),
    _kind(
        f"{_CLUSTER}/v1beta2",
        "ManagedClusterSet",
        "managedclustersets",
        "fleet",
        namespaced=False,
        short=("mclset", "mclsets"),
        columns=(_condition("Empty", "ClusterSetEmpty"), _AGE),
    ),
    _kind(
        f"{_CLUSTER}/v1beta2",
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
        "fleet",
        short=("mclsetbinding", "mclsetbindings"),
    ),
    _kind(
        f"{_CLUSTER}/v1beta1",
        "Placement",
        "placements",
        "fleet",
        columns=(
            _condition("Succeeded", "PlacementSatisfied"),
            _condition("Reason", "PlacementSatisfied", "reason"),
            _col("SelectedClusters", ".status.numberOfSelectedClusters", "integer"),
        ),
    ),
    _kind(f"{_CLUSTER}/v1beta1", "PlacementDecision", "placementdecisions", "fleet"),
    _kind(f"{_CLUSTER}/v1alpha1", "AddOnPlacementScore", "addonplacementscores", "fleet"),
    _kind("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "clusterprofiles", "fleet"),
    _kind(
        _ADDON,
        "ClusterManagementAddOn",
        "clustermanagementaddons",
        "addons",
        namespaced=False,
        short=("cma", "cmas"),
        columns=(
            _col("DISPLAY NAME", ".spec.addOnMeta.displayName"),
            _col("CRD NAME", ".spec.addOnConfiguration.crdName"),
        ),
    ),
    _kind(
        _ADDON,
        "ManagedClusterAddOn",
        "managedclusteraddons",
        "addons",
        short=("mca", "mcas"),
        columns=(
            _condition("Available", "Available"),
            _condition("Degraded", "Degraded"),
            _condition("Progressing", "Progressing"),
        ),
    ),
    _kind(
        _ADDON,
        "AddOnTemplate",
        "addontemplates",
        "works",
        namespaced=False,
        status=False,
        columns=(_col("ADDON NAME", ".spec.addonName"),),
    ),
    _kind(
        "authentication.open-cluster-management.io/v1beta1",
        "ManagedServiceAccount",
        "managedserviceaccounts",
        "addons",
        older={
            "v1alpha1": "authentication.open-cluster-management.io/v1alpha1 ManagedServiceAccount is deprecated; use"
            " authentication.open-cluster-management.io/v1beta1 ManagedServiceAccount; version v1alpha1 will be removed"
            " in the next release"
        },
    ),
    _kind("rbac.open-cluster-management.io/v1alpha1", "ClusterPermission", "clusterpermissions", "addons"),
    _kind("work.open-cluster-management.io/v1", "ManifestWork", "manifestworks", "works"),
)

_PROFILES = (
    _kind(
        "infrastructure.opendatahub.io/v1",
        "HardwareProfile",
        "hardwareprofiles",
        "opendatahub",
        older={
            "v1alpha1": "infrastructure.opendatahub.io/v1alpha1 is deprecated; please use"
            " infrastructure.opendatahub.io/v1"
        },
    ),
    Bundled(
        group="dashboard.opendatahub.io",
        kind="HardwareProfile",
        plural="hardwareprofiles",
        namespaced=True,
        versions=(
            Version(
                "v1alpha1",
                partial(kind_schema, "opendatahub", "LegacyHardwareProfile"),
                deprecated="DEPRECATED: This version lacks support for the latest scheduling features and is no longer"
                " maintained. Please use the HardwareProfile in the 'infrastructure.opendatahub.io' API group.",
            ),
        ),
    ),
    _kind("opendatahub.io/v1alpha", "OdhDashboardConfig", "odhdashboardconfigs", "opendatahub", status=False),
    _kind("kueue.openshift.io/v1", "Kueue", "kueues", "kueue_operator", namespaced=False, older={"v1alpha1": ""}),
    _kind(
        "nvidia.com/v1",
        "ClusterPolicy",
        "clusterpolicies",
        "nvidia",
        namespaced=False,
        columns=(_col("Status", ".status.state"), _col("Age", ".metadata.creationTimestamp")),
    ),
)

_JOBS = (
    _kind("kubeflow.org/v1", "Notebook", "notebooks", "kubeflow", older={"v1alpha1": "", "v1beta1": ""}),
    _kind(
        "kubeflow.org/v1",
        "PyTorchJob",
        "pytorchjobs",
        "kubeflow",
        columns=_JOB_COLUMNS,
        scale=_workers("pytorchReplicaSpecs"),
    ),
    _kind("kubeflow.org/v1", "TFJob", "tfjobs", "kubeflow", columns=_JOB_COLUMNS),
    _kind("kubeflow.org/v1", "XGBoostJob", "xgboostjobs", "kubeflow", columns=_JOB_COLUMNS),
    _kind(
        "kubeflow.org/v1",
        "PaddleJob",
        "paddlejobs",
        "kubeflow",
        columns=_JOB_COLUMNS,
        scale=_workers("paddleReplicaSpecs"),
    ),
    _kind("kubeflow.org/v1", "JAXJob", "jaxjobs", "kubeflow", columns=_JOB_COLUMNS, scale=_workers("jaxReplicaSpecs")),
    _kind("kubeflow.org/v2beta1", "MPIJob", "mpijobs", "kubeflow"),
    _kind("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs", "trainer", columns=_JOB_COLUMNS),
    _kind("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "trainingruntimes", "trainer", status=False),
    _kind(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        "clustertrainingruntimes",
        "trainer",
        namespaced=False,
        status=False,
    ),
    _kind(
        "ray.io/v1",
        "RayCluster",
        "rayclusters",
        "ray",
        categories=("all",),
        columns=(
            _col("desired workers", ".status.desiredWorkerReplicas", "integer"),
            _col("available workers", ".status.availableWorkerReplicas", "integer"),
            _col("cpus", ".status.desiredCPU"),
            _col("memory", ".status.desiredMemory"),
            _col("gpus", ".status.desiredGPU"),
            _col("tpus", ".status.desiredTPU", priority=1),
            _col("status", ".status.state"),
            _age,
            _col("head pod IP", ".status.head.podIP", priority=1),
            _col("head service IP", ".status.head.serviceIP", priority=1),
        ),
    ),
    _kind(
        "ray.io/v1",
        "RayJob",
        "rayjobs",
        "ray",
        categories=("all",),
        columns=(
            _col("job status", ".status.jobStatus"),
            _col("deployment status", ".status.jobDeploymentStatus"),
            _col("ray cluster name", ".status.rayClusterName"),
            _col("start time", ".status.startTime"),
            _col("end time", ".status.endTime"),
            _age,
        ),
    ),
    _kind(
        "ray.io/v1",
        "RayService",
        "rayservices",
        "ray",
        categories=("all",),
        columns=(
            _col("service status", ".status.serviceStatus"),
            _col("num serve endpoints", ".status.numServeEndpoints"),
        ),
    ),
    _kind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "jobsets",
        "sets",
        columns=(
            _col("TerminalState", ".status.terminalState"),
            _col("Restarts", ".status.restarts"),
            _condition("Completed", "Completed"),
            _col("Suspended", ".spec.suspend"),
            _AGE,
        ),
    ),
    _kind(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "leaderworkersets",
        "sets",
        short=("lws",),
        columns=(
            _col("Ready", ".status.readyReplicas", "integer"),
            _col("Desired", ".spec.replicas", "integer"),
            _col("Up-to-date", ".status.updatedReplicas", "integer"),
            _AGE,
        ),
        scale=Scale(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
    ),
    _kind(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        "appwrappers",
        "sets",
        short=("aw",),
        columns=(
            _col("Status", ".status.phase"),
            _condition("Quota Reserved", "QuotaReserved"),
            _condition("Resources Deployed", "ResourcesDeployed"),
            _condition("Unhealthy", "Unhealthy"),
            _AGE,
        ),
    ),
    _kind(
        "autoscaling.x-k8s.io/v1",
        "ProvisioningRequest",
        "provisioningrequests",
        "autoscaling",
        short=("provreq", "provreqs"),
        columns=(_AGE,),
        older={"v1beta1": ""},
    ),
)

_TRAFFIC = ".status.components.predictor.traffic"
_RUNTIME_COLUMNS = (
    _col("Disabled", ".spec.disabled", "boolean"),
    _col("ModelType", ".spec.supportedModelFormats[*].name"),
    _col("Containers", ".spec.containers[*].name"),
    _AGE,
)

_SERVING = (
    _kind(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        "inferenceservices",
        "kserve",
        short=("isvc",),
        columns=(
            _col("URL", ".status.url"),
            _condition("Ready", "Ready", quote="'"),
            _col("Prev", f"{_TRAFFIC}[?(@.tag=='prev')].percent", "integer"),
            _col("Latest", f"{_TRAFFIC}[?(@.latestRevision==true)].percent", "integer"),
            _col("PrevRolledoutRevision", f"{_TRAFFIC}[?(@.tag=='prev')].revisionName"),
            _col("LatestReadyRevision", f"{_TRAFFIC}[?(@.latestRevision==true)].revisionName"),
            _AGE,
        ),
    ),
    _kind(
        "serving.kserve.io/v1alpha1",
        "ServingRuntime",
        "servingruntimes",
        "kserve",
        status=False,
        columns=_RUNTIME_COLUMNS,
    ),
    _kind(
        "serving.kserve.io/v1alpha1",
        "ClusterServingRuntime",
        "clusterservingruntimes",
        "kserve",
        namespaced=False,
        status=False,
        columns=_RUNTIME_COLUMNS,
    ),
    _kind(
        "serving.kserve.io/v1alpha1",
        "LLMInferenceService",
        "llminferenceservices",
        "kserve",
        short=("llmisvc",),
        columns=(
            _col("URL", ".status.url"),
            _condition("Ready", "Ready", quote="'"),
            _condition("Reason", "Ready", "reason", quote="'"),
            _AGE,
            _col("URLs", ".status.addresses[*].url", priority=1),
        ),
    ),
    _kind(
        "monitoring.coreos.com/v1",
        "ServiceMonitor",
        "servicemonitors",
        "monitoring",
        short=("smon",),
        categories=("prometheus-operator",),
    ),
    _kind(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        "podmonitors",
        "monitoring",
        short=("pmon",),
        categories=("prometheus-operator",),
        status=False,
    ),
    _kind(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        "prometheusrules",
        "monitoring",
        short=("promrule",),
        categories=("prometheus-operator",),
        status=False,
    ),
)

KINDS: tuple[Bundled, ...] = (*_FLEET, *_PROFILES, *_JOBS, *_SERVING)
