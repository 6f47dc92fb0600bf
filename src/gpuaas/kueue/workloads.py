"""Workload objects as engine values: what they ask for, how they queue, and what they hold.

Reads conditions the way upstream does: a workload evicted by a check or by the readiness timeout queues from that
moment, any other from its creation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from gpuaas.base.quantity import parse_quantity
from gpuaas.engine.changes import Finished, Reserved
from gpuaas.engine.values import Millis, PodSet, PodSetAdmission, Workload
from gpuaas.kueue.dra.claims import Charge, Devices
from gpuaas.kueue.integrations.keys import GATED_BY, PRIORITY_BOOST, REPLACES
from gpuaas.kueue.pods import above_limits, pod_requests, pod_set, units
from gpuaas.kueue.resources import Limits, Object, ReadRules, ResourceRules, outside_limits, with_defaults
from gpuaas.kueue.status import domains_of

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
UNCOUNTED = "Inadmissible"
"""Why a workload is not requeued whose device claims cannot be counted; upstream has no such reason."""
_BY_CHECK = frozenset({"AdmissionCheck"})
_Asked = tuple[tuple[PodSet, ...], str]
"""The pod sets, and why no queue can take them as they are."""


class Reader:
    """Reads workloads; equal pod sets become one value, which is what the engine groups by.

    `rules` is what the configuration makes of requests; `limits` gives the LimitRanges of a namespace and `overhead`
    what pods of a runtime class take on top, where there are any; `devices` counts what pods claim. `by_creation`: who
    was put back because its pods were not ready in time queues from its creation all the same. `counts`: what of a
    workload does.
    """

    def __init__(
        self,
        rules: ResourceRules | None = None,
        limits: Callable[[str], Limits | None] = lambda _: None,
        overhead: Callable[[str], Object | None] = lambda _: None,
        *,
        by_creation: bool = False,
        counts: ReadRules | None = None,
        devices: Devices | None = None,
    ) -> None:
        self._rules = rules
        self._counts = counts or ReadRules()
        self._limits = limits
        self._overhead = overhead
        self._devices = devices
        self._by_creation = by_creation
        self._known: dict[tuple[PodSet, ...], tuple[PodSet, ...]] = {}
        self._read: dict[str, tuple[Any, _Asked]] = {}
        self._refused: dict[str, str] = {}

    @property
    def boosts(self) -> bool:
        return self._counts.boosts

    def workload(self, obj: Object, created: Millis | None = None) -> Workload:
        metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        pod_sets, problem = self._asked(obj)
        conditions = _conditions(obj)
        requeue_at = (status.get("requeueState") or {}).get("requeueAt")
        name = metadata["name"]
        return Workload(
            namespace=metadata.get("namespace", ""),
            name=name,
            uid=metadata.get("uid") or f"{metadata.get('namespace', '')}/{name}",
            queue=spec.get("queueName", ""),
            created=millis(metadata["creationTimestamp"]) if created is None else created,
            pod_sets=pod_sets,
            priority=(spec.get("priority") or 0) + (boost_of(obj) if self._counts.boosts else 0),
            ordered_at=_ordered_at(conditions, self._by_creation),
            requeue_at=None if requeue_at is None else millis(requeue_at),
            parked=_is(conditions, "Requeued", "False") and conditions["Requeued"].get("reason") != UNCOUNTED,
            failed_checks=any(c.get("state") in ("Retry", "Rejected") for c in status.get("admissionChecks") or ()),
            problem=problem,
            job_uid=(metadata.get("labels") or {}).get("kueue.x-k8s.io/job-uid", ""),
            replaces=(metadata.get("annotations") or {}).get(REPLACES, ""),
        )

    def refusal(self, obj: Object) -> str:
        """Why the devices that it claims could not be counted when it was last read: it stands in no line then."""
        return self._refused.get(obj["metadata"].get("uid", ""), "") if self._refused else ""

    def forget(self) -> None:
        """What workloads of today's generation ask for may be something else now."""
        self._read.clear()

    def _asked(self, obj: Object) -> _Asked:
        """What it asks for. Most news of a workload are about its status: the same generation asks for the same, unless
        something outside of it, a LimitRange, a runtime class or a device class, has a say."""
        metadata, sets, taken = obj["metadata"], (obj.get("spec") or {}).get("podSets") or (), self._taken(obj)
        limits = self._limits(metadata.get("namespace", ""))
        stamp = (metadata.get("generation"), taken)
        known = self._read.get(metadata.get("uid", ""))
        if limits is None and known is not None and known[0] == stamp:
            return known[1]
        pods = [self._pod(p, limits) for p in sets]
        charges, refused = self._charges(metadata.get("namespace", ""), sets, pods)
        if refused:
            self._refused[metadata.get("uid", "")] = refused
        elif self._refused:
            self._refused.pop(metadata.get("uid", ""), None)
        pod_sets = tuple(
            pod_set(p, pod, taken.get(p.get("name", "main"), 0), self._rules, self._counts, charge)
            for p, pod, charge in zip(sets, pods, charges or repeat(None, len(pods)), strict=True)
        )
        if len(self._known) > 100_000:
            self._known.clear()
        asked = self._known.setdefault(pod_sets, pod_sets), refused or _problem(pods, limits)
        outside = limits is not None or charges is not None or any(pod.get("runtimeClassName") for pod in pods)
        if metadata.get("generation") and not outside:
            if len(self._read) > 100_000:
                self._read.clear()
            self._read[metadata["uid"]] = stamp, asked
        return asked

    def _charges(self, namespace: str, sets: Sequence[Object], pods: list[Object]) -> tuple[list[Charge] | None, str]:
        """The devices that pods take, or why they cannot be counted."""
        if self._devices is None or not any(map(self._devices.concern, pods)):
            return None, ""
        names = (each.get("name", "main") for each in sets)
        return self._devices.charges(namespace, list(zip(names, pods, strict=True)))

    def _taken(self, obj: Object) -> dict[str, int]:
        """How many pods of each pod set have finished and will not run again."""
        found = (obj.get("status") or {}).get("reclaimablePods") if self._counts.reclaims else None
        return {p["name"]: p["count"] for p in found or ()}

    def _pod(self, spec: Object, limits: Limits | None) -> Object:
        pod = (spec.get("template") or {}).get("spec") or {}
        runtime = pod.get("runtimeClassName")
        return with_defaults(pod, limits, self._overhead(runtime) if runtime else None)

    def change(self, obj: Object) -> Workload | Reserved | Finished:
        """What a Workload object says: it waits, it holds quota, or neither.

        An object that does not hold quota yet says nothing about a reservation the engine made that is not written yet;
        one that released it arrives as `Released`.
        """
        if holds_quota(obj):
            return self.reserved(obj)
        if queueable(obj):
            return self.workload(obj)
        return Finished(f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}")

    def reserved(self, obj: Object, created: Millis | None = None, at: Millis | None = None) -> Reserved:
        """A workload with `status.admission`, as the engine has to know it."""
        admission = obj["status"]["admission"]
        conditions = _conditions(obj)
        if at is None:
            at = millis(conditions["QuotaReserved"]["lastTransitionTime"])
        evicted = conditions["Evicted"].get("reason", "") if _is(conditions, "Evicted", "True") else ""
        taken = self._taken(obj)
        counts = {p.get("name", "main"): p.get("count", 1) for p in obj["spec"].get("podSets") or ()}
        given = tuple(_given(p, counts, taken) for p in admission.get("podSetAssignments") or ())
        return Reserved(self.workload(obj, created), admission["clusterQueue"], given, at, evicted)


