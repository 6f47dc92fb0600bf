"""Create, update and patch: how an object gets into the store.

Every write takes the same way: a fresh tree in the hub version, server-owned metadata set, defaults, preparation,
admission, validation, field ownership, and only then the store. A write that changes nothing is not written. Nothing
here waits before the store is asked, so what was read is still true when it is written.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.api.metadata import validate_metadata, validate_metadata_update
from gpuaas.apiserver.catalogue import check_type
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, UnsupportedMediaType
from gpuaas.base.fielderrors import FieldError, required
from gpuaas.machinery import ssa
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.strict import duplicate_fields
from gpuaas.machinery.strategic import apply_strategic_patch
from gpuaas.store import Entry

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def create(op: Operation, body: Any) -> Awaitable[Outcome]:
    sent = check_type(body, op.kind)
    obj = _decode(op, sent)
    return create_decoded(op, obj)


def create_decoded(op: Operation, obj: Object, *, owned: bool = False) -> Awaitable[Outcome]:
    """From a fresh tree in the requested version. `owned`: its managedFields are already right (server-side apply)."""
    meta = _metadata(obj)
    _place(op, meta)
    obj = op.resource.to_hub(obj, op.version)
    meta = obj["metadata"]
    _new_metadata(op, meta)
    behaviour = op.hub.behaviour
    if op.hub.status and not behaviour.keep_status_on_create:
        _reset_status(op, obj)
    behaviour.default(obj)
    behaviour.prepare_create(obj)
    op.cluster.admission.admit(op, obj, None)
    errors = _metadata_errors(op, obj) + op.resource.hub.check(obj, None) + behaviour.validate(obj)
    if errors:
        raise _refusal(op, obj, errors)
    op.warnings.extend(behaviour.warnings(obj, None))
    if not owned:
        obj = _track(op, None, obj)
    op.name = obj["metadata"]["name"]
    if op.cluster.store.latest(op.key) is not None:
        raise AlreadyExists(op.resource.group, op.resource.plural, op.name)
    op.cluster.admission.charge(op, obj, None)
    return put(op, obj, 201)


def update(op: Operation, body: Any) -> Awaitable[Outcome]:
    sent = check_type(body, op.kind)
    obj = _decode(op, sent)
    meta = _metadata(obj)
    _check_name(op, meta)
    _place(op, meta)
    entry = op.cluster.store.latest(op.key)
    if entry is None:
        if not op.hub.behaviour.allow_create_on_update or op.subresource:
            raise op.not_found()
        return create_decoded(op, obj)
    return replace(op, op.resource.to_hub(obj, op.version), entry)


def patch(op: Operation, form: str, body: Any) -> Awaitable[Outcome]:
    entry = op.cluster.store.latest(op.key)
    if form == "apply":
        return _apply(op, entry, body)
    if entry is None:
        raise op.not_found()
    old = op.resource.from_hub(entry.obj, op.version)
    patched = _patched(op, form, old, body)
    if not isinstance(patched, dict):
        raise BadRequest("the patch does not leave an object")
    obj = _decode(op, check_type(patched, op.kind))
    _check_name(op, _metadata(obj))
    return replace(op, op.resource.to_hub(obj, op.version), entry)


def replace(op: Operation, obj: Object, entry: Entry, *, owned: bool = False) -> Awaitable[Outcome]:
    """Puts `obj` (a fresh tree in the hub version) in the place of `entry`, as the subresource asked for allows."""
    old = entry.obj
    obj = merge_update(op, obj, old)
    errors = _metadata_errors(op, obj) + validate_metadata_update(obj, old)
    behaviour = op.hub.behaviour
    if op.subresource == "status":
        errors += op.resource.hub.check(obj, old) + behaviour.validate_status_update(obj, old)
    else:
        op.cluster.admission.admit(op, obj, old)
        errors += op.resource.hub.check(obj, old) + behaviour.check_update(obj, old)
        op.warnings.extend(behaviour.warnings(obj, old))
    if errors:
        raise _refusal(op, obj, errors)
    if not owned:
        obj = _track(op, old, obj)
    if obj == old:
        return _done(Outcome(old, entry.raw))
    op.cluster.admission.charge(op, obj, old)
    if _finished_deleting(obj):
        return remove(op, obj)
    return put(op, obj, 200)


def merge_update(op: Operation, obj: Object, old: Mapping[str, Any]) -> Object:
    """What the client sent, less what it may not decide: server-owned metadata, and status or spec by subresource."""
    meta, old_meta = obj["metadata"], old["metadata"]
    _check_preconditions(op, meta, old_meta)
    behaviour = op.hub.behaviour
    _keep_metadata(meta, old_meta)
    if op.subresource == "status":
        kept = {key: value for key, value in old.items() if key != "status"}
        kept["metadata"] = _status_metadata(op, meta, old_meta)
        if "status" in obj:
            kept["status"] = obj["status"]
        behaviour.prepare_status_update(kept, old)
        return kept
    if op.hub.status:
        _copy_key(obj, old, "status")
    behaviour.default(obj)
    behaviour.prepare_update(obj, old)
    if behaviour.generation and _spec_changed(op, obj, old):
        meta["generation"] = old_meta.get("generation", 0) + 1
    return obj


def _status_metadata(op: Operation, meta: Object, old_meta: Mapping[str, Any]) -> Object:
    """A status write leaves metadata alone: all of it for custom resources, labels and links for built-in ones."""
    if op.resource.custom:
        return {**old_meta, **({"managedFields": meta["managedFields"]} if "managedFields" in meta else {})}
    for key in ("labels", "ownerReferences", "finalizers"):
        _copy_key(meta, old_meta, key)
    return meta


def _apply(op: Operation, entry: Entry | None, body: Any) -> Awaitable[Outcome]:
    config = check_type(body, op.kind)
    if not op.query.get("fieldManager") and op.manager == "unknown":
        raise BadRequest(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    _check_name(op, _metadata(config))
    config_meta = config["metadata"]
    if config_meta.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    if entry is None:
        if op.subresource:
            raise op.not_found()
        if config_meta.get("uid"):
            raise Conflict(
                op.resource.group,
                op.resource.plural,
                op.name,
                f"Precondition failed: UID in precondition: {config_meta['uid']}, UID in object meta: ",
            )
    live = op.resource.from_hub(entry.obj, op.version) if entry is not None else None
    decoded = _decode(op, config)  # what is not well typed or not known is refused before anything is merged
    del decoded
    applied = ssa.apply(
        live,
        config,
        op.manager,
        op.version.schema,
        force=op.force,
        api_version=op.kind.api_version,
        kind=op.kind.kind,
        now=op.cluster.clock.now(),
        subresource=op.subresource,
        reset_fields=_reset_fields(op),
        converter=op.converter(),
        reconcile=op.resource.custom,
    )
    if applied.obj is live and entry is not None:
        return _done(Outcome(entry.obj, entry.raw))
    fresh, _ = op.version.read(applied.obj)
    if entry is None:
        return create_decoded(op, fresh, owned=True)
    return replace(op, op.resource.to_hub(fresh, op.version), entry, owned=True)


def _patched(op: Operation, form: str, old: Object, body: Any) -> Any:
    match form:
        case "json":
            return apply_json_patch(old, body)
        case "merge":
            if not isinstance(body, dict):
                raise BadRequest("a merge patch is an object")
            return apply_merge_patch(old, body)
        case "strategic" if not op.resource.custom:
            if not isinstance(body, dict):
                raise BadRequest("a strategic merge patch is an object")
            return apply_strategic_patch(old, body, op.version.schema)
        case _:
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )


def _decode(op: Operation, sent: Object) -> Object:
    obj, paths = op.version.read(sent)
    unknown = [f'unknown field "{path}"' for path in paths]
    if op.body and op.field_validation != "Ignore" and "fieldValidation" in op.query:
        unknown += [f'duplicate field "{path}"' for path in duplicate_fields(op.body)]
    op.complain(unknown)
    return obj


def _metadata(obj: Object) -> Object:
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata must be an object")
    return meta


def _place(op: Operation, meta: Object) -> None:
    """The namespace of the object is the namespace of the request."""
    if not op.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.setdefault("namespace", op.namespace) != op.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _check_name(op: Operation, meta: Object) -> None:
    name = meta.setdefault("name", op.name)
    if name != op.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({op.name})")


def _new_metadata(op: Operation, meta: Object) -> None:
    if meta.pop("resourceVersion", "") not in ("", "0"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generated(op, str(meta["generateName"]))
    meta["uid"] = op.cluster.ids.uid()
    meta["creationTimestamp"] = rfc3339(op.cluster.clock.now())
    if op.hub.behaviour.generation:
        meta["generation"] = 1


def _generated(op: Operation, base: str) -> str:
    """A free name that begins with `base`: the chance of a clash is small, and taken care of."""
    for _ in range(8):
        name = base[:58] + op.cluster.ids.suffix()
        if op.cluster.store.latest(op.resource.key(op.namespace, name)) is None:
            return name
    return name


def _check_preconditions(op: Operation, meta: Mapping[str, Any], old_meta: Mapping[str, Any]) -> None:
    uid, revision = meta.get("uid"), meta.get("resourceVersion")
    if uid and uid != old_meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        raise Conflict(op.resource.group, op.resource.plural, op.name, why)
    if not revision and not op.hub.behaviour.unconditional_update and op.verb == "update":
        raise Invalid(
            op.resource.group,
            op.kind.kind,
            op.name,
            [
                FieldError(
                    "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
                )
            ],
        )
    if revision and revision != "0" and revision != old_meta["resourceVersion"]:
        raise Conflict(op.resource.group, op.resource.plural, op.name, STALE)


def _keep_metadata(meta: Object, old_meta: Mapping[str, Any]) -> None:
    for key in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "generateName",
    ):
        _copy_key(meta, old_meta, key)
    meta.pop("selfLink", None)


def _copy_key(target: Object, source: Mapping[str, Any], key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def _spec_changed(op: Operation, obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    ignored = ("metadata", "status") if op.hub.status else ("metadata",)
    if obj.keys() != old.keys() and any(key not in ignored for key in obj.keys() ^ old.keys()):
        return True
    return any(
        key not in ignored and value is not old[key] and value != old[key] for key, value in obj.items() if key in old
    )


def _reset_status(op: Operation, obj: Object) -> None:
    """A new object has no status, or the empty one that Go always writes."""
    empty = op.resource.hub.empty_status()
    if empty is None:
        obj.pop("status", None)
    else:
        obj["status"] = empty


def _metadata_errors(op: Operation, obj: Object) -> list[FieldError]:
    meta = obj["metadata"]
    if not meta.get("name") and not meta.get("generateName"):
        return [required("metadata.name", "name or generateName is required")]
    return validate_metadata(obj, op.resource.namespaced, op.hub.behaviour.name_messages)


def _refusal(op: Operation, obj: Mapping[str, Any], errors: Sequence[FieldError]) -> ApiError:
    return Invalid(op.resource.group, op.kind.kind, obj["metadata"].get("name", ""), errors)


_STATUS_ONLY, _ALL_BUT_STATUS = ssa.from_paths([("f:status",)]), ssa.from_paths([("f:spec",)])


def _reset_fields(op: Operation) -> ssa.FieldSet:
    """What a write through this path cannot own."""
    if not op.hub.status:
        return {}
    return _ALL_BUT_STATUS if op.subresource == "status" else _STATUS_ONLY


def _track(op: Operation, old: Object | None, obj: Object) -> Object:
    """Ownership is spoken of in the version of the request."""
    before = op.resource.from_hub(old, op.version) if old is not None else None
    after = op.resource.from_hub(obj, op.version)
    tracked = ssa.track_update(
        before,
        after,
        op.manager,
        op.version.schema,
        api_version=op.kind.api_version,
        now=op.cluster.clock.now(),
        subresource=op.subresource,
        reset_fields=_reset_fields(op),
        converter=op.converter(),
        reconcile=op.resource.custom,
    )
    if tracked is after and after is obj:
        return obj
    tracked = ssa.with_managed_fields(obj, tracked["metadata"].get("managedFields"))
    return tracked if old is None else ssa.without_new_times(tracked, old)


def _finished_deleting(obj: Mapping[str, Any]) -> bool:
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds") and not (
        obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers")
    )


def put(op: Operation, obj: Object, status: int) -> Awaitable[Outcome]:
    if op.dry_run:
        return _done(Outcome(obj, None, status))
    # Asked here, not in the coroutine: the store must have the write before anything else can run.
    return _settled(op.cluster.store.put(op.key, _renderer(ordered(op, obj))), status)


def ordered(op: Operation, obj: Object) -> Object:
    """Kind and apiVersion first: lists cut them off by length."""
    hub = op.hub
    result: Object = {"kind": hub.kind, "apiVersion": hub.api_version, "metadata": obj["metadata"]}
    for key, value in obj.items():
        if key not in result:
            result[key] = value
    return result


def _renderer(obj: Object) -> Callable[[int], tuple[bytes, Object]]:
    meta = obj["metadata"]

    def render(revision: int) -> tuple[bytes, Object]:
        meta["resourceVersion"] = str(revision)
        return encode(obj), obj

    return render


async def _settled(pending: Awaitable[Entry], status: int) -> Outcome:
    entry = await pending
    return Outcome(entry.obj, entry.raw, status)


def remove(op: Operation, obj: Object) -> Awaitable[Outcome]:
    """Takes the object out of the store; its last state goes to the watchers."""
    if op.dry_run:
        return _done(Outcome(obj))
    last = ordered(op, {**obj, "metadata": {**obj["metadata"]}})
    return _settled(op.cluster.store.delete(op.key, _renderer(last)), 200)


async def _done(outcome: Outcome) -> Outcome:
    return outcome
