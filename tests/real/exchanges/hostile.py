"""Requests that are odd or mean harm: queries, headers and bodies nobody should send, and what is said about them."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

from tests.real.exchanges.manifests import CRDS, _defined
from tests.real.wire import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, YAML, Wire, case

PROTOBUF = "application/vnd.kubernetes.protobuf"


def config(name: str, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def token(**said: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")


LIST_QUERIES = (
    "limit=-1",
    "limit=abc",
    "limit=99999999999999999999",
    "limit=1.5",
    "limit=",
    "limit=+1",
    "limit=0x1",
    "limit=1&limit=2",
    "timeoutSeconds=abc",
    "timeoutSeconds=-5",
    "timeoutSeconds=99999999999999999999",
    "resourceVersion=garbage",
    "resourceVersion=-1",
    "resourceVersion=1.0",
    "resourceVersion=99999999999999999999999",
    "resourceVersion=0x10",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=Exact&resourceVersion=0",
    "resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Sometimes&resourceVersion=1",
    "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x",
    "continue=garbage",
    "continue=%00",
    f"continue={token(v='meta.k8s.io/v1', rv=1, start='/../../x')}",
    f"continue={token(v='meta.k8s.io/v2', rv=1, start='a')}",
    f"continue={token(v='meta.k8s.io/v1', rv=1)}",
    f"continue={token(v='meta.k8s.io/v1', start='a')}",
    f"continue={token()}",
    f"continue={base64.urlsafe_b64encode(b'[]').decode()}",
    f"continue={base64.urlsafe_b64encode(b'null').decode().rstrip('=')}",
    "continue=" + "A" * 5000,
    "fieldSelector=metadata.name",
    "fieldSelector=metadata.name=a=b",
    "fieldSelector==",
    "fieldSelector=,",
    "fieldSelector=metadata.name=a,",
    "fieldSelector=nothing=a",
    "fieldSelector=metadata.name>a",
    "fieldSelector=metadata.name=%5C",
    "fieldSelector=metadata.name=%5Ca",
    "fieldSelector=metadata.name=%5C%2C",
    "fieldSelector=metadata.name!=a,metadata.name==b",
    "fieldSelector=metadata.namespace=elsewhere",
    "fieldSelector=%00",
    "labelSelector=a b",
    "labelSelector==",
    "labelSelector=a in",
    "labelSelector=a in ()",
    "labelSelector=a in (b",
    "labelSelector=a in (b,,c)",
    "labelSelector=a>b",
    "labelSelector=a>1,b<2",
    "labelSelector=!a,b",
    "labelSelector=!",
    "labelSelector=,",
    "labelSelector=a=b=c",
    "labelSelector=" + "a" * 64,
    "labelSelector=a=" + "b" * 64,
    "labelSelector=/a",
    "labelSelector=a/",
    "labelSelector=a/b/c",
    "labelSelector=-a",
    "labelSelector=a notin (b),c in (d)",
    "labelSelector=a in (b) c",
    "labelSelector=%C3%A9",
    "allowWatchBookmarks=perhaps",
    "watch=perhaps&timeoutSeconds=1",
    "watch=2&timeoutSeconds=1",
    "sendInitialEvents=true",
    "sendInitialEvents=perhaps",
    "sendInitialEvents=true&watch=true&timeoutSeconds=1",
    "sendInitialEvents=true&watch=true&timeoutSeconds=1&resourceVersionMatch=Exact",
    "pretty=perhaps",
    "unknown=parameter",
    "limit=1;x=2",
    "%zz=1",
    "limit=%zz",
    "=",
    "&&&",
    "shardSelector=x",
)


@case
def queries_of_lists(w: Wire) -> None:
    w.prepare("POST", w.path("configmaps"), config("a"))
    for query in LIST_QUERIES:
        spaced = quote(query, safe="=&%;!,()/<>+.")
        w.send("GET", f"{w.path('configmaps')}?{spaced}")
    for query in LIST_QUERIES[:30:3]:
        w.send("DELETE", f"{w.path('configmaps')}?dryRun=All&{quote(query, safe='=&%;!,()/<>+.')}")


WRITE_QUERIES = (
    "dryRun=",
    "dryRun=None",
    "dryRun=All&dryRun=All",
    "dryRun=All,All",
    "fieldManager=" + "x" * 129,
    "fieldManager=%00",
    "fieldManager=%C3%A9",
    "fieldManager=%FF",
    "fieldValidation=Perhaps",
    "fieldValidation=",
    "fieldValidation=strict",
    "force=true",
    "force=perhaps",
    "timeout=abc",
    "timeout=-1s",
    "timeout=1",
    "timeout=10h",
)


@case
def queries_of_writes(w: Wire) -> None:
    path = w.path("configmaps")
    w.prepare("POST", path, config("a"))
    for query in WRITE_QUERIES:
        w.send("POST", f"{path}?{query}", config("made"))
        w.prepare("DELETE", f"{path}/made")
        w.send("PATCH", f"{path}/a?{query}", {"data": {"k": "v"}}, content=MERGE)
        w.send("PATCH", f"{path}/a?{query}", config("a", l="m"), content=APPLY)
        w.send("PUT", f"{path}/a?{query}", config("a", m="n"))
    for query in ("gracePeriodSeconds=abc", "gracePeriodSeconds=-1", "gracePeriodSeconds=99999999999999999999", "propagationPolicy=Sideways", "orphanDependents=perhaps", "orphanDependents=true&propagationPolicy=Orphan", "dryRun=Some"):  # fmt: skip
        w.send("DELETE", f"{path}/a?{query}")
        w.prepare("POST", path, config("a"))


MEDIA = (
    "",
    "application/json;charset=latin1",
    "application/json; q=1",
    "APPLICATION/JSON",
    "application/JSON; charset=UTF-8",
    "text/json",
    "text/yaml",
    "application/x-yaml",
    "application/merge-patch+json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "*/*",
    "application/*",
    "json",
    ";",
    "application/json,application/yaml",
    PROTOBUF,
    f"{PROTOBUF};stream=watch",
    "application/cbor",
    "application/cbor-seq",
    "application/apply-patch+cbor",
)
ACCEPTS = (
    "",
    "*/*;q=0",
    "application/json;q=0",
    "application/json;q=abc",
    "application/json;stream=watch",
    "application/json;as=Table",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=wrong",
    "text/plain",
    "text/*",
    "application/*;q=0.5,text/html",
    ",",
    ";;;",
    "application/json;",
    "text/yaml",
    "application/cbor,application/json;q=0.1",
    "application/json;pretty=1",
    "APPLICATION/JSON",
)


@case
def media_of_all_kinds(w: Wire) -> None:
    path = w.path("configmaps")
    w.prepare("POST", path, config("a"))
    for media in MEDIA:
        headers = {"Content-Type": media}
        w.send("POST", path, config("made"), content="", query={"dryRun": "All"}, headers=headers)
        w.send("PATCH", f"{path}/a", {"data": {"k": "v"}}, content="", query={"dryRun": "All"}, headers=headers)
    for accept in ACCEPTS:
        w.get(f"{path}/a", accept=accept)


NUMBERS = (
    "-0",
    "-0.0",
    "01",
    "+1",
    ".5",
    "1.",
    "0x10",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_000",
    "9007199254740993",
)


@case
def numbers_of_all_kinds(w: Wire) -> None:
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = _defined(w, "sums", "Sum", open_)
    head = '{"apiVersion":"manifests.example.org/v1","kind":"Sum","metadata":{"name":"a"},"spec":{"n":'
    w.prepare("POST", path, head.replace('"a"', '"there"') + "1}}")
    for number in NUMBERS:
        w.post(path, f"{head}{number}}}}}", dryRun="All")
        w.post(path, f"{head}{number}}}}}", content=YAML, dryRun="All")
        w.patch(f"{path}/there", f'{{"spec":{{"n":{number}}}}}', MERGE, dryRun="All")
        deployment = f'{{"metadata":{{"name":"d"}},"spec":{{"replicas":{number}}}}}'
        w.post(w.path("deployments", "apps/v1"), deployment, dryRun="All")
        w.post(w.path("configmaps"), f'{{"metadata":{{"name":"d","generation":{number}}}}}', dryRun="All")
    w.prepare("DELETE", f"{CRDS}/sums.manifests.example.org")


TEXTS = (
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'"\xc3"',
    b'"\xed\xa0\x80"',
    b'"a\nb"',
    b'"a\tb"',
    b'"\x7f"',
    b'"\\x"',
    b'"\\u12"',
    b"'a'",
    b'"a',
    b'"\\/"',
    b'"\xe2\x80\xa8<>&"',
)


@case
def texts_of_all_kinds(w: Wire) -> None:
    path = w.path("configmaps")
    w.prepare("POST", path, config("there"))
    for text in TEXTS:
        w.post(path, b'{"metadata":{"name":"a"},"data":{"k":' + text + b"}}", dryRun="All")
        w.post(path, b'{"metadata":{"name":"a","annotations":{' + text + b':"v"}}}', dryRun="All")
        w.patch(f"{path}/there", b'{"data":{"k":' + text + b"}}", MERGE, dryRun="All")
        w.patch(f"{path}/there", b'{"data":{"k":' + text + b"}}", STRATEGIC, dryRun="All")
    for body in (
        b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
        b'{"metadata":{"name":"a"},"metadata":{"name":"b"}}',
        b'{"metadata":{"name":"a"},"Metadata":{"name":"b"}}',
        b'{"metadata":{"name":"a","name":"b"},"x":1,"x":2}',
        b'{"metadata":{"name":"a"}}\x00',
        b'\xef\xbb\xbf{"metadata":{"name":"a"}}',
        b'{"metadata":{"name":"a"},}',
        b'{"metadata":{"name":"a"}/* c */}',
        b'[{"metadata":{"name":"a"}}]',
        b'{"metadata":{"name":"a"}} {"metadata":{"name":"b"}}',
        b"\x1f\x8b\x08\x00",
        b"   ",
    ):
        w.post(path, body, dryRun="All")
        w.post(path, body, dryRun="All", fieldValidation="Strict")


PATCHES: tuple[tuple[str, Any], ...] = (
    (JSON_PATCH, []),
    (JSON_PATCH, {}),
    (JSON_PATCH, None),
    (JSON_PATCH, "x"),
    (JSON_PATCH, [1]),
    (JSON_PATCH, [None]),
    (JSON_PATCH, [{}]),
    (JSON_PATCH, [{"op": "add"}]),
    (JSON_PATCH, [{"op": "add", "path": "/data/x"}]),
    (JSON_PATCH, [{"op": "add", "path": 5, "value": 1}]),
    (JSON_PATCH, [{"op": 5, "path": "/data/x", "value": 1}]),
    (JSON_PATCH, [{"op": "frob", "path": "/data/x", "value": "1"}]),
    (JSON_PATCH, [{"op": "add", "path": "data/x", "value": "1"}]),
    (JSON_PATCH, [{"op": "add", "path": "", "value": {}}]),
    (JSON_PATCH, [{"op": "remove", "path": ""}]),
    (JSON_PATCH, [{"op": "replace", "path": "/", "value": {}}]),
    (JSON_PATCH, [{"op": "test", "path": "/data/k", "value": "other"}]),
    (JSON_PATCH, [{"op": "test", "path": "/data/none", "value": None}]),
    (JSON_PATCH, [{"op": "copy", "from": "/data", "path": "/data/x"}]),
    (JSON_PATCH, [{"op": "move", "from": "/data", "path": "/data/x/y"}]),
    (JSON_PATCH, [{"op": "move", "from": "/none", "path": "/data/x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/data/~2", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/data/~01", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/finalizers/-", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/finalizers/5", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/finalizers/-1", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/finalizers/99999999999999999999", "value": "x"}]),
    (JSON_PATCH, [{"op": "add", "path": "/data/x", "value": "1"}] * 10001),
    (MERGE, []),
    (MERGE, None),
    (MERGE, 5),
    (MERGE, {"data": {"x": {"y": {"z": None}}}}),
    (MERGE, {"": ""}),
    (STRATEGIC, []),
    (STRATEGIC, None),
    (STRATEGIC, {"$patch": "delete"}),
    (STRATEGIC, {"$patch": "frob"}),
    (STRATEGIC, {"data": {"$patch": "replace", "z": "1"}}),
    (STRATEGIC, {"data": {"$patch": "delete"}}),
    (STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
    (STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}),
    (STRATEGIC, {"metadata": {"$setElementOrder/finalizers": ["x"], "finalizers": ["y"]}}),
    (STRATEGIC, {"metadata": {"$retainKeys": ["name"]}}),
    (STRATEGIC, {"metadata": {"$frob/finalizers": ["x"]}}),
    (STRATEGIC, {"$retainKeys": 5}),
    (APPLY, []),
    (APPLY, None),
    (APPLY, "x"),
    (APPLY, {}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap"}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": 5}}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": ["x", "x"]}}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "a"}]}}),
    (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"ownerReferences": [{}]}}),
)


@case
def patches_of_all_kinds(w: Wire) -> None:
    path = w.path("configmaps")
    w.prepare("POST", path, config("a", k="v"))
    for form, patch in PATCHES:
        w.patch(f"{path}/a", json.dumps(patch), form, dryRun="All", fieldManager="m")


def message(*fields: tuple[int, int, Any]) -> bytes:
    made = b""
    for number, kind, value in fields:
        made += varint(number << 3 | kind)
        made += varint(value) if kind == 0 else (varint(len(value)) + value if kind == 2 else value)
    return made


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes(made) + bytes([number])


def unknown(kind: str, version: str, raw: bytes, **more: Any) -> bytes:
    return b"k8s\x00" + message((1, 2, message((1, 2, version.encode()), (2, 2, kind.encode()))), (2, 2, raw))


@case
def protobuf_of_all_kinds(w: Wire) -> None:
    path = w.path("configmaps")
    meta = message((1, 2, b"a"))
    good = message((1, 2, meta), (2, 2, message((1, 2, b"k"), (2, 2, b"v"))))
    for body in (
        unknown("ConfigMap", "v1", good),
        unknown("ConfigMap", "v1", message((1, 2, meta), (99, 2, b"x"))),
        unknown("ConfigMap", "v1", b""),
        unknown("Secret", "v1", good),
        unknown("", "", good),
        b"k8s\x00",
        b"k8s",
        b"",
        b"{}",
        b"k8s\x01" + good,
    ):
        answer = w.side.send("POST", f"{path}?dryRun=All", body, {"Content-Type": PROTOBUF, "Accept": JSON})
        w.note(f"protobuf {body!r}", status=str(answer.status), body=w.normal.body(answer.body))


@case
def paths_of_all_kinds(w: Wire) -> None:
    for path in (
        "/api/v1/namespaces/{ns}/configmaps/",
        "/api/v1/namespaces/{ns}/configmaps/a/b",
        "/api/v1/namespaces/{ns}/configmaps/a/status",
        "/api/v1/namespaces/{ns}/configmaps/../configmaps",
        "/api/v1/namespaces/{ns}/configmaps/%2e%2e",
        "/api/v1/namespaces/{ns}/configmaps/a%2Fb",
        "/api/v1/namespaces/{ns}/configmaps/%00",
        "/api/v1/namespaces/{ns}/configmaps/" + "a" * 300,
        "/api/v1/namespaces/{ns}/configmaps/A",
        "/api/v1/namespaces/A B/configmaps".replace(" ", "%20"),
        "/api/v2/namespaces",
        "/api/v1/nothing",
        "/apis/nothing/v1/things",
        "/apis/apps/v9/deployments",
        "/apis/apps",
        "/apis/apps/",
        "/api",
        "/api/",
        "/nothing",
        "/api/v1/namespaces/{ns}/configmaps;x=1",
        "/api/v1/namespaces/{ns}/configmaps#x",
        "/apis/batch/v1/jobs/a",
        "/apis/batch/v1/namespaces/{ns}/jobs/a/scale",
        "/api/v1/watch/namespaces/{ns}/configmaps/a/b",
        "/api/v1/proxy/namespaces/{ns}/pods/a",
        "/api/v1/namespaces/{ns}/pods/a/proxy/x",
        "/api/v1/namespaces/{ns}/finalize",
        "/api/v1/nodes/a/proxy",
    ):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            if method == "DELETE" and path.rstrip("/").endswith(("configmaps", "namespaces")):
                continue
            if method != "GET" and path.rstrip("/").count("/") < 3:
                continue  # the real server answers as if it had been asked to look
            body = None if method in ("GET", "DELETE") else "{}"
            content = MERGE if method == "PATCH" else JSON
            w.send(method, path.format(ns=w.ns), body, content=content)
