"""Statuses that differ only in what their conditions say are looked at once, and never let anything wrong pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.apiserver.conftest import MERGE, Answer, Api

from gpuaas.apiserver import validation_cache
from gpuaas.apiserver.custom import CustomVersion
from gpuaas.base.fielderrors import invalid

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LATCHES = "/apis/example.org/v1/namespaces/default/latches"
CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "message": {"type": "string", "maxLength": 2000},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}


@pytest.fixture
def latches(api: Api) -> Callable[[str, Any], Answer]:
    """Writes a status of a kind that has conditions, and whose conditions stay as they are once it is shut."""
    conditions = {
        "type": "array",
        "items": CONDITION,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    rule = {"rule": "!oldSelf.shut || self.conditions == oldSelf.conditions", "message": "it is shut"}
    status = {
        "type": "object",
        "properties": {"shut": {"type": "boolean", "default": False}, "conditions": conditions},
        "x-kubernetes-validations": [rule],
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": "latches", "singular": "latch", "kind": "Latch"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    made = api.send("POST", DEFINITIONS, {"metadata": {"name": "latches.example.org"}, "spec": spec})
    assert made.status in (201, 409)

    def write(name: str, status: Any) -> Answer:
        api.send("POST", LATCHES, {"metadata": {"name": name}})
        return api.send("PATCH", f"{LATCHES}/{name}/status", {"status": status}, MERGE)

    return write


def said(message: Any, since: Any = "2026-01-01T00:00:00Z") -> Any:
    return [{"type": "Ready", "status": "True", "message": message, "lastTransitionTime": since}]


def test_whether_a_status_is_right_is_found_out_once_whatever_its_conditions_say(
    latches: Callable[[str, Any], Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert latches("first", {"conditions": said("well")}).status == 200
    monkeypatch.setattr(CustomVersion, "_check", lambda *_: [invalid("status", "", "looked at again")])
    assert latches("second", {"conditions": said("very well", "2026-02-02T10:00:00Z")}).status == 200
    assert latches("third", {"conditions": [*said("well"), {"type": "Other"}]}).status == 422


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (said("x" * 2001), "may not be more than 2000"),
        (said(7), "must be of type string"),
        (said(0, 0), "must be of type string"),
        (said("well", "yesterday"), "must be of type date-time"),
        (said("well", "2026-02-30T10:00:00Z"), "must be of type date-time"),
    ],
    ids=["too long", "a number", "two noughts", "no time", "no day"],
)
def test_a_condition_that_says_something_wrong_is_refused_though_one_like_it_was_right(
    latches: Callable[[str, Any], Answer], wrong: Any, words: str
) -> None:
    assert latches("right", {"conditions": said("well")}).status == 200
    refused = latches("wrong", {"conditions": wrong})
    assert (refused.status, words in refused.message) == (422, True), refused.message


def test_a_rule_that_asks_for_the_same_conditions_is_asked_where_only_their_words_differ(
    latches: Callable[[str, Any], Answer],
) -> None:
    for name in ("same", "other"):
        assert latches(name, {"shut": True, "conditions": said("well")}).status == 200
    assert latches("same", {"shut": False, "conditions": said("well")}).status == 200
    refused = latches("other", {"shut": False, "conditions": said("unwell")})
    assert (refused.status, "it is shut" in refused.message) == (422, True)


def test_what_rules_speak_of_is_looked_at_each_time() -> None:
    asks = {"rule": "self.all(c, c.message != 'no')"}
    by_type = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    conditions = {"type": "array", "items": CONDITION, **by_type}

    def definition(**more: Any) -> Any:
        status = {"type": "object", "properties": {"conditions": {**conditions, **more}}}
        return {"type": "object", "properties": {"status": status}}

    assert validation_cache.asks_no_words(definition())
    assert not validation_cache.asks_no_words(definition(**{"x-kubernetes-validations": [asks]}))
    picky = {**CONDITION, "properties": {**CONDITION["properties"], "message": {"type": "string", "pattern": "^a"}}}
    assert not validation_cache.asks_no_words(definition(items=picky))
    assert not validation_cache.asks_no_words({"type": "object"})
    alone = {"x-kubernetes-list-type": "atomic", "x-kubernetes-list-map-keys": None}
    assert not validation_cache.asks_no_words(definition(**alone)), "rules may compare one with another"
    assert not validation_cache.asks_no_words(definition(**{"x-kubernetes-list-map-keys": ["message"]}))


def test_a_number_is_free_where_any_is_right_and_no_rule_speaks_of_it() -> None:
    def definition(number: Any, on_the_way: str = "true", above: str = "true") -> Any:
        item = {"type": "object", "properties": {"count": number}, "x-kubernetes-validations": [{"rule": on_the_way}]}
        counts = {"type": "array", "items": item}
        status = {"type": "object", "properties": {"counts": counts}, "x-kubernetes-validations": [{"rule": above}]}
        return {"type": "object", "properties": {"status": status}}

    plain, path = {"type": "integer", "format": "int32", "description": "how many"}, ("counts", "*", "count")
    assert validation_cache.free_numbers(definition(plain), ["counts.*.count"]) == (path,)
    assert validation_cache.free_numbers(
        definition({**plain, "minimum": 0}, above="self.count == 1"), ["counts.*.count"]
    ) == (path,)
    for refused in (
        definition({**plain, "minimum": 1}),
        definition({**plain, "maximum": 9}),
        definition({**plain, "format": "int64"}),
        definition(plain, on_the_way="self.count > 1"),
        definition(plain, above="size(self.counts) < 4"),
        {"type": "object"},
    ):
        assert validation_cache.free_numbers(refused, ["counts.*.count"]) == ()
