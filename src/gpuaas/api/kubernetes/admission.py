"""What Kubernetes' own admission does to pods, services and nodes, as pure functions: the server brings the objects.

Limit ranges are in module limits, quotas in module quota_usage; their functions are named here too, so that the server
has one place to look.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from itertools import chain
from typing import Any, Final
from zlib import crc32

from gpuaas.api.kubernetes.limits import apply_limit_ranges, claim_limit_errors, fill_in_limits, pod_limit_errors
from gpuaas.api.kubernetes.quota_usage import charge_quotas, quota_usage
from gpuaas.api.kubernetes.rules.services import give_cluster_ip, wants_cluster_ip
from gpuaas.base.errors import Forbidden
from gpuaas.base.fielderrors import FieldError

__all__ = [
    "add_default_tolerations",
    "allocate_cluster_ip",
    "apply_limit_ranges",
    "charge_quotas",
    "claim_limit_errors",
    "fill_in_limits",
    "pod_limit_errors",
    "quota_usage",
    "resolve_priority",
    "taint_new_node",
    "use_service_account",
]

Object = dict[str, Any]
View = Mapping[str, Any]

SERVICE_NETWORK: Final = IPv4Network("10.96.0.0/16")
_FIRST_ADDRESS: Final = 10  # the ones below are kept for the service of the API server and the like
_TOKEN_SECONDS: Final = 3_607
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME_PREFIX: Final = "kube-api-access-"
_MIRROR: Final = "kubernetes.io/config.mirror"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def resolve_priority(pod: Object, classes: Mapping[str, View]) -> list[FieldError]:
    """Sets priority and preemptionPolicy from the pod's class or the default one. Raises Forbidden for an unknown one."""
    spec, name = pod["spec"], (pod.get("metadata") or {}).get("name", "")
    chosen = spec.get("priorityClassName")
    if chosen:
        if chosen not in classes:
            raise Forbidden("", "pods", name, f"no PriorityClass with name {chosen} was found")
        found: View | None = classes[chosen]
    else:
        defaults = [item for item in classes.values() if item.get("globalDefault")]
        found = min(defaults, key=lambda item: item.get("value", 0)) if defaults else None
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    priority = found.get("value", 0) if found else 0
    policy = (found.get("preemptionPolicy") if found else None) or "PreemptLowerPriority"
    _computed(pod, "priority", "integer value of priority", priority)
    _computed(pod, "preemptionPolicy", "string value of PreemptionPolicy", policy)
    return []


def add_default_tolerations(pod: Object) -> None:
    """A pod stays five minutes on a node that is not ready or cannot be reached, unless it says otherwise."""
    tolerations = list(pod["spec"].get("tolerations") or ())
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    pod["spec"]["tolerations"] = tolerations


def use_service_account(pod: Object, account: View, suffix: str) -> None:
    """The pod runs as `account`: its name, its token as a volume in every container, its pull secrets."""
    spec = pod["spec"]
    if _MIRROR in ((pod.get("metadata") or {}).get("annotations") or {}):
        return
    name = spec.get("serviceAccountName") or account["metadata"]["name"]
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    wish = spec.get("automountServiceAccountToken")
    if wish is None:
        wish = account.get("automountServiceAccountToken")
    if wish is not False:
        _mount_token(spec, suffix)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in account["imagePullSecrets"]]


def allocate_cluster_ip(service: Object, taken: set[str]) -> None:
    """A free address, for a service that needs one and has none. An address that the service names is kept as it is:
    nothing is routed to it here.

    The search begins at a position derived from the service's uid, so that an address is not reused at once.
    """
    if not wants_cluster_ip(service):
        return
    numbers = range(_FIRST_ADDRESS, SERVICE_NETWORK.num_addresses - 1)
    begin = crc32(str(service["metadata"].get("uid", "")).encode()) % len(numbers)
    for number in chain(numbers[begin:], numbers[:begin]):
        address = str(SERVICE_NETWORK[number])
        if address not in taken:
            give_cluster_ip(service, address)
            return
    raise Forbidden("", "services", service["metadata"].get("name", ""), "no cluster IP is free")


def taint_new_node(node: Object) -> None:
    """A node that has just come takes no pods until someone finds it ready."""
    spec = node.setdefault("spec", {})
    taints = list(spec.get("taints") or ())
    if not any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _computed(pod: Object, field: str, words: str, value: Any) -> None:
    given = pod["spec"].get(field)
    if given is not None and given != value:
        why = (
            f"the {words} ({given}) must not be provided in pod spec; priority admission controller computed {value}"
            " from the given PriorityClass name"
        )
        raise Forbidden("", "pods", (pod.get("metadata") or {}).get("name", ""), why)
    pod["spec"][field] = value


def _tolerates(toleration: View, key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


def _mount_token(spec: Object, suffix: str) -> None:
    names = [volume.get("name", "") for volume in spec.get("volumes") or ()]
    volume = next((name for name in names if name.startswith(_VOLUME_PREFIX)), f"{_VOLUME_PREFIX}{suffix}")
    needed = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.get("volumeMounts") or []
        if any(mount.get("mountPath") == _TOKEN_PATH for mount in mounts):
            continue
        container["volumeMounts"] = [*mounts, {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}]
        needed = True
    if needed and volume not in names:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": volume, "projected": _token_sources()}]


def _token_sources() -> Object:
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": certificate},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 0o644,
    }
