"""Limit ranges and resource quotas: the rules for the rules. What they do to pods is in module admission."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import each
from gpuaas.api.kubernetes.rules.resources import (
    container_resource_name,
    may_overcommit,
    quota_resource_name,
    resource_amount,
    resource_name,
)
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, keyed, required, too_many
from gpuaas.base.names import is_qualified_name
from gpuaas.base.quantity import NANO, Quantity, parse_quantity

_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_MOST_SCOPES: Final = 100  # the error of each scope repeats the whole list
SCOPES: Final = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_POD_RESOURCES: Final = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    }
)
_EXISTS_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class LimitRange(Behaviour):
    allow_create_on_update = True
    generation = False

    def default(self, obj: Object) -> None:
        for limit in (obj.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
            if limits:
                limit["default"] = limits
            if requests:
                limit["defaultRequest"] = requests

    def validate(self, obj: View) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for limit, at in each(obj.get("spec") or {}, "limits", "spec"):
            kind = limit.get("type", "")
            errors += _limit_type(kind, child(at, "type"))
            if kind in seen:
                errors.append(duplicate(child(at, "type"), kind))
            seen.add(kind)
            errors += _limit(limit, kind, at)
        return errors


class ResourceQuota(Behaviour):
    generation = False

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _amounts(spec.get("hard"), "spec.hard")
        return errors + _scopes(spec) + _scope_selector(spec)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        new, before = ((o.get("spec") or {}).get("scopes") or [] for o in (obj, old))
        return [] if set(new) == set(before) else [invalid("spec.scopes", new or None, "field is immutable")]

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        status = obj.get("status") or {}
        return _amounts(status.get("hard"), "status.hard") + _amounts(status.get("used"), "status.used")


def _amounts(amounts: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in (amounts or {}).items():
        at = keyed(path, name)
        errors += quota_resource_name(name, at) + resource_amount(name, amount, at)
    return errors


def _scopes(spec: View) -> list[FieldError]:
    scopes = list(spec.get("scopes") or ())
    errors: list[FieldError] = []
    if len(scopes) > _MOST_SCOPES:
        return [too_many("spec.scopes", len(scopes), _MOST_SCOPES)]
    for scope in scopes:
        if scope not in SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        unfit = [name for name in spec.get("hard") or () if not _scope_fits(scope, name)]
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource")] * min(len(unfit), 10)
    return errors + [invalid("spec.scopes", scopes, "conflicting scopes") for _ in range(_conflicts(scopes))]


def _conflicts(scopes: list[str]) -> int:
    pairs = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
    return sum(pair <= set(scopes) for pair in pairs)


def _scope_fits(scope: str, resource: str) -> bool:
    if quota_resource_name(resource, "") or "/" in resource:
        return True
    match scope:
        case "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity":
            return resource in _POD_RESOURCES
        case "BestEffort":
            return resource == "pods"
        case "VolumeAttributesClass":
            return resource in ("persistentvolumeclaims", "requests.storage")
        case _:
            return True


def _scope_selector(spec: View) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    at = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    terms = selector.get("matchExpressions") or ()
    if len(terms) > _MOST_SCOPES:
        return [too_many(at, len(terms), _MOST_SCOPES)]
    for term in terms:
        scope, operator, values = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
        if scope not in SCOPES:
            errors.append(invalid(f"{at}.scopeName", scope, "unsupported scope"))
        unfit = [name for name in spec.get("hard") or () if not _scope_fits(scope, name)]
        errors += [invalid(at, dict(selector), "unsupported scope applied to resource")] * min(len(unfit), 10)
        if scope in SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
            errors.append(invalid(f"{at}.operator", operator, _EXISTS_ONLY))
        match operator:
            case "In" | "NotIn":
                if not values:
                    text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                    errors.append(required(f"{at}.values", text))
            case "Exists" | "DoesNotExist":
                if values:
                    text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                    errors.append(invalid(f"{at}.values", values, text))
            case _:
                errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    return errors


def _limit_type(kind: str, path: str) -> list[FieldError]:
    errors = [invalid(path, kind, message) for message in is_qualified_name(kind)]
    if not errors and "/" not in kind and kind not in _LIMIT_TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _limit(limit: View, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    check = container_resource_name if kind in ("Pod", "Container") else resource_name
    for field in _AMOUNTS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if limit.get(field):
                errors.append(forbidden(child(path, field), "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(field) or ():
            errors += check(name, keyed(child(path, field), name))
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(field) or {}) for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(child(path, "limits"), text))
    for name in sorted({name for field in _AMOUNTS for name in limit.get(field) or ()}):
        errors += _compared(limit, name, path)
    return errors


def _compared(limit: View, name: str, path: str) -> list[FieldError]:
    """Minimum, default request, default and maximum of one resource must be in order."""
    least, most, usual, request, ratio = (
        _quantity(limit, field, name) for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    )
    errors: list[FieldError] = []

    def wrong(field: str, shown: Quantity, text: str) -> None:
        errors.append(invalid(keyed(child(path, field), name), str(shown), text))

    if least and most and least.nano > most.nano:
        wrong("min", least, f"min value {least} is greater than max value {most}")
    if request and least and least.nano > request.nano:
        wrong("defaultRequest", request, f"min value {least} is greater than default request value {request}")
    if request and most and request.nano > most.nano:
        wrong("defaultRequest", request, f"default request value {request} is greater than max value {most}")
    if request and usual and request.nano > usual.nano:
        wrong("defaultRequest", request, f"default request value {request} is greater than default limit value {usual}")
    if usual and least and least.nano > usual.nano:
        wrong("default", least, f"min value {least} is greater than default value {usual}")
    if usual and most and usual.nano > most.nano:
        wrong("default", most, f"default value {usual} is greater than max value {most}")
    if ratio and ratio.nano < NANO:
        wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1")
    if ratio and least and most and least.nano and ratio.nano / NANO > most.nano / least.nano:
        quotient = most.nano / least.nano
        wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is greater than max/min = {quotient:f}")
    if usual and request and usual.nano != request.nano and not may_overcommit(name):
        text = f"default value {usual} must equal to defaultRequest value {request} in {name}"
        wrong("defaultRequest", request, text)
    return errors


def _quantity(limit: View, field: str, name: str) -> Quantity | None:
    amount = (limit.get(field) or {}).get(name)
    return None if amount is None else parse_quantity(amount)
