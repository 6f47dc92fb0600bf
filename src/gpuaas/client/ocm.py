"""Open Cluster Management's resources, and MultiKueue's, as the client names them."""

from typing import Final

from gpuaas.client.kueue import GROUP
from gpuaas.client.protocol import Resource

_CLUSTER: Final = "cluster.open-cluster-management.io"
_ADDON: Final = "addon.open-cluster-management.io"

MANAGED_CLUSTERS: Final = Resource(_CLUSTER, "v1", "managedclusters", False, "ManagedCluster")
CLUSTER_SETS: Final = Resource(_CLUSTER, "v1beta2", "managedclustersets", False, "ManagedClusterSet")
SET_BINDINGS: Final = Resource(_CLUSTER, "v1beta2", "managedclustersetbindings", True, "ManagedClusterSetBinding")
PLACEMENTS: Final = Resource(_CLUSTER, "v1beta1", "placements", True, "Placement")
DECISIONS: Final = Resource(_CLUSTER, "v1beta1", "placementdecisions", True, "PlacementDecision")
SCORES: Final = Resource(_CLUSTER, "v1alpha1", "addonplacementscores", True, "AddOnPlacementScore")
ADD_ON_OFFERS: Final = Resource(_ADDON, "v1alpha1", "clustermanagementaddons", False, "ClusterManagementAddOn")
ADD_ONS: Final = Resource(_ADDON, "v1alpha1", "managedclusteraddons", True, "ManagedClusterAddOn")
MANAGED_ACCOUNTS: Final = Resource(
    "authentication.open-cluster-management.io", "v1beta1", "managedserviceaccounts", True, "ManagedServiceAccount"
)
PERMISSIONS: Final = Resource(
    "rbac.open-cluster-management.io", "v1alpha1", "clusterpermissions", True, "ClusterPermission"
)
MULTIKUEUE_CONFIGS: Final = Resource(GROUP, "v1beta2", "multikueueconfigs", False, "MultiKueueConfig")
MULTIKUEUE_CLUSTERS: Final = Resource(GROUP, "v1beta2", "multikueueclusters", False, "MultiKueueCluster")

OCM: Final = (
    MANAGED_CLUSTERS,
    CLUSTER_SETS,
    SET_BINDINGS,
    PLACEMENTS,
    DECISIONS,
    SCORES,
    ADD_ON_OFFERS,
    ADD_ONS,
    MANAGED_ACCOUNTS,
    PERMISSIONS,
    MULTIKUEUE_CONFIGS,
    MULTIKUEUE_CLUSTERS,
)

SUMMARY: Final = "gpuaas.dev/summary"
"""Annotation of a cluster's AddOnPlacementScore: the amounts behind the scores, as JSON."""
TROUBLE: Final = "gpuaas.dev/trouble-"
"""Prefix of annotations of a ManagedCluster: what went wrong last, by the part of the hub that met it."""
DRAINED: Final = "gpuaas.dev/drained"
"""Key of the taint that keeps new work away from a cluster."""
MISSING: Final = "gpuaas.dev/missing-on-cluster"
"""Annotation of a Workload of the hub: what its pod templates name and its cluster does not have, in words."""
