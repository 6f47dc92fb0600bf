"""Events of both groups. They are the same objects under two shapes (module conversion); the core one is stored.

Old clients write events without an eventTime, for which fewer rules hold.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.conversion import convert_event
from gpuaas.api.kubernetes.rules.checks import dns_subdomain, qualified_name, unchanged
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, invalid, required
from gpuaas.base.names import is_dns1123_subdomain, is_path_segment

_NOT_ITS_NAMESPACE: Final = "does not match event.namespace"
_FROZEN: Final = ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type")
_FROZEN_NEW: Final = ("action", "related", "reportingComponent", "reportingInstance", "eventTime")


class CoreEvent(Behaviour):
    generation = False
    allow_create_on_update = True
    name_messages = staticmethod(is_path_segment)
    field_selectors = (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def validate(self, obj: View) -> list[FieldError]:
        return _either_shape(obj, "reportingComponent")

    def fields(self, obj: View) -> Mapping[str, str]:
        target = obj.get("involvedObject") or {}
        source = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
        parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return {
            **{f"involvedObject.{part}": target.get(part, "") for part in parts},
            "reason": obj.get("reason", ""),
            "reportingComponent": obj.get("reportingComponent", ""),
            "source": source,
            "type": obj.get("type", ""),
        }


class NewEvent(Behaviour):
    """events.k8s.io: stricter than the core group."""

    generation = False
    allow_create_on_update = True
    name_messages = staticmethod(is_dns1123_subdomain)
    field_selectors = (
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    )

    def validate(self, obj: View) -> list[FieldError]:
        event = convert_event(dict(obj), "v1")
        errors = _either_shape(event, "reportingController")
        if (obj.get("metadata") or {}).get("resourceVersion"):
            return errors
        errors += _series(event)
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
        for field in ("firstTimestamp", "lastTimestamp", "count"):
            if event.get(field):
                errors.append(invalid(field, "", "needs to be unset"))
        source = event.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(invalid("source", "", "needs to be unset"))
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        event, before = convert_event(dict(obj), "v1"), convert_event(dict(old), "v1")
        errors = _series(event) if event.get("series") != before.get("series") else []
        for field in (*_FROZEN, *_FROZEN_NEW):
            errors += unchanged(event.get(field) or None, before.get(field) or None, _path(field))
        return errors

    def fields(self, obj: View) -> Mapping[str, str]:
        """Of an event as it is kept, in the core group's words."""
        target = obj.get("involvedObject") or {}
        parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return {
            **{f"regarding.{part}": target.get(part, "") for part in parts},
            "reason": obj.get("reason", ""),
            "reportingController": obj.get("reportingComponent", ""),
            "type": obj.get("type", ""),
        }


def _path(field: str) -> str:
    return "reportingController" if field == "reportingComponent" else field


def _either_shape(event: View, controller_name: str) -> list[FieldError]:
    namespace = (event.get("metadata") or {}).get("namespace", "")
    target = (event.get("involvedObject") or {}).get("namespace", "")
    errors: list[FieldError] = []
    if not event.get("eventTime"):
        fits = namespace == target if target else namespace in ("", "default")
    else:
        fits = bool(target) or namespace in ("default", "kube-system")
    if not fits:
        errors.append(invalid("involvedObject.namespace", target, _NOT_ITS_NAMESPACE))
    if event.get("eventTime"):
        errors += _reported(event, controller_name)
    return errors + dns_subdomain(namespace, "namespace")


def _reported(event: View, controller_name: str) -> list[FieldError]:
    controller: str = event.get("reportingComponent") or ""
    errors = [] if controller else [required(controller_name)]
    errors += qualified_name(controller, controller_name)
    for field in ("reportingInstance", "action", "reason"):
        text: Any = event.get(field) or ""
        if not text:
            errors.append(required(field))
        if len(text) > 128:
            errors.append(invalid(field, "", "can have at most 128 characters"))
    if len(event.get("message") or "") > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    return errors


def _series(event: View) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors
