"""Validation rules on objects: messages, places, reasons, old values and ratcheting, as kube-apiserver has them."""

from typing import Any

import pytest

from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.rules import validate_custom, validate_rules

TEXT = {"type": "string"}
PROPERTIES: dict[str, Any] = {
    "n": {
        **TEXT,
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf.orValue(self) || self == 'any'", "optionalOldSelf": True, "message": "is fixed"}
        ],
    },
    "i": {
        "type": "integer",
        "x-kubernetes-validations": [
            {"rule": "self >= oldSelf", "message": "may not shrink"},
            {"rule": "self < 100"},
        ],
    },
    "o": {
        "type": "object",
        "properties": {"y": {"type": "integer"}, "z": TEXT},
        "x-kubernetes-validations": [
            {"rule": "!has(self.y) || self.y < 10", "fieldPath": ".y", "reason": "FieldValueRequired"}
        ],
    },
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": TEXT, "v": TEXT},
            "x-kubernetes-validations": [
                {"rule": "!has(self.v) || !has(oldSelf.v) || self.v >= oldSelf.v", "fieldPath": ".v"},
                {
                    "rule": "self.k != 'bad'",
                    "reason": "FieldValueForbidden",
                    "messageExpression": "'key ' + self.k + ' is bad'",
                },
            ],
        },
    },
    "list": {
        "type": "array",
        "items": TEXT,
        "x-kubernetes-validations": [{"rule": "self.all(x, x != 'bad')", "message": " no bad "}],
    },
    "map": {
        "type": "object",
        "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
    },
    "twice": {**TEXT, "x-kubernetes-validations": [{"rule": "self != 'x'", "reason": "FieldValueDuplicate"}]},
    "unknown": {**TEXT, "x-kubernetes-validations": [{"rule": "google.protobuf.StringValue{value: self} == ''"}]},
    "worded": {**TEXT, "x-kubernetes-validations": [{"rule": "self == ''", "messageExpression": "''", "message": "m"}]},
}
SCHEMA: Schema = SchemaSet({}.__getitem__).inline(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": PROPERTIES}}}
)


def told(after: dict[str, Any], before: dict[str, Any] | None = None) -> list[str]:
    old = None if before is None else {"spec": before}
    return [str(error) for error in validate_rules(SCHEMA, {"spec": after}, old)]


CREATED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a plain value is shown": ({"i": 200}, ["spec.i: Invalid value: 200: failed rule: self < 100"]),
    "an object is not": ({"list": ["bad"]}, ["spec.list: Invalid value: no bad"]),
    "a path and a reason": (
        {"o": {"y": 12}},
        ["spec.o.y: Required value: failed rule: !has(self.y) || self.y < 10"],
    ),
    "a computed message": ({"keyed": [{"k": "bad"}]}, ["spec.keyed[0]: Forbidden: key bad is bad"]),
    "an empty computed message": ({"worded": "x"}, ['spec.worded: Invalid value: "x": m']),
    "entries of maps": ({"map": {"a/b": 0}}, ["spec.map[a/b]: Invalid value: 0: failed rule: self > 0"]),
    "duplicates": ({"twice": "x"}, ['spec.twice: Duplicate value: "x"']),
    "transitions are not asked": ({"i": 1, "keyed": [{"k": "a", "v": "z"}]}, []),
    "an optional old value is asked": ({"n": "x"}, []),
    "a rule with a missing function is not asked": ({"unknown": "x"}, []),
    "null is not asked": ({"i": None}, []),
}


@pytest.mark.parametrize(("spec", "expected"), CREATED.values(), ids=CREATED)
def test_on_create(spec: dict[str, Any], expected: list[str]) -> None:
    assert told(spec) == expected


