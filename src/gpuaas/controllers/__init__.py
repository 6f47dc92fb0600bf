"""The controllers of one cluster: what kube-controller-manager does, one file (or folder) for each intent.

They meet only through objects. `all_controllers` makes them; `runtime.controller.Controllers` runs them. Their names
are those kube-controller-manager knows its own by.
"""

from collections.abc import Container

from gpuaas.controllers.app_wrappers import AppWrapperController
from gpuaas.controllers.card_shares import CardShares
from gpuaas.controllers.certificates import CertificateCleaner, CertificateSigningController
from gpuaas.controllers.claim_protection import ClaimProtectionController
from gpuaas.controllers.cluster_roles import ClusterRoleAggregationController
from gpuaas.controllers.cron_jobs import CronJobController
from gpuaas.controllers.daemon_sets import DaemonSetController
from gpuaas.controllers.deployments import DeploymentController
from gpuaas.controllers.disruption import DisruptionController
from gpuaas.controllers.endpoints import EndpointSliceController
from gpuaas.controllers.event_ttl import EventTtlController
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.inference_services import InferenceServiceController
from gpuaas.controllers.integrations.kinds import JOB_CONTROLLERS
from gpuaas.controllers.job_sets import JobSetController
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.kueue import (
    FailureRecovery,
    KueueCore,
    PlacedNodes,
    Provisioning,
    ProvisioningChecks,
    QueueStatuses,
)
from gpuaas.controllers.kueue_operator import KueueOperator
from gpuaas.controllers.leader_worker_sets import LeaderWorkerSetController
from gpuaas.controllers.namespaces import NamespaceController
from gpuaas.controllers.node_lifecycle import (
    NodeLifecycleController,
    PodGarbageCollector,
    TaintEvictionController,
)
from gpuaas.controllers.notebooks import NotebookController
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.controllers.quota_from_nodes import QuotaFromNodes
from gpuaas.controllers.ray_clusters import RayClusterController
from gpuaas.controllers.ray_jobs import RayJobController
from gpuaas.controllers.ray_services import RayServiceController
from gpuaas.controllers.replica_sets import ReplicaSetController, ReplicationManager
from gpuaas.controllers.resource_quotas import ResourceQuotaController
from gpuaas.controllers.root_ca import RootCaController
from gpuaas.controllers.service_account_tokens import ServiceAccountTokenController
from gpuaas.controllers.service_accounts import DefaultServiceAccountController
from gpuaas.controllers.stateful_sets import StatefulSetController
from gpuaas.controllers.train_jobs import TrainJobController
from gpuaas.controllers.training_jobs import TRAINING_CONTROLLERS
from gpuaas.controllers.ttl_after_finished import TtlAfterFinishedController
from gpuaas.controllers.volume_protection import VolumeProtectionController
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.observe.kueue import new_series
from gpuaas.runtime.controller import Deps, Loop

HOUSEKEEPING: tuple[type[Loop], ...] = (
    NamespaceController,
    DefaultServiceAccountController,
    ServiceAccountTokenController,
    RootCaController,
    CertificateSigningController,
    CertificateCleaner,
    ClusterRoleAggregationController,
    GarbageCollector,
    ClaimProtectionController,
    VolumeProtectionController,
    ResourceQuotaController,
    EventTtlController,
)
WORKLOADS: tuple[type[Loop], ...] = (
    ReplicaSetController,
    ReplicationManager,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    TtlAfterFinishedController,
    DisruptionController,
    EndpointSliceController,
)
NODES: tuple[type[Loop], ...] = (
    PodScheduler,
    NodeLifecycleController,
    TaintEvictionController,
    PodGarbageCollector,
    CardShares,
    QuotaFromNodes,
)
OPERATORS: tuple[type[Loop], ...] = (
    RayClusterController,
    RayJobController,
    RayServiceController,
    NotebookController,
    InferenceServiceController,
    JobSetController,
    LeaderWorkerSetController,
    AppWrapperController,
    TrainJobController,
    *TRAINING_CONTROLLERS,
)
KUEUE = "kueue"  # whom upstream's manager calls itself when it writes


def all_controllers(
    deps: Deps, names: Container[str] | None = None, configured: Configured | None = None
) -> list[Loop]:
    """Every controller, or only those of the given names."""
    configured, series = configured or Configured(), new_series()
    plain = [kind(deps) for kind in (*HOUSEKEEPING, *WORKLOADS, *NODES, *OPERATORS) if _wanted(kind, names)]
    deps = deps.under(KUEUE)
    kueue = [
        kind(deps, configured)
        for kind in (KueueOperator, QueueStatuses, Provisioning, ProvisioningChecks, FailureRecovery)
        if _wanted(kind, names)
    ]
    jobs = [
        kind(deps, configured, series) for kind in (KueueCore, PlacedNodes, *JOB_CONTROLLERS) if _wanted(kind, names)
    ]
    return [*plain, *kueue, *jobs]


def _wanted(kind: type[Loop], names: Container[str] | None) -> bool:
    return names is None or kind.name in names
