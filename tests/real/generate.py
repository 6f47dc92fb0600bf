"""Seeded chance: objects and changes to them, the same for both sides.

A `Maker` speaks one kind's shape: whole objects for create and update, parts of them for the patches. It aims at what
tells implementations apart (lists with keys, atomic lists and maps, sets, nulls, several managers), and some of what it
makes is wrong on purpose, because a refusal is compared too. The cases that send it are in `exchanges/generated`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Operation = Literal["apply", "force", "put", "merge", "strategic", "json"]
MANAGERS = ("ann", "bob", "cid")
WORDS = ("red", "blue", "green", "one", "two")


@dataclass(frozen=True)
class Change:
    operation: Operation
    manager: str
    body: Any


class Maker(ABC):
    """One kind. `whole` and `part` are deterministic in the seed and the calls before."""

    group = "v1"
    kind = ""
    resource = ""
    strategic = True
    conditional = False  # an update must name the revision it replaces
    pointers: tuple[str, ...] = ()

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"{self.kind}-{seed}")

    @abstractmethod
    def whole(self) -> dict[str, Any]: ...

    @abstractmethod
    def part(self) -> dict[str, Any]: ...

    def changes(self, count: int) -> list[Change]:
        operations: list[Operation] = ["apply", "apply", "apply", "force", "put", "merge", "json"]
        if self.strategic:
            operations.append("strategic")
        return [self._change(self.chance.choice(operations)) for _ in range(count)]

    def _change(self, operation: Operation) -> Change:
        manager = self.chance.choice(MANAGERS)
        match operation:
            case "apply" | "force":
                return Change(operation, manager, self.named(self.part()))
            case "put":
                return Change(operation, manager, self.named(self.whole()))
            case "merge" | "strategic":
                return Change(operation, manager, self.with_holes(self.part()))
            case "json":
                return Change(operation, manager, [self.step() for _ in range(self.chance.randint(1, 3))])

    def named(self, body: dict[str, Any]) -> dict[str, Any]:
        metadata = {**body.get("metadata", {}), "name": "x"}
        return {"apiVersion": self.group, "kind": self.kind, **body, "metadata": metadata}

    def with_holes(self, value: Any) -> Any:
        """Now and then a null, which takes something away."""
        if not isinstance(value, dict):
            return value
        return {key: None if self.odds(0.15) else self.with_holes(item) for key, item in value.items()}

    def step(self) -> dict[str, Any]:
        operation = self.chance.choice(["add", "add", "replace", "remove", "test", "copy", "move"])
        path = self.chance.choice(self.pointers)
        match operation:
            case "remove":
                return {"op": operation, "path": path}
            case "copy" | "move":
                return {"op": operation, "from": self.chance.choice(self.pointers), "path": path}
            case _:
                return {"op": operation, "path": path, "value": self.chance.choice(WORDS)}

    def odds(self, probability: float) -> bool:
        return self.chance.random() < probability

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def words(self, keys: str, least: int = 0) -> dict[str, str]:
        return {key: self.word() for key in self.some(list(keys), least)}

    def some(self, options: list[Any], least: int = 0) -> list[Any]:
        return self.chance.sample(options, self.chance.randint(least, len(options)))

    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        if self.odds(0.5):
            metadata["labels"] = self.words("abc")
        if self.odds(0.4):
            metadata["annotations"] = self.words("ab")
        if self.odds(0.1):
            metadata["finalizers"] = [f"example.com/{name}" for name in self.some(["f", "g"])]
        return metadata


class ConfigMaps(Maker):
    kind, resource = "ConfigMap", "configmaps"
    pointers = ("/data/a", "/data/b", "/data/z", "/metadata/labels/a", "/metadata/labels", "/data", "/binaryData", "/x")

    def whole(self) -> dict[str, Any]:
        return self.part()

    def part(self) -> dict[str, Any]:
        body: dict[str, Any] = {"metadata": self.metadata()}
        if self.odds(0.8):
            body["data"] = self.words("abcd")
        if self.odds(0.1):
            body["binaryData"] = {"bin": "AAEC"}
        return body


class Services(Maker):
    kind, resource = "Service", "services"
    pointers = (
        "/spec/ports/0/port",
        "/spec/ports/1",
        "/spec/ports/0/name",
        "/spec/selector/a",
        "/spec/sessionAffinity",
        "/metadata/labels/a",
    )

    def whole(self) -> dict[str, Any]:
        return {"metadata": self.metadata(), "spec": {"selector": self.words("ab", 1), "ports": self.ports(1)}}

    def part(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        if self.odds(0.7):
            spec["ports"] = self.ports(0)
        if self.odds(0.5):
            spec["selector"] = self.words("abc")
        if self.odds(0.2):
            spec["sessionAffinity"] = self.chance.choice(["None", "ClientIP"])
        return {"metadata": self.metadata(), "spec": spec}

    def ports(self, least: int) -> list[dict[str, Any]]:
        options = [
            {"name": "http", "port": 80},
            {"name": "http-udp", "port": 80, "protocol": "UDP"},
            {"name": "https", "port": 443, "protocol": "TCP", "targetPort": self.chance.choice([8443, "https"])},
            {"name": "odd", "port": 81, "appProtocol": self.word()},
        ]
        return self.some(options, least)


class PodTemplates(Maker):
    """A pod's shape, with its many kinds of lists, in a kind that no controller touches."""

    kind, resource = "PodTemplate", "podtemplates"
    pointers = (
        "/template/spec/containers/0/image",
        "/template/spec/containers/0/env/0/value",
        "/template/spec/containers/1",
        "/template/metadata/labels/b",
        "/template/spec/nodeSelector",
        "/template/spec/restartPolicy",
        "/metadata/labels/a",
    )

    def whole(self) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": "x", **self.words("b")}}, "spec": self.pod(1)}
        return {"metadata": self.metadata(), "template": template}

    def part(self) -> dict[str, Any]:
        template: dict[str, Any] = {}
        if self.odds(0.8):
            template["spec"] = self.pod(0)
        if self.odds(0.6):
            template["metadata"] = {"labels": {"app": "x", **self.words("bc")}}
        return {"metadata": self.metadata(), "template": template}

    def pod(self, least: int) -> dict[str, Any]:
        pod: dict[str, Any] = {"containers": [self.container(name) for name in self.some(["main", "side"], least)]}
        if self.odds(0.3):
            pod["tolerations"] = [{"key": key, "operator": "Exists"} for key in self.some(["a", "b"])]
        if self.odds(0.3):
            pod["nodeSelector"] = self.words("ab")
        if self.odds(0.3):
            pod["volumes"] = [{"name": name, "emptyDir": {}} for name in self.some(["v", "w"])]
        if self.odds(0.2):
            pod["imagePullSecrets"] = [{"name": name} for name in self.some(["s", "t"])]
        if self.odds(0.2):
            pod["terminationGracePeriodSeconds"] = self.chance.choice([5, 30])
        return pod

    def container(self, name: str) -> dict[str, Any]:
        container: dict[str, Any] = {"name": name, "image": f"img:{self.word()}"}
        if self.odds(0.5):
            container["env"] = [{"name": key, "value": self.word()} for key in self.some(["A", "B", "C"])]
        if self.odds(0.4):
            ports = [
                {"containerPort": 80},
                {"containerPort": 80, "protocol": "UDP"},
                {"containerPort": 443, "name": "s"},
            ]
            container["ports"] = self.some(ports)
        if self.odds(0.4):
            container["resources"] = {"limits": {"cpu": self.chance.choice(["1", "1000m", 1, "0.5", "1.5"])}}
        if self.odds(0.3):
            container["args"] = self.some(["-a", "-b", "-c"])
        if self.odds(0.2):
            container["securityContext"] = {"capabilities": {"drop": self.some(["ALL", "NET_RAW"])}}
        return container


