"""The Kubernetes API as a visitor: requests to this very server, in process, for the user the session stands for.

Each call is authorised, admitted, validated and counted as the same request over the wire. Refusals are ApiErrors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.http import Answer, Request, Response, StreamWriter
from gpuaas.apiserver.security.identity import User
from gpuaas.client.protocol import Object, PatchKind, Propagation, Resource

AnswerAs = Callable[[User, Cluster, Request], Answer | Awaitable[Answer]]
_LONGEST_LOG: Final = 256 * 1024  # bytes shown of a log
_AGENT: Final = b"gpuaas-web"


class CallerApi:
    def __init__(self, answer_as: AnswerAs, cluster: Cluster, user: User, transport: asyncio.Transport) -> None:
        self._answer_as = answer_as
        self._cluster = cluster
        self._user = user
        self._transport = transport

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._json("GET", _path(resource, namespace, name))

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 500
    ) -> Sequence[Object]:
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit)}
        found = await self._json("GET", _path(resource, namespace), query)
        items: list[Object] = found.get("items") or []
        return items

    async def create(self, resource: Resource, obj: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        query = {"dryRun": "All"} if dry_run else {}
        return await self._json("POST", _path(resource, namespace), query, obj)

    async def notebook_link(self, namespace: str, name: str) -> str:
        path = f"/notebook-links/{quote(namespace, safe='')}/{quote(name, safe='')}"
        return str((await self._json("POST", path, {}, {}))["url"])

    async def patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = "", *, kind: PatchKind = PatchKind.MERGE
    ) -> Object:
        return await self._json("PATCH", _path(resource, namespace, name), {}, patch, str(kind))

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """With everything it made."""
        body = {"propagationPolicy": str(Propagation.BACKGROUND)}
        await self._json("DELETE", _path(resource, namespace, name), {}, body)

    async def log(self, pod: str, namespace: str, *, container: str = "", tail_lines: int = 100) -> str:
        query = {"container": container, "tailLines": str(tail_lines), "limitBytes": str(_LONGEST_LOG)}
        body = await self._asked("GET", _path(Resource("", "v1", "pods"), namespace, pod) + "/log", query, b"", "")
        return body.decode("utf-8", "replace")

    def resources_of(self, kind: str) -> Sequence[Resource]:
        """What is served as a kind, whose name may be in lower case."""
        hubs = (each.hub.kind for each in self._cluster.catalogue.resources())
        return [
            Resource(each.group, each.version, each.plural, each.namespaced, each.kind)
            for each in hubs
            if each.kind.lower() == kind.lower() and not each.virtual
        ]

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        found = self._cluster.catalogue.for_kind(api_version, kind)
        if found is None:
            return None
        group, _, version = api_version.rpartition("/")
        return Resource(group, version, found[0].plural, found[0].namespaced, kind)

    async def _json(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Object | None = None, media: str = ""
    ) -> Object:
        encoded = b"" if body is None else msgspec.json.encode(body)
        found: Object = msgspec.json.decode(await self._asked(method, path, query or {}, encoded, media))
        return found

    async def _asked(self, method: str, path: str, query: dict[str, str], body: bytes, media: str) -> bytes:
        request = Request(self._transport)
        request.method, request.path, request.body, request.known = method, path, body, True
        request.query = urlencode({key: value for key, value in query.items() if value})
        request.headers = {b"accept": b"application/json", b"user-agent": _AGENT}
        if body:
            request.headers[b"content-type"] = (media or "application/json").encode()
        answer = self._answer_as(self._user, self._cluster, request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Response):
            return answer.body
        collected = _Collected()
        gone: Any = answer.start(collected)
        try:
            return await collected.whole
        finally:
            if not collected.closed:
                gone()


class _Collected(StreamWriter):
    """A stream that ends, as one answer; of a long one the beginning."""

    __slots__ = ("_body", "whole")

    def __init__(self) -> None:
        super().__init__()
        self._body = bytearray()
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > _LONGEST_LOG:
            self._done()

    def close(self) -> None:
        self.closed = True
        self._done()

    def _done(self) -> None:
        if not self.whole.done():
            self.whole.set_result(bytes(self._body[:_LONGEST_LOG]))


def _path(resource: Resource, namespace: str, name: str = "") -> str:
    """Names come from addresses: none of them may become another path."""
    return resource.path(quote(namespace, safe=""), quote(name, safe=":"))
