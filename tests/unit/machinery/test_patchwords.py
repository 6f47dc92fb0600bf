"""A patch that leaves no object of its kind is refused in the words of the code Kubernetes reads it with."""

import pytest

from gpuaas.api.kubernetes.schemas import schema_source
from gpuaas.machinery.patchwords import patched_text, restoring_problem
from gpuaas.machinery.schema.model import SchemaSet

FIELD = "json: cannot unmarshal {} into Go struct field DeploymentSpec.spec.x of type {}"


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        ("string", "int32", "unrecognized type: int32"),
        ("bool", "string", "unrecognized type: string"),
        ("number", "string", "cannot convert int64 to string"),
        ("string", "map[string]string", "cannot restore map from string"),
        ("object", "[]v1.Container", "cannot restore slice from map"),
        ("array", "v1.PodSpec", "cannot restore struct from: slice"),
    ],
)
def test_a_value_of_the_wrong_type_in_a_strategic_patch(found: str, wanted: str, words: str) -> None:
    assert restoring_problem(FIELD.format(found, wanted)) == words


def test_other_sentences_stay_as_they_are() -> None:
    assert restoring_problem('strict decoding error: unknown field "spec.x"') == (
        'strict decoding error: unknown field "spec.x"'
    )


def test_the_result_of_a_patch_shows_maps_sorted_and_metadata_in_its_order() -> None:
    schema = SchemaSet(schema_source).named("io.k8s.api.core.v1.ConfigMap")
    patched = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"z": "1", "b": "2"}},
        "data": {"z": "4", "n": 1},
    }
    assert patched_text(patched, schema, {}) == (
        '{"apiVersion":"v1","data":{"n":1,"z":"4"},"kind":"ConfigMap",'
        '"metadata":{"name":"a","labels":{"b":"2","z":"1"}}}'
    )
