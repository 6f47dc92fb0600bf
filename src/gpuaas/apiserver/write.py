"""Create, update and patch: how an object gets into the store.

Every write takes the same way: a fresh tree in the hub version, server-owned metadata set, defaults, preparation,
admission, validation, field ownership, and only then the store. A write that changes nothing is not written. Nothing
here waits before the store is asked, so what was read is still true when it is written.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver import ownership
from gpuaas.apiserver.bodies import YAML_TYPES, repeated_fields, repeated_keys, repeats_applied
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.objectmeta import (
    check_name,
    check_preconditions,
    copy_key,
    in_order,
    keep_metadata,
    metadata,
    metadata_errors,
    metadata_update_errors,
    metadata_warnings,
    new_metadata,
    place,
    status_metadata,
    wipe,
)
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.parts import PARTS
from gpuaas.apiserver.prepared import Prepared
from gpuaas.apiserver.settling import told_when_visible, unchanged
from gpuaas.apiserver.typemeta import check_custom_kind, check_patched_type, check_type
from gpuaas.apiserver.webhook_retry import asks_webhooks
from gpuaas.base.errors import AlreadyExists, BadRequest, Conflict, Denied, Invalid, TooLarge
from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.machinery import ssa
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.patchwords import patched_text, restoring_problem
from gpuaas.machinery.schema.strict import strict_messages, strict_messages_in_order
from gpuaas.machinery.ssa.gotext import verb_v
from gpuaas.machinery.strategic import apply_strategic_patch
from gpuaas.store import Entry

_MAX_OBJECT = 5 * 512 * 1024  # bytes, with who owns what; etcd takes 1.5 MiB in a denser form than this
_LARGE = 256 * 1024  # bytes of a request that is worth a look at what it has become before it is read closely


@asks_webhooks
@told_when_visible
def create(op: Operation, body: Any) -> Awaitable[Outcome]:
    obj = _decode(op, check_type(op, body))
    check_custom_kind(op, obj)
    with _rules_of(op, obj):
        return create_decoded(op, obj)


def create_decoded(op: Operation, obj: Object, *, owned: bool = False) -> Awaitable[Outcome]:
    """From a fresh tree in the requested version. `owned`: its managedFields are already right (server-side apply)."""
    meta = metadata(obj)
    wipe(meta)
    place(op, meta)
    obj = op.resource.to_hub(obj, op.version)
    behaviour = op.hub.behaviour
    behaviour.default(obj)
    _refuse_bulk(op, obj)
    if not owned:
        obj = ownership.track(op, None, obj)
    new_metadata(op, obj["metadata"])
    if op.hub.status and not behaviour.keep_status_on_create:
        _reset_status(op, obj)
    behaviour.prepare_create(obj)
    op.cluster.admission.admit(op, obj, None)
    found = metadata_errors(op, obj)
    errors = found + op.resource.judge(op.version).check(obj, None, found=found)
    _refuse(op, obj, errors, behaviour.validate(obj))
    op.warnings.extend((*metadata_warnings(op, obj, None), *behaviour.warnings(obj, None)))
    op.name = obj["metadata"]["name"]
    if obj["metadata"].get("resourceVersion") and not op.dry_run:
        raise BadRequest("resourceVersion should not be set on objects to be created")
    if op.cluster.store.latest(op.key) is not None:
        raise AlreadyExists(op.resource.group, op.resource.plural, op.name)
    op.cluster.admission.judge(op, obj, None)
    op.cluster.admission.charge(op, obj, None)
    return put(op, op.resource.kept(obj, op.version), 201)


@asks_webhooks
@told_when_visible
def update(op: Operation, body: Any) -> Awaitable[Outcome]:
    sent = check_type(op, body)
    obj = _decode(op, sent)
    meta = metadata(obj)
    if (sent.get("metadata") or {}).get("managedFields") == []:
        meta["managedFields"] = []  # says to forget who owned what, where no list says nothing
    place(op, meta)
    check_name(op, meta)
    entry = op.cluster.store.latest(op.key)
    if entry is None:
        if not op.hub.behaviour.allow_create_on_update or op.subresource:
            raise op.not_found()
        with _rules_of(op, obj):
            return create_decoded(op, obj)
    if obj["kind"] != op.kind.kind:
        check_preconditions(op, meta, entry.obj["metadata"])
        check_custom_kind(op, obj)
    with _rules_of(op, obj):
        return replace(op, op.resource.to_hub(obj, op.version), entry)


@asks_webhooks
@told_when_visible
def patch(op: Operation, form: str, body: Any) -> Awaitable[Outcome]:
    entry = op.cluster.store.latest(op.key)
    if form == "apply":
        return _apply(op, entry, body)
    if entry is None:
        raise op.not_found()
    old = op.resource.from_hub(entry.obj, op.version)
    obj = _decode_patched(op, form, _patched(op, form, old, body), body, entry)
    meta = metadata(obj)
    place(op, meta)
    check_name(op, meta)
    check_custom_kind(op, obj)
    with _rules_of(op, obj):
        return replace(op, op.resource.to_hub(obj, op.version), entry)


@asks_webhooks
@told_when_visible
def write_status(op: Operation, seen: Object, status: Object) -> Awaitable[Outcome]:
    """The whole status, as a part of the server makes it of the object of which it has `seen` these metadata. What it
    left alone is not read again, nor is a status that is like one that was read before."""
    entry = op.latest()
    old = entry.obj
    check_preconditions(op, seen, old["metadata"])
    statuses = op.version.statuses
    if statuses is None:
        return replace(op, {**entry.copy(), "status": _read_status(op, status)}, entry)
    obj = {**old, "metadata": {**old["metadata"]}, "status": status}
    alike = statuses.key(obj, old)
    if statuses.change(alike) is None:
        alike, obj["status"] = b"", _read_status(op, status)
    return replace(op, obj, entry, alike=alike)


def _read_status(op: Operation, status: Object) -> Object:
    kind = op.kind
    read, _ = op.version.read({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {}, "status": status})
    found: Object = read["status"]
    return found


@contextmanager
def _rules_of(op: Operation, obj: Object) -> Iterator[None]:
    """Rules and conversions of custom kinds trust the types their schema promises, and run before it is asked.

    Where one stumbles, the schema's complaint is the answer; without one the rule itself is wrong.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        errors = op.version.check(obj, None) if op.resource.custom else []
        if not errors:
            raise
        raise Invalid(op.resource.group, op.kind.kind, op.name, errors) from None


