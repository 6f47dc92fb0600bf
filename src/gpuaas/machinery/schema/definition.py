"""What a CustomResourceDefinition's schema must fulfil to be accepted.

`check_structural` answers for one version's `openAPIV3Schema`, in kube-apiserver's words and field paths: the schema
is structural (module structurality), its defaults are valid values, it uses no keyword the API server leaves out, its
list types make sense, and its rules compile (module rulechecks).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, not_supported, required
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.rulechecks import check_rule_texts, check_rules
from gpuaas.machinery.schema.structural import META_FIELDS, in_order, prune
from gpuaas.machinery.schema.structurality import check_structure
from gpuaas.machinery.schema.validation import check_value

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_AT_STATUS_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def check_structural(
    openapi: Mapping[str, Any], path: str = "spec.validation.openAPIV3Schema", *, status: bool = False
) -> list[FieldError]:
    """What is wrong with a version's schema. `path` is where it stands: the original says spec.validation when all
    versions have the same schema, and spec.versions[i].schema when not. `status`: the version has that subresource."""
    errors = list(_root(openapi, path, status=status))
    structured = not _has_unsupported(openapi)
    if structured:
        found = check_structure(openapi, path)
        if not found:
            schema = SchemaSet(_no_names).inline(openapi)
            found = list(_defaults(schema, path))
        structured = not found
        errors.extend(found)
    errors.extend(_keywords(openapi, path, _Place(root=True)))
    if structured and not errors:
        errors.extend(check_rules(openapi, path))
    return errors


def _no_names(name: str) -> Mapping[str, Any]:
    raise KeyError(name)


def _root(openapi: Mapping[str, Any], path: str, *, status: bool) -> Iterator[FieldError]:
    if status and openapi.get("type", "object") != "object":
        yield invalid(
            child(path, "type"),
            openapi["type"],
            'only "object" is allowed as the type at the root of the schema if the status subresource is enabled',
        )
    elif status and any(openapi[key] and key not in _AT_STATUS_ROOT for key in openapi):
        allowed = " ".join(_AT_STATUS_ROOT.values())
        detail = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, in_order(dict(openapi)), detail)
    if openapi.get("nullable"):
        yield forbidden(child(path, "nullable"), "nullable cannot be true at the root")


def _parts(openapi: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas inside a schema, with the step that leads to each."""
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        for key, part in openapi.get(name, {}).items():
            if isinstance(part, Mapping):
                yield keyed(name, key), part
    for name in ("items", "additionalProperties", "not"):
        if isinstance(openapi.get(name), Mapping):
            yield name, openapi[name]
    for name in ("allOf", "oneOf", "anyOf"):
        for index, part in enumerate(openapi.get(name, ())):
            if isinstance(part, Mapping):
                yield child(name, index), part


def _has_unsupported(openapi: Mapping[str, Any]) -> bool:
    """Keywords that keep the schema from being understood at all; they are refused by name below."""
    if any(openapi.get(name) for name in (*_UNSUPPORTED, "$schema")) or isinstance(openapi.get("items"), list):
        return True
    if openapi.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    return any(_has_unsupported(part) for _, part in _parts(openapi))


def _defaults(schema: Schema, path: str) -> Iterator[FieldError]:
    default = schema.source.get("default")
    where = child(path, "default")
    if default is not None:
        kept = prune(
            SchemaSet(_no_names).inline({"type": "object", "properties": {"x": schema.source}}), {"x": default}
        )
        if kept[0]["x"] != default:
            yield invalid(where, in_order(default), "must not have unknown fields")
        else:
            yield from check_value(schema.source, default, where)
    if schema.items is not None:
        yield from _defaults(schema.items, child(path, "items"))
    for key, place in schema.properties.items():
        yield from _defaults(place, keyed(child(path, "properties"), key))


@dataclass(frozen=True, slots=True)
class _Place:
    root: bool = False
    inside_meta: bool = False
    no_defaults: str = ""  # why a default is forbidden here


def _keywords(openapi: Mapping[str, Any], path: str, place: _Place) -> Iterator[FieldError]:
    yield from _plain_keywords(openapi, path, place)
    if openapi.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(child(path, "uniqueItems"), detail)
    extra = openapi.get("additionalProperties")
    if extra is not None and extra is not True and openapi.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(child(path, "additionalProperties"), detail)
    for step, part in _parts(openapi):
        yield from _keywords(part, child(path, step), _inside(openapi, step, place))
    if openapi.get("x-kubernetes-preserve-unknown-fields") is False:
        where = child(path, "x-kubernetes-preserve-unknown-fields")
        yield invalid(where, False, "must be true or undefined")
    yield from _map_type(openapi, path)
    yield from _list_type(openapi, path)
    yield from check_rule_texts(openapi, path)


