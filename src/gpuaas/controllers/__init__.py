"""The controllers of one cluster: what kube-controller-manager does, one file for each intent.

They meet only through objects. `all_controllers` is the list; `runtime.controller.Controllers` runs it.
"""

from gpuaas.controllers.deployments import DeploymentController
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.namespaces import NamespaceController
from gpuaas.controllers.replica_sets import ReplicaSetController
from gpuaas.controllers.root_ca import RootCaController
from gpuaas.controllers.service_accounts import DefaultServiceAccountController
from gpuaas.runtime.controller import Controller, Deps

KINDS: tuple[type[Controller], ...] = (
    NamespaceController,
    DefaultServiceAccountController,
    RootCaController,
    GarbageCollector,
    ReplicaSetController,
    DeploymentController,
    JobController,
)


def all_controllers(deps: Deps) -> list[Controller]:
    return [kind(deps) for kind in KINDS]
