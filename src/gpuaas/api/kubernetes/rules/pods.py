"""Pods: what one becomes when it is made, what of it may still change, and what an update of its status may not do."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import MAX_INT32, dns_subdomain, each, in_range, qualified_name, unchanged
from gpuaas.api.kubernetes.rules.containers import padded_image
from gpuaas.api.kubernetes.rules.placement import validate_tolerations
from gpuaas.api.kubernetes.rules.pod_annotations import annotation_changes, annotation_errors, keep_devices
from gpuaas.api.kubernetes.rules.pod_defaults import default_pod, default_pod_spec
from gpuaas.api.kubernetes.rules.pod_spec import validate_pod_spec
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid
from gpuaas.base.quantity import parse_quantity

_UPDATABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")


class Pod(Behaviour):
    graceful = True
    keep_status_on_create = True  # of which `prepare_create` takes one word
    field_selectors = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod(spec)

    def prepare_create(self, obj: Object) -> None:
        keep_devices(obj["metadata"], {})
        given = (obj.get("status") or {}).get("qosClass")  # taken as said, like everywhere it is asked for
        status: Object = {"phase": "Pending", "qosClass": given or qos_class(obj)}
        obj["status"] = status
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": (obj.get("metadata") or {}).get("creationTimestamp"),
                    "reason": "SchedulingGated",
                    "message": _GATED,
                }
            ]

    def prepare_update(self, obj: Object, old: View) -> None:
        keep_devices(obj["metadata"], old["metadata"])

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        annotations = (obj.get("metadata") or {}).get("annotations")
        errors = annotation_errors(annotations, spec, "metadata.annotations")
        errors += validate_pod_spec(spec, "spec", is_pod=True)
        for kind in ("containers", "initContainers"):
            for container, at in each(spec, kind, "spec"):
                errors += padded_image(container, at)
        if not (obj.get("metadata") or {}).get("resourceVersion"):  # being made
            errors += _on_create(spec)
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        annotations, had = ((view.get("metadata") or {}).get("annotations") for view in (obj, old))
        for kind in ("containers", "initContainers"):
            if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
                return [forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
        at = "metadata.annotations"
        errors = annotation_changes(annotations, had, at) + annotation_errors(annotations, spec, at)  # said twice
        errors += _deadline(spec, before)
        errors += _tolerations(spec, before)
        errors += _gates(spec, before)
        gated = bool(before.get("schedulingGates"))
        if _frozen(spec, before, gated) != _frozen(before, before, gated):
            errors.append(forbidden("spec", f"{_UPDATABLE}\n"))
        return errors

    def prepare_status_update(self, obj: Object, old: View) -> None:
        status = obj.setdefault("status", {})
        qos = (old.get("status") or {}).get("qosClass")
        if qos and not status.get("qosClass"):
            status["qosClass"] = qos

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        errors: list[FieldError] = []
        for condition, at in each(status, "conditions", "status"):
            if condition.get("type") not in _SYSTEM_CONDITIONS:
                errors += qualified_name(condition.get("type", ""), child(at, "Type"))
        nominated = status.get("nominatedNodeName")
        if nominated and nominated != before.get("nominatedNodeName"):
            errors += dns_subdomain(nominated, "status.nominatedNodeName")
        return errors + unchanged(status.get("qosClass", ""), before.get("qosClass", ""), "status.qosClass")

    def fields(self, obj: View) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        addresses = status.get("podIPs") or [{}]
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0].get("ip", ""),
            "status.podIPs": addresses[0].get("ip", ""),
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }


def qos_class(pod: View) -> str:
    """Guaranteed when every container limits cpu and memory to what it requests, BestEffort when none asks for any."""
    spec = pod.get("spec") or {}
    own = spec.get("resources")
    holders = (
        [own]
        if own and (own.get("requests") or own.get("limits"))
        else [
            container.get("resources") or {}
            for kind in ("containers", "initContainers")
            for container in spec.get(kind) or ()
        ]
    )
    guaranteed = True
    asked = False
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for resources in holders:
        named = {kind: _computed(resources.get(kind)) for kind in ("requests", "limits")}
        asked = asked or any(named.values())
        guaranteed = guaranteed and set(named["limits"]) == {"cpu", "memory"}
        for total, kind in ((requests, "requests"), (limits, "limits")):
            for name, amount in named[kind].items():
                total[name] = total.get(name, 0) + amount
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _computed(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    found = {name: parse_quantity(amount).nano for name, amount in (amounts or {}).items() if name in ("cpu", "memory")}
    return {name: amount for name, amount in found.items() if amount > 0}


def _on_create(spec: View) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _deadline(spec: View, before: View) -> list[FieldError]:
    new, old, at = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"), "spec.activeDeadlineSeconds"
    if new is None:
        return [] if old is None else [invalid(at, None, "must not update from a positive integer to nil value")]
    errors = in_range(new, 0, MAX_INT32, at)
    if not errors and old is not None and old < new:
        errors.append(invalid(at, new, "must be less than or equal to previous value"))
    return errors


def _tolerations(spec: View, before: View) -> list[FieldError]:
    def without_seconds(toleration: View) -> tuple[Any, ...]:
        return tuple(toleration.get(key, "") for key in ("key", "operator", "value", "effect"))

    kept = {without_seconds(toleration) for toleration in spec.get("tolerations") or ()}
    if any(without_seconds(toleration) not in kept for toleration in before.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return validate_tolerations(spec, "spec")


def _gates(spec: View, before: View) -> list[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    return [
        forbidden(child(at, "name"), f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'")
        for gate, at in each(spec, "schedulingGates", "spec")
        if gate.get("name") not in known
    ]


def _frozen(spec: View, before: View, gated: bool) -> dict[str, Any]:
    """The spec without what an update may change; a gated pod may also be narrowed to fewer nodes."""
    frozen = {key: value for key, value in spec.items() if value not in (None, [], {})}
    for kind in ("containers", "initContainers"):
        if frozen.get(kind):
            frozen[kind] = [{**container, "image": ""} for container in frozen[kind]]
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        frozen.pop(field, None)
    grace = spec.get("terminationGracePeriodSeconds")
    if before.get("terminationGracePeriodSeconds", 0) < 0 and grace == 1:
        frozen["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if gated:
        frozen.pop("nodeSelector", None)
        affinity = {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
        frozen["affinity"] = affinity
    return frozen
