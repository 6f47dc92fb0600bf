"""Thousands of hostile requests against a running server: no 500, no hang, no broken answer, no memory that stays.

`python -m tests.conformance.fuzz --count 20000 [--seed 0]`. The same seed sends the same requests in the same order (what
the server makes of them may differ by what its controllers did meanwhile). Each finding names the request that caused it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.hostile import ACCEPTS, MEDIA, Hostile, Kind
from tests.conformance.service import Service, eventually
from tests.conformance.wire import Answer, Broken, Closed, Wire, encoded

NAMESPACE = "fuzz"
SLOW = 10.0  # seconds for one answer: a hang
_NAMES = ["a", "b", "web", "job-1", "x1", "default", "queue", "gpu", "things", "main"]


@dataclass(slots=True)
class Findings:
    sent: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)  # 500s
    hangs: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # after each quarter, everything deleted

    @property
    def growth(self) -> int:
        """In the last quarter: what a kind needs is made when it is first used, so the first quarters say little."""
        return self.memory[-1] - self.memory[-2] if len(self.memory) > 1 else 0

    def clean(self) -> bool:
        return not (self.errors or self.hangs or self.broken)

    def report(self) -> str:
        lines = [f"{self.sent} requests, answers: {dict(sorted(self.codes.items()))}"]
        lines += [f"500: {each}" for each in self.errors]
        lines += [f"hang: {each}" for each in self.hangs]
        lines += [f"broken: {each}" for each in self.broken]
        lines += [f"slow: {seconds:.2f} s {each}" for seconds, each in sorted(self.slowest, reverse=True)[:5]]
        lines.append("memory after each quarter: " + ", ".join(f"{each / 1e6:.0f} MB" for each in self.memory))
        return "\n".join(lines)


class Fuzz:
    def __init__(self, service: Service, seed: int) -> None:
        self.service = service
        self.chance = random.Random(seed)
        self.hostile = Hostile(self.chance, _NAMES)
        self.kinds = list(_served(service))
        self.common = [
            kind
            for kind in self.kinds
            if kind.group
            in ("", "apps", "batch", "kueue.x-k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io")
        ]
        self.findings = Findings()
        self._wire: Wire | None = None
        self._known: dict[str, Any] = {}  # path -> an object that was there

    def run(self, count: int) -> Findings:
        self._namespace()
        for quarter in range(4):
            for _ in range(count // 4 + (count % 4 if quarter == 3 else 0)):
                self._one()
            self._clean_up()
            self.findings.memory.append(self.service.rss())
        self._drop()
        return self.findings

    # One request.

    def _one(self) -> None:
        roll = self.chance.random()
        if roll < 0.05:
            self._garbage()
        elif roll < 0.13:
            self._send(
                self.chance.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
                _target(self.hostile.path()) + self.hostile.query(),
                None,
            )
        elif roll < 0.43:
            self._create()
        elif roll < 0.75:
            self._change()
        elif roll < 0.9:
            self._read()
        else:
            self._remove()

    def _kind(self) -> Kind:
        return self.chance.choice(self.common if self.chance.random() < 0.6 else self.kinds)

    def _create(self) -> None:
        kind = self._kind()
        obj = self.hostile.object(kind, NAMESPACE)
        roll = self.chance.random()
        media, body = "application/json", self.hostile.body(obj)
        if roll < 0.04:
            media, body = "application/yaml", self.hostile.yaml(obj)
        elif roll < 0.08:
            media, body = "application/vnd.kubernetes.protobuf", self.hostile.protobuf()
        elif roll < 0.12:
            media = self.chance.choice(MEDIA)
        path = kind.path(NAMESPACE)
        answer = self._send("POST", path + self.hostile.query(), body, media)
        if answer is not None and answer.status == 201 and b'"uid"' in answer.body:
            made = _parsed(answer)
            if made is not None:
                self._remember(kind, made)

    def _remember(self, kind: Kind, made: Any) -> None:
        meta = made.get("metadata") or {}
        if made.get("kind") == kind.kind and meta.get("name"):
            if len(self._known) > 400:
                self._known.pop(next(iter(self._known)))
            self._known[kind.path(meta.get("namespace", ""), meta["name"])] = made

    def _change(self) -> None:
        if not self._known:
            return self._create()
        path = self.chance.choice(list(self._known))
        obj = self._known[path]
        where = path + self.chance.choice(
            [
                "",
                "",
                "",
                "/status",
                "/scale",
                "/eviction",
                "/binding",
                "/token",
                "/finalize",
                "/approval",
                "/resize",
                "/ephemeralcontainers",
            ]
        )
        roll = self.chance.random()
        if roll < 0.6:
            media, patch = self.hostile.patch(obj)
            answer = self._send("PATCH", where + self.hostile.query(), self.hostile.body(patch), media)
        elif roll < 0.9:
            changed = self.hostile.mutated(obj)
            answer = self._send("PUT", where + self.hostile.query(), self.hostile.body(changed))
        else:
            answer = self._send("POST", where + self.hostile.query(), self.hostile.body(self.hostile.value(4)))
        if answer is not None and answer.status == 200 and where == path:
            self._known[path] = _parsed(answer) or obj
        elif answer is not None and answer.status == 404:
            self._known.pop(path, None)
        return None

    def _read(self) -> None:
        kind = self._kind()
        path = (
            self.chance.choice(list(self._known))
            if self._known and self.chance.random() < 0.5
            else kind.path(self.chance.choice([NAMESPACE, ""]))
        )
        if self.chance.random() < 0.1:
            path += "/" + self.chance.choice(["log", "status", "scale", "proxy/x/y", "exec", "x"])
        watch = self.chance.random() < 0.2
        self._send(
            self.chance.choice(["GET", "GET", "GET", "HEAD"]),
            path + self.hostile.query(watch=watch),
            None,
            accept=self.chance.choice(ACCEPTS),
        )

    def _remove(self) -> None:
        path = (
            self.chance.choice(list(self._known))
            if self._known and self.chance.random() < 0.7
            else self._kind().path(NAMESPACE)
        )
        if path.endswith(("/customresourcedefinitions", "/apiservices")):
            return  # all kinds would be gone, and with them what the rest is to be thrown at
        body = self.hostile.body(self.hostile.value(2)) if self.chance.random() < 0.3 else None
        if self.chance.random() < 0.4:
            body = self.hostile.body(
                {
                    "propagationPolicy": self.chance.choice(["Foreground", "Background", "Orphan", "x"]),
                    "gracePeriodSeconds": self.hostile.value(0),
                    "preconditions": self.hostile.value(2),
                }
            )
        self._send("DELETE", path + self.hostile.query(), body)

    def _garbage(self) -> None:
        self._drop()
        data = self.hostile.garbage(self.service.token)
        wire = self.service.connect(0.5)  # half a request is never answered; a whole one is, at once
        self.findings.sent += 1
        try:
            wire.send(data)
            wire.send(b"\r\n\r\n")
            answer = wire.read(whole=False)
            self._judge(answer, repr(data[:300]))
        except (Closed, ConnectionError, TimeoutError):
            pass
        except (Broken, ValueError) as error:
            self.findings.broken.append(f"{error}: {data[:300]!r}")
        finally:
            wire.close()

    def _send(
        self, method: str, target: str, body: bytes | None, media: str = "application/json", accept: str = ""
    ) -> Answer | None:
        headers = {"authorization": f"Bearer {self.service.token}", "user-agent": "fuzz"}
        if body is not None:
            headers["content-type"] = media
        if accept:
            headers["accept"] = accept
        self.findings.sent += 1
        shown = f"{method} {target[:300]} {media} {(body or b'')[:1500]!r}"
        began = time.monotonic()
        try:
            if self._wire is None:
                self._wire = self.service.connect(SLOW)
            self._wire.send(encoded(method, target, headers, body))
            answer = self._wire.read(method=method, whole=False)
        except TimeoutError:
            self.findings.hangs.append(shown)
            return self._drop()
        except (Closed, OSError):
            return self._drop()
        except (Broken, ValueError) as error:
            self.findings.broken.append(f"{error}: {shown}")
            return self._drop()
        seconds = time.monotonic() - began
        if seconds > 0.5:
            self.findings.slowest.append((seconds, shown[:300]))
        self._judge(answer, shown)
        if answer.streams or answer.headers.get("connection") == "close":
            self._drop()
        return answer

    def _judge(self, answer: Answer, shown: str) -> None:
        self.findings.codes[answer.status] += 1
        if answer.status == 500:
            self.findings.errors.append(f"{answer.body[:300]!r} for {shown}")

    def _drop(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # Between the quarters.

    def _namespace(self) -> None:
        made = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}
        self.service.ask("POST", "/api/v1/namespaces", made)
        eventually(
            lambda: self.service.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default").status == 200,
            "no default service account",
        )

    def _clean_up(self) -> None:
        """Deletes what the requests made, finalizers or not, so that memory can be compared."""
        self._drop()
        self._known.clear()
        for kind in _served(self.service):
            self._empty(kind)
        self._namespace()

    def _empty(self, kind: Kind) -> None:
        if "delete" not in kind.verbs or kind.kind in ("Namespace", "APIService"):
            return
        for item in self._items(kind):
            meta = item["metadata"]
            path = kind.path(meta.get("namespace", ""), meta["name"])
            if meta.get("finalizers"):
                self.service.ask(
                    "PATCH", path, {"metadata": {"finalizers": None}}, media="application/merge-patch+json"
                )
            self.service.ask("DELETE", path + "?gracePeriodSeconds=0")

    def _items(self, kind: Kind) -> list[Any]:
        answer = self.service.ask("GET", kind.path(NAMESPACE))
        if answer.status != 200:
            return []
        items = answer.json()["items"]
        if kind.namespaced:
            return [item for item in items if item["metadata"].get("namespace") == NAMESPACE]
        mine = set(_NAMES) | {f"{name}.fuzz.example" for name in _NAMES}
        return [item for item in items if item["metadata"]["name"] in mine]


def _served(service: Service) -> Iterator[Kind]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for root in ("/api", "/apis"):
        for group in service.ask("GET", root, accept=accept).json()["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                base = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                document = service.ask("GET", "/openapi/v3" + base)
                schemas = (
                    (document.json().get("components") or {}).get("schemas") or {} if document.status == 200 else {}
                )
                for each in version["resources"]:
                    yield _kind(base, name, version["version"], each, schemas)


def _kind(base: str, group: str, version: str, resource: Any, schemas: dict[str, Any]) -> Kind:
    kind = resource["responseKind"]["kind"]
    found: dict[str, Any] = {}
    for schema in schemas.values():
        for each in schema.get("x-kubernetes-group-version-kind") or ():
            if (each.get("group", ""), each["version"], each["kind"]) == (group, version, kind):
                found = schema
    return Kind(
        base, group, version, resource["resource"], kind, resource["scope"] == "Namespaced", tuple(resource["verbs"]),
        tuple(each["subresource"] for each in resource.get("subresources", ())), found, schemas,
    )  # fmt: skip


def _target(path: str) -> str:
    return path.replace(" ", "%20") or "/"


def _parsed(answer: Answer) -> Any:
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def fuzz(folder: Path, count: int, seed: int) -> Findings:
    with Service(folder / "home") as service:
        return Fuzz(service, seed).run(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        findings = fuzz(Path(folder), options.count, options.seed)
    print(findings.report())
    print(
        f"500s {len(findings.errors)}, hangs {len(findings.hangs)}, broken answers {len(findings.broken)}, memory that stayed {findings.growth / 1e6:.1f} MB"
    )
    return 0 if findings.clean() else 1


if __name__ == "__main__":
    sys.exit(main())
