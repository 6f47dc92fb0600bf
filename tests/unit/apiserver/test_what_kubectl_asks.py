"""What kubectl asks beside the verbs themselves: tables, documents, discovery; and refusals it prints as they are."""

import json
from typing import Any

import pytest
from tests.unit.apiserver.conftest import MAPS, MERGE, Api, config_map

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GROUP = "kubectl.example.com"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
WIDGET = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 2}}


@pytest.fixture(scope="module")
def widgets(api: Api) -> Api:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.send("POST", path, definition).status == 201
    assert api.send("POST", WIDGETS, WIDGET).status == 201
    return api


def test_the_v2_document_comes_as_protobuf_or_json_and_in_no_other_form(api: Api) -> None:
    spoken = [api.send("GET", "/openapi/v2", headers={"accept": media}) for media in ("application/json", "text/html")]
    assert [answer.status for answer in spoken] == [200, 406]
    assert spoken[0].body["swagger"] == "2.0"
    for spelled in (V2, V2.replace("v2.v1", "v2@v1")):
        answer = api.server.handle(api._request("GET", "/openapi/v2", None, "", {"accept": spelled}, {}))
        assert answer.content_type.decode() == V2  # type: ignore[union-attr]
        assert answer.body.startswith(b"\n\x032.0")  # type: ignore[union-attr]


def test_the_v2_document_names_our_kinds_and_describes_a_users_own(widgets: Api) -> None:
    document = widgets.send("GET", "/openapi/v2").body
    assert WIDGETS.replace("default", "{namespace}") in document["paths"]
    queue = document["definitions"]["io.x-k8s.kueue.v1beta2.ClusterQueue"]
    assert queue["x-kubernetes-group-version-kind"][0]["kind"] == "ClusterQueue"
    assert "properties" not in queue


def test_a_scale_is_shown_as_a_table_with_what_is_wanted_and_what_is_there(widgets: Api) -> None:
    table = widgets.send("GET", f"{WIDGETS}/w/scale", headers={"accept": TABLE}).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["w", 2, 0, "0s"]


def test_a_kind_of_two_shapes_has_the_same_rows_in_both(api: Api) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "message": "up",
        "count": 3,
    }
    target = {"type": "Utilization", "averageUtilization": 70}
    metrics = [{"type": "Resource", "resource": {"name": name, "target": target}} for name in ("cpu", "memory")]
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "s"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": scaled, "metrics": metrics},
    }
    for path, obj, other in (
        ("/api/v1/namespaces/default/events", event, "/apis/events.k8s.io/v1/namespaces/default/events"),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler, ""),
    ):
        assert api.send("POST", path, obj).status == 201
        paths = [f"{each}/{obj['metadata']['name']}" for each in (path, other or path.replace("v2", "v1"))]
        tables = [api.send("GET", each, headers={"accept": TABLE}).body for each in paths]
        assert tables[0]["rows"] == tables[1]["rows"]
        assert "annotations" not in tables[1]["rows"][0]["object"]["metadata"]
        carried = [api.send("GET", each, headers={"accept": TABLE}, includeObject="Object").body for each in paths]
        shown = [table["rows"][0]["object"] for table in carried]
        assert shown == [api.send("GET", each).body for each in paths]


def test_what_is_only_asked_cannot_be_found_by_name(api: Api) -> None:
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert [api.send("GET", path).status for path in (reviews, f"{reviews}/x")] == [405, 404]


def test_a_list_of_custom_resources_says_that_it_does_not_go_on(widgets: Api) -> None:
    assert widgets.send("GET", WIDGETS).body["metadata"]["continue"] == ""
    assert "continue" not in widgets.send("GET", MAPS).body["metadata"]
    limited = widgets.send("GET", MAPS.replace("default", "kube-system"), limit=1).body["metadata"]
    assert limited.get("continue", "more") != ""


