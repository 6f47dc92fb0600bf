"""Field ownership across the scale subresource: who owns the replicas of an object, seen from its Scale and back.

A write to `/scale` is tracked on a Scale object of its own; `to_scale` gives that object its managers before, and
`to_parent` carries what came of it back to the object. `replicas` says where each version of the kind keeps its count
(None: that version has no scale subresource).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.machinery.ssa.fieldset import FieldSet, difference, from_paths, has
from gpuaas.machinery.ssa.managed import Managers, Owned, read, write

SCALE_VERSION: Final = "autoscaling/v1"
_IN_SCALE: Final = ("f:spec", "f:replicas")

Paths = Mapping[str, tuple[str, ...] | None]
Entries = list[dict[str, Any]]


def replicas_path(json_path: str) -> tuple[str, ...]:
    """`.spec.replicas` as a path of elements."""
    return tuple(f"f:{step}" for step in json_path.strip(".").split("."))


def to_scale(entries: Sequence[dict[str, Any]], replicas: Paths) -> Entries:
    """The managedFields of a Scale: an entry for each manager that owns the replicas."""
    result: Managers = {}
    for manager, owned in read(entries, trusted=True).items():
        path = replicas.get(owned.api_version)
        if path is not None and has(owned.fields, path):
            result[manager] = Owned(_only(_IN_SCALE), SCALE_VERSION, owned.time)
    return write(result)


def to_parent(
    entries: Sequence[dict[str, Any]], scaled: Sequence[dict[str, Any]], version: str, replicas: Paths
) -> Entries:
    """The managedFields of the object after a write to its scale, in the version that was asked for."""
    left = read(scaled, trusted=True)
    result: Managers = {}
    for manager, owned in read(entries, trusted=True).items():
        if owned.api_version not in replicas:
            continue  # a version that is gone takes its managers along
        path = replicas[owned.api_version]
        if path is None or not has(owned.fields, path):
            result[manager] = owned
        elif manager in left:
            result[manager] = owned
            del left[manager]
        else:
            rest = difference(owned.fields, _only(path))
            if rest:
                result[manager] = owned.holding(rest)
    target = replicas[version]
    for manager, owned in left.items():
        if target is not None and has(owned.fields, _IN_SCALE):
            result[manager] = Owned(_only(target), version)
    return write(result)


def _only(path: tuple[str, ...]) -> FieldSet:
    return from_paths([path])
