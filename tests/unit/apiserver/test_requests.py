"""Paths, options and verbs, as a client of the real server meets them."""

from typing import Any

import pytest
from tests.unit.apiserver.conftest import APPLY, JSON_PATCH, MAPS, MERGE, YAML, Api, config_map

NOWHERE = "404 page not found\n"
NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize("path", ["/nosuch", "/apis/nosuch.example.com", "/apis/nosuch.example.com/v1/things"])
def test_a_path_nobody_knows_is_answered_in_text(api: Api, path: str) -> None:
    answer = api.send("GET", path)
    assert (answer.status, answer.body) == (404, NOWHERE)


def test_an_unknown_resource_of_a_known_group_is_a_status(api: Api) -> None:
    answer = api.send("GET", "/api/v1/nosuch")
    assert (answer.status, answer.message, answer.body["details"]) == (404, NO_RESOURCE, {})


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", MAPS), ("PATCH", MAPS), ("POST", f"{MAPS}/a"), ("POST", "/api/v1/configmaps"), ("DELETE", "/api/v1/configmaps")],
)  # fmt: skip
def test_what_a_path_does_not_offer(api: Api, method: str, path: str) -> None:
    answer = api.send(method, path, "{}", MERGE if method == "PATCH" else "application/json")
    assert (answer.status, answer.message, answer.body["details"]) == (405, NO_METHOD, {})


