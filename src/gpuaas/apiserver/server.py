"""The front door: every request is authenticated, understood, authorised and handed to its verb, in that order.

`Server.handle` is the HTTP handler. It never raises: what is refused becomes a `Status`, what breaks becomes a 500 and
a line in the log. Non-resource paths are in module nonresource, subresources in module subresources.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from gpuaas.api.kinds import Object
from gpuaas.apiserver import delete, nonresource, read, subresources, watch, websocket, write
from gpuaas.apiserver.access import Access
from gpuaas.apiserver.bodies import PATCH_TYPES, media_type, prepare, read_object, read_options, read_patch
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import (
    NO_FORMS,
    OBJECT_FORMS,
    PLAIN,
    YAML,
    Wanted,
    content_type,
    encode_as,
    for_people,
    negotiate,
)
from gpuaas.apiserver.compress import compressed
from gpuaas.apiserver.discovery import is_offered
from gpuaas.apiserver.health import Health
from gpuaas.apiserver.http import JSON, Answer, Request, Response, Stream
from gpuaas.apiserver.load_shedding import Turns
from gpuaas.apiserver.notebooks.hosts import is_notebook_origin
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.options import check_timeout, read_write_options
from gpuaas.apiserver.prepared import OFF_LOOP, Workers
from gpuaas.apiserver.present import outcome_body
from gpuaas.apiserver.requestinfo import RequestInfo, request_info
from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.streaming.sessions import Sessions
from gpuaas.base.errors import (
    ApiError,
    BadRequest,
    Internal,
    MethodNotAllowed,
    PageNotFound,
    PathNotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from gpuaas.observe.requests import RequestCounter, render
from gpuaas.store import StoreError

_log = logging.getLogger("gpuaas.apiserver")
_WARNINGS = 4 * 1024  # characters of all warnings of an answer
_WARNING = 256  # and of each, where they are more
_NO_NAMES = (".", "..")  # parts of a path that mean no object
_NO_CACHE = (b"cache-control", b"no-cache, private")
_NAMELESS = frozenset(("create", "list", "deletecollection"))  # verbs of a collection, not of an object

_PAGES = re.compile(
    r"/(ui(/|$)|ws/|auth/status$|api/(workload|clusterqueue|localqueue|resourceflavor|cohort|event|node|pod)/)"
)


class NotebookOrigin(ApiError):
    """A page of a notebook asks: a tenant's code, in the browser of the user who opened it."""

    code, reason = 403, "Forbidden"


