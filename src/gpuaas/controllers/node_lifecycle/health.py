"""What a node's conditions mean in taints, and what silence means in conditions. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Object

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()})
_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def wanted_taints(node: Mapping[str, Any], now: float) -> list[Object] | None:
    """The node's taints as they should be; None if they are so already."""
    spec = node.get("spec") or {}
    known: Sequence[Object] = spec.get("taints") or ()
    keys = _keys(node)
    kept = [one for one in known if one["key"] not in _OURS or (one["key"], one["effect"]) in keys]
    missing = [key for key in keys if not any((one["key"], one["effect"]) == key for one in kept)]
    if len(kept) == len(known) and not missing:
        return None
    return [*kept, *({"key": key, "effect": effect, "timeAdded": rfc3339(now)} for key, effect in missing)]


def _keys(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()}
    keys = []
    ready = found.get("Ready", "True")  # who has never said anything is given the whole grace period
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        keys += [(key, "NoSchedule"), (key, "NoExecute")]
    if (node.get("spec") or {}).get("unschedulable"):
        keys.append((UNSCHEDULABLE, "NoSchedule"))
    keys += [(key, "NoSchedule") for kind, key in _PRESSURES.items() if found.get(kind) == "True"]
    return keys


def silent_conditions(node: Mapping[str, Any], now: float) -> list[Object]:
    """The conditions of a node that has not been heard of for too long: nothing about it is known any more."""
    known = {one["type"]: one for one in (node.get("status") or {}).get("conditions") or ()}
    made = []
    for kind in (*_WATCHED, *(each for each in known if each not in _WATCHED)):
        before = known.get(kind)
        if kind not in _WATCHED and before is not None:
            made.append(dict(before))
            continue
        if before is not None and before["status"] == "Unknown":
            made.append(dict(before))
            continue
        moment = rfc3339(now)
        made.append(
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusUnknown" if before is not None else "NodeStatusNeverUpdated",
                "message": "Kubelet stopped posting node status."
                if before is not None
                else "Kubelet never posted node status.",
                "lastHeartbeatTime": before.get("lastHeartbeatTime", moment) if before is not None else moment,
                "lastTransitionTime": moment,
            }
        )
    return made


def readiness(node: Mapping[str, Any]) -> str:
    """True, False or Unknown; "" before the first report."""
    for one in (node.get("status") or {}).get("conditions") or ():
        if one["type"] == "Ready":
            return str(one["status"])
    return ""
