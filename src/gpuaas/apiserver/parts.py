"""Writes granted on their own that change one part of an object: finalize, ephemeralcontainers, resize, approval.

Each takes its part from the request and everything else from the stored object, so that a user who may do the one thing can
do nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.rules import certificates
from gpuaas.api.kubernetes.rules.namespaces import finalizer_errors
from gpuaas.base.fielderrors import FieldError, forbidden

_RESIZABLE = ("cpu", "memory")

View = Mapping[str, Any]
Merge = Callable[[Object, View, float], Object]  # what was sent, what is there, now
Check = Callable[[View, View], list[FieldError]]


def _finalize(obj: Object, old: View, _now: float) -> Object:
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    spec = {**(old.get("spec") or {}), "finalizers": finalizers}
    if not finalizers:
        del spec["finalizers"]
    return {**old, "metadata": obj["metadata"], "spec": spec}


def _ephemeral_containers(obj: Object, old: View, _now: float) -> Object:
    spec = {**old["spec"]}
    if (obj.get("spec") or {}).get("ephemeralContainers"):
        spec["ephemeralContainers"] = obj["spec"]["ephemeralContainers"]
    return {**old, "metadata": _versioned(obj, old), "spec": spec}


def _resize(obj: Object, old: View, _now: float) -> Object:
    wanted = {each["name"]: each for each in (obj.get("spec") or {}).get("containers") or ()}
    containers = [
        {**each, "resources": wanted.get(each["name"], each).get("resources", {})} for each in old["spec"]["containers"]
    ]
    return {**old, "metadata": _versioned(obj, old), "spec": {**old["spec"], "containers": containers}}


def _approval(obj: Object, old: View, now: float) -> Object:
    status = {**(old.get("status") or {}), "conditions": []}
    if (obj.get("status") or {}).get("conditions"):
        status["conditions"] = certificates.stamped(obj["status"]["conditions"], old, now)
    if not status["conditions"]:
        del status["conditions"]
    return {**old, "metadata": obj["metadata"], "status": status}


def _versioned(obj: Object, old: View) -> Object:
    """The old metadata with the new owners of fields."""
    meta = {**old["metadata"]}
    if "managedFields" in obj["metadata"]:
        meta["managedFields"] = obj["metadata"]["managedFields"]
    return meta


def _only_added(obj: View, old: View) -> list[FieldError]:
    before = (old.get("spec") or {}).get("ephemeralContainers") or []
    after = {each.get("name"): each for each in (obj.get("spec") or {}).get("ephemeralContainers") or ()}
    if all(after.get(each["name"]) == each for each in before):
        return []
    return [forbidden("spec.ephemeralContainers", "existing ephemeral containers may not be removed or changed")]


def _only_native(obj: View, old: View) -> list[FieldError]:
    """A running pod keeps its devices: giving them back would only change what is written of it."""
    before = {each["name"]: _devices(each) for each in old["spec"]["containers"]}
    if all(
        _devices(each) == before.get(each.get("name"), {}) for each in (obj.get("spec") or {}).get("containers") or ()
    ):
        return []
    return [forbidden("spec", "only cpu and memory resources are mutable")]


def _devices(container: View) -> dict[str, Any]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount for name, amount in asked.items() if name not in _RESIZABLE}


def _nothing(_obj: View, _old: View) -> list[FieldError]:
    return []


PARTS: Mapping[str, tuple[Merge, Check]] = {
    "approval": (_approval, certificates.removal_errors),
    "ephemeralcontainers": (_ephemeral_containers, _only_added),
    "finalize": (_finalize, lambda obj, _old: finalizer_errors(obj, indexed=True)),
    "resize": (_resize, _only_native),
}
