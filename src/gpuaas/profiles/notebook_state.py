"""What a notebook does, in one word and one sentence: its pod, its Workload and its annotations in ODH's order.

Failed (its pod) > Stopping > a state of its Workload > Starting > Ready > Stopped. A notebook its user stopped has no
state in the queue: its workload is deactivated by that very stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.profiles import workbench
from gpuaas.profiles.paths import Object, annotation

STOPPED: Final = "kubeflow-resource-stopped"
BY_KUEUE: Final = "kueue.x-k8s.io/suspended"
BECAUSE: Final = "gpuaas.dev/stopped-because"
_LOCK: Final = "odh-notebook-controller-lock"
_OF_THE_QUEUE: Final = frozenset(
    ("Queued", "Inadmissible", "Failed", "Preempted", "Evicted", "Requeued", "Complete", "AdmissionCheck")
)
_WAITS: Final = frozenset(("Queued", "Inadmissible", "Preempted", "Evicted", "Requeued", "AdmissionCheck"))
_BROKEN: Final = frozenset(
    (
        *("CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImagePull"),
        *("ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RunContainerError"),
    )
)
_NO_JUPYTER: Final = 126  # how the command of this machine's notebooks says that Jupyter is missing


@dataclass(frozen=True, slots=True)
class NotebookState:
    state: str
    sentence: str = ""
    waits: bool = False  # in its queue


def is_stopped(notebook: Object) -> bool:
    """By its user or for idleness: not by the queue, and not by the short lock at its creation."""
    return annotation(notebook, STOPPED) not in ("", BY_KUEUE, _LOCK)


def state_of(notebook: Object, workload: Object | None, pod: Object | None, queue: str) -> NotebookState:
    stopped = is_stopped(notebook)
    if pod is not None and not stopped and (trouble := _trouble(pod)):
        return NotebookState("Failed", trouble)
    if stopped:
        return NotebookState("Stopping", "it ends what runs") if pod is not None else _stopped(notebook)
    if workload is not None:
        queued = workbench.state_of(workload)
        if queued.status in _OF_THE_QUEUE:
            waits = queued.status in _WAITS
            return NotebookState(queued.label, workbench.sentence(queued, queue or None), waits)
    elif annotation(notebook, STOPPED) == BY_KUEUE:
        return NotebookState("Queued", f"it goes to queue {queue}", waits=True)
    if pod is not None and _is_ready(pod):
        return NotebookState("Ready")
    return NotebookState("Starting", _starting(pod))


def _stopped(notebook: Object) -> NotebookState:
    since, because = annotation(notebook, STOPPED), annotation(notebook, BECAUSE)
    return NotebookState("Stopped", f"since {since}{f' ({because})' if because else ''}; it holds no CPU or GPU")


def _statuses(pod: Object) -> list[Mapping[str, Any]]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _trouble(pod: Object) -> str:
    status = pod.get("status") or {}
    for one in _statuses(pod):
        ended = (one.get("state") or {}).get("terminated") or (one.get("lastState") or {}).get("terminated") or {}
        waiting = (one.get("state") or {}).get("waiting") or {}
        broken = waiting.get("reason") in _BROKEN
        if ended.get("exitCode") == _NO_JUPYTER and (broken or not one.get("ready")):
            return "Jupyter is not installed on this machine; install it:  pip install jupyterlab"
        if broken:
            code = f" (its program ended with exit code {ended['exitCode']})" if ended.get("exitCode") else ""
            return f"{waiting['reason']}: {waiting.get('message') or 'its program does not start'}{code}"
    if status.get("phase") == "Failed":
        return f"its pod failed: {status.get('message') or status.get('reason') or 'see its logs'}"
    return ""


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _starting(pod: Object | None) -> str:
    if pod is None:
        return "its pod is being made"
    conditions = (pod.get("status") or {}).get("conditions") or ()
    scheduled: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    if scheduled.get("status") == "False":
        return f"no node takes it: {scheduled.get('message') or scheduled.get('reason') or ''}"
    waiting = [(one.get("state") or {}).get("waiting") or {} for one in _statuses(pod)]
    said = next((one for one in waiting if one.get("reason")), None)
    return f"{said['reason']} {said.get('message', '')}".strip() if said is not None else "its program starts"
