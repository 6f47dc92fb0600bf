"""The labels, annotations, reasons and limits by which hub and workers talk."""

from typing import Final

from gpuaas.engine.check_conflicts import MULTIKUEUE
from gpuaas.kueue.integrations.keys import MULTIKUEUE_ORIGIN, WORKER_POD

ORIGIN: Final = MULTIKUEUE_ORIGIN
PODS_OF_WORKER: Final = f"{WORKER_POD}=true"
"""Selects the pods on a worker that run for a hub."""
CONTROLLER: Final = MULTIKUEUE
"""The controllerName of the check, and what `managedBy` of a dispatched job says."""
CONFIG_KIND: Final = "MultiKueueConfig"
REASON: Final = "MultiKueue"
"""Reason and action of its events."""
EVICTED_ON_MANAGER: Final = "EvictedOnManagerCluster"
OUT_OF_SYNC: Final = "OutOfSync"

HUB: Final = "gpuaas.dev/hub"
"""On each copy: the uid of the hub that made it. Another hub with the same origin leaves it alone."""
HUB_WORKLOAD: Final = "gpuaas.dev/hub-workload"
"""On remote jobs that do not name a prebuilt workload: the workload that they were made for."""
LEASE: Final = "gpuaas.dev/hub-lease"
"""On each copy: the Lease on the worker without whose renewal the worker stops it."""
EPOCH: Final = "gpuaas.dev/dispatch-epoch"
"""On each copy: how many times its workload had been evicted when it was offered."""
DISPATCH: Final = "gpuaas.dev/dispatch"
"""On a Workload of the hub: the clusters that were considered for it, and why each was or was not chosen."""
CLUSTER: Final = "gpuaas.dev/cluster"
"""On the hub's shadow of a pod: the cluster where it runs."""
NODE: Final = "gpuaas.dev/cluster-node"
"""And the node there."""
ELSEWHERE: Final = "gpuaas.dev/runs-elsewhere"
"""The scheduling gate of such a pod: no node here may take it."""
PIN: Final = "gpuaas.dev/clusters"
UPSTREAM_PIN: Final = "kueue.x-k8s.io/multikueue-cluster-names"
PREFER: Final = "gpuaas.dev/preferred-clusters"
REDISPATCH_LOST: Final = "gpuaas.dev/redispatch-lost"
"""On a MultiKueueConfig: `AfterTimeout` (default) or `Never`."""
LOST: Final = "Admitting remote lost"
"""How the words of a lost worker begin."""
MOST_NOMINATED: Final = 20
