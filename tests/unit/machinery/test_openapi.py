"""OpenAPI documents: what clients look up in them must be there, and every reference must lead somewhere."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpuaas.api.kinds import Kind, Scale
from gpuaas.machinery.openapi import group_version_path, schema_name, v2_document, v3_document, v3_index

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
REF = "#/components/schemas/"
SCHEMAS: dict[str, Any] = {
    "io.k8s.api.batch.v1.Job": {
        "type": "object",
        "description": "A job.",
        "x-gpuaas-zero": "always",
        "properties": {
            "metadata": {"default": {}, "allOf": [{"$ref": f"{REF}{META}ObjectMeta"}]},
            "spec": {"allOf": [{"$ref": f"{REF}io.k8s.api.batch.v1.JobSpec"}], "x-gpuaas-zero": "always"},
        },
    },
    "io.k8s.api.batch.v1.JobSpec": {
        "type": "object",
        "properties": {
            "self": {"$ref": f"{REF}io.k8s.api.batch.v1.JobSpec"},
            "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "$ref": {"type": "string"},
            "not": {"type": "string", "nullable": True},
        },
    },
    f"{META}ObjectMeta": {"type": "object", "properties": {"name": {"type": "string"}}},
    "io.ex.v1.Bar": {"type": "object", "properties": {"spec": {"type": "object"}, "metadata": {"type": "object"}}},
    "io.unused.Thing": {"type": "object"},
}
JOB = Kind("batch", "v1", "Job", "jobs", True, "io.k8s.api.batch.v1.Job", status=True, subresources=("log",))
BAR = Kind("ex.io", "v1", "Bar", "bars", False, "io.ex.v1.Bar", scale=Scale(), verbs=("get", "list", "create", "patch"))


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return v3_document([JOB], SCHEMAS.__getitem__)


@pytest.fixture(scope="module")
def custom() -> dict[str, Any]:
    return v3_document([BAR], SCHEMAS.__getitem__)


def strings(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield key, value
            yield from strings(value)
    elif isinstance(part, list):
        for item in part:
            yield from strings(item)


def test_the_paths_of_a_kind(job: dict[str, Any]) -> None:
    base = "/apis/batch/v1/namespaces/{namespace}/jobs"
    methods = {path: sorted(set(item) - {"parameters"}) for path, item in job["paths"].items()}
    watch = "/apis/batch/v1/watch/namespaces/{namespace}/jobs"
    assert methods == {
        "/apis/batch/v1/": ["get"],
        "/apis/batch/v1/jobs": ["get"],
        "/apis/batch/v1/watch/jobs": ["get"],
        watch: ["get"],
        f"{watch}/{{name}}": ["get"],
        base: ["delete", "get", "post"],
        f"{base}/{{name}}": ["delete", "get", "patch", "put"],
        f"{base}/{{name}}/log": ["get"],
        f"{base}/{{name}}/status": ["get", "patch", "put"],
    }


def test_only_what_a_kind_can_is_offered(custom: dict[str, Any]) -> None:
    methods = {path: sorted(set(item) - {"parameters"}) for path, item in custom["paths"].items()}
    assert methods == {
        "/apis/ex.io/v1/bars": ["get", "post"],
        "/apis/ex.io/v1/bars/{name}": ["get", "patch"],
        "/apis/ex.io/v1/bars/{name}/scale": ["get", "patch"],
    }


def test_kubectl_finds_the_kind_and_field_validation_at_patch(job: dict[str, Any]) -> None:
    patch = job["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert patch["x-kubernetes-action"] == "patch"
    assert patch["operationId"] == "patchBatchV1NamespacedJob"
    assert "fieldValidation" in [each["name"] for each in patch["parameters"] if each["in"] == "query"]


@pytest.mark.parametrize(("name", "takes"), [("job", True), ("custom", False)])
def test_only_built_in_kinds_take_strategic_merge_patches(
    name: str, takes: bool, request: pytest.FixtureRequest
) -> None:
    document = request.getfixturevalue(name)
    patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
    types = patches[0]["requestBody"]["content"]
    assert ("application/strategic-merge-patch+json" in types) is takes
    assert {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"} <= set(types)


def test_explain_finds_a_schema_by_its_kind(custom: dict[str, Any]) -> None:
    schemas = custom["components"]["schemas"]
    assert schemas["io.ex.v1.Bar"]["x-kubernetes-group-version-kind"] == [
        {"group": "ex.io", "kind": "Bar", "version": "v1"}
    ]
    assert schemas["io.ex.v1.BarList"]["x-kubernetes-group-version-kind"] == [
        {"group": "ex.io", "kind": "BarList", "version": "v1"}
    ]
    assert schemas["io.ex.v1.Bar"]["properties"]["metadata"]["allOf"] == [{"$ref": f"{REF}{META}ObjectMeta"}]
    assert {"apiVersion", "kind", "spec"} <= set(schemas["io.ex.v1.Bar"]["properties"])


@pytest.mark.parametrize("name", ["job", "custom"])
def test_every_reference_leads_somewhere_and_nothing_is_left_over(name: str, request: pytest.FixtureRequest) -> None:
    document = request.getfixturevalue(name)
    referred = {value.removeprefix(REF) for key, value in strings(document) if key == "$ref" and isinstance(value, str)}
    assert referred == set(document["components"]["schemas"])


@pytest.mark.parametrize("name", ["job", "custom"])
def test_our_own_notes_are_not_published(name: str, request: pytest.FixtureRequest) -> None:
    document = request.getfixturevalue(name)
    assert [key for key, _ in strings(document) if key.startswith("x-gpuaas")] == []
    assert SCHEMAS["io.k8s.api.batch.v1.Job"]["x-gpuaas-zero"] == "always"  # ours are not touched


def test_the_index_names_documents_by_their_hash() -> None:
    value = "A1B2"
    assert v3_index({"apis/batch/v1": value}, prefix="/clusters/hub") == {
        "paths": {"apis/batch/v1": {"serverRelativeURL": f"/clusters/hub/openapi/v3/apis/batch/v1?hash={value}"}}
    }


def test_names() -> None:
    assert schema_name("kueue.x-k8s.io", "v1beta1", "Workload") == "io.x-k8s.kueue.v1beta1.Workload"
    assert group_version_path("", "v1") == "api/v1"
    assert group_version_path("batch", "v1") == "apis/batch/v1"


def test_swagger_can_name_a_kind_without_describing_it() -> None:
    document = v2_document([JOB], SCHEMAS.__getitem__, by_name=[BAR])
    assert document["definitions"]["io.ex.v1.Bar"] == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "ex.io", "kind": "Bar", "version": "v1"}],
    }
    assert not [path for path in document["paths"] if "ex.io" in path]


KEEPING = {"x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
        ({"type": "object", "properties": {"a": TEXT}, **KEEPING}, KEEPING),
        ({"type": "array", "items": {"type": "object", **KEEPING}}, {"type": "array", "items": KEEPING}),
        ({"type": "object", "properties": {"a": TEXT}, "nullable": True}, {}),
        ({"type": "array"}, {}),
        (
            {"type": "object", "additionalProperties": {**TEXT, "nullable": True}},
            {"type": "object", "additionalProperties": {}},
        ),
        (
            {"type": "object", "properties": {"a": TEXT, "b": {**TEXT, "nullable": True}}, "required": ["a", "b"]},
            {"type": "object", "properties": {"a": TEXT, "b": {}}, "required": ["a"]},
        ),
        ({**TEXT, "anyOf": [{"minLength": 1}], "not": {"maxLength": 1}}, TEXT),
    ],
)
def test_swagger_leaves_open_what_kubectl_would_refuse(described: dict[str, Any], told: dict[str, Any]) -> None:
    schemas = SCHEMAS | {"io.ex.v1.Bar": {"type": "object", "properties": {"spec": described}}}
    document = v2_document([BAR], schemas.__getitem__)
    assert document["definitions"]["io.ex.v1.Bar"]["properties"]["spec"] == told


def test_swagger_only_names_a_custom_resource_that_keeps_what_is_unknown() -> None:
    schemas = SCHEMAS | {"io.ex.v1.Bar": {"type": "object", "properties": {"a": TEXT}, **KEEPING}}
    document = v2_document([BAR], schemas.__getitem__)
    assert set(document["definitions"]["io.ex.v1.Bar"]) == {"type", "x-kubernetes-group-version-kind"}


def test_swagger_has_plain_references_and_no_alternatives() -> None:
    document = v2_document([JOB, BAR], SCHEMAS.__getitem__)
    definitions = document["definitions"]
    spec = definitions["io.k8s.api.batch.v1.JobSpec"]["properties"]
    assert definitions["io.k8s.api.batch.v1.Job"]["properties"]["metadata"] == {
        "$ref": f"#/definitions/{META}ObjectMeta"
    }
    assert spec["port"] == {"type": "string", "format": "int-or-string"}
    assert spec["$ref"] == {"type": "string"}  # a field may be called like a keyword
    assert spec["not"] == {"type": "string"}
    create = document["paths"]["/apis/ex.io/v1/bars"]["post"]
    assert create["parameters"][0] == {
        "name": "body",
        "in": "body",
        "schema": {"$ref": "#/definitions/io.ex.v1.Bar"},
        "required": True,
    }
    assert create["responses"]["201"]["schema"] == {"$ref": "#/definitions/io.ex.v1.Bar"}
    referred = {value for key, value in strings(document) if key == "$ref" and isinstance(value, str)}
    assert referred == {f"#/definitions/{name}" for name in definitions}


def test_a_document_without_types_says_nothing_of_them() -> None:
    assert list(v3_document([], SCHEMAS.__getitem__)["components"]) == ["securitySchemes"]
