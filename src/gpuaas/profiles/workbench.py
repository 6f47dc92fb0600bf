"""What a workbench's Kueue Workload means to its user: a state, its label, and a sentence.

The states in order of precedence, as the dashboard shows them; the first that holds wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.profiles.paths import Object

_LONGEST: Final = (
    2_000  # characters of a message that are read; what a pattern of two words costs grows with their square
)
_FAILURE: Final = re.compile(r"error|failed|rejected|timeout|timed out")
_SUCCESS: Final = re.compile(r"success|succeeded")
_QUOTA: Final = re.compile(r"insufficient unused quota|quota.*exceed|exceed.*quota", re.IGNORECASE)
_FLAVOR: Final = re.compile(r"flavor", re.IGNORECASE)
_ABSENT: Final = r"(?:not\s*(?:found|exist|existing)|does(?:n't| not)\s+exist)"
_NO_QUEUE: Final = re.compile(
    rf"\b(?:cluster|local)?queue\b.*{_ABSENT}|{_ABSENT}.*\b(?:cluster|local)?queue\b", re.IGNORECASE
)
_TIMEOUT: Final = re.compile(r"timed?\s*out|timeout", re.IGNORECASE)
_EVICTED: Final = (
    (re.compile(r"clusterqueue.*stop|stop.*clusterqueue", re.IGNORECASE), "queue was stopped"),
    (re.compile(r"deactivat", re.IGNORECASE), "workload was deactivated"),
    (re.compile(r"admission\s*check", re.IGNORECASE), "admission check failed"),
)
_KNOWN: Final = frozenset(
    ("Finished", "Evicted", "Preempted", "QuotaReserved", "PodsReady", "Admitted", "BlockedOnPreemptionGates")
)
LABELS: Final[Mapping[str, str]] = {
    "AdmissionCheck": "Admission check",
    "BlockedOnPreemptionGates": "Blocked on preemption",
    "Admitted": "Starting",
}
_IN: Final = frozenset(("Admitted", "Running", "Complete"))


@dataclass(frozen=True, slots=True)
class State:
    status: str
    message: str | None = None
    timestamp: str | None = None
    attempt: int | None = None  # of a workload that was queued again, with the time of its next try
    retry_at: str | None = None

    @property
    def label(self) -> str:
        return LABELS.get(self.status, self.status)


def state_of(workload: Object) -> State:
    status: Mapping[str, Any] = workload.get("status") or {}
    conditions: list[Mapping[str, Any]] = list(status.get("conditions") or ())
    found = next(((name, c) for name, c in _candidates(conditions, status) if c is not None), None)
    if found is None:
        unknown = next((c for c in conditions if _speaks(c)), None)
        return State("Queued", _message(unknown), unknown.get("lastTransitionTime")) if unknown else State("Queued")
    name, condition = found
    if name == "Admitted" and (check := _blocking(status.get("admissionChecks") or ())) is not None:
        return State("AdmissionCheck", check.get("message") or check.get("name"), check.get("lastTransitionTime"))
    requeue = status.get("requeueState") or {}
    again = (int(requeue.get("count") or 0), requeue.get("requeueAt")) if name == "Requeued" else (None, None)
    return State(name, _message(condition), condition.get("lastTransitionTime"), *again)


def _candidates(
    conditions: Sequence[Mapping[str, Any]], status: Mapping[str, Any]
) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Every state with the condition that speaks for it, first match first."""
    finished = [c for c in conditions if c.get("type") == "Finished" and c.get("status") == "True"]
    failed = next((c for c in finished if _FAILURE.search(_words(c))), None)
    ended = [c for c in finished if not _FAILURE.search(_words(c))]
    complete = next((c for c in ended if _SUCCESS.search(_words(c))), ended[0] if ended else None)
    evicted = _holds(conditions, "Evicted")
    waiting = next((c for c in conditions if c.get("type") == "QuotaReserved" and c.get("status") == "False"), None)
    return [
        ("Failed", failed),
        (_eviction(evicted, status), evicted),
        ("Inadmissible", next((c for c in conditions if _inadmissible(c)), None)),
        ("BlockedOnPreemptionGates", _holds(conditions, "BlockedOnPreemptionGates")),
        ("Preempted", _holds(conditions, "Preempted")),
        ("Complete", complete),
        ("Running", _holds(conditions, "PodsReady")),
        ("Admitted", _holds(conditions, "Admitted")),
        ("Queued", waiting),
    ]


