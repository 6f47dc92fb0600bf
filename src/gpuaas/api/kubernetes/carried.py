"""What autoscaling/v1 carries in annotations: metrics, behaviour, statuses and conditions as JSON texts.

The texts are byte for byte those of Kubernetes (fields in its order, escaped as Go does), because clients that only know
v1 compare them. They are read as Go reads JSON: names in any case, unknown ones ignored, null for nothing; one value of
the wrong type and the whole text is unreadable (None). Where the texts belong: module `autoscalers`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from gpuaas.api.kinds import Object
from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.quantity import parse_quantity

_T = TypeVar("_T")
_Read = Callable[[Any], Any]
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")


def metrics_text(metrics: Sequence[Object]) -> str:
    return _text([_each_source(metric, _old_source) for metric in metrics])


def current_metrics_text(metrics: Sequence[Object]) -> str:
    return _text([_each_source(metric, _old_status) for metric in metrics])


def behavior_text(behavior: Object) -> str:
    """In capitals: once upon a time somebody wrote down what was meant for the inside only."""
    return _text({name: _old_rules(behavior.get(_lowered(name))) for name in ("ScaleUp", "ScaleDown")})


def conditions_text(conditions: Sequence[Object]) -> str:
    return _text(
        [
            {"type": said.get("type", ""), "status": said.get("status", "")}
            | {"lastTransitionTime": said.get("lastTransitionTime")}
            | _said(reason=said.get("reason") or None, message=said.get("message") or None)
            for said in conditions
        ]
    )


def read_metrics(text: str | None) -> list[Any] | None:
    return _read(text, _METRICS, lambda metrics: [_each_source(metric, _new_source) for metric in metrics])


def read_current_metrics(text: str | None) -> list[Any] | None:
    return _read(text, _STATUSES, lambda metrics: [_each_source(metric, _new_status) for metric in metrics])


def read_conditions(text: str | None) -> list[Any] | None:
    usual = {"type": "", "status": "", "lastTransitionTime": None}
    return _read(text, _CONDITIONS, lambda conditions: [{**usual, **said} for said in conditions])


def read_behavior(text: str | None) -> dict[str, Any] | None:
    found = _read(text, _BEHAVIOR, dict[str, Any])
    for rules in (found or {}).values():
        rules.setdefault("policies", [])  # somebody who names rules names policies
        rules["policies"] = [{"type": "", "value": 0, "periodSeconds": 0, **policy} for policy in rules["policies"]]
    return found


def _each_source(metric: Object, change: Callable[[str, Object], Object]) -> Object:
    sources = {name: change(name, metric[name]) for name in _SOURCES if metric.get(name) is not None}
    return {"type": metric.get("type", ""), **sources}


def _old_source(name: str, source: Object) -> Object:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    value, average = target.get("value"), target.get("averageValue")
    named, selector = {"metricName": metric.get("name", "")}, _selector(metric.get("selector"))
    match name:
        case "object":
            found = {"target": _reference(source.get("describedObject")), **named, "targetValue": value or "0"}
            return found | _said(selector=selector, averageValue=average)
        case "pods":
            return {**named, "targetAverageValue": average or "0"} | _said(selector=selector)
        case "external":
            return named | _said(metricSelector=selector, targetValue=value, targetAverageValue=average)
        case _:
            share = target.get("averageUtilization")
            found = {"name": source.get("name", "")}
            return found | _said(targetAverageUtilization=share, targetAverageValue=average) | _container(name, source)


def _old_status(name: str, source: Object) -> Object:
    current, metric = source.get("current") or {}, source.get("metric") or {}
    value, average = current.get("value"), current.get("averageValue")
    named, selector = {"metricName": metric.get("name", "")}, _selector(metric.get("selector"))
    match name:
        case "object":
            found = {"target": _reference(source.get("describedObject")), **named, "currentValue": value or "0"}
            return found | _said(selector=selector, averageValue=average)
        case "pods":
            return {**named, "currentAverageValue": average or "0"} | _said(selector=selector)
        case "external":
            found = named | _said(metricSelector=selector)
            return found | {"currentValue": value or "0"} | _said(currentAverageValue=average)
        case _:
            share = current.get("averageUtilization")
            found = {"name": source.get("name", "")} | _said(currentAverageUtilization=share)
            return found | {"currentAverageValue": average or "0"} | _container(name, source)


def _new_source(name: str, source: Object) -> Object:
    metric = _said(name=source.get("metricName", ""), selector=source.get("selector", source.get("metricSelector")))
    value, average = source.get("targetValue"), source.get("targetAverageValue")
    match name:
        case "object":
            average, value = source.get("averageValue"), value or "0"
            if average is not None and value == "0":
                value = None  # v1 cannot but say one
            target = {"type": "Value" if average is None else "AverageValue"} | _said(value=value, averageValue=average)
            return {"describedObject": _reference(source.get("target")), "target": target, "metric": metric}
        case "pods":
            return {"metric": metric, "target": {"type": "AverageValue", "averageValue": average or "0"}}
        case "external":
            target = {"type": "AverageValue" if value is None else "Value"}
            return {"metric": metric, "target": target | _said(value=value, averageValue=average)}
        case _:
            share = source.get("targetAverageUtilization")
            target = {"type": "AverageValue" if share is None else "Utilization"}
            target |= _said(averageValue=average, averageUtilization=share)
            return {"name": source.get("name", ""), "target": target} | _container(name, source)


def _new_status(name: str, source: Object) -> Object:
    metric = _said(name=source.get("metricName", ""), selector=source.get("selector", source.get("metricSelector")))
    value, average = source.get("currentValue", "0"), source.get("currentAverageValue")
    match name:
        case "object":
            current = {"value": value} | _said(averageValue=source.get("averageValue"))
            return {"metric": metric, "current": current, "describedObject": _reference(source.get("target"))}
        case "pods":
            return {"metric": metric, "current": {"averageValue": average or "0"}}
        case "external":
            return {"metric": metric, "current": {"value": value} | _said(averageValue=average)}
        case _:
            share = source.get("currentAverageUtilization")
            current = {"averageValue": average or "0"} | _said(averageUtilization=share)
            return {"name": source.get("name", ""), "current": current} | _container(name, source)


def _old_rules(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    policies = rules.get("policies")
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": policies and [_old_policy(policy) for policy in policies],
        "Tolerance": rules.get("tolerance"),
    }


def _old_policy(policy: Object) -> Object:
    usual = {"Type": "", "Value": 0, "PeriodSeconds": 0}
    return {name: policy.get(_lowered(name), nothing) for name, nothing in usual.items()}


def _lowered(name: str) -> str:
    return name[0].lower() + name[1:]


def _container(name: str, source: Object) -> Object:
    return {"container": source.get("container", "")} if name == "containerResource" else {}


def _reference(reference: Object | None) -> Object:
    found = reference or {}
    version = found.get("apiVersion") or None
    return {"kind": found.get("kind", ""), "name": found.get("name", "")} | _said(apiVersion=version)


def _selector(selector: Object | None) -> Object | None:
    if selector is None:
        return None
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    ordered = [
        {"key": said.get("key", ""), "operator": said.get("operator", "")} | _said(values=said.get("values") or None)
        for said in expressions or ()
    ]
    return _said(matchLabels=dict(sorted(labels.items())) if labels else None, matchExpressions=ordered or None)


def _said(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char, escaped in _ESCAPES.items():
        text = text.replace(char, escaped)
    return text


def _read(text: str | None, read: _Read, change: Callable[[Any], _T]) -> _T | None:
    if text is None:
        return None
    try:
        return change(read(json.loads(text)))
    except (ValueError, RecursionError):
        return None


def _string(value: Any) -> str:
    if value.__class__ is not str:
        raise ValueError("no text")
    return str(value)


def _int32(value: Any) -> int:
    if value.__class__ is not int or not -(2**31) <= value < 2**31:
        raise ValueError("no number of 32 bits")
    return int(value)


def _quantity(value: Any) -> str:
    return str(parse_quantity(value.strip() if value.__class__ is str else value))


def _time(value: Any) -> str:
    return rfc3339(parse_rfc3339(_string(value)))


def _record(**fields: _Read) -> _Read:
    """Reads an object: fields by name in any case, none that is unknown or null."""
    exact = {name.lower(): (name, read) for name, read in fields.items()}

    def read(value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if value.__class__ is not dict:
            raise ValueError("no object")
        known = ((*exact[key.lower()], part) for key, part in value.items() if key.lower() in exact)
        return {name: read_part(part) for name, read_part, part in known if part is not None}

    return read


def _list(read_item: _Read) -> _Read:
    def read(value: Any) -> list[Any]:
        if value is not None and value.__class__ is not list:
            raise ValueError("no list")
        return [read_item(item) for item in value or ()]

    return read


def _labels(value: Any) -> dict[str, str]:
    if value.__class__ is not dict:
        raise ValueError("no object")
    return {key: "" if label is None else _string(label) for key, label in value.items()}


_REFERENCE: Final = _record(kind=_string, name=_string, apiVersion=_string)
_SELECTOR: Final = _record(
    matchLabels=_labels,
    matchExpressions=_list(_record(key=_string, operator=_string, values=_list(_string))),
)


def _metric(**sources: Mapping[str, _Read]) -> _Read:
    return _list(_record(type=_string, **{name: _record(**fields) for name, fields in sources.items()}))


_OBJECT: Final = {"target": _REFERENCE, "metricName": _string, "selector": _SELECTOR, "averageValue": _quantity}
_PODS: Final = {"metricName": _string, "selector": _SELECTOR}
_EXTERNAL: Final = {"metricName": _string, "metricSelector": _SELECTOR}
_ASKED: Final = {"name": _string, "targetAverageUtilization": _int32, "targetAverageValue": _quantity}
_SEEN: Final = {"name": _string, "currentAverageUtilization": _int32, "currentAverageValue": _quantity}
_METRICS: Final = _metric(
    object={**_OBJECT, "targetValue": _quantity},
    pods={**_PODS, "targetAverageValue": _quantity},
    resource=_ASKED,
    containerResource={**_ASKED, "container": _string},
    external={**_EXTERNAL, "targetValue": _quantity, "targetAverageValue": _quantity},
)
_STATUSES: Final = _metric(
    object={**_OBJECT, "currentValue": _quantity},
    pods={**_PODS, "currentAverageValue": _quantity},
    resource=_SEEN,
    containerResource={**_SEEN, "container": _string},
    external={**_EXTERNAL, "currentValue": _quantity, "currentAverageValue": _quantity},
)
_CONDITIONS: Final = _list(
    _record(type=_string, status=_string, lastTransitionTime=_time, reason=_string, message=_string)
)
_RULES: Final = _record(
    stabilizationWindowSeconds=_int32,
    selectPolicy=_string,
    policies=_list(_record(type=_string, value=_int32, periodSeconds=_int32)),
    tolerance=_quantity,
)
_BEHAVIOR: Final = _record(scaleUp=_RULES, scaleDown=_RULES)
