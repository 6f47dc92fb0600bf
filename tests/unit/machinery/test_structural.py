"""Custom resources: what is pruned and defaulted, what is refused and in which words. The words are kube-apiserver's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import BadRequest
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.structural import apply_defaults, prune, read
from gpuaas.machinery.schema.validation import blocks_rules, validate

PLAIN = {"type": "string"}
PROPERTIES: dict[str, Any] = {
    "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
    "small": {"type": "integer", "format": "int32"},
    "ratio": {"type": "number", "minimum": 0.5},
    "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^a"},
    "color": {"type": "string", "enum": ["red", "blue"]},
    "level": {"type": "integer", "enum": [3, 1]},
    "when": {"type": "string", "format": "date-time"},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": PLAIN},
    "map": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 2,
        "additionalProperties": {"type": "integer"},
    },
    "fives": {"type": "integer", "multipleOf": 5},
    "port": {"x-kubernetes-int-or-string": True},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": PLAIN},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n", "p"],
        "items": {
            "type": "object",
            "required": ["n"],
            "properties": {"n": PLAIN, "p": {"type": "integer", "default": 1}, "v": {"type": "string", "maxLength": 1}},
        },
    },
    "one": {
        "type": "object",
        "properties": {"a": PLAIN, "b": PLAIN},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "any": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": PLAIN},
        "anyOf": [{"required": ["a"], "properties": {"a": {"minimum": 3}}}, {"required": ["b"]}],
    },
    "all": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 5}]},
    "not": {"type": "string", "not": {"enum": ["bad"]}},
    "needs": {"type": "object", "required": ["x", "y"], "properties": {"x": PLAIN, "y": PLAIN}},
    "nullable": {"type": "string", "nullable": True},
    "nullableDefault": {"type": "string", "nullable": True, "default": "d"},
    "defaulted": {"type": "string", "default": "d"},
    "plain": PLAIN,
    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "deep": {"type": "object", "default": {}, "properties": {"z": {"type": "integer", "default": 7}}},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "flag": {"type": "boolean"},
    "empty": {"type": "object"},
}
FILLED = {"deep": {"z": 7}, "defaulted": "d", "nullableDefault": "d"}
META = {
    "type": "object",
    "properties": {"name": PLAIN, "labels": {"type": "object", "additionalProperties": PLAIN}},
}


def schema_of(properties: dict[str, Any]) -> Schema:
    spec = {"type": "object", "properties": properties}
    return SchemaSet({}.__getitem__).inline({"type": "object", "properties": {"spec": spec}})


@pytest.fixture(scope="module")
def schema() -> Schema:
    return schema_of(PROPERTIES)


@pytest.fixture(scope="module")
def metadata() -> Schema:
    return SchemaSet({"v1.ObjectMeta": META}.__getitem__).named("v1.ObjectMeta")


def bar(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "ex.io/v1", "kind": "Bar", "metadata": {"name": "a"}, "spec": spec}


NIL = '<nil>: Invalid value: "": '
WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "text for a number": (
        {"replicas": "x"},
        ['spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"'],
    ),
    "too small": (
        {"replicas": 0, "ratio": 0.1},
        [
            "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1",
            "spec.ratio: Invalid value: 0.1: spec.ratio in body should be greater than or equal to 0.5",
        ],
    ),
    "too large": (
        {"replicas": 11},
        ["spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"],
    ),
    "no multiple": ({"fives": 7}, ["spec.fives: Invalid value: 7: spec.fives in body should be a multiple of 5"]),
    "beyond the format": (
        {"small": 1 << 40},
        [f"{NIL}Checked value must be of type integer with format int32 in spec.small"],
    ),
    "a boolean for a formatted number": (
        {"small": True},
        ['spec.small: Invalid value: "": spec.small in body must be of type int32: ""'],
    ),
    "a fraction": (
        {"replicas": 1.5},
        [
            'spec.replicas: Invalid value: "number": spec.replicas in body must be of type integer: "number"',
            f"{NIL}Checked value must be of type integer (default format) in spec.replicas",
        ],
    ),
    "too short": ({"name": "b"}, ['spec.name: Invalid value: "b": spec.name in body should be at least 2 chars long']),
    "too long": ({"name": "bbbbbbb"}, ["spec.name: Too long: may not be more than 5 bytes"]),
    "against the pattern": ({"name": "bb"}, ["spec.name: Invalid value: \"bb\": spec.name in body should match '^a'"]),
    "none of the choices, in the order of the schema": (
        {"color": "green", "level": 2},
        [
            'spec.color: Unsupported value: "green": supported values: "red", "blue"',
            'spec.level: Unsupported value: 2: supported values: "3", "1"',
        ],
    ),
    "no time": (
        {"when": "yesterday"},
        ['spec.when: Invalid value: "yesterday": spec.when in body must be of type date-time: "yesterday"'],
    ),
    "a number for a time": (
        {"when": 5},
        ['spec.when: Invalid value: "int64": spec.when in body must be of type date-time: "int64"'],
    ),
    "too few items": ({"list": []}, ["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"]),
    "too many items": ({"list": ["a", "b", "c"]}, ["spec.list: Too many: 3: must have at most 2 items"]),
    "a wrong item": (
        {"list": [1]},
        ['spec.list[0]: Invalid value: "integer": spec.list[0] in body must be of type string: "integer"'],
    ),
    "a null item": (
        {"list": [None]},
        ['spec.list[0]: Invalid value: "null": spec.list[0] in body must be of type string: "null"'],
    ),
    "too few entries": (
        {"map": {}},
        ["spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"],
    ),
    "too many entries": ({"map": {"a": 1, "b": 2, "c": 3}}, ["spec.map: Too many: 3: must have at most 2 items"]),
    "a wrong entry": (
        {"map": {"a": "x"}},
        ['spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string"'],
    ),
    "neither number nor text": (
        {"port": True},
        ['spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'],
    ),
    "a duplicate in a set, told once": ({"set": ["a", "b", "a", "a"]}, ['spec.set[2]: Duplicate value: "a"']),
    "a duplicate in a map, by its defaulted keys": (
        {"keyed": [{"n": "a"}, {"n": "a", "p": 1}]},
        ['spec.keyed[1]: Duplicate value: {"n":"a","p":1}'],
    ),
    "no alternative": (
        {"one": {}},
        [
            f'{NIL}"spec.one" must validate one and only one schema (oneOf). Found none valid',
            "spec.one.a: Required value",
        ],
    ),
    "two alternatives": (
        {"one": {"a": "1", "b": "2"}},
        [f'{NIL}"spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
    ),
    "the closest alternative is told": (
        {"any": {"a": 1}},
        [
            f'{NIL}"spec.any" must validate at least one schema (anyOf)',
            "spec.any.a: Invalid value: 1: spec.any.a in body should be greater than or equal to 3",
        ],
    ),
    "not all": (
        {"all": 1},
        [
            "spec.all: Invalid value: 1: spec.all in body should be greater than or equal to 2",
            f'{NIL}"spec.all" must validate all the schemas (allOf)',
        ],
    ),
    "what must not be": ({"not": "bad"}, [f'{NIL}"spec.not" must not validate the schema (not)']),
    "what is required": ({"needs": {}}, ["spec.needs.x: Required value", "spec.needs.y: Required value"]),
    "a null does not fulfil a requirement": ({"needs": {"x": None, "y": "1"}}, ["spec.needs.x: Required value"]),
    "an embedded object with labels and places of no form": (
        {"embedded": {"apiVersion": "v1", "kind": "A", "metadata": {"namespace": "A B", "labels": {"a b": "c"}}}},
        [
            'spec.embedded.metadata.namespace: Invalid value: "A B": a lowercase RFC 1123 label must consist of lower case'
            " alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or"
            " '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            'spec.embedded.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    ),
    "an embedded object without a type": (
        {"embedded": {}},
        ["spec.embedded.apiVersion: Required value", "spec.embedded.kind: Required value"],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(schema: Schema, spec: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in validate(schema, read(schema, bar(**spec)).obj)] == expected


FINE: dict[str, dict[str, Any]] = {
    "whole numbers in another spelling": {"replicas": 1.0, "ratio": 1, "level": 1.0},
    "times": {"when": "2026-01-01T00:00:00Z"},
    "small letters in times": {"when": "2026-01-01t00:00:00z"},
    "length counts characters": {"name": "aéééé"},
    "ports": {"port": "http"},
    "null where it may be": {"nullable": None},
    "different keys": {"keyed": [{"n": "a"}, {"n": "a", "p": 2}]},
    "one alternative": {"one": {"b": "x"}, "any": {"a": 3}},
    "an embedded object": {"embedded": {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}},
}


@pytest.mark.parametrize("spec", FINE.values(), ids=FINE)
def test_what_is_fine(schema: Schema, spec: dict[str, Any]) -> None:
    assert validate(schema, read(schema, bar(**spec)).obj) == []


def test_nulls_are_dropped_defaulted_or_kept(schema: Schema) -> None:
    sent = bar(nullable=None, nullableDefault=None, defaulted=None, plain=None, raw={"x": None})
    assert read(schema, sent).obj["spec"] == {
        "nullable": None,
        "nullableDefault": None,
        "defaulted": "d",
        "raw": {"x": None},
        "deep": {"z": 7},
    }


def test_unknown_fields_are_pruned_and_named_in_order(schema: Schema) -> None:
    sent = bar(foo=1, empty={"a": 1}, raw={"q": {"r": 1}}, deep={"k": 1}, keyed=[{"n": "a", "w": 1}])
    fresh, unknown = prune(schema, {**sent, "extra": 1})
    assert unknown == ["extra", "spec.deep.k", "spec.empty.a", "spec.foo", "spec.keyed[0].w"]
    assert fresh == bar(empty={}, raw={"q": {"r": 1}}, deep={}, keyed=[{"n": "a"}])


def test_defaults_reach_into_items_and_objects(schema: Schema) -> None:
    filled = apply_defaults(schema, bar(keyed=[{"n": "a"}, {"n": "b", "p": 5}], unknown=1))
    assert filled["spec"] == {**FILLED, "keyed": [{"n": "a", "p": 1}, {"n": "b", "p": 5}], "unknown": 1}


def test_metadata_is_read_as_in_built_in_kinds(schema: Schema, metadata: Schema) -> None:
    decoded = read(schema, {**bar(), "metadata": {"name": "a", "foo": 1, "labels": {"x": "y"}}}, metadata=metadata)
    assert decoded.unknown == ["metadata.foo"]
    assert decoded.obj["metadata"] == {"name": "a", "labels": {"x": "y"}}


METADATA: dict[str, tuple[dict[str, Any], str]] = {
    "of the object": (
        {**bar(), "metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    "no object at all": (
        {**bar(), "metadata": "x"},
        "json: cannot unmarshal string into Go value of type v1.ObjectMeta",
    ),
    "of an embedded one": (
        bar(embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5, "labels": {}}}),
        'spec.embedded.metadata: Invalid value: {"labels":{},"name":5}: json: cannot unmarshal number into Go struct'
        " field ObjectMeta.name of type string",
    ),
    "a kind that is no text": (
        bar(embedded={"apiVersion": "v1", "kind": 5}),
        "spec.embedded.kind: Invalid value: 5: must be a string",
    ),
}


@pytest.mark.parametrize(("obj", "why"), METADATA.values(), ids=METADATA)
def test_wrong_metadata_is_a_bad_request(schema: Schema, metadata: Schema, obj: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(schema, obj, metadata=metadata)
    assert refusal.value.message == f'Bar in version "v1" cannot be handled as a Bar: {why}'


RATCHETED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "what was wrong and stays is tolerated": ({"name": "bad"}, {"name": "bad", "replicas": 2}, []),
    "what was wrong and changes is not": ({"name": "bad"}, {"name": "bet"}, ["spec.name"]),
    "entries of a map are compared one by one": ({"map": {"a": "x"}}, {"map": {"a": "x", "b": 1}}, []),
    "items are known by their keys": (
        {"keyed": [{"n": "a", "v": "long"}, {"n": "b"}]},
        {"keyed": [{"n": "b"}, {"n": "a", "p": 1, "v": "long"}]},
        [],
    ),
    "a new item must be right": (
        {"keyed": [{"n": "a", "v": "long"}]},
        {"keyed": [{"n": "a", "v": "long"}, {"n": "c", "v": "long"}]},
        ["spec.keyed[1].v"],
    ),
    "a plain list is compared as a whole": ({"list": [1]}, {"list": [1, "a"]}, ["spec.list[0]"]),
    "missing fields of an unchanged object": ({"needs": {}}, {"needs": {}, "replicas": 3}, []),
    "missing fields of a changed object": ({"needs": {}}, {"needs": {"x": "a"}}, ["spec.needs.y"]),
    "duplicates that were there": ({"set": ["a", "a"]}, {"set": ["a", "a", "b"]}, []),
    "new duplicates": ({"set": ["a"]}, {"set": ["a", "a"]}, ["spec.set[1]"]),
}


@pytest.mark.parametrize(("before", "after", "paths"), RATCHETED.values(), ids=RATCHETED)
def test_ratcheting(schema: Schema, before: dict[str, Any], after: dict[str, Any], paths: list[str]) -> None:
    old, new = read(schema, bar(**before)).obj, read(schema, bar(**after)).obj
    assert [error.path for error in validate(schema, new, old)] == paths


def test_rules_are_not_asked_when_types_are_wrong(schema: Schema) -> None:
    assert blocks_rules(validate(schema, bar(replicas=0))) is None
    blocking = blocks_rules(validate(schema, bar(replicas="x")))
    assert blocking is not None
    assert "some validation rules were not checked" in blocking.body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "p", "v", "x", "z"]), inner),
    max_leaves=8,
)
SCHEMA = schema_of(PROPERTIES)
# Embedded resources are checked on every write, touched or not.
UNEMBEDDED = schema_of({name: place for name, place in PROPERTIES.items() if name != "embedded"})
SPECS = st.dictionaries(st.sampled_from([*PROPERTIES, "foo"]), JSON, max_size=6)


@given(SPECS)
def test_pruning_twice_is_pruning_once(spec: dict[str, Any]) -> None:
    once, _ = prune(SCHEMA, bar(**spec))
    assert prune(SCHEMA, once) == (once, [])


@given(SPECS)
def test_defaulting_twice_is_defaulting_once(spec: dict[str, Any]) -> None:
    once = apply_defaults(SCHEMA, bar(**spec))
    assert apply_defaults(SCHEMA, once) == once


@given(SPECS)
def test_reading_is_pruning_and_defaulting(spec: dict[str, Any]) -> None:
    assert read(SCHEMA, bar(**spec)).obj == apply_defaults(SCHEMA, prune(SCHEMA, bar(**spec))[0])


@given(SPECS)
def test_an_unchanged_object_is_always_accepted(spec: dict[str, Any]) -> None:
    obj = read(UNEMBEDDED, bar(**spec)).obj
    assert validate(UNEMBEDDED, obj, obj) == []


def test_a_number_that_is_whole_is_an_integer_wherever_it_stands() -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    number = {"type": "number", "default": 2.0}
    schema = schema_of({"a": number, "b": number, "c": {"type": "array", "items": {"type": "number"}}, "d": anything})
    found = read(schema, bar(b=1.0, c=[3.0, 0.5], d={"e": [4.0], "f": 1e30})).obj["spec"]
    assert repr(found) == "{'b': 1, 'c': [3, 0.5], 'd': {'e': [4], 'f': 1e+30}, 'a': 2}"
