"""What an object says it is, and what is told first where more is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import APPLY, MAPS, MERGE, STRATEGIC, Api, config_map

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PINS = "/apis/types.example/v1/namespaces/default/pins"
PIN = {"apiVersion": "types.example/v1", "kind": "Pin"}


@pytest.fixture(scope="module", autouse=True)
def pins(api: Api) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "pins", "singular": "pin", "kind": "Pin"}
    spec = {"group": "types.example", "scope": "Namespaced", "names": names, "versions": [version]}
    assert api.send("POST", DEFINITIONS, {"metadata": {"name": "pins.types.example"}, "spec": spec}).status == 201
    assert api.send("POST", PINS, {**PIN, "metadata": {"name": "a"}}).status == 201
    assert api.send("POST", MAPS, config_map("typed")).status == 201


CREATED: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    # metadata comes before the kind
    (PINS, {"kind": "Other", "metadata": []}, 400, "cannot unmarshal array into Go value of type v1.ObjectMeta"),
    (PINS, {"kind": "Other", "metadata": {"labels": {"a": 5}}}, 400, "Other in version"),
    (PINS, {"apiVersion": "x/v1", "metadata": {"finalizers": "x"}}, 400, "ObjectMeta.finalizers of type []string"),
    # the kind before everything else of a custom resource
    (PINS, {"kind": "Other", "metadata": {"name": "b"}, "spec": 5}, 422, "must be Pin"),
    (PINS, {"apiVersion": "x/v1", "metadata": {"name": "b"}}, 400, "the API version in the data (x/v1)"),
    (PINS, {"kind": "", "metadata": {"name": "b"}}, 400, "Object 'Kind' is missing in"),
    (PINS, {"kind": None, "metadata": {"labels": 5}}, 400, "Object 'Kind' is missing in"),
    (PINS, {"apiVersion": "a/b/c", "metadata": 5}, 400, "unexpected GroupVersion string: a/b/c"),
    # another built-in kind is read as itself
    (MAPS, {"apiVersion": "v1", "kind": "Secret", "data": 5}, 400, "Secret.data of type map[string][]uint8"),
    (MAPS, {"apiVersion": "v1", "kind": "Secret"}, 400, "converting (v1.Secret) to (core.ConfigMap)"),
    (MAPS, {"apiVersion": "v1", "kind": "Nothing", "metadata": 5}, 400, 'no kind "Nothing" is registered'),
    (MAPS, {"apiVersion": "a/b/c", "kind": "ConfigMap"}, 400, "unexpected GroupVersion string: a/b/c"),
)


@pytest.mark.parametrize(("path", "said", "code", "words"), CREATED)
def test_what_is_told_first_of_a_new_object(api: Api, path: str, said: dict[str, Any], code: int, words: str) -> None:
    body = {**(PIN if path == PINS else {}), **said}
    answer = api.send("POST", path, body)
    assert (answer.status, words in answer.body["message"]) == (code, True), answer.body


PATCHED: tuple[tuple[str, dict[str, Any], str, int, str], ...] = (
    (f"{PINS}/a", {"kind": "Other"}, MERGE, 422, "must be Pin"),
    (f"{PINS}/a", {"apiVersion": "v1", "kind": "Other"}, MERGE, 422, "must be types.example/v1"),
    (f"{PINS}/a", {"kind": "Other", "metadata": {"name": "b"}}, MERGE, 400, "does not match the name on the URL"),
    (f"{PINS}/a", {"kind": "Other", "metadata": {"labels": {"a": 5}}}, MERGE, 422, "ObjectMeta.labels of type string"),
    (f"{PINS}/a", {"kind": None}, MERGE, 422, "Object 'Kind' is missing in '{"),
    (f"{PINS}/a", {"apiVersion": None}, MERGE, 400, "Object 'apiVersion' is missing"),
    (f"{PINS}/a", {"metadata": {"resourceVersion": None}}, MERGE, 422, "must be specified for an update"),
    (f"{PINS}/a", {**PIN, "metadata": 5}, APPLY, 400, ".metadata: expected map, got &{5}"),
    (f"{PINS}/a", {"apiVersion": "a/b/c", "kind": "Pin"}, APPLY, 400, "invalid object type: /, Kind="),
    (f"{MAPS}/typed", {"apiVersion": "v1", "kind": "Secret", "data": {"a": 5}}, MERGE, 422, "of type []uint8"),
    (f"{MAPS}/typed", {"apiVersion": "a/b/c"}, MERGE, 422, "unexpected GroupVersion string: a/b/c"),
    (f"{MAPS}/typed", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}, APPLY, 400, "expected map, got"),
)


@pytest.mark.parametrize(("path", "patch", "form", "code", "words"), PATCHED)
def test_what_is_told_first_of_a_patch(
    api: Api, path: str, patch: dict[str, Any], form: str, code: int, words: str
) -> None:
    answer = api.send("PATCH", path, patch, form, fieldManager="m")
    assert (answer.status, words in answer.body["message"]) == (code, True), answer.body


def test_a_strategic_patch_is_not_asked_what_it_makes_of_kind_and_version(api: Api) -> None:
    answer = api.send("PATCH", f"{MAPS}/typed", {"kind": "Other", "apiVersion": "x", "data": {"a": "b"}}, STRATEGIC)
    assert (answer.status, answer.body["kind"], answer.body["data"]) == (200, "ConfigMap", {"a": "b"})


def test_an_update_asks_for_the_revision_before_it_looks_at_the_kind(api: Api) -> None:
    other = {**PIN, "kind": "Other", "metadata": {"name": "a"}}
    assert "must be specified for an update" in api.send("PUT", f"{PINS}/a", other).body["message"]
    revision = api.send("GET", f"{PINS}/a").body["metadata"]["resourceVersion"]
    told = api.send("PUT", f"{PINS}/a", {**other, "metadata": {"name": "a", "resourceVersion": revision}})
    assert (told.status, "must be Pin" in told.body["message"]) == (422, True)