def _words(condition: Mapping[str, Any]) -> str:
    return f"{condition.get('message') or ''} {condition.get('reason') or ''}".lower()


def _holds(conditions: Sequence[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    return next((c for c in conditions if c.get("type") == type_ and c.get("status") == "True"), None)


def _inadmissible(condition: Mapping[str, Any]) -> bool:
    wanted = ("QuotaReserved", "False", "Inadmissible")
    return (condition.get("type"), condition.get("status"), condition.get("reason")) == wanted


def _eviction(condition: Mapping[str, Any] | None, status: Mapping[str, Any]) -> str:
    reason = condition.get("reason") if condition else None
    if reason == "Preempted":
        return "Preempted"
    return "Requeued" if reason == "PodsReadyTimeout" and status.get("requeueState") is not None else "Evicted"


def _message(condition: Mapping[str, Any]) -> str | None:
    return (condition.get("message") or condition.get("reason") or "").strip() or None


def _speaks(condition: Mapping[str, Any]) -> bool:
    text = condition.get("message") or condition.get("reason")
    return condition.get("status") == "True" and condition.get("type") not in _KNOWN and bool(text)


def _blocking(checks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((check for check in checks if check.get("state") in ("Pending", "Retry")), None)


# -- Sentences ----------------------------------------------------------------------------------------------------------


def sentence(state: State, queue: str | None = None) -> str:
    where, text = queue or "the queue", (state.message or "").strip()[:_LONGEST]
    match state.status:
        case "Queued":
            about_quota = not text or _QUOTA.search(text) or _FLAVOR.search(text)
            return f"Waiting for quota in {where}" if about_quota else "Waiting for available resources"
        case "Failed":
            return _failed(text, where)
        case "Preempted":
            return "Paused by a higher-priority job"
        case "Evicted":
            known = next((words for pattern, words in _EVICTED if pattern.search(text)), text)
            return f"Evicted: {known}" if known else "Evicted from the queue"
        case "Requeued":
            return _requeued(state)
        case "Inadmissible":
            return _refused(text, where)
        case "AdmissionCheck":
            return f"Waiting for admission check: {text}" if text else "Waiting for admission check to complete"
        case "BlockedOnPreemptionGates":
            return "Admitted but waiting for preemption gates to clear"
        case status:
            return text or status


def _failed(text: str, queue: str) -> str:
    if _NO_QUEUE.search(text):
        return f"Queue {queue} does not exist"
    if _TIMEOUT.search(text):
        return "Queue timed out"
    return f"Exceeded quota for {queue}" if not text or _QUOTA.search(text) else text


def _refused(text: str, queue: str) -> str:
    if not text:
        return f"Unable to admit workload to {queue}"
    if _NO_QUEUE.search(text):
        return f"Queue {queue} does not exist"
    return f"Exceeded quota for {queue}" if _QUOTA.search(text) or _FLAVOR.search(text) else text


def _requeued(state: State) -> str:
    parts = [f"attempt {state.attempt}"] if state.attempt else []
    parts += [f"next retry at {state.retry_at}"] if state.retry_at else []
    return f"Re-queued ({', '.join(parts)})" if parts else "Re-queued, waiting to retry"


def step(state: State, queue: str | None = None, position: int | None = None, *, again: bool = False) -> str:
    """The line of the progress list. `again`: the workbench waits after it had run."""
    if state.status in _IN:
        return "Admitted to queue"
    text = sentence(state, queue)
    if state.status != "Queued":
        return text
    place = f" (position {position})" if position is not None else ""
    return f"Re-queued: {text}{place}" if again else f"{text}{place}"
