"""Admission webhooks: who is asked about which write, what their answers do, and what happens when none comes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.http import Answer, Request, Response

from .conftest import APPLY, MERGE, Api, judged_place
from .reviews import ReviewServer

GROUP = "/apis/admissionregistration.k8s.io/v1"
JUDGES, CHANGERS = f"{GROUP}/validatingwebhookconfigurations", f"{GROUP}/mutatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/{}/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


class Asked(ReviewServer):
    """A webhook server: keeps what it is asked, answers what the test says."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.targets: list[str] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda request: {}
        self.status = 200
        super().__init__(api, folder, self._serve)

    def _serve(self, request: Request) -> Answer:
        review = json.loads(request.body)
        self.targets.append(f"{request.path}?{request.query}")
        self.requests.append(review["request"])
        said = self.answer(review["request"])
        if isinstance(said, dict):
            said = {"uid": review["request"]["uid"], "allowed": True, **said}
            review = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": said}
            return Response(self.status, json.dumps(review).encode())
        return Response(self.status, said)

    def hook(self, place: str, name: str = "a.b.c", path: str = "/ask", **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "clientConfig": {"url": self.url + path, "caBundle": self.trusted},
            "rules": [RULE],
            "namespaceSelector": {"matchLabels": {"judged": place}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }


@pytest.fixture
def place(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from judged_place(api, request.node.name, JUDGES, CHANGERS)


@pytest.fixture
def asked(api: Api, tmp_path: Path) -> Iterator[Asked]:
    server = Asked(api, tmp_path)
    yield server
    server.stop()


def register(api: Api, where: str, *hooks: dict[str, Any], name: str = "p") -> None:
    made = api.send("POST", where, {"metadata": {"name": name}, "webhooks": list(hooks)})
    assert made.status == 201, made
    assert made.warnings == []


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def config(name: str = "c", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_a_judge_is_told_who_wants_to_do_what_and_may_refuse_with_its_own_words(
    api: Api, place: str, asked: Asked
) -> None:
    register(api, JUDGES, asked.hook(place))
    asked.answer = lambda request: {"allowed": False, "status": {"message": "no more maps", "code": 418}}
    refused = api.send("POST", MAPS.format(place), config(a="1"))
    assert refused.status == 418
    assert refused.message == 'admission webhook "a.b.c" denied the request: no more maps'
    assert api.send("GET", MAPS.format(place) + "/c").status == 404
    (request,) = asked.requests
    assert asked.targets == ["/ask?timeout=10s"]
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["name"], request["namespace"], request["dryRun"]) == ("c", place, False)
    assert request["userInfo"]["username"] == "admin"
    assert request["object"]["kind"] == "ConfigMap"
    assert request["object"]["data"] == {"a": "1"}
    assert request["object"]["metadata"]["uid"]
    assert request["oldObject"] is None
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 400, "without explanation"),
        ({"reason": "Forbidden"}, 400, ": Forbidden"),
        ({"code": 200, "message": "no"}, 400, ": no"),
        ({"code": 403, "reason": "Forbidden", "message": "no"}, 403, ": no"),
    ],
)
def test_a_refusal_has_a_code_and_words_whatever_the_webhook_says(
    api: Api, place: str, asked: Asked, status: Any, code: int, message: str
) -> None:
    register(api, JUDGES, asked.hook(place))
    asked.answer = lambda request: {"allowed": False, **({"status": status} if status else {})}
    refused = api.send("POST", MAPS.format(place), config())
    assert refused.status == code
    assert refused.message.endswith(message)
    assert refused.body.get("reason") == (status or {}).get("reason")


def test_updates_patches_applies_and_deletions_are_asked_about_with_what_was_there(
    api: Api, place: str, asked: Asked
) -> None:
    where = MAPS.format(place)
    api.send("POST", where, config(a="1"))
    register(api, JUDGES, asked.hook(place))
    api.send("PUT", where + "/c", config(a="2"))
    api.send("PATCH", where + "/c", {"data": {"a": "3"}}, MERGE)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **config(b="4")}
    api.send("PATCH", where + "/c", applied, APPLY, fieldManager="me")
    assert api.send("DELETE", where + "/c").status == 200
    seen = [
        (each["operation"], (each["oldObject"] or {}).get("data"), (each["object"] or {}).get("data"))
        for each in asked.requests
    ]
    assert seen == [
        ("UPDATE", {"a": "1"}, {"a": "2"}),
        ("UPDATE", {"a": "2"}, {"a": "3"}),
        ("UPDATE", {"a": "3"}, {"a": "3", "b": "4"}),
        ("DELETE", {"a": "3", "b": "4"}, None),
    ]
    assert asked.requests[2]["options"]["fieldManager"] == "me"


