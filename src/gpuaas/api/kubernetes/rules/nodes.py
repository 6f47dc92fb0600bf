"""Nodes: taints, amounts of resources, and the few things about a node that never change."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import each, qualified_name
from gpuaas.api.kubernetes.rules.placement import taint_effect
from gpuaas.api.kubernetes.rules.resources import resource_amount
from gpuaas.api.metadata import View
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required, show
from gpuaas.base.names import is_label_value

_ONCE: Final = 'node updates may not change {0} except from "" to valid'


class Node(Behaviour):
    generation = False
    keep_status_on_create = True
    field_selectors = ("spec.unschedulable",)

    def default(self, obj: Object) -> None:
        _default_allocatable(obj)
        spec = obj.setdefault("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        return _taints(spec) + _amounts(obj)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = _addresses(obj)
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            errors.append(forbidden("spec.podCIDRs", _ONCE.format("podCIDR")))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            errors.append(forbidden("spec.providerID", _ONCE.format("providerID")))
        return errors

    def prepare_status_update(self, obj: Object, old: View) -> None:
        _default_allocatable(obj)

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        return _amounts(obj) + _addresses(obj)

    def fields(self, obj: View) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


def _default_allocatable(obj: Object) -> None:
    status = obj.get("status") or {}
    if status.get("capacity") and status.get("allocatable") is None:
        obj["status"] = {**status, "allocatable": dict(status["capacity"])}


def _taints(spec: View) -> list[FieldError]:
    """The real server names the path metadata.taints."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for taint, at in each(spec, "taints", "metadata"):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += qualified_name(key, child(at, "key"))
        messages = is_label_value(value)
        if messages:
            errors.append(invalid(child(at, "value"), value, ";".join(messages)))
        errors += taint_effect(effect, child(at, "effect")) if effect else [required(child(at, "effect"))]
        if (key, effect) in seen:
            shown = show(_taint_shown(taint))
            text = f"Duplicate value: {shown}: taints must be unique by key and effect pair"
            errors.append(FieldError("FieldValueDuplicate", at, text))
        seen.add((key, effect))
    return errors


def _taint_shown(taint: View) -> dict[str, Any]:
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }


def _amounts(obj: View) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in ((obj.get("status") or {}).get(field) or {}).items():
            errors += resource_amount(name, amount, f"status.{field}.{name}")
    return errors


def _addresses(obj: View) -> list[FieldError]:
    addresses = (obj.get("status") or {}).get("addresses") or []
    return [
        duplicate(f"status.addresses[{index}]", {"Type": entry.get("type", ""), "Address": entry.get("address", "")})
        for index, entry in duplicates(addresses)
    ]