class Gizmos(Maker):
    """A custom kind with every sort of list and map that server-side apply tells apart."""

    group, kind, resource = "generated.example.com/v1", "Gizmo", "gizmos"
    strategic, conditional = False, True
    pointers = ("/spec/set/0", "/spec/atomicList", "/spec/keyed/0/value", "/spec/free/a", "/spec/whole/a", "/spec/text")

    def whole(self) -> dict[str, Any]:
        return self.part()

    def part(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        if self.odds(0.5):
            spec["set"] = self.some(list(WORDS))
        if self.odds(0.4):
            spec["atomicList"] = self.some(list(WORDS))
        if self.odds(0.6):
            spec["keyed"] = [self.entry(name) for name in self.some(["k", "l", "m"])]
        if self.odds(0.4):
            spec["free"] = {
                key: self.chance.choice([1, "two", {"deep": [self.word()]}]) for key in self.some(["a", "b"])
            }
        if self.odds(0.4):
            spec["whole"] = self.words("abc")
        if self.odds(0.4):
            # Never empty: Kubernetes makes null of a map that an apply empties, and then refuses its own null.
            spec["granular"] = self.words("abc", least=1)
        if self.odds(0.5):
            spec["text"] = self.word()
        if self.odds(0.1):
            spec[self.chance.choice(["text", "unknown"])] = 5
        return {"metadata": self.metadata(), "spec": spec}

    def entry(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": name}
        if self.odds(0.6):
            entry["value"] = self.chance.randint(0, 9)
        if self.odds(0.3):
            entry["tags"] = self.some(["x", "y"])
        return entry


_TEXTS = {"type": "array", "items": {"type": "string"}}
_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
GIZMOS_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gizmos.generated.example.com"},
    "spec": {
        "group": "generated.example.com",
        "names": {"kind": "Gizmo", "plural": "gizmos"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "set": {**_TEXTS, "x-kubernetes-list-type": "set"},
                                    "atomicList": {**_TEXTS, "x-kubernetes-list-type": "atomic"},
                                    "keyed": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "value": {"type": "integer", "default": 7},
                                                "tags": _TEXTS,
                                            },
                                        },
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "whole": {**_MAP, "x-kubernetes-map-type": "atomic"},
                                    "granular": _MAP,
                                    "text": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
MAKERS: tuple[type[Maker], ...] = (ConfigMaps, Services, PodTemplates, Gizmos)
