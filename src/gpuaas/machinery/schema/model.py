"""A compiled schema: what one place in an object may hold, how it merges, and what it defaults to.

`SchemaSet` compiles OpenAPI v3 dictionaries (with Kubernetes' `x-kubernetes-*` extensions) into a graph of `Schema`
nodes, once per named type and only when first asked for. The same graph serves decoding, pruning, defaulting,
validation, strategic merge and server-side apply, so that a list is a map for all of them or for none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
REF_PREFIX: Final = "#/components/schemas/"


@dataclass(slots=True, eq=False)
class Schema:
    """One node. Absent facts have Kubernetes' defaults: lists are atomic, maps granular."""

    name: str = ""  # the named type it comes from (io.k8s.api.core.v1.Container), "" where inline
    type: str = ""  # object, array, string, integer, number, boolean; "" is anything
    format: str = ""  # int32, date-time, byte, quantity, …
    properties: "dict[str, Schema]" = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: "Schema | None" = None  # the values of a map
    items: "Schema | None" = None
    objects: "Schema | None" = None  # of a place that may hold other things too: what its objects are
    list_type: str = "atomic"  # atomic, set, map
    list_keys: tuple[str, ...] = ()  # x-kubernetes-list-map-keys
    map_type: str = "granular"  # granular, atomic
    patch_strategy: str = ""  # merge, replace, retainKeys, "merge,retainKeys"
    patch_key: str = ""  # x-kubernetes-patch-merge-key
    default: Any = MISSING
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False  # x-kubernetes-embedded-resource
    # How Go writes the field's zero value: "" keeps what was sent, "drop" leaves 0, "", false, [] and {} out
    # (omitempty), "always" writes it even when absent (a struct or a scalar without omitempty).
    zero: str = ""
    go_type: str = ""  # how Go calls the type, where its name does not say (v1.PullPolicy)
    embedded_in: str = ""  # the struct Go embeds that holds the field: part of its path in type errors
    source: Mapping[str, Any] = field(default_factory=dict)  # the OpenAPI it was compiled from, for the other keywords
    # Functions made from this node on first use (decoding, pruning, …), kept by the name of what they do.
    compiled: dict[str, Any] = field(default_factory=dict, init=False, repr=False)


class SchemaSet:
    """Named schemas, compiled on first use. `source` gives the OpenAPI v3 dictionary of a name (KeyError if none)."""

    def __init__(self, source: Callable[[str], Mapping[str, Any]]) -> None:
        self._source = source
        self._compiled: dict[str, Schema] = {}

    def named(self, name: str) -> Schema:
        known = self._compiled.get(name)
        if known is not None:
            return known
        node = Schema(name=name)
        self._compiled[name] = node  # before filling: types may contain themselves
        self._fill(node, self._source(name))
        return node

    def inline(self, openapi: Mapping[str, Any]) -> Schema:
        node = Schema()
        self._fill(node, openapi)
        return node

    def _child(self, openapi: Mapping[str, Any]) -> Schema:
        """A place: either inline, or a reference plus what is said about this place only."""
        reference = openapi.get("$ref")
        if reference is None and len(openapi.get("allOf", ())) == 1:
            reference = openapi["allOf"][0].get("$ref")
        if reference is None:
            return self.inline(openapi)
        target = self.named(reference.removeprefix(REF_PREFIX))
        if not (set(openapi) - {"$ref", "allOf", "description"}):
            return target
        return _overlay(target, openapi)

    def _fill(self, node: Schema, openapi: Mapping[str, Any]) -> None:
        node.source = openapi
        node.type = openapi.get("type", "")
        node.format = openapi.get("format", "")
        node.required = tuple(openapi.get("required", ()))
        if isinstance(openapi.get("items"), Mapping):
            node.items = self._child(openapi["items"])
        extra = openapi.get("additionalProperties")
        if isinstance(extra, Mapping):
            node.additional = self._child(extra)
        elif extra is True:
            node.additional = Schema(preserve_unknown=True)
        if "x-gpuaas-objects" in openapi:
            node.objects = self._child(openapi["x-gpuaas-objects"])
        node.int_or_string = bool(openapi.get("x-kubernetes-int-or-string")) or node.format == "int-or-string"
        node.preserve_unknown = bool(openapi.get("x-kubernetes-preserve-unknown-fields"))
        node.embedded = bool(openapi.get("x-kubernetes-embedded-resource"))
        node.nullable = bool(openapi.get("nullable"))
        _place(node, openapi)
        # Last, because a type may be reached again from inside itself.
        for key, value in openapi.get("properties", {}).items():
            node.properties[key] = self._child(value)


class SharedSchemas(SchemaSet):
    """For OpenAPI that lives as long as we do: a dictionary that many schemas contain becomes one node in all of them.

    The kinds we ship hold the same pod template dozens of times; what is compiled from it is by far their greatest part.
    """

    def __init__(self, base: SchemaSet) -> None:
        super().__init__(base._source)
        self._compiled = base._compiled
        self._parts: dict[int, tuple[Mapping[str, Any], Schema]] = {}  # the dictionary too: its id must stay its own

    def _child(self, openapi: Mapping[str, Any]) -> Schema:
        known = self._parts.get(id(openapi))
        if known is None:
            known = self._parts[id(openapi)] = openapi, super()._child(openapi)
        return known[1]


def _overlay(target: Schema, openapi: Mapping[str, Any]) -> Schema:
    """A reference with its own default, list type or merge key: a copy that shares the type's children.

    The properties are the same dict, not a copy: the type may still be filling when one of its parts refers to it.
    """
    node = replace(target, nullable=target.nullable or bool(openapi.get("nullable")))
    _place(node, openapi)
    return node


def _place(node: Schema, openapi: Mapping[str, Any]) -> None:
    """Facts that may be said of a type or of one place where it is used."""
    if "default" in openapi:
        node.default = openapi["default"]
    node.list_type = openapi.get("x-kubernetes-list-type", node.list_type)
    node.list_keys = tuple(openapi.get("x-kubernetes-list-map-keys", node.list_keys))
    node.map_type = openapi.get("x-kubernetes-map-type", node.map_type)
    node.patch_strategy = openapi.get("x-kubernetes-patch-strategy", node.patch_strategy)
    node.patch_key = openapi.get("x-kubernetes-patch-merge-key", node.patch_key)
    node.zero = openapi.get("x-gpuaas-zero", node.zero)
    node.go_type = openapi.get("x-gpuaas-go-type", node.go_type)
    node.embedded_in = openapi.get("x-gpuaas-embedded-in", node.embedded_in)
