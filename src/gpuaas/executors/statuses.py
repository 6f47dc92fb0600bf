"""A pod's status as a kubelet writes it: creating, running, resting between two runs, ended, refused. Pure.

Conditions that others wrote (DisruptionTarget and the like) stay; a condition keeps its time while its status does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.client.protocol import Object

View = Mapping[str, Any]
_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_NOT_READY = "ContainersNotReady"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""
    started: float | None = None
    finished: float | None = None


def creating(pod: View, host: str, now: float, reason: str = "ContainerCreating", message: str = "") -> Object:
    if reason == "ContainerCreating" and _init(pod):
        reason = "PodInitializing"
    waiting = {"reason": reason, **({"message": message} if message else {})}
    containers = [_container(pod, one, {"waiting": waiting}) for one in _containers(pod)]
    status = _status(pod, "Pending", host, now, containers, ready=False)
    if _init(pod):
        status["initContainerStatuses"] = [
            _container(pod, one, {"waiting": {"reason": "PodInitializing"}}) for one in _init(pod)
        ]
    return status


def unconfigured(pod: View, host: str, now: float, failing: Mapping[str, str]) -> Object:
    """Some containers cannot be created as they are configured, each with its reason; the others wait with them."""
    status = creating(pod, host, now)
    inits = status.get("initContainerStatuses") or []
    if not any(one["name"] in failing for one in inits):
        done = {"terminated": _terminated(Ending(0), now)}
        status |= (
            {"initContainerStatuses": [_container(pod, one, done, ready=True) for one in _init(pod)]} if inits else {}
        )
        for one in status["containerStatuses"]:
            one["state"] = {"waiting": {"reason": "ContainerCreating"}}
    for one in (*inits, *status["containerStatuses"]):
        if one["name"] in failing:
            one["state"] = {"waiting": {"reason": "CreateContainerConfigError", "message": failing[one["name"]]}}
    return status


def running(
    pod: View,
    host: str,
    address: str,
    started: float,
    restarts: int = 0,
    *,
    ready: bool = True,
    now: float | None = None,
) -> Object:
    """`now`: where that is not the moment they started."""
    state, known = {"running": {"startedAt": rfc3339(started)}}, _known(pod)
    containers = [
        _container(pod, one, state, ready=ready, restarts=restarts, last=_last_state(known, one["name"]), started=True)
        for one in _containers(pod)
    ]
    status = _status(pod, "Running", host, started if now is None else now, containers, ready=ready)
    if _init(pod):
        done = {"terminated": _terminated(Ending(0, started=started, finished=started), started)}
        status["initContainerStatuses"] = [_container(pod, one, done, ready=True) for one in _init(pod)]
    status["podIP"], status["podIPs"] = address, [{"ip": address}]
    return status


def seconds_left(pod: View, now: float, speed: float = 1.0) -> float:
    """Until the deadline of a pod that has one, counted from when it was taken on."""
    deadline, begun = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    if deadline is None:
        return math.inf
    return (parse_rfc3339(begun) if begun else now) + float(deadline) / speed - now


def overdue(pod: View, host: str, now: float, endings: Mapping[str, Ending]) -> Object:
    """Ended because it ran for longer than it may."""
    reason, message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
    return {**ended(pod, host, now, endings), "phase": "Failed", "reason": reason, "message": message}


def stuck(
    pod: View, host: str, now: float, failing: str, ending: Ending, restarts: int = 0, pause: float | None = None
) -> Object:
    """An init container failed. `pause`: until it is tried again; without one the pod is over."""
    waiting: Object = {"waiting": {"reason": "PodInitializing"}}
    done = {"terminated": _terminated(Ending(0, started=ending.started, finished=ending.started), now)}
    failed = {"terminated": _terminated(ending, now)}
    containers = [_container(pod, one, waiting) for one in _containers(pod)]
    status = _status(pod, "Failed" if pause is None else "Pending", host, now, containers, ready=False)
    inits, seen = [], False
    for one in _init(pod):
        if one["name"] == failing:
            seen = True
            inits.append(_failed_init(pod, one, failed, restarts, pause))
        else:
            inits.append(_container(pod, one, waiting) if seen else _container(pod, one, done, ready=True))
    status["initContainerStatuses"] = inits
    names = " ".join(one["name"] for one in inits if not one["ready"])
    for condition in status["conditions"]:
        if condition["type"] == "Initialized":
            message = f"containers with incomplete status: [{names}]"
            condition |= {"status": "False", "reason": "ContainersNotInitialized", "message": message}
    return status


def _failed_init(pod: View, container: View, failed: Object, restarts: int, pause: float | None) -> Object:
    if pause is None:
        return _container(pod, container, failed, started=False)
    message = f"back-off {pause:.0f}s restarting failed container={container['name']} pod={pod['metadata']['name']}"
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    return _container(pod, container, state, restarts=restarts, last=failed, started=False)


def followed(pod: View, now: float) -> Object:
    """The status with what came to the spec of a running pod: that it was seen, and containers added to look inside."""
    status = dict(pod.get("status") or {})
    if "generation" in pod["metadata"]:
        status["observedGeneration"] = pod["metadata"]["generation"]
    known = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    ready, sandbox = known.get("ContainersReady") == "True", known.get("PodReadyToStartContainers") == "True"
    status["conditions"] = _conditions(pod, now, ready=ready, sandbox=sandbox)
    return _with_added(pod, status, now)


def is_behind(pod: View) -> bool:
    """Whether the status does not say yet what came to the pod since it was written."""
    status = pod.get("status") or {}
    if status.get("observedGeneration") != pod["metadata"].get("generation"):
        return True
    if pod["spec"].get("readinessGates"):
        known = {one["type"]: one for one in status.get("conditions") or ()}
        words = known.get("Ready", {}).get("message", "")
        if "ContainersReady" in known and known["ContainersReady"]["status"] == "True" and words != _gates(pod, known):
            return True
    added = pod["spec"].get("ephemeralContainers")
    return bool(added) and len(added) != len(status.get("ephemeralContainerStatuses") or ())


def _with_added(pod: View, status: Object, now: float) -> Object:
    added = pod["spec"].get("ephemeralContainers") or ()
    known = {one["name"]: one for one in status.get("ephemeralContainerStatuses") or ()}
    if len(added) > len(known):
        state = {"running": {"startedAt": rfc3339(now)}}
        made = [known.get(one["name"]) or _container(pod, one, state, started=False) for one in added]
        status["ephemeralContainerStatuses"] = made
    return status


def resting(pod: View, host: str, now: float, ending: Ending, restarts: int, pause: float) -> Object:
    """Ended, to be started again after a pause."""
    name = pod["metadata"]["name"]
    message = f"back-off {pause:.0f}s restarting failed container in pod {name}"
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    last = {"terminated": _terminated(ending, now)}
    containers = [_container(pod, one, waiting, restarts=restarts, last=last) for one in _containers(pod)]
    return _status(pod, "Running", host, now, containers, ready=False)


def ended(pod: View, host: str, now: float, endings: Mapping[str, Ending]) -> Object:
    """Every container is over. One without an ending never ran."""
    failed = any(one.exit_code for one in endings.values()) or not endings
    containers, known = [], _known(pod)
    for one in _containers(pod):
        ending = endings.get(one["name"], Ending(137, "ContainerStatusUnknown"))
        state = {"terminated": _terminated(ending, now)}
        containers.append(
            _container(pod, one, state, restarts=int(known.get(one["name"], {}).get("restartCount", 0)), started=False)
        )
    status = _status(pod, "Failed" if failed else "Succeeded", host, now, containers, ready=False)
    if not failed:
        for condition in status["conditions"]:
            if condition["type"] in ("Initialized", "Ready", "ContainersReady"):
                condition.pop("message", None)
                condition["reason"] = "PodCompleted"
    return status


def refused(pod: View, reason: str, message: str, now: float) -> Object:
    """A pod the node does not take at all."""
    status = dict(pod.get("status") or {})
    if "generation" in pod["metadata"]:
        status["observedGeneration"] = pod["metadata"]["generation"]
    return {**status, "phase": "Failed", "reason": reason, "message": message, "startTime": rfc3339(now)}


def _status(pod: View, phase: str, host: str, now: float, containers: Sequence[Object], *, ready: bool) -> Object:
    status = dict(pod.get("status") or {})
    if "generation" in pod["metadata"]:
        status["observedGeneration"] = pod["metadata"]["generation"]
    status["phase"] = phase
    status["conditions"] = _conditions(pod, now, ready=ready, sandbox=phase == "Running")
    status["hostIP"], status["hostIPs"] = host, [{"ip": host}]
    status.setdefault("startTime", rfc3339(now))
    status["containerStatuses"] = list(containers)
    return status


def _conditions(pod: View, now: float, *, ready: bool, sandbox: bool) -> list[Object]:
    known = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    names = " ".join(one["name"] for one in _containers(pod))
    unready = {} if ready else {"reason": _NOT_READY, "message": f"containers with unready status: [{names}]"}
    gates = _gates(pod, known) if ready else ""
    closed = {"reason": "ReadinessGatesNotReady", "message": gates} if gates else unready
    waiting = not sandbox and bool(_init(pod)) and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    wanted: dict[str, tuple[str, Object]] = {
        "PodReadyToStartContainers": ("True" if sandbox else "False", {}),
        "Initialized": ("False" if waiting else "True", {}),
        "Ready": ("True" if ready and not gates else "False", closed),
        "ContainersReady": ("True" if ready else "False", unready),
        "PodScheduled": ("True", {}),  # also of a pod that was bound without a scheduler
    }
    made: list[Object] = []
    seen = {"observedGeneration": pod["metadata"]["generation"]} if "generation" in pod["metadata"] else {}
    for kind in _OURS:
        status, words = wanted[kind]
        before = known.get(kind)
        same = before is not None and before["status"] == status
        since = before.get("lastTransitionTime", rfc3339(now)) if before is not None and same else rfc3339(now)
        made.append(
            {"type": kind, **seen, "status": status, "lastProbeTime": None, "lastTransitionTime": since, **words}
        )
    return [*made, *(one for name, one in known.items() if name not in _OURS)]


def _gates(pod: View, known: Mapping[str, View]) -> str:
    """What others have not said yet of a pod that waits for their word before it is ready."""
    messages = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in known:
            messages.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif known[name]["status"] != "True":
            messages.append(f'the status of pod readiness gate "{name}" is not "True", but {known[name]["status"]}')
    return ", ".join(messages)


def _container(
    pod: View,
    container: View,
    state: Object,
    *,
    ready: bool = False,
    restarts: int = 0,
    last: Object | None = None,
    started: bool | None = None,
) -> Object:
    made: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "started": ready if started is None else started,
        "state": state,
        "lastState": last or {},
    }
    if "waiting" not in state:
        made["imageID"] = container.get("image", "")
        made["containerID"] = _container_id(pod, container["name"])
    return made


def _terminated(ending: Ending, now: float) -> Object:
    started = now if ending.started is None else ending.started
    finished = now if ending.finished is None else ending.finished
    made: Object = {
        "exitCode": ending.exit_code,
        "reason": ending.reason or ("Error" if ending.exit_code else "Completed"),
        "startedAt": rfc3339(started),
        "finishedAt": rfc3339(finished),
    }
    if ending.message:
        made["message"] = ending.message
    return made


def _container_id(pod: View, name: str) -> str:
    return f"gpuaas://{pod['metadata'].get('uid', '')}/{name}"


def _known(pod: View) -> Mapping[str, View]:
    """The states of its containers so far, by name."""
    return {one["name"]: one for one in (pod.get("status") or {}).get("containerStatuses") or ()}


def _last_state(known: Mapping[str, View], name: str) -> Object:
    """What the state before was, if the container has ended once."""
    one = known.get(name, {})
    state = one.get("state") or {}
    found: Object = state if "terminated" in state else one.get("lastState") or {}
    return found


def _containers(pod: View) -> Sequence[View]:
    found: Sequence[View] = pod["spec"].get("containers") or ()
    return found


def _init(pod: View) -> Sequence[View]:
    found: Sequence[View] = pod["spec"].get("initContainers") or ()
    return found
