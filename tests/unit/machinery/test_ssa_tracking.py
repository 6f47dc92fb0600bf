"""Field ownership over an object's life: lists that users send, versions, schema changes, caps, and what always holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.machinery.ssa_world import BUILT_IN, CUSTOM, Object, World, widget

from gpuaas.base.errors import ApplyConflict
from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.ssa import without_new_times
from gpuaas.machinery.ssa.atoms import atom_of
from gpuaas.machinery.ssa.blank import blank_of
from gpuaas.machinery.ssa.compare import changed, compare
from gpuaas.machinery.ssa.fieldset import paths


def test_a_request_may_bring_its_own_managed_fields() -> None:
    world = World().create("one", widget(count=1, text="x"))
    mine = [{"manager": "mine", "operation": "Apply", "apiVersion": "t/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:text": {}}}}]  # fmt: skip
    world.patch("two", {"metadata": {"managedFields": mine}, "spec": {"count": 2}})
    assert world.owners() == {"+mine": [".spec.text"], "two": [".spec.count"]}


@pytest.mark.parametrize(
    "broken",
    [
        {"operation": "Foo"},
        {"apiVersion": ""},
        {"fieldsType": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"nocolon": {}}},
    ],
)
def test_managed_fields_that_cannot_be_read_are_as_if_not_sent(broken: Object) -> None:
    world = World().create("one", widget(count=1))
    entry = {"manager": "mine", "operation": "Apply", "apiVersion": "t/v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
    world.patch("two", {"metadata": {"managedFields": [{**entry, **broken}]}, "spec": {"text": "x"}})
    assert world.owners() == {"one": [".spec", ".spec.count"], "two": [".spec.text"]}


@pytest.mark.parametrize(("schema", "reset"), [(BUILT_IN, []), (BUILT_IN, [{}]), (CUSTOM, [{}])])
def test_an_empty_list_or_entry_forgets_the_owners_for_good(schema: Schema, reset: list[Object]) -> None:
    world = World(schema).create("one", widget(count=1))
    world.patch("two", {"metadata": {"managedFields": reset}, "spec": {"count": 2}})
    assert world.entries() == []
    assert "managedFields" not in world.obj["metadata"]
    assert world.patch("two", {"spec": {"count": 3}}).entries() == []


def test_an_empty_list_means_nothing_for_a_custom_resource() -> None:
    world = World().create("one", widget(count=1)).patch("two", {"metadata": {"managedFields": []}})
    assert world.owners() == {"one": [".spec", ".spec.count"]}


def test_a_subresource_does_not_change_managed_fields_by_sending_them() -> None:
    world = World().create("one", widget(count=1))
    world.patch("two", {"metadata": {"managedFields": [{}]}}, subresource="status")
    assert world.owners() == {"one": [".spec", ".spec.count"]}


def test_the_oldest_updates_beyond_ten_become_ancient_changes() -> None:
    world = World().create("m00", widget(free={"k00": "1"}))
    for index in range(1, 13):
        world.patch(f"m{index:02}", {"spec": {"free": {f"k{index:02}": "1"}}})
    owners = world.owners()
    assert list(owners) == ["ancient-changes", *(f"m{index:02}" for index in range(4, 13))]
    assert owners["ancient-changes"] == [".spec", ".spec.free", *(f".spec.free.k{index:02}" for index in range(4))]
    assert world.entries()[0]["time"] == "1970-01-01T00:00:04Z"


def test_an_object_that_cannot_be_read_by_its_type_is_not_tracked() -> None:
    world = World().create("one", widget(count=1))
    assert world.patch("two", {"spec": {"items": [{"image": "no name"}]}}).entries() == []


def test_duplicates_of_a_key_are_owned_as_one() -> None:
    twice = [{"port": 1, "text": "x"}, {"port": 1, "text": "y"}]
    world = World().create("one", widget(items=[{"name": "a", "ports": twice}]))
    assert world.owners()["one"][-2:] == [
        '.spec.items[name="a"].ports',
        '.spec.items[name="a"].ports[port=1,proto="TCP"]',
    ]
    world.patch("two", {"spec": {"items": [{"name": "a", "ports": [twice[0]]}]}})
    assert '.spec.items[name="a"].ports[port=1,proto="TCP"].text' in world.owners()["two"]


def converter(obj: Object, version: str) -> tuple[Object, Schema] | None:
    """`t/v2` calls the count `number` inside the untyped place; other versions are gone."""
    if version not in ("t/v1", "t/v2"):
        return None
    spec = dict(obj.get("spec", {}))
    if obj["apiVersion"] == "t/v1" and version == "t/v2" and "count" in spec:
        spec["any"] = {"number": spec.pop("count")}
    elif obj["apiVersion"] == "t/v2" and version == "t/v1" and "any" in spec:
        spec["count"] = spec.pop("any")["number"]
    return {**obj, "apiVersion": version, "spec": spec}, CUSTOM


def test_managers_of_another_version_see_the_change_in_theirs() -> None:
    world = World()
    world.version = "t/v2"
    world.create("one", {**widget(any={"number": 1}, text="x"), "apiVersion": "t/v2"})
    world.version = "t/v1"
    assert world.live is not None
    stored, _ = converter(world.obj, "t/v1") or ({}, None)
    world._store(stored).patch("two", {"spec": {"count": 2}}, converter=converter)
    assert world.owners() == {"one": [".spec", ".spec.any", ".spec.text"], "two": [".spec.count"]}
    with pytest.raises(ApplyConflict):
        world.apply("three", widget(text="y"), converter=converter)


def test_managers_of_a_version_that_is_gone_are_dropped() -> None:
    world = World().create("one", widget(count=1))
    world.obj["metadata"]["managedFields"][0]["apiVersion"] = "t/v0"
    world.patch("two", {"spec": {"text": "x"}}, converter=converter)
    assert world.owners() == {"two": [".spec.text"]}


def test_parts_of_what_has_become_atomic_become_the_whole() -> None:
    world = World().create("one", widget(free={"a": "1"}, whole={"b": "2"}))
    (entry,) = world.entries()
    entry["fieldsV1"] = {"f:spec": {"f:free": {"f:a": {}}, "f:list": {"v:1": {}}, "f:whole": {".": {}, "f:b": {}}}}
    assert world.patch("two", {"spec": {"text": "x"}}, reconcile=True).owners()["one"] == [
        ".spec.list",
        ".spec.whole",
        ".spec.free.a",
    ]


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def client_side(count: int, said: int) -> World:
    text = f'{{"apiVersion":"t/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{{"count":{said}}}}}'
    return World().create("kubectl-client-side-apply", widget({"annotations": {LAST_APPLIED: text}}, count=count))


def test_kubectl_takes_over_what_it_applied_on_the_client() -> None:
    world = client_side(1, 1).apply("kubectl", widget(count=2))
    assert world.obj["spec"] == {"count": 2}
    assert world.owners()["+kubectl"] == [".spec.count"]
    assert world.obj["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"t/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"count":2}}\n'
    )


@pytest.mark.parametrize(("said", "manager"), [(7, "kubectl"), (1, "argocd")])
def test_but_not_what_changed_since_and_nobody_else_does(said: int, manager: str) -> None:
    with pytest.raises(ApplyConflict):
        client_side(1, said).apply(manager, widget(count=2))


def test_times_go_back_when_they_are_all_that_changed() -> None:
    old = World().create("one", widget(count=1)).obj
    entry = old["metadata"]["managedFields"][0]
    later = {**old, "metadata": {**old["metadata"], "managedFields": [{**entry, "time": "2030-01-01T00:00:00Z"}]}}
    assert without_new_times(later, old) == old
    changed = {**later, "spec": {"count": 2}}
    assert without_new_times(changed, old) is changed
    assert without_new_times(old, old) is old


WORDS = st.sampled_from(["1", "2"])
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(1, 2),
        "free": st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2),
        "whole": st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2),
        "list": st.lists(WORDS, max_size=2),
        "items": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("xyz")}, optional={"image": WORDS}),
            max_size=3,
            unique_by=lambda item: item["name"],
        ),
        "any": st.recursive(
            WORDS, lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2), max_leaves=4
        ),
        "sub": st.fixed_dictionaries({}, optional={"a": WORDS, "b": WORDS}),
    },
)
WRITES = st.tuples(st.sampled_from(["apply", "patch"]), st.sampled_from(["one", "two", "three"]), SPECS)


def play(writes: list[tuple[str, str, Object]]) -> World:
    world = World().create("zero", widget(text="x"))
    for verb, manager, spec in writes:
        if verb == "apply":
            world.apply(manager, {**widget(), "spec": spec}, force=True)
        else:
            world.patch(manager, {"spec": spec})
    return world


@given(st.lists(WRITES, max_size=5), SPECS)
def test_applying_twice_changes_nothing_more(writes: list[Any], spec: Object) -> None:
    config = {**widget(), "spec": spec}
    world = play(writes).apply("me", config, force=True)
    after = world.obj
    assert world.apply("me", config).obj == after


@given(st.lists(WRITES, max_size=6))
def test_updates_never_own_the_same_field_twice(writes: list[Any]) -> None:
    seen: set[tuple[str, ...]] = set()
    for entry in play(writes).entries():
        if entry["operation"] == "Update":
            mine = set(paths(entry["fieldsV1"]))
            assert not mine & seen
            seen |= mine


@given(st.lists(WRITES, max_size=5), SPECS)
def test_what_was_applied_is_so_and_is_owned(writes: list[Any], spec: Object) -> None:
    world = play(writes).apply("me", {**widget(), "spec": spec}, force=True)
    for key in ("count", "list", "whole"):
        if key in spec:
            assert world.obj["spec"][key] == spec[key]
            assert f".spec.{key}" in world.owners()["+me"]
    names = [item["name"] for item in world.obj["spec"].get("items") or []]
    wanted = [item["name"] for item in spec.get("items", [])]
    assert [name for name in names if name in wanted] == wanted


@given(st.lists(WRITES, max_size=5), SPECS)
def test_giving_everything_up_leaves_no_trace_of_the_applier(writes: list[Any], spec: Object) -> None:
    world = play(writes).apply("me", {**widget(), "spec": spec}, force=True).apply("me", widget())
    assert "+me" not in world.owners()


@given(st.sampled_from([BUILT_IN, CUSTOM]), st.one_of(st.none(), SPECS), SPECS)
def test_what_changed_is_found_the_short_way_as_by_comparing(schema: Schema, old: Object | None, new: Object) -> None:
    atom = atom_of(schema)
    before = blank_of(atom) if old is None else {**widget(), "spec": old}
    after = {**widget(), "spec": new}
    assert changed(atom, before, after) == compare(atom, before, after).changed()
