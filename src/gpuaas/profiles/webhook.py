"""The webhook that applies hardware profiles, as Open Data Hub's operator 3.5.0 answers.

`review` is one admission request; the answer allows it, with the object after injection where it changed, or refuses it.
A workload whose containers do not match is admitted with a warning and an event, never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.profiles import inject
from gpuaas.profiles.kinds import SHAPES, Shape
from gpuaas.profiles.paths import Object, ShapeError, annotation, drop, get, put

NAME: Final = "opendatahub.io/hardware-profile-name"
NAMESPACE: Final = "opendatahub.io/hardware-profile-namespace"
_ANNOTATIONS: Final = ("metadata", "annotations")

FindProfile = Callable[[str, str], Object | None]
"""The profile of a namespace and name, as stored."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    namespace: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`object` is None where nothing changes."""

    allowed: bool
    code: int = 0
    reason: str = ""
    message: str = ""
    object: Object | None = None
    warnings: tuple[str, ...] = ()
    events: tuple[Event, ...] = field(default=())


def review(
    operation: str,
    obj: Object,
    old: Object | None,
    find: FindProfile,
    shapes: Mapping[tuple[str, str], Shape] = SHAPES,
) -> Answer:
    shape = shapes.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    if shape is None:
        return Answer(False, 400, message=f"unexpected kind: {obj.get('kind')}")
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return Answer(True, message="Object marked for deletion, skipping hardware profile injection")
    if operation not in ("CREATE", "UPDATE"):
        return Answer(True, message=f"Operation {operation} on {obj.get('kind')} allowed")
    try:
        return _inject(operation, obj, old, find, shape)
    except (ShapeError, inject.UnreadableError) as error:
        return Answer(False, 500, message=str(error))


def _inject(operation: str, obj: Object, old: Object | None, find: FindProfile, shape: Shape) -> Answer:
    name = annotation(obj, NAME)
    if not name:
        if operation == "UPDATE" and old is not None and annotation(old, NAME):
            return _removed(obj, old, find, shape)
        return Answer(True, message="No hardware profile annotation found")
    namespace = annotation(obj, NAMESPACE) or _namespace(obj)
    if not namespace:
        return Answer(False, 400, message="unable to determine hardware profile namespace")
    profile = find(namespace, name)
    if profile is None:
        return Answer(False, 400, message=f"hardware profile '{name}' not found in namespace '{namespace}'")
    try:
        inject.check_counts(profile)
    except inject.UnreadableError as error:
        return Answer(
            False, 500, message=f"failed to get hardware profile '{name}' from namespace '{namespace}': {error}"
        )
    changed = _profile_changed(operation, old, name, namespace)
    before = obj
    if not annotation(obj, NAMESPACE):
        obj = put(obj, (*_ANNOTATIONS, NAMESPACE), namespace)
    if (refused := _mismatch(obj, shape, name)) is not None:
        return Answer(True, object=_if_changed(before, obj), warnings=refused[0], events=refused[1])
    obj, warnings = inject.apply(obj, shape, profile, changed=changed)
    return Answer(True, object=_if_changed(before, obj), warnings=tuple(warnings))


def _if_changed(before: Object, after: Object) -> Object | None:
    return None if before == after else after


def _namespace(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "")


def _profile_changed(operation: str, old: Object | None, name: str, namespace: str) -> bool:
    """Whether another profile applied before. An update without its old object counts as a change."""
    if operation == "CREATE":
        return False
    if old is None:
        return True
    before = annotation(old, NAME)
    return bool(before) and (before, annotation(old, NAMESPACE) or _namespace(old)) != (name, namespace)


def _removed(obj: Object, old: Object, find: FindProfile, shape: Shape) -> Answer:
    """The annotation is gone: what the old profile had set goes too, as far as that profile still says what it was."""
    before = obj
    profile = find(annotation(old, NAMESPACE) or _namespace(old), annotation(old, NAME))
    if profile is not None:
        obj = inject.remove(obj, shape, profile)
    if NAMESPACE in ((obj.get("metadata") or {}).get("annotations") or {}):
        obj = drop(obj, (*_ANNOTATIONS, NAMESPACE))
    return Answer(True, object=_if_changed(before, obj))


def _mismatch(obj: Object, shape: Shape, profile: str) -> tuple[tuple[str, ...], tuple[Event, ...]] | None:
    """Warnings and events where no container can be chosen as the main one."""
    if shape.model is not None:
        return None
    name, namespace, kind = (obj.get("metadata") or {}).get("name", ""), _namespace(obj), obj.get("kind")
    try:
        containers: list[Any] = get(obj, shape.containers, list, absent=[])
    except ShapeError as error:
        problem = f"was not applied due to validation error: failed to access containers: {error}."
        return (
            (
                f"Hardware profile '{profile}' {problem} All hardware profile settings are skipped. Please check your"
                " workload structure.",
            ),
            (
                Event(
                    f"{name}.hwp-validation-error",
                    namespace,
                    "ValidationError",
                    f"Hardware profile '{profile}' {problem} Check your workload structure.",
                ),
            ),
        )
    if not containers or inject.main_container(containers, shape, name) is not None:
        return None
    expected = shape.main or name
    found = f"no matching main container found in {kind} '{namespace}/{name}': expected container name '{expected}'"
    warning = (
        f"Hardware profile '{profile}' was not applied: {found}. To use this hardware profile, rename your container to"
        f" '{expected}'. All hardware profile settings (identifiers, scheduling, etc.) are skipped."
    )
    message = (
        f"Hardware profile '{profile}' settings not applied to this workload: {found}. Rename container to '{expected}' to"
        " enable hardware profile injection."
    )
    return (warning,), (Event(f"{name}.hwp-container-name-mismatch", namespace, "ContainerNameMismatch", message),)
