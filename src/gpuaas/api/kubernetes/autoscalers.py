"""Horizontal autoscalers in the two versions they are served in: v1 knows of one metric, v2 (in which they are kept) of
many. Pure functions on plain objects.

What v1 cannot say it carries as JSON in annotations, in the words of an older time; a carried text that cannot be read
counts for nothing. No object shows such an annotation that the conversion did not write. Module `carried` reads and
writes the texts; module `conversion` has the other kind that comes in two shapes.
"""

from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes import carried

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_CARRIERS: Final = frozenset(
    (_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS, f"{_PREFIX}scale-down-tolerance", f"{_PREFIX}scale-up-tolerance")
)
_USUAL_PERCENTAGE: Final = 80


def convert_autoscaler(obj: Object, version: str) -> Object:
    return _to_v1(obj) if version == "v1" else _to_v2(obj)


def usual_metrics(percentage: int = _USUAL_PERCENTAGE) -> list[Any]:
    """What is measured where nothing else is asked for."""
    target = {"type": "Utilization", "averageUtilization": percentage}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def drop_carriers(metadata: Object) -> None:
    """In v2 everything has a field, so an annotation that carries it has nothing to say."""
    annotations = metadata.get("annotations")
    if annotations and not _CARRIERS.isdisjoint(annotations):
        _annotate(metadata, _without_carriers(annotations))


def _to_v1(obj: Object) -> Object:
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    status: dict[str, Any] = dict(obj.get("status") or {})
    texts: dict[str, str] = {}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    current, conditions = status.pop("currentMetrics", None), status.pop("conditions", None)
    percentages = [metric["resource"]["target"]["averageUtilization"] for metric in metrics if _of_cpu(metric)]
    if percentages:
        spec["targetCPUUtilizationPercentage"] = percentages[0]
    others = [metric for metric in metrics if not _of_cpu(metric)]
    if others:
        texts[_METRICS] = carried.metrics_text(others)
    if current:
        texts[_CURRENT] = carried.current_metrics_text(current)
        status.update(_current_percentage(current))
    if behavior is not None:
        texts[_BEHAVIOR] = carried.behavior_text(behavior)
    if conditions:
        texts[_CONDITIONS] = carried.conditions_text(conditions)
    converted = {**obj, "apiVersion": "autoscaling/v1", "spec": spec}
    if "metadata" in obj:
        metadata = converted["metadata"] = dict(obj["metadata"])
        _annotate(metadata, {**_without_carriers(metadata.get("annotations") or {}), **texts})
    if "status" in obj:
        converted["status"] = {"currentReplicas": 0, **status}  # v1 says it even where it is nothing
    return converted


def _of_cpu(metric: dict[str, Any]) -> bool:
    """Whether v1 has a field for it."""
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def _current_percentage(metrics: list[dict[str, Any]]) -> dict[str, int]:
    found = {}
    for metric in metrics:
        resource = metric.get("resource") or {}
        percentage = (resource.get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and percentage is not None:
            found = {"currentCPUUtilizationPercentage": percentage}
    return found


def _to_v2(obj: Object) -> Object:
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    metadata: dict[str, Any] = dict(obj.get("metadata") or {})
    texts = metadata.get("annotations") or {}
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    asked = usual_metrics(percentage) if percentage is not None else []
    spec["metrics"] = [*(carried.read_metrics(texts.get(_METRICS)) or ()), *asked] or usual_metrics()
    behavior = carried.read_behavior(texts.get(_BEHAVIOR))
    if behavior:
        spec["behavior"] = behavior
    converted = {**obj, "apiVersion": "autoscaling/v2", "spec": spec}
    if "metadata" in obj:
        converted["metadata"] = metadata
        drop_carriers(metadata)
    if "status" in obj:
        converted["status"] = _status_to_v2(dict(obj["status"] or {}), texts)
    return converted


def _status_to_v2(status: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    percentage = status.pop("currentCPUUtilizationPercentage", None)
    if status.get("currentReplicas") == 0:
        del status["currentReplicas"]
    status["currentMetrics"] = None
    if percentage is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": percentage}}
        status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    current = carried.read_current_metrics(texts.get(_CURRENT))
    if current is not None:
        status["currentMetrics"] = current or None
    conditions = carried.read_conditions(texts.get(_CONDITIONS))
    if conditions:
        status["conditions"] = conditions
    return status


def _without_carriers(annotations: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in _CARRIERS}


def _annotate(metadata: dict[str, Any], annotations: dict[str, str]) -> None:
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
