"""Taking over from client-side apply: the annotation in which old `kubectl apply` kept its last configuration.

Server-side apply by the manager `kubectl` may change fields that the annotation names and that still are as it says,
although they belong to the manager of the client-side apply; and where the annotation is, it is kept in step.
"""

from typing import Any

import msgspec

from gpuaas.machinery.ssa.atoms import TypedError
from gpuaas.machinery.ssa.compare import compare
from gpuaas.machinery.ssa.fieldset import EMPTY, FieldSet, difference
from gpuaas.machinery.ssa.gotext import to_json
from gpuaas.machinery.ssa.ownership import Object, Versions
from gpuaas.machinery.ssa.typed import field_set, validate

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
TOTAL_ANNOTATION_BYTES = 256 * 1024


def allowed_conflicts(versions: Versions, live: Object) -> FieldSet:
    """The fields kubectl may take: those its annotation has with the value they have now."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return EMPTY
    try:
        last = msgspec.json.decode(text)
        if last.get("apiVersion") != versions.api_version:
            return EMPTY
        validate(versions.atom, live)
        validate(versions.atom, last)
        comparison = compare(versions.atom, last, live)
    except (msgspec.DecodeError, AttributeError, TypedError):
        return EMPTY
    fields = field_set(versions.atom, last)
    for part in comparison:
        fields = difference(fields, part)
    return fields


def synced(obj: Object, config: Object) -> Object:
    """The object with its annotation saying what was applied now; an object without the annotation gets none."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    annotations = {**annotations, ANNOTATION: to_json(_without_annotation(config)) + "\n"}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > TOTAL_ANNOTATION_BYTES:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _without_annotation(config: Object) -> Object:
    annotations = _annotations(config)
    if ANNOTATION not in annotations:
        return config
    rest = {key: value for key, value in annotations.items() if key != ANNOTATION}
    metadata = {key: value for key, value in config["metadata"].items() if key != "annotations"}
    if rest:
        metadata["annotations"] = rest
    return {**config, "metadata": metadata}


def _annotations(obj: Object) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}
