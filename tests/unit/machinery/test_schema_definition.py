"""Schemas of definitions: what is accepted, and what is refused with which words and field paths."""

from typing import Any

import pytest

from gpuaas.machinery.schema.definition import check_structural
from gpuaas.machinery.schema.formats import unrecognized_formats
from gpuaas.machinery.schema.gopattern import BadPattern, go_regex
from gpuaas.machinery.schema.rules import unevaluated_rules

ROOT = "spec.validation.openAPIV3Schema"
A = f"{ROOT}.properties[spec].properties[a]"


def with_a(a: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": a}}}}


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a field without a type": (
        with_a({}),
        [f"{A}.type: Required value: must not be empty for specified object fields"],
    ),
    "a list without items": (with_a({"type": "array"}), [f"{A}.items: Required value: must be specified"]),
    "items without a type": (
        with_a({"type": "array", "items": {}}),
        [f"{A}.items.type: Required value: must not be empty for specified array items"],
    ),
    "a root without a type": ({}, [f"{ROOT}.type: Required value: must not be empty at the root"]),
    "a root that is no object": (
        {"type": "string"},
        [f'{ROOT}.type: Invalid value: "string": must be object at the root'],
    ),
    "a root that is a map": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        [f"{ROOT}.additionalProperties: Forbidden: must not be used at the root"],
    ),
    "a type nobody knows": (
        with_a({"type": "foo"}),
        [
            f'{A}.type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object",'
            ' "string"'
        ],
    ),
    "a reference": (with_a({"$ref": "#/x"}), [f"{A}.$ref: Forbidden: $ref is not supported"]),
    "unique items": (
        with_a({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
        [
            f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes"
            " quadratic"
        ],
    ),
    "a default of the wrong type": (
        with_a({"type": "integer", "default": "x"}),
        [f'{A}.default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    "a default with unknown fields": (
        with_a({"type": "object", "default": {"z": 1}, "properties": {"b": {"type": "string"}}}),
        [f'{A}.default: Invalid value: {{"z":1}}: must not have unknown fields'],
    ),
    "a map with named fields": (
        with_a({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"b": {"type": "string"}}}),
        [f"{A}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    "a list map whose key may be missing": (
        with_a(
            {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"],
            }
        ),
        [
            f"{A}.items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it"
            " must have a default or be a required property"
        ],
    ),
    "a list map without keys, of strings": (
        with_a({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
        [
            f"{A}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            f'{A}.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
        ],
    ),
    "a pattern that is none": (
        with_a({"type": "string", "pattern": "("}),
        [
            f'{A}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp:'
            " missing closing ): `(`"
        ],
    ),
    "a type inside of an alternative": (
        with_a({"type": "string", "anyOf": [{"type": "string"}]}),
        [f"{A}.anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    "metadata of its own": (
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        [
            f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but"
            " metadata is implicitly specified"
        ],
    ),
    "a default for metadata": (
        {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}},
        [f"{ROOT}.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
    "a root that may be null": (
        {"type": "object", "nullable": True},
        [f"{ROOT}.nullable: Forbidden: nullable cannot be true at the root"],
    ),
    "preserve-unknown-fields: false": (
        with_a({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
        [f"{A}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    "an embedded resource that keeps nothing": (
        with_a({"type": "object", "x-kubernetes-embedded-resource": True}),
        [
            f"{A}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        ],
    ),
    "an alternative about a field that is not there": (
        {"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
        [f"{ROOT}.properties[b]: Required value: because it is defined in {ROOT}.anyOf[0].properties[b]"],
    ),
    "a rule without text": (
        with_a({"type": "string", "x-kubernetes-validations": [{"rule": " "}]}),
        [f"{A}.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    ),
    "a reason nobody knows": (
        with_a({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "reason": "Nope"}]}),
        [
            f'{A}.x-kubernetes-validations[0].reason: Unsupported value: "Nope": supported values:'
            ' "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
        ],
    ),
    "a path that leads nowhere": (
        with_a(
            {
                "type": "object",
                "properties": {"b": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "self.b != ''", "fieldPath": ".c"}],
            }
        ),
        [f'{A}.x-kubernetes-validations[0].fieldPath: Invalid value: ".c": must be a valid path'],
    ),
    "old items that cannot be told": (
        with_a(
            {
                "type": "array",
                "maxItems": 9,
                "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            }
        ),
        [
            f'{A}.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on'
            f" the uncorrelatable portion of the schema within {A}"
        ],
    ),
    "an optional old value nobody uses": (
        with_a({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "optionalOldSelf": True}]}),
        [
            f"{A}.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not"
            " used in rule"
        ],
    ),
}


@pytest.mark.parametrize(("openapi", "expected"), REFUSED.values(), ids=REFUSED)
def test_refused(openapi: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in check_structural(openapi)] == expected


ACCEPTED: dict[str, dict[str, Any]] = {
    "int-or-string": with_a({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    "alternatives about known fields": with_a(
        {"type": "object", "properties": {"b": {"type": "string"}}, "oneOf": [{"required": ["b"]}, {"not": {}}]}
    ),
    "a default that is filled in": with_a(
        {"type": "object", "default": {}, "properties": {"b": {"type": "string", "default": "x"}}}
    ),
    "metadata with a name": {
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}},
    },
    "a rule on metadata": {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a') && self.kind != ''"}],
    },
}


@pytest.mark.parametrize("openapi", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(openapi: dict[str, Any]) -> None:
    assert check_structural(openapi) == []


def test_the_path_is_that_of_the_version() -> None:
    errors = check_structural({"type": "object", "properties": {"a": {}}}, "spec.versions[1].schema.openAPIV3Schema")
    assert [error.path for error in errors] == ["spec.versions[1].schema.openAPIV3Schema.properties[a].type"]


def test_with_status_only_some_keywords_may_stand_at_the_root() -> None:
    openapi = {"type": "object", "not": {"required": ["spec"]}, "properties": {"spec": {"type": "object"}}}
    assert check_structural(openapi) == []
    assert "fields are allowed at the root of the schema" in check_structural(openapi, status=True)[0].body


RULE = '{{"Rule":"{}","Message":"","MessageExpression":"{}","Reason":null,"FieldPath":"","OptionalOldSelf":null}}'


def test_a_rule_that_does_not_compile_is_shown_with_its_place() -> None:
    openapi = with_a({"type": "string", "x-kubernetes-validations": [{"rule": "self.foo == 1"}]})
    assert [str(error) for error in check_structural(openapi)] == [
        f"{A}.x-kubernetes-validations[0].rule: Invalid value: {RULE.format('self.foo == 1', '')}: compilation failed:"
        " ERROR: <input>:1:5: type 'string' does not support field selection\n | self.foo == 1\n | ....^"
    ]


def test_a_message_must_be_text() -> None:
    openapi = with_a({"type": "string", "x-kubernetes-validations": [{"rule": "true", "messageExpression": "1 + 1"}]})
    assert [str(error) for error in check_structural(openapi)] == [
        f"{A}.x-kubernetes-validations[0].messageExpression: Invalid value: {RULE.format('true', '1 + 1')}:"
        " messageExpression must evaluate to a string"
    ]


def test_a_rule_with_a_missing_function_is_accepted_and_reported() -> None:
    openapi = with_a(
        {"type": "string", "x-kubernetes-validations": [{"rule": "google.protobuf.StringValue{value: self} == self"}]}
    )
    assert check_structural(openapi) == []
    assert unevaluated_rules(openapi, ROOT) == [
        f"{A}.x-kubernetes-validations[0].rule: this rule is not evaluated: the function"
        " google.protobuf.StringValue is not available"
    ]


def test_formats_nobody_checks_are_told() -> None:
    assert unrecognized_formats(with_a({"type": "string", "format": "foo"})) == ['unrecognized format "foo"']
    assert unrecognized_formats(with_a({"type": "string", "format": "date-time"})) == []


PATTERNS = [
    ("^a$", "a\n", False),  # $ is the very end in Go
    (r"^\d+$", "٣", False),  # digits are ASCII
    ("[[:alpha:]]+", "b", True),
    (r"\pL", "é", True),
    (r"(?i)abc", "ABC", True),
    (r"a(?i)b", "aB", True),
    (r"a(?i)b", "AB", False),
    (r"^\Qa.b\E$", "axb", False),
    ("[[]", "[", True),
    ("(?<x>a)", "a", True),
    (r"a{,2}", "a{,2}", True),  # not a repetition in Go
]


@pytest.mark.parametrize(("pattern", "text", "matches"), PATTERNS)
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, matches: bool) -> None:
    assert (go_regex(pattern).search(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 5_000 + "!"),
        ("^(a|aa)+$", "a" * 5_000 + "!"),
        ("(x?){30}x{30}!", "x" * 30),
        ("^a*a*a*a*a*b", "a" * 3_000),
        ("a*b", "a" * 100_000),
        ("(?:a?)*?(?:a|b){2,}$", "ab" * 3_000 + "c"),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str, text: str) -> None:
    assert go_regex(pattern).search(text) is None


@pytest.mark.parametrize("length", [3, 3_000])
def test_long_and_short_texts_are_read_alike(length: int) -> None:
    assert go_regex(r"^\p{L}+(?P<end>\d)$").search("é" * length + "7").group("end") == "7"
    assert go_regex("^a+$").search("a" * length + "\n") is None
    assert [each.group() for each in go_regex("(?i)ab").finditer("aBAb" * length)] == ["aB", "Ab"] * length


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a++", "a{1001}", "[a", "a)", "*a", "\\"])
def test_patterns_go_does_not_know_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="error parsing regexp: "):
        go_regex(pattern)
