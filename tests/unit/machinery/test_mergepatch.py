"""Merge patches: maps merge, null removes, the rest replaces, and nothing is changed in place."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import BadRequest
from gpuaas.machinery.mergepatch import apply_merge_patch


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="a value is replaced"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="a field is added"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": "b"}, {"c": None}, {"a": "b"}, id="null for what is not there does nothing"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list is replaced by a string"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="a string is replaced by a list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="maps merge"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists do not merge"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a null that was there stays"),
        pytest.param({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nulls in what is added are dropped"),
        pytest.param({"a": 1}, {"a": {"c": None, "d": 1}}, {"a": {"d": 1}}, id="nulls in what replaces are dropped"),
        pytest.param({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}, id="nulls of lists stay, of maps in lists go"),
        pytest.param({"a": [1]}, {"a": [{"b": None}]}, {"a": [{}]}, id="a list over a list drops nulls inside"),
        pytest.param({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="a list over a map keeps them"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="true is not one"),
        pytest.param({"a": 1}, {}, {"a": 1}, id="an empty patch changes nothing"),
    ],
)
def test_what_a_patch_does(obj: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((obj, patch))
    result = apply_merge_patch(obj, patch)
    assert result == expected
    assert [type(value) for value in result.values()] == [type(value) for value in expected.values()]
    assert (obj, patch) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (3, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_not_a_map_is_refused(patch: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        apply_merge_patch({}, patch)
    assert refusal.value.message == message


def test_untouched_parts_are_shared_and_no_change_gives_the_object_itself() -> None:
    obj = {"a": {"x": 1}, "b": {"y": {"z": 2}}}
    patched = apply_merge_patch(obj, {"a": {"x": 2}})
    assert patched["b"] is obj["b"]
    assert apply_merge_patch(obj, {"b": {"y": {"z": 2}}, "gone": None}) is obj


VALUES = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "s", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def difference(old: Any, new: Any) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            patch[key] = difference(old[key], value)
        else:
            patch[key] = value
    return patch


@given(OBJECTS, OBJECTS)
def test_a_patch_and_its_inverse_cancel(old: dict[str, Any], new: dict[str, Any]) -> None:
    kept = copy.deepcopy(old)
    there = apply_merge_patch(old, difference(old, new))
    assert there == new
    assert apply_merge_patch(there, difference(new, old)) == old == kept


@given(OBJECTS, OBJECTS)
def test_a_patch_applied_twice_is_applied_once(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_merge_patch(obj, patch)
    assert apply_merge_patch(once, patch) == once