@pytest.mark.parametrize(
    ("method", "path", "query", "kind", "message"),
    [
        ("POST", MAPS, {"fieldManager": "x" * 129}, "CreateOptions", "fieldManager: Too long: may not be more than 128 bytes"),
        ("POST", MAPS, {"fieldManager": "a\x07"}, "CreateOptions", 'fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
        ("POST", MAPS, {"dryRun": "Some"}, "CreateOptions", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ("PUT", f"{MAPS}/a", {"fieldValidation": "x"}, "UpdateOptions", 'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"'),
        ("PATCH", f"{MAPS}/a", {"force": "true"}, "PatchOptions", "force: Forbidden: may not be specified for non-apply patch"),
        ("DELETE", f"{MAPS}/a", {"propagationPolicy": "x"}, "DeleteOptions", 'propagationPolicy: Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil"'),
        ("DELETE", f"{MAPS}/a", {"dryRun": "x"}, "DeleteOptions", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        ("GET", MAPS, {"resourceVersionMatch": "Exact"}, "ListOptions", "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("GET", MAPS, {"sendInitialEvents": "true"}, "ListOptions", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ("GET", MAPS, {"watch": "1", "sendInitialEvents": "true"}, "ListOptions", "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ],
)  # fmt: skip
def test_options_are_refused_by_name(
    api: Api, method: str, path: str, query: dict[str, str], kind: str, message: str
) -> None:
    body = None if method in ("GET", "DELETE") else config_map("a")
    answer = api.send(method, path, body, MERGE if method == "PATCH" else "application/json", **query)
    assert (answer.status, answer.message) == (422, f'{kind}.meta.k8s.io "" is invalid: {message}')


def test_who_shows_wrong_credentials_is_not_let_in_even_where_all_are(api: Api) -> None:
    assert api.send("GET", "/version", headers={"authorization": "Bearer nonsense"}).status == 401
    assert api.send("GET", "/version", headers={"authorization": ""}).status == 200


def test_a_dry_run_changes_nothing(api: Api) -> None:
    api.send("POST", MAPS, config_map("dry", k="1"))
    tries: list[tuple[str, str, Any, str]] = [
        ("POST", MAPS, config_map("dry-new"), "application/json"),
        ("PUT", f"{MAPS}/dry", config_map("dry", k="2"), "application/json"),
        ("PATCH", f"{MAPS}/dry", {"data": {"k": "2"}}, MERGE),
        ("PATCH", f"{MAPS}/dry", config_map("dry", j="1"), APPLY),
        ("DELETE", f"{MAPS}/dry", None, ""),
        ("DELETE", MAPS, None, ""),
    ]
    before = api.send("GET", MAPS).body["items"]
    for method, path, body, content in tries:
        manager = "me" if content == APPLY else None
        assert api.send(method, path, body, content, dryRun="All", fieldManager=manager).status in (200, 201)
    assert api.send("GET", MAPS).body["items"] == before


def test_a_put_without_a_name_is_refused(api: Api) -> None:
    api.send("POST", MAPS, config_map("named"))
    answer = api.send("PUT", f"{MAPS}/named", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    why = "the name of the object (named based on URL) was undeterminable: name must be provided"
    assert (answer.status, answer.message) == (400, why)


def test_metadata_that_only_the_server_sets_cannot_be_patched(api: Api) -> None:
    api.send("POST", MAPS, config_map("meta"))
    answer = api.send("PATCH", f"{MAPS}/meta", {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}, MERGE)
    field = answer.body["details"]["causes"][0]["field"]
    assert (answer.status, field) == (422, "metadata.deletionTimestamp")


def test_metadata_is_written_in_gos_order(api: Api) -> None:
    body = config_map("ordered", k="1")
    body["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "ordered"}
    made = api.send("POST", MAPS, body).body
    order = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "labels",
        "annotations",
        "managedFields",
    ]
    assert list(made["metadata"]) == order


@pytest.mark.parametrize(
    ("preconditions", "ending"),
    [
        ({"uid": "other"}, "The object might have been deleted and then recreated"),
        ({"resourceVersion": "1"}, "The object might have been modified"),
    ],
)
def test_a_delete_may_ask_for_a_certain_object(api: Api, preconditions: dict[str, str], ending: str) -> None:
    api.send("POST", MAPS, config_map("certain"))
    answer = api.send("DELETE", f"{MAPS}/certain", {"preconditions": preconditions})
    assert (answer.status, answer.body["details"]["kind"]) == (409, "ConfigMap")
    assert answer.message.endswith(ending)


def test_the_last_finalizer_takes_the_object_along(api: Api) -> None:
    body = config_map("held")
    body["metadata"]["finalizers"] = ["example.com/a"]
    api.send("POST", MAPS, body)
    held = api.send("DELETE", f"{MAPS}/held").body
    answer = api.send("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert answer.status == 200
    assert answer.body["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
    assert api.send("GET", f"{MAPS}/held").status == 404


def test_a_pod_that_goes_at_once_is_marked_in_the_answer(api: Api) -> None:
    pods = "/api/v1/namespaces/default/pods"
    api.send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"containers": [{"name": "c", "image": "x"}]}
    made = api.send("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    assert made.status == 201
    gone = api.send("DELETE", f"{pods}/p").body["metadata"]
    assert (gone["deletionGracePeriodSeconds"], "deletionTimestamp" in gone) == (0, True)
    assert gone["generation"] == made.body["metadata"]["generation"] + 1


def test_some_kinds_are_made_by_put(api: Api) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    role = {"metadata": {"name": "r"}, "rules": []}
    assert api.send("PUT", f"{roles}/r", role).status == 201
    assert api.send("PUT", f"{MAPS}/not-there", config_map("not-there")).status == 404


def test_a_custom_resource_is_updated_only_from_a_known_state(api: Api) -> None:
    flavors = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    assert api.send("POST", flavors, flavor).status == 201
    answer = api.send("PUT", f"{flavors}/f", flavor)
    assert answer.status == 422
    assert answer.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")


def test_apply_of_a_custom_resource(api: Api) -> None:
    flavors = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "applied"}}
    answer = api.send(
        "PATCH", f"{flavors}/applied", {**flavor, "spec": {"nodeLabels": {"a": "b"}}}, APPLY, fieldManager="m"
    )
    assert answer.status == 201
    (entry,) = answer.body["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:nodeLabels": {}}}


def test_apply_takes_a_revision_for_an_object_to_be_made_but_no_uid(api: Api) -> None:
    body = config_map("anew")
    body["metadata"]["uid"] = "x"
    answer = api.send("PATCH", f"{MAPS}/anew", body, APPLY, fieldManager="m")
    why = "uid mismatch: the provided object specified uid x, and no existing object was found"
    assert (answer.status, answer.message.rpartition(": ")[0].endswith("uid mismatch")) == (409, True)
    assert answer.message.endswith(why)
    body["metadata"] = {"name": "anew", "resourceVersion": "1"}
    assert api.send("PATCH", f"{MAPS}/anew", body, APPLY, fieldManager="m").status == 201


def test_an_empty_list_of_managers_makes_the_server_forget_them(api: Api) -> None:
    made = api.send("POST", MAPS, config_map("forget", k="1"), fieldManager="a").body
    made["metadata"]["managedFields"] = []
    answer = api.send("PUT", f"{MAPS}/forget", made, fieldManager="b").body
    assert "managedFields" not in answer["metadata"]


def test_scaling_is_owned_as_scaling(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    api.send("POST", path, {"metadata": {"name": "d"}, "spec": spec}, fieldManager="maker")
    scaled = api.send("PATCH", f"{path}/d/scale", {"spec": {"replicas": 7}}, MERGE, fieldManager="scaler")
    assert (scaled.status, scaled.body["spec"]) == (200, {"replicas": 7})
    owners = api.send("GET", f"{path}/d").body["metadata"]["managedFields"]
    (entry,) = [each for each in owners if each["manager"] == "scaler"]
    assert (entry["subresource"], entry["fieldsV1"], "time" in entry) == (
        "scale",
        {"f:spec": {"f:replicas": {}}},
        False,
    )
    assert all("f:replicas" not in each["fieldsV1"].get("f:spec", {}) for each in owners if each is not entry)


def test_a_review_says_who_asked(api: Api) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods", "name": ""}}
    answer = api.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
    (entry,) = answer.body["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:resourceAttributes": {".": {}, "f:resource": {}, "f:verb": {}}}}


def test_a_long_list_goes_on_where_it_stopped(api: Api) -> None:
    for number in range(5):
        body = config_map(f"page-{number}")
        body["metadata"]["labels"] = {"page": "1"}
        api.send("POST", MAPS, body)
    names, token = [], None
    while True:
        page = api.send("GET", MAPS, labelSelector="page=1", limit=2, **{"continue": token}).body
        names += [item["metadata"]["name"] for item in page["items"]]
        assert "kind" not in (page["items"] or [{}])[0]
        token = page["metadata"].get("continue")
        if not token:
            break
    assert names == [f"page-{number}" for number in range(5)]
    answer = api.send("GET", MAPS, resourceVersion="1", **{"continue": "x"})
    assert answer.message == "specifying resource version is not allowed when using continue"


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("nonsense", 'invalid resource version: resourceVersion: Invalid value: "nonsense": strconv.ParseUint: parsing "nonsense": invalid syntax'),
        ("999999999", "Timeout: Too large resource version: 999999999, current: "),
    ],
)  # fmt: skip
def test_a_revision_that_is_none(api: Api, revision: str, message: str) -> None:
    assert api.send("GET", MAPS, resourceVersion=revision).message.startswith(message)


def test_a_watch_begins_with_what_is_there_and_marks_the_end(api: Api) -> None:
    body = config_map("seen")
    body["metadata"]["labels"] = {"watched": "yes"}
    made = api.send("POST", MAPS, body).body
    events = api.watch(MAPS, labelSelector="watched=yes", sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")  # fmt: skip
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[0]["object"] == made
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert api.watch(MAPS, labelSelector="watched=yes", resourceVersion=made["metadata"]["resourceVersion"]) == []


def test_watching_one_object_by_its_path_is_getting_it(api: Api) -> None:
    assert api.send("GET", f"{MAPS}/not-there", watch="true").status == 404


def test_yaml_answers_quote_what_would_be_read_as_something_else(api: Api) -> None:
    api.send("POST", MAPS, config_map("quoted", number="1", yes="y", lines="a\nb\n"))
    text = api.send("GET", f"{MAPS}/quoted", headers={"accept": YAML}).body
    assert '  number: "1"\n' in text
    assert '  "yes": "y"\n' in text
    assert "  lines: |\n    a\n    b\n" in text


def test_a_json_patch_that_only_tests_writes_nothing(api: Api) -> None:
    made = api.send("POST", MAPS, config_map("tested", k="1")).body
    answer = api.send("PATCH", f"{MAPS}/tested", [{"op": "test", "path": "/data/k", "value": "1"}], JSON_PATCH)
    assert answer.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_what_was_forgotten_is_gone_and_says_how_to_go_on(api: Api) -> None:
    for number in range(3):
        body = config_map(f"old-{number}")
        body["metadata"]["labels"] = {"old": "1"}
        api.send("POST", MAPS, body)
    first = api.send("GET", MAPS, labelSelector="old", limit=1).body["metadata"]
    api.send("DELETE", f"{MAPS}/old-1")
    api.run(api.parts.cluster.store.compact(api.parts.cluster.store.revision))
    gone = api.send("GET", MAPS, labelSelector="old", **{"continue": first["continue"]})
    assert (gone.status, gone.body["reason"]) == (410, "Expired")
    rest = api.send("GET", MAPS, labelSelector="old", **{"continue": gone.body["metadata"]["continue"]}).body
    assert [item["metadata"]["name"] for item in rest["items"]] == ["old-2"]
    exact = api.send("GET", MAPS, resourceVersion=first["resourceVersion"], resourceVersionMatch="Exact")
    assert (exact.status, exact.message) == (410, "The resourceVersion for the provided list is too old.")
    (event,) = api.watch(MAPS, resourceVersion=first["resourceVersion"])
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["message"].startswith("too old resource version: ")


def test_access_to_devices_of_others_needs_a_namespace_that_says_so(api: Api) -> None:
    asked = {"deviceClassName": "gpu.example.org", "adminAccess": True}
    claim = {"metadata": {"name": "admin"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    refused = api.send("POST", path, claim)
    assert (refused.status, "admin access to devices requires the" in refused.message) == (422, True)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.send("PATCH", "/api/v1/namespaces/default", label, MERGE)
    assert api.send("POST", path, claim).status == 201


def test_who_creates_a_daemon_set_owns_its_generation(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "d", "annotations": {"deprecated.daemonset.template.generation": "3"}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    made = api.send("POST", path, {"metadata": meta, "spec": spec}).body["metadata"]
    assert made["annotations"]["deprecated.daemonset.template.generation"] == "3"
    plain = api.send("POST", path, {"metadata": {"name": "plain"}, "spec": spec}).body["metadata"]
    assert plain["annotations"]["deprecated.daemonset.template.generation"] == "1"
    owned = plain["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"]
    assert "f:deprecated.daemonset.template.generation" in owned


@pytest.mark.parametrize(
    ("timeout", "words"),
    [
        ("30s", ""),
        ("0s", ""),
        ("1h30m", ""),
        ("invalid", 'time: invalid duration "invalid"'),
        ("30", 'time: missing unit in duration "30"'),
        ("30x", 'time: unknown unit "x" in duration "30x"'),
    ],
)
def test_a_timeout_must_be_a_span_of_time(api: Api, timeout: str, words: str) -> None:
    assert api.send("GET", "/version", timeout=timeout).status == (400 if words else 200)
    answer = api.send("GET", MAPS, timeout=timeout)
    assert answer.status == (400 if words else 200)
    if words:
        assert answer.message == f"invalid timeout specified in the request URL - {words}"


def test_who_deletes_a_replication_controller_without_a_word_keeps_its_pods(api: Api) -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for name, query in (("kept", {}), ("gone", {"propagationPolicy": "Background"})):
        assert api.send("POST", path, {"metadata": {"name": name}, "spec": {"template": template}}).status == 201
        assert api.send("DELETE", f"{path}/{name}", **query).status == 200
    assert api.send("GET", f"{path}/kept").body["metadata"]["finalizers"] == ["orphan"]
    assert api.send("GET", f"{path}/gone").status == 404
