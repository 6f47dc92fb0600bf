"""Delete and deletecollection: grace, finalizers and propagation.

An object with nothing to wait for leaves the store at once. One with finalizers, or a pod with a grace period, is
marked with a deletionTimestamp and leaves when the last reason to wait is gone (module write sees that on update).
What happens to dependents is said by finalizers of the garbage collector's.
"""

from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.write import put, remove
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict
from gpuaas.store import Entry

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
CRD_PREFIX = "apiextensions.k8s.io/customresourcedefinitions/"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


def delete_options(op: Operation, body: Any) -> DeleteOptions:
    """From the body if there is one, else from the query."""
    if not body:
        query: dict[str, Any] = {}
        if op.query.get("gracePeriodSeconds"):
            query["gracePeriodSeconds"] = _int(op.query["gracePeriodSeconds"])
        if op.query.get("propagationPolicy"):
            query["propagationPolicy"] = op.query["propagationPolicy"]
        if op.query.get("orphanDependents"):
            query["orphanDependents"] = op.query["orphanDependents"] == "true"
        body = query
    try:
        options = msgspec.convert(body, DeleteOptions)
    except msgspec.ValidationError as error:
        raise BadRequest(f"DeleteOptions cannot be read: {error}") from None
    if options.propagation_policy not in (None, "", "Background", "Foreground", "Orphan"):
        raise BadRequest(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: '
            f'"{options.propagation_policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        )
    if options.dry_run and "All" in options.dry_run:
        op.dry_run = True
    return options


def delete(op: Operation, body: Any) -> Awaitable[Outcome]:
    options = delete_options(op, body)
    op.cluster.admission.may_delete(op)
    return delete_entry(op, op.latest(), options)


def delete_entry(op: Operation, entry: Entry, options: DeleteOptions) -> Awaitable[Outcome]:
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
    if not waits:
        return _gone(op, old, remove(op, obj))
    now = op.cluster.clock.now()
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = rfc3339(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if op.hub.behaviour.generation and "generation" in meta:
            meta["generation"] += 1
    elif op.hub.behaviour.graceful and grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionTimestamp"] = rfc3339(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
    if op.resource.prefix == "/namespaces/":
        obj["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    if obj == old:
        return _unchanged(entry)
    return put(op, obj, 200)


async def delete_all(op: Operation, entries: list[Entry], body: Any) -> list[Mapping[str, Any]]:
    """Every entry, as one request each; what vanished meanwhile is not missed."""
    options = delete_options(op, body)
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
        pending.append(delete_entry(single, current, options))
    for outcome in pending:
        await outcome
    return [entry.obj for entry in entries]


def _check(op: Operation, old: Mapping[str, Any], preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    meta = old["metadata"]
    if preconditions.uid is not None and preconditions.uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {preconditions.uid}, UID in object meta: {meta['uid']}"
    elif preconditions.resource_version is not None and preconditions.resource_version != meta["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {preconditions.resource_version}, "
            f"ResourceVersion in object meta: {meta['resourceVersion']}"
        )
    else:
        return
    raise Conflict(op.resource.group, op.resource.plural, op.name, why)


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
    if op.hub.behaviour.graceful:  # who asked for a pod's deletion gets the pod
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


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