def holds_quota(obj: Object) -> bool:
    """Whether the scheduler counts it: quota is reserved, and it is neither finished nor deactivated."""
    conditions = _conditions(obj)
    return (
        _is(conditions, "QuotaReserved", "True")
        and not _is(conditions, "Finished", "True")
        and (obj.get("spec") or {}).get("active", True)
        and (obj.get("status") or {}).get("admission") is not None
    )


def queueable(obj: Object) -> bool:
    """Whether it may wait in a queue: active, unfinished, without quota, and nothing holds it back."""
    conditions = _conditions(obj)
    reserved = conditions.get("QuotaReserved") or {}
    return (
        (obj.get("spec") or {}).get("active", True)
        and not gates_of(obj)
        and not _is(conditions, "Finished", "True")
        and not _is(conditions, "WaitingForReplacementPods", "True")
        and reserved.get("status") != "True"
        and reserved.get("reason") != "OnHold"
        and not (obj.get("status") or {}).get("admission")  # what was given is still being taken back
    )


def gates_of(obj: Object) -> str:
    """Who else must let it in first."""
    return str((obj["metadata"].get("annotations") or {}).get(GATED_BY) or "")


def _conditions(obj: Object) -> dict[str, Any]:
    return {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or ()}


def _problem(pods: list[Object], limits: Limits | None) -> str:
    """Why no queue can take these pods as they are; upstream looks at limits first, then at LimitRanges."""
    paths = [f"spec.podSets[{index}].template.spec" for index in range(len(pods))]
    over = [words for path, pod in zip(paths, pods, strict=True) for words in above_limits(pod, path)]
    if over:
        return f"resources validation failed: {_joined(over)}"
    if limits is None:
        return ""
    outside = [
        words
        for path, pod in zip(paths, pods, strict=True)
        for words in outside_limits(pod, pod_requests(pod), limits, path)
    ]
    return f"resources didn't satisfy LimitRange constraints: {_joined(outside)}" if outside else ""


def _joined(words: list[str]) -> str:
    unique = list(dict.fromkeys(words))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def millis(timestamp: str) -> Millis:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)


def boost_of(obj: Object) -> int:
    """What its annotation adds to its priority; nothing where it is no number."""
    said = str((obj["metadata"].get("annotations") or {}).get(PRIORITY_BOOST) or "")
    return int(said) if _INTEGER.fullmatch(said) else 0


def _given(assignment: Object, counts: dict[str, int], taken: dict[str, int]) -> PodSetAdmission:
    """What a pod set holds: as assigned, less what its finished pods gave back, and those it shrank by."""
    name = assignment.get("name", "main")
    assigned: int = assignment.get("count", 1)
    left = max(0, counts.get(name, assigned) - taken.get(name, 0))
    usage = {r: units(r, parse_quantity(q)) for r, q in (assignment.get("resourceUsage") or {}).items()}
    if left < assigned:
        usage = {resource: amount // assigned * left for resource, amount in usage.items()}
    return PodSetAdmission(
        name,
        tuple(sorted((assignment.get("flavors") or {}).items())),
        tuple(sorted(usage.items())),
        assigned,
        domains_of(assignment.get("topologyAssignment")),
        assignment.get("delayedTopologyRequest") == "Pending",
    )


def _ordered_at(conditions: dict[str, Any], by_creation: bool) -> Millis | None:
    evicted = conditions.get("Evicted")
    if evicted is None or evicted.get("status") != "True":
        return None
    if evicted.get("reason") not in (_BY_CHECK if by_creation else _BY_CHECK | {"PodsReadyTimeout"}):
        return None
    return millis(evicted["lastTransitionTime"])


def _is(conditions: dict[str, Any], kind: str, status: str) -> bool:
    return (conditions.get(kind) or {}).get("status") == status
