"""What people's manifests taught: numbers, ports, keys and rules that few of them have, each as the real server takes it."""

from __future__ import annotations

from typing import Any

from tests.real.exchanges.versions import CRDS, crd
from tests.real.wire import MERGE, YAML, Wire, case

GROUP = "manifests.example.org"


def _defined(w: Wire, plural: str, kind: str, schema: dict[str, Any]) -> str:
    """The path of a custom kind whose spec is of that schema."""
    made = crd(plural, kind, GROUP)
    whole = {"type": "object", "properties": {"spec": schema}}
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": whole}
    w.prepare("POST", CRDS, made)
    path = w.path(plural, f"{GROUP}/v1")
    w.until(lambda: w.prepare("GET", path).status == 200)
    return path


def _custom(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name} if name else {}, "spec": spec}


@case
def numbers_that_are_whole(w: Wire) -> None:
    number, anything = {"type": "number"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    fields = {
        "share": number,
        "usual": {"type": "number", "default": 2.0},
        "many": {"type": "array", "items": number},
        "count": {"type": "integer"},
        "either": {"x-kubernetes-int-or-string": True},
        "more": anything,
    }
    rules = [{"rule": "!has(self.share) || self.share < 5.5"}]
    path = _defined(w, "scales", "Scale", {"type": "object", "properties": fields, "x-kubernetes-validations": rules})
    w.post(path, _custom("Scale", "a", share=1.0, many=[1.0, 2.5, 1e3], more={"x": 3.0, "y": [4.0, {"z": 0.5}]}))
    w.get(f"{path}/a")
    w.apply(f"{path}/a", _custom("Scale", "a", share=3.0, usual=2.0), "ann", force="true")
    w.patch(f"{path}/a", {"spec": {"share": 4.0, "count": 2.0}}, MERGE)
    w.post(path, _custom("Scale", "b", share=6.0))
    w.post(path, _custom("Scale", "c", count=1.5))
    w.post(path, _custom("Scale", "d", either=2.0))
    w.post(
        path, "apiVersion: manifests.example.org/v1\nkind: Scale\nmetadata: {name: e}\nspec: {share: 1.0}", content=YAML
    )
    w.prepare("DELETE", f"{CRDS}/scales.{GROUP}")


@case
def rules_that_cannot_be_asked(w: Wire) -> None:
    text = {"type": "string"}
    fields = {
        "url": {**text, "x-kubernetes-validations": [{"rule": "url(self).getScheme() == 'https'", "message": "m"}]},
        "time": {**text, "x-kubernetes-validations": [{"rule": "duration(self) > duration('1s')", "message": "m"}]},
        "uri": {**text, "format": "uri"},
        "one": {"type": "object", "maxProperties": 1, "additionalProperties": text},
        "two": {"type": "object", "maxProperties": 2, "additionalProperties": text},
    }
    path = _defined(w, "links", "Link", {"type": "object", "properties": fields})
    for name, spec in (
        ("a", {"url": "https://h/x", "time": "2s"}),
        ("b", {"url": "http:\\\b", "time": "apple"}),
        ("c", {"url": "no url"}),
        ("c", {"url": "https://#%blah$#@"}),
        ("c", {"url": "https://a b/%zz"}),
        ("c", {"url": "https://h/a b?c#d"}),
        ("c", {"uri": "/a b"}),
        ("c", {"uri": "h"}),
        ("c", {"uri": "x:y"}),
        ("c", {"uri": "http://h:x"}),
        ("d", {"one": {"a": "1", "b": "2"}}),
        ("e", {"two": {"a": "1", "b": "2", "c": "3"}}),
        ("", {"url": "http://h"}),
        ("F G", {"url": "http://h"}),
    ):
        w.post(path, _custom("Link", name, **spec))
    held = _custom("Link", "h", one={"a": "1", "b": "2"})
    held["metadata"]["resourceVersion"] = "7"
    w.post(path, held)
    w.post(path, held, dryRun="All")
    w.post(path, {**_custom("Link", "i"), "metadata": {"name": "i", "resourceVersion": "7"}})
    w.post(path, {**_custom("Link", "a"), "metadata": {"name": "a", "resourceVersion": "7"}})
    w.prepare("DELETE", f"{CRDS}/links.{GROUP}")


@case
def kinds_without_names(w: Wire) -> None:
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    for path in (w.path("bindings"), reviews, "/apis/authentication.k8s.io/v1/tokenreviews"):
        w.get(path)
        w.get(f"{path}/x")
        w.delete(path)
        w.delete(f"{path}/x")
        w.patch(f"{path}/x", {}, MERGE)
        w.put(f"{path}/x", {})
        w.post(f"{path}/x", {})


@case
def objects_inside_of_others(w: Wire) -> None:
    inside = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    fields = {"one": inside, "many": {"type": "array", "items": inside}}
    path = _defined(w, "nests", "Nest", {"type": "object", "properties": fields})

    def egg(**metadata: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    for one in (
        egg(),
        egg(name="a", namespace="b", labels={"c": "d"}, finalizers=["e/f"]),
        egg(namespace="<< x >>"),
        egg(name="a/b"),
        egg(labels={"a b": "c"}),
        egg(labels={"a": "b c"}, annotations={"a b": "c"}),
        egg(finalizers=["plain"]),
        egg(ownerReferences=[{"kind": "x"}]),
        egg(generateName="x-", generation=-1),
    ):
        w.post(path, _custom("Nest", "a", one=one), dryRun="All")
    w.post(path, _custom("Nest", "a", many=[egg(), egg(namespace="N")]), dryRun="All")
    w.prepare("DELETE", f"{CRDS}/nests.{GROUP}")


@case
def custom_objects_of_another_kind(w: Wire) -> None:
    path = _defined(w, "flags", "Flag", {"type": "object"})
    for meta in ({"name": None}, {"name": "plain"}, {}):
        w.post(path, {"apiVersion": f"{GROUP}/v1", "kind": "Other", "metadata": meta})
        w.post(path, {"kind": "Other", "metadata": meta})
    w.prepare("DELETE", f"{CRDS}/flags.{GROUP}")
