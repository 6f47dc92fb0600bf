"""What the hub may do on a worker: MultiKueue's credential, and the agent's, which gives MultiKueue its own.

MultiKueue's is what its adapters call, the right to name the owner of a copy, and nothing else; the original's add-on grants less than Kueue 0.19 uses
(RayServices, updates of workloads), which keeps every cluster out. An account can only grant what it has, so the agent's
role contains MultiKueue's and needs neither `escalate` nor `bind`.
"""

from collections.abc import Iterable
from typing import Final

from gpuaas.client.protocol import Object

_COPIED: Final = ("create", "delete", "get", "list", "set-owner", "watch")
"""`set-owner`: what is copied to a worker stays the hub's user's (gpuaas.api.owner); other servers know no such verb."""
_READ: Final = ("get", "list", "watch")


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> Object:
    rule: Object = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule


MULTIKUEUE_RULES: Final = (
    _rule("batch", ["jobs"], [*_COPIED, "patch"]),
    _rule("batch", ["jobs/status"], ["get"]),
    _rule("", ["pods"], _COPIED),
    _rule("", ["pods/status", "pods/log"], ["get"]),
    _rule("apps", ["statefulsets"], _COPIED),
    _rule("apps", ["statefulsets/status"], ["get"]),
    _rule("leaderworkerset.x-k8s.io", ["leaderworkersets"], _COPIED),
    _rule("leaderworkerset.x-k8s.io", ["leaderworkersets/status"], ["get"]),
    _rule("jobset.x-k8s.io", ["jobsets"], _COPIED),
    _rule("jobset.x-k8s.io", ["jobsets/status"], ["get"]),
    _rule("kueue.x-k8s.io", ["workloads"], [*_COPIED, "patch", "update"]),
    _rule("kueue.x-k8s.io", ["workloads/status"], ["get", "patch", "update"]),
    _rule("kueue.x-k8s.io", ["clusterqueues", "localqueues"], _READ),
    _rule(
        "kubeflow.org",
        ["tfjobs", "paddlejobs", "pytorchjobs", "xgboostjobs", "jaxjobs", "mpijobs"],
        _COPIED,
    ),
    _rule(
        "kubeflow.org",
        [f"{kind}/status" for kind in ("tfjobs", "paddlejobs", "pytorchjobs", "xgboostjobs", "jaxjobs", "mpijobs")],
        ["get"],
    ),
    _rule("trainer.kubeflow.org", ["trainjobs"], _COPIED),
    _rule("trainer.kubeflow.org", ["trainjobs/status"], ["get"]),
    _rule("ray.io", ["rayjobs"], _COPIED),
    _rule("ray.io", ["rayclusters", "rayservices"], [*_COPIED, "patch", "update"]),
    _rule("ray.io", ["rayjobs/status", "rayclusters/status", "rayservices/status"], ["get"]),
    _rule("workload.codeflare.dev", ["appwrappers"], _COPIED),
    _rule("workload.codeflare.dev", ["appwrappers/status"], ["get"]),
)

HUB_LEASE_RULES: Final = (_rule("coordination.k8s.io", ["leases"], ["create", "get", "patch"]),)
"""In Kueue's namespace on the worker alone: the Lease by which a worker stops what it was sent when the hub is away."""

_KEPT: Final = ("create", "delete", "get", "list", "patch", "update")
AGENT_RULES: Final = (
    *MULTIKUEUE_RULES,
    *HUB_LEASE_RULES,
    # The accounts and roles of the add-on, and their tokens.
    _rule("", ["serviceaccounts"], ["create", "delete", "get", "patch"]),
    _rule("", ["serviceaccounts/token"], ["create"]),
    _rule("rbac.authorization.k8s.io", ["clusterroles", "clusterrolebindings", "roles", "rolebindings"], _KEPT),
    # What is mirrored.
    _rule("", ["namespaces"], ["create", "get", "list", "patch"]),
    _rule(
        "kueue.x-k8s.io",
        ["resourceflavors", "clusterqueues", "localqueues", "workloadpriorityclasses", "topologies"],
        _KEPT,
    ),
    # What the pod templates of dispatched jobs name.
    _rule("", ["configmaps", "secrets"], ["create", "get", "patch"]),
    _rule("", ["persistentvolumeclaims"], ["get"]),
    # What scores and the state of the cluster are read from.
    _rule("", ["nodes"], _READ),
)
