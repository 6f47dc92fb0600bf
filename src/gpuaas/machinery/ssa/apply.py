"""Server-side apply: make an object say what a configuration says, and remember whose saying it was.

What the configuration says is merged in; fields its manager applied before and no longer lists are removed, unless another manager
else owns it; what others own and would have to change is a conflict, or theirs no longer under `force`. The result
still has to be defaulted, admitted and validated like any other write.
"""

from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError, BadRequest
from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa.atoms import Atom, TypedError, atom_of
from gpuaas.machinery.ssa.blank import blank_of
from gpuaas.machinery.ssa.conflicts import Conflicting, answer
from gpuaas.machinery.ssa.fieldset import (
    EMPTY,
    FieldSet,
    difference,
    has,
    intersection,
    recursive_difference,
    union,
)
from gpuaas.machinery.ssa.lastapplied import allowed_conflicts, synced
from gpuaas.machinery.ssa.managed import BadManagedFields, Manager, Managers, Owned, read, write
from gpuaas.machinery.ssa.merge import merge
from gpuaas.machinery.ssa.ownership import STRIPPED, Converter, Object, Versions, change, reconciled
from gpuaas.machinery.ssa.removal import remove, with_named_fields
from gpuaas.machinery.ssa.typed import field_set, validate
from gpuaas.machinery.ssa.update import updated, with_managed_fields

KUBECTL = "kubectl"  # the manager under which kubectl's client-side apply is taken over


class ApplyFailed(ApiError):
    """A configuration its schema does not allow. Kubernetes answers 500 without a reason; it is the client's mistake."""

    code, reason = 400, "BadRequest"


@dataclass(frozen=True, slots=True)
class Applied:
    obj: Object  # live itself if there is nothing to write
    changed: bool  # anything but who owns what


def apply(
    live: Object | None,
    config: Object,
    manager: str,
    schema: Schema,
    *,
    force: bool,
    api_version: str,
    now: float,
    kind: str = "",
    subresource: str = "",
    reset_fields: FieldSet = EMPTY,
    converter: Converter | None = None,
    reconcile: bool = False,
) -> Applied:
    """Apply a configuration; `live` is None if the object does not exist yet. Raises ApplyConflict."""
    _check_type(config, api_version, kind or config.get("kind", ""))
    versions = Versions(atom_of(schema), api_version, converter, reset_fields)
    own = Manager(manager, "Apply", "", subresource)
    try:
        validate(versions.atom, config)
        managers = _managers(versions, live, subresource, now)
        if reconcile and live is not None:
            managers = reconciled(versions, live, managers)
    except TypedError as problem:
        text = f"failed to create typed patch object ({describe(config)}): {problem}"
        raise ApplyFailed(text) from problem
    except BadManagedFields as problem:
        raise ApplyFailed(f"failed to decode managed fields: {problem}") from problem
    try:
        merged, managers = _apply(versions, live or {}, config, managers, own, force=force)
    except Conflicting as problem:
        left = _undecided(versions, live or {}, problem, manager)
        if left:
            raise answer(left) from None
        merged, managers = _apply(versions, live or {}, config, managers, own, force=True)
    return _result(live, merged, config, managers, own, now)


def _check_type(config: Object, api_version: str, kind: str) -> None:
    if (config.get("apiVersion"), config.get("kind")) != (api_version, kind):
        raise BadRequest(f"invalid object type: {_group_version_kind(config)}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")


def describe(obj: Object) -> str:
    """`default/web; apps/v1, Kind=Deployment`."""
    metadata = obj.get("metadata")
    said = metadata if isinstance(metadata, dict) else {}
    namespace, name = (each if isinstance(each, str) else "" for each in (said.get("namespace"), said.get("name")))
    return f"{namespace}/{name}; {_group_version_kind(obj)}"


def _group_version_kind(obj: Object) -> str:
    version = str(obj.get("apiVersion") or "/")
    if version.count("/") > 1:
        return "/, Kind="
    return f"{version if '/' in version else '/' + version}, Kind={obj.get('kind') or ''}"


def _managers(versions: Versions, live: Object | None, subresource: str, now: float) -> Managers:
    """The ownership before the apply. An object without managed fields is all owned by `before-first-apply`."""
    if live is None:
        return {}
    managers = read((live.get("metadata") or {}).get("managedFields") or [], trusted=True)
    if managers:
        return managers
    first = Manager("before-first-apply", "Update", versions.api_version, subresource)
    return updated(versions, blank_of(versions.atom), live, managers, first, now)


