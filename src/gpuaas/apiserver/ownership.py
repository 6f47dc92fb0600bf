"""Who owns which field: server-side apply and the tracking of every other write, wired to kinds and versions."""

from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver.operation import Operation
from gpuaas.base.clock import rfc3339
from gpuaas.machinery import ssa

_STATUS = ssa.from_paths([("f:status",)])
_SPEC = ssa.from_paths([("f:spec",)])
_SPEC_AND_METADATA = ssa.from_paths([("f:spec",), ("f:metadata",)])
_BY_KIND = {
    ("", "pods"): ssa.from_paths(
        [("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")]
    ),
    ("apps", "deployments"): ssa.from_paths([("f:spec",), ("f:metadata", "f:labels")]),
    ("certificates.k8s.io", "certificatesigningrequests"): ssa.from_paths([("f:spec",), ("f:status", "f:conditions")]),
    **dict.fromkeys(
        (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            ("networking.k8s.io", "servicecidrs"),
            ("resource.k8s.io", "resourceclaims"),
            ("storage.k8s.io", "volumeattachments"),
        ),
        _SPEC_AND_METADATA,
    ),
}
_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
"""Fields without owners: a request never changes them."""
_REQUEST = ssa.from_paths([("f:spec",), ("f:status",)])
_APPROVAL = ssa.from_paths([("f:spec",), ("f:status", "f:certificate")])


def apply(op: Operation, live: Object | None, config: Object) -> Object:
    """The object after an apply, `live` itself if nothing changes; raises ApplyConflict."""
    return ssa.apply(
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
        reconcile=op.resource.custom and not op.resource.bundled,
    ).obj


def track(op: Operation, old: Object | None, obj: Object, change: Any = None) -> Object:
    """The object (hub version) with managedFields brought up to date. Ownership is spoken of in the request's version.
    `change`: what `changes` says of the two, where that is known already."""
    now = op.cluster.clock.now()
    owners = _owners_of_new(op, obj, now) if old is None else _owners_after(op, old, obj, now, change)
    return ssa.with_managed_fields(obj, owners)


def _owners_of_new(op: Operation, obj: Object, now: float) -> list[Object] | None:
    if op.version is not op.resource.hub or ("status" in obj and not op.hub.status):
        return _owners(op, None, obj, now)
    by = op.manager, op.subresource
    return op.resource.owners.of_new(obj, by, rfc3339(now), lambda: _owners(op, None, obj, now))


def changes(op: Operation, old: Object, obj: Object) -> ssa.Comparison | None:
    """Which places this request changes; None where they are unknown."""
    try:
        return ssa.changes(old, obj, op.version.schema, _reset_fields(op))
    except ssa.TypedError:
        return None


def _owners_after(op: Operation, old: Object, obj: Object, now: float, change: Any) -> list[Object] | None:
    """Objects change alike, hundreds in a second: what follows from the places that change is remembered."""
    stored, sent = old["metadata"].get("managedFields") or [], obj["metadata"].get("managedFields")
    if (
        op.version is not op.resource.hub
        or not (op.subresource or sent is None or sent == stored)
        or any(entry.get("apiVersion") != op.kind.api_version for entry in stored)
    ):
        return _owners(op, old, obj, now)
    if change is None:
        change = changes(op, old, obj)
    if change is None:
        return _owners(op, old, obj, now)
    by = op.manager, op.subresource
    return op.resource.owners.of(change, stored, by, rfc3339(now), lambda: _owners(op, old, obj, now))


def _owners(op: Operation, old: Object | None, obj: Object, now: float) -> list[Object] | None:
    before = op.resource.from_hub(old, op.version) if old is not None else None
    after = op.resource.from_hub(obj, op.version)
    tracked = ssa.track_update(
        before,
        after,
        op.manager,
        op.version.schema,
        api_version=op.kind.api_version,
        now=now,
        subresource=op.subresource,
        reset_fields=_reset_fields(op),
        converter=op.converter(),
        reconcile=op.resource.custom and not op.resource.bundled,
    )
    owners: list[Object] | None = tracked["metadata"].get("managedFields")
    return owners


def _reset_fields(op: Operation) -> ssa.FieldSet:
    """What a write through this path cannot own, because the server puts it back."""
    if not op.hub.status:
        return {}
    if op.subresource != "status":
        if (op.resource.group, op.resource.plural) == _REQUESTS:
            return _APPROVAL if op.subresource == "approval" else _REQUEST
        return _STATUS
    if op.resource.custom:
        return _SPEC_AND_METADATA
    return _BY_KIND.get((op.resource.group, op.resource.plural), _SPEC)
