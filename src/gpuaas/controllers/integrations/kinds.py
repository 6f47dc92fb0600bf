"""One controller for each integration that the shared loop can run."""

from gpuaas.controllers.integrations.controller import JobController
from gpuaas.controllers.integrations.held import HeldController
from gpuaas.controllers.integrations.leader_worker_sets import LeaderWorkerSetJobs
from gpuaas.controllers.integrations.places import PlacesController
from gpuaas.controllers.integrations.pods import PodController
from gpuaas.controllers.integrations.slice_pods import SlicePodsController
from gpuaas.controllers.integrations.stateful_sets import StatefulSetJobs
from gpuaas.controllers.integrations.uncovered_pods import UncoveredPods
from gpuaas.kueue.integrations.integration import Suspendable
from gpuaas.kueue.integrations.registry import JOB_KINDS


def controller_for(kind: Suspendable) -> type[JobController]:
    name = f"{kind.framework}-kueue-controller"
    return type(
        f"{kind.resource.kind}Controller", (JobController,), {"integration": kind, "name": name, "component": name}
    )


JOB_CONTROLLERS: tuple[
    type[HeldController] | type[PlacesController] | type[SlicePodsController] | type[UncoveredPods], ...
] = (
    *map(controller_for, JOB_KINDS),
    PodController,
    StatefulSetJobs,
    LeaderWorkerSetJobs,
    PlacesController,
    SlicePodsController,
    UncoveredPods,
)
