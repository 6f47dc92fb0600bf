"""How Python types become schemas."""

from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import field

from gpuaas.api.crds import (
    Int32,
    IntOrString,
    Part,
    PodTemplate,
    Quantity,
    Resource,
    Says,
    Time,
    builtin,
    says,
    schema_of,
)
from gpuaas.api.expansion import expand

INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def schema(annotation: Any) -> dict[str, Any]:
    part = type(Part)("Probe", (Part,), {"__annotations__": {"it": annotation}, "it": None})
    found: dict[str, Any] = schema_of(part)["properties"]["it"]
    return found


PLACES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a string": (str, {"type": "string"}),
    "a number of 32 bits": (Int32, {"type": "integer", "format": "int32"}),
    "perhaps nothing": (bool | None, {"type": "boolean"}),
    "one of a few": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "a list": (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
    "a map": (dict[str, Int32], {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}}),
    "a keyed list": (
        Annotated[tuple[str, ...], says(keys=["name"], maxItems=3)],
        {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
    "a rule with its message": (
        Annotated[str, says(rules=[("self == oldSelf", "no")])],
        {"type": "string", "x-kubernetes-validations": [{"message": "no", "rule": "self == oldSelf"}]},
    ),
    "a time": (Time, {"type": "string", "format": "date-time"}),
    "a number or a string": (IntOrString, INT_OR_STRING),
    "an amount": (Annotated[Quantity, says(default=1)], {**INT_OR_STRING, "default": 1}),
    "the last word counts": (
        Annotated[Annotated[str, says(maxLength=1)], says(maxLength=2)],
        {"type": "string", "maxLength": 2},
    ),
}


@pytest.mark.parametrize(("annotation", "expected"), PLACES.values(), ids=PLACES)
def test_a_place(annotation: Any, expected: dict[str, Any]) -> None:
    found = {key: value for key, value in schema(annotation).items() if key != "pattern"}
    assert found == expected


class Inner(Part):
    """Has a description
    on two lines."""

    SCHEMA: ClassVar[Says] = says(map_type="atomic")

    must: str
    may: str = ""
    renamed: str = field(name="clusterIP", default="")
    said: Annotated[str, says(required=True)] = ""


class Outer(Resource):
    spec: Inner
    pods: PodTemplate | None = None


def test_a_part() -> None:
    assert schema_of(Inner) == {
        "type": "object",
        "description": "Has a description on two lines.",
        "properties": {name: {"type": "string"} for name in ("clusterIP", "may", "must", "said")},
        "required": ["must", "said"],
        "x-kubernetes-map-type": "atomic",
    }


def test_a_kind_has_metadata_and_its_parts() -> None:
    found = schema_of(Outer)
    assert list(found["properties"]) == ["apiVersion", "kind", "metadata", "pods", "spec"]
    assert found["properties"]["metadata"] == {"type": "object"}
    assert found["required"] == ["spec"]


def test_a_pod_template_is_written_out() -> None:
    pods = schema_of(Outer)["properties"]["pods"]
    assert sorted(pods["properties"]["metadata"]["properties"]) == [
        "annotations",
        "finalizers",
        "labels",
        "name",
        "namespace",
    ]
    container = pods["properties"]["spec"]["properties"]["containers"]["items"]
    assert container["required"] == ["name"]
    assert container["properties"]["ports"]["items"]["properties"]["protocol"] == {"type": "string", "default": "TCP"}
    limits = container["properties"]["resources"]["properties"]["limits"]["additionalProperties"]
    assert limits["x-kubernetes-int-or-string"]
    secrets = pods["properties"]["spec"]["properties"]["imagePullSecrets"]["items"]
    assert secrets["properties"]["name"] == {"type": "string", "default": ""}


def test_a_type_that_contains_itself_ends() -> None:
    types = {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}}}
    assert expand({"$ref": "#/components/schemas/Tree"}, types.__getitem__) == {
        "type": "object",
        "properties": {"left": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }


def test_a_built_in_type_has_a_name() -> None:
    assert builtin("api.core.v1.Taint").builtin == "io.k8s.api.core.v1.Taint"
