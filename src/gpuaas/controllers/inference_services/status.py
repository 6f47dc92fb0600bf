"""The status of an InferenceService, from its Deployment and pods. Pure.

`url` stays empty, because no address of the control plane leads to a pod; the message of a ready service names the
command that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.client.protocol import Object
from gpuaas.controllers.inference_services.wanted import PORT, Problem, is_stopped, predictor_name, replicas_of
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.runtime.metadata import labels_of
from gpuaas.runtime.pods import condition_of, is_active, is_ready, phase_of

View = Mapping[str, Any]
_GATE: Final = "kueue.x-k8s.io/admission"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_BROKEN: Final = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "CreateContainerConfigError",
    "RunContainerError",
)
_LONGEST: Final = 1000  # characters of a pod's message
Finding = tuple[bool, str, str]
"""(whether it is ready, reason, message)"""


def wanted_status(
    service: View, problem: Problem | None, deployment: View | None, pods: Iterable[View], now: str
) -> Object:
    active = sorted((each for each in pods if is_active(each)), key=lambda each: str(each["metadata"]["name"]))
    wanted, ready = replicas_of(service), sum(map(is_ready, active))
    found = judge(service, problem, deployment, active)
    stopped = is_stopped(service)
    state = _stopped_state(stopped, len(active))
    conditions = {"PredictorReady": found, "Ready": found, "Stopped": state}
    before = {each["type"]: each for each in (service.get("status") or {}).get("conditions") or ()}
    return {
        "conditions": [_condition(before.get(kind), kind, finding, now) for kind, finding in conditions.items()],
        "deploymentMode": "RawDeployment",
        "modelStatus": _model_status(found[1], problem, wanted, ready),
        "observedGeneration": service["metadata"].get("generation", 1),
    }


def judge(service: View, problem: Problem | None, deployment: View | None, pods: list[View]) -> Finding:
    wanted, ready = replicas_of(service), sum(map(is_ready, pods))
    if problem is not None:
        return False, problem.reason, problem.message
    if is_stopped(service):
        return False, "Stopped", "stopped by annotation serving.kserve.io/stop; remove it to start again"
    if wanted == 0:
        return False, "NoReplicas", "spec.predictor.minReplicas is 0: no pod runs until it is raised"
    counted = f"{min(ready, wanted)} of {wanted} replicas ready"
    if ready >= wanted and deployment is not None and _is_up_to_date(deployment):
        return True, "MinimumReplicasAvailable", f"{counted}; {_reach(service, pods)}"
    reason, why = _reason(deployment, [each for each in pods if not is_ready(each)])
    return False, reason, f"{counted}; {why}"


def _is_up_to_date(deployment: View) -> bool:
    status = deployment.get("status") or {}
    return bool(status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1))


def _reach(service: View, pods: list[View]) -> str:
    if any(map(_is_simulated, pods)):
        return "its pods are simulated, so nothing answers"
    namespace = service["metadata"]["namespace"]
    return f"reach it with: kubectl port-forward -n {namespace} service/{predictor_name(service)} {PORT}:80"


def _is_simulated(pod: View) -> bool:
    """Processes of this machine have container ids of the same form."""
    if pod["spec"].get("runtimeClassName") == PROCESS_CLASS:
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(str(one.get("containerID", "")).startswith("gpuaas://") for one in statuses)


def _reason(deployment: View | None, waiting: list[View]) -> tuple[str, str]:
    """What keeps the first pod: a broken container before a queue, a queue before a node."""
    for pod in waiting:
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            state = (one.get("state") or {}).get("waiting") or {}
            if state.get("reason") in _BROKEN:
                words = str(state.get("message") or f"container {one['name']} does not start")
                return str(state["reason"]), f"pod {pod['metadata']['name']}: {words[:_LONGEST]}"
    held = [pod for pod in waiting if any(gate["name"] == _GATE for gate in pod["spec"].get("schedulingGates") or ())]
    if held:
        queue = labels_of(held[0]).get(_QUEUE)
        asked = f"quota in LocalQueue {queue}" if queue else "admission by Kueue"
        return "WaitingForQuota", f"{_pods(len(held))} for {asked}"
    for pod in waiting:
        placed = condition_of(pod, "PodScheduled")
        if placed is not None and placed["status"] == "False":
            words = str(placed.get("message") or "no node takes it")
            return str(placed.get("reason") or "Unschedulable"), f"pod {pod['metadata']['name']}: {words[:_LONGEST]}"
    failure = condition_of(deployment or {}, "ReplicaFailure")
    if failure is not None and failure["status"] == "True":
        return str(failure.get("reason") or "ReplicaFailure"), str(failure.get("message") or "")[:_LONGEST]
    if any(phase_of(pod) == "Running" for pod in waiting):
        return "PodsNotReady", "containers run, but are not ready"
    return "Starting", "pods are being made" if not waiting else "containers are starting"


def _pods(count: int) -> str:
    return "1 pod waits" if count == 1 else f"{count} pods wait"


def _stopped_state(stopped: bool, left: int) -> Finding:
    if not stopped:
        return False, "Running", ""
    return left == 0, "Stopped" if left == 0 else "Stopping", ""


def _condition(before: View | None, kind: str, finding: Finding, now: str) -> Object:
    holds, reason, message = finding
    state = "True" if holds else "False"
    since = before["lastTransitionTime"] if before is not None and before.get("status") == state else now
    made = {"type": kind, "status": state, "reason": reason, "lastTransitionTime": since}
    return {**made, "message": message} if message else made


def _model_status(reason: str, problem: Problem | None, wanted: int, ready: int) -> Object:
    target = "Loaded" if wanted else "Standby"
    if problem is not None:
        failure = {"reason": "InvalidPredictorSpec", "message": problem.message}
        if problem.reason in ("RuntimeDisabled", "NoSupportingRuntime", "RuntimeNotRecognized"):
            failure["reason"] = problem.reason
        states = {"activeModelState": "", "targetModelState": "FailedToLoad"}
        return {"transitionStatus": "InvalidSpec", "states": states, "lastFailureInfo": failure}
    copies = {"failedCopies": 0, "totalCopies": ready}
    if reason in _BROKEN:
        active, change = "FailedToLoad", "BlockedByFailedLoad"
    elif wanted == 0:
        active, change = "Standby", "UpToDate"
    elif ready >= wanted:
        active, change = "Loaded", "UpToDate"
    else:
        active = "Loaded" if ready else "Pending" if reason == "WaitingForQuota" else "Loading"
        change = "InProgress"
    states = {"activeModelState": active, "targetModelState": target}
    return {"transitionStatus": change, "states": states, "copies": copies}
