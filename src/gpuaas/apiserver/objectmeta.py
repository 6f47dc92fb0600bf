"""Metadata on its way in: what the server owns, what must agree with the path, and what is wrong with the rest."""

from collections.abc import Mapping
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.api.metadata import finalizer_warnings, validate_metadata, validate_metadata_update
from gpuaas.apiserver.operation import Operation
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid
from gpuaas.base.fielderrors import FieldError

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def metadata(obj: Object) -> Object:
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata must be an object")
    return meta


def place(op: Operation, meta: Object) -> None:
    """The namespace of the object is the namespace of the request."""
    if not op.resource.namespaced:
        meta.pop("namespace", None)
        return
    meta["namespace"] = meta.get("namespace") or op.namespace  # a body in protobuf says that it says nothing
    if meta["namespace"] != op.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_name(op: Operation, meta: Mapping[str, Any]) -> None:
    name = meta.get("name")
    if not name:
        why = f"the name of the object ({op.name} based on URL) was undeterminable: name must be provided"
        raise BadRequest(why)
    if name != op.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({op.name})")


def wipe(meta: Object) -> None:
    """What only the server says of a new object, before anybody can come to own it."""
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid", "creationTimestamp"):
        meta.pop(key, None)


def new_metadata(op: Operation, meta: Object) -> None:
    revision = meta.pop("resourceVersion", "")
    if revision and op.verb == "create" and (op.dry_run or revision != "0"):
        meta["resourceVersion"] = revision  # found out when it is written, so not when it is only asked
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generated(op, str(meta["generateName"]))
    meta["uid"] = op.cluster.ids.uid()
    meta["creationTimestamp"] = rfc3339(op.cluster.clock.now())
    if op.answers is not None:  # a retried verb makes the object that its webhooks have seen
        made = {key: meta[key] for key in ("name", "uid", "creationTimestamp") if key in meta}
        meta.update(op.answers.setdefault("made", made))
    if op.hub.behaviour.generation:
        meta["generation"] = 1


def _generated(op: Operation, base: str) -> str:
    """A free name that begins with `base`: the chance of a clash is small, and taken care of."""
    for _ in range(8):
        name = base[:58] + op.cluster.ids.suffix()
        if op.cluster.store.latest(op.resource.key(op.namespace, name)) is None:
            return name
    return name


def check_preconditions(op: Operation, meta: Mapping[str, Any], old_meta: Mapping[str, Any]) -> None:
    uid, revision = meta.get("uid"), meta.get("resourceVersion")
    if uid and uid != old_meta["uid"] and op.verb == "update":
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        raise Conflict(op.resource.group, op.resource.plural, op.name, why)
    conditional = op.resource.custom or not op.hub.behaviour.unconditional_update
    if not revision and conditional and op.verb in ("update", "patch"):
        raise Invalid(
            op.resource.group,
            op.resource.plural,
            op.name,
            [
                FieldError(
                    "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
                )
            ],
        )
    if revision and revision != "0" and revision != old_meta["resourceVersion"]:
        raise Conflict(op.resource.group, op.resource.plural, op.name, STALE)


def keep_metadata(meta: Object, old_meta: Mapping[str, Any]) -> None:
    """What a write cannot change stays; what it may not even try to change is left for validation to see."""
    for key in ("creationTimestamp", "generation", "resourceVersion"):
        copy_key(meta, old_meta, key)
    if not meta.get("uid"):
        meta["uid"] = old_meta["uid"]
    if "deletionTimestamp" in old_meta:
        meta["deletionTimestamp"] = old_meta["deletionTimestamp"]
        if meta.get("deletionGracePeriodSeconds") is None:
            copy_key(meta, old_meta, "deletionGracePeriodSeconds")
    meta.pop("selfLink", None)


def copy_key(target: Object, source: Mapping[str, Any], key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def status_metadata(op: Operation, meta: Object, old_meta: Mapping[str, Any]) -> Object:
    """A status write leaves metadata alone: all of it for custom resources, labels and links for built-in ones."""
    if op.resource.custom:
        return {**old_meta, **({"managedFields": meta["managedFields"]} if "managedFields" in meta else {})}
    for key in ("labels", "ownerReferences", "finalizers"):
        copy_key(meta, old_meta, key)
    return meta


# The order in which Go writes metadata; what it does not name comes at the end.
_ORDER = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip


def in_order(meta: Mapping[str, Any]) -> Object:
    """A copy with its keys where a reader of the raw bytes expects them, and a place for the revision."""
    result = {key: meta.get(key, "") for key in _ORDER if key in meta or key == "resourceVersion"}
    return result if len(result) >= len(meta) else {**result, **meta}


# Groups about extending the server itself: like custom resources, their finalizers may have any name.
_EXTENSIONS = frozenset(("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"))


def metadata_errors(op: Operation, obj: Object) -> list[FieldError]:
    strict = not op.resource.custom and op.resource.group not in _EXTENSIONS
    return validate_metadata(obj, op.resource.namespaced, op.hub.behaviour.name_messages, builtin=strict)


# Kinds whose own rules look at the whole of metadata once more on an update.
_LOOK_TWICE = frozenset(
    ("configmaps", "secrets", "services", "serviceaccounts", "limitranges", "resourcequotas", "pods", "endpoints",
     "persistentvolumes", "persistentvolumeclaims", "roles", "clusterroles", "rolebindings", "clusterrolebindings")
)  # fmt: skip


_ANEW = frozenset(("managedFields", "resourceVersion"))  # the server's, with every write


def metadata_update_errors(op: Operation, obj: Object, old: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with metadata after an update, as often as Kubernetes says it: once for every look it takes."""
    if is_as_before(obj["metadata"], old["metadata"]):
        return []  # it has passed
    errors = metadata_errors(op, obj)
    changes = validate_metadata_update(obj, old)
    if not errors and not changes:
        return []
    again = errors if op.resource.plural in _LOOK_TWICE and not op.subresource else []
    return [*errors, *changes, *changes, *again]


def is_as_before(meta: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether nothing changed but what changes with every write."""
    return meta.keys() == before.keys() and all(
        value is before[key] or value == before[key] for key, value in meta.items() if key not in _ANEW
    )


def metadata_warnings(op: Operation, obj: Object, old: Mapping[str, Any] | None) -> list[str]:
    return finalizer_warnings(obj, old) if op.resource.custom else []
