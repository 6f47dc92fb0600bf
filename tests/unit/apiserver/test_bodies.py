"""What a client sends is read as Kubernetes reads it, and refused in its words."""

from typing import Any

import pytest
from tests.unit.apiserver.conftest import APPLY, JSON_PATCH, MAPS, MERGE, STRATEGIC, YAML, Api, config_map

UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
PARSE = UNRECOGNIZED + "couldn't get version/kind; json parse error: "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", PARSE + "unexpected end of JSON input (<empty>)"),
        ("{", PARSE + "unexpected end of JSON input ({)"),
        ("not json", PARSE + "invalid character 'o' in literal null (expecting 'u') (6e6f74206a736f6e)"),
        ("{}{}", PARSE + "invalid character '{' after top-level value ({}{})"),
        ('{"kind":5}', PARSE + 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})'),
    ],
)
def test_what_is_no_object_is_refused(api: Api, body: str, message: str) -> None:
    answer = api.send("POST", MAPS, body)
    assert (answer.status, answer.message) == (400, message)


def test_nothing_is_an_object_without_a_name(api: Api) -> None:
    answer = api.send("POST", MAPS, "null")
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "metadata.name")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Secret"}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (
            {"apiVersion": "v2"},
            'no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_another_kind_is_not_taken_for_this_one(api: Api, change: dict[str, Any], message: str) -> None:
    answer = api.send("POST", MAPS, {**config_map("a"), **change})
    assert answer.status == 400
    assert answer.message.endswith(message)


def test_yaml_is_read_with_its_words_for_yes(api: Api) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata: {y: '1'}\n"
    assert api.send("POST", MAPS, text, YAML).body["data"] == {"true": "1"}


def test_broken_yaml_is_refused_with_its_line(api: Api) -> None:
    answer = api.send("POST", MAPS, "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", YAML)
    assert answer.message.startswith(UNRECOGNIZED + "yaml: line 3: did not find expected node content (")


@pytest.mark.parametrize(
    ("level", "status", "warnings"),
    [
        (None, 201, ['"duplicate field \\"data.a\\""']),
        ("Warn", 201, ['"duplicate field \\"data.a\\""']),
        ("Ignore", 201, []),
        ("Strict", 400, []),
    ],
)
def test_a_key_that_came_twice_is_told(api: Api, level: str | None, status: int, warnings: list[str]) -> None:
    twice = '{"apiVersion": "v1", "kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}'
    answer = api.send("POST", MAPS, twice, fieldValidation=level, dryRun="All")
    assert (answer.status, answer.warnings) == (status, warnings)


def test_unknown_and_double_fields_are_told_in_the_order_of_the_text(api: Api) -> None:
    start = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"order"},'
    for text, words in (
        ('"new":1,"data":{"a":"1","a":"2"}}', 'unknown field "new", duplicate field "data.a"'),
        ('"data":{"a":"1","a":"2"},"new":1}', 'duplicate field "data.a", unknown field "new"'),
    ):
        answer = api.send("POST", MAPS, start + text, fieldValidation="Strict")
        assert answer.message.endswith(f"strict decoding error: {words}")


def test_a_key_that_came_twice_in_an_applied_yaml_is_told_with_its_line(api: Api) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lines}\ndata:\n  a: '1'\n  a: '2'\n"
    answer = api.send("PATCH", f"{MAPS}/lines", text, APPLY, fieldManager="m", fieldValidation="Strict")
    assert answer.status == 400
    assert 'line 6: key "a" already set in map' in answer.message


def test_a_review_is_no_table(api: Api) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert api.send("POST", path, body, headers={"accept": table}).status == 406
    assert api.send("POST", path, body, headers={"accept": f"{table},application/json"}).status == 201


def test_a_refused_write_still_warns(api: Api) -> None:
    api.send("POST", MAPS, {**config_map("fixed", a="1"), "immutable": True})
    answer = api.send("PATCH", f"{MAPS}/fixed", '{"data":{"a":"1","a":"2"}}', MERGE)
    assert (answer.status, answer.warnings) == (422, ['"duplicate field \\"data.a\\""'])


@pytest.mark.parametrize(
    ("content", "body", "message"),
    [
        (MERGE, "{", "error decoding patch: unexpected end of JSON input"),
        (JSON_PATCH, "", "error decoding patch: unexpected end of JSON input"),
        (STRATEGIC, "{", "unexpected end of JSON input"),
        (
            APPLY,
            "a: [b",
            "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'",
        ),
        (APPLY, "{}", "invalid object type: /, Kind="),
        ("text/plain", "{}", "415: Unsupported Media Type"),
    ],
)
def test_a_patch_nobody_can_read(api: Api, content: str, body: str, message: str) -> None:
    api.send("POST", MAPS, config_map("patched"))
    answer = api.send("PATCH", f"{MAPS}/patched", body, content, fieldManager="me")
    assert answer.message == message


def test_a_patch_that_leaves_a_broken_object_is_quoted_with_what_it_would_leave(api: Api) -> None:
    api.send("POST", MAPS, config_map("quoted"))
    answer = api.send("PATCH", f"{MAPS}/quoted", {"data": [1]}, MERGE)
    cause = answer.body["details"]["causes"][0]
    assert (answer.status, cause["field"]) == (422, "patch")
    assert cause["message"].endswith(
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"
    )


@pytest.mark.parametrize(
    ("accept", "status"),
    [("*/*", 200), ("application/xml, application/json;q=0.5", 200), ("application/*", 406), ("text/html", 406),
     ("application/json;as=Table;g=meta.k8s.io;v=v9", 406), ("application/json;as=Table;g=meta.k8s.io;v=v1", 200)],
)  # fmt: skip
def test_the_form_of_the_answer(api: Api, accept: str, status: int) -> None:
    assert api.send("GET", MAPS, headers={"accept": accept}).status == status