def test_deleting_a_collection_asks_about_each_and_a_refusal_keeps_what_it_is_about(
    api: Api, place: str, asked: Asked
) -> None:
    where = MAPS.format(place)
    for name in ("a", "b"):
        api.send("POST", where, config(name))
    register(api, JUDGES, asked.hook(place))
    asked.answer = lambda request: {"allowed": request["name"] != "b"}
    assert api.send("DELETE", where, labelSelector="!none").status == 400
    assert [api.send("GET", f"{where}/{name}").status for name in ("a", "b")] == [404, 200]


def test_a_changer_sees_the_object_before_it_has_a_uid_and_what_it_leaves_is_read_as_if_sent(
    api: Api, place: str, asked: Asked
) -> None:
    register(api, CHANGERS, asked.hook(place))
    asked.answer = lambda request: patch(
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "add", "path": "/unknown", "value": 1},
    )
    made = api.send("POST", MAPS.format(place), {"metadata": {"generateName": "c-"}, "data": {"a": "1"}})
    assert made.status == 201
    (request,) = asked.requests
    assert request["object"]["metadata"].keys() == {"generateName", "namespace", "managedFields"}
    assert "name" not in request
    assert made.body["data"] == {"a": "1", "b": "2"}
    assert made.body["metadata"]["labels"] == {"seen": "yes"}
    assert "unknown" not in made.body
    assert made.body["metadata"]["name"].startswith("c-")
    assert made.body["metadata"]["uid"]


def test_changers_are_asked_one_after_the_other_in_the_order_of_their_names_then_the_judges(
    api: Api, place: str, asked: Asked
) -> None:
    def add(request: dict[str, Any]) -> Any:
        count = str(len(request["object"]["data"]))
        return patch({"op": "add", "path": f"/data/n{count}", "value": count})

    def answer(request: dict[str, Any]) -> Any:
        return {} if "judge" in asked.targets[-1] else add(request)

    asked.answer = answer
    register(api, JUDGES, asked.hook(place, path="/judge"), name="1-judge")
    register(api, CHANGERS, asked.hook(place, path="/second"), name="b")
    register(
        api,
        CHANGERS,
        asked.hook(place, path="/first", reinvocationPolicy="IfNeeded"),
        asked.hook(place, "d.e.f", path="/never"),
        name="a",
    )
    made = api.send("POST", MAPS.format(place), config(a="1"))
    assert [each.partition("?")[0] for each in asked.targets] == ["/first", "/never", "/second", "/first", "/judge"]
    assert made.body["data"] == {"a": "1", "n1": "1", "n2": "2", "n3": "3", "n4": "4"}
    judged = asked.requests[-1]["object"]
    assert judged["data"] == made.body["data"]
    assert judged["metadata"]["uid"] == made.body["metadata"]["uid"]


def test_the_name_a_judge_saw_is_the_name_that_is_stored(api: Api, place: str, asked: Asked) -> None:
    register(api, JUDGES, asked.hook(place))
    made = api.send("POST", MAPS.format(place), {"metadata": {"generateName": "c-"}})
    assert [each["name"] for each in asked.requests] == [made.body["metadata"]["name"]]


def test_warnings_of_webhooks_reach_the_client_once_also_with_a_refusal(api: Api, place: str, asked: Asked) -> None:
    register(api, CHANGERS, asked.hook(place, path="/change"))
    register(api, JUDGES, asked.hook(place, path="/judge"))
    asked.answer = lambda request: {"warnings": [f"said {asked.targets[-1].partition('?')[0]}"], "allowed": True}
    assert api.send("POST", MAPS.format(place), config()).warnings == ['"said /change"', '"said /judge"']
    asked.answer = lambda request: {"warnings": ["careful"], "allowed": False}
    assert api.send("POST", MAPS.format(place), config("d")).warnings == ['"careful"']


def test_whom_the_rules_selectors_and_conditions_leave_out_is_not_asked_about(
    api: Api, place: str, asked: Asked
) -> None:
    where = MAPS.format(place)
    register(
        api,
        JUDGES,
        asked.hook(place, "only.update.x", rules=[{**RULE, "operations": ["UPDATE"]}]),
        asked.hook(place, "only.secrets.x", rules=[{**RULE, "resources": ["secrets"]}]),
        asked.hook(place, "only.labelled.x", objectSelector={"matchLabels": {"a": "b"}}),
        asked.hook(
            place, "only.named.x", matchConditions=[{"name": "n", "expression": "object.metadata.name == 'other'"}]
        ),
        asked.hook("elsewhere", "only.elsewhere.x"),
    )
    assert api.send("POST", where, config()).status == 201
    assert asked.requests == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"not json", "received invalid webhook response: "),
        ({"uid": "other"}, "received invalid webhook response: expected response.uid="),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "webhook response was absent"),
        ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch", "patch": "!!"}, "the patch cannot be read: "),
    ],
)
def test_an_answer_that_is_none_stops_the_write_unless_failures_are_to_be_ignored(
    api: Api, place: str, asked: Asked, answer: Any, why: str
) -> None:
    asked.answer = lambda request: answer
    register(api, CHANGERS, asked.hook(place))
    failed = api.send("POST", MAPS.format(place), config())
    assert failed.status == 500
    assert failed.message.startswith('Internal error occurred: failed calling webhook "a.b.c": ')
    assert why in failed.message
    api.send("DELETE", CHANGERS + "/p")
    register(api, CHANGERS, asked.hook(place, failurePolicy="Ignore"))
    assert api.send("POST", MAPS.format(place), config()).status == 201


