"""Annotations of pods and templates that controllers read: what deleting a pod costs, and whose copy it is."""

import re
from typing import Final

from gpuaas.api.kinds import Object
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, forbidden, invalid, keyed

_MIRROR: Final = "kubernetes.io/config.mirror"
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_DEVICES: Final = "gpuaas.dev/devices"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*|-0[0-9]*")


def annotation_errors(annotations: View | None, spec: View, path: str) -> list[FieldError]:
    """What is wrong with each of them; `path` is where they are said to be."""
    if not annotations:
        return []
    errors: list[FieldError] = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(keyed(path, _MIRROR), annotations[_MIRROR], text))
    cost = annotations.get(_COST)
    if cost is not None and not (len(cost) < 20 and _INTEGER.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        errors.append(invalid(keyed(path, _COST), cost, "must be a 32bit integer"))
    return errors


def annotation_changes(annotations: View | None, old: View | None, path: str) -> list[FieldError]:
    """What may not be added, changed or taken away once the pod is there."""
    new, before = (annotations or {}).get(_MIRROR), (old or {}).get(_MIRROR)
    if new == before:
        return []
    verb = "add" if before is None else "remove or update"
    return [forbidden(keyed(path, _MIRROR), f"may not {verb} mirror pod annotation")]


def keep_devices(metadata: Object, before: View) -> None:
    """The devices a pod was given are written by its node, through the status subresource. A write of the pod itself
    neither sets nor changes them: they stay as they were, as a status does."""
    known = (before.get("annotations") or {}).get(_DEVICES)
    annotations = metadata.get("annotations") or {}
    if annotations.get(_DEVICES) == known:
        return
    others = {name: value for name, value in annotations.items() if name != _DEVICES}
    metadata["annotations"] = others if known is None else {**others, _DEVICES: known}
    if not metadata["annotations"]:
        del metadata["annotations"]
