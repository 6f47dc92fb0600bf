"""Strategic merge patches on a small pod: merge keys, directives, orders, and every refusal."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import ApiError, BadRequest
from gpuaas.machinery.jsonpatch import PatchRefused
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.strategic import PatchFailed, _sorted_by, apply_strategic_patch

REF = "#/components/schemas/"


def by_key(ref: str, key: str, strategy: str = "merge") -> dict[str, Any]:
    items = {"type": "array", "items": {"$ref": REF + ref}}
    return {**items, "x-kubernetes-patch-strategy": strategy, "x-kubernetes-patch-merge-key": key}


MAP = {"type": "object", "additionalProperties": {"type": "string"}}
SET = {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"}
TYPES = {
    "example.v1.Pod": {
        "type": "object",
        "properties": {"metadata": {"$ref": REF + "example.v1.Meta"}, "spec": {"$ref": REF + "example.v1.Spec"}},
    },
    "example.v1.Meta": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "labels": MAP, "finalizers": SET},
    },
    "example.v1.Spec": {
        "type": "object",
        "properties": {
            "containers": by_key("example.v1.Container", "name"),
            "volumes": by_key("example.v1.Volume", "name", "merge,retainKeys"),
            "strategy": {"$ref": REF + "example.v1.Strategy", "x-kubernetes-patch-strategy": "retainKeys"},
            "whole": {"$ref": REF + "example.v1.Strategy", "x-kubernetes-patch-strategy": "replace"},
            "args": {"type": "array", "items": {"type": "string"}},
            "unkeyed": {
                "type": "array",
                "items": {"$ref": REF + "example.v1.Volume"},
                "x-kubernetes-patch-strategy": "merge",
            },
            "nested": {"type": "object", "additionalProperties": MAP},
        },
    },
    "example.v1.Container": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "image": {"type": "string"},
            "ports": by_key("example.v1.Port", "port"),
            "limits": MAP,
        },
    },
    "example.v1.Port": {"type": "object", "properties": {"port": {"type": "integer"}, "proto": {"type": "string"}}},
    "example.v1.Volume": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "empty": MAP, "host": MAP},
    },
    "example.v1.Strategy": {"type": "object", "properties": {"type": {"type": "string"}, "rolling": MAP}},
}
POD: Schema = SchemaSet(TYPES.__getitem__).named("example.v1.Pod")


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def names(*each: str) -> list[dict[str, str]]:
    return [{"name": name} for name in each]


A1, B1, C1 = ({"name": name, "image": "1"} for name in "abc")

CASES = [
    ("fields merge", spec(args=["x"]), {"metadata": {"name": "p"}}, {"spec": {"args": ["x"]}, "metadata": {"name": "p"}}),
    ("null removes", {"metadata": {"name": "p", "labels": {"a": "b"}}}, {"metadata": {"labels": None}}, {"metadata": {"name": "p"}}),
    ("null in a map removes", {"metadata": {"labels": {"a": "1", "b": "2"}}}, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"b": "2"}}}),
    ("nulls in what is new are dropped", {}, {"metadata": {"labels": {"a": None, "b": "1"}}}, {"metadata": {"labels": {"b": "1"}}}),
    ("a list without a strategy is replaced", spec(args=["x", "y"]), spec(args=["z"]), spec(args=["z"])),
    ("an item merges by its key", spec(containers=[A1, B1]), spec(containers=[{"name": "b", "image": "2"}]), spec(containers=[A1, {"name": "b", "image": "2"}])),
    ("a new item comes first", spec(containers=[A1]), spec(containers=[B1]), spec(containers=[B1, A1])),
    ("items of the patch keep its order", spec(containers=[A1, B1, C1]), spec(containers=[C1, A1]), spec(containers=[B1, C1, A1])),
    ("keys may be numbers, lists may be nested", spec(containers=[{"name": "a", "ports": [{"port": 80, "proto": "x"}]}]), spec(containers=[{"name": "a", "ports": [{"port": 80, "proto": "y"}, {"port": 81}]}]), spec(containers=[{"name": "a", "ports": [{"port": 80, "proto": "y"}, {"port": 81}]}])),
    ("$patch: delete removes an item", spec(containers=[A1, B1]), spec(containers=[{"name": "a", "$patch": "delete"}]), spec(containers=[B1])),
    ("$patch: delete of what is not there does nothing", spec(containers=[A1]), spec(containers=[{"name": "z", "$patch": "delete"}]), spec(containers=[A1])),
    ("$patch: delete empties a map", {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"$patch": "delete"}}}, {"metadata": {"labels": {}}}),
    ("$patch: replace replaces a map", {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"$patch": "replace", "c": "d"}}}, {"metadata": {"labels": {"c": "d"}}}),
    ("$patch: replace replaces a list", spec(containers=[A1, B1]), spec(containers=[C1, {"$patch": "replace"}]), spec(containers=[C1])),
    ("the replace strategy replaces a map", spec(whole={"type": "a", "rolling": {"x": "y"}}), spec(whole={"type": "b"}), spec(whole={"type": "b"})),
    ("directives in what is new do nothing", {}, spec(containers=[A1, {"name": "b", "$patch": "delete"}]), spec(containers=[A1])),
    ("a set of scalars grows", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["c", "a"]}}, {"metadata": {"finalizers": ["c", "a", "b"]}}),
    ("$deleteFromPrimitiveList shrinks it", {"metadata": {"finalizers": ["a", "b", "c"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "z"]}}, {"metadata": {"finalizers": ["a", "c"]}}),
    ("$deleteFromPrimitiveList of a missing list does nothing", {"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}, {"metadata": {}}),
    ("$setElementOrder orders scalars", {"metadata": {"finalizers": ["a", "b", "c"]}}, {"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"]}}, {"metadata": {"finalizers": ["c", "b", "a"]}}),
    ("$setElementOrder orders items and leaves others near their neighbours", spec(containers=[A1, B1, C1]), spec(**{"$setElementOrder/containers": names("c", "a")}), spec(containers=[B1, C1, A1])),
    ("$setElementOrder places new items", spec(containers=[A1, C1]), spec(containers=[B1], **{"$setElementOrder/containers": names("a", "b", "c")}), spec(containers=[A1, B1, C1])),
    ("$setElementOrder does not count deletions", spec(containers=[A1, B1]), spec(containers=[{"name": "a", "$patch": "delete"}], **{"$setElementOrder/containers": names("b")}), spec(containers=[B1])),
    ("$setElementOrder of a list nobody has does nothing", spec(args=["x"]), spec(**{"$setElementOrder/containers": names("b")}), spec(args=["x"])),
    ("$retainKeys clears the others", spec(strategy={"type": "r", "rolling": {"x": "y"}}), spec(strategy={"$retainKeys": ["type"], "type": "n"}), spec(strategy={"type": "n"})),
    ("$retainKeys works on items", spec(volumes=[{"name": "v", "empty": {}}]), spec(volumes=[{"name": "v", "$retainKeys": ["name", "host"], "host": {"p": "/"}}]), spec(volumes=[{"name": "v", "host": {"p": "/"}}])),
    ("a value of another type replaces", spec(args=["x"]), spec(args={"a": "b"}), spec(args={"a": "b"})),
    ("null is an empty patch", spec(args=["x"]), None, spec(args=["x"])),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "patch", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_what_a_patch_does(obj: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((obj, patch))
    assert apply_strategic_patch(obj, patch, POD) == expected
    assert (obj, patch) == before


REFUSALS = [
    ({}, [1], BadRequest, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ({}, {"$patch": "foo"}, PatchFailed, "unknown patch type: foo in map: map[$patch:foo]"),
    (spec(strategy={"a": "b"}), spec(strategy={"$retainKeys": 3}), BadRequest, "invalid patch format of retainKeys"),
    (spec(strategy={"a": "b"}), spec(strategy={"$retainKeys": ["a"], "type": "x"}), BadRequest, "invalid patch format of retainKeys"),
    ({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList": ["a"]}}, BadRequest, "invalid patch format of primitive list"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder": ["a"]}}, BadRequest, "invalid patch format of setElementOrder list"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder/finalizers": 3}}, PatchFailed, "expected a []interface {}, but received a int64"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder/foo": ["a"]}}, PatchFailed, 'unable to find api field in struct Meta for the json field "foo"'),
    (spec(containers=[A1]), spec(containers=[{"image": "x"}]), PatchFailed, "map: map[image:x] does not contain declared merge key: name"),
    (spec(containers=[A1]), spec(containers=[{"name": "a", "$patch": "merge"}]), PatchFailed, "merging lists cannot yet be specified in the patch"),
    (spec(containers=[A1]), spec(containers=[{"name": "a", "$patch": "foo"}]), PatchFailed, "unknown patch type: foo in map: map[$patch:foo name:a]"),
    (spec(containers=[A1]), spec(containers=["x"]), PatchFailed, "list element types are not identical: [[map[image:1 name:a]] [x]]"),
    (spec(containers=[A1]), spec(containers=[B1], **{"$setElementOrder/containers": names("a")}), PatchFailed, "The order in patch list:\n[map[image:1 name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"),
    (spec(unkeyed=[{"name": "a"}]), spec(unkeyed=[{"name": "b"}]), PatchFailed, "cannot merge lists without merge key for struct"),
    (spec(nested={"a": {"b": "c"}}), spec(nested={"a": {"d": "e"}}), PatchFailed, "merging an object in json but data type is not struct, instead is: map"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "patch", "kind", "message"), REFUSALS)
def test_what_is_refused(obj: Any, patch: Any, kind: type[ApiError], message: str) -> None:
    with pytest.raises(kind) as refusal:
        apply_strategic_patch(obj, patch, POD)
    assert refusal.value.message == message
    assert refusal.value.code == 400


def test_lists_of_lists_are_unprocessable() -> None:
    with pytest.raises(PatchRefused) as refusal:
        apply_strategic_patch({"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": ["b"]}}, POD)
    assert refusal.value.code == 422


CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcde")}, optional={"image": st.sampled_from("123")}),
    max_size=4,
    unique_by=lambda container: container["name"],
)


@given(CONTAINERS, CONTAINERS)
def test_a_patch_that_names_every_item_and_its_order_makes_the_list_so(old: list[Any], new: list[Any]) -> None:
    wanted = {item["name"] for item in new}
    gone = [{"name": item["name"], "$patch": "delete"} for item in old if item["name"] not in wanted]
    items = [{**item, "image": item.get("image")} for item in new] + gone
    order = {"$setElementOrder/containers": [{"name": item["name"]} for item in new]}
    result = apply_strategic_patch(spec(containers=old), spec(containers=items, **order), POD) if items or old else None
    if result is not None:
        found = [{key: value for key, value in item.items() if value} for item in result["spec"]["containers"]]
        assert found == new


@given(CONTAINERS, CONTAINERS)
def test_a_patch_applied_twice_is_applied_once(old: list[Any], new: list[Any]) -> None:
    once = apply_strategic_patch(spec(containers=old), spec(containers=new), POD)
    assert apply_strategic_patch(once, spec(containers=new), POD) == once


@given(st.lists(st.integers(-1, 5), max_size=12))
def test_items_are_ordered_as_insertion_sort_orders_them(places: list[int]) -> None:
    expected: list[tuple[int, int]] = []
    for index, place in enumerate(places):
        at = len(expected)
        while at and (place < 0 or expected[at - 1][0] < 0 or place < expected[at - 1][0]):
            at -= 1
        expected.insert(at, (place, index))
    assert _sorted_by(list(range(len(places))), places) == [index for _, index in expected]
