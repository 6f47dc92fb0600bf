"""Subresources take what is theirs, from the verbs they offer, for the object they belong to."""

from typing import Any

import pytest
from tests.unit.apiserver.conftest import JSON_PATCH, MAPS, MERGE, YAML, Api, config_map

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SPEC = {"containers": [{"name": "c", "image": "x"}]}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture(scope="module", autouse=True)
def _furnished(api: Api) -> None:
    api.send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    assert api.send("POST", PODS, {"metadata": {"name": "p"}, "spec": SPEC}).status == 201
    gated = {**SPEC, "schedulingGates": [{"name": "example.com/g"}]}
    assert api.send("POST", PODS, {"metadata": {"name": "gated"}, "spec": gated}).status == 201
    template = {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
    deployment = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    assert api.send("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": deployment}).status == 201


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{PODS}/p/exec"),
        ("DELETE", f"{PODS}/p/log"),
        ("GET", f"{PODS}/p/eviction"),
        ("PATCH", f"{PODS}/p/binding"),
        ("DELETE", f"{PODS}/p/status"),
        ("POST", f"{DEPLOYMENTS}/d/scale"),
        ("GET", "/api/v1/namespaces/default/finalize"),
    ],
)
def test_a_subresource_answers_only_to_its_verbs(api: Api, method: str, path: str) -> None:
    assert api.send(method, path, "{}" if method != "GET" else None, MERGE).status == 405


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (f"{PODS}/p/eviction", {"kind": "Pod", "apiVersion": "v1"}, 400,
         'Pod in version "v1" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): unknown conversion'),
        (f"{PODS}/p/eviction", {"metadata": {"namespace": "other"}}, 400,
         "the namespace of the provided object does not match the namespace sent on the request"),
        (f"{PODS}/p/eviction", {"metadata": {"name": "q"}}, 400, "name in URL does not match name in Eviction object"),
        (f"{PODS}/p/binding", {"metadata": {"name": "q"}, "target": {"name": "n"}}, 400,
         "name in URL does not match name in Binding object"),
        (f"{PODS}/p/binding", {"target": {}}, 422, 'Binding "p" is invalid: target.name: Required value'),
        (f"{PODS}/gated/binding", {"target": {"name": "n"}}, 409,
         'Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates'),
    ],
)  # fmt: skip
def test_what_is_posted_must_be_for_this_object(
    api: Api, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = api.send("POST", path, body)
    assert (answer.status, answer.message) == (status, message)


@pytest.mark.parametrize("path", [f"{PODS}/p/eviction", f"{PODS}/p/binding"])
def test_a_dry_run_moves_no_pod(api: Api, path: str) -> None:
    before = api.send("GET", f"{PODS}/p").body
    assert api.send("POST", path, {"target": {"name": "n"}}, dryRun="All").status == 201
    assert api.send("GET", f"{PODS}/p").body == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"spec": {"replicas": 1}}, "the name of the object (d based on URL) was undeterminable: name must be provided"),
        ({"metadata": {"name": "e"}}, "the name of the object (e) does not match the name on the URL (d)"),
        ({"kind": "Pod", "apiVersion": "v1"},
         'Pod in version "v1" cannot be handled as a Scale: converting (v1.Pod) to (autoscaling.Scale): unknown conversion'),
    ],
)  # fmt: skip
def test_a_scale_is_of_its_object(api: Api, body: dict[str, Any], message: str) -> None:
    answer = api.send("PUT", f"{DEPLOYMENTS}/d/scale", body)
    assert (answer.status, answer.message) == (400, message)


def test_a_scale_of_the_wrong_type_is_a_wrong_patch(api: Api) -> None:
    answer = api.send("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": "x"}}, MERGE)
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "patch")


def test_who_deletes_a_job_is_told_that_its_pods_stay(api: Api) -> None:
    job = {
        "metadata": {"name": "j"},
        "spec": {"suspend": True, "template": {"spec": {**SPEC, "restartPolicy": "Never"}}},
    }
    assert api.send("POST", JOBS, job).status == 201
    (warning,) = api.send("DELETE", f"{JOBS}/j", dryRun="All").warnings
    assert warning.startswith('"child pods are preserved by default when jobs are deleted')
    assert api.send("DELETE", f"{JOBS}/j", propagationPolicy="Background").warnings == []


def test_an_operation_of_a_json_patch_has_only_known_fields(api: Api) -> None:
    api.send("POST", MAPS, config_map("op", k="1"))
    patch = [{"op": "test", "path": "/data/k", "value": "1", "extra": 1}]
    answer = api.send("PATCH", f"{MAPS}/op", patch, JSON_PATCH)
    assert answer.warnings == ['"json patch unknown field \\"[0].extra\\""']
    assert api.send("PATCH", f"{MAPS}/op", patch, JSON_PATCH, fieldValidation="Strict").status == 422


def test_errors_come_in_the_form_asked_for(api: Api) -> None:
    answer = api.send("GET", f"{MAPS}/nothere", headers={"accept": YAML})
    assert (answer.status, answer.headers["content-type"]) == (404, [YAML])
    assert "reason: NotFound\n" in answer.body


def test_a_watch_is_not_written_in_yaml(api: Api) -> None:
    assert api.send("GET", MAPS, headers={"accept": YAML}, watch="1").status == 406


def test_a_list_is_no_single_object_and_an_object_no_list(api: Api) -> None:
    one = api.send("GET", MAPS, headers={"accept": PARTIAL})
    assert (
        one.message == "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )
    api.send("POST", MAPS, config_map("single"))
    many = api.send("GET", f"{MAPS}/single", headers={"accept": PARTIAL.replace("Metadata;", "MetadataList;")})
    assert many.message.endswith("but the requested object is not a list (*core.ConfigMap)")
    assert (one.status, many.status) == (406, 406)


def test_what_was_deleted_can_be_a_table(api: Api) -> None:
    api.send("POST", MAPS, config_map("rowed"))
    answer = api.send("DELETE", MAPS, headers={"accept": TABLE}, dryRun="All", fieldSelector="metadata.name=rowed")
    assert (answer.body["kind"], [row["cells"][0] for row in answer.body["rows"]]) == ("Table", ["rowed"])


def test_any_revision_means_the_whole_list(api: Api) -> None:
    api.send("POST", MAPS, config_map("one"))
    api.send("POST", MAPS, config_map("two"))
    answer = api.send("GET", MAPS, limit=1, resourceVersion="0").body
    assert len(answer["items"]) > 1
    assert "continue" not in answer["metadata"]


def test_a_log_of_before_is_there_only_where_there_was_a_before(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.parts.cluster, "logs", object())
    pod = {"metadata": {"name": "once"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    assert api.send("POST", PODS, pod).status == 201
    status = {"status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True}]}}
    assert api.send("PATCH", f"{PODS}/once/status", status, MERGE).status == 200
    answer = api.send("GET", f"{PODS}/once/log", previous="true")
    assert (answer.status, answer.message) == (400, 'previous terminated container "c" in pod "once" not found')


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (f"{PODS}/p/exec", "exec is not offered by this server: no node here runs pods yet"),
        ("/api/v1/namespaces/default/services/kubernetes/proxy", "nothing listens behind Service kubernetes"),
    ],
)
def test_who_wants_to_connect_is_told_why_not(api: Api, path: str, says: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.send("POST", PODS, pod)
    answer = api.send("GET", path)
    assert answer.status == 501
    assert says in answer.message
