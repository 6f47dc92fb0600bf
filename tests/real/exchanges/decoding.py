"""What comes first where several things are wrong with an object: metadata, kind, version, fields."""

from __future__ import annotations

import json
from typing import Any

from tests.real.exchanges.manifests import CRDS, GROUP, _defined
from tests.real.wire import APPLY, JSON_PATCH, MERGE, STRATEGIC, YAML, Wire, case

GARBAGE: tuple[Any, ...] = (
    [],
    5,
    "text",
    {"name": 5},
    {"name": "a", "labels": []},
    {"name": "a", "labels": {"a": 5}},
    {"name": "a", "labels": {"a": None}},
    {"name": "a", "annotations": {"a": {}}},
    {"name": "a", "finalizers": "x"},
    {"name": "a", "finalizers": [5]},
    {"name": "a", "ownerReferences": {}},
    {"name": "a", "ownerReferences": [{"controller": "yes"}]},
    {"name": "a", "ownerReferences": ["x"]},
    {"name": "a", "creationTimestamp": "yesterday"},
    {"name": "a", "creationTimestamp": 5},
    {"name": "a", "deletionGracePeriodSeconds": "1"},
    {"name": "a", "generation": 1.5},
    {"name": "a", "managedFields": 5},
    {"name": "a", "managedFields": ["x"]},
    {"name": "a", "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": "x"}]},
    {"name": "a", "managedFields": [{"manager": "m", "operation": "Nonsense", "time": "then"}]},
    {"name": "a", "unknown": 5, "labels": {"a": 5}},
)
TOLD_BY_THE_SERVER = ("creationTimestamp", "generation", "managedFields")
KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "Other"},
    {"apiVersion": "other/v1"},
    {"apiVersion": "v1", "kind": "Secret"},
    {"kind": ""},
    {"apiVersion": "", "kind": ""},
    {"apiVersion": "a/b/c"},
    {"kind": "Other", "apiVersion": "a/b/c"},
    {"kind": None},
    {"kind": None, "apiVersion": None},
)


@case
def metadata_of_the_wrong_type(w: Wire) -> None:
    _story(w, w.path("configmaps"), {"apiVersion": "v1", "kind": "ConfigMap"}, "data")


@case
def metadata_of_custom_objects_of_the_wrong_type(w: Wire) -> None:
    text = {"type": "object", "additionalProperties": {"type": "string"}}
    path = _defined(w, "pins", "Pin", text)
    _story(w, path, {"apiVersion": f"{GROUP}/v1", "kind": "Pin"}, "spec")
    w.prepare("DELETE", f"{CRDS}/pins.{GROUP}")


@case
def metadata_of_jobs_of_the_wrong_type(w: Wire) -> None:
    _story(w, w.path("jobs", "batch/v1"), {"apiVersion": "batch/v1", "kind": "Job"}, "spec", forms=False)


def _story(w: Wire, path: str, kind: dict[str, Any], field: str, *, forms: bool = True) -> None:
    for meta in GARBAGE:
        w.post(path, {**kind, "metadata": meta}, dryRun="All")
        w.post(path, {"metadata": meta, field: 5, **kind}, dryRun="All")
        w.post(path, {**kind, "kind": "Other", "metadata": meta}, dryRun="All")
    for other in KINDS:
        for meta in ({"name": "a"}, {"name": "a", "labels": {"a": 5}}, {}, [], {"name": ""}, {"name": "b"}):
            w.post(path, {**kind, **other, "metadata": meta}, dryRun="All")
        w.post(path, {**kind, **other, "metadata": {"name": "a"}, field: 5}, dryRun="All")
    w.post(path, json.dumps({**kind, "metadata": []}), content=YAML, dryRun="All")
    if not forms:
        return
    w.prepare("POST", path, {**kind, "metadata": {"name": "a"}})
    for meta in GARBAGE:
        w.put(f"{path}/a", {**kind, "metadata": meta}, dryRun="All")
        w.put(f"{path}/a", {**kind, "kind": "Other", "metadata": meta}, dryRun="All")
        # A real server takes times and owners that are none from an apply, or stumbles over them.
        typed = not isinstance(meta, dict) or not meta.keys() & {*TOLD_BY_THE_SERVER, "unknown"}
        for form in (MERGE, *((APPLY,) if typed else ()), *((STRATEGIC,) if typed or kind["kind"] == "Pin" else ())):
            w.patch(f"{path}/a", {**kind, "metadata": meta}, form, dryRun="All", fieldManager="m")
        changes = [{"op": "replace", "path": "/metadata", "value": meta}]
        w.patch(f"{path}/a", changes, JSON_PATCH, dryRun="All")
    for other in KINDS:
        for meta in ({"name": "a"}, {"labels": {"a": 5}}, {"name": "b"}):
            w.put(f"{path}/a", {**kind, **other, "metadata": meta}, dryRun="All")
            w.put(f"{path}/nothere", {**kind, **other, "metadata": meta}, dryRun="All")
            for form in (*((MERGE,) if other.get("apiVersion", "v1") else ()), STRATEGIC, APPLY):
                w.patch(f"{path}/a", {**kind, **other, "metadata": meta}, form, dryRun="All", fieldManager="m")
