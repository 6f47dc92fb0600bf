"""Who owns what: scripts of writes to one object, and what managedFields say after each.

Ownership is written as people read it: for each manager the paths it owns, `+` before an applier's name.
"""

from collections.abc import Callable

import pytest
from tests.unit.machinery.ssa_world import BUILT_IN, SCHEMAS, Object, World, widget

from gpuaas.base.errors import ApplyConflict, BadRequest
from gpuaas.machinery.ssa import ApplyFailed, from_paths

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
    assert refusal.value.code == 400


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