def test_the_verbs_of_custom_resources_come_in_their_own_order(widgets: Api) -> None:
    (widget, *_) = widgets.send("GET", f"/apis/{GROUP}/v1").body["resources"]
    assert ",".join(widget["verbs"]) == "delete,deletecollection,get,list,patch,create,update,watch"


def test_finalizers_of_built_in_kinds_are_qualified_and_those_of_custom_ones_need_not_be(widgets: Api) -> None:
    said = widgets.send("POST", MAPS, {**config_map("f"), "metadata": {"name": "f", "finalizers": ["plain"]}}).message
    assert said == (
        'ConfigMap "f" is invalid: metadata.finalizers[0]: Invalid value: "plain": '
        "name is neither a standard finalizer name nor is it fully qualified"
    )
    held = {**WIDGET, "metadata": {"name": "held", "finalizers": ["plain"]}}
    assert widgets.send("POST", WIDGETS, held).status == 201


def test_a_status_that_scale_cannot_read_is_refused(widgets: Api) -> None:
    answer = widgets.send("PATCH", f"{WIDGETS}/w/status", {"status": {"replicas": "x"}}, MERGE)
    assert (answer.status, answer.body["details"]["causes"][0]["message"]) == (
        422,
        "Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
    )


def _pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def test_a_pod_keeps_its_default_tolerations_when_others_are_set(api: Api) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.send("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    assert api.send("POST", PODS, _pod("tolerant")).status == 201
    patch = {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}
    kept = api.send("PATCH", f"{PODS}/tolerant", patch, MERGE).body["spec"]["tolerations"]
    assert [each["key"] for each in kept] == [
        "x",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_a_token_may_be_asked_for_without_naming_the_account_again(api: Api) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.send("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked["metadata"] = {"name": "", "namespace": ""}  # as it is in protobuf
    assert api.send("POST", f"{accounts}/robot/token", asked).status == 201


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (MAPS, '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (PODS, "field label not supported: spec.x"),
        ("/apis/batch/v1/jobs", 'field label "spec.x" not supported for Job'),
    ],
)
def test_a_field_nobody_can_select_by(api: Api, path: str, words: str) -> None:
    answer = api.send("GET", path, fieldSelector="spec.x=1")
    assert (answer.status, answer.message) == (400, words)


def test_a_strategic_patch_of_the_wrong_type_shows_the_patch(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    assert api.send("POST", DEPLOYMENTS, made).status == 201
    strategic = "application/strategic-merge-patch+json"
    answer = api.send("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"replicas": "many"}}, strategic)
    assert (answer.status, answer.message) == (
        422,
        ' "" is invalid: patch: Invalid value: "map[spec:map[replicas:many]]": unrecognized type: int32',
    )


@pytest.mark.parametrize(
    ("path", "query", "headers", "indented"),
    [
        (MAPS, "", {}, False),
        (MAPS, "pretty=true", {}, True),
        (MAPS, "", {"user-agent": "curl/8.5.0"}, True),
        (MAPS, "pretty=false", {"user-agent": "curl/8.5.0"}, False),
        (MAPS, "", {"user-agent": "Mozilla/5.0 (X11)"}, True),
        (MAPS, "", {"user-agent": "kubectl/v1.36.3"}, False),
        (MAPS, "", {"accept": "application/json;pretty=1"}, True),
        (f"{MAPS}/nobody", "", {"user-agent": "Wget/1.21"}, True),
        ("/apis/apps/v1", "", {"user-agent": "curl/8.5.0"}, True),
        ("/apis/apps/v1", "", {}, False),
        ("/version", "", {}, True),
        ("/openapi/v3", "", {"user-agent": "curl/8.5.0"}, False),
    ],
)
def test_what_people_look_at_is_indented(
    api: Api, path: str, query: str, headers: dict[str, str], indented: bool
) -> None:
    answer = api._answer(api._request("GET", path, None, "", headers, dict([query.split("=")] if query else [])))
    assert answer.body.startswith(b'{\n  "') == indented
    assert answer.body.endswith(b"}\n") == (not indented and not path.startswith("/openapi"))
    assert json.loads(answer.body)
