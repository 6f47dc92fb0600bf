"""Events of both groups. They are the same objects under two shapes (module conversion); the core one is stored."""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.conversion import convert_event
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.base.names import is_dns1123_subdomain, is_path_segment

_NOT_ITS_NAMESPACE: Final = "does not match event.namespace"


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
        return _namespace_errors(obj)

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
    """events.k8s.io."""

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
        return _namespace_errors(convert_event(dict(obj), "v1"))

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


def _namespace_errors(event: View) -> list[FieldError]:
    """An event is in the namespace of the object it is about; of objects without one, in `default`."""
    namespace = (event.get("metadata") or {}).get("namespace", "")
    target = (event.get("involvedObject") or {}).get("namespace", "")
    errors: list[FieldError] = []
    if not event.get("eventTime"):
        fits = namespace == target if target else namespace in ("", "default")
    else:
        fits = bool(target) or namespace in ("default", "kube-system")
    if not fits:
        errors.append(invalid("involvedObject.namespace", target, _NOT_ITS_NAMESPACE))
    return errors