def replace(op: Operation, obj: Object, entry: Entry, *, owned: bool = False, alike: bytes = b"") -> Awaitable[Outcome]:
    """Puts `obj` (a fresh tree in the hub version) in the place of `entry`, as the subresource asked for allows. `alike`:
    the key of a known status, where it has been looked up."""
    old = entry.obj
    check_preconditions(op, obj["metadata"], old["metadata"])
    op.cluster.admission.owners.keep(op, obj, old)
    behaviour = op.hub.behaviour
    behaviour.default(obj)
    _refuse_bulk(op, obj)
    statuses = op.version.statuses if op.subresource == "status" and op.version is op.resource.hub else None
    alike = alike or (statuses.key(obj, old) if statuses is not None else b"")
    known = statuses.change(alike) if statuses is not None else None
    change = known if statuses is None or known is not None else ownership.changes(op, old, obj)
    if not owned:
        obj = ownership.track(op, old, obj, change)
    keep_metadata(obj["metadata"], old["metadata"])
    if op.subresource == "status":
        obj = _only_status(op, obj, old)
        rules = behaviour.validate_status_update(obj, old) if known is None else []
    elif op.subresource in PARTS:
        merge, check = PARTS[op.subresource]
        obj = merge(obj, old, op.cluster.clock.now())
        rules = behaviour.validate(obj) + check(obj, old)
        if op.resource.prefix == "/pods/":
            _count_change(op, obj, old)
    else:
        _all_but_status(op, obj, old)
        op.cluster.admission.admit(op, obj, old)
        rules = behaviour.check_update(obj, old)
    judge = op.resource.judge(op.version)
    found = metadata_update_errors(op, obj, old)
    errors = found + judge.check(obj, old, op.subresource, found=found) if found or known is None else []
    _refuse(op, obj, errors, rules)
    if statuses is not None and known is None and change is not None:
        statuses.remember(alike, change)
    if not op.subresource:
        op.warnings.extend((*metadata_warnings(op, obj, old), *behaviour.warnings(obj, old)))
    obj = ssa.without_new_times(op.resource.kept(obj, op.version), old)
    op.cluster.admission.judge(op, obj, old)
    if obj == old:
        return unchanged(op, Outcome(old, entry.raw))
    op.cluster.admission.charge(op, obj, old)
    if _finished_deleting(obj):
        return _let_go(op, obj)
    return put(op, obj, 200)


def _only_status(op: Operation, obj: Object, old: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in old.items() if key != "status"}
    kept["metadata"] = status_metadata(op, obj["metadata"], old["metadata"])
    if "status" in obj:
        kept["status"] = obj["status"]
    op.hub.behaviour.prepare_status_update(kept, old)
    return kept


def _all_but_status(op: Operation, obj: Object, old: Mapping[str, Any]) -> None:
    behaviour = op.hub.behaviour
    if op.hub.status:
        copy_key(obj, old, "status")
    behaviour.prepare_update(obj, old)
    _count_change(op, obj, old)


