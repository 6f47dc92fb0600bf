"""The client protocol over HTTPS, for any Kubernetes API server.

One request for each call, no retries beyond a kept connection that had died: what the server says is what the caller
gets, as an object or as an ApiError. Connections are module connection's, identities module credentials'.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import msgspec

from gpuaas.base.clock import Clock, SystemClock
from gpuaas.base.errors import ApiError, Unauthorized
from gpuaas.client.answers import to_error
from gpuaas.client.connection import ANSWER_SECONDS, Connection, Pool, Response
from gpuaas.client.credentials import Credentials
from gpuaas.client.kubeconfig import Access, load
from gpuaas.client.protocol import Listing, Object, PatchKind, Propagation, Resource, Served, WatchEvent

JSON = "application/json"
_OUTLINE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_OUTLINES = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Query = Mapping[str, str | int | bool | None]


def from_kubeconfig(path: Path | None = None, context: str = "", clock: Clock | None = None) -> "HttpClient":
    """A client for a context of a kubeconfig; by default the current one of the usual files."""
    return HttpClient(load([path] if path is not None else None).access(context), clock or SystemClock())


class HttpClient:
    def __init__(
        self, access: Access, clock: Clock, user_agent: str = "gpuaas", *, patience: float | None = None
    ) -> None:
        """`patience`: seconds within which a request must be answered whole; streams have them for their beginning."""
        self.access = access
        self._patience = patience
        self._credentials = Credentials(access, clock)
        self._pool = Pool(access.server, self._credentials.ssl_context, access.server_name, patience or ANSWER_SECONDS)
        self._user_agent = user_agent
        self.on_warning: Callable[[str], None] = lambda _: None
        """Called with each warning of the server's answers."""

    async def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Every connection at once, whatever is under way on it."""
        self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # The protocol

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        return await self._json("GET", _path(resource, namespace, name, subresource))

    def under_way(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return None  # only the server knows

    def hasten(self) -> None:
        """The server does what it can."""

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        outline: bool = False,
    ) -> Listing:
        query: Query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": limit or None,
            "continue": continue_,
            "resourceVersion": resource_version,
        }
        accept = _OUTLINES if outline else JSON
        answer = await self._json("GET", _path(resource, namespace), query, accept=accept)
        kind = resource.kind if outline else answer.get("kind", "").removesuffix("List") or resource.kind
        head = {"kind": kind, "apiVersion": resource.api_version}
        items = [{**item, **head} if outline else {**head, **item} for item in answer.get("items") or ()]
        metadata = answer.get("metadata") or {}
        return Listing(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        outline: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        query: Query = {
            "watch": True,
            "resourceVersion": resource_version,
            "labelSelector": labels,
            "fieldSelector": fields,
            "allowWatchBookmarks": bookmarks,
            "timeoutSeconds": timeout_seconds,
        }
        accept = _OUTLINE if outline else JSON
        response = await self._send("GET", _path(resource, namespace), query, accept=accept)
        rest = b""
        async with contextlib.aclosing(response.chunks()) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        raise to_error(event["object"])
                    yield WatchEvent(event["type"], event["object"])

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        query = _write_query(field_manager, dry_run=dry_run)
        return await self._json("POST", _path(resource, namespace, name, subresource), query, _typed(resource, obj))

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = _path(resource, namespace, obj["metadata"]["name"], subresource)
        return await self._json("PUT", path, _write_query(field_manager, dry_run=dry_run), _typed(resource, obj))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        query = {**_write_query(field_manager, dry_run=dry_run), "force": force or None}
        path = _path(resource, namespace, name, subresource)
        return await self._json("PATCH", path, query, patch, content_type=kind.value)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        options = _delete_options(propagation, grace, uid, resource_version, dry_run=dry_run)
        return await self._json("DELETE", _path(resource, namespace, name), {}, options)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        query: Query = {"labelSelector": labels, "fieldSelector": fields}
        options = _delete_options(propagation, grace, dry_run=dry_run)
        await self._json("DELETE", _path(resource, namespace), query, options)

    async def log(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        query: Query = {
            "container": container,
            "follow": follow or None,
            "previous": previous or None,
            "tailLines": tail_lines,
            "sinceSeconds": since_seconds,
            "timestamps": timestamps or None,
        }
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/log"
        response = await self._send("GET", path, query, accept="*/*")
        async with contextlib.aclosing(response.chunks()) as pieces:
            async for piece in pieces:
                yield piece

    # Beyond the protocol

    async def raw(
        self, method: str, path: str, body: bytes = b"", *, accept: str = JSON, content_type: str = JSON
    ) -> bytes:
        """Any request; the body of its answer."""
        response = await self._send(method, path, {}, body, accept=accept, content_type=content_type)
        return await response.read()

    async def discover(self) -> Sequence[Served]:
        """Every resource in its preferred version, from aggregated discovery."""
        served: dict[tuple[str, str], Served] = {}
        for root in ("/api", "/apis"):
            document = msgspec.json.decode(await self.raw("GET", root, accept=_AGGREGATED))
            for group in document.get("items") or ():
                for one in _served(group):
                    served.setdefault((one.resource.group, one.resource.plural), one)
        return tuple(served.values())

    # Inside

    async def _json(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Object:
        encoded = b"" if body is None else msgspec.json.encode(body)
        async with asyncio.timeout(self._patience):
            response = await self._send(method, path, query or {}, encoded, accept=accept, content_type=content_type)
            answer: Object = msgspec.json.decode(await response.read())
        return answer

    async def upgrade(
        self, path: str, query: Sequence[tuple[str, str]], headers: Sequence[tuple[str, str]]
    ) -> tuple[Connection, bytes]:
        """A connection that has left HTTP, with the head of the answer; give it back with `leave`."""
        sent = [("User-Agent", self._user_agent), *headers, *await self._credentials.headers()]
        connection, status, head, body = await self._pool.dedicated("GET", f"{path}?{urlencode(query)}", sent)
        if status == 101:
            return connection, head
        self._pool.drop(connection)
        error = _error(status, body)
        if isinstance(error, Unauthorized):
            self._credentials.expire()
        raise error

    def leave(self, connection: Connection) -> None:
        self._pool.drop(connection)

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes = b"",
        *,
        accept: str = JSON,
        content_type: str = JSON,
    ) -> Response:
        headers = [
            ("Accept", accept),
            ("Accept-Encoding", "gzip"),
            ("User-Agent", self._user_agent),
            *await self._credentials.headers(),
        ]
        if body:
            headers.append(("Content-Type", content_type))
        asked = {key: _text(value) for key, value in query.items() if value not in (None, "")}
        target = f"{path}?{urlencode(asked)}" if asked else path
        response = await self._pool.request(method, target, headers, body)
        for warning in response.warnings:
            self.on_warning(warning)
        if response.status < 300:
            return response
        error = _error(response.status, await response.read())
        if isinstance(error, Unauthorized):
            self._credentials.expire()
        raise error


class HttpDiscovery:
    """`Discovery` over HTTP: asks again every so often, because the server has no watch for it."""

    def __init__(self, client: HttpClient, clock: Clock, every: float = 30.0) -> None:
        self._client = client
        self._clock = clock
        self._every = every
        self._listeners: list[Callable[[], None]] = []

    async def resources(self) -> Sequence[Served]:
        return await self._client.discover()

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    async def run(self) -> None:
        """Until cancelled: look for changes."""
        known: set[Resource] | None = None
        while True:
            try:
                found = {one.resource for one in await self._client.discover()}
            except (ApiError, OSError):
                found = known or set()
            if known is not None and found != known:
                for listener in self._listeners:
                    listener()
            known = found
            await self._clock.sleep(self._every)


def _path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _typed(resource: Resource, obj: Object) -> Object:
    """Kind and version filled in where they are missing: the server insists."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _write_query(field_manager: str, *, dry_run: bool) -> Query:
    return {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}


def _delete_options(
    propagation: Propagation | None, grace: int | None, uid: str = "", resource_version: str = "", *, dry_run: bool
) -> Object:
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if uid or resource_version:
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error(code: int, body: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return to_error(status, code)
    return to_error({"message": body[:500].decode(errors="replace").strip()}, code)


def _served(group: Mapping[str, Any]) -> list[Served]:
    """Versions come in order of preference, so that the first with a resource is the one to use."""
    name = group.get("metadata", {}).get("name", "")
    found: dict[str, Served] = {}
    for version in group.get("versions") or ():
        for one in version.get("resources") or ():
            kind = one.get("responseKind", {}).get("kind", "")
            namespaced = one.get("scope") == "Namespaced"
            resource = Resource(name, version["version"], one["resource"], namespaced, kind)
            found.setdefault(one["resource"], Served(resource, frozenset(one.get("verbs") or ())))
    return list(found.values())
