"""Runtime classes: which executor runs a pod, and what it costs on top."""

from typing import Any

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.rules.checks import dns_label, each, unchanged
from gpuaas.api.kubernetes.rules.placement import validate_tolerations
from gpuaas.api.kubernetes.rules.resources import resource_requirements
from gpuaas.api.metadata import View, validate_labels
from gpuaas.base.fielderrors import FieldError, duplicate, required


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

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return unchanged(obj.get("handler", ""), old.get("handler", ""), "handler")


def _shown(toleration: View) -> dict[str, Any]:
    names = ("key", "operator", "value", "effect")
    shown = {name.capitalize(): toleration.get(name, "") for name in names}
    return {**shown, "TolerationSeconds": toleration.get("tolerationSeconds")}
