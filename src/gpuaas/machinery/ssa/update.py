"""Create, update and patch: the changes a request makes to an object become its manager's.

`track_update` is called with the object as it was and as it shall be, before admission has its say; it returns the
new object with metadata.managedFields brought up to date and changes nothing else. Server-side apply is module apply.
"""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.atoms import Atom, TypedError, atom_of
from gpuaas.machinery.ssa.blank import blank_of
from gpuaas.machinery.ssa.compare import Comparison, compare
from gpuaas.machinery.ssa.fieldset import EMPTY, FieldSet, union
from gpuaas.machinery.ssa.managed import BadManagedFields, Manager, Managers, Owned, cap, read, write
from gpuaas.machinery.ssa.ownership import Converter, Object, Versions, change, owned_part, reconciled


def track_update(
    live: Object | None,
    new: Object,
    manager: str,
    schema: Schema,
    *,
    api_version: str,
    now: float,
    subresource: str = "",
    reset_fields: FieldSet = EMPTY,
    converter: Converter | None = None,
    reconcile: bool = False,
) -> Object:
    """The new object with managedFields as kube-apiserver has them after this write.

    `live` is None for a create. `reset_fields` are the fields this request may not set (the server puts them back), so
    no manager comes to own them through it. `reconcile` looks for places that have become atomic since they were owned:
    for kinds whose schema can change while objects exist.
    """
    created = live is None or not (live.get("metadata") or {}).get("uid")
    atom = atom_of(schema)
    managers = _current(live, new, atom, subresource)
    if not managers and not created:
        return with_managed_fields(new, None)  # an untracked object stays untracked
    versions = Versions(atom, api_version, converter, reset_fields)
    old = blank_of(atom) if live is None else live
    try:
        if reconcile and managers:
            managers = reconciled(versions, old, managers)
        managers = updated(versions, old, new, managers, Manager(manager, "Update", api_version, subresource), now)
    except TypedError:
        return with_managed_fields(new, None)  # what cannot be read by its type cannot be owned
    return with_managed_fields(new, write(managers))


def changes(live: Object, new: Object, schema: Schema, reset_fields: FieldSet = EMPTY) -> Comparison:
    """What of these two decides, beside the managers so far, who owns what after an update. Raises TypedError."""
    whole = {element[2:] for element, below in reset_fields.items() if not below}  # of these nothing is ever owned
    old, now = ({key: value for key, value in each.items() if key not in whole} for each in (live, new))
    return compare(atom_of(schema), owned_part(old), owned_part(now)).without(reset_fields)


def updated(versions: Versions, old: Object, new: Object, managers: Managers, own: Manager, now: float) -> Managers:
    """Managers after `own` changed the object."""
    own = own if own.name else own._replace(name="unknown")
    if managers:
        managers, comparison = change(versions, old, new, managers, None, force=True)
        fields = comparison.changed()
    else:
        fields = versions.changed(old, new)
    if not fields:
        return cap(managers)
    before = managers.get(own)
    if before is not None:
        fields = union(before.fields, fields)
    managers[own] = Owned(fields, versions.api_version, rfc3339(now))
    return cap(managers)


def _current(live: Object | None, new: Object, atom: Atom, subresource: str) -> Managers:
    """Where tracking starts from: the list of the request if it can be read, else that of the live object."""
    stored = ((live or {}).get("metadata") or {}).get("managedFields") or []
    sent = (new.get("metadata") or {}).get("managedFields")
    if not subresource and sent is not None and sent is not stored:
        if _is_reset(sent, atom):
            return {}
        try:
            managers = read(sent, trusted=sent == stored)
        except BadManagedFields:
            managers = {}
        if managers:
            return managers
    try:
        return read(stored, trusted=True)
    except KeyError:
        return {}


def _is_reset(entries: list[Mapping[str, Any]], atom: Atom) -> bool:
    """A list of one empty entry is how a user says: forget who owned what. For built-in kinds an empty list says it
    too; for custom resources that is the same as no list."""
    if not entries:
        return bool(blank_of(atom))
    return len(entries) == 1 and not entries[0]


def with_managed_fields(obj: Object, entries: list[dict[str, Any]] | None) -> Object:
    """The object with this list; without the field if there is none."""
    metadata = obj.get("metadata") or {}
    if entries:
        return {**obj, "metadata": {**metadata, "managedFields": entries}}
    if "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": rest}


def without_new_times(new: Object, old: Object) -> Object:
    """The new object with the old times, if nothing but the times of its managers differs: then nothing is written."""
    ours = (new.get("metadata") or {}).get("managedFields") or []
    theirs = (old.get("metadata") or {}).get("managedFields") or []
    if not ours or len(ours) != len(theirs) or ours == theirs:
        return new
    if any(_timeless(one) != _timeless(two) for one, two in zip(ours, theirs, strict=True)):
        return new
    back = with_managed_fields(new, theirs)
    return back if back == old else new


def _timeless(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}
