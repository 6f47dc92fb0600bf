"""All integrations, and through which kinds of owners a job's ancestor is looked for."""

from functools import cache

from gpuaas.admission.integrations.ancestry import Kinds
from gpuaas.admission.integrations.app_wrapper import AppWrapper
from gpuaas.admission.integrations.batch_job import BatchJob
from gpuaas.admission.integrations.config import JobsConfig
from gpuaas.admission.integrations.integration import Suspendable
from gpuaas.admission.integrations.job_set import JobSet
from gpuaas.admission.integrations.leader_worker_set import LEADER_WORKER_SET
from gpuaas.admission.integrations.notebook import Notebook
from gpuaas.admission.integrations.ray import RayCluster, RayJob, RayService
from gpuaas.admission.integrations.train_job import TrainJob
from gpuaas.admission.integrations.training import TRAINING_KINDS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS

JOB_KINDS: tuple[Suspendable, ...] = (
    BatchJob(),
    RayCluster(),
    RayJob(),
    RayService(),
    JobSet(),
    *TRAINING_KINDS,
    TrainJob(),
    Notebook(),
    AppWrapper(),
)


def _by_kind(*resources: Resource) -> dict[tuple[str, str], Resource]:
    return {(each.api_version, each.kind): each for each in resources}


_SETS = (
    ("deployment", DEPLOYMENTS),
    ("statefulset", STATEFUL_SETS),
    (LEADER_WORKER_SET.framework, LEADER_WORKER_SET.resource),
)


@cache
def kinds_of(frameworks: frozenset[str] | None) -> Kinds:
    """As far as their integrations are on: a kind that nobody holds answers for nobody."""
    config = JobsConfig(frameworks=frameworks)
    jobs = [kind.resource for kind in JOB_KINDS if config.enables(kind.framework)]
    sets = [resource for name, resource in _SETS if config.enables(name)]
    return Kinds(_by_kind(*jobs, *sets), _by_kind(REPLICA_SETS))


FRAMEWORKS = frozenset(kind.framework for kind in JOB_KINDS) | {"pod"} | {name for name, _ in _SETS}
KINDS = kinds_of(None)
