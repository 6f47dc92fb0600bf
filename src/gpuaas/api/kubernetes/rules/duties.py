"""Leases and priority classes."""

from typing import Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import one_of, unchanged
from gpuaas.api.metadata import NEGATIVE, View
from gpuaas.base.fielderrors import FieldError, forbidden, invalid

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SYSTEM_PREFIX: Final = "system-"


class Lease(Behaviour):
    generation = False
    allow_create_on_update = True
    unconditional_update = False

    def prepare_create(self, obj: Object) -> None:
        """Coordinated leader election is switched off by default: its fields are left out without a word."""
        for field in ("strategy", "preferredHolder"):
            (obj.get("spec") or {}).pop(field, None)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        errors: list[FieldError] = []
        if seconds is not None and seconds <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if moves is not None and moves < 0:
            errors.append(invalid("spec.leaseTransitions", moves, NEGATIVE))
        return errors


class PriorityClass(Behaviour):
    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, obj: View) -> list[FieldError]:
        name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value", 0)
        errors: list[FieldError] = []
        if name.startswith(_SYSTEM_PREFIX):
            errors += _reserved(obj, name, value)
        elif value > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", text))
        policies = ("PreemptLowerPriority", "Never")
        return errors + one_of(obj.get("preemptionPolicy"), policies, "preemptionPolicy", sort=False)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + unchanged(obj.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def _reserved(obj: View, name: str, value: int) -> list[FieldError]:
    if name not in SYSTEM_CLASSES:
        why = f"{name} is not a known system priority class"
    elif value != SYSTEM_CLASSES[name]:
        why = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    elif obj.get("globalDefault"):
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    text = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
    return [forbidden("metadata.name", text)]