UPDATED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a transition": ({"i": 5}, {"i": 4}, ["spec.i: Invalid value: 4: may not shrink"]),
    "a transition that is fine": ({"i": 5}, {"i": 6}, []),
    "items are known by their keys": (
        {"keyed": [{"k": "a", "v": "m"}, {"k": "b", "v": "z"}]},
        {"keyed": [{"k": "b", "v": "z"}, {"k": "a", "v": "l"}]},
        [
            "spec.keyed[1].v: Invalid value: failed rule: !has(self.v) || !has(oldSelf.v) || self.v >= oldSelf.v",
        ],
    ),
    "a new item has no old value": ({"keyed": []}, {"keyed": [{"k": "a", "v": "b"}]}, []),
    "an optional old value": ({"n": "a"}, {"n": "b"}, ['spec.n: Invalid value: "b": is fixed']),
    "what was wrong and stays": ({"list": ["bad"], "i": 1}, {"list": ["bad"], "i": 2}, []),
    "what was wrong and changes": ({"list": ["bad"]}, {"list": ["bad", "a"]}, ["spec.list: Invalid value: no bad"]),
    "an unchanged item in a changed list": (
        {"keyed": [{"k": "bad"}]},
        {"keyed": [{"k": "bad"}, {"k": "a"}]},
        [],
    ),
    "an unchanged entry in a changed map": ({"map": {"a": 0}}, {"map": {"a": 0, "b": 1}}, []),
}


@pytest.mark.parametrize(("before", "after", "expected"), UPDATED.values(), ids=UPDATED)
def test_on_update(before: dict[str, Any], after: dict[str, Any], expected: list[str]) -> None:
    assert told(after, before) == expected


def test_types_first() -> None:
    errors = [str(error) for error in validate_custom(SCHEMA, {"spec": {"i": "x", "list": ["bad"]}})]
    assert errors == [
        'spec.i: Invalid value: "string": spec.i in body must be of type integer: "string"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the"
        " existing errors to complete validation",
    ]


def test_a_rule_at_the_root_sees_the_name_and_nothing_else_of_metadata() -> None:
    schema = SchemaSet({}.__getitem__).inline(
        {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.metadata.name == 'default'", "message": "one only"}],
        }
    )
    assert validate_rules(schema, {"metadata": {"name": "default"}}) == []
    assert [str(error) for error in validate_rules(schema, {"metadata": {"name": "x"}})] == [
        "<nil>: Invalid value: one only"
    ]


MOMENT = {"type": "string", "format": "date-time"}
MOMENTS: dict[str, Any] = {
    "at": MOMENT,
    "all": {"type": "array", "items": MOMENT},
    "by": {"type": "object", "additionalProperties": MOMENT},
    "parts": {"type": "array", "items": {"type": "object", "properties": {"at": MOMENT, "name": TEXT}}},
    "part": {"type": "object", "properties": {"at": MOMENT, "name": TEXT}},
}


@pytest.mark.parametrize(
    "rule",
    [
        "self.at < timestamp('2026-01-02T00:00:00Z')",
        "self.all.exists(x, x.getFullYear() == 2026)",
        "self.all[0] == self.at",
        "self.by['x'] == self.at",
        "self.parts.all(p, p.name == 'a' && p.at == self.at)",
        "self.parts[0] == self.parts[1]",
        "[self.parts[0]] == [self.parts[1]]",
        "self.parts[1] in [self.parts[0]]",
        "dyn(self).at == self.at",
        "dyn(self.part).at == timestamp('2026-01-01T00:00:00Z')",
        "self.?at.orValue(timestamp('2020-01-01T00:00:00Z')) == self.at",
        "self.parts.map(p, p.at)[1] == self.all[0]",
        "(self.part.name == 'a' ? self.parts[0] : self.parts[1]).at == self.at",
        "string(self.all[0]) == '2026-01-01T00:00:00Z'",
    ],
)
def test_moments_are_moments_however_a_rule_comes_by_them(rule: str) -> None:
    """Here one moment is written in two ways: as text they would differ."""
    zulu, offset = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"
    spec = {
        "at": zulu,
        "all": [offset],
        "by": {"x": offset},
        "parts": [{"at": offset, "name": "a"}, {"at": zulu, "name": "a"}],
        "part": {"at": offset, "name": "a"},
    }
    schema = SchemaSet({}.__getitem__).inline(
        {"type": "object", "properties": MOMENTS, "x-kubernetes-validations": [{"rule": rule}]}
    )
    assert [str(error) for error in validate_rules(schema, spec)] == []
