"""What a notebook does, in ODH's order of precedence, with our sentences."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.profiles.notebook_state import BECAUSE, BY_KUEUE, STOPPED, is_stopped, state_of


def notebook(stopped: str = "", because: str = "") -> Any:
    notes = {key: text for key, text in ((STOPPED, stopped), (BECAUSE, because)) if text}
    return {"metadata": {"name": "nb", "annotations": notes}}


def workload(*conditions: tuple[str, str, str]) -> Any:
    listed = [{"type": kind, "status": status, "message": words, "reason": "R"} for kind, status, words in conditions]
    return {"status": {"conditions": listed}}


def pod(
    *, ready: bool = False, scheduled: str = "", phase: str = "Running", state: Any = None, last: Any = None
) -> Any:
    conditions = [{"type": "Ready", "status": str(ready)}]
    if scheduled:
        conditions.append({"type": "PodScheduled", "status": "False", "message": scheduled})
    one = {"name": "nb", "ready": ready, "state": state or {"running": {}}, "lastState": last or {}}
    return {"status": {"phase": phase, "conditions": conditions, "containerStatuses": [one]}}


ADMITTED = workload(("QuotaReserved", "True", ""), ("Admitted", "True", ""))
WAITING = workload(("QuotaReserved", "False", "insufficient unused quota for nvidia.com/gpu"))
PREEMPTED = workload(("Evicted", "True", "x"), ("Preempted", "True", "higher"))
CRASHED = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
ENDED_126 = {"terminated": {"exitCode": 126}}
CASES: dict[str, tuple[Any, Any, Any, str, str, bool]] = {
    "runs": (notebook(), ADMITTED, pod(ready=True), "Ready", "", False),
    "waits": (notebook(BY_KUEUE), WAITING, None, "Queued", "Waiting for quota in q", True),
    "not seen by the queue yet": (notebook(BY_KUEUE), None, None, "Queued", "it goes to queue q", True),
    "without a queue": (notebook(), None, pod(ready=True), "Ready", "", False),
    "preempted while its pod ends": (notebook(BY_KUEUE), PREEMPTED, pod(), "Evicted", "Evicted: x", True),
    "its pod is being made": (notebook(), ADMITTED, None, "Starting", "its pod is being made", False),
    "no node": (
        notebook(),
        ADMITTED,
        pod(phase="Pending", scheduled="0/2 nodes are available"),
        "Starting",
        "no node takes it: 0/2 nodes are available",
        False,
    ),
    "crashes": (notebook(), ADMITTED, pod(state=CRASHED), "Failed", "CrashLoopBackOff: back-off 10s", False),
    "no Jupyter": (
        notebook(),
        ADMITTED,
        pod(state=CRASHED, last=ENDED_126),
        "Failed",
        "Jupyter is not installed on this machine; install it:  pip install jupyterlab",
        False,
    ),
    "failed comes before the queue": (
        notebook(),
        WAITING,
        pod(state=CRASHED),
        "Failed",
        "CrashLoopBackOff: back-off 10s",
        False,
    ),
    "stopping": (notebook("2026-01-01T00:00:00Z"), WAITING, pod(ready=True), "Stopping", "it ends what runs", False),
    "stopped": (
        notebook("2026-01-01T00:00:00Z"),
        WAITING,
        None,
        "Stopped",
        "since 2026-01-01T00:00:00Z; it holds no CPU or GPU",
        False,
    ),
    "stopped for idleness": (
        notebook("2026-01-01T00:00:00Z", "idle for 60 minutes"),
        None,
        None,
        "Stopped",
        "since 2026-01-01T00:00:00Z (idle for 60 minutes); it holds no CPU or GPU",
        False,
    ),
}


@pytest.mark.parametrize(("nb", "work", "its_pod", "state", "words", "waits"), CASES.values(), ids=CASES.keys())
def test_states(nb: Any, work: Any, its_pod: Any, state: str, words: str, waits: bool) -> None:
    found = state_of(nb, work, its_pod, "q")
    assert (found.state, found.sentence, found.waits) == (state, words, waits)


@pytest.mark.parametrize(
    ("value", "stopped"), [("", False), (BY_KUEUE, False), ("odh-notebook-controller-lock", False), ("now", True)]
)
def test_only_a_user_or_idleness_stops(value: str, stopped: bool) -> None:
    assert is_stopped(notebook(value)) is stopped
