"""One job: what it went through and when, one reason why it is where it is, ways out, its pods, events and log.

Read through the API as the visitor, so whatever they may not see is missing and said to be missing; rows and the reason
come from `views`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import EVENTS, PODS
from gpuaas.kueue.explain.snapshot import Picture, pods_of, state_of
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.views.jobs import gpus_of
from gpuaas.views.snapshot import BETWEEN, FOLLOWED
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.svg import number

_COMMANDS: Final = ("gpuaas ", "kubectl ")
_IDENTITIES: Final = re.compile(r" ?\(UID: [^()]*\)")  # in messages of Kueue: the names stand elsewhere on the page
_EVENTS: Final = 30
_PODS: Final = 50
_LINES: Final = 40
_LONGEST_LINE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of a job's way."""

    what: str
    glyph: str
    at: str = ""
    note: str = ""
    done: bool = False
    now: bool = False


async def _load(visit: Visit) -> Context:
    where, kind, name = visit.parts["namespace"], visit.parts["kind"], visit.parts["name"]
    why = visit.views.why(visit.user, where, name, kind)
    workload_name = visit.views.workload_of(visit.user, where, kind, name)
    workload = await visit.api.get(WORKLOADS, workload_name, where)
    pods = await _pods(visit, workload)
    events = await _events(visit, where, {workload_name, name, *(pod["name"] for pod in pods or ())})
    spec = workload.get("spec") or {}
    admission = (workload.get("status") or {}).get("admission") or {}
    log = await _log(visit, where, pods) if pods else None
    row = next(iter(visit.views.pages.at(visit.user, where, workload_name)), None)
    return {
        "namespace": where,
        "kind": kind,
        "name": name,
        "row": row,
        "state": state_of(workload),
        "why": why,
        "ways": ways(why.get("waysOut") or ()),
        "gpus": number(float(gpus_of(spec))),
        "queue": (row.cluster_queue if row else "") or admission.get("clusterQueue", ""),
        "local_queue": spec.get("queueName", ""),
        "priority": spec.get("priority", 0),
        "priority_class": (spec.get("priorityClassRef") or {}).get("name", "") or spec.get("priorityClassName", ""),
        "phases": phases(workload),
        "pods": pods,
        "events": events,
        "log": log,
        "workload": workload_name,
    }


def ways(found: Sequence[str]) -> list[tuple[str, str]]:
    """Each way out as words and the command that takes it, either of which may be missing."""
    made = []
    for way in found:
        at = next((way.find(each) for each in _COMMANDS if each in way), -1)
        made.append((way, "") if at < 0 else (way[:at].rstrip(": "), way[at:]))
    return made


def phases(workload: Mapping[str, Any]) -> list[Phase]:
    """Submitted, quota, checks, placed, running, done: each with its time, or where it stands."""
    conditions, status = conditions_of(workload), workload.get("status") or {}
    reserved, admitted, ready = (is_true(conditions.get(name)) for name in ("QuotaReserved", "Admitted", "PodsReady"))
    finished = conditions.get("Finished")
    over = finished is not None and is_true(finished)
    checks = status.get("admissionChecks") or ()
    queue = (status.get("admission") or {}).get("clusterQueue", "")
    steps = [Phase("Submitted", "Succeeded", workload["metadata"]["creationTimestamp"], done=True)]
    steps += _evictions(conditions, reserved)
    now = not over
    steps.append(
        _step(
            "Quota", reserved or over, conditions.get("QuotaReserved"), f"of {queue}" if queue else "", "Pending", now
        )
    )
    now = now and reserved
    if checks:
        note = " · ".join(f"{each['name']}: {each['state']}" for each in checks)
        steps.append(
            _step(
                "Admission checks", admitted or over, conditions.get("Admitted"), note, "Reserved", now and not admitted
            )
        )
    steps.append(
        _step(
            "Admitted",
            admitted or over,
            conditions.get("Admitted"),
            "",
            "Reserved",
            now and not checks and not admitted,
        )
    )
    now = now and admitted
    steps.append(
        _step(
            "Pods ready",
            ready or (over and "PodsReady" in conditions),
            conditions.get("PodsReady"),
            "",
            "Admitted",
            now and not ready,
        )
    )
    if over:
        good = finished is not None and finished.get("reason") != "Failed"
        word = "Succeeded" if good else "Failed"
        at, note = (finished or {}).get("lastTransitionTime", ""), (finished or {}).get("message", "")
        steps.append(Phase(word, word, at, note, done=True, now=True))
    else:
        steps.append(Phase("Finished", "Running" if ready else "", "", "running" if ready else "", now=ready))
    return steps


