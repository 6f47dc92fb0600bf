"""MultiKueue in a control plane: every cluster may be a hub, and talks to its workers over HTTPS like any other client."""

from functools import cache

from gpuaas.assembly.clusters import ClusterParts
from gpuaas.assembly.views import ViewsServer
from gpuaas.client.http import HttpClient
from gpuaas.client.kubeconfig import Access
from gpuaas.client.kueue import CLUSTER_QUEUES, CONFIGURATION_NAMESPACE, LOCAL_QUEUES, WORKLOADS
from gpuaas.client.protocol import Client
from gpuaas.client.resources import PODS
from gpuaas.fleet.multikueue.checks import MultiKueueChecks
from gpuaas.fleet.multikueue.clusters import MultiKueueClusters
from gpuaas.fleet.multikueue.dispatch import Dispatch
from gpuaas.fleet.multikueue.hub_leases import HubLeaseController
from gpuaas.fleet.multikueue.lease_renewal import LeaseRenewal
from gpuaas.fleet.multikueue.nominations import LOCALS, QUEUES
from gpuaas.fleet.multikueue.remote_jobs import enabled
from gpuaas.fleet.multikueue.remote_streams import HubStreams
from gpuaas.fleet.multikueue.shadow_pods import VIEW as PODS_VIEW
from gpuaas.fleet.multikueue.shadow_pods import HubLogs, ShadowPodController
from gpuaas.fleet.multikueue.worker import Follows
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.multikueue.leases import lease_name
from gpuaas.kueue.multikueue.names import PODS_OF_WORKER
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Deps, Loop

MANAGER = "kueue"
_PATIENCE = 15.0
"""Seconds within which a worker has to answer a request."""


def multikueue_loops(parts: ClusterParts, deps: Deps, series: Series, views: ViewsServer) -> list[Loop]:
    configured, strict = parts.configured, "multikueue" in parts.strict
    clock = deps.clock

    def dial(access: Access) -> Client:
        return HttpClient(access, clock, "gpuaas-multikueue", patience=_PATIENCE)

    def follows() -> Follows:
        extra = {
            PODS_VIEW: (PODS, PODS_OF_WORKER),
            QUEUES: (CLUSTER_QUEUES, ""),
            LOCALS: (LOCAL_QUEUES, ""),
        }
        return Follows(
            configured.now.multikueue.origin, [each.resource for each in enabled(configured)], {} if strict else extra
        )

    @cache
    def hub() -> str:
        found = parts.cluster.store.get("/namespaces//kube-system")
        return str(found.obj["metadata"]["uid"]) if found is not None else ""

    def lease(client: Client) -> LeaseRenewal | None:
        rules = configured.now.multikueue
        name = lease_name(rules.origin, hub())
        return LeaseRenewal(client, clock, CONFIGURATION_NAMESPACE, name, hub(), rules.worker_lost_timeout)

    deps = deps.under(MANAGER)
    connections = Workers(clock, dial, follows, (lambda _: None) if strict else lease, strict=strict)
    dispatch = Dispatch(deps, connections, configured, series, hub=hub, strict=strict)
    views.more_evidence = dispatch.explain
    made: list[Loop] = [MultiKueueClusters(deps, connections), MultiKueueChecks(deps), dispatch]
    made.append(HubLeaseController(deps, restored=parts.restored))
    if not strict:
        made.append(ShadowPodController(deps, connections))
        parts.cluster.logs = HubLogs(parts.cluster.logs, connections, deps.informers.of(WORKLOADS).get, clock)
        parts.cluster.streams = HubStreams(parts.cluster.streams, connections, deps.informers.of(WORKLOADS).get)
    return made
