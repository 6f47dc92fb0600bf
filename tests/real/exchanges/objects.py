"""Create, read, update, delete: codes, Status bodies, revisions, selectors, pages, forms of answers."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.real.wire import JSON, TABLE, YAML, Wire, case


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@case
def object_life(w: Wire) -> None:
    made = w.post(w.path("configmaps"), config_map("a", k="1")).json()
    w.post(w.path("configmaps"), config_map("a"))
    w.get(w.path("configmaps/a"))
    w.get(w.path("configmaps/nothere"))
    w.put(w.path("configmaps/a"), {**made, "data": {"k": "2"}})
    w.put(w.path("configmaps/a"), {**made, "data": {"k": "3"}})
    w.put(w.path("configmaps/a"), config_map("a", k="4"))
    w.put(w.path("configmaps/a"), config_map("a", k="4"))
    w.put(w.path("configmaps/b"), config_map("b", k="4"))
    w.put(w.path("configmaps/b"), config_map("a", k="4"))
    w.delete(w.path("configmaps/a"))
    w.delete(w.path("configmaps/a"))


@case
def create_oddities(w: Wire) -> None:
    path = w.path("configmaps")
    w.post(path, {**config_map("a"), "apiVersion": "v2"})
    w.post(path, {**config_map("a"), "kind": "Secret"})
    w.post(path, {"metadata": {"name": "bare"}})
    w.post(path, {**config_map("a"), "metadata": {"name": "a", "namespace": "elsewhere"}})
    w.post(
        path, {**config_map("a"), "metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}}
    )
    w.post(path, {**config_map("b"), "metadata": {"name": "b", "resourceVersion": "12"}})
    w.post(path, {**config_map("c"), "metadata": {"name": "c", "generation": 7, "selfLink": "/x"}})
    w.post(path, {**config_map("d"), "metadata": {"name": "d", "deletionTimestamp": "2001-01-01T00:00:00Z"}})
    w.post(path, {**config_map("e"), "metadata": {"generateName": "gen-", "name": ""}})
    w.post(path, {**config_map("f"), "metadata": {}})
    w.post(path, {**config_map("g"), "metadata": None})
    w.post(path, {**config_map("h"), "data": None})
    w.post(path, {**config_map("i"), "metadata": {"name": "i", "managedFields": [{"manager": "x"}]}})
    w.post(path, {**config_map("j"), "data": {"a": None}})
    w.post("/api/v1/configmaps", config_map("k"))
    w.post("/api/v1/namespaces/nosuchnamespace/configmaps", config_map("l"))


@case
def bad_bodies(w: Wire) -> None:
    path = w.path("configmaps")
    for body in (
        "",
        "{",
        "[]",
        "null",
        "5",
        '"text"',
        "{}",
        '{"kind":5}',
        '{"metadata":[]}',
        "not json",
        "\x00",
        "{}{}",
    ):
        w.post(path, body)
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"trail"}} trailing')
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}')
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":5}}')
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[]}')
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":[]}}')
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":"x"}}')
    w.post(path, b"\xff\xfe\xfd")
    w.post(path, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dup"},"data":{"a":"b"},"data":{"c":"d"}}')


@case
def content_types(w: Wire) -> None:
    path, body = w.path("configmaps"), config_map("a")
    w.post(path, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\n", content=YAML)
    w.post(path, "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", content=YAML)
    w.post(path, body, content="text/plain")
    w.post(path, body, content="application/xml")
    w.post(path, body, content="application/json; charset=utf-8")
    w.post(path, config_map("nocontent"), content="")
    w.get(w.path("configmaps/a"), accept="application/yaml")
    w.get(w.path("configmaps/a"), accept="text/html")
    w.get(w.path("configmaps/a"), accept="application/xml")
    w.get(w.path("configmaps/a"), accept="*/*")
    w.get(w.path("configmaps/a"), accept="application/*")
    w.get(w.path("configmaps/a"), accept="application/xml, application/json;q=0.5")
    w.get(w.path("configmaps/a"), accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    w.get(w.path("configmaps"), accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    w.get(w.path("configmaps/a"), accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    w.get(w.path("configmaps/a"), accept="application/json;as=Nothing;g=meta.k8s.io;v=v1")
    w.patch(w.path("configmaps/a"), body, "text/plain")
    w.patch(w.path("configmaps/a"), body, JSON)


@case
def compression(w: Wire) -> None:
    """A body may come compressed, and an answer is when it is large and the client takes it."""
    big = config_map("big", text="x" * 300_000)
    w.prepare("POST", w.path("configmaps"), big)
    answer = w.side.send("GET", w.path("configmaps/big"), headers={"Accept-Encoding": "gzip"})
    encoding = answer.headers.get("content-encoding", "none")
    body = gzip.decompress(answer.body) if encoding == "gzip" else answer.body
    w.note("GET a large object, gzip accepted", encoding=encoding, size=str(len(json.loads(body)["data"]["text"])))
    small = w.side.send("GET", w.path("configmaps/kube-root-ca.crt"), headers={"Accept-Encoding": "gzip"})
    w.note("GET a small object, gzip accepted", encoding=small.headers.get("content-encoding", "none"))


@case
def too_large(w: Wire) -> None:
    w.post(w.path("configmaps"), config_map("large", text="x" * 1_100_000))
    answer = w.side.send(
        "POST", w.path("configmaps"), json.dumps(config_map("huge", t="x" * 3_500_000)), {"Content-Type": JSON}
    )
    w.note("POST of 3.5 MB", status=str(answer.status), body=w.normal.body(answer.body))


@case
def dry_run(w: Wire) -> None:
    path = w.path("configmaps")
    w.post(path, config_map("a", k="1"), dryRun="All")
    w.get(f"{path}/a")
    w.post(path, config_map("a", k="1"), dryRun="Some")
    w.post(path, config_map("a", k="1"))
    w.put(f"{path}/a", config_map("a", k="2"), dryRun="All")
    w.patch(f"{path}/a", {"data": {"k": "3"}}, "application/merge-patch+json", dryRun="All")
    w.delete(f"{path}/a", dryRun="All")
    w.delete(path, dryRun="All")
    w.get(f"{path}/a")


@case
def delete_options(w: Wire) -> None:
    path = w.path("configmaps")
    made = w.post(path, config_map("a")).json()
    w.delete(f"{path}/a", {"preconditions": {"uid": "other"}})
    w.delete(f"{path}/a", {"preconditions": {"resourceVersion": "1"}})
    w.delete(f"{path}/a", {"propagationPolicy": "Sideways"})
    w.delete(f"{path}/a", {"propagationPolicy": "Background", "orphanDependents": True})
    w.delete(f"{path}/a", {"gracePeriodSeconds": -1}, dryRun="All")
    w.delete(f"{path}/a", "nonsense")
    w.delete(f"{path}/a", {"kind": "ConfigMap", "apiVersion": "v1"})
    w.delete(f"{path}/a", {"preconditions": {"uid": made["metadata"]["uid"]}})
    w.post(path, config_map("b"))
    w.delete(f"{path}/b", propagationPolicy="Background")
    w.post(path, config_map("c"))
    w.delete(f"{path}/c", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"})


@case
def delete_collection(w: Wire) -> None:
    path = w.path("configmaps")
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {"x": "2"})):
        w.prepare("POST", path, {**config_map(name), "metadata": {"name": name, "labels": labels}})
    w.delete(path, labelSelector="x=1")
    w.get(path, labelSelector="x")
    w.delete(path, fieldSelector="metadata.name=c")
    w.get(path, labelSelector="x")
    w.delete(path, labelSelector="bad selector!")
    w.delete("/api/v1/configmaps")


@case
def finalized_object(w: Wire) -> None:
    path = w.path("configmaps")
    held = {**config_map("a"), "metadata": {"name": "a", "finalizers": ["example.com/a", "example.com/b"]}}
    w.post(path, held)
    w.delete(f"{path}/a")
    w.delete(f"{path}/a")
    live = w.get(f"{path}/a").json()
    live["metadata"]["finalizers"] = ["example.com/b", "example.com/c"]
    w.put(f"{path}/a", live)
    live["metadata"]["finalizers"] = ["example.com/b"]
    del live["metadata"]["resourceVersion"]
    w.put(f"{path}/a", live)
    live["metadata"]["finalizers"] = []
    w.put(f"{path}/a", live)
    w.get(f"{path}/a")


@case
def lists(w: Wire) -> None:
    path = w.path("configmaps")
    for index in range(5):
        labels = {"n": str(index % 2), "set": "lists"}
        w.prepare("POST", path, {**config_map(f"c{index}"), "metadata": {"name": f"c{index}", "labels": labels}})
    w.get(path, labelSelector="set=lists")
    w.get(path, labelSelector="set=lists,n=1")
    w.get(path, fieldSelector="metadata.name=c1")
    w.get(path, fieldSelector="metadata.name!=c1", labelSelector="set=lists")
    w.get(path, fieldSelector="metadata.name=c1,metadata.namespace=elsewhere")
    w.get(path, fieldSelector="data.k=1")
    w.get(path, labelSelector="n notin (0),set")
    w.get(path, labelSelector="n>0")
    w.get(path, labelSelector="n in (0")
    first = w.get(path, limit=2, labelSelector="set=lists").json()
    token = first["metadata"].get("continue", "")
    second = w.get(path, **{"limit": 2, "labelSelector": "set=lists", "continue": token}).json()
    w.get(path, **{"limit": 2, "labelSelector": "set=lists", "continue": second["metadata"].get("continue", "")})
    w.get(path, **{"continue": "nonsense"})
    w.get(path, **{"continue": token, "resourceVersion": "1"})
    w.get(path, limit="many")
    w.get(path, limit=-1, labelSelector="set=lists")
    w.get("/api/v1/configmaps", labelSelector="set=lists", limit=1)


@case
def list_revisions(w: Wire) -> None:
    path = w.path("configmaps")
    made = w.prepare("POST", path, config_map("a")).json()
    revision = made["metadata"]["resourceVersion"]
    w.get(path, resourceVersion="0", fieldSelector="metadata.name=a")
    w.get(path, resourceVersion=revision, fieldSelector="metadata.name=a")
    w.get(path, resourceVersion=revision, resourceVersionMatch="NotOlderThan", fieldSelector="metadata.name=a")
    w.get(path, resourceVersion=revision, resourceVersionMatch="Exact", fieldSelector="metadata.name=a")
    w.get(path, resourceVersionMatch="Exact")
    w.get(path, resourceVersion="0", resourceVersionMatch="Exact")
    w.get(path, resourceVersion=revision, resourceVersionMatch="Whatever")
    w.get(path, resourceVersion="nonsense")
    w.get(f"{path}/a", resourceVersion="0")
    w.get(f"{path}/a", resourceVersion=revision)
    w.get(f"{path}/a", resourceVersion="nonsense")


@case
def tables(w: Wire) -> None:
    w.prepare("POST", w.path("configmaps"), config_map("a", x="1"))
    w.get(w.path("configmaps/a"), accept=TABLE)
    w.get(w.path("configmaps"), accept=TABLE, fieldSelector="metadata.name=a")
    w.get(w.path("configmaps/a"), accept=TABLE, includeObject="None")
    w.get(w.path("configmaps/a"), accept=TABLE, includeObject="Object")
    w.get(w.path("configmaps/a"), accept=TABLE, includeObject="Wrong")
    w.get(w.path("configmaps/nothere"), accept=TABLE)
    w.get(w.path("configmaps/a"), accept="application/json;as=Table;v=v9;g=meta.k8s.io")
    w.get(w.path("configmaps/a"), accept=f"{TABLE},application/json")


@case
def table_columns(w: Wire) -> None:
    """The columns of every built-in kind, from an empty list."""
    for group in ("/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/rbac.authorization.k8s.io/v1"):
        _columns(w, group)
    for group in ("coordination.k8s.io/v1", "scheduling.k8s.io/v1", "events.k8s.io/v1", "apiextensions.k8s.io/v1"):
        _columns(w, f"/apis/{group}")
    for group in ("policy/v1", "networking.k8s.io/v1", "storage.k8s.io/v1", "autoscaling/v2", "discovery.k8s.io/v1"):
        _columns(w, f"/apis/{group}")


def _columns(w: Wire, group: str) -> None:
    for resource in w.prepare("GET", group).json()["resources"]:
        if "list" not in resource["verbs"]:
            continue
        place = f"{group}/namespaces/{w.ns}" if resource["namespaced"] else group
        path = f"{place}/{resource['name']}?limit=1&includeObject=None"
        answer = w.side.send("GET", path, headers={"Accept": TABLE})
        columns = [
            f"{column['name']} {column['type']} {column['format'] or '-'} {column['priority']}"
            for column in answer.json().get("columnDefinitions", [])
        ]
        w.note(f"columns of {group}/{resource['name']}", status=str(answer.status), columns="\n".join(columns))


@case
def field_validation(w: Wire) -> None:
    path = w.path("configmaps")
    bad = {**config_map("a"), "dataa": {"x": "y"}}
    bad["metadata"]["lables"] = {}
    for level in ("Strict", "Warn", "Ignore", "Wrong"):
        w.post(path, bad, fieldValidation=level, dryRun="All")
    w.post(path, bad, dryRun="All")
    twice = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}'
    for level in ("Strict", "Warn", "Ignore"):
        w.post(path, twice, fieldValidation=level, dryRun="All")
    w.prepare("POST", path, config_map("a"))
    for level in ("Strict", "Warn"):
        w.put(f"{path}/a", {**config_map("a"), "dataa": {}}, fieldValidation=level)
        w.patch(f"{path}/a", {"dataa": {"k": "1"}}, "application/merge-patch+json", fieldValidation=level)
        w.patch(
            f"{path}/a",
            [{"op": "add", "path": "/dataa", "value": {}}],
            "application/json-patch+json",
            fieldValidation=level,
        )
    yaml_body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndataa: {}\ndata: {a: b}\ndata: {a: c}\n"
    for level in ("Strict", "Warn"):
        w.post(path, yaml_body, content=YAML, fieldValidation=level, dryRun="All")


@case
def unchanged_writes(w: Wire) -> None:
    """A write that changes nothing leaves the revision as it was."""
    path = w.path("configmaps")
    w.post(path, config_map("a", k="1"))
    w.put(f"{path}/a", config_map("a", k="1"))
    w.patch(f"{path}/a", {"data": {"k": "1"}}, "application/merge-patch+json")
    w.patch(f"{path}/a", {}, "application/merge-patch+json")
    w.patch(f"{path}/a", [], "application/json-patch+json")
    w.patch(f"{path}/a", {"data": {"k": "2"}}, "application/merge-patch+json")


@case
def field_managers(w: Wire) -> None:
    path = w.path("configmaps")
    w.post(path, config_map("a", k="1"), fieldManager="maker")
    w.patch(f"{path}/a", {"data": {"j": "1"}}, "application/merge-patch+json", fieldManager="changer")
    w.put(f"{path}/a", config_map("a", k="5"), fieldManager="putter")
    w.post(path, config_map("b"), fieldManager="x" * 129)
    w.post(path, config_map("b"), fieldManager="bad\x07")
    w.send("POST", path, config_map("c"), headers={"User-Agent": "my-tool/1.0 (linux)"})
    live = w.get(f"{path}/a").json()
    live["metadata"]["managedFields"] = []
    w.put(f"{path}/a", live, fieldManager="resetter")
    live = w.get(f"{path}/a").json()
    live["metadata"]["managedFields"] = [{"manager": "broken", "operation": "What"}]
    w.put(f"{path}/a", live, fieldManager="breaker")


@case
def dry_runs_of_what_was_read(w: Wire) -> None:
    w.post(w.path("secrets"), {"metadata": {"name": "s", "resourceVersion": "12345", "uid": "u"}}, dryRun="All")
    w.post(w.path("secrets"), {"metadata": {"name": "s", "resourceVersion": "0"}}, dryRun="All")
    w.post(w.path("secrets"), {"metadata": {"name": "s", "resourceVersion": "12345"}})


@case
def numbers_in_queries(w: Wire) -> None:
    for number in ("99999999999999999999999", "1_0", "0x1", "1e3", "-", "+"):
        w.get(w.path("secrets"), limit=number)
        w.delete(w.path("secrets/absent"), gracePeriodSeconds=number)
        for options in ({}, {"resourceVersionMatch": "Exact"}, {"watch": "true", "timeoutSeconds": "1"}):
            w.get(w.path("secrets"), resourceVersion=number, **options)
        w.get(w.path("secrets"), watch="true", timeoutSeconds=number)
