"""Names of the add-on's objects on the hub and on the workers, as the original gives them, and reading of statuses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Object

KUEUE_NAMESPACE: Final = "kueue-system"
KUEUE_NAMESPACES: Final = (KUEUE_NAMESPACE, "openshift-kueue-operator")
"""Where placements that admission checks name are looked for, the first that has one."""

ADD_ON: Final = "multicluster-kueue-manager"
MULTIKUEUE: Final = "multikueue"  # the ClusterPermission, the ManagedServiceAccount, the token's Secret
SCORE: Final = "resource-usage-score"
LEASE: Final = "managed-cluster-lease"
LOCAL: Final = "local-cluster"  # the label, and the name, of the hub itself
SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
CLUSTER_NAMESPACE_LABEL: Final = "cluster.open-cluster-management.io/managedCluster"
PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"

UNREACHABLE: Final = "cluster.open-cluster-management.io/unreachable"
UNAVAILABLE: Final = "cluster.open-cluster-management.io/unavailable"

ACCEPTED: Final = "HubAcceptedManagedCluster"
JOINED: Final = "ManagedClusterJoined"
AVAILABLE: Final = "ManagedClusterConditionAvailable"

IMPORT_SECRET: Final = "auto-import-secret"  # RHACM's name for the kubeconfig a cluster is imported with
AGENT_SECRET: Final = "klusterlet-work-kubeconfig"  # what is kept of it: the agent's own, lesser credential
AGENT_NAMESPACE: Final = "open-cluster-management-agent"
AGENT_ACCOUNT: Final = "klusterlet-work-sa"
ADD_ON_NAMESPACE: Final = "open-cluster-management-agent-addon"

MULTIKUEUE_CHECK: Final = "kueue.x-k8s.io/multikueue"
PLACEMENT_CHECK: Final = "open-cluster-management.io/placement"
MIRRORED: Final = "gpuaas.dev/mirrored-from-hub"  # label of what the hub keeps on a worker


def kubeconfig_secret(cluster: str) -> str:
    return f"multikueue-{cluster}"


def is_local(cluster: Mapping[str, Any]) -> bool:
    """Whether the ManagedCluster is the hub itself."""
    return (cluster["metadata"].get("labels") or {}).get(LOCAL) == "true"


def is_accepted(cluster: Mapping[str, Any]) -> bool:
    return bool((cluster.get("spec") or {}).get("hubAcceptsClient"))


def condition_of(obj: Mapping[str, Any] | None, kind: str) -> Object | None:
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), None)


def status_of(obj: Mapping[str, Any] | None, kind: str) -> str:
    """`True`, `False`, `Unknown`, or empty where the condition is missing."""
    found = condition_of(obj, kind)
    return str(found.get("status", "")) if found is not None else ""


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def with_conditions(before: Iterable[Object] | None, wanted: Sequence[Object], now: float) -> list[Object]:
    """The conditions with the wanted ones in their places; a time moves only where a status changes."""
    found = {each["type"]: each for each in before or ()}
    for each in wanted:
        known = found.get(each["type"])
        since = known.get("lastTransitionTime") if known and known["status"] == each["status"] else None
        found[each["type"]] = {**each, "lastTransitionTime": since or rfc3339(now)}
    return list(found.values())