def _inside(openapi: Mapping[str, Any], step: str, place: _Place) -> _Place:
    below = replace(place, root=False)
    if step == "additionalProperties" and place.inside_meta:
        return replace(below, no_defaults="inside additionalProperties applying to object metadata")
    name = step.removeprefix("properties[").removesuffix("]")
    at_resource = place.root or openapi.get("x-kubernetes-embedded-resource")
    if step.startswith("properties[") and at_resource and name in META_FIELDS:
        below = replace(below, inside_meta=True)
        if place.root:
            below = replace(below, no_defaults=f"in top-level {name}")
    return below


def _plain_keywords(openapi: Mapping[str, Any], path: str, place: _Place) -> Iterator[FieldError]:
    kind = openapi.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(child(path, "type"), kind, _TYPES)
    if openapi.get("default") is not None and place.no_defaults:
        yield forbidden(child(path, "default"), f"must not be set {place.no_defaults}")
    for name in _UNSUPPORTED:
        if openapi.get(name):
            yield forbidden(child(path, name), f"{name} is not supported")
    if kind == "null":
        yield forbidden(child(path, "type"), "type cannot be set to null, use nullable as an alternative")
    if isinstance(openapi.get("items"), list) and openapi["items"]:
        yield forbidden(child(path, "items"), "items must be a schema object and not an array")
    if place.inside_meta and openapi.get("x-kubernetes-embedded-resource"):
        yield forbidden(child(path, "x-kubernetes-embedded-resource"), "must not be used inside of resource meta")


def _map_type(openapi: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    said = openapi.get("x-kubernetes-map-type")
    if said is None:
        return
    yield from _wants_type(openapi, path, "object", "must be object if x-kubernetes-map-type is specified")
    if said not in ("atomic", "granular"):
        yield not_supported(child(path, "x-kubernetes-map-type"), said, ("atomic", "granular"))


def _wants_type(openapi: Mapping[str, Any], path: str, wanted: str, detail: str) -> Iterator[FieldError]:
    kind = openapi.get("type", "")
    if kind != wanted:
        where = child(path, "type")
        yield invalid(where, kind, detail) if kind else required(where, detail)


def _list_type(openapi: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    said = openapi.get("x-kubernetes-list-type")
    keys = openapi.get("x-kubernetes-list-map-keys") or []
    where = child(path, "x-kubernetes-list-type")
    items = openapi.get("items")
    if said is not None:
        detail = "must be array if x-kubernetes-list-type is specified"
        yield from _wants_type(openapi, path, "array", detail)
        if said == "set" and openapi.get("type") == "array" and isinstance(items, Mapping):
            yield from _set_items(items, child(path, "items"))
        if said not in ("atomic", "set", "map"):
            body = f'Unsupported value: "{said}": supported values: "atomic", "set", "map"'
            yield FieldError("FieldValueNotSupported", where, body)
    if keys and said != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(where, detail) if said is None else invalid(where, said, detail)
    if said == "map":
        yield from _map_items(items, keys, path)
    if said in ("set", "map") and isinstance(items, Mapping):
        if items.get("nullable"):
            detail = f"cannot be nullable when x-kubernetes-list-type is {said}"
            yield forbidden(child(path, "items", "nullable"), detail)
        yield from _map_keys(items, keys if said == "map" else [], child(path, "items", "properties"))


def _set_items(items: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    said = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and said not in (None, "atomic"):
        yield invalid(child(path, "x-kubernetes-list-type"), said, detail)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(child(path, "x-kubernetes-map-type"), said, detail)


def _map_items(items: Any, keys: list[str], path: str) -> Iterator[FieldError]:
    where = child(path, "x-kubernetes-list-map-keys")
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(child(path, "items"), "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, Mapping):
        yield invalid(child(path, "items"), items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(child(path, "items", "type"), items.get("type", ""), detail)
    else:
        again = {index for index, _ in duplicates(keys)}
        for index, key in enumerate(keys):
            place = items.get("properties", {}).get(key)
            if place is None:
                yield invalid(where, keys, "entries must all be names of item properties")
            elif place.get("type") in ("array", "object"):
                at = child(keyed(child(path, "items", "properties"), key), "type")
                detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid(at, items["type"], detail)
            if index in again:
                yield invalid(where, keys, "must not contain duplicate entries")


def _map_keys(items: Mapping[str, Any], keys: list[str], path: str) -> Iterator[FieldError]:
    """The keys of a map's items must always have a value."""
    for key in keys:
        place = items.get("properties", {}).get(key)
        if place is None:
            continue
        reason = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in items.get("required", ()) and place.get("default") is None:
            yield required(
                child(keyed(path, key), "default"), f"{reason} must have a default or be a required property"
            )
        if place.get("nullable"):
            yield forbidden(child(keyed(path, key), "nullable"), f"{reason} cannot be nullable")
