"""Annotations of pods and templates that mean something: profiles from a time before they had fields, what deleting a pod
costs, and whose copy it is.

What an annotation and a field both say must be the same. Warnings about annotations are in module `pod_warnings`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from gpuaas.api.kubernetes.rules.checks import each
from gpuaas.api.kubernetes.rules.profiles import APPARMOR
from gpuaas.api.kubernetes.rules.volumes import descending_path
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, quote

_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_MIRROR: Final = "kubernetes.io/config.mirror"
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*|-0[0-9]*")
_LOCAL: Final = "localhost/"
_TYPES: Final = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault"}
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def annotation_errors(annotations: View | None, spec: View, path: str) -> list[FieldError]:
    """What is wrong with each of them; `path` is where they are said to be."""
    if not annotations:
        return []
    errors: list[FieldError] = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(keyed(path, _MIRROR), annotations[_MIRROR], text))
    cost = annotations.get(_COST)
    if cost is not None and not (_INTEGER.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        errors.append(invalid(keyed(path, _COST), cost, "must be a 32bit integer"))
    for key, profile in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            errors += _seccomp(profile, child(path, key))
    for key, profile in annotations.items():
        if key.startswith(APPARMOR):
            errors += _apparmor(key, profile, spec, path)
    return errors


def _seccomp(profile: str, path: str) -> list[FieldError]:
    if profile in _TYPES:
        return []
    if profile.startswith(_LOCAL):
        return descending_path(profile.removeprefix(_LOCAL), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _apparmor(key: str, profile: str, spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = key.removeprefix(APPARMOR)
    if all(container.get("name") != name for container, _ in _containers(spec, "")):
        errors.append(invalid(keyed(path, key), name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        errors.append(invalid(keyed(path, key), profile, f"invalid AppArmor profile name: {quote(profile)}"))
    return errors


def profile_mismatches(annotations: View | None, spec: View, path: str) -> list[FieldError]:
    """Where a field says something else than the annotation does; `path` leads to the spec."""
    if not annotations:
        return []
    security = spec.get("securityContext") or {}
    errors: list[FieldError] = []
    if _SECCOMP_POD in annotations:
        at = child(path, "securityContext", "seccompProfile")
        errors += _mismatch("seccomp", annotations[_SECCOMP_POD], security.get("seccompProfile"), at)
    containers = list(_containers(spec, path))
    for container, where in containers:
        own, key = container.get("securityContext") or {}, f"{_SECCOMP}{container.get('name', '')}"
        at = child(where, "securityContext", "seccompProfile")
        errors += _mismatch("seccomp", annotations.get(key), own.get("seccompProfile"), at)
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for container, where in containers:
        own, key = container.get("securityContext") or {}, f"{APPARMOR}{container.get('name', '')}"
        at = child(where, "securityContext", "appArmorProfile")
        said = own.get("appArmorProfile") or security.get("appArmorProfile")
        errors += _mismatch("apparmor", annotations.get(key), said, at)
    return errors


def _mismatch(what: str, annotation: str | None, field: View | None, path: str) -> list[FieldError]:
    if annotation is None or not field:
        return []
    known = _TYPES.get(annotation) if what == "seccomp" or annotation != "docker/default" else None
    kind = "Localhost" if annotation.startswith(_LOCAL) else known
    if field.get("type") != kind:
        wrong = field.get("type") in ("Unconfined", "RuntimeDefault", "Localhost")
        text = f"{what} type in annotation and field must match"
        return [forbidden(child(path, "type"), text)] if wrong else []
    if kind != "Localhost" or field.get("localhostProfile") == annotation.removeprefix(_LOCAL):
        return []
    return [forbidden(child(path, "localhostProfile"), f"{what} profile in annotation and field must match")]


def annotation_changes(annotations: View | None, old: View | None, path: str) -> list[FieldError]:
    """What may not be added, changed or taken away once the pod is there."""
    new, before = annotations or {}, old or {}
    errors: list[FieldError] = []
    for key in (key for key, value in before.items() if new.get(key) != value):
        if key.startswith(APPARMOR):
            errors.append(forbidden(keyed(path, key), "may not remove or update AppArmor annotations"))
        if key == _MIRROR:
            errors.append(forbidden(keyed(path, key), "may not remove or update mirror pod annotation"))
    for key in (key for key in new if key not in before):
        if key.startswith(APPARMOR):
            errors.append(forbidden(keyed(path, key), "may not add AppArmor annotations"))
        if key == _MIRROR:
            errors.append(forbidden(keyed(path, key), "may not add mirror pod annotation"))
    return errors


def _containers(spec: View, path: str) -> Iterator[tuple[Any, str]]:
    for kind in _CONTAINERS:
        yield from each(spec, kind, path)
