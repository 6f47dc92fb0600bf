"""Jobs and cron jobs: counts and policies, the selector a job makes for itself, what may change while it is suspended."""

import re
from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.cron import parse_schedule
from gpuaas.api.kubernetes.rules.checks import (
    MAX_INT32,
    known,
    nonnegative,
    one_of,
    shown_labels,
    shown_selector,
    unchanged,
)
from gpuaas.api.kubernetes.rules.job_policies import failure_policy, success_policy
from gpuaas.api.kubernetes.rules.job_status import job_status_errors
from gpuaas.api.kubernetes.rules.pod_defaults import default_pod_template
from gpuaas.api.kubernetes.rules.pod_spec import validate_pod_template
from gpuaas.api.kubernetes.rules.selectors import is_readable, labels_of, mismatch, selects
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, invalid, keyed, required, too_long
from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain

_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
GENERATED_LABELS: Final = (*_NAME_LABELS, *_UID_LABELS)
_MOST_INDEXES: Final = 100_000
_MOST_AT_ONCE: Final = 10_000
_INDEXED_ONLY: Final = "requires indexed completion mode"
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


class Job(Behaviour):
    orphan_by_default = True
    field_selectors = ("status.successful",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MAX_INT32)
        labels = labels_of(spec.get("template") or {})
        metadata = obj.setdefault("metadata", {})
        if labels and not metadata.get("labels"):
            metadata["labels"] = labels  # the same dict: what the server adds to the template's labels shows here too
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        default_job_spec(spec)

    def prepare_create(self, obj: Object) -> None:
        """The server makes the selector, from the job's uid, unless the user said it is done by hand."""
        obj["status"] = {}
        spec, metadata = obj["spec"], obj.get("metadata") or {}
        if spec.get("manualSelector"):
            return
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        takes_over = not metadata.get("labels") or metadata["labels"] is template.get("labels")
        made = dict.fromkeys(_NAME_LABELS, metadata.get("name", ""))
        made.update(dict.fromkeys(_UID_LABELS, metadata.get("uid", "")))
        template["labels"] = {**made, **(template.get("labels") or {})}
        if takes_over:
            metadata["labels"] = dict(template["labels"])
        selector = spec.get("selector") or {}
        labels = {_UID_LABELS[1]: metadata.get("uid", ""), **(selector.get("matchLabels") or {})}
        spec["selector"] = {**selector, "matchLabels": labels}

    def prepare_update(self, obj: Object, old: View) -> None:
        metadata = obj.setdefault("metadata", {})
        if metadata.get("labels"):
            metadata["labels"] = dict(metadata["labels"])

    def validate(self, obj: View) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
        errors = job_spec_errors(spec, "spec")
        if not _is_as_generated(obj):
            errors = [*_generated_selector(obj), *errors, *_selector(spec)]
        if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
            host = f"{name}-{spec['completions'] - 1}"
            if is_dns1123_label(host):
                text = f"will not able to create pod with invalid DNS label: {host}"
                errors.append(invalid("metadata.name", name, text))
        return errors

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        if obj.get("spec") == old.get("spec"):
            return []  # all rules speak of the spec, and this one has passed them
        return super().check_update(obj, old)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = _completions(spec, before)
        errors += unchanged(spec.get("selector"), before.get("selector"), "spec.selector")
        errors += _template(spec, before, old)
        for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
            errors += unchanged(spec.get(field), before.get(field), f"spec.{field}")
        return errors

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        return job_status_errors(obj, old)

    def fields(self, obj: View) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}


class CronJob(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        default_job_spec((spec.get("jobTemplate") or {}).get("spec") or {})

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, obj: View) -> list[FieldError]:
        errors = _cron_spec(obj.get("spec") or {})
        name = (obj.get("metadata") or {}).get("name", "")
        if len(name) > 52 and not (obj.get("metadata") or {}).get("resourceVersion"):
            errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
        return errors


