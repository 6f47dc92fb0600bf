"""How many there may be: horizontal autoscalers and disruption budgets."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.autoscalers import drop_carriers, usual_metrics
from gpuaas.api.kubernetes.rules.checks import dns_label, each, known, nonnegative, positive
from gpuaas.api.kubernetes.rules.resources import container_resource_name
from gpuaas.api.kubernetes.rules.workloads import at_most_all, count_or_percent
from gpuaas.api.metadata import NEGATIVE, View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required
from gpuaas.base.names import is_path_segment
from gpuaas.base.quantity import parse_quantity

_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
# The type of a metric and the field that says more of it, in the order in which Kubernetes looks.
_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


class HorizontalPodAutoscaler(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        drop_carriers(obj["metadata"])
        if not spec.get("metrics"):
            spec["metrics"] = usual_metrics()
        behavior = spec.get("behavior")
        if behavior is not None:
            for key, usual in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
                said = {name: value for name, value in (behavior.get(key) or {}).items() if value is not None}
                behavior[key] = {**_fresh(usual), **said}

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        errors: list[FieldError] = []
        if least is not None and least < 1:
            errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most == 0:
            errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
        elif most < 0:
            errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
        if least is not None and most < least:
            errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        errors += _scaled(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
        for metric, at in each(spec, "metrics", "spec"):
            errors += _metric(metric, at)
        if least == 0 and not {"Object", "External"} & {metric.get("type") for metric in spec.get("metrics") or ()}:
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            errors.append(forbidden("spec.metrics", text))
        for key in ("scaleUp", "scaleDown"):
            rules = (spec.get("behavior") or {}).get(key)
            errors += _scaling(rules, f"spec.behavior.{key}") if rules is not None else []
        return errors

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        """A version that was never right is let pass while what it speaks of stays the same."""
        new, before = ((view.get("spec") or {}).get("scaleTargetRef") or {} for view in (obj, old))
        errors = self.validate(obj)
        if any(new.get(key) != before.get(key) for key in ("apiVersion", "kind")):
            return errors
        return [error for error in errors if error.path != "spec.scaleTargetRef.apiVersion"]

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        status = obj.get("status") or {}
        fields = ("currentReplicas", "desiredReplicas")
        return [error for key in fields for error in nonnegative(status.get(key, 0), f"status.{key}")]


def _scaled(reference: View, path: str) -> list[FieldError]:
    """What is scaled is of some group; only replication controllers are of none."""
    version = reference.get("apiVersion", "")
    if "/" in version or reference.get("kind") == "ReplicationController":
        return _target(reference, path)
    without = invalid(child(path, "apiVersion"), version, "apiVersion must specify API group")
    return [*_target(reference, path), without]


def _target(reference: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("kind", "name"):
        value, at = reference.get(key, ""), child(path, key)
        errors += [invalid(at, value, text) for text in is_path_segment(value)] if value else [required(at)]
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(child(path, "apiVersion"), version, text))
    return errors


def _metric(metric: View, path: str) -> list[FieldError]:
    kind, at = metric.get("type", ""), child(path, "type")
    errors = [] if kind else [required(at, "must specify a metric source type")]
    unknown = known(kind, tuple(_SOURCES), at)
    errors += unknown
    present = [field for field in _SOURCES.values() if metric.get(field) is not None]
    if present:
        errors += _source(present[0], metric[present[0]], child(path, present[0]))
    expected = _SOURCES.get(kind, "")
    if expected and expected not in present:
        errors.append(required(child(path, expected), "must populate information for the given metric source"))
    errors += unknown  # Kubernetes says it twice
    if len(present) != 1:
        others = (field for field in present if field != expected)
        errors += [forbidden(child(path, field), "must populate the given metric source only") for field in others]
    return errors


def _source(kind: str, source: View, path: str) -> list[FieldError]:
    target, at = source.get("target") or {}, child(path, "target")
    has = {key for key in ("value", "averageValue", "averageUtilization") if target.get(key) is not None}
    errors: list[FieldError] = []
    if kind == "object":
        errors += _target(source.get("describedObject") or {}, child(path, "describedObject"))
    if kind in ("object", "external", "pods"):
        errors += _metric_name((source.get("metric") or {}).get("name", ""), child(path, "metric", "name"))
    else:
        errors += _resource(kind, source, path)
    errors += _metric_target(target, at)
    match kind:
        case "object" if not has & {"value", "averageValue"}:
            errors.append(required(f"{at}.averageValue", "must set either a target value or averageValue"))
        case "external" if not has & {"value", "averageValue"}:
            text = "must set either a target value for metric or a per-pod target"
            errors.append(required(f"{at}.averageValue", text))
        case "external" if has >= {"value", "averageValue"}:
            text = "may not set both a target value for metric and a per-pod target"
            errors.append(forbidden(f"{at}.value", text))
        case "pods" if "averageValue" not in has:
            errors.append(required(f"{at}.averageValue", "must specify a positive target averageValue"))
        case "resource" | "containerResource" if not has & {"averageUtilization", "averageValue"}:
            text = "must set either a target raw value or a target utilization"
            errors.append(required(f"{at}.averageUtilization", text))
        case "resource" | "containerResource" if has >= {"averageUtilization", "averageValue"}:
            text = "may not set both a target raw value and a target utilization"
            errors.append(forbidden(f"{at}.averageValue", text))
    return errors


def _metric_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path, "must specify a metric name")]
    return [invalid(path, name, text) for text in is_path_segment(name)]


def _resource(kind: str, source: View, path: str) -> list[FieldError]:
    name, container = source.get("name", ""), source.get("container", "")
    errors = [] if name else [required(child(path, "name"), "must specify a resource name")]
    if kind == "resource":
        return errors
    if name:
        errors += container_resource_name(name, child(path, "name"))
    if not container:
        return [*errors, required(child(path, "container"), "must specify a container")]
    return errors + dns_label(container, child(path, "container"))


def _metric_target(target: View, path: str) -> list[FieldError]:
    kind = target.get("type", "")
    errors = [] if kind else [required(child(path, "type"), "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(child(path, "type"), kind, "must be either Utilization, Value, or AverageValue"))
    amounts = {key: parse_quantity(target[key]) for key in ("value", "averageValue") if target.get(key) is not None}
    wrong = {key: amount for key, amount in amounts.items() if amount.nano <= 0}
    errors += [invalid(child(path, key), str(amount), "must be positive") for key, amount in wrong.items()]
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.append(invalid(child(path, "averageUtilization"), share, "must be greater than 0"))
    return errors


def _scaling(rules: View, path: str) -> list[FieldError]:
    window, at = rules.get("stabilizationWindowSeconds"), child(path, "stabilizationWindowSeconds")
    errors: list[FieldError] = []
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if rules.get("selectPolicy") is not None:
        errors += known(rules["selectPolicy"], ("Disabled", "Max", "Min"), child(path, "selectPolicy"))
    if not rules.get("policies"):
        errors.append(required(child(path, "policies"), "must specify at least one Policy"))
    for policy, where in each(rules, "policies", path):
        period = policy.get("periodSeconds", 0)
        errors += known(policy.get("type", ""), ("Percent", "Pods"), child(where, "type"))
        errors += positive(policy.get("value", 0), child(where, "value"))
        errors += positive(period, child(where, "periodSeconds"))
        if period > _LONGEST_PERIOD:
            text = f"must be less than or equal to {_LONGEST_PERIOD}"
            errors.append(invalid(child(where, "periodSeconds"), period, text))
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse_quantity(tolerance).nano < 0:
        errors.append(invalid(child(path, "tolerance"), str(parse_quantity(tolerance)), NEGATIVE))
    return errors


def _fresh(rules: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose lists may be changed."""
    return {**rules, "policies": [dict(policy) for policy in rules["policies"]]}


class PodDisruptionBudget(Behaviour):
    unconditional_update = False

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        amounts = [key for key in ("minAvailable", "maxUnavailable") if spec.get(key) is not None]
        if len(amounts) == 2:
            errors.append(invalid("spec", _shown(spec), "minAvailable and maxUnavailable cannot be both set"))
        for key in amounts:
            errors += count_or_percent(spec[key], f"spec.{key}") + at_most_all(spec[key], f"spec.{key}")
        errors += validate_label_selector(spec.get("selector"), "spec.selector")
        if spec.get("unhealthyPodEvictionPolicy") is not None:
            at = "spec.unhealthyPodEvictionPolicy"
            errors += known(spec["unhealthyPodEvictionPolicy"], ("AlwaysAllow", "IfHealthyBudget"), at)
        return errors


def _shown(spec: View) -> dict[str, Any]:
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
