"""Bodies that are sent to do harm: bombs, depth, half characters, wrong types; each gets an answer, none costs much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import APPLY, JSON_PATCH, MAPS, MERGE, YAML, Api, config_map

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = "/apis/hostile.example/v1/namespaces/default/anythings"


@pytest.fixture(scope="module", autouse=True)
def anything(api: Api) -> None:
    """A kind that takes whatever it is given."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "anythings", "singular": "anything", "kind": "Anything"}
    spec = {"group": "hostile.example", "scope": "Namespaced", "names": names, "versions": [version]}
    assert (
        api.send("POST", DEFINITIONS, {"metadata": {"name": "anythings.hostile.example"}, "spec": spec}).status == 201
    )


def thing(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": "hostile.example/v1", "kind": "Anything", "metadata": {"name": name}, "spec": spec}


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("depth", [250, 900, 5_000, 200_000])
@pytest.mark.parametrize("content", ["application/json", YAML, MERGE, APPLY])
def test_what_is_nested_too_deep_is_refused(api: Api, depth: int, content: str) -> None:
    method, path = ("POST", ANYTHING) if content in ("application/json", YAML) else ("PATCH", f"{ANYTHING}/x")
    api.send("POST", ANYTHING, thing("x", {}))
    body = (
        '{"apiVersion":"hostile.example/v1","kind":"Anything","metadata":{"name":"deep"},"spec":' + nested(depth) + "}"
    )
    answer = api.send(method, path, body, content, fieldManager="x")
    assert answer.status == 400, answer


def test_ordinary_depth_is_kept(api: Api) -> None:
    spec = json.loads(nested(150))
    assert api.send("POST", ANYTHING, thing("fine", spec)).status == 201
    assert api.send("GET", f"{ANYTHING}/fine").body["spec"] == spec


def test_aliases_that_unfold_are_refused(api: Api) -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
    )
    answer = api.send("POST", MAPS, bomb, YAML)
    assert answer.status == 400
    assert "excessive aliasing" in answer.message
    assert "200000 values, which is the limit" in answer.message


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "!!int x", "!!timestamp x", "!!python/object:os.system {}", "!!binary a", "? [a]\n: b", "<<: [1]", "x: 0x" + "f" * 6000, "- " * 3000, "a: 1e999999"])  # fmt: skip
@pytest.mark.parametrize("validation", ["Strict", "Ignore"])
def test_yaml_that_is_no_object_is_the_clients_mistake(api: Api, text: str, validation: str) -> None:
    assert api.send("POST", MAPS, text, YAML, fieldValidation=validation).status in (400, 422)


@pytest.mark.parametrize("escape", ["\\ud800", "\\uDC00", "\\ud800\\ud800", "\\ud83d"])
def test_half_characters_are_replaced_as_go_does(api: Api, escape: str) -> None:
    name = f"half-{escape.lower().replace(chr(92), '')}"
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"<{escape}>"}}}}'
    made = api.send("POST", MAPS, body)
    assert made.status == 201
    assert made.body["data"]["a"] == "<" + "\ufffd" * escape.count("\\") + ">"


def test_whole_characters_and_escaped_backslashes_stay(api: Api) -> None:
    made = api.send("POST", MAPS, '{"metadata":{"name":"whole"},"data":{"a":"\\ud83d\\ude00 \\\\ud800"}}')
    assert made.body["data"]["a"] == "\U0001f600 \\ud800"


def test_a_json_patch_cannot_double_itself_for_ever(api: Api) -> None:
    api.send("POST", ANYTHING, thing("bomb", {"a": "x" * 100}))
    patch = [{"op": "copy", "from": "/spec", "path": f"/spec/b{n}"} for n in range(40)]
    assert api.send("PATCH", f"{ANYTHING}/bomb", patch, JSON_PATCH).status == 422
    assert api.send("GET", f"{ANYTHING}/bomb").body["spec"] == {"a": "x" * 100}


def test_an_object_cannot_grow_for_ever_and_a_large_one_can_be_deleted(api: Api) -> None:
    assert api.send("POST", ANYTHING, thing("large", {"a": "x" * 2_400_000})).status == 201
    answer = api.send("PATCH", f"{ANYTHING}/large", {"spec": {"b": "x" * 2_900_000}}, MERGE)
    assert answer.status == 413
    assert api.send("DELETE", f"{ANYTHING}/large").status == 200