def _count_change(op: Operation, obj: Object, old: Mapping[str, Any]) -> None:
    if op.hub.behaviour.generation and _spec_changed(op, obj, old):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _apply(op: Operation, entry: Entry | None, config: Any) -> Awaitable[Outcome]:
    if entry is None and op.subresource:
        raise op.not_found()
    live = op.resource.from_hub(entry.obj, op.version) if entry is not None else None
    _refuse_bulk(op, config)
    config = _reshaped(op, config)
    applied = ownership.apply(op, live, config)
    _complain_of_repeats(op, config)
    if applied is live and entry is not None and op.answers is None:
        if not op.subresource:
            op.warnings.extend(op.hub.behaviour.warnings(entry.obj, entry.obj))
        return unchanged(op, Outcome(entry.obj, entry.raw))
    fresh = op.version.read_applied(applied)
    meta = metadata(fresh)
    if entry is None and meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise Conflict(op.resource.group, op.resource.plural, op.name, why)
    place(op, meta)
    check_name(op, meta)
    with _rules_of(op, fresh):
        if entry is None:
            return create_decoded(op, fresh, owned=True)
        return replace(op, op.resource.to_hub(fresh, op.version), entry, owned=True)


def _complain_of_repeats(op: Operation, config: Any) -> None:
    if op.field_validation == "Ignore" or not op.body:
        return
    repeats = repeats_applied(op.body, config)
    if repeats and op.field_validation == "Strict":
        lines = "\n  ".join(("yaml: unmarshal errors:", *repeats))
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {lines}")
    op.warnings.extend(repeats)


def _patched(op: Operation, form: str, old: Object, body: Any) -> Any:
    match form:
        case "json":
            return apply_json_patch(old, body)
        case "merge":
            return apply_merge_patch(old, body)
        case _:
            return apply_strategic_patch(old, body, op.version.schema)


def _decode_patched(op: Operation, form: str, patched: Any, body: Any, entry: Entry) -> Object:
    """The object a patch leaves. What is wrong with it is wrong with the patch."""
    if not isinstance(patched, dict):
        raise BadRequest("the patch does not leave an object")
    try:
        obj, paths = _read_patched(op, _reshaped(op, _typed(op, form, patched, body)), entry)
    except BadRequest as problem:
        raise bad_patch(op, form, patched, body, problem.message.partition(": ")[2]) from None
    repeats = repeated_fields(op.body, body) if op.body and op.field_validation != "Ignore" else []
    messages = [*_unknown_in_operations(form, body), *strict_messages(repeats, paths)]
    if messages and op.field_validation == "Strict":
        raise bad_patch(op, form, patched, body, f"strict decoding error: {', '.join(messages)}")
    op.complain(messages)
    return obj


def _typed(op: Operation, form: str, patched: Object, body: Any) -> Object:
    kind = op.kind
    if patched.get("kind") == kind.kind and patched.get("apiVersion") == kind.api_version:
        return patched
    return check_patched_type(op, form, patched, patched_text(patched, op.version.schema, body))


def _read_patched(op: Operation, patched: Object, entry: Entry) -> tuple[Object, list[str]]:
    """As `Version.read`, but what the patch left alone is taken from the stored bytes: it was read when it came in, and
    reading bytes is ten times faster than reading a tree by its type. Definitions may have changed since; types do not.
    """
    old = entry.obj
    same = {key for key, value in patched.items() if value.__class__ is dict and old.get(key) is value}
    fixed = op.resource.bundled or not op.resource.custom
    if not same or not fixed or op.version is not op.resource.hub:
        return op.version.read(patched)
    read, unknown = op.version.read({key: value for key, value in patched.items() if key not in same})
    stored = entry.copy()
    obj = {key: stored[key] if key in same else read[key] for key in patched if key in same or key in read}
    return obj | {key: value for key, value in read.items() if key not in obj}, unknown


def _unknown_in_operations(form: str, body: Any) -> list[str]:
    if form != "json" or not isinstance(body, list):
        return []
    return [
        f'json patch unknown field "[{index}].{key}"'
        for index, operation in enumerate(body)
        for key in operation
        if key not in ("op", "path", "from", "value")
    ]


def bad_patch(op: Operation, form: str, patched: Object, body: Any, why: str) -> Invalid:
    if form == "strategic":
        return Invalid("", "", "", [invalid("patch", verb_v(body), restoring_problem(why))])
    return Invalid("", "", "", [invalid("patch", patched_text(patched, op.version.schema, body), why)])


