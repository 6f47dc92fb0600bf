"""All integrations, and through which kinds of owners a job's ancestor is looked for."""

from gpuaas.admission.integrations.ancestry import Kinds
from gpuaas.admission.integrations.batch_job import BatchJob
from gpuaas.admission.integrations.integration import Integration
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS

JOB_KINDS: tuple[Integration, ...] = (BatchJob(),)


def _by_kind(*resources: Resource) -> dict[tuple[str, str], Resource]:
    return {(each.api_version, each.kind): each for each in resources}


MANAGED = _by_kind(*(kind.resource for kind in JOB_KINDS), DEPLOYMENTS, STATEFUL_SETS)
KINDS = Kinds(MANAGED, _by_kind(REPLICA_SETS))
