"""Reading built-in kinds: what is kept, what is dropped, what is refused and in which words."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.errors import BadRequest
from gpuaas.machinery.schema import scalars
from gpuaas.machinery.schema.decode import normalize
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.strict import duplicate_fields, strict_messages

REF = "#/components/schemas/"
TYPES: dict[str, Any] = {
    "k8s.v1.Job": {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": REF + "k8s.v1.ObjectMeta", "x-gpuaas-zero": "always"},
            "spec": {"$ref": REF + "k8s.v1.JobSpec", "x-gpuaas-zero": "always"},
        },
    },
    "k8s.v1.ObjectMeta": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-gpuaas-zero": "drop"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "x-gpuaas-zero": "drop"},
            "creationTimestamp": {"$ref": REF + "k8s.v1.Time"},
            "renewed": {"$ref": REF + "k8s.v1.MicroTime"},
        },
    },
    "k8s.v1.Time": {"type": "string", "format": "date-time"},
    "k8s.v1.MicroTime": {"type": "string", "format": "date-time"},
    "k8s.v1.JobSpec": {
        "type": "object",
        "properties": {
            "parallelism": {"type": "integer", "format": "int32", "default": 1},
            "big": {"type": "integer", "format": "int64", "x-gpuaas-zero": "drop"},
            "ratio": {"type": "number"},
            "suspend": {"type": "boolean", "x-gpuaas-zero": "always"},
            "mode": {"type": "string", "x-gpuaas-go-type": "v1.CompletionMode", "x-gpuaas-zero": "drop"},
            "containers": {"type": "array", "items": {"$ref": REF + "k8s.v1.Container"}},
            "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            "raw": {"type": "object"},
            "policy": {
                "type": "object",
                "default": {"limit": 6},
                "properties": {"limit": {"type": "integer"}, "how": {"type": "string", "default": "OnFailure"}},
            },
            "child": {"$ref": REF + "k8s.v1.JobSpec"},
            "rules": {"type": "array", "items": {"type": "string"}, "x-gpuaas-zero": "always"},
        },
    },
    "k8s.v1.Container": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-gpuaas-zero": "always"},
            "args": {"type": "array", "items": {"type": "string"}, "x-gpuaas-zero": "drop"},
            "port": {"format": "int-or-string", "x-kubernetes-int-or-string": True},
            "limits": {
                "type": "object",
                "additionalProperties": {"type": "string", "format": "quantity"},
                "x-gpuaas-zero": "drop",
            },
            "data": {"type": "string", "format": "byte"},
            "hostPath": {"$ref": REF + "k8s.v1.HostPath"},
        },
    },
    "k8s.v1.HostPath": {
        "type": "object",
        "x-gpuaas-embedded-in": "VolumeSource",
        "properties": {"path": {"type": "string"}},
    },
}


@pytest.fixture(scope="module")
def job_schema() -> Schema:
    return SchemaSet(TYPES.__getitem__).named("k8s.v1.Job")


def job(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def spec_of(schema: Schema, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = normalize(schema, job(**spec)).obj["spec"]
    return found


DEFAULTS = {"parallelism": 1, "suspend": False, "policy": {"limit": 6, "how": "OnFailure"}, "rules": None}

KEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an empty spec gets its defaults and what Go always writes": ({}, DEFAULTS),
    "a null is as good as absent": ({"parallelism": None, "policy": None, "rules": None}, DEFAULTS),
    "an explicit zero of a field with a default stays": ({"parallelism": 0}, {**DEFAULTS, "parallelism": 0}),
    "a dropped zero is not written": ({"big": 0, "mode": ""}, DEFAULTS),
    "a default inside a default is filled in": ({"policy": {}}, {**DEFAULTS, "policy": {"how": "OnFailure"}}),
    "an empty map that is not dropped stays": ({"selector": {}}, {**DEFAULTS, "selector": {}}),
    "a null value of a map is the zero of its type": ({"selector": {"a": None}}, {**DEFAULTS, "selector": {"a": ""}}),
    "raw parts keep everything": ({"raw": {"x": None, "y": [{}]}}, {**DEFAULTS, "raw": {"x": None, "y": [{}]}}),
    "whole numbers are numbers": ({"ratio": 1}, {**DEFAULTS, "ratio": 1}),
}


@pytest.mark.parametrize(("spec", "expected"), KEPT.values(), ids=KEPT)
def test_what_is_kept(job_schema: Schema, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert spec_of(job_schema, **spec) == expected


CANONICAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "quantities": (
        {"limits": {"cpu": "0.5", "memory": "1024Mi", "gpu": 2}},
        {"limits": {"cpu": "500m", "memory": "1Gi", "gpu": "2"}},
    ),
    "base64 loses its line ends": ({"data": "aGVs\nbG8="}, {"data": "aGVsbG8="}),
    "ports by number": ({"port": 80}, {"port": 80}),
    "ports by name": ({"port": "http"}, {"port": "http"}),
    "a null argument is an empty one": ({"args": ["a", None]}, {"args": ["a", ""]}),
    "no arguments are not written": ({"args": []}, {}),
}


@pytest.mark.parametrize(("container", "expected"), CANONICAL.values(), ids=CANONICAL)
def test_canonical_spelling(job_schema: Schema, container: dict[str, Any], expected: dict[str, Any]) -> None:
    assert spec_of(job_schema, containers=[container])["containers"] == [{"name": "", **expected}]


def test_a_null_container_is_an_empty_one(job_schema: Schema) -> None:
    assert spec_of(job_schema, containers=[None])["containers"] == [{"name": ""}]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
    ],
)
def test_times_are_utc_and_whole(job_schema: Schema, sent: str, kept: str) -> None:
    obj = {**job(), "metadata": {"creationTimestamp": sent}}
    assert normalize(job_schema, obj).obj["metadata"] == {"creationTimestamp": kept}


def test_micro_times_keep_six_digits(job_schema: Schema) -> None:
    obj = {**job(), "metadata": {"renewed": "2026-01-01T01:00:00.120000+01:00"}}
    assert normalize(job_schema, obj).obj["metadata"] == {"renewed": "2026-01-01T00:00:00.120000Z"}


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00.120000Z",
        "0001-01-01T00:00:00.000000Z",
        "0999-12-31T23:59:59.999999Z",
        "2026-02-30T00:00:00.000000Z",
        "2026-01-01 00:00:00.000000Z",
        "2026-01-01t00:00:00.000000Z",
        "2026-01-01T00:00:00.000000z",
        "2026-01-01T00:00:00.000000+00:00Z",
        "2026-01-01T24:00:00.000000Z",
        "2026-W01-4T00:00:00.000000Z",
        "20260101T00:00:00.000000000Z",
        "2026-01-01T00:00:00,120000Z",
        "2026-01-01T00:00:00.12000\u0661Z",
    ],
)
def test_a_micro_time_as_it_is_kept_is_read_as_any_other(text: str) -> None:
    def read(how: Callable[[str], str | None]) -> str | None:
        try:
            return how(text)
        except scalars.Unreadable as problem:
            return f"refused: {problem}"

    assert read(scalars.canonical_micro_time) == read(scalars._micro_time)


QUANTITY = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"

# Each was said by kube-apiserver 1.36 for the same mistake.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "text for a number": (job(parallelism="x"), FIELD.format("string", "JobSpec.spec.parallelism", "int32")),
    "a fraction": (job(parallelism=1.5), FIELD.format("number 1.5", "JobSpec.spec.parallelism", "int32")),
    "too large": (job(parallelism=1 << 33), FIELD.format("number 8589934592", "JobSpec.spec.parallelism", "int32")),
    "text for a boolean": (job(suspend="yes"), FIELD.format("string", "JobSpec.spec.suspend", "bool")),
    "a boolean is no number": (job(parallelism=True), FIELD.format("bool", "JobSpec.spec.parallelism", "int32")),
    "a named string": (job(mode=3), FIELD.format("number", "JobSpec.spec.mode", "v1.CompletionMode")),
    "an object for a list": (job(containers={}), FIELD.format("object", "JobSpec.spec.containers", "[]v1.Container")),
    "text for an item": (job(containers=["x"]), FIELD.format("string", "JobSpec.spec.containers", "v1.Container")),
    "a number in a map": (job(selector={"a": 1}), FIELD.format("number", "JobSpec.spec.selector", "string")),
    "a number for a map": (job(selector=5), FIELD.format("number", "JobSpec.spec.selector", "map[string]string")),
    "deep inside": (
        job(containers=[{}, {"args": [1]}]),
        FIELD.format("number", "Container.spec.containers.args", "string"),
    ),
    "a port of neither type": (
        job(containers=[{"port": True}]),
        FIELD.format("bool", "Container.spec.containers.port", "int32"),
    ),
    "inside an embedded struct": (
        job(containers=[{"hostPath": "x"}]),
        FIELD.format("string", "Container.spec.containers.VolumeSource.hostPath", "v1.HostPath"),
    ),
    "a number for a time": (
        {**job(), "metadata": {"creationTimestamp": 5}},
        FIELD.format("number", "ObjectMeta.metadata.creationTimestamp", "string"),
    ),
    "no quantity": (job(containers=[{"limits": {"cpu": "abc"}}]), QUANTITY),
    "a boolean for a quantity": (job(containers=[{"limits": {"cpu": True}}]), QUANTITY),
    "no base64": (job(containers=[{"data": "%%"}]), "illegal base64 data at input byte 0"),
    "half a group of base64": (job(containers=[{"data": "aGVsb"}]), "illegal base64 data at input byte 4"),
}


@pytest.mark.parametrize(("obj", "why"), REFUSED.values(), ids=REFUSED)
def test_wrong_types_are_refused_with_the_field(job_schema: Schema, obj: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        normalize(job_schema, obj)
    assert refusal.value.message == f'Job in version "v1" cannot be handled as a Job: {why}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("yesterday", ' as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'),
        ("2026-01-01 00:00:00Z", ' as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"'),
        ("2026-01-01T00:00:00", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2026-13-01T00:00:00Z", ": month out of range"),
        ("2026-02-30T00:00:00Z", ": day out of range"),
        ("2026-01-01T00:00:00Zx", ': extra text: "x"'),
    ],
)
def test_times_that_are_none(job_schema: Schema, text: str, why: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        normalize(job_schema, {**job(), "metadata": {"creationTimestamp": text}})
    assert refusal.value.message == f'Job in version "v1" cannot be handled as a Job: parsing time "{text}"{why}'


def test_unknown_fields_are_pruned_and_named(job_schema: Schema) -> None:
    obj = job(foo=1, containers=[{"x": 1, "hostPath": {"y": {}}}], raw={"anything": 1})
    decoded = normalize(job_schema, {**obj, "Spec": {}})
    assert decoded.unknown == ["spec.foo", "spec.containers[0].x", "spec.containers[0].hostPath.y", "Spec"]
    assert decoded.obj["spec"]["containers"] == [{"hostPath": {}, "name": ""}]
    assert "Spec" not in decoded.obj


def test_kinds_that_are_only_stored_keep_what_they_do_not_know(job_schema: Schema) -> None:
    decoded = normalize(job_schema, job(foo={"a": None}, containers=[{"x": 1}]), keep_unknown=True)
    assert decoded.unknown == []
    assert decoded.obj["spec"]["foo"] == {"a": None}
    assert decoded.obj["spec"]["containers"] == [{"x": 1, "name": ""}]


def test_the_result_shares_nothing_with_what_was_sent(job_schema: Schema) -> None:
    sent = job(raw={"a": [1]}, selector={"b": "c"}, containers=[{"args": ["x"]}])
    first, second = normalize(job_schema, sent).obj, normalize(job_schema, sent).obj
    first["spec"]["raw"]["a"].append(2)
    first["spec"]["selector"]["d"] = "e"
    first["spec"]["policy"]["limit"] = 0
    first["spec"]["containers"][0]["args"].append("y")
    assert second == normalize(job_schema, sent).obj
    assert sent == job(raw={"a": [1]}, selector={"b": "c"}, containers=[{"args": ["x"]}])


def test_duplicate_fields_are_named() -> None:
    raw = (
        '{"kind":"Job","kind":"Job","metadata":{"labels":{"x":"1","x":"2"}},'
        '"spec":{"containers":[{"name":"c","name":"c","limits":{"cpu":1,"cpu":2}}],"foo":1,"foo":2}}'
    )
    known = ["kind", "metadata.labels.x", "spec.containers[0].name", "spec.containers[0].limits.cpu"]
    schema = SchemaSet(TYPES.__getitem__).named("k8s.v1.Job")
    assert duplicate_fields(raw, schema) == known
    assert duplicate_fields(raw) == [*known, "spec.foo"]
    assert duplicate_fields('{"a":{"b":1}}') == []


def test_strict_refusal() -> None:
    assert strict_messages(["kind"], ["spec.foo", "spec.bar"]) == [
        'duplicate field "kind"',
        'unknown field "spec.foo"',
        'unknown field "spec.bar"',
    ]


def test_at_most_a_hundred_problems_are_told(job_schema: Schema) -> None:
    assert len(normalize(job_schema, job(**{f"x{n}": n for n in range(150)})).unknown) == 100


TEXT = st.text("ab", max_size=2)
CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | TEXT,
        "args": st.none() | st.lists(st.none() | TEXT, max_size=2),
        "port": st.integers(0, 9) | TEXT,
        "limits": st.none() | st.dictionaries(TEXT, st.sampled_from(["1", "0.5", "1e3", 3, "1500Mi", "12345678n"])),
        "extra": st.integers(),
    },
)
SPECS = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "parallelism": st.none() | st.integers(0, 3),
            "big": st.integers(0, 2),
            "mode": TEXT,
            "containers": st.none() | st.lists(st.none() | CONTAINERS, max_size=3),
            "raw": st.dictionaries(TEXT, st.none() | st.integers()),
            "policy": st.none() | st.fixed_dictionaries({}, optional={"limit": st.integers(0, 2), "how": TEXT}),
            "child": SPECS,
        },
    )
)


@given(SPECS)
def test_normalising_twice_is_normalising_once(spec: dict[str, Any]) -> None:
    schema = SchemaSet(TYPES.__getitem__).named("k8s.v1.Job")
    once = normalize(schema, job(**spec))
    twice = normalize(schema, once.obj)
    assert twice.obj == once.obj
    assert twice.unknown == []
