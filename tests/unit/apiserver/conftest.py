"""A server without sockets: requests go in as they would come off the wire, answers come out."""

import asyncio
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from gpuaas.apiserver.http import Request, Response, Stream, StreamWriter
from gpuaas.apiserver.server import Server
from gpuaas.assembly.clusters import ClusterParts, open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds
from gpuaas.base.strict import NOT_STRICT, Strict
from gpuaas.observe.requests import RequestCounter

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
YAML = "application/yaml"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, list[str]]

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def warnings(self) -> list[str]:
        return [value.removeprefix("299 - ") for value in self.headers.get("warning", [])]


class NoTransport:
    """A connection without TLS, so without a client's certificate."""

    def get_extra_info(self, _name: str) -> None:
        return None


class Collected:
    """What a stream wrote, in place of a client."""

    def __init__(self) -> None:
        self.closed = False
        self.on_pause = self.on_resume = None
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines.append(data)

    def close(self) -> None:
        self.closed = True


class Api:
    def __init__(self, home: Path, strict: Strict = NOT_STRICT) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock(1_700_000_000.0)
        self.trust = Trust(home / "certificates", home / "users.json", self.clock)
        self.parts: ClusterParts = self.run(
            open_cluster("local", home / "store.db", self.trust, self.clock, SeededIds(), fsync=False, strict=strict)
        )
        self.server = Server({"local": self.parts.cluster}, {"local": self.parts.access}, RequestCounter())
        self.token = self.trust.admin_token(home / "kubeconfig", "local", SeededIds(7))

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = JSON,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        answer = self._answer(self._request(method, path, body, content, headers, query))
        assert isinstance(answer, Response)
        media = answer.content_type.decode()
        shown = json.loads(answer.body) if media.startswith(JSON) and answer.body else answer.body.decode()
        found: dict[str, list[str]] = {"content-type": [media]}
        for name, value in answer.headers:
            found.setdefault(name.decode(), []).append(value.decode())
        return Answer(answer.status, shown, found)

    def ask_as_written(self, method: str, path: str, query: str) -> Answer:
        """With a query that is no list of names and values."""
        request = self._request(method, path, None, "", None, {})
        request.query = query
        answer = self._answer(request)
        return Answer(answer.status, json.loads(answer.body), {})

    def watch(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """The events that are there at once."""
        answer = self._answer(self._request("GET", path, None, "", None, {"watch": "true", **query}))
        assert isinstance(answer, Stream)
        collected = Collected()

        async def look() -> None:
            gone = answer.start(cast("StreamWriter", collected))
            await asyncio.sleep(0)
            gone()

        self.run(look())
        return [json.loads(line) for line in b"".join(collected.lines).splitlines()]

    def _request(
        self, method: str, path: str, body: Any, content: str, headers: dict[str, str] | None, query: dict[str, Any]
    ) -> Request:
        request = Request(cast("asyncio.Transport", NoTransport()))
        request.method, request.path = method, path
        request.query = urlencode({key: value for key, value in query.items() if value is not None}, doseq=True)
        sent = {"authorization": f"Bearer {self.token}", **(headers or {})}
        if isinstance(body, dict) and method in ("POST", "PUT") and "kind" not in body:
            body = self._named(path, body)
        if body is not None:
            request.body = (
                body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
            )
            sent.setdefault("content-type", content)
        request.headers = {name.encode(): value.encode() for name, value in sent.items() if value}
        return request

    def _named(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A custom resource with the kind and version it must have, which a test need not repeat."""
        root, group, version, *rest = [*path.strip("/").split("/"), "", "", ""]
        plural = rest[2] if rest[:1] == ["namespaces"] else rest[0]
        found = self.parts.cluster.catalogue.find(group, version, plural) if root == "apis" else None
        if found is None or not found[0].custom:
            return body
        kind = found[1].kind
        return {"apiVersion": kind.api_version, "kind": kind.kind, **body}

    def _answer(self, request: Request) -> Any:
        async def ask() -> Any:
            answer = self.server.handle(request)
            return answer if isinstance(answer, Response | Stream) else await answer

        return self.run(ask())

    def close(self) -> None:
        self.run(self.parts.close())
        self.loop.close()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    made = Api(tmp_path_factory.mktemp("api"))
    yield made
    made.close()


MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def judged_place(api: Api, test: str, *paths: str) -> Iterator[str]:
    """A namespace of a test's own, which its policies are for; what it made of those is gone afterwards."""
    name = f"p-{zlib.crc32(test.encode())}"
    body = {"metadata": {"name": name, "labels": {"judged": name}}}
    assert api.send("POST", "/api/v1/namespaces", body).status == 201
    yield name
    for path in paths:
        for one in api.send("GET", path).body["items"]:
            assert api.send("DELETE", f"{path}/{one['metadata']['name']}").status == 200