@pytest.mark.parametrize("name", [{"a": None}, 3, ["x"], True], ids=str)
def test_a_name_that_is_no_text_is_refused_whatever_kind_comes_with_it(api: Api, name: Any) -> None:
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"name": name}}
    for kind in ("Other", "ResourceFlavor"):
        answer = api.send("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", {**body, "kind": kind})
        assert answer.status in (400, 422)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/kueue.x-k8s.io/v1beta2/resourceflavors", {"spec": 5}),
        ("/apis/kueue.x-k8s.io/v1beta2/resourceflavors", {"spec": {"nodeLabels": ["a"]}}),
        ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", {"spec": {"resourceGroups": {"a": 1}}}),
        ("/apis/kueue.x-k8s.io/v1beta1/clusterqueues", {"spec": {"resourceGroups": ["a"]}}),
        ("/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads", {"spec": {"podSets": [7]}}),
        ("/apis/kueue.x-k8s.io/v1beta2/cohorts", {"spec": [1]}),
    ],
)
def test_a_rule_that_stumbles_over_a_type_lets_the_schema_speak(api: Api, path: str, body: dict[str, Any]) -> None:
    answer = api.send("POST", path, {"metadata": {"name": "wrong"}, **body})
    assert answer.status == 422
    assert "Invalid value" in answer.message
    assert "must be of type" in answer.message


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/none/scale", {"metadata": []}),
        ("POST", "/api/v1/namespaces/default/pods/none/eviction", {"metadata": []}),
        ("POST", "/api/v1/namespaces/default/pods/none/binding", {"target": []}),
        ("POST", "/api/v1/namespaces/default/bindings", {"metadata": {"name": "none"}, "target": 5}),
        ("POST", "/api/v1/namespaces/default/bindings", {"metadata": []}),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/none/token", {"spec": []}),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": []}),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": 5}}),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "a", "labels": [], "finalizers": {}}}),
        ("DELETE", f"{MAPS}/none", {"preconditions": []}),
        ("DELETE", f"{MAPS}/none", {"gracePeriodSeconds": "x"}),
        ("DELETE", f"{MAPS}/none", []),
    ],
)  # fmt: skip
def test_wrong_types_around_the_object_are_the_clients_mistake(api: Api, method: str, path: str, body: Any) -> None:
    answer = api.send(method, path, body)
    assert 400 <= answer.status < 500, answer


def test_apply_needs_a_type_that_is_text(api: Api) -> None:
    body = {"apiVersion": ["v1"], "kind": "ConfigMap", "metadata": {"name": "typed"}}
    assert api.send("PATCH", f"{MAPS}/typed", body, APPLY, fieldManager="x").status == 400


@pytest.mark.parametrize("schema", [{"allOf": ["x"]}, {"oneOf": [5]}, {"properties": {"a": "x"}}, {"items": "x", "type": "array"}, {"type": 5}, "x", {"enum": 5}, {"x-kubernetes-validations": "x"}])  # fmt: skip
def test_a_schema_of_wrong_types_is_the_clients_mistake(api: Api, schema: Any) -> None:
    whole = {"type": "object", "properties": {"spec": schema}} if schema != "x" else schema
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    names = {"plural": "odds", "singular": "odd", "kind": "Odd"}
    spec = {"group": "hostile.example", "scope": "Namespaced", "names": names, "versions": [version]}
    answer = api.send("POST", DEFINITIONS, {"metadata": {"name": "odds.hostile.example"}, "spec": spec})
    assert answer.status in (400, 422), answer


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "POST"])
@pytest.mark.parametrize("path", ["*", "", "api", "//", "/..", "/%", "/\x00", "/api/v1/namespaces/%2e%2e/pods"])
def test_odd_paths_have_an_answer(api: Api, method: str, path: str) -> None:
    assert api.send(method, path).status in (200, 400, 404, 405)


def test_what_a_warning_repeats_cannot_break_the_header(api: Api) -> None:
    body = {**config_map("warned"), "x\r\ninjected: yes\x00\x0b": 1}
    made = api.send("POST", MAPS, body, fieldValidation="Warn")
    assert made.status == 201
    assert all(char.isprintable() for char in made.warnings[0])


def test_a_long_list_as_yaml_is_still_yaml_and_quick(api: Api) -> None:
    """Written line by line a long list took ten seconds, and nobody else was served meanwhile."""
    import yaml

    short = api.send("GET", MAPS, headers={"accept": "application/yaml"})
    assert yaml.safe_load(short.body)["kind"] == "ConfigMapList"
    for number in range(2):
        assert api.send("POST", MAPS, config_map(f"long-{number}", text="x" * 200_000)).status == 201
    answer = api.send("GET", MAPS, headers={"accept": "application/yaml"})
    assert answer.status == 200
    assert answer.body.startswith('{"kind":'), "JSON is YAML, too"
    for number in range(2):
        assert api.send("DELETE", f"{MAPS}/long-{number}").status == 200


