"""Whether a schema is structural: every field has a type outside of `anyOf`, `oneOf`, `allOf` and `not`.

Only then can unknown fields be pruned and defaults be filled in without looking at values. `check_structure` finds
what breaks the rule, with kube-apiserver's words and field paths; the rest of what a definition must fulfil is in
module definition.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, required
from gpuaas.machinery.schema.gopattern import BadPattern, go_regex

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]

_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}

# What may not be said under a junctor, and how the refusal ends.
_OUTSIDE_ONLY: Final = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def check_structure(openapi: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [*_invariants(openapi, "root", path), *_completeness(openapi, openapi, path, path)]
    return sorted(errors, key=str)


def _invariants(source: Mapping[str, Any], level: str, path: str) -> Iterator[FieldError]:
    kind = source.get("type", "")
    items = source.get("items")
    if kind == "array" and not isinstance(items, Mapping | list):  # Go reads anything else as nothing
        yield required(child(path, "items"), "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, "item", child(path, "items"))
    for key, place in source.get("properties", {}).items():
        yield from _invariants(place, "field", keyed(child(path, "properties"), key))
    extra = source.get("additionalProperties")
    if extra is not None and level == "root":
        yield forbidden(child(path, "additionalProperties"), "must not be used at the root")
    if isinstance(extra, Mapping):
        yield from _invariants(extra, "field", child(path, "additionalProperties"))
    if source.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if source.get(name):
                yield invalid(child(path, name), True, "must be false if x-kubernetes-int-or-string is true")
    yield from _junctors(source, path, level, int_or_string=True)
    yield from _type(source, level, path)
    yield from _meta(source, level, path)


def _type(source: Mapping[str, Any], level: str, path: str) -> Iterator[FieldError]:
    kind = source.get("type", "")
    where = child(path, "type")
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    free = source.get("x-kubernetes-int-or-string") or source.get("x-kubernetes-preserve-unknown-fields")
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(where, kind, detail) if kind else required(where, detail)
    elif not kind and not free:
        yield required(where, _NO_TYPE[level])
    if embedded and source.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(child(path, "additionalProperties"), detail)
    if level == "root" and kind and kind != "object":
        yield invalid(where, kind, "must be object at the root")


def _meta(source: Mapping[str, Any], level: str, path: str) -> Iterator[FieldError]:
    """apiVersion, kind and metadata mean the same everywhere: a schema may hardly say anything about them."""
    properties = source.get("properties", {})
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    checked = level == "root" or embedded
    places = child(path, "properties")
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type", "") != "string":
            yield invalid(child(keyed(places, name), "type"), properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is not None:
        where = keyed(places, "metadata")
        if checked and metadata.get("type", "") != "object":
            yield invalid(child(where, "type"), metadata.get("type", ""), "must be object")
        named = set(metadata.get("properties", {}))
        more = set(metadata) - {"type", "properties", "default"}
        if level == "root" and (more or not named <= {"name", "generateName"}):
            yield forbidden(
                where,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )
    if embedded and not source.get("x-kubernetes-preserve-unknown-fields") and not properties:
        yield required(
            child(path, "properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )


def _junctors(source: Mapping[str, Any], path: str, level: str, *, int_or_string: bool) -> Iterator[FieldError]:
    """What stands under anyOf, allOf, oneOf and not. `int_or_string`: the usual pattern for it is allowed here."""
    if not (int_or_string and source.get("anyOf") == _INT_OR_STRING):
        for index, choice in enumerate(source.get("anyOf", ())):
            yield from _nested(choice, child(path, "anyOf", index), level)
    for index, choice in enumerate(source.get("allOf", ())):
        yield from _nested(choice, child(path, "allOf", index), level, int_or_string=int_or_string and index == 0)
    for index, choice in enumerate(source.get("oneOf", ())):
        yield from _nested(choice, child(path, "oneOf", index), level)
    if isinstance(source.get("not"), Mapping):
        yield from _nested(source["not"], child(path, "not"), level)
    if source.get("pattern"):
        try:
            go_regex(source["pattern"])
        except BadPattern as problem:
            detail = f"must be a valid regular expression, but isn't: {problem}"
            yield invalid(child(path, "pattern"), source["pattern"], detail)


def _nested(source: Mapping[str, Any], path: str, level: str, *, int_or_string: bool = False) -> Iterator[FieldError]:
    yield from _junctors(source, path, level, int_or_string=int_or_string)
    if isinstance(source.get("items"), Mapping):
        yield from _nested(source["items"], child(path, "items"), level)
    for key, place in source.get("properties", {}).items():
        yield from _nested(place, keyed(child(path, "properties"), key), "field")
    for name, must in _OUTSIDE_ONLY.items():
        if source.get(name):
            yield forbidden(child(path, name), f"must be {must} to be structural")
    if "metadata" in source.get("properties", {}):
        where = keyed(child(path, "properties"), "metadata")
        yield forbidden(where, "must not be specified in a nested context")


def _completeness(
    nested: Mapping[str, Any], source: Mapping[str, Any] | None, path: str, from_path: str
) -> Iterator[FieldError]:
    """What a junctor of the root talks about must be there outside of it as well."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, choice in enumerate(nested.get(name, ())):
            yield from _complete(choice, source, path, child(from_path, name, index))
    if isinstance(nested.get("not"), Mapping):
        yield from _complete(nested["not"], source, path, child(from_path, "not"))


def _complete(
    nested: Mapping[str, Any], source: Mapping[str, Any] | None, path: str, from_path: str
) -> Iterator[FieldError]:
    if source is None:
        yield required(path, f"because it is defined in {from_path}")
        return
    yield from _completeness(nested, source, path, from_path)
    if isinstance(nested.get("items"), Mapping):
        yield from _complete(nested["items"], source.get("items"), child(path, "items"), child(from_path, "items"))
    for key, place in nested.get("properties", {}).items():
        where, said = keyed(child(path, "properties"), key), keyed(child(from_path, "properties"), key)
        yield from _complete(place, source.get("properties", {}).get(key), where, said)
