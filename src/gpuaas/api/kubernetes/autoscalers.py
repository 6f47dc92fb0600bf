"""Horizontal autoscalers in the two versions they are served in: v1 has one metric, v2 (which is stored) many.

Nothing scales here. v1 shows the CPU target of a v2 object and none of its other metrics; what is written as v1 has the
CPU target only.
"""

from typing import Any

from gpuaas.api.kinds import Object

_ONLY_V2 = ("metrics", "behavior")
_STATUS_ONLY_V2 = ("currentMetrics", "conditions")


def convert_autoscaler(obj: Object, version: str) -> Object:
    return _to_v1(obj) if version == "v1" else _to_v2(obj)


def cpu_metrics(percentage: int = 80) -> list[Any]:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _to_v1(obj: Object) -> Object:
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    percentages = [found for metric in spec.get("metrics") or () if (found := _cpu_percentage(metric)) is not None]
    converted = {**obj, "apiVersion": "autoscaling/v1", "spec": _without(spec, _ONLY_V2)}
    if percentages:
        converted["spec"]["targetCPUUtilizationPercentage"] = percentages[0]
    if "status" in obj:
        converted["status"] = {"currentReplicas": 0, **_without(obj["status"] or {}, _STATUS_ONLY_V2)}
    return converted


def _cpu_percentage(metric: dict[str, Any]) -> int | None:
    resource = metric.get("resource") or {}
    found: int | None = (resource.get("target") or {}).get("averageUtilization")
    return found if metric.get("type") == "Resource" and resource.get("name") == "cpu" else None


def _to_v2(obj: Object) -> Object:
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    spec["metrics"] = cpu_metrics() if percentage is None else cpu_metrics(percentage)
    converted = {**obj, "apiVersion": "autoscaling/v2", "spec": spec}
    if "status" in obj:
        converted["status"] = _without(obj["status"] or {}, ("currentCPUUtilizationPercentage",))
    return converted


def _without(part: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in fields}