def test_what_would_become_too_large_is_refused_before_anybody_reads_it_closely(api: Api) -> None:
    containers = [{"name": f"Not A Name {at}", "image": "i"} for at in range(20_000)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crowd"}, "spec": {"containers": containers}}
    path = "/api/v1/namespaces/default/pods"
    assert api.send("POST", path, pod).status == 413
    assert api.send("PATCH", f"{path}/crowd", pod, APPLY, fieldManager="x").status == 413
    few = {**pod, "spec": {"containers": containers[:2]}}
    assert api.send("POST", path, few).status == 422


def test_thousands_of_managers_become_ten(api: Api) -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    managers = [{**entry, "manager": f"m{at}", "fieldsV1": {"f:data": {f"f:k{at}": {}}}} for at in range(5_000)]
    made = api.send("POST", MAPS, {"metadata": {"name": "crowded", "managedFields": managers}, "data": {"a": "b"}})
    assert (made.status, len(made.body["metadata"]["managedFields"])) == (201, 10)


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5_000, "1_0", " 1", "१", "0x1", "--1"])
@pytest.mark.parametrize("option", ["resourceVersion", "limit"])
def test_a_number_that_is_none_or_too_long_is_refused(api: Api, option: str, number: str) -> None:
    refused = api.send("GET", MAPS, **{option: number})
    assert refused.status == 400
    assert ("value out of range" if number.startswith("9") else "invalid syntax") in refused.message


def test_an_index_of_thousands_of_digits_is_refused(api: Api) -> None:
    api.send("POST", MAPS, config_map("indexed"))
    listed = {"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}
    beyond = {"op": "remove", "path": "/metadata/finalizers/" + "9" * 5_000}
    assert api.send("PATCH", f"{MAPS}/indexed", [listed, beyond], JSON_PATCH).status == 422


LISTS = (
    ("limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    ("timeoutSeconds=abc", 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
    ("limit=1;x=2", 200, ""),
    ("limit=%zz", 200, ""),
    ("fieldSelector==", 200, ""),
    ("fieldSelector=metadata.name=%5C", 400, "invalid escape sequence"),
    ("continue=%00", 400, "illegal base64 data at input byte 0"),
    ("continue=W10=", 400, "illegal base64 data at input byte 3"),
    ("continue=bnVsbA", 400, "server does not recognize this encoded version"),
    ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhIn0", 400, "encoded version meta.k8s.io/v2"),
    ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", 400, "encoded start key empty"),
    ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vLi4veCJ9", 400, "not valid: /../../x"),
    ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9", 200, ""),
)


@pytest.mark.parametrize(("query", "code", "words"), LISTS)
def test_odd_queries_of_lists(api: Api, query: str, code: int, words: str) -> None:
    answer = api.ask_as_written("GET", MAPS, query)
    assert (answer.status, words in answer.body.get("message", "")) == (code, True), answer


@pytest.mark.parametrize("content", ["text/json", "text/yaml", "application/x-yaml", ";", "application/xml"])
def test_bodies_of_other_media_types_are_not_read(api: Api, content: str) -> None:
    assert api.send("POST", MAPS, config_map("media"), content).status == 415


def test_what_came_twice_is_told_also_of_an_object_that_does_not_say_what_it_is(api: Api) -> None:
    body = '{"metadata":{"name":"x"},"metadata":{"name":"twice"}}'
    assert api.send("POST", MAPS, body, fieldValidation="Strict").status == 400
    assert api.send("POST", MAPS, body, dryRun="All").warnings == ['"duplicate field \\"metadata\\""']


@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_numbers_nobody_can_write_down_again_are_refused(api: Api, number: str) -> None:
    body = json.dumps(thing("endless", {"n": 5})).replace("5", number)
    assert api.send("POST", ANYTHING, body).status == 400
    api.send("POST", ANYTHING, thing("finite", {"n": 5}))
    assert api.send("PATCH", f"{ANYTHING}/finite", f'{{"spec":{{"n":{number}}}}}', MERGE).status in (400, 422)
    assert api.send("GET", f"{ANYTHING}/finite").body["spec"] == {"n": 5}


@pytest.mark.parametrize(("text", "number"), [("1e5", 100_000), ("1E-1", 0.1), (".5e1", 5), ("0.1e1", 1)])
def test_exponents_in_yaml_need_neither_point_nor_sign(api: Api, text: str, number: float) -> None:
    body = f"apiVersion: hostile.example/v1\nkind: Anything\nmetadata: {{name: e}}\nspec: {{size: {text}}}"
    assert api.send("POST", ANYTHING, body, YAML, dryRun="All").body["spec"] == {"size": number}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b"{}", "expected prefix [107 56 115 0]"),
    ],
)
def test_what_is_no_protobuf_is_told_so(api: Api, body: bytes, words: str) -> None:
    answer = api.send("POST", MAPS, body, "application/vnd.kubernetes.protobuf")
    assert (answer.status, words in answer.message) == (400, True), answer


def test_a_path_that_means_no_object_is_refused(api: Api) -> None:
    answer = api.send("GET", f"{MAPS}/..")
    assert (answer.status, answer.message) == (400, "Name parameter invalid: \"..\": may not be '..'")
