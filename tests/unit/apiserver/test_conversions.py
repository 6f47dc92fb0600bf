"""Conversion webhooks: objects of a kind whose versions only a program elsewhere can turn into each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.http import Answer, Request, Response

from .conftest import APPLY, MERGE, Api
from .reviews import ReviewServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "converted.example"


class Converter(ReviewServer):
    """A server that knows that what is `host:port` in v1 is `host` and `port` in v2."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.asked: list[tuple[str, int]] = []  # the version wanted, and how many objects
        self.spoil: Callable[[dict[str, Any]], Any] = lambda response: response
        super().__init__(api, folder, self._serve)

    def _serve(self, request: Request) -> Answer:
        review = json.loads(request.body)
        said = review["request"]
        self.asked.append((said["desiredAPIVersion"], len(said["objects"])))
        made = [_converted(each, said["desiredAPIVersion"]) for each in said["objects"]]
        response = {"uid": said["uid"], "result": {"status": "Success"}, "convertedObjects": made}
        whole = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": self.spoil(response)}
        return Response(200, json.dumps(whole).encode())


def _converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    spec = dict(obj.get("spec") or {})
    if version.endswith("/v2") and "address" in spec:
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": port}
    elif version.endswith("/v1") and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port')}"
    return {**obj, "apiVersion": version, "spec": spec}


@pytest.fixture
def kind(api: Api, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Converter, str]]:
    converter = Converter(api, tmp_path)
    plural = "".join(char for char in request.node.name if char.isalpha())[:40].lower() + "s"
    text = {"type": "string"}

    def version(name: str, *fields: str, stored: bool) -> dict[str, Any]:
        spec = {"type": "object", "properties": dict.fromkeys(fields, text)}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": stored, "schema": schema, "subresources": {"status": {}}}

    client = {"url": f"{converter.url}/convert", "caBundle": converter.trusted}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    versions = [version("v1", "address", stored=True), version("v2", "host", "port", stored=False)]
    names = {"plural": plural, "singular": plural[:-1], "kind": "Door"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions, "conversion": conversion}
    made = api.send("POST", DEFINITIONS, {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec})
    assert made.status == 201, made
    yield converter, plural
    converter.spoil = lambda response: response
    api.send("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
    converter.stop()


def at(plural: str, version: str, name: str = "") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/{plural}{'/' if name else ''}{name}"


def door(version: str, name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Door", "metadata": {"name": name}, "spec": spec}


def test_an_object_is_seen_in_every_version_whichever_it_was_written_in(api: Api, kind: tuple[Converter, str]) -> None:
    _, plural = kind
    made = api.send("POST", at(plural, "v2"), door("v2", "a", host="h", port="1"))
    assert (made.status, made.body["apiVersion"]) == (201, f"{GROUP}/v2"), made
    assert made.body["spec"] == {"host": "h", "port": "1"}
    assert api.send("GET", at(plural, "v1", "a")).body["spec"] == {"address": "h:1"}
    assert api.send("GET", at(plural, "v2", "a")).body["spec"] == {"host": "h", "port": "1"}
    stored = api.send("PATCH", at(plural, "v2", "a"), {"spec": {"port": "2"}}, MERGE)
    assert (stored.status, stored.body["spec"]["port"]) == (200, "2"), stored
    assert api.send("GET", at(plural, "v1", "a")).body["spec"] == {"address": "h:2"}


def test_a_version_that_is_stored_needs_nobody(api: Api, kind: tuple[Converter, str]) -> None:
    converter, plural = kind
    api.send("POST", at(plural, "v1"), door("v1", "a", address="h:1"))
    assert api.send("GET", at(plural, "v1")).body["items"][0]["spec"] == {"address": "h:1"}
    assert converter.asked == []


def test_lists_are_asked_about_at_once_and_answers_are_kept(api: Api, kind: tuple[Converter, str]) -> None:
    converter, plural = kind
    for name in ("a", "b", "c"):
        api.send("POST", at(plural, "v1"), door("v1", name, address=f"{name}:1"))
    for _ in range(2):
        items = api.send("GET", at(plural, "v2")).body["items"]
        assert [item["spec"]["host"] for item in items] == ["a", "b", "c"]
    assert converter.asked == [(f"{GROUP}/v2", 3)]
    assert [event["object"]["spec"]["host"] for event in api.watch(at(plural, "v2"))] == ["a", "b", "c"]


def test_an_apply_in_another_version_owns_fields_of_that_version(api: Api, kind: tuple[Converter, str]) -> None:
    _, plural = kind
    applied = api.send("PATCH", at(plural, "v2", "a"), door("v2", "a", host="h", port="1"), APPLY, fieldManager="ann")
    assert applied.status == 201, applied
    owner = applied.body["metadata"]["managedFields"][0]
    assert (owner["apiVersion"], set(owner["fieldsV1"]["f:spec"])) == (f"{GROUP}/v2", {"f:host", "f:port"})
    again = api.send("PATCH", at(plural, "v2", "a"), door("v2", "a", host="h", port="1"), APPLY, fieldManager="ann")
    assert again.body["metadata"]["resourceVersion"] == applied.body["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda said: {**said, "result": {"status": "Failure", "message": "cannot"}}, "failed: cannot"),
        (lambda said: {**said, "uid": "other"}, 'got "other"'),
        (lambda said: {**said, "convertedObjects": []}, "returned 0 objects, expected 1"),
        (lambda said: None, "no response provided"),
        (
            lambda said: {**said, "convertedObjects": [{**each, "metadata": {}} for each in said["convertedObjects"]]},
            "must have the same name",
        ),
        (
            lambda said: {**said, "convertedObjects": [{**each, "kind": "X"} for each in said["convertedObjects"]]},
            "invalid kind (expected Door, received X)",
        ),
        (lambda said: {**said, "convertedObjects": [5]}, "invalid object at index 0: invalid type"),
    ],
)
def test_what_cannot_be_converted_is_told(
    api: Api, kind: tuple[Converter, str], spoil: Callable[[dict[str, Any]], Any], words: str
) -> None:
    converter, plural = kind
    api.send("POST", at(plural, "v1"), door("v1", "a", address="h:1"))
    converter.spoil = spoil
    for path in (at(plural, "v2", "a"), at(plural, "v2")):
        answer = api.send("GET", path)
        assert (answer.status, words in answer.message) == (500, True), answer
    assert f"conversion webhook for {GROUP}/v1, Kind=Door " in answer.message
    converter.spoil = lambda response: response
    assert api.send("GET", at(plural, "v2", "a")).status == 200


def test_deleting_works_without_anybody_to_ask(api: Api, kind: tuple[Converter, str]) -> None:
    _, plural = kind
    api.send("POST", at(plural, "v1"), door("v1", "a", address="h:1"))
    assert api.send("DELETE", at(plural, "v2", "a")).status == 200
    assert api.send("GET", at(plural, "v1", "a")).status == 404
