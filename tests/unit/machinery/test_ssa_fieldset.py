"""Sets of fields: their algebra, their order, and reading what others wrote."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.machinery.ssa import managed
from gpuaas.machinery.ssa.elements import canonical, key_element, order, show, value_element
from gpuaas.machinery.ssa.fieldset import (
    FieldSet,
    difference,
    from_paths,
    has,
    in_order,
    insert,
    intersection,
    parse,
    paths,
    recursive_difference,
    show_path,
    union,
)

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'k:{"port":9}', 'v:"s"', "v:10", "v:9"])
PATHS = st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple)
SETS = st.lists(PATHS, max_size=8).map(from_paths)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(SETS, SETS)
def test_the_algebra_is_that_of_sets_of_paths(one: FieldSet, two: FieldSet) -> None:
    assert members(union(one, two)) == members(one) | members(two)
    assert members(intersection(one, two)) == members(one) & members(two)
    assert members(difference(one, two)) == members(one) - members(two)
    assert members(recursive_difference(one, two)) == {
        path for path in members(one) if not any(path[: at + 1] in members(two) for at in range(len(path)))
    }


@given(SETS, SETS)
def test_equal_sets_are_equal_trees_with_equal_order(one: FieldSet, two: FieldSet) -> None:
    again = union(two, one)
    assert list(paths(union(one, two))) == list(paths(again))
    assert difference(again, two) == difference(one, two)
    assert union(intersection(one, two), difference(one, two)) == one


@given(SETS, PATHS)
def test_inserting_a_path_makes_it_a_member(fields: FieldSet, path: tuple[str, ...]) -> None:
    grown = insert(fields, path)
    assert has(grown, path)
    assert members(grown) == members(fields) | {path}


@given(SETS)
def test_what_is_written_is_read_back(fields: FieldSet) -> None:
    def scrambled(node: Any) -> Any:
        return {key: scrambled(node[key]) for key in reversed(list(node))}

    read = parse(scrambled(fields))
    assert read == fields
    assert list(paths(read)) == list(paths(fields))


def test_nothing_taken_away_is_the_same_set() -> None:
    fields = from_paths([("f:a", "f:b"), ("f:c",)])
    assert difference(fields, from_paths([("f:a", "f:z"), ("f:d",)])) is fields


def test_a_member_with_children_and_one_without_are_told_apart() -> None:
    parent = from_paths([("f:a",)])
    child = from_paths([("f:a", "f:b")])
    assert union(parent, child) == {"f:a": {".": {}, "f:b": {}}}
    assert difference(parent, child) == parent
    assert difference(child, parent) == child
    assert recursive_difference(child, parent) == {}


@pytest.mark.parametrize(
    ("written", "ordered"),
    [
        (["f:b", "f:a", "f:A"], ["f:A", "f:a", "f:b"]),
        (['k:{"port":443}', 'k:{"port":80}'], ['k:{"port":80}', 'k:{"port":443}']),
        (
            ['k:{"name":"ab"}', 'k:{"name":"a!"}', 'k:{"name":"a"}'],
            ['k:{"name":"a"}', 'k:{"name":"a!"}', 'k:{"name":"ab"}'],
        ),
        (['v:"x"', "v:true", "v:10", "v:9"], ["v:9", "v:10", 'v:"x"', "v:true"]),
        (["i:10", "i:9", 'v:"a"', 'k:{"a":1}', "f:z"], ["f:z", 'k:{"a":1}', 'v:"a"', "i:9", "i:10"]),
    ],
)
def test_the_order_of_elements(written: list[str], ordered: list[str]) -> None:
    assert list(parse({key: {} for key in written})) == ordered


@pytest.mark.parametrize(
    ("written", "element"),
    [
        ("f:any:thing", "f:any:thing"),
        ('k:{ "b": 1, "a": "x" }', 'k:{"a":"x","b":1}'),
        ('v:"a<b"', 'v:"a\\u003cb"'),
        ("v:1.0", "v:1"),
        ("v:1.5", "v:1.5"),
        ("i:03", "i:3"),
        ("x:unknown", None),
    ],
)
def test_elements_have_one_spelling(written: str, element: str | None) -> None:
    assert canonical(written) == element


@pytest.mark.parametrize(
    "tree", [[], {"f:a": 3}, {"": {}}, {"nocolon": {}}, {"k:[]": {}}, {"k:{": {}}, {"v:": {}}, {"i:x": {}}]
)
def test_what_is_not_a_set_is_refused(tree: Any) -> None:
    with pytest.raises(ValueError):
        parse(tree)


def test_elements_nobody_knows_are_skipped() -> None:
    assert parse({"f:a": {}, "z:future": {"f:b": {}}}) == {"f:a": {}}


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("f:spec", ".spec"),
        (key_element([("protocol", "TCP"), ("port", 80)]), '[port=80,protocol="TCP"]'),
        (value_element("a<b\n"), '[="a<b\\n"]'),
        (value_element(True), "[=true]"),
        (value_element(1.5), "[=1.5]"),
        ("i:3", "[3]"),
    ],
)
def test_how_messages_print_elements(element: str, text: str) -> None:
    assert show(element) == text


def test_how_messages_print_paths() -> None:
    assert show_path(("f:spec", 'k:{"name":"a"}', "f:image")) == '.spec[name="a"].image'


_NAMES = st.lists(st.text(min_size=0, max_size=4), unique=True, max_size=12)


@given(_NAMES, st.sampled_from(["name", "key"]), st.booleans())
def test_items_by_name_and_values_of_sets_are_in_the_same_order_however_it_is_found(
    names: list[str], key: str, itself: bool
) -> None:
    for elements in ([key_element([(key, name)]) for name in names], [value_element(name) for name in names]):
        node: dict[str, Any] = {element: {} for element in [*elements, *(["."] if itself else [])]}
        assert list(in_order(node)) == sorted(node, key=order)


def test_elements_of_several_sorts_are_in_order() -> None:
    node: dict[str, Any] = {'k:{"b":"x"}': {}, 'k:{"a":"y"}': {}, 'k:{"a":"x","b":"y"}': {}, 'v:"z"': {}, ".": {}}
    assert list(in_order(node)) == sorted(node, key=order)


@given(st.integers(11, 60))
def test_many_managers_are_merged_and_nothing_is_lost(count: int) -> None:
    managers: managed.Managers = {
        managed.Manager(f"m{at}", "Update", "v1"): managed.Owned({"f:data": {f"f:k{at:02}": {}}}, "v1")
        for at in range(count)
    }
    capped = managed.cap(managers)
    assert len(capped) == managed.MAX_UPDATE_MANAGERS
    held = [path for owned in capped.values() for path in paths(owned.fields)]
    assert sorted(held) == [("f:data", f"f:k{at:02}") for at in range(count)]
    ancient = capped[managed.Manager(managed.ANCIENT, "Update", "v1")].fields["f:data"]
    assert list(ancient) == sorted(ancient)
