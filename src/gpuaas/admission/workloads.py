"""Workload objects as engine values: what they ask for, how they queue, and what they hold.

Reads conditions the way upstream does: a workload evicted by a check or by the readiness timeout queues from that
moment, any other from its creation.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gpuaas.admission.pods import Object, pod_set, units
from gpuaas.admission.status import domains_of
from gpuaas.base.quantity import parse_quantity
from gpuaas.engine.changes import Reserved
from gpuaas.engine.values import Millis, PodSet, PodSetAdmission, Workload


class Reader:
    """Reads workloads; equal pod sets become one value, which is what the engine groups by."""

    def __init__(self) -> None:
        self._known: dict[tuple[PodSet, ...], tuple[PodSet, ...]] = {}

    def workload(self, obj: Object, created: Millis | None = None) -> Workload:
        metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        taken = {p["name"]: p["count"] for p in status.get("reclaimablePods") or ()}
        pod_sets = tuple(pod_set(p, taken.get(p.get("name", "main"), 0)) for p in spec.get("podSets") or ())
        if len(self._known) > 100_000:
            self._known.clear()
        pod_sets = self._known.setdefault(pod_sets, pod_sets)
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        requeue_at = (status.get("requeueState") or {}).get("requeueAt")
        name = metadata["name"]
        return Workload(
            namespace=metadata.get("namespace", ""),
            name=name,
            uid=metadata.get("uid") or f"{metadata.get('namespace', '')}/{name}",
            queue=spec.get("queueName", ""),
            created=millis(metadata["creationTimestamp"]) if created is None else created,
            pod_sets=pod_sets,
            priority=spec.get("priority") or 0,
            ordered_at=_ordered_at(conditions),
            requeue_at=None if requeue_at is None else millis(requeue_at),
            parked=_is(conditions, "Requeued", "False"),
            failed_checks=any(c.get("state") in ("Retry", "Rejected") for c in status.get("admissionChecks") or ()),
            job_uid=(metadata.get("labels") or {}).get("kueue.x-k8s.io/job-uid", ""),
        )

    def reserved(self, obj: Object, created: Millis | None = None, at: Millis | None = None) -> Reserved:
        """A workload with `status.admission`, as the engine has to know it."""
        admission = obj["status"]["admission"]
        conditions = {c["type"]: c for c in obj["status"].get("conditions") or ()}
        if at is None:
            at = millis(conditions["QuotaReserved"]["lastTransitionTime"])
        evicted = conditions["Evicted"].get("reason", "") if _is(conditions, "Evicted", "True") else ""
        given = tuple(_given(p) for p in admission.get("podSetAssignments") or ())
        return Reserved(self.workload(obj, created), admission["clusterQueue"], given, at, evicted)


def millis(timestamp: str) -> Millis:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)


def _given(assignment: Object) -> PodSetAdmission:
    usage = assignment.get("resourceUsage") or {}
    return PodSetAdmission(
        assignment.get("name", "main"),
        tuple(sorted((assignment.get("flavors") or {}).items())),
        tuple(sorted((name, units(name, parse_quantity(q))) for name, q in usage.items())),
        assignment.get("count", 1),
        domains_of(assignment.get("topologyAssignment")),
        assignment.get("delayedTopologyRequest") == "Pending",
    )


def _ordered_at(conditions: dict[str, Any]) -> Millis | None:
    evicted = conditions.get("Evicted")
    if evicted is None or evicted.get("status") != "True":
        return None
    if evicted.get("reason") not in ("PodsReadyTimeout", "AdmissionCheck"):
        return None
    return millis(evicted["lastTransitionTime"])


def _is(conditions: dict[str, Any], kind: str, status: str) -> bool:
    return (conditions.get(kind) or {}).get("status") == status