def _apply(
    versions: Versions, live: Object, config: Object, managers: Managers, own: Manager, *, force: bool
) -> tuple[Object, Managers]:
    """The object and its managers after the apply."""
    merged = merge(versions.atom, live, config)
    last = managers.get(own)
    # Compared with what others own, the set must still hold the name; what is stored must not.
    said = recursive_difference(field_set(versions.atom, config), versions.reset)
    time = last.time if last else ""
    managers = {**managers, own: Owned(said, versions.api_version, time)}
    pruned = merged if _says_all_of(versions, last, said) else _pruned(versions, merged, managers, last)
    if len(managers) > 1:
        managers, _ = change(versions, live, pruned, managers, own, force=force)
    kept = difference(said, STRIPPED)
    if not kept:
        managers.pop(own, None)
    elif last is not None and last.fields == kept and last.api_version == versions.api_version:
        managers[own] = last
    else:
        managers[own] = Owned(kept, versions.api_version, time)
    return pruned, managers


def _says_all_of(versions: Versions, last: Owned | None, said: FieldSet) -> bool:
    """Nothing was given up since the last apply, so nothing can have to go."""
    if last is None:
        return True
    return last.api_version == versions.api_version and not difference(last.fields, said)


def _pruned(versions: Versions, merged: Object, managers: Managers, last: Owned | None) -> Object:
    """The merged object without the fields that its applier owned before and no manager owns now."""
    if last is None or not last.fields:
        return merged
    found = versions.convert(merged, last.api_version)
    if found is None:
        return merged
    whole, atom = found
    bare = remove(atom, whole, with_named_fields(atom, last.fields)) or {}
    owned = _owned_by_version(managers)
    # In the version of the last apply first: conversion may need fields that are owned there.
    for version in sorted(owned, key=lambda version: version != last.api_version):
        bare = _add_back(versions, whole, bare, last.api_version, version, owned[version])
    # Only what the applier itself owned goes: fields without owner stay.
    gone = difference(_named(atom, whole), _named(atom, bare))
    result = remove(atom, whole, intersection(gone, with_named_fields(atom, last.fields))) or {}
    back = versions.convert(result, versions.api_version, of=last.api_version)
    return result if back is None else back[0]


def _owned_by_version(managers: Managers) -> dict[str, FieldSet]:
    result: dict[str, FieldSet] = {}
    for owned in managers.values():
        result[owned.api_version] = union(result.get(owned.api_version, EMPTY), owned.fields)
    return result


def _add_back(versions: Versions, whole: Object, bare: Object, of: str, version: str, owned: FieldSet) -> Object:
    """What `bare` lacks of `whole`, less what other managers own, is removed."""
    before, after = versions.convert(whole, version, of=of), versions.convert(bare, version, of=of)
    if before is None or after is None:
        return bare
    full, atom = before
    kept = union(_named(atom, after[0]), with_named_fields(atom, owned))
    result = remove(atom, full, difference(_named(atom, full), kept)) or {}
    back = versions.convert(result, of, of=version)
    return bare if back is None else back[0]


def _named(atom: Atom, obj: Object) -> FieldSet:
    return with_named_fields(atom, field_set(atom, obj))


def _undecided(versions: Versions, live: Object, problem: Conflicting, manager: str) -> list[Any]:
    """The conflicts that stand: kubectl may take back what its client-side apply wrote, if it is unchanged since."""
    if manager != KUBECTL:
        return problem.conflicts
    allowed = allowed_conflicts(versions, live)
    return [conflict for conflict in problem.conflicts if not has(allowed, conflict.path)]


def _result(
    live: Object | None, merged: Object, config: Object, managers: Managers, own: Manager, now: float
) -> Applied:
    changed = live is None or merged != live
    if changed and own in managers:
        managers[own] = managers[own].since(rfc3339(now))
    if own.name == KUBECTL:
        merged = synced(merged, config)
    entries = write(managers)
    if live is not None and not changed and merged == live:
        known = (live.get("metadata") or {}).get("managedFields") or []
        if known == entries:
            return Applied(live, False)
    return Applied(with_managed_fields(merged, entries), changed)
