"""One object and its writers, for tests of field ownership: small kinds of both sorts, and a clock of writes."""

import copy
from typing import Any

from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.ssa import apply, from_paths, track_update
from gpuaas.machinery.ssa.fieldset import paths, show_path

Object = dict[str, Any]
REF = "#/components/schemas/"
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
PORT = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "proto": {"type": "string", "default": "TCP"},
        "text": {"type": "string"},
    },
}
TYPES: dict[str, Any] = {
    "Meta": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "uid": {"type": "string"},
            "labels": STRINGS,
            "annotations": STRINGS,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "managedFields": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Spec": {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "text": {"type": "string"},
            "free": STRINGS,
            "whole": {**STRINGS, "x-kubernetes-map-type": "atomic"},
            "list": {"type": "array", "items": {"type": "string"}},
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "image": {"type": "string"},
                        "ports": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["port", "proto"],
                            "items": PORT,
                        },
                    },
                },
            },
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "sub": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        },
    },
    "Status": {"type": "object", "properties": {"phase": {"type": "string"}}},
}


def kind(zero: str) -> dict[str, Any]:
    """A kind whose structs Go always writes, or a custom resource."""
    place = {"x-gpuaas-zero": zero} if zero else {}
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF + "Meta", **place},
        "spec": {"$ref": REF + "Spec", **place},
        "status": {"$ref": REF + "Status", **place},
    }
    return {"type": "object", "properties": properties}


SCHEMAS = SchemaSet({**TYPES, "Custom": kind(""), "BuiltIn": kind("always")}.__getitem__)
CUSTOM, BUILT_IN = SCHEMAS.named("Custom"), SCHEMAS.named("BuiltIn")
NOT_STATUS = from_paths([("f:status",)])


def widget(meta: Object | None = None, **fields: Any) -> Object:
    obj: Object = {"apiVersion": "t/v1", "kind": "Widget", "metadata": {"name": "w", **(meta or {})}}
    return {**obj, "spec": fields} if fields else obj


class World:
    """One object, its writers, and a clock that moves a second with every write."""

    def __init__(self, schema: Schema = CUSTOM) -> None:
        self.schema = schema
        self.live: Object | None = None
        self.now = 0.0
        self.version = "t/v1"

    def create(self, manager: str, obj: Object, **options: Any) -> "World":
        return self._store(self._track(None, obj, manager, **options))

    def patch(self, manager: str, patch: Object, **options: Any) -> "World":
        assert self.live is not None
        return self._store(self._track(self.live, apply_merge_patch(self.live, patch), manager, **options))

    def apply(self, manager: str, config: Object, *, force: bool = False, **options: Any) -> "World":
        self.now += 1
        common: Object = {"api_version": self.version, "now": self.now, "kind": "Widget", **options}
        before = copy.deepcopy((self.live, config))
        result = apply(self.live, config, manager, self.schema, force=force, **common)
        assert (self.live, config) == before, "inputs were changed"
        return self._store(result.obj)

    def _track(self, live: Object | None, new: Object, manager: str, **options: Any) -> Object:
        self.now += 1
        before = copy.deepcopy((live, new))
        common: Object = {"api_version": self.version, "now": self.now, "reset_fields": NOT_STATUS, **options}
        result = track_update(live, new, manager, self.schema, **common)
        assert (live, new) == before, "inputs were changed"
        return result

    def _store(self, obj: Object) -> "World":
        if "uid" in obj["metadata"]:
            self.live = obj
        else:
            self.live = {**obj, "metadata": {**obj["metadata"], "uid": "u"}}
        return self

    @property
    def obj(self) -> Object:
        assert self.live is not None
        return self.live

    def entries(self) -> list[Object]:
        found: list[Object] = self.obj["metadata"].get("managedFields", [])
        return found

    def owners(self) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for entry in self.entries():
            sign = "+" if entry["operation"] == "Apply" else ""
            sub = f"/{entry['subresource']}" if "subresource" in entry else ""
            result[f"{sign}{entry['manager']}{sub}"] = [show_path(path) for path in paths(entry["fieldsV1"])]
        return result