class Server:
    def __init__(self, clusters: Mapping[str, Cluster], access: Mapping[str, Access], requests: RequestCounter) -> None:
        self.clusters = dict(clusters)
        self.default = next(iter(self.clusters.values()))
        self.access = dict(access)
        self.requests = requests
        self.open_metrics = False  # without credentials: only where no other machine reaches the port
        self.ready = True
        self.health = Health()
        self.sessions = Sessions()
        self.turns = Turns()  # for those who work behind the server
        self.pages: Callable[[Request, Cluster, str], Answer | Awaitable[Answer]] | None = None  # what `is_page` says
        self._workers = Workers()

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        try:
            answer = self._dispatch(request)
        except Exception as error:
            return self._failed(request, error)
        if isinstance(answer, Awaitable):
            return self._settle(request, answer)
        return answer

    async def _settle(self, request: Request, answer: Awaitable[Answer]) -> Answer:
        self.turns.began()
        try:
            return await answer
        except Exception as error:
            return self._failed(request, error)
        finally:
            self.turns.ended()

    def knows(self, request: Request) -> bool:
        """Whether a request whose body is still arriving shows credentials that are good here."""
        try:
            cluster, _ = self.cluster_of(request.path)
        except PageNotFound:
            return False
        return self.access[cluster.name].authenticate(request.headers, request.peer_certificate) is not None

    def metrics_text(self, cluster: Cluster) -> bytes:
        """Of the server, and of what works behind this cluster."""
        stores = {name: (each.store.revision, each.store.count("")) for name, each in self.clusters.items()}
        return render(self.requests, stores, cluster.metrics)

    def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, StoreError):
            error = Unavailable(f"the store did not take the write: {error}", retry_after=1)
        elif not isinstance(error, ApiError):
            _log.exception("%s %s", request.method, request.path, exc_info=error)
            error = Internal(f"{type(error).__name__}: {error}")
        self.requests.refused(request.method, error.code)
        if isinstance(error, PageNotFound):
            return Response(error.code, b"404 page not found\n", b"text/plain; charset=utf-8", (_NO_CACHE,))
        headers = _headers(request.warnings)
        if error.retry_after is not None:
            headers = (*headers, (b"retry-after", str(error.retry_after).encode()))
        if b"application/yaml" in request.headers.get(b"accept", b""):
            return Response(error.code, encode_as(YAML, error.status()), content_type(YAML), headers)
        body = encode_as(PLAIN, error.status(), pretty=for_people(request.headers, request.query))
        return Response(error.code, body, JSON, headers)

    def _dispatch(self, request: Request) -> Answer | Awaitable[Answer]:
        if b"origin" in request.headers and is_notebook_origin(request.headers[b"origin"]):
            raise NotebookOrigin("the Origin header names a notebook's page; this server answers none of them")
        cluster, path = self.cluster_of(request.path)
        if self.pages is not None and is_page(path):
            return self.pages(request, cluster, path)
        info = _understood(request, path)
        shows_credentials = b"authorization" in request.headers
        if not shows_credentials and (nonresource.is_open(path) or (self.open_metrics and path == "/metrics")):
            return nonresource.answer(self, cluster, info, request)
        access = self.access[cluster.name]
        user = access.authenticate(request.headers, request.peer_certificate)
        if user is None:
            raise Unauthorized
        request.known = True
        return self._authenticated(cluster, access.impersonated(user, request.headers, info), info, request)

    def answer_as(self, user: User, cluster: Cluster, request: Request) -> Answer | Awaitable[Answer]:
        """A request that another part of this server makes for a user it has authenticated; refusals are raised."""
        return self._authenticated(cluster, user, _understood(request, request.path), request)

    def _authenticated(
        self, cluster: Cluster, user: User, info: RequestInfo, request: Request
    ) -> Answer | Awaitable[Answer]:
        if info.resource and info.group in cluster.computed:
            return cluster.computed[info.group].answer(user, info, request)  # type: ignore[no-any-return]
        if not info.resource and (mount := cluster.mounts.get(info.path[1:].partition("/")[0])) is not None:
            return mount(user, info.path, request)  # type: ignore[no-any-return]
        self.access[cluster.name].authorize(user, info)
        if not info.resource:
            return nonresource.answer(self, cluster, info, request)
        op = self._operation(cluster, info, user, request)
        self.requests.seen(op.verb, op.resource.plural)
        if len(request.body) > OFF_LOOP:
            return self._when_read(op, info, request)
        return self._served(op, info, request)

    async def _when_read(self, op: Operation, info: RequestInfo, request: Request) -> Answer:
        """A long body is read in a thread; what is served is looked up again after that."""
        kind = ("", "") if op.subresource else (op.kind.api_version, op.kind.kind)
        read = partial(prepare, request.body, request.header(b"content-type"), kind)
        request.body = await self._workers.run(read)
        answer = self._served(self._operation(op.cluster, info, op.user, request), info, request)
        return answer if isinstance(answer, Response | Stream) else await answer

    def _served(self, op: Operation, info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
        cluster = op.cluster
        if cluster.arriving and op.resource.prefix in cluster.arriving:
            return self._when_arrived(cluster.arriving[op.resource.prefix], op, info, request)
        return self._perform(op, info, request)

    async def _when_arrived(
        self, arriving: "asyncio.Future[None]", op: Operation, info: RequestInfo, request: Request
    ) -> Answer:
        await asyncio.wait({arriving})
        answer = self._perform(op, info, request)
        return await answer if isinstance(answer, Awaitable) else answer

    def cluster_of(self, path: str) -> tuple[Cluster, str]:
        """The cluster a path means, and the path below it."""
        if not path.startswith("/clusters/"):
            return self.default, path
        name, slash, rest = path[len("/clusters/") :].partition("/")
        cluster = self.clusters.get(name)
        if cluster is None:
            raise PageNotFound
        return cluster, slash + rest or "/"

    def _operation(self, cluster: Cluster, info: RequestInfo, user: User, request: Request) -> Operation:
        found = cluster.catalogue.find(info.group, info.version, info.resource)
        if found is None:
            raise PathNotFound if not info.group or cluster.discovery.is_builtin(info.group) else PageNotFound
        resource, version = found
        if info.name in _NO_NAMES and info.verb in ("get", "delete", "patch") and not info.subresource:
            raise BadRequest(f"Name parameter invalid: \"{info.name}\": may not be '{info.name}'")
        if info.rest and info.subresource != "proxy":
            raise PathNotFound
        namespace = info.namespace
        if not resource.namespaced:
            if info.scoped:
                raise PathNotFound
            namespace = ""
        elif not namespace and info.verb not in ("list", "watch"):
            raise PathNotFound if info.name else MethodNotAllowed
        op = Operation(
            cluster, resource, version, info.verb, user, namespace, info.name, info.subresource, info.query,
            warnings=[version.kind.deprecated] if version.kind.deprecated else [],
            pretty=for_people(request.headers, request.query),
        )  # fmt: skip
        if info.verb in ("create", "update", "patch"):
            media = media_type(request.header(b"content-type"))
            applies = info.verb == "patch" and PATCH_TYPES.get(media) == "apply"
            read_write_options(op, info, request.header(b"user-agent"), applies=applies)
            op.body, op.media = request.body, media
            request.warnings = op.warnings
        return op

    def _perform(self, op: Operation, info: RequestInfo, request: Request) -> Answer | Awaitable[Answer]:
        kind = op.kind
        if op.subresource:
            special = subresources.find(op)
            if special is not None:
                if not is_offered(op.subresource, op.verb):
                    raise MethodNotAllowed
                return special(self, op, info, request)
            if op.subresource != "status" or not kind.status:
                raise PathNotFound
            if op.verb not in ("get", "update", "patch"):
                raise MethodNotAllowed
        elif op.verb not in kind.verbs or (op.verb != "watch" and bool(op.name) is (op.verb in _NAMELESS)):
            # What is only ever asked (reviews, bindings) has no name under which it could be found.
            raise PathNotFound if op.name and "get" not in kind.verbs else MethodNotAllowed
        wanted = negotiate(request.header(b"accept"), NO_FORMS if kind.virtual else OBJECT_FORMS)
        match op.verb:
            case "get":
                return self._body(request, read.get_body(op, wanted), wanted, op)
            case "list":
                return self._body(request, read.list_body(op, wanted), wanted, op)
            case "watch":
                return websocket.watched(request, watch.watch(op, wanted))
            case "create":
                if kind.kind == "Binding" and kind.virtual:
                    return subresources.pod_binding(self, op, info, request)
                if kind.virtual:
                    return self.answer(op, subresources.review(self, op, request), wanted)
                return self.written(op, write.create(op, _object(op, request)), wanted)
            case "update":
                if op.hub.behaviour.allow_create_on_update:
                    self._may_create(op, info)
                return self.written(op, write.update(op, _object(op, request)), wanted)
            case "patch":
                form, body = read_patch(request.body, request.header(b"content-type"), custom=op.resource.custom)
                if form == "apply":
                    self._may_create(op, info)
                return self.written(op, write.patch(op, form, body), wanted)
            case "delete":
                return self.written(op, delete.delete(op, _options(request), info.multi), wanted)
            case _:
                return self._collection(op, info, request, wanted)

    def _may_create(self, op: Operation, info: RequestInfo) -> None:
        if not op.subresource and op.cluster.store.latest(op.key) is None:
            self.access[op.cluster.name].authorize_create(op.user, info)

    async def written(self, op: Operation, pending: Awaitable[Outcome], wanted: Wanted) -> Answer:
        outcome = await pending
        return self.answer(op, outcome, wanted)

    async def _collection(self, op: Operation, info: RequestInfo, request: Request, wanted: Wanted) -> Answer:
        options = delete.delete_options(op, _options(request), info.multi)
        entries, metadata = read.page(op)
        await delete.delete_all(op, entries, options)
        objects = [entry.obj for entry in entries]
        listing = read.shaped_list(op, objects, metadata, wanted)
        return self.answer(op, Outcome(listing, converted=True), wanted)

    def answer(self, op: Operation, outcome: Outcome, wanted: Wanted) -> Response:
        if outcome.converted and wanted.form:
            wanted = Wanted(wanted.media)
        body = outcome_body(op, outcome, wanted)
        return Response(outcome.status, body, content_type(wanted), _headers(op.warnings))

    def _body(self, request: Request, body: bytes, wanted: Wanted, op: Operation) -> Response:
        body, encoding = compressed(body, request.headers)
        return Response(200, body, content_type(wanted), (*_headers(op.warnings), *encoding))


def is_page(path: str) -> bool:
    """Whether a path belongs to the pages, or to the addresses that KueueViz's front end asks for."""
    return _PAGES.match(path) is not None


def _understood(request: Request, path: str) -> RequestInfo:
    info = request_info(request.method, path, request.query)
    if info.query:
        check_timeout(info)
    if request.too_large:
        raise TooLarge(f"Request entity too large: limit is {3 * 1024 * 1024}")
    return info


def _headers(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    if not warnings:
        return (_NO_CACHE,)
    return (_NO_CACHE, *((b"warning", _warning(text)) for text in _short(dict.fromkeys(warnings))))


def _short(warnings: Collection[str]) -> Iterable[str]:
    """As Kubernetes does it: if all together are long, each is cut off, and the last ones are left out."""
    if sum(map(len, warnings)) <= _WARNINGS:
        return warnings
    return [text[:_WARNING] for text in islice(warnings, _WARNINGS // _WARNING)]


def _warning(text: str) -> bytes:
    printable = "".join(char if char.isprintable() else " " for char in text)
    quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode("latin-1", "replace")


def _object(op: Operation, request: Request) -> Object:
    return read_object(request.body, request.header(b"content-type"), op.kind.kind, op.kind.api_version)


def _options(request: Request) -> Object | None:
    return read_options(request.body, request.header(b"content-type"))


__all__ = ["PLAIN", "Server"]
