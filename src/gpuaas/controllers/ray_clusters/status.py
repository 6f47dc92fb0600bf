"""The status of a Ray cluster: state, counts, resources and conditions, with KubeRay's reasons and messages. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.quantity import ZERO, Quantity, parse_quantity
from gpuaas.client.protocol import Object
from gpuaas.controllers.ray_clusters.pods import HEAD, NODE_TYPE, groups_of, service_name, wanted_workers
from gpuaas.runtime.metadata import labels_of
from gpuaas.runtime.pods import condition_of, is_ready, phase_of
from gpuaas.runtime.values import without_zeros

READY, SUSPENDED = "ready", "suspended"
_MOST = 2_147_483_647
_ENDPOINTS = {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080", "serve": "8000"}

View = Mapping[str, Any]


def is_suspending(cluster: View) -> bool:
    """Once begun, a suspension is carried through, even if it is taken back meanwhile."""
    found = condition_of(cluster, "RayClusterSuspending")
    return found is not None and found["status"] == "True"


def is_suspended(cluster: View) -> bool:
    found = condition_of(cluster, "RayClusterSuspended")
    return found is not None and found["status"] == "True"


def decide_status(cluster: View, pods: Sequence[View], service: View | None, failure: str, now: float) -> Object:
    """`pods` are all there are, leaving ones included."""
    old = cluster.get("status") or {}
    spec = cluster["spec"]
    workers = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) != HEAD]
    head = next((pod for pod in pods if labels_of(pod).get(NODE_TYPE) == HEAD), None)
    wanted = sum(map(wanted_workers, groups_of(cluster)))
    all_ready = len(pods) == wanted + 1 and all(phase_of(pod) == "Running" and is_ready(pod) for pod in pods)
    state = old.get("state", "")
    if all_ready and not failure:
        state = READY
    if spec.get("suspend") and not pods:
        state = SUSPENDED
    status: Object = {
        "state": state,
        "reason": old.get("reason", "") if not all_ready else "",
        "desiredWorkerReplicas": wanted,
        "minWorkerReplicas": sum((one.get("minReplicas") or 0) * _hosts(one) for one in _active(cluster)),
        "maxWorkerReplicas": min(sum(_most(one) * _hosts(one) for one in _active(cluster)), _MOST),
        "availableWorkerReplicas": sum(phase_of(pod) == "Running" for pod in workers),
        "readyWorkerReplicas": sum(phase_of(pod) == "Running" and is_ready(pod) for pod in workers),
        "head": _head(cluster, head, service),
        "endpoints": dict(_ENDPOINTS),
        "observedGeneration": cluster["metadata"].get("generation"),
        "conditions": _conditions(cluster, pods, head, all_ready, failure, now),
        **_resources(cluster),
    }
    times = dict(old.get("stateTransitionTimes") or {})
    if state != old.get("state", "") and state:
        times[state] = rfc3339(now)
    status["stateTransitionTimes"] = times
    kept = without_zeros(status, "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
    before = {key: value for key, value in old.items() if key != "lastUpdateTime"}
    kept["lastUpdateTime"] = old.get("lastUpdateTime") if kept == before else rfc3339(now)
    return kept


def _conditions(
    cluster: View, pods: Sequence[View], head: View | None, all_ready: bool, failure: str, now: float
) -> list[Object]:
    conditions = _Conditions(cluster, now)
    if failure:
        conditions.put("ReplicaFailure", "True", "FailedCreate", failure)
    else:
        conditions.drop("ReplicaFailure")
    if head is None:
        conditions.put("HeadPodReady", "False", "HeadPodNotFound", "Head Pod not found")
    else:
        conditions.put("HeadPodReady", *_head_ready(head))
    if not conditions.holds("RayClusterProvisioned") and not is_suspended(cluster):
        if all_ready:
            words = ("True", "AllPodRunningAndReadyFirstTime", "All Ray Pods are ready for the first time")
        else:
            words = ("False", "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for first time")
        conditions.put("RayClusterProvisioned", *words)
    wanted = bool(cluster["spec"].get("suspend"))
    if is_suspending(cluster):
        if not pods:
            words = ("False", "RayClusterPodsProvisioning", "RayCluster has been suspended")
            conditions.put("RayClusterProvisioned", *words)
            conditions.put("RayClusterSuspending", "False", "RayClusterSuspending")
            conditions.put("RayClusterSuspended", "True", "RayClusterSuspended")
    elif is_suspended(cluster):
        if not wanted:
            conditions.put("RayClusterSuspended", "False", "RayClusterSuspended")
    else:
        conditions.put("RayClusterSuspended", "False", "RayClusterSuspended")
        conditions.put("RayClusterSuspending", "True" if wanted else "False", "RayClusterSuspending")
    return conditions.all()


def _head_ready(head: View) -> tuple[str, str, str]:
    found = condition_of(head, "Ready")
    if found is None:
        return "False", "Unknown", ""
    ready = found["status"] == "True"
    message = found.get("message", "")
    if ready or found.get("reason") != "ContainersNotReady":
        reason = found.get("reason") or ("HeadPodRunningAndReady" if ready else "Unknown")
        return str(found["status"]), reason, message
    for one in (head.get("status") or {}).get("containerStatuses") or ():
        state = (one.get("state") or {}).get("waiting") or (one.get("state") or {}).get("terminated")
        if state:
            return "False", state["reason"], f"{message}; {one['name']}: {state.get('message', '')}"
    return "False", "ContainersNotReady", message


class _Conditions:
    def __init__(self, cluster: View, now: float) -> None:
        self._found = {one["type"]: dict(one) for one in (cluster.get("status") or {}).get("conditions") or ()}
        self._now = rfc3339(now)

    def put(self, kind: str, status: str, reason: str, message: str = "") -> None:
        before = self._found.get(kind)
        since = before["lastTransitionTime"] if before is not None and before["status"] == status else self._now
        self._found[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }

    def drop(self, kind: str) -> None:
        self._found.pop(kind, None)

    def holds(self, kind: str) -> bool:
        return self._found.get(kind, {}).get("status") == "True"

    def all(self) -> list[Object]:
        return list(self._found.values())


def _head(cluster: View, head: View | None, service: View | None) -> Object:
    status = (head or {}).get("status") or {}
    found = {
        "podIP": status.get("podIP", ""),
        "podName": head["metadata"]["name"] if head is not None else "",
        "serviceName": service_name(cluster) if service is not None else "",
        "serviceIP": _service_address(service, status.get("podIP", "")),
    }
    return without_zeros(found)


def _service_address(service: View | None, pod: str) -> str:
    address = ((service or {}).get("spec") or {}).get("clusterIP", "")
    return pod if address == "None" else str(address)


def _resources(cluster: View) -> Object:
    totals: dict[str, Quantity] = {}
    _add(totals, cluster["spec"]["headGroupSpec"]["template"], 1)
    for group in groups_of(cluster):
        _add(totals, group["template"], wanted_workers(group))
    cards = [amount for name, amount in totals.items() if name.endswith("gpu")]
    return {
        "desiredCPU": str(totals.get("cpu", ZERO)),
        "desiredMemory": str(totals.get("memory", ZERO)),
        "desiredGPU": str(sum(cards, ZERO)),
        "desiredTPU": str(totals.get("google.com/tpu", ZERO)),
    }


def _add(totals: dict[str, Quantity], template: View, times: int) -> None:
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            totals[name] = totals.get(name, ZERO) + parse_quantity(amount) * times


def _active(cluster: View) -> list[View]:
    return [one for one in groups_of(cluster) if not one.get("suspend")]


def _hosts(group: View) -> int:
    return int(group.get("numOfHosts") or 1)


def _most(group: View) -> int:
    most = group.get("maxReplicas")
    return _MOST if most is None else int(most)
