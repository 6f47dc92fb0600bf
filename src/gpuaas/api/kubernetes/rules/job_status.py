"""What a status update of a job may not say: counts that go back, ends that are undone, conditions that contradict.

Most rules look only at what the update changes, so that an old fault does not block an unrelated write.
"""

from gpuaas.api.kubernetes.rules.checks import nonnegative
from gpuaas.api.kubernetes.rules.job_policies import count_indexes
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, invalid, required


def job_status_errors(obj: View, old: View) -> list[FieldError]:
    status, before = obj.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += nonnegative(status.get(name), f"status.{name}")
    new, was = _Conditions(status), _Conditions(before)
    errors += _contradictions(new, was)
    errors += _times(status, before, new, was, obj)
    errors += _finished(status, before, new, was)
    errors += _indexes(obj.get("spec") or {}, status, before)
    errors += _backwards(obj.get("spec") or {}, status, before, new, was)
    return errors


class _Conditions:
    def __init__(self, status: View) -> None:
        held = {item.get("type") for item in status.get("conditions") or () if item.get("status") == "True"}
        self.complete = "Complete" in held
        self.failed = "Failed" in held
        self.failure_target = "FailureTarget" in held
        self.success_met = "SuccessCriteriaMet" in held
        self.suspended = "Suspended" in held
        self.finished = self.complete or self.failed


def _bare(text: str) -> FieldError:
    return FieldError("FieldValueInvalid", "status.conditions", f"Invalid value: {text}")


def _contradictions(new: _Conditions, was: _Conditions) -> list[FieldError]:
    errors: list[FieldError] = []
    changed_complete, changed_failed = new.complete != was.complete, new.failed != was.failed
    if (changed_complete or changed_failed) and new.complete and new.failed:
        errors.append(_bare("cannot set Complete=True and Failed=true conditions"))
    if (changed_complete or new.failure_target != was.failure_target) and new.complete and new.failure_target:
        errors.append(_bare("cannot set Complete=True and FailureTarget=true conditions"))
    if changed_failed and new.failed and not new.failure_target:
        errors.append(_bare("cannot set Failed=True condition without the FailureTarget=true condition"))
    if (changed_complete or new.success_met != was.success_met) and new.complete and not new.success_met:
        errors.append(_bare("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
    if new.success_met and new.failed:
        errors.append(_bare("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if new.success_met and new.failure_target:
        errors.append(_bare("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    return errors


def _times(status: View, before: View, new: _Conditions, was: _Conditions, obj: View) -> list[FieldError]:
    errors: list[FieldError] = []
    start, end = status.get("startTime"), status.get("completionTime")
    end_changed = end != before.get("completionTime")
    if (new.complete != was.complete or end_changed) and end and not new.complete:
        text = "cannot set completionTime when there is no Complete=True condition"
        errors.append(invalid("status.completionTime", end, text))
    if (new.complete != was.complete or end_changed) and not end and new.complete:
        errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if (start != before.get("startTime") or end_changed) and start and end and end < start:
        errors.append(invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    spec = obj.get("spec") or {}
    empty = spec.get("suspend") and spec.get("completions") == 0
    if new.finished and not start and not empty and (not was.finished or start != before.get("startTime")):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    return errors


def _finished(status: View, before: View, new: _Conditions, was: _Conditions) -> list[FieldError]:
    errors: list[FieldError] = []
    ended = new.finished != was.finished
    active, terminating, ready = status.get("active", 0), status.get("terminating"), status.get("ready")
    if new.finished and active > 0 and (ended or active != before.get("active", 0)):
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if new.finished and (uncounted.get("succeeded") or uncounted.get("failed")):
        errors.append(invalid("status.uncountedTerminatedPods", dict(uncounted), "must be empty for finished job"))
    if new.finished and (terminating or 0) > 0 and (ended or terminating != before.get("terminating")):
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    changed = ready != before.get("ready") or active != before.get("active", 0)
    if changed and ready is not None and ready > active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _indexes(spec: View, status: View, before: View) -> list[FieldError]:
    errors: list[FieldError] = []
    completions = spec.get("completions")
    for field, default in (("completedIndexes", ""), ("failedIndexes", None)):
        text = status.get(field, default)
        if text == before.get(field, default) or not text:
            continue
        if completions is not None:
            try:
                count_indexes(text, completions)
            except ValueError as problem:
                errors.append(invalid(f"status.{field}", text, f"error parsing {field}: {problem}"))
        if field == "completedIndexes" and spec.get("completionMode") != "Indexed":
            why = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(invalid(f"status.{field}", text, why))
        if field == "failedIndexes" and spec.get("backoffLimitPerIndex") is None:
            why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(invalid(f"status.{field}", text, why))
    return errors


def _backwards(spec: View, status: View, before: View, new: _Conditions, was: _Conditions) -> list[FieldError]:
    errors: list[FieldError] = []
    ends = (
        ("Failed", was.failed, new.failed),
        ("Complete", was.complete, new.complete),
        ("FailureTarget", was.failure_target, new.failure_target),
    )
    errors += [
        _bare(f"cannot disable the terminal {name}=True condition") for name, old, now in ends if old and not now
    ]
    scalable = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", "succeeded"):
        if status.get(name, 0) < before.get(name, 0) and not (name == "succeeded" and scalable):
            errors.append(invalid(f"status.{name}", status.get(name, 0), f"cannot decrease the {name} counter"))
    end, old_end = status.get("completionTime"), before.get("completionTime")
    if end and old_end and end != old_end:
        errors.append(invalid("status.completionTime", end, "field is immutable"))
    start, old_start = status.get("startTime"), before.get("startTime")
    resuming = was.suspended and not new.suspended
    if old_start and start != old_start and not spec.get("suspend") and not resuming:
        errors.append(invalid("status.startTime", start, "field is immutable for unsuspended job once set"))
    if was.success_met and not new.success_met:
        errors.append(_bare("cannot disable the SuccessCriteriaMet=True condition"))
    if was.complete and not was.success_met and new.success_met:
        errors.append(_bare("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
    return errors
