"""Who owns what: scripts of writes to one object, and what managedFields say after each.

Ownership is written as people read it: for each manager the paths it owns, `+` before an applier's name.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import ApplyConflict, BadRequest
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.ssa import ApplyFailed, apply, from_paths, track_update, without_new_times
from gpuaas.machinery.ssa.fieldset import paths, show_path

Object = dict[str, Any]
REF = "#/components/schemas/"
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
PORT = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "proto": {"type": "string", "default": "TCP"},
        "text": {"type": "string"},
    },
}
TYPES: dict[str, Any] = {
    "Meta": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "uid": {"type": "string"},
            "labels": STRINGS,
            "annotations": STRINGS,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "managedFields": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Spec": {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "text": {"type": "string"},
            "free": STRINGS,
            "whole": {**STRINGS, "x-kubernetes-map-type": "atomic"},
            "list": {"type": "array", "items": {"type": "string"}},
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "image": {"type": "string"},
                        "ports": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["port", "proto"],
                            "items": PORT,
                        },
                    },
                },
            },
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "sub": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        },
    },
    "Status": {"type": "object", "properties": {"phase": {"type": "string"}}},
}


def kind(zero: str) -> dict[str, Any]:
    """A kind whose structs Go always writes, or a custom resource."""
    place = {"x-gpuaas-zero": zero} if zero else {}
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF + "Meta", **place},
        "spec": {"$ref": REF + "Spec", **place},
        "status": {"$ref": REF + "Status", **place},
    }
    return {"type": "object", "properties": properties}


SCHEMAS = SchemaSet({**TYPES, "Custom": kind(""), "BuiltIn": kind("always")}.__getitem__)
CUSTOM, BUILT_IN = SCHEMAS.named("Custom"), SCHEMAS.named("BuiltIn")
NOT_STATUS = from_paths([("f:status",)])


def widget(meta: Object | None = None, **fields: Any) -> Object:
    obj: Object = {"apiVersion": "t/v1", "kind": "Widget", "metadata": {"name": "w", **(meta or {})}}
    return {**obj, "spec": fields} if fields else obj


class World:
    """One object, its writers, and a clock that moves a second with every write."""

    def __init__(self, schema: Schema = CUSTOM) -> None:
        self.schema = schema
        self.live: Object | None = None
        self.now = 0.0
        self.version = "t/v1"

    def create(self, manager: str, obj: Object, **options: Any) -> "World":
        return self._store(self._track(None, obj, manager, **options))

    def patch(self, manager: str, patch: Object, **options: Any) -> "World":
        assert self.live is not None
        return self._store(self._track(self.live, apply_merge_patch(self.live, patch), manager, **options))

    def apply(self, manager: str, config: Object, *, force: bool = False, **options: Any) -> "World":
        self.now += 1
        common: Object = {"api_version": self.version, "now": self.now, "kind": "Widget", **options}
        before = copy.deepcopy((self.live, config))
        result = apply(self.live, config, manager, self.schema, force=force, **common)
        assert (self.live, config) == before, "inputs were changed"
        return self._store(result.obj)

    def _track(self, live: Object | None, new: Object, manager: str, **options: Any) -> Object:
        self.now += 1
        before = copy.deepcopy((live, new))
        common: Object = {"api_version": self.version, "now": self.now, "reset_fields": NOT_STATUS, **options}
        result = track_update(live, new, manager, self.schema, **common)
        assert (live, new) == before, "inputs were changed"
        return result

    def _store(self, obj: Object) -> "World":
        if "uid" in obj["metadata"]:
            self.live = obj
        else:
            self.live = {**obj, "metadata": {**obj["metadata"], "uid": "u"}}
        return self

    @property
    def obj(self) -> Object:
        assert self.live is not None
        return self.live

    def entries(self) -> list[Object]:
        found: list[Object] = self.obj["metadata"].get("managedFields", [])
        return found

    def owners(self) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for entry in self.entries():
            sign = "+" if entry["operation"] == "Apply" else ""
            sub = f"/{entry['subresource']}" if "subresource" in entry else ""
            result[f"{sign}{entry['manager']}{sub}"] = [show_path(path) for path in paths(entry["fieldsV1"])]
        return result


SCRIPTS: list[tuple[str, Callable[[World], World], dict[str, list[str]]]] = [
    (
        "who creates an object owns everything in it but its identity",
        lambda w: w.create("one", widget({"labels": {"a": "1"}, "uid": "u"}, count=1, items=[{"name": "x"}])),
        {
            "one": [
                ".spec",
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.count",
                ".spec.items",
                '.spec.items[name="x"]',
                '.spec.items[name="x"].name',
            ]
        },
    ),
    (
        "what is atomic, empty or a scalar is owned as a whole",
        lambda w: w.create("one", widget(whole={"a": "1"}, list=["x"], free={}, items=[])),
        {"one": [".spec", ".spec.free", ".spec.items", ".spec.list", ".spec.whole"]},
    ),
    (
        "untyped places are owned by key, their lists as a whole",
        lambda w: w.create("one", widget(any={"a": {"b": 1}, "c": [{"d": 2}]})),
        {"one": [".spec", ".spec.any", ".spec.any.a", ".spec.any.c", ".spec.any.a.b"]},
    ),
    (
        "a manager without a name is unknown",
        lambda w: w.create("", widget(count=1)),
        {"unknown": [".spec", ".spec.count"]},
    ),
    (
        "who changes a field takes it over",
        lambda w: w.create("one", widget(count=1, text="a")).patch("two", {"spec": {"count": 2}}),
        {"one": [".spec", ".spec.text"], "two": [".spec.count"]},
    ),
    (
        "a removed field is owned by nobody",
        lambda w: w.create("one", widget(count=1, text="a")).patch("two", {"spec": {"text": None}}),
        {"one": [".spec", ".spec.count"]},
    ),
    (
        "what a request may not set it does not come to own",
        lambda w: w.create("one", {**widget(count=1), "status": {"phase": "x"}}),
        {"one": [".spec", ".spec.count"]},
    ),
    (
        "subresources are managed apart",
        lambda w: w.create("one", widget(count=1)).patch(
            "one", {"status": {"phase": "x"}}, subresource="status", reset_fields=from_paths([("f:spec",)])
        ),
        {"one": [".spec", ".spec.count"], "one/status": [".status", ".status.phase"]},
    ),
    (
        "a manager that loses its last field is gone",
        lambda w: (
            w.create("one", widget(count=1))
            .patch("two", {"spec": {"text": "x"}})
            .patch("three", {"spec": {"text": "y"}})
        ),
        {"one": [".spec", ".spec.count"], "three": [".spec.text"]},
    ),
    (
        "who applies owns what it says, not the structs on the way",
        lambda w: w.apply("one", widget({"labels": {"a": "1"}}, sub={"a": "x"}, items=[{"name": "x", "image": "i"}])),
        {
            "+one": [
                ".metadata.labels.a",
                '.spec.items[name="x"]',
                '.spec.items[name="x"].image',
                '.spec.items[name="x"].name',
                ".spec.sub.a",
            ]
        },
    ),
    (
        "two may apply the same",
        lambda w: w.apply("one", widget(count=1, text="x")).apply("two", widget(count=1)),
        {"+two": [".spec.count"], "+one": [".spec.count", ".spec.text"]},
    ),
    (
        "force takes a field from its owners",
        lambda w: w.apply("one", widget(count=1, text="x")).apply("two", widget(count=2), force=True),
        {"+one": [".spec.text"], "+two": [".spec.count"]},
    ),
    (
        "an update takes a field from who applied it",
        lambda w: w.apply("one", widget(count=1, text="x")).patch("two", {"spec": {"count": 2}}),
        {"+one": [".spec.text"], "two": [".spec.count"]},
    ),
    (
        "an object nobody tracked belongs to before-first-apply",
        lambda w: w._store(widget(count=1, free={"a": "1"})).apply("one", widget(count=1)),
        {"+one": [".spec.count"], "before-first-apply": [".spec", ".spec.count", ".spec.free", ".spec.free.a"]},
    ),
    (
        "ports are told apart by number and protocol, the default counting",
        lambda w: w.apply("one", widget(items=[{"name": "x", "ports": [{"port": 80}, {"port": 80, "proto": "UDP"}]}])),
        {
            "+one": [
                '.spec.items[name="x"]',
                '.spec.items[name="x"].name',
                '.spec.items[name="x"].ports[port=80,proto="TCP"]',
                '.spec.items[name="x"].ports[port=80,proto="UDP"]',
                '.spec.items[name="x"].ports[port=80,proto="TCP"].port',
                '.spec.items[name="x"].ports[port=80,proto="UDP"].port',
                '.spec.items[name="x"].ports[port=80,proto="UDP"].proto',
            ]
        },
    ),
]


@pytest.mark.parametrize(("script", "owners"), [pytest.param(*each[1:], id=each[0]) for each in SCRIPTS])
def test_ownership_after(script: Callable[[World], World], owners: dict[str, list[str]]) -> None:
    assert script(World()).owners() == owners


def test_structs_that_are_always_there_are_added_by_nobody() -> None:
    world = World(BUILT_IN).create("one", widget(count=1, sub={"a": "x"}))
    assert world.owners() == {"one": [".spec.count", ".spec.sub", ".spec.sub.a"]}


def test_lists_that_are_null_at_first_are_added_by_nobody_either() -> None:
    containers = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    item = {"type": "object", "properties": {"name": {"type": "string"}}}
    always = {**containers, "items": item, "x-gpuaas-zero": "always"}
    spec = {"type": "object", "properties": {"there": always, "not": {**containers, "items": item}}}
    world = World(SCHEMAS.inline({"type": "object", "properties": {"spec": {**spec, "x-gpuaas-zero": "always"}}}))
    world.create("one", {"metadata": {}, "spec": {"there": [{"name": "a"}], "not": [{"name": "a"}]}})
    assert world.owners()["one"] == [
        ".spec.not",
        '.spec.not[name="a"]',
        '.spec.not[name="a"].name',
        '.spec.there[name="a"]',
        '.spec.there[name="a"].name',
    ]


def test_an_entry_has_the_fields_of_the_wire_in_their_order() -> None:
    (entry,) = World().create("one", widget(count=1), subresource="sub").entries()
    assert list(entry.items()) == [
        ("manager", "one"),
        ("operation", "Update"),
        ("apiVersion", "t/v1"),
        ("time", "1970-01-01T00:00:01Z"),
        ("fieldsType", "FieldsV1"),
        ("fieldsV1", {"f:spec": {".": {}, "f:count": {}}}),
        ("subresource", "sub"),
    ]


def test_times_move_only_with_a_change() -> None:
    world = World().create("one", widget(count=1, text="x")).patch("two", {"spec": {"count": 2}})
    before = world.entries()
    assert [entry["time"][-3:] for entry in before] == ["01Z", "02Z"]
    world.patch("two", {"spec": {"count": 2}})
    assert world.entries() == before
    world.patch("two", {"spec": {"count": 3}})
    assert [entry["time"][-3:] for entry in world.entries()] == ["01Z", "04Z"]


def test_applying_the_same_again_gives_the_object_itself() -> None:
    world = World().apply("one", widget(count=1, items=[{"name": "a"}]))
    stored = world.obj
    assert world.apply("one", widget(count=1, items=[{"name": "a"}])).obj is stored


REMOVALS: list[tuple[str, Callable[[World], World], Object]] = [
    (
        "what an applier says no more is removed",
        lambda w: w.apply("one", widget(count=1, text="x")).apply("one", widget(count=1)),
        {"count": 1},
    ),
    (
        "unless somebody else owns it",
        lambda w: (
            w.apply("one", widget(count=1, text="x")).apply("two", widget(text="x")).apply("one", widget(count=1))
        ),
        {"count": 1, "text": "x"},
    ),
    (
        "or somebody changed it since",
        lambda w: (
            w.apply("one", widget(count=1, text="x"))
            .patch("two", {"spec": {"text": "y"}})
            .apply("one", widget(count=1))
        ),
        {"count": 1, "text": "y"},
    ),
    (
        "what nobody owns stays where it is",
        lambda w: w._store(widget(count=1)).apply("one", widget(free={"a": "1"})).apply("one", widget(text="x")),
        {"count": 1, "text": "x"},
    ),
    (
        "an item goes with all its fields",
        lambda w: w.apply("one", widget(items=[{"name": "a", "image": "1"}, {"name": "b"}])).apply(
            "one", widget(items=[{"name": "b"}])
        ),
        {"items": [{"name": "b"}]},
    ),
    (
        "an item others have a part in keeps that part and its key",
        lambda w: (
            w.apply("one", widget(items=[{"name": "a", "image": "1"}, {"name": "b"}]))
            .apply("two", widget(items=[{"name": "a", "ports": [{"port": 1}]}]))
            .apply("one", widget(items=[{"name": "b"}]))
        ),
        {"items": [{"name": "a", "ports": [{"port": 1}]}, {"name": "b"}]},
    ),
    (
        "items of a configuration come in its order, others near their neighbours",
        lambda w: w.apply("one", widget(items=[{"name": "a"}, {"name": "b"}, {"name": "c"}])).apply(
            "two", widget(items=[{"name": "c"}, {"name": "z"}, {"name": "a"}])
        ),
        {"items": [{"name": "b"}, {"name": "c"}, {"name": "z"}, {"name": "a"}]},
    ),
    (
        "maps and untyped places lose single keys",
        lambda w: w.apply("one", widget(any={"a": 1, "b": 2}, free={"x": "1", "y": "2"})).apply(
            "one", widget(any={"b": 2}, free={"y": "2"})
        ),
        {"any": {"b": 2}, "free": {"y": "2"}},
    ),
    (
        "what is atomic is replaced as a whole",
        lambda w: w.apply("one", widget(whole={"a": "1", "b": "2"}, list=["x", "y"])).apply(
            "one", widget(whole={"b": "3"}, list=["z"])
        ),
        {"whole": {"b": "3"}, "list": ["z"]},
    ),
    (
        "null keeps what is in a map",
        lambda w: w.apply("one", widget(free={"a": "1"}, count=1)).apply("two", widget(free=None), force=True),
        {"free": {"a": "1"}, "count": 1},
    ),
]


@pytest.mark.parametrize(("script", "spec"), [pytest.param(*each[1:], id=each[0]) for each in REMOVALS])
def test_the_object_after(script: Callable[[World], World], spec: Object) -> None:
    assert script(World()).obj["spec"] == spec


def test_one_conflict_names_owner_and_field() -> None:
    world = World().create("one", widget(count=1))
    with pytest.raises(ApplyConflict) as refusal:
        world.apply("two", widget(count=2))
    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "one" using t/v1: .spec.count'
    assert refusal.value.status()["details"] == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "one" using t/v1', "field": ".spec.count"}
        ]
    }


def test_several_conflicts_are_listed_by_owner() -> None:
    world = World().apply("b", widget(count=1, items=[{"name": "x", "image": "1"}]))
    world.patch("a", {"spec": {"text": "x", "list": ["1"]}})
    world.patch("s", {"status": {"phase": "p"}}, subresource="status", reset_fields={})
    other = {**widget(count=2, text="y", list=[], items=[{"name": "x", "image": "2"}]), "status": {"phase": "q"}}
    with pytest.raises(ApplyConflict) as refusal:
        world.apply("c", other)
    assert refusal.value.message == (
        "Apply failed with 5 conflicts: "
        'conflicts with "a" using t/v1:\n- .spec.list\n- .spec.text\n'
        'conflicts with "b":\n- .spec.count\n- .spec.items[name="x"].image\n'
        'conflicts with "s" with subresource "status" using t/v1:\n- .status.phase'
    )
    assert [cause["field"] for cause in refusal.value.details["causes"]] == [
        ".spec.list",
        ".spec.text",
        ".spec.count",
        '.spec.items[name="x"].image',
        ".status.phase",
    ]


PREFIX = "failed to create typed patch object (/w; t/v1, Kind=Widget): "


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (widget(typo=1), ".spec.typo: field not declared in schema"),
        (widget(count="1"), ".spec.count: expected numeric (int or float), got string"),
        (widget(text=1), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (widget(free=[1]), ".spec.free: expected map, got &{[1]}"),
        (widget(list={"a": 1}), ".spec.list: expected list, got &{map[a:1]}"),
        (widget(items=[{"name": "a"}, {"name": "a"}]), '.spec.items: duplicate entries for key [name="a"]'),
        (widget({"finalizers": ["a", "a"]}), '.metadata.finalizers: duplicate entries for key [="a"]'),
        (
            widget(items=[{"image": "a"}]),
            ".spec.items: element 0: associative list with keys has an element that omits all key fields "
            '["name"] (and doesn\'t have default values for any key fields)',
        ),
        (widget(items=[None]), ".spec.items: element 0: associative list with keys may not have a null element"),
        (widget(items=["a"]), ".spec.items: element 0: associative list with keys may not have non-map elements"),
        (widget(count="1", text=2), "errors:\n  .spec.count: expected numeric (int or float), got string\n  "
         ".spec.text: expected string, got &value.valueUnstructured{Value:2}"),
    ],
)  # fmt: skip
def test_a_configuration_its_schema_does_not_allow_fails(config: Object, message: str) -> None:
    with pytest.raises(ApplyFailed) as refusal:
        World().apply("one", config)
    assert refusal.value.message == PREFIX + message
    assert refusal.value.code == 500
    assert "reason" not in refusal.value.status()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Other"}, "invalid object type: t/v1, Kind=Other"),
        ({"apiVersion": "v1"}, "invalid object type: /v1, Kind=Widget"),
        ({"apiVersion": None, "kind": None}, "invalid object type: /, Kind="),
        ({"metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)
def test_a_configuration_of_something_else_is_a_bad_request(change: Object, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        World().apply("one", {**widget(count=1), **change})
    assert refusal.value.message == message


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
