"""Where a pod may run: affinity, tolerations, spreading over topology domains."""

from collections import Counter
from typing import Final

from gpuaas.api.kubernetes.rules.checks import (
    dns_label,
    dns_subdomain,
    each,
    known,
    positive,
    qualified_name,
)
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required, show
from gpuaas.base.names import is_label_value

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT: Final = "must be in the range 1-100"
_NO_OPERATOR: Final = "not a valid selector operator"


def validate_affinity(affinity: View | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = (affinity or {}).get("nodeAffinity")
    if node is not None:
        errors += node_affinity(node, child(path, "nodeAffinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (affinity or {}).get(kind)
        if terms is not None:
            errors += _pod_affinity(terms, child(path, kind))
    return errors


def node_affinity(affinity: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if affinity.get(_REQUIRED) is not None:
        errors += node_selector(affinity[_REQUIRED], child(path, _REQUIRED))
    for term, at in each(affinity, _PREFERRED, path):
        if not 1 <= term.get("weight", 0) <= 100:
            errors.append(invalid(child(at, "weight"), term.get("weight", 0), _WEIGHT))
        errors += _node_term(term.get("preference") or {}, child(at, "preference"), any_value=True)
    return errors


def node_selector(selector: View, path: str) -> list[FieldError]:
    if not selector.get("nodeSelectorTerms"):
        return [required(child(path, "nodeSelectorTerms"), "must have at least one node selector term")]
    errors: list[FieldError] = []
    for term, at in each(selector, "nodeSelectorTerms", path):
        errors += _node_term(term, at, any_value=False)
    return errors


def validate_tolerations(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for toleration, at in each(spec, "tolerations", path):
        errors += _toleration(toleration, at)
    return errors


def taint_effect(effect: str, path: str) -> list[FieldError]:
    return known(effect, TAINT_EFFECTS, path, sort=False)


def validate_spread(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    constraints = spec.get("topologySpreadConstraints") or ()
    left = Counter(map(_spread_key, constraints))  # how many of each are still to come
    for constraint, at in each(spec, "topologySpreadConstraints", path):
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        errors += positive(constraint.get("maxSkew", 0), child(at, "maxSkew"))
        if not key:
            errors.append(required(child(at, "topologyKey"), "can not be empty"))
        errors += known(action, ("DoNotSchedule", "ScheduleAnyway"), child(at, "whenUnsatisfiable"))
        left[key, action] -= 1
        if left[key, action]:
            errors.append(duplicate(child(at, "{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}"))
        errors += _spread_details(constraint, action, at)
    return errors


def _spread_key(constraint: View) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _spread_details(constraint: View, action: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    domains = constraint.get("minDomains")
    if domains is not None:
        errors += positive(domains, child(path, "minDomains"))
        if action != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(child(path, "minDomains"), domains, text))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(field) is not None:
            errors += known(constraint[field], ("Honor", "Ignore"), child(path, field))
    errors += _label_keys(constraint, path)
    return errors + validate_label_selector(constraint.get("labelSelector"), child(path, "labelSelector"))


def _toleration(toleration: View, path: str) -> list[FieldError]:
    key, operator, value, effect = (toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
    errors = qualified_name(key, child(path, "key")) if key else []
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(child(path, "operator"), operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(child(path, "effect"), effect, text))
    at = child(path, "operator")
    match operator:
        case "" | "Equal":
            messages = is_label_value(value)
            errors += [invalid(at, value, ";".join(messages))] if messages else []
        case "Exists":
            if value:
                errors.append(invalid(at, value, "value must be empty when `operator` is 'Exists'"))
        case _:
            more = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
            errors += _unsupported(operator, ("Equal", "Exists", *more), at)
    return errors + (taint_effect(effect, child(path, "effect")) if effect else [])


def _unsupported(operator: str, named: tuple[str, ...], path: str) -> list[FieldError]:
    """Lt and Gt are named as supported even where they are switched off, as they are by default."""
    choices = ", ".join(f'"{choice}"' for choice in named)
    return [
        FieldError("FieldValueNotSupported", path, f"Unsupported value: {show(operator)}: supported values: {choices}")
    ]


def _node_term(term: View, path: str, *, any_value: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for requirement, at in each(term, "matchExpressions", path):
        errors += _node_requirement(requirement, at, any_value)
    for requirement, at in each(term, "matchFields", path):
        errors += _node_field(requirement, at)
    return errors


def _node_requirement(requirement: View, path: str, any_value: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    values, at = requirement.get("values") or (), child(path, "values")
    match requirement.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                errors.append(required(at, "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                errors.append(forbidden(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        case "Gt" | "Lt":
            if len(values) != 1:
                errors.append(required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
        case other:
            errors.append(invalid(child(path, "operator"), other, _NO_OPERATOR))
    errors += qualified_name(requirement.get("key", ""), child(path, "key"))
    if not any_value:
        for index, value in enumerate(values):
            errors += [invalid(child(at, index), value, message) for message in is_label_value(value)]
    return errors


def _node_field(requirement: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    values, operator, key = requirement.get("values") or (), requirement.get("operator", ""), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(invalid(child(path, "operator"), operator, _NO_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(child(path, "values"), text))
    if key != "metadata.name":
        return [*errors, invalid(child(path, "key"), key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += dns_subdomain(value, child(path, "values", index))
    return errors


def _pod_affinity(affinity: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for term, at in each(affinity, _REQUIRED, path):
        errors += _pod_term(term, at)
    for weighted, at in each(affinity, _PREFERRED, path):
        if not 1 <= weighted.get("weight", 0) <= 100:
            errors.append(invalid(child(at, "weight"), weighted.get("weight", 0), _WEIGHT))
        errors += _pod_term(weighted.get("podAffinityTerm") or {}, child(at, "podAffinityTerm"))
    return errors


def _pod_term(term: View, path: str) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), child(path, "labelSelector"))
    errors += validate_label_selector(term.get("namespaceSelector"), child(path, "namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        errors += dns_label(namespace, child(path, "namespace"))
    errors += _label_keys(term, path)
    key, at = term.get("topologyKey", ""), child(path, "topologyKey")
    if not key:
        errors.append(required(at, "can not be empty"))
    return errors + qualified_name(key, at)


def _label_keys(term: View, path: str) -> list[FieldError]:
    """Keys whose values are taken from the pod: they need a selector to join."""
    errors: list[FieldError] = []
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field) or ()
        if keys and term.get("labelSelector") is None:
            errors.append(forbidden(child(path, field), "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            errors += qualified_name(key, child(path, field, index))
    mismatched = term.get("mismatchLabelKeys") or ()
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in mismatched:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(child(path, "matchLabelKeys", index), key, text))
    return errors
