"""Conversion webhooks: a kind in two versions that only a program elsewhere can turn into each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.real.exchanges.versions import CRDS
from tests.real.reviews import Reviewer, reviewing
from tests.real.wire import APPLY, MERGE, Wire, case

GROUP = "conversions.example.org"


class Converter:
    def __init__(self, reviewer: Reviewer) -> None:
        self.client = {"url": f"{reviewer.url}/convert", "caBundle": reviewer.trusted}
        self.spoil: Callable[[dict[str, Any]], Any] = lambda response: response


def converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    spec = dict(obj.get("spec") or {})
    if version.endswith("/v2") and "address" in spec:
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": port}
    elif version.endswith("/v1") and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    return {**obj, "apiVersion": version, **({"spec": spec} if spec else {})}


@contextmanager
def converting() -> Iterator[Converter]:
    def respond(_: str, request: dict[str, Any]) -> Any:
        made = [converted(each, request["desiredAPIVersion"]) for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made}
        return converter.spoil(response)

    with reviewing(respond) as reviewer:
        converter = Converter(reviewer)
        yield converter


def definition(converter: Converter) -> dict[str, Any]:
    text = {"type": "string"}

    def version(name: str, *fields: str, stored: bool) -> dict[str, Any]:
        spec = {"type": "object", "properties": dict.fromkeys(fields, text)}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": stored, "schema": schema}

    webhook = {"clientConfig": converter.client, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    versions = [version("v1", "address", stored=True), version("v2", "host", "port", stored=False)]
    names = {"plural": "doors", "singular": "door", "kind": "Door", "listKind": "DoorList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions, "conversion": conversion}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"doors.{GROUP}"},
        "spec": spec,
    }


def door(version: str, name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Door", "metadata": {"name": name}, "spec": spec}


@case
def conversions_by_webhook(w: Wire) -> None:
    one, two = w.path("doors", f"{GROUP}/v1"), w.path("doors", f"{GROUP}/v2")
    with converting() as converter:
        w.prepare("POST", CRDS, definition(converter))
        w.until(lambda: all(w.prepare("GET", path).status == 200 for path in (one, two)))
        w.post(two, door("v2", "a", host="h", port="1"))
        w.post(one, door("v1", "b", address="i:2"))
        for path in (one, two):
            w.get(f"{path}/a")
            w.get(f"{path}/b")
            w.get(path)
        w.patch(f"{two}/a", {"spec": {"port": "3"}}, MERGE)
        w.get(f"{one}/a")
        w.patch(f"{two}/c", door("v2", "c", host="j", port="4"), APPLY, fieldManager="ann")
        w.patch(f"{one}/c", door("v1", "c", address="j:4"), APPLY, fieldManager="ben")
        w.patch(f"{two}/c", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        w.watch(two, lambda: w.post(one, door("v1", "d", address="k:5")))
        w.post(two, door("v2", "e", host="h", port="1", unknown="x"))
        w.delete(f"{two}/b")
        spoils: tuple[Callable[[dict[str, Any]], Any], ...] = (
            lambda said: {**said, "result": {"status": "Failure", "message": "cannot"}},
            lambda said: {**said, "convertedObjects": []},
            lambda said: {
                **said,
                "convertedObjects": [{**o, "metadata": {"name": "x"}} for o in said["convertedObjects"]],
            },
        )
        for number, spoil in enumerate(spoils):
            w.prepare("POST", one, door("v1", f"new{number}", address="h:1"))
            converter.spoil = spoil
            w.get(f"{two}/new{number}")
            w.post(two, door("v2", "f", host="h", port=str(number)))
            converter.spoil = lambda response: response
            w.prepare("DELETE", f"{one}/new{number}")
        converter.spoil = lambda response: response
        w.prepare("DELETE", f"{CRDS}/doors.{GROUP}")
