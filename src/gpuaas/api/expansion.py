"""Types of Kubernetes itself inside a custom kind: a pod template in a Workload, a toleration in a ResourceFlavor.

A CRD may hold no references, so `expand` writes the built-in schemas out in full, in the form CRDs have: quantities as
int-or-string with their pattern, no enumerations, no zero defaults, template metadata cut down to what makes sense.
Equal parts are shared, so that the many pod templates of the kinds we ship cost little.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gpuaas.api.kinds import Object

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
REF_PREFIX = "#/components/schemas/"

_KEPT = {
    "type", "format", "required", "pattern", "nullable", "minimum", "maximum", "maxItems", "minItems",
    "maxLength", "minLength", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "anyOf",
}  # fmt: skip
# A template's metadata is not the metadata of an object: only what makes sense for something not yet created.
_TEMPLATE_META: Object = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
# Defaults that CRDs state and the built-in schemas leave to Go's zero values, or the other way round (None).
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "io.k8s.api.core.v1.LocalObjectReference": {"name": ""},
    "io.k8s.api.core.v1.GRPCAction": {"service": ""},
    "io.k8s.api.core.v1.FileKeySelector": {"optional": False},
    "io.k8s.api.core.v1.AzureDiskVolumeSource": {"readOnly": False, "kind": None, "cachingMode": None},
}
_INT_OR_STRING: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_LEAVES: Mapping[str, Object] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": _TEMPLATE_META,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def expand(schema: Mapping[str, Any], source: Callable[[str], Mapping[str, Any]]) -> Object:
    """The schema with every reference replaced by what `source` says of it: the form a CRD may have.

    A type that contains itself ends as an object that keeps whatever it is given.
    """
    return _Expansion(source).place(schema, ())


class _Expansion:
    def __init__(self, source: Callable[[str], Mapping[str, Any]]) -> None:
        self._source = source
        self._done: dict[str, Object] = {}

    def place(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> Object:
        reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
        if not reference:
            return self._inline(schema, inside)
        target = self._named(reference.removeprefix(REF_PREFIX), inside)
        here = {key: value for key, value in schema.items() if key in _KEPT}
        return {**target, **here} if here else target

    def _named(self, name: str, inside: tuple[str, ...]) -> Object:
        if name in _LEAVES:
            return _LEAVES[name]
        if name in inside:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if name not in self._done:
            node = self._inline(self._source(name), (*inside, name))
            self._done[name] = _with_defaults(node, _DEFAULTS[name]) if name in _DEFAULTS else node
        return self._done[name]

    def _inline(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> Object:
        if schema.get("format") == "int-or-string":
            return _INT_OR_STRING
        node = {key: value for key, value in schema.items() if key in _KEPT}
        if "items" in schema:
            node["items"] = self.place(schema["items"], inside)
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            node["additionalProperties"] = self.place(extra, inside)
        if "properties" in schema:
            self._properties(node, schema, inside)
        return node

    def _properties(self, node: Object, schema: Mapping[str, Any], inside: tuple[str, ...]) -> None:
        required = schema.get("required", ())
        node["properties"] = {
            name: self._property(value, inside, name in required)
            for name, value in sorted(schema["properties"].items())
        }
        if schema["properties"].get("name", {}).get("x-gpuaas-embedded-in") == "LocalObjectReference":
            node["properties"]["name"] = {**node["properties"]["name"], "default": ""}
            node["x-kubernetes-map-type"] = "atomic"

    def _property(self, schema: Mapping[str, Any], inside: tuple[str, ...], required: bool) -> Object:
        """The built-in schemas give the zero value as default of whatever is required; a CRD does not."""
        node = self.place(schema, inside)
        default = schema.get("default")
        if default is None or default == {} or (required and not default):
            return node
        return {**node, "default": default}


def _with_defaults(node: Object, defaults: Mapping[str, Any]) -> Object:
    properties = dict(node["properties"])
    for name, default in defaults.items():
        said = {key: value for key, value in properties[name].items() if key != "default"}
        properties[name] = said if default is None else {**said, "default": default}
    return {**node, "properties": properties}


@cache
def expanded(name: str) -> Object:
    # Imported here because only definitions with a Kubernetes type inside need those, rather large, schemas.
    from gpuaas.api.kubernetes.schemas import schema_source

    return expand({"$ref": REF_PREFIX + name}, schema_source)
