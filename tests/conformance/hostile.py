"""What a hostile or broken client might send: values, objects by schema, patches, selectors, paths, bytes. Seeded.

Objects are drawn from the server's own OpenAPI documents, so that every kind it serves is reached; most values have
the right type, so that what is wrong lies deep. Nothing here talks to the server (module fuzz does).
"""

from __future__ import annotations

import json
import random
import string
from dataclasses import dataclass, field
from typing import Any

STRINGS = (
    "", " ", "a", "a-b", "A_B", "-", ".", "..", "a/b", "a b", "é", "\u0000", "\n", "\ud800", "\U0001f4a9", "\u202e", "1", "0",
    "-1", "1e3", "1Gi", "100m", "10.96.0.7", "::1", "300.1.1.1", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
    "2026-13-45T99:99:99Z", "true", "null", "NaN", "%s%n", "{{.}}", "*/5 * * * *", "@every 1s", "Always", "x" * 300, "kubernetes.io/x",
    "nvidia.com/gpu", "$(PATH)", "../../etc/passwd", "default", "Foreground", "999999999999999999999999", "1e400Gi", "١٢", "1_000",
    "9" * 5000, "P1D", "1h30m", "0x10", "a=b,c in (d)", "metadata.name", "system:masters", "cluster-admin", "ns", "Recreate",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    80,
    443,
    65536,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.0,
    1e308,
    1e-320,
    3.0,
)
CEL = (
    "true", "self == oldSelf", "self.a > 1", "size(self) < 10", "self.matches('(a+)+$')", "has(self.x)", "self.all(x, x > 0)", "1/0 == 1",
    "self.x.y.z", "((((", "'a' + 1", "self.map(x, x.map(y, y*y))", "quantity('1Gi').isLessThan(self.q)", "url('http://x')", "self", "",
    "self.exists(k, self[k] == 'x')", "duration('1h') > duration(self)", "[1,2,3][9]", "9223372036854775807 + 1 > 0", "self.startsWith(self)",
    "dyn(self).foo", "cel.bind(a, self, a)", "x" * 5000, "!" * 600 + "true", "self.a.b" + ".c" * 300, "(" * 400 + "1" + ")" * 400, "[" * 500 + "]" * 500,
    "oldSelf.hasValue() ? true : false", "ip('1.2.3.4').family() == 4", "format.dns1123Label().validate(self).hasValue()", "self.sum() > 1",
)  # fmt: skip
SELECTORS = (
    "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin ()", "a>1", "a<x", "a in (", ",,,", "a=b,", "=", "!", "a in (b) c", "é=ü", "a=" + "b" * 100,
    "metadata.name=x", "metadata.name!=x", "status.phase=Running", "spec.nodeName=", "x.y.z=1", "metadata.name", "a\\=b=c", "(" * 200, "\u0000=1", "a in (" + "x," * 500 + ")",
)  # fmt: skip
MEDIA = (
    "application/json", "application/json", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "", "application/json; charset=latin-1",
    "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor", "*/*", ";;;", "é",
)  # fmt: skip
ACCEPTS = (
    "application/json", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf", "text/html", "q=,;;=", "application/json;as=Table;v=v9", "application/json;q=nan, */*;q=x",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", ",", "application/json;stream=watch",
)  # fmt: skip


@dataclass(slots=True)
class Kind:
    """Something served: where, and what its objects look like."""

    base: str  # /api/v1 or /apis/group/version
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]
    schema: dict[str, Any] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        parts = [self.base + where, self.plural, name, subresource]
        return "/".join(part for part in parts if part)


class Hostile:
    def __init__(self, chance: random.Random, names: list[str]) -> None:
        self.chance = chance
        self.names = names

    # Values.

    def text(self) -> str:
        roll = self.chance.random()
        if roll < 0.4:
            return self.chance.choice(self.names)
        if roll < 0.85:
            return self.chance.choice(STRINGS)
        return "".join(self.chance.choice(string.printable) for _ in range(self.chance.randrange(40)))

    def value(self, depth: int = 3) -> Any:
        match self.chance.randrange(9 if depth else 5):
            case 0:
                return None
            case 1:
                return self.chance.random() < 0.5
            case 2:
                return self.chance.choice(NUMBERS)
            case 3 | 4:
                return self.text()
            case 5 | 6:
                return [self.value(depth - 1) for _ in range(self.chance.randrange(4))]
            case _:
                return {self.text(): self.value(depth - 1) for _ in range(self.chance.randrange(4))}

    def by_schema(self, schema: dict[str, Any], schemas: dict[str, Any], depth: int = 9, noise: float = 0.04) -> Any:
        """Mostly what the schema says, now and then anything at all."""
        if self.chance.random() < noise or depth <= 0:
            return self.value(2)
        while True:
            if "$ref" in schema:
                schema = schemas.get(schema["$ref"].rpartition("/")[2], {})
            elif len(schema.get("allOf") or ()) == 1 and "type" not in schema:
                schema = schema["allOf"][0]
            else:
                break
        if schema.get("enum") and self.chance.random() < 0.9:
            return self.chance.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return self.chance.choice([1, 0, "50%", "1", "http", self.chance.choice(NUMBERS)])
        match schema.get("type"):
            case "object":
                return self._object(schema, schemas, depth, noise)
            case "array":
                items = schema.get("items") or {}
                return [
                    self.by_schema(items, schemas, depth - 1, noise) for _ in range(self.chance.choice([0, 1, 1, 2]))
                ]
            case "integer":
                return (
                    self.chance.choice([0, 1, 2, 3, 80]) if self.chance.random() < 0.7 else self.chance.choice(NUMBERS)
                )
            case "number":
                return self.chance.choice(NUMBERS)
            case "boolean":
                return self.chance.random() < 0.5
            case "string":
                return self._string(schema)
            case _:
                return self.value(3)

    def _string(self, schema: dict[str, Any]) -> str:
        match schema.get("format"):
            case "date-time":
                return self.chance.choice(
                    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", "never", "0001-01-01T00:00:00Z"]
                )
            case "byte":
                return self.chance.choice(["", "YQ==", "!!!", "YQ"])
            case _:
                return self.text()

    def _object(self, schema: dict[str, Any], schemas: dict[str, Any], depth: int, noise: float) -> Any:
        result: dict[str, Any] = {}
        required = schema.get("required") or ()
        properties = schema.get("properties") or {}
        share = 0.35 if len(properties) > 8 else 0.6
        for name, part in properties.items():
            if (name in required and self.chance.random() < 0.97) or self.chance.random() < share * depth / 9:
                result[name] = self.by_schema(part, schemas, depth - 1, noise)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            for _ in range(self.chance.choice([0, 1, 2])):
                result[self.text()] = self.by_schema(extra, schemas, depth - 1, noise)
        if self.chance.random() < noise:
            result[self.text()] = self.value(2)
        return result

    def object(self, kind: Kind, namespace: str) -> Any:
        noise = self.chance.choice([0.0, 0.01, 0.05, 0.2])
        made = self.by_schema(kind.schema, kind.schemas, self.chance.choice([3, 6, 9]), noise)
        if not isinstance(made, dict):
            return made
        if self.chance.random() < 0.97:
            made |= {"kind": kind.kind, "apiVersion": kind.api_version}
        if self.chance.random() < 0.93:
            made["metadata"] = self.metadata(namespace, made.get("metadata"))
        if kind.kind == "CustomResourceDefinition" and self.chance.random() < 0.8:
            made["metadata"], made["spec"] = self.definition()
        return made

    def metadata(self, namespace: str, drawn: Any) -> Any:
        meta = drawn if isinstance(drawn, dict) and self.chance.random() < 0.3 else {}
        meta = {key: value for key, value in meta.items() if self.chance.random() < 0.4}
        meta["name"] = self.chance.choice(self.names) if self.chance.random() < 0.9 else self.value(1)
        if self.chance.random() < 0.2:
            meta["namespace"] = self.chance.choice([namespace, "other", self.text()])
        if self.chance.random() < 0.1:
            meta["generateName"] = self.text()
            meta.pop("name")
        if self.chance.random() < 0.2:
            meta["labels"] = {self.text(): self.text()}
        if self.chance.random() < 0.1:
            meta[
                self.chance.choice(
                    (
                        "ownerReferences",
                        "finalizers",
                        "managedFields",
                        "annotations",
                        "deletionTimestamp",
                        "resourceVersion",
                        "uid",
                        "generation",
                    )
                )
            ] = self.value(3)
        return meta

    def definition(self) -> tuple[Any, Any]:
        """A CustomResourceDefinition with a schema and rules nobody would write."""
        plural = self.chance.choice(self.names)
        version = {
            "name": self.chance.choice(["v1", "v1beta1", "x"]),
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": self.schema(4)},
        }
        if self.chance.random() < 0.4:
            version["subresources"] = {
                "status": {},
                "scale": {
                    "specReplicasPath": self.chance.choice([".spec.replicas", "", "x[", ".spec"]),
                    "statusReplicasPath": ".status.replicas",
                },
            }
        if self.chance.random() < 0.4:
            version["additionalPrinterColumns"] = [
                {
                    "name": self.text(),
                    "type": self.chance.choice(["string", "integer", "date", "x"]),
                    "jsonPath": self.chance.choice(
                        [".spec.x", ".a[*].b", "{.x", "..", ".a[?(@.b=='c')]", ".metadata.creationTimestamp"]
                    ),
                }
            ]
        versions = [
            version,
            *([{**version, "name": "v2", "storage": self.chance.random() < 0.2}] if self.chance.random() < 0.3 else []),
        ]
        names = {
            "plural": plural,
            "kind": self.chance.choice(["Thing", "thing", self.text()]),
            "singular": self.chance.choice(["thing", ""]),
        }
        spec = {
            "group": "fuzz.example",
            "scope": self.chance.choice(["Namespaced", "Cluster", "x"]),
            "names": names,
            "versions": versions,
        }
        annotations = {"gpuaas.dev/bundled": "x"} if self.chance.random() < 0.1 else {}
        return {"name": f"{plural}.fuzz.example", "annotations": annotations}, spec

    def schema(self, depth: int) -> Any:
        if self.chance.random() < 0.05:
            return self.value(2)
        kind = self.chance.choice(
            ["object", "object", "object", "array", "string", "integer", "number", "boolean", "", "x"]
            if depth < 4
            else ["object"]
        )
        made: dict[str, Any] = {"type": kind}
        if kind == "object" and depth:
            made["properties"] = {
                self.chance.choice(["spec", "status", "a", "b", "x", "replicas", self.text()]): self.schema(depth - 1)
                for _ in range(self.chance.randrange(1, 4))
            }
        if kind == "array" and depth:
            made["items"] = self.schema(depth - 1)
        for _ in range(self.chance.choice([0, 0, 1, 2])):
            key = self.chance.choice(
                (
                    "default",
                    "enum",
                    "pattern",
                    "maxLength",
                    "minimum",
                    "maxItems",
                    "format",
                    "nullable",
                    "required",
                    "additionalProperties",
                    "x-kubernetes-preserve-unknown-fields",
                    "x-kubernetes-int-or-string",
                    "x-kubernetes-list-type",
                    "x-kubernetes-list-map-keys",
                    "oneOf",
                    "not",
                    "anyOf",
                    "$ref",
                    "uniqueItems",
                    "x-kubernetes-embedded-resource",
                    "multipleOf",
                )
            )
            drawn = {
                "pattern": self.chance.choice(["(a+)+$", "[", "^a$", "(?<x>a)", "\\p{Greek}", "a{1,1000}", "(" * 300]),
                "required": ["a"],
                "x-kubernetes-list-type": self.chance.choice(["map", "set", "atomic"]),
                "nullable": True,
                "format": self.chance.choice(["int32", "date-time", "byte", "ipv4", "duration", "uuid"]),
            }
            made[key] = drawn.get(key, self.value(2)) if self.chance.random() < 0.8 else self.value(3)
        if self.chance.random() < 0.5:
            made["x-kubernetes-validations"] = [
                {
                    "rule": self.chance.choice(CEL),
                    "message": self.text(),
                    **({"messageExpression": self.chance.choice(CEL)} if self.chance.random() < 0.3 else {}),
                }
            ]
        return made

    # Changes of an object.

    def mutated(self, obj: Any) -> Any:
        """The object with one or a few places changed."""
        copy = json.loads(json.dumps(obj))
        for _ in range(self.chance.choice([1, 1, 2, 5])):
            self._mutate(copy)
        return copy

    def _mutate(self, node: Any) -> None:
        while isinstance(node, dict | list) and node:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key: Any = self.chance.choice(list(keys))
            child = node[key]
            if isinstance(child, dict | list) and child and self.chance.random() < 0.75:
                node = child
                continue
            match self.chance.randrange(5):
                case 0:
                    node[key] = self.value(3)
                case 1:
                    node[key] = None
                case 2:
                    node[key] = [child, child]
                case 3:
                    del node[key]
                case _ if isinstance(node, dict):
                    node[self.text()] = child
                case _:
                    node.append(self.value(2))
            return

    def patch(self, obj: Any) -> tuple[str, Any]:
        form = self.chance.choice(["json", "merge", "strategic", "apply"])
        media = f"application/{'json-patch' if form == 'json' else 'merge-patch' if form == 'merge' else 'strategic-merge-patch'}+json"
        if form == "json":
            return media, [
                self._operation(obj) for _ in range(self.chance.randrange(4))
            ] if self.chance.random() < 0.95 else self.value(3)
        changed = self.mutated(obj)
        if form == "apply":
            if isinstance(changed.get("metadata"), dict) and self.chance.random() < 0.9:
                changed["metadata"].pop("managedFields", None)
            return "application/apply-patch+yaml", changed
        if form == "strategic":
            self._directives(changed)
        if self.chance.random() < 0.7 and isinstance(changed, dict) and isinstance(changed.get("metadata"), dict):
            changed["metadata"].pop("resourceVersion", None)
        return media, changed if self.chance.random() < 0.95 else self.value(3)

    def _operation(self, obj: Any) -> Any:
        made: dict[str, Any] = {
            "op": self.chance.choice(["add", "remove", "replace", "move", "copy", "test", "x", None]),
            "path": self._pointer(obj),
        }
        if self.chance.random() < 0.8:
            made["value"] = self.value(3)
        if self.chance.random() < 0.4:
            made["from"] = self._pointer(obj)
        return made if self.chance.random() < 0.95 else self.value(2)

    def _pointer(self, obj: Any) -> Any:
        path, node = "", obj
        while isinstance(node, dict | list) and node and self.chance.random() < 0.8:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key: Any = self.chance.choice(list(keys))
            path += "/" + str(key).replace("~", "~0").replace("/", "~1")
            node = node[key]
        return (
            path + self.chance.choice(["", "", "/-", "/0", "/-1", "/x", "/01", "/~2", "/" + "9" * 30, "/a" * 50])
            if self.chance.random() < 0.97
            else self.value(1)
        )

    def _directives(self, node: Any) -> None:
        while isinstance(node, dict):
            if self.chance.random() < 0.5:
                key = self.chance.choice(
                    [
                        "$patch",
                        "$retainKeys",
                        "$deleteFromPrimitiveList/finalizers",
                        "$setElementOrder/containers",
                        "$setElementOrder/x",
                        "$deleteFromPrimitiveList/x",
                    ]
                )
                node[key] = self.chance.choice(["delete", "replace", "merge", ["a"], [{"name": "a"}], self.value(2)])
            below = [child for child in node.values() if isinstance(child, dict)]
            below += [
                child for each in node.values() if isinstance(each, list) for child in each if isinstance(child, dict)
            ]
            if not below:
                return
            node = self.chance.choice(below)

    # Bytes.

    def body(self, value: Any) -> bytes:
        text = json.dumps(value)
        roll = self.chance.random()
        if roll < 0.9:
            return text.encode()
        if roll < 0.94:
            at = self.chance.randrange(len(text) + 1)
            return (
                text[:at].encode()
                + bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(4)))
                + text[at + 1 :].encode()
            )
        if roll < 0.96:
            depth = self.chance.choice([50, 500, 5_000, 50_000])
            return self.chance.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
        if roll < 0.97:
            return b'{"kind":1e999,"a":-0,"b":1E+2,"a":"\\ud800\\u0000"}'
        return bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(200)))

    def yaml(self, value: Any) -> bytes:
        return self.chance.choice(
            [
                json.dumps(value).encode(),
                b"a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
                b"&a [*a]", b"? [a]\n: b", b"!!python/object/apply:os.system [id]", b"kind: ConfigMap\nkind: Secret", b"- " * 3000, b"a: 2026-01-01\nb: 0o17\nc: .inf\nd: !!binary YQ==\n1: x\nnull: y",
                b"--- {}\n--- {}", b"<<: *x", b"<<: [1]", b"a: !!set {b}", b"[" * 2000, b"a: 1e999999", b"{? {a: b}: c}", b"x: 0x" + b"f" * 6000, b"\xff\xfe", b"%YAML 9.9\n---\na: b", b"!!timestamp x", b"a: 99999-01-01", b"a: 1:2:3:4", b"!!int a", b"!!float x", b"!!omap [a]",
            ]
        )  # fmt: skip

    def protobuf(self) -> bytes:
        head = b"k8s\x00" if self.chance.random() < 0.9 else b"k8"
        kind = self.chance.choice(
            ["Pod", "ConfigMap", "Job", "DeleteOptions", "Node", "Event", "Deployment", "", "X"]
        ).encode()
        version = self.chance.choice(["v1", "batch/v1", "apps/v1", "meta.k8s.io/v1", ""]).encode()
        meta = b"\x0a" + bytes([len(version)]) + version + b"\x12" + bytes([len(kind)]) + kind
        raw = self._message(self.chance.randrange(4))
        whole = b"\x0a" + bytes([len(meta)]) + meta + b"\x12" + _varint(len(raw)) + raw
        if self.chance.random() < 0.3:
            at = self.chance.randrange(len(whole))
            whole = whole[:at] + bytes([self.chance.randrange(256)]) + whole[at + 1 :]
        return head + whole

    def _message(self, depth: int) -> bytes:
        made = b""
        for _ in range(self.chance.randrange(5)):
            number = self.chance.choice([1, 1, 2, 2, 3, 4, 5, 12, 1000])
            kind = self.chance.choice([0, 2, 2, 2, 1, 5, 3, 7])
            made += _varint(number << 3 | kind)
            if kind == 0:
                made += _varint(self.chance.choice([0, 1, 2**63, 2**64 - 1]))
            elif kind == 2:
                part = self._message(depth - 1) if depth > 0 else self.text().encode("utf-8", "surrogatepass")
                made += _varint(len(part) if self.chance.random() < 0.95 else 2**40) + part
            elif kind in (1, 5):
                made += bytes(8 if kind == 1 else 4)
        return made

    def query(self, *, watch: bool = False) -> str:
        parts = []
        for _ in range(self.chance.choice([0, 0, 1, 2, 4])):
            key = self.chance.choice(
                ("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "pretty", "includeObject", "tailLines", "sinceSeconds", "sinceTime", "limitBytes", "container", "timestamps", "previous", "timeout", "verbose", "exclude")
            )  # fmt: skip
            value = (
                {
                    "labelSelector": self.chance.choice(SELECTORS),
                    "fieldSelector": self.chance.choice(SELECTORS),
                    "resourceVersion": self.chance.choice(["0", "1", "5", "99999999", "-1", "x", "１", "9" * 40]),
                    "resourceVersionMatch": self.chance.choice(["Exact", "NotOlderThan", "x"]),
                    "continue": self.chance.choice(
                        ["x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "bnVsbA", "W10", "IjEi", "é"]
                    ),
                    "dryRun": "All",
                    "includeObject": self.chance.choice(["None", "Metadata", "Object", "x"]),
                    "fieldValidation": self.chance.choice(["Strict", "Warn", "Ignore", "x"]),
                    "force": self.chance.choice(["true", "false"]),
                    "fieldManager": "fuzz",
                }.get(key)
                if self.chance.random() < 0.85
                else None
            )
            parts.append(f"{_quoted(key)}={_quoted(value if value is not None else self.text())}")
        if watch:
            parts.append("watch=" + self.chance.choice(["1", "true", "x", ""]))
        return "?" + "&".join(parts) if parts else ""

    def path(self) -> str:
        words = ("api", "apis", "v1", "namespaces", "default", "pods", "watch", "apps", "batch", "clusters", "local", "..", ".", "", "%2e%2e", "%2F", "%00", "status", "scale", "log", "proxy", "openapi", "v3", "v2", "version", "readyz", "livez", "metrics", "customresourcedefinitions", "apiextensions.k8s.io", "%ff", "%", "%zz", "é", "x" * 3000, "*", "finalize", "exec", "token", "openid", "jwks", ".well-known", "http:", "kueue.x-k8s.io", "v1beta2", "clusterqueues", "pendingworkloads", "visibility.kueue.x-k8s.io", "binding", "eviction")  # fmt: skip
        return self.chance.choice(["/", "/", "/", "", "//", "http://x/"]) + "/".join(
            self.chance.choice(words) for _ in range(self.chance.randrange(9))
        )

    def garbage(self, token: str) -> bytes:
        """Bytes that are no request, or hardly one."""
        bearer = f"authorization: Bearer {token}\r\n".encode()
        return self.chance.choice(
            [
                bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(1, 300))),
                b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /api HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
                b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + bearer + b"content-length: -1\r\n\r\n",
                b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + bearer + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
                b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + bearer + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /",
                b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + bearer + b"transfer-encoding: chunked\r\n\r\nzz\r\n", b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n" + bearer + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                b"GET /api HTTP/1.1\r\nhost: x\r\n" + bearer + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /api HTTP/1.1\nhost: x\n\n", b"GET /api HTTP/1.0\r\n" + bearer + b"\r\n",
                b"GET /api HTTP/1.1\r\nhost : x\r\n\r\n", b"GET /api HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nhost: x\r\n" + bearer + b"\r\n", b"BREW /api HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /api\x00 HTTP/1.1\r\nhost: x\r\n\r\n", b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n",
                b"GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + b"a.b.c\r\n\r\n", b"GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\xfe\r\n\r\n", b"GET /api HTTP/1.1\r\nhost: x\r\n" + bearer + b"impersonate-user: \xff\r\nimpersonate-extra-%zz: x\r\n\r\n",
                b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\n" + bearer + b"impersonate-group: a\r\n\r\n", b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\n" + bearer + b"accept: " + bytes(range(128, 256)) + b"\r\n\r\n", b"PATCH /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\n" + bearer + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
            ]
        )  # fmt: skip


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _quoted(text: str) -> str:
    return "".join(
        char
        if char.isascii() and (char.isalnum() or char in "-_.")
        else "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )
