"""All integrations, and through which kinds of owners a job's ancestor is looked for."""

from functools import cache

from gpuaas.client.protocol import Resource
from gpuaas.client.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from gpuaas.kueue.integrations.ancestry import Kinds
from gpuaas.kueue.integrations.app_wrapper import AppWrapper
from gpuaas.kueue.integrations.batch_job import BatchJob
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.integration import Suspendable
from gpuaas.kueue.integrations.job_set import JobSet
from gpuaas.kueue.integrations.leader_worker_set import LEADER_WORKER_SET
from gpuaas.kueue.integrations.notebook import Notebook
from gpuaas.kueue.integrations.ray import RayCluster, RayJob, RayService
from gpuaas.kueue.integrations.train_job import TrainJob
from gpuaas.kueue.integrations.training import TRAINING_KINDS

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
    """As far as their integrations are on: a kind without an integration manages no children."""
    config = JobsConfig(frameworks=frameworks)
    jobs = [kind.resource for kind in JOB_KINDS if config.enables(kind.framework)]
    sets = [resource for name, resource in _SETS if config.enables(name)]
    return Kinds(_by_kind(*jobs, *sets), _by_kind(REPLICA_SETS))


FRAMEWORKS = frozenset(kind.framework for kind in JOB_KINDS) | {"pod"} | {name for name, _ in _SETS}
KINDS = kinds_of(None)
