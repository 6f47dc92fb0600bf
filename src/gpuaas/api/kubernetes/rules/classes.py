"""Classes that others refer to by name: of storage and of runtimes."""

from collections import Counter
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, each, known, qualified_name, unchanged
from gpuaas.api.kubernetes.rules.placement import validate_tolerations
from gpuaas.api.kubernetes.rules.pod_warnings import label_warning
from gpuaas.api.kubernetes.rules.resources import resource_requirements
from gpuaas.api.metadata import View, qualified_messages, validate_labels
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, invalid, required, too_long

_MOST_TOLD: Final = 100
_MOST_PARAMETERS: Final = 512
_LONGEST_PARAMETERS: Final = 256 * 1024
_FROZEN: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


class StorageClass(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: View) -> list[FieldError]:
        provisioner = obj.get("provisioner", "")
        errors = qualified_name(provisioner.lower(), "provisioner") if provisioner else [required("provisioner")]
        errors += _parameters(obj.get("parameters") or {})
        if obj.get("reclaimPolicy"):
            errors += known(obj["reclaimPolicy"], ("Delete", "Retain"), "reclaimPolicy")
        modes = ("Immediate", "WaitForFirstConsumer")
        errors += known(obj.get("volumeBindingMode", ""), modes, "volumeBindingMode")
        seen = Counter((frozenset[Any](),))  # a term that says nothing counts as said already
        for term, at in each(obj, "allowedTopologies", ""):
            errors += _topology(term, at)
            parts = term.get("matchLabelExpressions") or ()
            said = frozenset({part.get("key", ""): frozenset(part.get("values") or ()) for part in parts}.items())
            errors += [duplicate(child(at, "matchLabelExpressions"), "")] * min(seen[said], _MOST_TOLD)
            seen[said] += 1
        return errors

    def warnings(self, obj: View, old: View | None) -> list[str]:
        return _topology_warnings(obj)

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return [error for key in _FROZEN for error in unchanged(obj.get(key), old.get(key), key)]


def _topology_warnings(obj: View) -> list[str]:
    return [
        f"{child(at, 'key')}: {label_warning(expression.get('key', ''))}"
        for term, where in each(obj, "allowedTopologies", "")
        for expression, at in each(term, "matchLabelExpressions", where)
        if label_warning(expression.get("key", ""))
    ]


def _parameters(parameters: View) -> list[FieldError]:
    if len(parameters) > _MOST_PARAMETERS:
        return [too_long("parameters", _MOST_PARAMETERS)]
    errors = [invalid("parameters", "", "field can not be empty.")] if "" in parameters else []
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _LONGEST_PARAMETERS:
        errors.append(too_long("parameters", _LONGEST_PARAMETERS))
    return errors


def _topology(term: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    keys: set[str] = set()
    for requirement, at in each(term, "matchLabelExpressions", path):
        key, values = requirement.get("key", ""), requirement.get("values") or ()
        if not values:
            errors.append(required(child(at, "values")))
        errors += [duplicate(child(at, "values", index), value) for index, value in duplicates(values)]
        errors += [invalid(child(at, "key"), key, text) for text in qualified_messages(key)]
        if key in keys:
            errors.append(duplicate(child(at, "key"), key))
        keys.add(key)
    return errors


class RuntimeClass(Behaviour):
    generation = False
    unconditional_update = False
    allow_create_on_update = True

    def validate(self, obj: View) -> list[FieldError]:
        handler = obj.get("handler", "")
        errors = dns_label(handler, "handler") if handler else [required("handler")]
        if obj.get("overhead") is not None:
            fixed = {"limits": obj["overhead"].get("podFixed") or {}}
            errors += resource_requirements(fixed, "overhead")
        scheduling = obj.get("scheduling") or {}
        errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        errors += validate_tolerations(scheduling, "scheduling")
        said: list[tuple[str, ...]] = []
        for toleration, at in each(scheduling, "tolerations", "scheduling"):
            key = tuple(toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
            errors += [duplicate(at, _shown(toleration))] if key in said else []
            said.append(key)
        return errors

    def warnings(self, obj: View, old: View | None) -> list[str]:
        selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [f"scheduling.nodeSelector: {label_warning(key)}" for key in selector if label_warning(key)]

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return unchanged(obj.get("handler", ""), old.get("handler", ""), "handler")


def _shown(toleration: View) -> dict[str, Any]:
    names = ("key", "operator", "value", "effect")
    shown = {name.capitalize(): toleration.get(name, "") for name in names}
    return {**shown, "TolerationSeconds": toleration.get("tolerationSeconds")}