def default_job_spec(spec: Object) -> None:
    """What a job and the template of one share."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_pod_template(spec.get("template") or {})


def job_spec_errors(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    counts = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    for field in (*counts, "backoffLimitPerIndex", "maxFailedIndexes"):
        errors += nonnegative(spec.get(field), child(path, field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(child(path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    errors += _managed_by(spec.get("managedBy"), child(path, "managedBy"))
    errors += _completion_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        errors += failure_policy(spec, child(path, "podFailurePolicy"))
    policy = spec.get("successPolicy")
    if policy is not None:
        at = child(path, "successPolicy")
        if spec.get("completionMode") == "Indexed":
            errors += success_policy(spec, at)
        else:
            errors.append(invalid(at, {"Rules": policy.get("rules")}, _INDEXED_ONLY))
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        choices = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
        errors += known(replacement, choices, child(path, "podReplacementPolicy"))
    template = spec.get("template") or {}
    errors += validate_pod_template(template, child(path, "template"))
    return errors + _restart_policy(spec, template, child(path, "template", "spec", "restartPolicy"))


def _managed_by(manager: str | None, path: str) -> list[FieldError]:
    if manager is None:
        return []
    errors: list[FieldError] = []
    host, slash, rest = manager.partition("/")
    if not manager:
        return [required(path)]
    if not slash or not host or not rest:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid(path, manager, text)]
    errors += [invalid(path, host, message) for message in is_dns1123_subdomain(host)]
    return errors + ([too_long(path, 63)] if len(manager) > 63 else [])


def _completion_mode(spec: View, path: str) -> list[FieldError]:
    mode, at = spec.get("completionMode"), child(path, "completionMode")
    errors = known(mode, ("NonIndexed", "Indexed"), at, sort=False) if mode is not None else []
    if mode == "Indexed":
        return errors + _indexed(spec, path)
    if mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(child(path, field), spec[field], _INDEXED_ONLY))
    return errors


def _indexed(spec: View, path: str) -> list[FieldError]:
    completions, parallelism, failed = (spec.get(key) for key in ("completions", "parallelism", "maxFailedIndexes"))
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(child(path, "completions"), "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        errors.append(invalid(child(path, "parallelism"), parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(child(path, "maxFailedIndexes"), failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_INDEXES:
        errors.append(
            invalid(child(path, "maxFailedIndexes"), failed, f"must be less than or equal to {_MOST_INDEXES}")
        )
    if (completions or 0) > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            text = f"must be specified when completions is above {_MOST_INDEXES}"
            errors.append(required(child(path, "maxFailedIndexes"), text))
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > _MOST_AT_ONCE:
                text = (
                    f"must be less than or equal to {_MOST_AT_ONCE} when completions are above {_MOST_INDEXES} and used"
                    " with backoff limit per index"
                )
                errors.append(invalid(child(path, field), value, text))
    return errors


def _restart_policy(spec: View, template: View, path: str) -> list[FieldError]:
    policy = (template.get("spec") or {}).get("restartPolicy")
    if not policy or policy == "Always":
        return [required(path, 'valid values: "OnFailure", "Never"')]
    errors = known(policy, ("OnFailure", "Never"), path, sort=False)
    if not errors and spec.get("podFailurePolicy") is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(path, policy, text))
    return errors


def _is_as_generated(obj: View) -> bool:
    """Whether selector and labels are what the server made of them, as with nearly every job: nothing is wrong then."""
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    uid, name, labels = metadata.get("uid"), metadata.get("name"), labels_of(spec.get("template") or {}) or {}
    return (
        bool(uid and name)
        and not spec.get("manualSelector")
        and spec.get("selector") == {"matchLabels": {_UID_LABELS[1]: uid}}
        and all(labels.get(key) == uid for key in _UID_LABELS)
        and all(labels.get(key) == name for key in _NAME_LABELS)
    )


def _generated_selector(obj: View) -> list[FieldError]:
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    errors: list[FieldError] = []
    if not metadata.get("uid"):
        errors.append(required("metadata.uid"))
    expected = dict.fromkeys(_UID_LABELS, metadata.get("uid", ""))
    expected.update(dict.fromkeys(_NAME_LABELS, metadata.get("name", "")))
    labels = labels_of(spec.get("template") or {}) or {}
    for key in (_UID_LABELS[0], _NAME_LABELS[0], _UID_LABELS[1], _NAME_LABELS[1]):
        at = "spec.template.metadata.labels"
        if key not in labels:
            errors.append(required(keyed(at, key), f"must be '{expected[key]}'"))
        elif labels[key] != expected[key]:
            errors.append(invalid(keyed(at, key), shown_labels(labels), f"must be '{expected[key]}'"))
    if is_readable(spec["selector"]) and not selects(spec["selector"], {"metadata": {"labels": expected}}):
        errors.append(invalid("spec.selector", shown_selector(spec["selector"]), "`selector` not auto-generated"))
    return errors


def _selector(spec: View) -> list[FieldError]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = [required("spec.selector")] if selector is None else validate_label_selector(selector, "spec.selector")
    if is_readable(selector) and not selects(
        selector, template
    ):  # an empty selector selects nothing, which is reported as well
        errors.append(mismatch(template, "spec.template"))
    return errors


def _completions(spec: View, before: View) -> list[FieldError]:
    new, old = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != "Indexed":
        return unchanged(new, old, "spec.completions")
    if new == old or new is None or new == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def _template(spec: View, before: View, old: View) -> list[FieldError]:
    """While a job is suspended and has no pods, where its pods may run and what they request may still change."""
    status = old.get("status") or {}
    conditions = status.get("conditions") or ()
    has_condition = any(item.get("type") == "Suspended" and item.get("status") == "True" for item in conditions)
    suspended = bool(before.get("suspend"))
    mutable = suspended and (not status.get("startTime") or has_condition) and not status.get("active")
    new_template, old_template = spec.get("template") or {}, before.get("template") or {}
    if not mutable:
        return unchanged(new_template, old_template, "spec.template")
    new_spec, old_spec = (_without_placement(template.get("spec") or {}) for template in (new_template, old_template))
    if new_spec == old_spec:
        return []
    return [invalid("spec.template.spec", new_template.get("spec"), "field is immutable")]


def _without_placement(spec: View) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in ("nodeSelector", "tolerations", "schedulingGates")}
    affinity = {key: value for key, value in (kept.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    if affinity:
        kept["affinity"] = affinity
    for kind in ("containers", "initContainers"):
        if kept.get(kind):
            kept[kind] = [{k: v for k, v in container.items() if k != "resources"} for container in kept[kind]]
    return kept


def _cron_spec(spec: View) -> list[FieldError]:
    errors = _schedule(spec.get("schedule", ""))
    errors += nonnegative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    errors += _time_zone(spec.get("timeZone"), "spec.timeZone")
    policies = ("Allow", "Forbid", "Replace")
    errors += one_of(spec.get("concurrencyPolicy"), policies, "spec.concurrencyPolicy")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += job_spec_errors(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        text = "`selector` will be auto-generated"
        errors.append(invalid("spec.jobTemplate.spec.selector", shown_selector(job["selector"]), text))
    if job.get("manualSelector"):
        errors += _manual_selector()
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += nonnegative(spec.get(field), f"spec.{field}")
    return errors


def _manual_selector() -> list[FieldError]:
    body = 'Unsupported value: true: supported values: "nil", "false"'
    return [FieldError("FieldValueNotSupported", "spec.jobTemplate.spec.manualSelector", body)]


def _schedule(schedule: str) -> list[FieldError]:
    at = "spec.schedule"
    if not schedule:
        return [required(at)]
    errors: list[FieldError] = []
    try:
        parse_schedule(schedule)
    except ValueError as problem:
        errors.append(invalid(at, schedule, str(problem)))
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(at, schedule, text))
    return errors


def _time_zone(zone: str | None, path: str) -> list[FieldError]:
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    unknown = invalid(path, zone, f"unknown time zone {zone}")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in parts):
        return [unknown]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, text), *([] if zone == "Local" else [unknown])]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        return [unknown]
    return []