def _step(what: str, done: bool, condition: Mapping[str, Any] | None, note: str, glyph: str, now: bool) -> Phase:
    if done:
        return Phase(what, "Succeeded", (condition or {}).get("lastTransitionTime", ""), note, done=True)
    words = shown_message(condition or {}) if now else ""
    words = "" if words.startswith("Preempted ") else words  # the step before says it
    return Phase(what, glyph if now else "", "", note or words, now=now)


def shown_message(condition: Mapping[str, Any]) -> str:
    return _IDENTITIES.sub("", str(condition.get("message", "")))


def _evictions(conditions: Mapping[str, Mapping[str, Any]], reserved: bool) -> Sequence[Phase]:
    """The last one: Kueue keeps no more."""
    found = conditions.get("Preempted") or conditions.get("Evicted")
    if found is None or (found.get("status") != "True" and reserved):
        return ()
    word = "Preempted" if found["type"] == "Preempted" else f"Evicted: {found.get('reason', '')}"
    return (Phase(word, "Evicted", found.get("lastTransitionTime", ""), shown_message(found), done=True),)


async def _pods(visit: Visit, workload: Object) -> list[dict[str, Any]] | None:
    where = workload["metadata"]["namespace"]
    if not visit.may("list", PODS, where):
        return None
    pods = list(await visit.api.list(PODS, where))
    owners: list[Object] = []
    for resource in BETWEEN:
        if visit.may("list", resource, where):
            try:
                owners += [{**each, "kind": resource.kind} for each in await visit.api.list(resource, where)]
            except ApiError:
                continue
    found = pods_of(Picture(pods=pods, owners=owners), workload)
    return [_pod(pod) for pod in found[:_PODS]]


def _pod(pod: Object) -> dict[str, Any]:
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    waiting = next(
        (each["state"]["waiting"].get("reason", "") for each in containers if (each.get("state") or {}).get("waiting")),
        "",
    )
    return {
        "name": pod["metadata"]["name"],
        "phase": status.get("phase", "Pending"),
        "node": (pod.get("spec") or {}).get("nodeName", ""),
        "restarts": sum(each.get("restartCount", 0) for each in containers),
        "started": status.get("startTime", ""),
        "note": status.get("reason", "") or waiting,
    }


async def _events(visit: Visit, where: str, names: set[str]) -> list[dict[str, Any]] | None:
    """The newest first, of the job, its Workload and its pods."""
    if not visit.may("list", EVENTS, where):
        return None
    found: list[Object] = []
    for name in sorted(names)[:12]:
        found += await visit.api.list(EVENTS, where, fields=f"involvedObject.name={name}", limit=_EVENTS)
    rows = [
        {
            "at": each.get("lastTimestamp") or each.get("eventTime") or each["metadata"]["creationTimestamp"],
            "reason": each.get("reason", ""),
            "message": each.get("message", ""),
            "about": (each.get("involvedObject") or {}).get("kind", ""),
            "warning": each.get("type") == "Warning",
            "count": each.get("count") or (each.get("series") or {}).get("count") or 1,
        }
        for each in found
    ]
    return sorted(rows, key=lambda row: str(row["at"]), reverse=True)[:_EVENTS]


async def _log(visit: Visit, where: str, pods: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """Of the first pod that runs, or else of the last one."""
    pod = next((each for each in pods if each["phase"] == "Running"), pods[-1])
    try:
        text = await visit.api.log(pod["name"], where, tail_lines=_LINES)
    except ApiError as error:
        return {"pod": pod["name"], "text": "", "refused": str(error)}
    lines = (line[:_LONGEST_LINE] for line in text.splitlines()[-_LINES:])
    return {"pod": pod["name"], "text": "\n".join(lines), "refused": ""}


PAGE = Page(
    "job", "/jobs/{namespace}/{kind}/{name}", "{name}", "job.html", _load,
    fragments=("about", "reason", "way", "pods", "log", "events"),
    follows=(*FOLLOWED, EVENTS),
)  # fmt: skip
