"""The controllers of one cluster: what kube-controller-manager does, one file for each intent.

They meet only through objects. `all_controllers` is the list; `runtime.controller.Controllers` runs it.
"""

from gpuaas.controllers.cron_jobs import CronJobController
from gpuaas.controllers.deployments import DeploymentController
from gpuaas.controllers.event_ttl import EventTtlController
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.namespaces import NamespaceController
from gpuaas.controllers.replica_sets import ReplicaSetController
from gpuaas.controllers.root_ca import RootCaController
from gpuaas.controllers.service_accounts import DefaultServiceAccountController
from gpuaas.controllers.stateful_sets import StatefulSetController
from gpuaas.controllers.ttl_after_finished import TtlAfterFinishedController
from gpuaas.runtime.controller import Controller, Deps

KINDS: tuple[type[Controller], ...] = (
    NamespaceController,
    DefaultServiceAccountController,
    RootCaController,
    GarbageCollector,
    ReplicaSetController,
    DeploymentController,
    StatefulSetController,
    JobController,
    CronJobController,
    TtlAfterFinishedController,
    EventTtlController,
)


def all_controllers(deps: Deps) -> list[Controller]:
    return [kind(deps) for kind in KINDS]
