"""What every kind of job is refused for at the API: queue, priority class, prebuilt workload, execution time, gates.

Upstream's rules and words. Errors come as a list; each kind adds its own (`Suspendable.create_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.base.fielderrors import FieldError, forbidden, invalid, keyed, too_long
from gpuaas.base.names import is_dns1123_subdomain
from gpuaas.base.numbers import integer, is_digits
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.integration import Integration, Queueable
from gpuaas.kueue.integrations.jobs import (
    annotations_of,
    is_elastic,
    labels_of,
    prebuilt_of,
    priority_class_of,
    queue_of,
)

View = Mapping[str, Any]

LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"
QUEUE_PATH = keyed(LABELS, keys.QUEUE)
_IMMUTABLE = "field is immutable"
_GATE_LENGTH = 63


def create_errors(kind: Queueable, job: View) -> list[FieldError]:
    return [
        *name_errors(labels_of(job), LABELS, keys.QUEUE),
        *_prebuilt(kind, job),
        *_max_exec_time(job),
        *elastic_errors(kind, job),
        *gate_errors(job),
    ]


def update_errors(kind: Queueable, job: View, old: View, *, default_queue: bool) -> list[FieldError]:
    """What an update may not change; `default_queue`: the namespace has a queue of that name."""
    return [
        *_queue_update(kind, job, old, default_queue=default_queue),
        *_prebuilt_update(kind, job, old),
        *_max_exec_time_update(kind, job, old),
        *priority_update(job, old, suspended=kind.is_suspended(job)),
        *_elastic_update(job, old),
        *gate_update_errors(job, old),
    ]


def immutable(path: str, value: Any, before: Any) -> list[FieldError]:
    return [] if value == before else [invalid(path, value, _IMMUTABLE)]


def name_errors(found: Mapping[str, str], where: str, key: str) -> list[FieldError]:
    """The label or annotation names an object."""
    if key not in found:
        return []
    words = is_dns1123_subdomain(found[key])
    return [invalid(keyed(where, key), found[key], ",".join(words))] if words else []


def priority_update(job: View, old: View, *, suspended: bool) -> list[FieldError]:
    path, before, after = keyed(LABELS, keys.PRIORITY_CLASS), priority_class_of(old), priority_class_of(job)
    if not suspended and not before and after:
        return [invalid(path, after, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    if before and not after:
        return [invalid(path, "", "WorkloadPriorityClass cannot be removed from a workload")]
    return []


def elastic_errors(kind: Integration, job: View) -> list[FieldError]:
    if not is_elastic(job) or kind.elastic:
        return []
    words = f'elastic job is not supported for "{group_version_kind(kind)}"'
    return [forbidden(keyed(ANNOTATIONS, keys.ELASTIC), words)]


def gate_errors(job: View) -> list[FieldError]:
    text = annotations_of(job).get(keys.GATED_BY, "")
    path = keyed(ANNOTATIONS, keys.GATED_BY)
    found: list[FieldError] = []
    seen: set[str] = set()
    for gate in [part.strip() for part in text.split(",")] if text else ():
        if not gate:
            found.append(invalid(path, text, "cannot contain empty gate names"))
        elif gate in seen:
            found.append(invalid(path, text, f"duplicate gate name: {gate}"))
        else:
            seen.add(gate)
            found += _domain_path(path, gate)
            if len(gate) > _GATE_LENGTH:
                found.append(too_long(path, _GATE_LENGTH))
    return found


def gate_update_errors(job: View, old: View) -> list[FieldError]:
    path = keyed(ANNOTATIONS, keys.GATED_BY)
    before, after = annotations_of(old).get(keys.GATED_BY, ""), annotations_of(job).get(keys.GATED_BY, "")
    found: list[FieldError] = []
    if not before and after:
        found.append(forbidden(path, "cannot add admission gate after creation"))
    if before and after:
        known = {part.strip() for part in before.split(",")}
        if any(part.strip() not in known for part in after.split(",")):
            found.append(forbidden(path, "can only remove gates, not add new ones"))
    return found + gate_errors(job)


def prebuilt_path(job: View) -> str:
    where = ANNOTATIONS if annotations_of(job).get(keys.PREBUILT) else LABELS
    return keyed(where, keys.PREBUILT)


def group_version_kind(kind: Integration) -> str:
    resource = kind.resource
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"


def _queue_update(kind: Queueable, job: View, old: View, *, default_queue: bool) -> list[FieldError]:
    before, after = queue_of(old), queue_of(job)
    found = [] if kind.is_suspended(job) else immutable(QUEUE_PATH, after, before)
    if before and not after and default_queue:
        found.append(invalid(QUEUE_PATH, "", "queue-name must not be empty in namespace with default queue"))
    return found


def _prebuilt(kind: Queueable, job: View) -> list[FieldError]:
    where = (annotations_of(job), ANNOTATIONS) if annotations_of(job).get(keys.PREBUILT) else (labels_of(job), LABELS)
    found = name_errors(*where, keys.PREBUILT)
    from_hub = keys.MULTIKUEUE_ORIGIN in labels_of(job)  # upstream refuses a JAXJob from a hub as well: it never starts
    if prebuilt_of(job) and not kind.prebuilt and not from_hub:
        found.append(forbidden(prebuilt_path(job), f'Is not supported for "{group_version_kind(kind)}"'))
    return found


def _prebuilt_update(kind: Queueable, job: View, old: View) -> list[FieldError]:
    if kind.is_suspended(job) or is_elastic(old):
        return _prebuilt(kind, job)
    return immutable(prebuilt_path(job), prebuilt_of(job), prebuilt_of(old))


def _max_exec_time(job: View) -> list[FieldError]:
    text = labels_of(job).get(keys.MAX_EXEC_TIME)
    if text is None:
        return []
    path = keyed(LABELS, keys.MAX_EXEC_TIME)
    words = integer_complaint(text)
    if words:
        return [invalid(path, text, words)]
    return [invalid(path, int(text), "should be greater than 0")] if int(text) <= 0 else []


def _max_exec_time_update(kind: Queueable, job: View, old: View) -> list[FieldError]:
    if kind.is_suspended(job) and kind.is_suspended(old):
        return []
    before, after = labels_of(old).get(keys.MAX_EXEC_TIME, ""), labels_of(job).get(keys.MAX_EXEC_TIME, "")
    return immutable(keyed(LABELS, keys.MAX_EXEC_TIME), after, before)


def _elastic_update(job: View, old: View) -> list[FieldError]:
    return immutable(keyed(ANNOTATIONS, keys.ELASTIC), is_elastic(job), is_elastic(old))


def integer_complaint(text: str) -> str:
    """Go's words for what is no integer; "" for one."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not is_digits(digits):
        return f'strconv.Atoi: parsing "{text}": invalid syntax'
    if integer(text) is None:
        return f'strconv.Atoi: parsing "{text}": value out of range'
    return ""


def _domain_path(path: str, gate: str) -> list[FieldError]:
    domain, slash, rest = gate.partition("/")
    if not slash or not domain or not rest:
        return [invalid(path, gate, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [invalid(path, domain, words) for words in is_dns1123_subdomain(domain)]
