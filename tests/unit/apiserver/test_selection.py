"""Which objects a list or watch means, what discovery says, and when answers are compressed."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from gpuaas.apiserver.compress import compressed
from gpuaas.apiserver.discovery import version_priority

from .conftest import MERGE, Api

MAPS = "/api/v1/namespaces/chosen/configmaps"
PODS = "/api/v1/namespaces/chosen/pods"


@pytest.fixture(scope="module", autouse=True)
def chosen(api: Api) -> None:
    api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "chosen"}})
    api.send("POST", "/api/v1/namespaces/chosen/serviceaccounts", {"metadata": {"name": "default"}})
    for name, labels in (
        ("a", {"tier": "gold", "n": "1"}),
        ("b", {"tier": "iron", "n": "5"}),
        ("c", {}),
        ("d", {"tier": ""}),
    ):
        assert api.send("POST", MAPS, {"metadata": {"name": name, "labels": labels}}).status == 201
    for name, phase, node in (("p1", "Running", "n1"), ("p2", "Pending", ""), ("p3", "Failed", "n2")):
        spec = {"containers": [{"name": "x", "image": "y"}], **({"nodeName": node} if node else {})}
        assert api.send("POST", PODS, {"metadata": {"name": name}, "spec": spec}).status == 201
        api.send("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}, MERGE)


def names(answer: Any) -> str:
    return "".join(item["metadata"]["name"] for item in answer.body["items"])


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=gold", "a"), ("tier==gold", "a"), ("tier!=gold", "bcd"), ("tier", "abd"), ("!tier", "c"), ("tier in (gold,iron)", "ab"),
        ("tier notin (gold)", "bcd"), ("tier=", "d"), ("n>1", "b"), ("n<5", "a"), ("tier=gold,n=1", "a"), ("tier=gold,n=5", ""), ("", "abcd"),
    ],
)  # fmt: skip
def test_label_selectors(api: Api, selector: str, found: str) -> None:
    assert names(api.send("GET", MAPS, labelSelector=selector)) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=p1", "p1"), ("metadata.name!=p1", "p2p3"), ("status.phase=Running", "p1"), ("status.phase!=Running", "p2p3"),
        ("spec.nodeName=n2", "p3"), ("spec.nodeName=", "p2"), ("spec.nodeName!=,status.phase=Failed", "p3"), ("metadata.namespace=chosen", "p1p2p3"),
        ("metadata.namespace=other", ""),
    ],
)  # fmt: skip
def test_field_selectors_of_pods(api: Api, selector: str, found: str) -> None:
    assert names(api.send("GET", PODS, fieldSelector=selector)) == found


@pytest.mark.parametrize("query", [{"labelSelector": "a in ("}, {"labelSelector": "=x"}, {"fieldSelector": "spec.nothing=x"}, {"fieldSelector": "x"}, {"limit": "x"}, {"continue": "x"}, {"continue": "W10"}, {"continue": "bnVsbA"}])  # fmt: skip
def test_a_selection_that_is_none_is_refused(api: Api, query: dict[str, str]) -> None:
    assert api.send("GET", PODS, **query).status in (400, 410)


def test_a_watch_sees_an_object_come_and_go_as_it_matches(api: Api) -> None:
    start = api.send("GET", MAPS).body["metadata"]["resourceVersion"]
    api.send("PATCH", f"{MAPS}/c", {"metadata": {"labels": {"tier": "gold"}}}, MERGE)
    api.send("PATCH", f"{MAPS}/c", {"data": {"x": "y"}}, MERGE)
    api.send("PATCH", f"{MAPS}/c", {"metadata": {"labels": None}}, MERGE)
    events = api.watch(MAPS, labelSelector="tier=gold", resourceVersion=start)
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in events] == [
        ("ADDED", "c"),
        ("MODIFIED", "c"),
        ("DELETED", "c"),
    ]
    assert events[-1]["object"]["metadata"]["labels"] == {"tier": "gold"}, "as it was when it still matched"
    revisions = [int(each["object"]["metadata"]["resourceVersion"]) for each in events]
    assert revisions == sorted(set(revisions))


def test_a_collection_is_deleted_as_selected(api: Api) -> None:
    for name in ("x", "y", "z"):
        api.send(
            "POST",
            "/api/v1/namespaces/chosen/secrets",
            {"metadata": {"name": name, "labels": {"keep": str(name == "z").lower()}}},
        )
    assert api.send("DELETE", "/api/v1/namespaces/chosen/secrets", labelSelector="keep=false").status == 200
    assert names(api.send("GET", "/api/v1/namespaces/chosen/secrets")) == "z"


class TestDiscovery:
    def test_versions_are_in_kubernetes_order(self) -> None:
        mixed = ["v1beta1", "v10", "v1", "foo1", "v2alpha1", "v1beta2", "v11alpha2"]
        assert sorted(mixed, key=version_priority, reverse=True) == [
            "v10",
            "v1",
            "v1beta2",
            "v1beta1",
            "v11alpha2",
            "v2alpha1",
            "foo1",
        ]

    def test_the_plain_and_the_aggregated_form_say_the_same(self, api: Api) -> None:
        accept = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        aggregated = api.send("GET", "/apis", headers=accept).body
        plain = api.send("GET", "/apis").body
        assert [each["metadata"]["name"] for each in aggregated["items"]] == [each["name"] for each in plain["groups"]]
        for group in aggregated["items"]:
            for version in group["versions"]:
                listed = api.send("GET", f"/apis/{group['metadata']['name']}/{version['version']}").body["resources"]
                flat = {each["resource"] for each in version["resources"]}
                flat |= {
                    f"{each['resource']}/{sub['subresource']}"
                    for each in version["resources"]
                    for sub in each.get("subresources", ())
                }
                assert {each["name"] for each in listed} == flat

    def test_everything_discovered_can_be_asked_for(self, api: Api) -> None:
        for group in api.send("GET", "/apis").body["groups"]:
            for version in group["versions"]:
                for each in api.send("GET", f"/apis/{version['groupVersion']}").body["resources"]:
                    if "/" not in each["name"] and "list" in each["verbs"]:
                        assert api.send("GET", f"/apis/{version['groupVersion']}/{each['name']}").status == 200, each[
                            "name"
                        ]

    def test_what_has_not_changed_is_not_sent_again(self, api: Api) -> None:
        tag = api.send("GET", "/apis").headers["etag"][0]
        assert api.send("GET", "/apis", headers={"if-none-match": tag}).status == 304

    @pytest.mark.parametrize("path", ["/apis/nothing", "/apis/apps/v9", "/api/v2", "/apis/apps/v1/x/y/z/w"])
    def test_what_is_not_there_is_not_found(self, api: Api, path: str) -> None:
        assert api.send("GET", path).status == 404


class TestCompression:
    LONG = b'{"a":"b"}' * 50_000

    def test_long_answers_are_compressed_for_those_who_take_it(self) -> None:
        body, headers = compressed(self.LONG, {b"accept-encoding": b"gzip, deflate"})
        assert len(body) < len(self.LONG) / 10
        assert zlib.decompress(body, 16 + zlib.MAX_WBITS) == self.LONG
        assert dict(headers)[b"content-encoding"] == b"gzip"

    @pytest.mark.parametrize(
        ("body", "accepts"), [(b"short", b"gzip"), (LONG, b""), (LONG, b"identity"), (LONG, b"br")]
    )
    def test_others_get_it_as_it_is(self, body: bytes, accepts: bytes) -> None:
        assert compressed(body, {b"accept-encoding": accepts} if accepts else {}) == (body, ())


def test_events_are_selected_by_the_words_of_the_group_asked(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Pod", "name": "p1", "namespace": "chosen"},
        "reportingController": "example.com/x",
        "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "R",
        "action": "A",
    }
    new, core = "/apis/events.k8s.io/v1/namespaces/chosen/events", "/api/v1/namespaces/chosen/events"
    assert api.send("POST", new, event).status == 201
    for path, selector in (
        (new, "reportingController=example.com/x"),
        (new, "regarding.name=p1"),
        (core, "reportingComponent=example.com/x"),
        (core, "involvedObject.name=p1"),
    ):
        assert names(api.send("GET", path, fieldSelector=selector)) == "e1", selector
        assert names(api.send("GET", path, fieldSelector=f"{selector}x")) == "", selector
    assert api.send("GET", core, fieldSelector="regarding.name=p1").status == 400