def test_a_webhook_that_cannot_be_reached_is_named_with_the_address_and_the_reason(
    api: Api, place: str, asked: Asked
) -> None:
    register(api, JUDGES, asked.hook(place))
    asked.stop()
    url = asked.url
    failed = api.send("POST", MAPS.format(place), config())
    assert failed.message == (
        'Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: '
        f'Post "{url}/ask?timeout=10s": dial tcp {url.removeprefix("https://")}: connect: connection refused'
    )


def test_a_webhook_that_nobody_vouches_for_is_not_believed(api: Api, place: str, asked: Asked) -> None:
    register(api, JUDGES, asked.hook(place, clientConfig={"url": asked.url}))
    failed = api.send("POST", MAPS.format(place), config())
    assert failed.status == 500
    assert "failed to verify certificate" in failed.message
    assert asked.requests == []


def test_an_http_error_is_told_with_the_words_of_the_server(api: Api, place: str, asked: Asked) -> None:
    register(api, JUDGES, asked.hook(place))
    asked.status, asked.answer = 503, lambda request: b"out of order"
    failed = api.send("POST", MAPS.format(place), config())
    words = 'an error on the server ("out of order") has prevented the request from succeeding'
    assert failed.message.endswith(f"failed to call webhook: {words}")


def test_a_dry_run_is_told_to_the_webhook_and_stores_nothing(api: Api, place: str, asked: Asked) -> None:
    register(api, JUDGES, asked.hook(place))
    assert api.send("POST", MAPS.format(place), config(), dryRun="All").status == 201
    assert asked.requests[0]["dryRun"] is True
    assert asked.requests[0]["options"]["dryRun"] == ["All"]
    assert api.send("GET", MAPS.format(place) + "/c").status == 404


def test_a_changer_may_not_make_an_object_invalid(api: Api, place: str, asked: Asked) -> None:
    register(api, CHANGERS, asked.hook(place))
    asked.answer = lambda request: patch({"op": "add", "path": "/metadata/labels", "value": {"-bad-": "x"}})
    refused = api.send("POST", MAPS.format(place), config())
    assert refused.status == 422
    assert "metadata.labels" in refused.message


def test_what_changed_while_a_webhook_was_asked_is_not_lost(api: Api, place: str, asked: Asked) -> None:
    """The verb begins anew on what is true by then, and the webhook is asked about that."""
    where = MAPS.format(place) + "/c"
    api.send("POST", MAPS.format(place), config(a="1"))
    register(api, JUDGES, asked.hook(place))
    store = api.parts.cluster.store

    def answer(request: dict[str, Any]) -> Any:
        if len(asked.requests) == 1:
            entry = store.latest(f"/configmaps/{place}/c")
            assert entry is not None
            api.parts.cluster.put_quietly(entry.key, {**entry.copy(), "data": {"a": "1", "other": "2"}})
        return {}

    asked.answer = answer
    patched = api.send("PATCH", where, {"data": {"mine": "3"}}, MERGE)
    assert patched.body["data"] == {"a": "1", "other": "2", "mine": "3"}
    assert len(asked.requests) == 2


def test_a_bad_webhook_can_always_be_taken_away(api: Api, place: str, asked: Asked) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    register(api, JUDGES, asked.hook(place, rules=[everything], namespaceSelector={}, objectSelector={}))
    asked.answer = lambda request: {"allowed": False}
    assert api.send("POST", MAPS.format(place), config()).status == 400
    assert api.send("DELETE", JUDGES + "/p").status == 200
    assert api.send("POST", MAPS.format(place), config()).status == 201


def test_an_object_without_a_name_is_refused_as_without_webhooks(api: Api, place: str, asked: Asked) -> None:
    register(api, JUDGES, asked.hook(place))
    refused = api.send("POST", MAPS.format(place), {"data": {"a": "1"}})
    assert refused.status == 422
    assert "metadata.name" in refused.message
    assert asked.requests == []
