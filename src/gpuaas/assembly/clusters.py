"""One cluster of the control plane, put together: its store, what it serves, who may do what, and what it begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuaas.api.custom import bundled
from gpuaas.api.kubernetes import builtin_kinds, schema_source
from gpuaas.apiserver.access import Access
from gpuaas.apiserver.builtins import add_builtins
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.definitions import Definitions
from gpuaas.apiserver.local import LocalClient
from gpuaas.assembly.app_wrappers import install_app_wrapper_rules
from gpuaas.assembly.bootstrap import bootstrap
from gpuaas.assembly.notebook_rules import install_notebook_rules
from gpuaas.assembly.profiles import install_profiles
from gpuaas.assembly.quota_gate import QuotaGate
from gpuaas.assembly.runtime_classes import install_runtime_classes
from gpuaas.assembly.serving_rules import install_serving_rules
from gpuaas.assembly.system_priorities import install_system_priorities
from gpuaas.assembly.trust import Trust
from gpuaas.assembly.webhooks import install_job_webhooks
from gpuaas.base.clock import Clock
from gpuaas.base.ids import IdSource
from gpuaas.base.strict import NOT_STRICT, Strict
from gpuaas.client.kueue import KUEUES
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.store import Store


@dataclass(frozen=True, slots=True)
class ClusterParts:
    cluster: Cluster
    access: Access
    definitions: Definitions
    configured: Configured
    quota: QuotaGate
    strict: Strict = NOT_STRICT
    restored: bool = False
    """Its store may lack writes that were acknowledged: it comes from a backup, or was accepted as it is."""

    async def close(self) -> None:
        self.definitions.stop()
        self.access.close()
        await self.cluster.store.close()


async def open_cluster(
    name: str,
    path: Path,
    trust: Trust,
    clock: Clock,
    ids: IdSource,
    *,
    fsync: bool = True,
    configured: Configured | None = None,
    check: Callable[[Store], None] | None = None,
    accept_loss: bool = False,
    strict: Strict = NOT_STRICT,
) -> ClusterParts:
    """`check` looks at the store before anything is written to it, and raises where it must not be used."""
    store = await Store.open(path, clock=clock, fsync=fsync, accept_loss=accept_loss)
    try:
        if check is not None:
            check(store)
    except BaseException:
        await store.close()
        raise
    cluster = Cluster(name, store, SchemaSet(schema_source), clock, ids)
    add_builtins(cluster, builtin_kinds())
    access = Access(cluster, trust.users, trust.signing_key)
    client = LocalClient(cluster, access.system_user("bootstrap"), "gpuaas")
    definitions = Definitions(cluster, client, bundled())
    definitions.start()
    configured = configured or Configured()
    install_profiles(cluster, strict="odh" in strict)
    if "odh" not in strict:
        install_notebook_rules(cluster, access.rbac)
        install_serving_rules(cluster, access.rbac)
    quota = install_job_webhooks(cluster, configured)
    install_runtime_classes(cluster, access.rbac)
    install_system_priorities(cluster)
    install_app_wrapper_rules(cluster, access.rbac)
    access.start()
    await bootstrap(cluster, client, definitions)
    _take_up(cluster, configured)
    return ClusterParts(cluster, access, definitions, configured, quota, strict, accept_loss)


def _take_up(cluster: Cluster, configured: Configured) -> None:
    """What the cluster's own Kueue object said before a restart holds from the first request on."""
    entry = cluster.store.get(f"{KUEUES.group}/{KUEUES.plural}//cluster")
    if entry is None or entry.obj["metadata"].get("deletionTimestamp"):
        return
    from gpuaas.kueue.configuration.operator import follow

    with cluster.aside.guard("kueue-operator", entry.obj):
        follow(entry.obj, configured)
