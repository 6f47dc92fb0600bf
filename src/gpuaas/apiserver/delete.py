"""Delete and deletecollection: grace, finalizers and propagation.

An object with nothing to wait for leaves the store at once. One with finalizers, or a pod with a grace period, is
marked with a deletionTimestamp and leaves when the last reason to wait is gone (module write sees that on update).
What happens to dependents is said by finalizers of the garbage collector's.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.options import dry_run_problems
from gpuaas.apiserver.requestinfo import whole_number
from gpuaas.apiserver.settling import told_when_visible
from gpuaas.apiserver.webhook_retry import asks_webhooks
from gpuaas.apiserver.write import put, remove
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid
from gpuaas.base.fielderrors import FieldError, invalid, not_supported
from gpuaas.machinery.schema.decode import normalize
from gpuaas.store import Entry

_AT_ONCE = 200
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_JOBS = "batch/jobs/"
_CHILDREN_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_POLICIES = ("Foreground", "Background", "Orphan")
CRD_PREFIX = "apiextensions.k8s.io/customresourcedefinitions/"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_GIVEN_BACK = {
    "": frozenset(
        [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ]
    ),
    "resource.k8s.io": frozenset(("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")),
    "storage.k8s.io": frozenset(
        ("csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses")
    ),
}
"""Who deletes one of these is answered with what it was, and with a word of success for all others."""


Multi = Mapping[str, Sequence[str]]  # query options, each with all its values


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


def delete_options(op: Operation, body: Object | None, query: Multi | None = None) -> DeleteOptions:
    """From the body if there is one, else from the query; a dry run may be asked for in either."""
    query = query or {}
    if body is None:
        body = {
            "gracePeriodSeconds": _int(query.get("gracePeriodSeconds")),
            "propagationPolicy": _first(query.get("propagationPolicy")),
            "orphanDependents": _flag(query.get("orphanDependents")),
        }
    try:
        options = msgspec.convert(body, DeleteOptions)
    except msgspec.ValidationError as error:
        raise BadRequest(_unreadable(op, body) or f"DeleteOptions cannot be read: {error}") from None
    dry_run = options.dry_run or query.get("dryRun") or ()
    problems = _problems(options) + dry_run_problems(dry_run)
    if problems:
        raise Invalid("meta.k8s.io", "DeleteOptions", "", problems)
    op.dry_run = op.dry_run or bool(dry_run)
    return options


def _unreadable(op: Operation, body: Object) -> str:
    """What Go would say about options of the wrong type; "" where it would find nothing to say."""
    try:
        normalize(op.cluster.schemas.named(_OPTIONS), body)
    except BadRequest as problem:
        return problem.message.partition(": ")[2]
    return ""


def _problems(options: DeleteOptions) -> list[FieldError]:
    policy = options.propagation_policy
    problems: list[FieldError] = []
    if policy is not None and options.orphan_dependents is not None:
        both = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(invalid("propagationPolicy", policy, both))
    if policy not in (None, *_POLICIES):
        problems.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil"), in_order=True))
    return problems


@asks_webhooks
@told_when_visible
def delete(op: Operation, body: Object | None, query: Multi | None = None) -> Awaitable[Outcome]:
    options = delete_options(op, body, query)
    if op.resource.prefix == _JOBS and options.propagation_policy is None and options.orphan_dependents is None:
        op.warnings.append(_CHILDREN_STAY)
    op.cluster.admission.may_delete(op)
    return delete_entry(op, op.latest(), options)


@asks_webhooks
def _delete_one(op: Operation, entry: Entry, options: DeleteOptions) -> Awaitable[Outcome]:
    return delete_entry(op, entry, options)


def delete_entry(op: Operation, entry: Entry, options: DeleteOptions) -> Awaitable[Outcome]:
    op.cluster.admission.judge_deletion(op, entry)
    if not (op.dry_run or op.hub.behaviour.graceful or op.resource.prefix == "/namespaces/"):
        last = entry.outline()  # most have nothing to wait for, and then only their metadata is read
        _check(op, last, options.preconditions)
        if not _finalizers(op, last["metadata"], options):
            last["metadata"].pop("finalizers", None)
            return _gone(op, last, remove(op, last))
    return _delete_whole(op, entry, options)


def _delete_whole(op: Operation, entry: Entry, options: DeleteOptions) -> Awaitable[Outcome]:
    old: Mapping[str, Any] = entry.obj
    _check(op, old, options.preconditions)
    meta = {**old["metadata"]}
    obj: Object = {**old, "metadata": meta}
    finalizers = _finalizers(op, meta, options)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    grace = _grace(op, old, options)
    waits = bool(finalizers) or grace > 0 or _namespace_waits(op, obj)
    if waits or op.hub.behaviour.graceful:
        _mark(op, meta, grace)
    if not waits:
        return _gone(op, old, remove(op, obj))
    if op.resource.prefix == "/namespaces/":
        obj["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    if obj == old:
        return _unchanged(entry)
    return put(op, obj, 200)


def _mark(op: Operation, meta: Object, grace: int) -> None:
    """When the object is to be gone; who asks again can only shorten the time."""
    first = not meta.get("deletionTimestamp")
    if first and op.hub.behaviour.generation and "generation" in meta:
        meta["generation"] += 1
    if first or (op.hub.behaviour.graceful and grace < meta.get("deletionGracePeriodSeconds", 0)):
        meta["deletionTimestamp"] = rfc3339(op.cluster.clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace


async def delete_all(op: Operation, entries: Sequence[Entry], options: DeleteOptions) -> None:
    """Every entry, as one request each; what vanished meanwhile is not missed. A collection may be of any length: a
    few go at a time, so that neither the loop is held up nor too many writes are in flight."""
    for start in range(0, len(entries), _AT_ONCE):
        await _delete_some(op, entries[start : start + _AT_ONCE], options)


async def _delete_some(op: Operation, entries: Sequence[Entry], options: DeleteOptions) -> None:
    pending: list[Awaitable[Outcome]] = []
    for entry in entries:
        current = op.cluster.store.latest(entry.key)
        if current is None:
            continue
        meta = current.obj["metadata"]
        single = Operation(
            op.cluster,
            op.resource,
            op.version,
            "delete",
            op.user,
            meta.get("namespace", ""),
            meta["name"],
            dry_run=op.dry_run,
        )
        pending.append(_delete_one(single, current, options))
    for outcome in pending:
        await outcome


def _check(op: Operation, old: Mapping[str, Any], preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    meta, uid, revision = old["metadata"], preconditions.uid, preconditions.resource_version
    if uid is not None and uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif revision is not None and revision != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
    else:
        return
    raise Conflict(op.resource.group, op.hub.kind, op.name, why)


def _finalizers(op: Operation, meta: Mapping[str, Any], options: DeleteOptions) -> list[str]:
    finalizers = list(meta.get("finalizers") or ())
    orphan, foreground = ORPHAN in finalizers, FOREGROUND in finalizers
    match options.propagation_policy:
        case "Orphan":
            orphan, foreground = True, False
        case "Foreground":
            orphan, foreground = False, True
        case "Background":
            orphan = foreground = False
        case _ if options.orphan_dependents is not None:
            orphan, foreground = options.orphan_dependents, False
        case _ if not orphan and not foreground:
            orphan = op.hub.behaviour.orphan_by_default
    wanted = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if orphan:
        wanted.append(ORPHAN)
    if foreground:
        wanted.append(FOREGROUND)
    first_time = not meta.get("deletionTimestamp")
    if first_time and op.resource.prefix == CRD_PREFIX and CRD_CLEANUP not in wanted:
        wanted.append(CRD_CLEANUP)
    return wanted


def _grace(op: Operation, old: Mapping[str, Any], options: DeleteOptions) -> int:
    """Only pods that run somewhere are given time."""
    if not op.hub.behaviour.graceful:
        return 0
    spec, status = old.get("spec") or {}, old.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(grace), 1) if grace < 0 else int(grace)


def _namespace_waits(op: Operation, obj: Mapping[str, Any]) -> bool:
    return op.resource.prefix == "/namespaces/" and bool((obj.get("spec") or {}).get("finalizers"))


async def _gone(op: Operation, old: Mapping[str, Any], removal: Awaitable[Outcome]) -> Outcome:
    outcome = await removal
    if op.resource.plural in _GIVEN_BACK.get(op.resource.group, ()):
        return outcome
    meta = old["metadata"]
    details = {"name": op.name, "group": op.resource.group, "kind": op.resource.plural, "uid": meta["uid"]}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
    return Outcome(status, converted=True)


async def _unchanged(entry: Entry) -> Outcome:
    return Outcome(entry.obj, entry.raw)


def _int(values: Sequence[str] | None) -> int | None:
    text = _first(values)
    return whole_number(text) if text else None


def _flag(values: Sequence[str] | None) -> bool | None:
    text = _first(values)
    return None if text is None else text.lower() not in ("false", "0")


def _first(values: Sequence[str] | None) -> str | None:
    return values[0] if values else None
