"""Objects that no controller expects: what an older, looser version, another program or a broken disk may have left in the store.

`drawn` makes them for any kind from its OpenAPI schema; they are written past the API (`inject`), with the server stopped.
Some are well typed and absurdly large, others lack what every object has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.conformance.hostile import Kind

from gpuaas.base.clock import SystemClock
from gpuaas.store import Store

Object = dict[str, Any]

WIDE = 60_000  # bytes of one drawn object: all kinds together stay a few tens of megabytes
_MOST = 1000  # entries of one list
_DEPTH = 9


def drawn(kind: Kind, namespace: str) -> Iterator[tuple[str, Object]]:
    """(how, object): `bare` has only a name, `hollow` all fields and nothing in them, `wide` the most entries that go
    into `WIDE` bytes, `odd` strings that are no quantity, no time and no name, `owned` thousands of owners."""
    yield "bare", _named(kind, namespace, "bare", {})
    yield "hollow", _named(kind, namespace, "hollow", _filled(kind, 0, ""))
    yield "odd", _named(kind, namespace, "odd", _filled(kind, 1, "no such thing"))
    one = _named(kind, namespace, "wide", _filled(kind, 1, "a"))
    count = max(1, min(WIDE // len(json.dumps(one)), _MOST))
    yield "wide", _named(kind, namespace, "wide", _filled(kind, count, "a"))
    owners = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": f"o{each}", "uid": f"o{each}", "controller": each == 0}
        for each in range(300)
    ]
    crowded = {"ownerReferences": owners, "finalizers": [f"example.com/f{each}" for each in range(300)]}
    made = _named(kind, namespace, "owned", {})
    yield "owned", {**one, "metadata": {**made["metadata"], **crowded}}


def aimed(kinds: Iterable[Kind], namespace: str) -> Iterator[tuple[str, Object]]:
    """(key, object): unreadable in the middle of what others use in the demo fleet: pods on a node, workloads in a queue
    and in its cohort, a node of a flavor."""
    where: dict[str, tuple[str, Object]] = {
        "pods": (namespace, {"nodeName": "cpu-0"}),
        "workloads": (namespace, {"queueName": "default", "active": True}),
        "clusterqueues": ("", {"cohortName": "centre", "cohort": "centre"}),
        "localqueues": (namespace, {"clusterQueue": "team-a"}),
        "jobs": (namespace, {"suspend": True}),
    }
    for kind in kinds:
        if kind.group not in ("", "batch", "kueue.x-k8s.io") or kind.plural not in where:
            continue
        at, spec = where[kind.plural]
        for how, obj in drawn(kind, at):
            meta = {**obj["metadata"], "name": f"aimed-{how}", "uid": f"aimed-{kind.plural}-{how}"}
            if kind.plural in ("jobs", "pods"):
                meta["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
            said = obj.get("spec")
            # What says that it has ended, or holds quota already, would be left alone.
            made = {**obj, "metadata": meta, "status": {}}
            if isinstance(said, dict):
                made["spec"] = {**said, **spec}
            yield key(kind, made), made


def inject(store: Path, objects: Iterable[tuple[str, Object]]) -> None:
    """Writes (key, object) pairs into a store that no server has open, past every check."""

    async def write() -> None:
        opened = await Store.open(store, clock=SystemClock(), fsync=False)
        try:
            pending = []
            for key, obj in objects:

                def render(revision: int, obj: Object = obj) -> tuple[bytes, Object]:
                    kept = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
                    return json.dumps(kept, separators=(",", ":")).encode(), kept

                pending.append(opened.put(key, render))
                if len(pending) == 100:
                    await asyncio.gather(*pending)
                    pending.clear()
            await asyncio.gather(*pending)
        finally:
            await opened.close()

    asyncio.run(write())


def key(kind: Kind, obj: Object) -> str:
    meta = obj["metadata"]
    return f"{kind.group}/{kind.plural}/{meta.get('namespace', '')}/{meta['name']}"


def _named(kind: Kind, namespace: str, how: str, filled: Object) -> Object:
    name = f"poison-{how}"
    if kind.kind == "CustomResourceDefinition":
        name = f"poison{how}s.poison.example"
    meta: Object = {
        "name": name,
        "uid": f"poison-{kind.group}-{kind.plural}-{how}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
    }
    if kind.namespaced:
        meta["namespace"] = namespace
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta, **filled}


def _filled(kind: Kind, count: int, text: str) -> Object:
    made = _by_schema(kind.schema, kind.schemas, count, text, _DEPTH)
    assert isinstance(made, dict)
    return {name: part for name, part in made.items() if name not in ("kind", "apiVersion", "metadata")}


def _by_schema(schema: Object, schemas: dict[str, Object], count: int, text: str, depth: int) -> Any:
    while True:
        if "$ref" in schema:
            schema = schemas.get(schema["$ref"].rpartition("/")[2], {})
        elif len(schema.get("allOf") or ()) == 1 and "type" not in schema:
            schema = schema["allOf"][0]
        else:
            break
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return text or 0
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, count, text, depth)
        case "array":
            inner = min(count, 1)
            if depth <= 0:
                return []
            one = _by_schema(schema.get("items") or {}, schemas, inner, text, depth - 1)
            return [_numbered(one, index) for index in range(count)]
        case "integer" | "number":
            return 2**31 - 1 if count else 0
        case "boolean":
            return bool(count)
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" and text == "a" else text
        case _:
            return text


def _object(schema: Object, schemas: dict[str, Object], count: int, text: str, depth: int) -> Object:
    if depth <= 0:
        return {}
    made = {
        name: _by_schema(part, schemas, count, text, depth - 1)
        for name, part in (schema.get("properties") or {}).items()
    }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        value = _by_schema(extra, schemas, min(count, 1), text, depth - 1)
        made |= {f"key-{index}": value for index in range(count)}
    return made


def _numbered(one: Any, index: int) -> Any:
    return {**one, "name": f"n{index}"} if isinstance(one, dict) and "name" in one else one


def systems(found: Iterable[tuple[Kind, Object]]) -> Iterator[tuple[str, Object]]:
    """Every second of the objects a cluster made for itself without its spec, rules and data, the others with nonsense."""
    for number, (kind, item) in enumerate(found):
        if kind.kind in ("Namespace", "ServiceAccount", "Event", "Lease", "Pod"):
            continue
        bare = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": item["metadata"]}
        odd = _filled(kind, 1, "no such thing")
        yield key(kind, item), bare if number % 2 else {**bare, **odd}


def absurd(namespace: str) -> Iterator[tuple[str, Object]]:
    """(path, object): what the API takes, or refuses with the limit, as large and as deep as it comes."""
    core, batch = f"/api/v1/namespaces/{namespace}", f"/apis/batch/v1/namespaces/{namespace}"
    container: Object = {"name": "a", "image": "x"}
    long_name = "n" * 253
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{each}", "uid": f"u{each}"} for each in range(5000)]
    meta: Object = {
        "labels": {f"l{each}": "v" * 60 for each in range(5000)},
        "annotations": {f"example.com/{each}": "v" * 40 for each in range(3000)},
        "finalizers": [f"example.com/f{each}" for each in range(5000)],
        "ownerReferences": owners,
    }
    yield f"{core}/configmaps", _plain("v1", "ConfigMap", long_name, {"data": {"a": "x" * 1_000_000}})
    yield f"{core}/configmaps", {**_plain("v1", "ConfigMap", "crowded", {}), "metadata": {"name": "crowded", **meta}}
    yield f"{core}/secrets", _plain("v1", "Secret", "wide", {"stringData": {f"k{each}": "" for each in range(20_000)}})
    pod = {"containers": [container]}
    yield f"{core}/pods", {**_plain("v1", "Pod", "crowded", {"spec": pod}), "metadata": {"name": "crowded", **meta}}
    yield f"{core}/pods", _plain("v1", "Pod", long_name, {"spec": pod})
    for name, spec in pod_specs(1.0):
        made = {"containers": [container], **spec}
        yield f"{core}/pods", _plain("v1", "Pod", f"wide-{name.lower()}", {"spec": made})
        template = {"spec": {"restartPolicy": "Never", **made}}
        yield f"{batch}/jobs", _plain("batch/v1", "Job", f"wide-{name.lower()}", {"spec": {"template": template}})
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for how, schema in (("deep", _deep(60)), ("wide", _wide(5000)), ("ruled", _ruled(200))):
        yield crds, definition(f"{how}s", schema)


def definition(plural: str, schema: Object) -> Object:
    names = {"plural": plural, "kind": plural.title(), "singular": plural[:-1]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "absurd.example", "scope": "Namespaced", "names": names, "versions": [version]}
    return _plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.absurd.example", {"spec": spec})


def pod_specs(scale: float) -> Iterator[tuple[str, Object]]:
    """Specs with far too many entries of one sort; `scale` 1 is about 1 MB."""

    def some(number: int) -> range:
        return range(int(number * scale))

    required, preferred = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
    container: Object = {"name": "a", "image": "x"}

    def expression(each: int) -> Object:
        return {"key": f"k{each}", "operator": "DoesNotExist"}

    def other(each: int) -> Object:
        return {"labelSelector": {"matchLabels": {"a": f"v{each}"}}, "topologyKey": f"k{each}"}

    def node(terms: Any) -> Object:
        return {"affinity": {"nodeAffinity": terms}}

    def tolerations(each: int) -> Object:
        return {"key": f"k{each}", "operator": "Exists", "effect": "NoSchedule"}

    yield "tolerations", {"tolerations": [tolerations(each) for each in some(20_000)]}
    terms = [{"matchExpressions": [expression(each)]} for each in some(12_000)]
    yield "nodeTerms", node({required: {"nodeSelectorTerms": terms}})
    expressions = [{"matchExpressions": [expression(each) for each in some(20_000)]}]
    yield "nodeExpressions", node({required: {"nodeSelectorTerms": expressions}})
    values = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [f"v{each}" for each in some(90_000)]}
    yield "nodeValues", node({required: {"nodeSelectorTerms": [{"matchExpressions": [values]}]}})
    weighted = [{"weight": 1, "preference": {"matchExpressions": [expression(each)]}} for each in some(10_000)]
    yield "nodePreferences", node({preferred: weighted})
    for kind in ("podAffinity", "podAntiAffinity"):
        yield kind, {"affinity": {kind: {required: [other(each) for each in some(12_000)]}}}
        wishes = [{"weight": 1, "podAffinityTerm": other(each)} for each in some(9_000)]
        yield f"{kind}Preferred", {"affinity": {kind: {preferred: wishes}}}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    yield "spread", {"topologySpreadConstraints": [{**other(each), **spread} for each in some(9_000)]}
    yield "nodeSelector", {"nodeSelector": {f"k{each}": "v" for each in some(50_000)}}
    yield "containers", {"containers": [{"name": f"c{each}", "image": "x"} for each in some(10_000)]}
    yield "initContainers", {"initContainers": [{"name": f"c{each}", "image": "x"} for each in some(10_000)]}
    env = [{"name": f"E{each}", "value": "x"} for each in some(20_000)]
    yield "env", {"containers": [{**container, "env": env}]}
    yield "volumes", {"volumes": [{"name": f"v{each}", "emptyDir": {}} for each in some(20_000)]}
    ports = [{"containerPort": 1 + each, "hostPort": 1 + each} for each in some(15_000)]
    yield "ports", {"containers": [{**container, "ports": ports}]}
    amounts = {f"example.com/r{each}": "1" for each in some(20_000)}
    yield "resources", {"containers": [{**container, "resources": {"requests": amounts, "limits": amounts}}]}
    yield "gates", {"schedulingGates": [{"name": f"a/g{each}"} for each in some(30_000)]}
    yield "secrets", {"imagePullSecrets": [{"name": f"g{each}"} for each in some(40_000)]}


def _plain(version: str, kind: str, name: str, more: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def _deep(levels: int) -> Object:
    schema: Object = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _wide(fields: int) -> Object:
    return {"type": "object", "properties": {f"f{each}": {"type": "string"} for each in range(fields)}}


def _ruled(rules: int) -> Object:
    said = [{"rule": f"size(self.a) < {each + 1000}"} for each in range(rules)]
    return {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 10}},
        "x-kubernetes-validations": said,
    }
