"""Built-in kinds that are served in two shapes: events (core and events.k8s.io) and horizontal autoscalers (v1, v2).

Pure functions on plain objects, both ways; what one shape cannot say is carried in an annotation or dropped exactly as
Kubernetes does.
"""

from typing import Any

from gpuaas.api.kinds import Object

# core field -> events.k8s.io field
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK = {new: old for old, new in _EVENT_FIELDS.items()}
_REPORTERS = ("reportingComponent", "reportingInstance")  # the core shape says them even where they are empty


def convert_event(obj: Object, _version: str) -> Object:
    """To the other group's shape: both call their version v1, so the direction is the object's own."""
    if obj.get("apiVersion") == "v1":
        said = {key: value for key, value in obj.items() if value or key not in _REPORTERS}
        return {_EVENT_FIELDS.get(key, key): value for key, value in said.items()} | {"apiVersion": "events.k8s.io/v1"}
    back = {_EVENT_FIELDS_BACK.get(key, key): value for key, value in obj.items()}
    return dict.fromkeys(_REPORTERS, "") | back | {"apiVersion": "v1"}


def convert_autoscaler(obj: Object, version: str) -> Object:
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    status: dict[str, Any] = dict(obj.get("status") or {})
    if version == "v1":
        percentage = _cpu_target(spec.pop("metrics", None) or [])
        spec.pop("behavior", None)
        if percentage is not None:
            spec["targetCPUUtilizationPercentage"] = percentage
        current = _cpu_current(status.pop("currentMetrics", None) or [])
        status.pop("conditions", None)
        if current is not None:
            status["currentCPUUtilizationPercentage"] = current
    else:
        percentage = spec.pop("targetCPUUtilizationPercentage", None)
        if percentage is not None:
            target = {"type": "Utilization", "averageUtilization": percentage}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        status.pop("currentCPUUtilizationPercentage", None)
    if version == "v1" and "status" in obj:
        status.setdefault("currentReplicas", 0)  # v1 says it even where it is nothing
    converted = {**obj, "apiVersion": f"autoscaling/{version}", "spec": spec}
    if "status" in obj:
        converted["status"] = status
    return converted


def _cpu_target(metrics: list[dict[str, Any]]) -> int | None:
    for metric in metrics:
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and "averageUtilization" in target:
            return int(target["averageUtilization"])
    return None


def _cpu_current(metrics: list[dict[str, Any]]) -> int | None:
    for metric in metrics:
        resource = metric.get("resource") or {}
        current = resource.get("current") or {}
        if resource.get("name") == "cpu" and "averageUtilization" in current:
            return int(current["averageUtilization"])
    return None