def _reshaped(op: Operation, sent: Any) -> Any:
    """An older shape of the kind as the current one, where a reshaper is registered for it; its author is warned."""
    reshape = op.cluster.reshapers.get((op.resource.group, op.resource.plural))
    if reshape is None or op.subresource or not isinstance(sent, dict):
        return sent
    read, moved = reshape(sent)
    if op.field_validation != "Ignore":
        op.warnings.extend(moved)
    return read


def _decode(op: Operation, sent: Object) -> Object:
    obj, paths = op.version.read(_reshaped(op, sent))
    if not op.body or op.field_validation == "Ignore" or op.media.endswith("protobuf"):
        op.complain(strict_messages((), paths))
    elif op.media in YAML_TYPES:
        repeats = repeated_keys(op.body)
        if repeats and op.field_validation == "Strict":
            repeats = ["\n  ".join(("yaml: unmarshal errors:", *repeats))]
        op.complain([*repeats, *strict_messages((), paths)])
    else:
        repeats = repeated_fields(op.body, sent)
        if repeats and paths and not op.resource.custom:
            repeats = [path for path in repeats if path not in paths]  # unknown is all there is to say of it
            in_order = strict_messages if isinstance(op.body, Prepared) else partial(strict_messages_in_order, op.body)
            op.complain(in_order(repeats, paths))
        else:
            op.complain(strict_messages(repeats, paths))
    return obj


def _spec_changed(op: Operation, obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    ignored = ("metadata", "status") if op.hub.status else ("metadata",)
    if op.hub.behaviour.annotations_count:
        annotations, before = obj["metadata"].get("annotations"), old["metadata"].get("annotations")
        if (annotations or {}) != (before or {}):
            return True
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


def _refuse(op: Operation, obj: Object, errors: Sequence[FieldError], rules: Sequence[FieldError]) -> None:
    """Says all that is wrong at once. What a webhook would refuse is refused in its name, after the schema had its say."""
    name, webhook = obj["metadata"].get("name", ""), op.hub.behaviour.webhook
    if webhook and rules and not errors:
        raise Denied(webhook, rules)
    if errors or rules:
        raise Invalid(op.resource.group, op.kind.kind, name, errors if webhook else [*errors, *rules])


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
    last = ordered(op, obj)
    return _settled(op.cluster.store.put(op.key, _renderer(last)), last, status)


def ordered(op: Operation, obj: Object) -> Object:
    """Kind and apiVersion first: lists cut them off by length."""
    hub = op.hub
    result: Object = {"kind": hub.kind, "apiVersion": hub.api_version, "metadata": in_order(obj["metadata"])}
    for key, value in obj.items():
        if key not in result:
            result[key] = value
    return result


def _renderer(obj: Object, *, gone: bool = False) -> Callable[[int], tuple[bytes, Object | None]]:
    """The bytes for the store, and the object for those who read it next: hardly anybody reads what is gone."""
    meta = obj["metadata"]
    deleting = gone or bool(meta.get("deletionTimestamp"))  # nothing may be too large to be deleted

    def render(revision: int) -> tuple[bytes, Object | None]:
        meta["resourceVersion"] = str(revision)
        raw = encode(obj)
        if len(raw) > _MAX_OBJECT and not deleting:
            raise _too_large(len(raw))
        return raw, None if gone else obj

    return render


def _refuse_bulk(op: Operation, obj: Any) -> None:
    """What can never be kept is refused before anybody asks what is wrong with it and who owns which part."""
    if op.body and len(op.body) > _LARGE and (size := len(encode(obj))) > _MAX_OBJECT:
        raise _too_large(size)


def _too_large(size: int) -> TooLarge:
    return TooLarge(f"Request entity too large: the object would have {size} bytes, the limit is {_MAX_OBJECT}")


async def _settled(pending: Awaitable[Entry], obj: Object, status: int) -> Outcome:
    """What was written, by then with its revision; the entry would only be decoded again."""
    entry = await pending
    return Outcome(obj, entry.raw, status)


def remove(op: Operation, obj: Object) -> Awaitable[Outcome]:
    """Takes the object out of the store; its last state goes to the watchers."""
    if op.dry_run:
        return _done(Outcome(obj))
    last = ordered(op, obj)
    return _settled(op.cluster.store.delete(op.key, _renderer(last, gone=True)), last, 200)


def _let_go(op: Operation, obj: Object) -> Awaitable[Outcome]:
    """The write that takes the last reason to wait removes the object; it answers with what it would have written."""
    return _answered(remove(op, obj), Outcome(obj))


async def _answered(pending: Awaitable[Outcome], outcome: Outcome) -> Outcome:
    await pending
    return outcome


async def _done(outcome: Outcome) -> Outcome:
    return outcome
