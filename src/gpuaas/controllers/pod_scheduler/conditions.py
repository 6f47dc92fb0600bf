"""What the scheduler writes into a pod's status, and what makes two pods alike for it. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Object
from gpuaas.nodefit.book import Ask
from gpuaas.runtime.pods import condition_of

UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
_CONSTRAINTS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "preemptionPolicy")


def shape_of(ask: Ask) -> bytes:
    """Equal for pods that any node treats alike."""
    about_others = ask.labels if ask.spec.get("affinity") or ask.spec.get("topologySpreadConstraints") else {}
    parts = [ask.spec.get(name) for name in _CONSTRAINTS]
    return msgspec.json.encode(
        [ask.namespace, about_others, ask.priority, ask.requests, sorted(ask.ports), parts], order="deterministic"
    )


def unscheduled(
    pod: Mapping[str, Any], message: str, nominated: str, now: float, reason: str = UNSCHEDULABLE
) -> Object | None:
    """The status that says so; None if the pod says it already."""
    status = pod.get("status") or {}
    known = condition_of(pod, "PodScheduled")
    same_node = (status.get("nominatedNodeName") or "") == nominated
    if known is not None and known.get("message") == message and known["status"] == "False" and same_node:
        return None
    since = known.get("lastTransitionTime") if known is not None and known["status"] == "False" else None
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": since or rfc3339(now),
        "reason": reason,
        "message": message,
    }
    changed: Object = {"conditions": _with(pod, condition)}
    if not same_node:
        changed["nominatedNodeName"] = nominated or None
    return changed


def disrupted(pod: Mapping[str, Any], now: float) -> Object:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    }
    return {"conditions": _with(pod, condition)}


def _with(pod: Mapping[str, Any], condition: Object) -> list[Object]:
    known = (pod.get("status") or {}).get("conditions") or ()
    generation = pod["metadata"].get("generation")
    if generation:
        condition = {**condition, "observedGeneration": generation}
    return [*(one for one in known if one["type"] != condition["type"]), condition]
