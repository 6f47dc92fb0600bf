"""Deployments, replica sets, stateful sets, daemon sets and replication controllers."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, nonnegative, shown_selector, unchanged
from gpuaas.api.kubernetes.rules.pod_defaults import default_pod_template
from gpuaas.api.kubernetes.rules.pod_spec import validate_pod_template
from gpuaas.api.kubernetes.rules.selectors import (
    is_empty,
    is_readable,
    keeps_running,
    labels_of,
    mismatch,
    selector_errors,
    selects,
    template_errors,
)
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required, show
from gpuaas.base.names import is_dns1123_label
from gpuaas.base.numbers import natural

_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%'"
    " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_STATEFUL_FROZEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


class Deployment(Behaviour):
    annotations_count = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        default_pod_template(spec.get("template") or {})

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = nonnegative(spec.get("replicas"), "spec.replicas")
        errors += selector_errors(spec, "spec", "deployment")
        errors += _readable_template(spec, "ReplicaSet", "invalid label selector")
        errors += _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
        errors += nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += nonnegative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            at = "spec.progressDeadlineSeconds"
            errors += nonnegative(deadline, at)
            if deadline <= spec.get("minReadySeconds", 0):
                errors.append(invalid(at, deadline, "must be greater than minReadySeconds"))
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        return _same_selector(obj, old)

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        return replica_counts(obj, old, ("updatedReplicas", "readyReplicas", "availableReplicas"), "readyReplicas")


class ReplicaSet(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_pod_template(spec.get("template") or {})

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = nonnegative(spec.get("replicas"), "spec.replicas")
        errors += nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += selector_errors(spec, "spec", "deployment")  # the real server says "deployment" here too
        return errors + _readable_template(spec, "ReplicaSet", "invalid label selector")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        return _same_selector(obj, old)

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return replica_counts(obj, old, counts, "readyReplicas")


class StatefulSet(Behaviour):
    name_messages = staticmethod(is_dns1123_label)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for when in ("whenDeleted", "whenScaled"):
            if not retention.get(when):
                retention[when] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")
        default_pod_template(spec.get("template") or {})

    def prepare_create(self, obj: Object) -> None:
        """maxUnavailable of stateful sets is switched off by default: it is left out without a word."""
        rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        rolling.pop("maxUnavailable", None)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        policy = spec.get("podManagementPolicy", "")
        errors: list[FieldError] = []
        if policy not in ("OrderedReady", "Parallel"):
            errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
        errors += _stateful_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
        errors += _retention(spec.get("persistentVolumeClaimRetentionPolicy") or {})
        being_made = not (obj.get("metadata") or {}).get("resourceVersion")  # it cannot change later
        if being_made and spec.get("serviceName"):
            errors += dns_label(spec["serviceName"], "spec.serviceName")
        errors += nonnegative(spec.get("replicas"), "spec.replicas")
        errors += nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += nonnegative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
        errors += selector_errors(spec, "spec", "statefulset")
        return errors + _stateful_template(spec)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        new, before = (
            {key: value for key, value in (o.get("spec") or {}).items() if key not in _STATEFUL_MUTABLE and value}
            for o in (obj, old)
        )
        return [] if new == before else [forbidden("spec", _STATEFUL_FROZEN)]

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return replica_counts(obj, old, counts, "status.readyReplicas")


class DaemonSet(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_pod_template(spec.get("template") or {})
        _template_generation(obj, _said_generation(obj))

    def prepare_create(self, obj: Object) -> None:
        _template_generation(obj, max(_said_generation(obj), 1))

    def prepare_update(self, obj: Object, old: View) -> None:
        before = int(((old.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATE_GENERATION, "0"))
        changed = (obj.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
        _template_generation(obj, before + changed)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        selector, template = spec.get("selector"), spec.get("template") or {}
        errors = validate_label_selector(selector, "spec.selector")
        if is_readable(selector) and not selects(selector, template):
            errors.append(mismatch(template, "spec.template"))
        if is_empty(selector):
            errors.append(invalid("spec.selector", shown_selector(selector), "empty selector is invalid for daemonset"))
        errors += validate_pod_template(template, "spec.template")
        errors += keeps_running(template.get("spec") or {}, "spec.template.spec", "DaemonSet")
        errors += nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
        return errors + nonnegative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        return _same_selector(obj, old)


class ReplicationController(Behaviour):
    field_selectors = ("status.replicas",)
    orphan_by_default = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.get("template") or {}
        default_pod_template(template)
        labels = labels_of(template)
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            metadata = obj.setdefault("metadata", {})
            if not metadata.get("labels"):
                metadata["labels"] = dict(labels)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        if not spec.get("selector"):
            errors.append(required("spec.selector"))
        errors += nonnegative(spec.get("replicas"), "spec.replicas")
        if spec.get("template") is None:
            return [*errors, required("spec.template")]
        as_object = {**spec, "selector": {"matchLabels": spec.get("selector") or {}}}
        return errors + template_errors(as_object, "spec", "ReplicationController")

    def fields(self, obj: View) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class PodTemplate(Behaviour):
    def default(self, obj: Object) -> None:
        default_pod_template(obj.get("template") or {})

    def validate(self, obj: View) -> list[FieldError]:
        return validate_pod_template(obj.get("template"), "template")


_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _said_generation(obj: View) -> int:
    said = ((obj.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return int(said) if re.fullmatch("[0-9]{1,18}", said) else 0


def _template_generation(obj: Object, value: int) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(value)}


def replica_counts(obj: View, old: View, counts: tuple[str, ...], ready_name: str) -> list[FieldError]:
    """Counts in a status: never negative, never more than there are replicas."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for name in ("replicas", *counts, "observedGeneration", "collisionCount"):
        errors += nonnegative(status.get(name), f"status.{name}")
    total = status.get("replicas", 0)
    for name in counts:
        if status.get(name, 0) > total:
            errors.append(invalid(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        text = f"cannot be greater than {ready_name}"
        errors.append(invalid("status.availableReplicas", available, text))
    collisions = status.get("collisionCount") or 0
    if collisions < (before.get("collisionCount") or 0):
        errors.append(invalid("status.collisionCount", collisions, "cannot be decremented"))
    return errors


def count_or_percent(value: int | str | None, path: str) -> list[FieldError]:
    if isinstance(value, str):
        return [] if re.fullmatch("[0-9]+%", value) else [invalid(path, value, _PERCENT)]
    return nonnegative(value, path)


def amount_of(value: int | str | None) -> int:
    """The number in an int-or-percent; 0 for what cannot be read."""
    if isinstance(value, str):
        found = re.fullmatch("([0-9]+)%?", value)
        return (natural(found[1]) or 0) if found else 0
    return value or 0


def at_most_all(value: int | str | None, path: str) -> list[FieldError]:
    too_much = isinstance(value, str) and re.fullmatch("[0-9]+%", value) and natural(value[:-1]) not in range(101)
    return [invalid(path, value, "must not be greater than 100%")] if too_much else []


def _same_selector(obj: View, old: View) -> list[FieldError]:
    new, before = ((o.get("spec") or {}).get("selector") for o in (obj, old))
    return unchanged(new, before, "spec.selector")


def _readable_template(spec: View, owner: str, unreadable: str) -> list[FieldError]:
    selector = spec.get("selector")
    if is_readable(selector):
        return template_errors(spec, "spec", owner)
    return [invalid("spec.selector", shown_selector(selector), unreadable)]


def _deployment_strategy(strategy: View, path: str) -> list[FieldError]:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "Recreate":
            text = "may not be specified when strategy `type` is 'Recreate'"
            return [] if rolling is None else [forbidden(child(path, "rollingUpdate"), text)]
        case "RollingUpdate":
            return _rolling(rolling or {}, child(path, "rollingUpdate"))
        case _:
            shown = _shown(strategy, {"maxUnavailable": 0, "maxSurge": 0})
            return _unsupported(shown, '"Recreate", "RollingUpdate"', path)


def _rolling(rolling: View, path: str) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    at = child(path, "maxUnavailable")
    errors = count_or_percent(unavailable, at) + count_or_percent(surge, child(path, "maxSurge"))
    if not amount_of(unavailable) and not amount_of(surge):
        errors.append(invalid(at, unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, at)


def _daemon_strategy(strategy: View, path: str) -> list[FieldError]:
    match strategy.get("type"):
        case "OnDelete":
            return []
        case "RollingUpdate":
            rolling, at = strategy.get("rollingUpdate") or {}, child(path, "rollingUpdate")
        case _:
            shown = _shown(strategy, {"maxUnavailable": 0, "maxSurge": 0})
            return _unsupported(shown, '"RollingUpdate", "OnDelete"', path)
    errors: list[FieldError] = []
    names = ("maxUnavailable", "maxSurge")
    for check in (count_or_percent, at_most_all):
        for name in names:
            errors += check(rolling.get(name), child(at, name))
    unavailable, surge = (amount_of(rolling.get(name)) for name in names)
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(child(at, "maxSurge"), rolling.get("maxSurge"), text))
    elif not unavailable and not surge:
        errors.append(required(child(at, "maxUnavailable"), "cannot be 0 when maxSurge is 0"))
    return errors


def _stateful_strategy(strategy: View, path: str) -> list[FieldError]:
    rolling, at = strategy.get("rollingUpdate"), child(path, "rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            text = "only allowed for updateStrategy 'RollingUpdate'"
            return [] if rolling is None else [invalid(at, _shown(strategy, _PARTITION)["RollingUpdate"], text)]
        case "RollingUpdate":
            if rolling is None:
                return []
            errors = nonnegative(rolling.get("partition"), child(at, "partition"))
            unavailable = rolling.get("maxUnavailable")
            if unavailable is not None:
                where = child(at, "maxUnavailable")
                errors += count_or_percent(unavailable, where)
                errors += [] if amount_of(unavailable) else [invalid(where, unavailable, "cannot be 0")]
                errors += at_most_all(unavailable, where)
            return errors
        case _:
            return [invalid(path, _shown(strategy, _PARTITION), "must be 'RollingUpdate' or 'OnDelete'")]


def _retention(retention: View) -> list[FieldError]:
    errors: list[FieldError] = []
    for when in ("whenDeleted", "whenScaled"):
        if retention.get(when) not in ("Retain", "Delete"):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{when}"
            errors += _unsupported(retention.get(when, ""), '"Retain", "Delete"', at)
    return errors


def _stateful_template(spec: View) -> list[FieldError]:
    """The claims become volumes of the pods, and each pod gets a name of its own."""
    template = dict(spec.get("template") or {})
    pod_spec = {
        key: value for key, value in (template.get("spec") or {}).items() if key not in ("hostname", "subdomain")
    }
    names = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    taken = frozenset(names)
    others = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in taken]
    if claimed:
        pod_spec["volumes"] = claimed + others
    template["spec"] = pod_spec
    return _readable_template({**spec, "template": template}, "StatefulSet", "")


_PARTITION: Final = {"partition": 0, "maxUnavailable": None}


def _shown(strategy: View, fields: View) -> dict[str, Any]:
    """Some messages show a whole struct: with Go's names, and the zero values of what is not said."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling = {key[0].upper() + key[1:]: rolling.get(key, zero) for key, zero in fields.items()}
    return {"Type": strategy.get("type", ""), "RollingUpdate": rolling}


def _unsupported(value: Any, supported: str, path: str) -> list[FieldError]:
    return [
        FieldError("FieldValueNotSupported", path, f"Unsupported value: {show(value)}: supported values: {supported}")
    ]
