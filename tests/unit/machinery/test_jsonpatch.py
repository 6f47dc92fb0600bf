"""JSON patches: what each operation does, what is refused and how, and that nothing is changed in place."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import BadRequest, TooLarge
from gpuaas.machinery.jsonpatch import PatchRefused, apply_json_patch

OBJECT = {"a": 1, "m": {"x/y": "s", "t~": None}, "l": [1, {"q": 2}, 3]}


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        pytest.param([], OBJECT, id="no operation leaves the object as it is"),
        pytest.param(None, OBJECT, id="null is a patch without operations"),
        pytest.param([{"op": "add", "path": "/b", "value": 2}], {**OBJECT, "b": 2}, id="add sets a new field"),
        pytest.param([{"op": "add", "path": "/a", "value": 2}], {**OBJECT, "a": 2}, id="add overwrites a field"),
        pytest.param([{"op": "add", "path": "/b"}], {**OBJECT, "b": None}, id="add without a value adds null"),
        pytest.param(
            [{"op": "add", "path": "/l/1", "value": 9}],
            {**OBJECT, "l": [1, 9, {"q": 2}, 3]},
            id="add inserts before an index",
        ),
        pytest.param(
            [{"op": "add", "path": "/l/-", "value": 9}], {**OBJECT, "l": [1, {"q": 2}, 3, 9]}, id="add appends at -"
        ),
        pytest.param(
            [{"op": "add", "path": "/l/-1", "value": 9}],
            {**OBJECT, "l": [1, {"q": 2}, 3, 9]},
            id="a negative index counts from the end",
        ),
        pytest.param([{"op": "remove", "path": "/l/-1"}], {**OBJECT, "l": [1, {"q": 2}]}, id="remove the last item"),
        pytest.param([{"op": "remove", "path": "/a"}], {"m": OBJECT["m"], "l": OBJECT["l"]}, id="remove a field"),
        pytest.param(
            [{"op": "replace", "path": "/new", "value": 1}],
            {**OBJECT, "new": 1},
            id="replace sets a field that is missing",
        ),
        pytest.param(
            [{"op": "replace", "path": "/l/1/q", "value": 5}],
            {**OBJECT, "l": [1, {"q": 5}, 3]},
            id="replace deep inside",
        ),
        pytest.param([{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}, id="replace the whole object"),
        pytest.param(
            [{"op": "move", "from": "/a", "path": "/m/b"}],
            {"m": {"x/y": "s", "t~": None, "b": 1}, "l": OBJECT["l"]},
            id="move",
        ),
        pytest.param(
            [{"op": "copy", "from": "/m", "path": "/n"}, {"op": "add", "path": "/n/k", "value": 1}],
            {**OBJECT, "n": {"x/y": "s", "t~": None, "k": 1}},
            id="a copy changes without its original",
        ),
        pytest.param(
            [{"op": "test", "path": "/m/x~1y", "value": "s"}, {"op": "replace", "path": "/m/t~0", "value": 4}],
            {**OBJECT, "m": {"x/y": "s", "t~": 4}},
            id="slashes and tildes in names are escaped",
        ),
        pytest.param([{"op": "test", "path": "/nope", "value": None}], OBJECT, id="a missing field tests as null"),
        pytest.param([{"op": "test", "path": "", "value": OBJECT}], OBJECT, id="test the whole object"),
    ],
)
def test_what_an_operation_does(ops: Any, expected: Any) -> None:
    before = copy.deepcopy(OBJECT)
    assert apply_json_patch(OBJECT, ops) == expected
    assert before == OBJECT


@pytest.mark.parametrize(
    "op",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": "/l/3"},
        {"op": "replace", "path": "/l/7", "value": 1},
        {"op": "replace", "path": "/nope/deep", "value": 1},
        {"op": "replace", "path": "", "value": 3},
        {"op": "replace", "path": ""},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "value": 1},
        {"op": "move", "from": "/nope", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "bogus", "path": "/a"},
        {"path": "/a"},
        None,
    ],
)
def test_an_operation_that_does_not_apply_is_refused_as_unprocessable(op: Any) -> None:
    with pytest.raises(PatchRefused) as refusal:
        apply_json_patch(OBJECT, [{"op": "add", "path": "/z", "value": 1}, op])
    assert refusal.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }
    assert "z" not in OBJECT


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ({"a": 1}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("x", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([[]], "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            [{"op": "add", "path": True}],
            "json: cannot unmarshal bool into Go struct field jsonPatchOp.path of type string",
        ),
        (
            [{"op": "move", "from": {}}],
            "json: cannot unmarshal object into Go struct field jsonPatchOp.from of type string",
        ),
    ],
)
def test_what_is_not_a_json_patch_is_a_bad_request(ops: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        apply_json_patch(OBJECT, ops)
    assert refusal.value.message == f"error decoding patch: {message}"


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    one = {"op": "test", "path": "/a", "value": 1}
    assert apply_json_patch(OBJECT, [one] * 10_000) == OBJECT
    with pytest.raises(TooLarge) as refusal:
        apply_json_patch(OBJECT, [one] * 10_001)
    assert refusal.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_what_a_patch_does_not_touch_is_shared_and_its_values_stay_its_own() -> None:
    value: dict[str, Any] = {"deep": []}
    ops = [{"op": "add", "path": "/n", "value": value}, {"op": "add", "path": "/n/deep/-", "value": 1}]
    patched = apply_json_patch(OBJECT, ops)
    assert patched["m"] is OBJECT["m"]
    assert patched["n"] == {"deep": [1]}
    assert value == {"deep": []}


KEYS = st.sampled_from(["a", "b/c", "d~e", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "s", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """The operations from one object to another, field by field."""
    ops: list[dict[str, Any]] = []
    for key in [*old, *(key for key in new if key not in old)]:
        step = path + "/" + key.replace("~", "~0").replace("/", "~1")
        if key not in new:
            ops.append({"op": "remove", "path": step})
        elif key not in old:
            ops.append({"op": "add", "path": step, "value": new[key]})
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            ops += difference(old[key], new[key], step)
        else:
            ops += [{"op": "test", "path": step, "value": old[key]}, {"op": "replace", "path": step, "value": new[key]}]
    return ops


@given(OBJECTS, OBJECTS)
def test_a_patch_and_its_inverse_cancel(old: dict[str, Any], new: dict[str, Any]) -> None:
    kept = copy.deepcopy(old)
    there = apply_json_patch(old, difference(old, new))
    assert there == new
    assert apply_json_patch(there, difference(new, old)) == old == kept


def test_what_was_copied_is_a_tree_of_its_own() -> None:
    obj = {"a": {"x": [1]}}
    patch = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/x/-", "value": 2},
        {"op": "add", "path": "/b/x/-", "value": 3},
    ]
    assert apply_json_patch(obj, patch) == {"a": {"x": [1, 2]}, "b": {"x": [1, 3]}}
    assert obj == {"a": {"x": [1]}}


def test_copies_into_themselves_have_a_depth() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/a/b"}] * 5_000
    with pytest.raises(PatchRefused) as refused:
        apply_json_patch({"a": {"b": 1}}, patch)
    assert refused.value.why


def test_insertions_that_move_too_many_items_are_refused() -> None:
    patch = [{"op": "add", "path": "/a/0", "value": 1}] * 1_000
    with pytest.raises(PatchRefused) as refused:
        apply_json_patch({"a": [0] * 100_000}, patch)
    assert "exceeding the limit 50000000" in refused.value.why
