"""Disruption budgets: how many pods of a set must stay."""

from typing import Any

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.rules.checks import known
from gpuaas.api.kubernetes.rules.workloads import at_most_all, count_or_percent
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, invalid


class PodDisruptionBudget(Behaviour):
    unconditional_update = False

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        amounts = [key for key in ("minAvailable", "maxUnavailable") if spec.get(key) is not None]
        if len(amounts) == 2:
            errors.append(invalid("spec", _shown(spec), "minAvailable and maxUnavailable cannot be both set"))
        for key in amounts:
            errors += count_or_percent(spec[key], f"spec.{key}") + at_most_all(spec[key], f"spec.{key}")
        errors += validate_label_selector(spec.get("selector"), "spec.selector")
        if spec.get("unhealthyPodEvictionPolicy") is not None:
            at = "spec.unhealthyPodEvictionPolicy"
            errors += known(spec["unhealthyPodEvictionPolicy"], ("AlwaysAllow", "IfHealthyBudget"), at)
        return errors


def _shown(spec: View) -> dict[str, Any]:
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
