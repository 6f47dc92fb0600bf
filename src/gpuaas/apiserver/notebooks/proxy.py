"""The proxy to notebooks: links for those who may, their own origin for browsers, and a path for programs.

- `POST /notebook-links/NAMESPACE/NAME` on the API, with the API's credentials, makes a one-time link.
- `http://NAME--NAMESPACE.localhost:PORT/` takes the link, sets its cookie, and proxies what the cookie is good for.
- `/notebook/NAMESPACE/NAME/` on the API serves programs that send a bearer token with each request. It takes no cookie
  and no client certificate: pages there would share the API's origin, and a browser would show its credentials unasked.

A user who may update a Notebook decides what it runs, and may open it. Where its pod is a process of this machine, opening
it also needs the verb `use` on that runtime class, as submitting it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gpuaas.apiserver.access import Access
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.http import Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.notebooks.headers import COOKIE, cookie, request_head, response_fields, upgraded_head
from gpuaas.apiserver.notebooks.hosts import SUFFIX, host_name, host_of
from gpuaas.apiserver.notebooks.sessions import COOKIE_SECONDS, LINK_SECONDS, Place, Session, Sessions
from gpuaas.apiserver.notebooks.tunnel import Tunnel
from gpuaas.apiserver.notebooks.upstream import Exchange, NotThere, connect
from gpuaas.apiserver.security.authn import asks_for_socket
from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.apiserver.security.tokens import Users
from gpuaas.apiserver.wirelimits import MAX_BODY
from gpuaas.base.errors import ApiError, MethodNotAllowed, NotFound, Unavailable
from gpuaas.nodefit.names import PROCESS_CLASS

_log = logging.getLogger("gpuaas.apiserver")

LINKS: Final = "notebook-links"
PATH: Final = "notebook"
_GROUP, _PLURAL = "kubeflow.org", "notebooks"
_LINK_PATH: Final = "/.gpuaas/open/"
_STOPPED: Final = "kubeflow-resource-stopped"
BODY_LIMIT: Final = (
    64 * 1024 * 1024
)  # bytes of a request from a signed-in page: a notebook is saved whole, with its plots
_MOST: Final = 512  # exchanges at a time, of all notebooks together
MOST_OF_NAMESPACE: Final = 128
_ANSWERS_WITHIN: Final = 120.0  # seconds to the head of an answer
_HTML: Final = b"text/html; charset=utf-8"
_PLAIN_PAGE: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
# Answers on the API's own origin are data: whatever they hold runs nothing and is framed nowhere.
_ON_API: Final = ((b"content-security-policy", b"sandbox; frame-ancestors 'none'"),)

SocketOf = Callable[[str, str], Path | None]
"""The socket of a pod, by cluster and the pod's uid; None where the cluster's pods are not processes here."""


class NotOpen(Exception):
    """The notebook cannot be opened now; the text says why, for its user. `soon`: looking again in a moment helps."""

    def __init__(self, words: str, *, soon: bool = False) -> None:
        super().__init__(words)
        self.soon = soon


class NotebookProxy:
    def __init__(
        self,
        clusters: Mapping[str, Cluster],
        access: Mapping[str, Access],
        users: Users,
        sessions: Sessions,
        socket_of: SocketOf,
    ) -> None:
        self._clusters = dict(clusters)
        self._access = dict(access)
        self._users = users
        self._sessions = sessions
        self._socket_of = socket_of
        self._open = 0
        self._open_in: Counter[tuple[str, str]] = Counter()  # by cluster and namespace
        self.port = 0  # of the loopback listener; 0 while it does not serve
        for cluster in self._clusters.values():
            cluster.mounts[LINKS] = partial(self._make_link, cluster)
            cluster.mounts[PATH] = partial(self._at_path, cluster)

    # Links, on the API.

    def _make_link(self, cluster: Cluster, user: User, path: str, request: Request) -> Response:
        if request.method != "POST":
            raise MethodNotAllowed
        place = self._place(cluster, path)
        self._require(user, place)
        if not self.port:
            raise Unavailable("notebooks are not served: the plain port is off (gpuaas up --web-port opens it)")
        secret = self._sessions.link(user, place)
        url = f"http://{self._host(place)}:{self.port}{_LINK_PATH}{secret}"
        body = {"kind": "NotebookLink", "url": url, "seconds": int(LINK_SECONDS)}
        return Response(201, msgspec.json.encode(body), headers=((b"cache-control", b"no-store"),))

    def _place(self, cluster: Cluster, path: str) -> Place:
        parts = path.split("/")
        namespace, name = (*parts[2:4], "", "")[:2]
        entry = cluster.store.get(f"{_GROUP}/{_PLURAL}/{namespace}/{name}") if namespace and name else None
        if entry is None:
            raise NotFound(_GROUP, _PLURAL, name)
        return Place(cluster.name, namespace, name, entry.obj["metadata"]["uid"])

    def _require(self, user: User, place: Place) -> None:
        rbac = self._access[place.cluster].rbac
        rbac.require(user, Asked("update", _GROUP, _PLURAL, namespace=place.namespace, name=place.name))
        if self._is_process(place):
            asked = Asked("use", "node.k8s.io", "runtimeclasses", namespace=place.namespace, name=PROCESS_CLASS)
            rbac.require(user, asked)

    def _is_process(self, place: Place) -> bool:
        """Whether the notebook asks for a process, or its pod is one: the pod stays for a while after the template has
        changed, and it is the pod that is opened."""
        store = self._clusters[place.cluster].store
        entry = store.get(f"{_GROUP}/{_PLURAL}/{place.namespace}/{place.name}")
        template = (((entry.obj.get("spec") or {}).get("template") or {}).get("spec") or {}) if entry else {}
        pod = store.get(f"/pods/{place.namespace}/{place.name}-0")
        specs = (template, (pod.obj.get("spec") or {}) if pod else {})
        return any(spec.get("runtimeClassName") == PROCESS_CLASS for spec in specs)

    def _may(self, session: Session) -> bool:
        """Whether what was true when the link was followed still is."""
        place = session.place
        cluster = self._clusters.get(place.cluster)
        if cluster is None or not self._users.is_current(session.user, session.user_uid):
            return False
        entry = cluster.store.get(f"{_GROUP}/{_PLURAL}/{place.namespace}/{place.name}")
        if entry is None or entry.obj["metadata"]["uid"] != place.uid:
            return False
        try:
            self._require(session.as_user(), place)
        except ApiError:
            return False
        return True

    def _host(self, place: Place) -> str:
        first = next(iter(self._clusters))
        return host_of(place.cluster, place.namespace, place.name, is_first=place.cluster == first)

    # A notebook's own origin.

    def knows(self, request: Request) -> bool:
        """Whether a request whose body is still arriving shows a cookie of ours."""
        return self._session(request) is not None

    def is_for(self, request: Request) -> bool:
        return host_name(request.headers.get(b"host", b"")).endswith(SUFFIX)

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        try:
            answer = self._answered(request)
        except Exception as error:
            return _failed(request, error)
        return _settled(request, answer) if isinstance(answer, Awaitable) else answer

    def _answered(self, request: Request) -> Answer | Awaitable[Answer]:
        if not self.is_for(request):
            return _page(404, "Notebooks are opened with:  gpuaas notebook open NAME")
        if request.path.startswith(_LINK_PATH):
            return self._follow(request)
        session = self._session(request)
        if session is None or not self._may(session):
            return _page(401, "This link was used, has ended, or is not for you. A new one:  gpuaas notebook open NAME")
        request.known = True
        if problem := _foreign(request):
            return _page(403, problem)
        base = f"/notebook/{session.place.namespace}/{session.place.name}/"
        if not request.path.startswith(base):
            if request.method == "GET" and request.path == "/":
                return Response(302, b"", b"", ((b"location", base.encode()),))
            return _page(404, f"This notebook is at {base}")
        return self._proxied(request, session.place, partial(self._may, session))

    def _session(self, request: Request) -> Session | None:
        found = self._sessions.read(cookie(request.header(b"cookie"), COOKIE))
        if found is None or self._host(found.place) != host_name(request.headers.get(b"host", b"")):
            return None
        return found

    def _follow(self, request: Request) -> Response:
        if request.method != "GET":
            return _page(405, "A link is followed, nothing else.")
        session = self._sessions.redeem(request.path.removeprefix(_LINK_PATH))
        right = session is not None and self._host(session.place) == host_name(request.headers.get(b"host", b""))
        if session is None or not right or not self._may(session):
            return _page(401, "This link was used or has ended. A new one:  gpuaas notebook open NAME")
        value = f"{COOKIE}={self._sessions.cookie(session)}; Path=/; Secure; HttpOnly; SameSite=Lax"
        location = f"/notebook/{session.place.namespace}/{session.place.name}/"
        headers = (
            (b"location", location.encode()),
            (b"set-cookie", f"{value}; Max-Age={int(COOKIE_SECONDS)}".encode()),
            *_PLAIN_PAGE,
        )
        return Response(303, b"", b"", headers)

    # The API's path, for programs.

    def _at_path(self, cluster: Cluster, user: User, path: str, request: Request) -> Answer | Awaitable[Answer]:
        place = self._place(cluster, path)
        if b"authorization" not in request.headers:
            return _page(
                403, f"A browser opens this notebook with:  gpuaas notebook open {place.name} -n {place.namespace}"
            )
        self._require(user, place)

        def may() -> bool:
            found = self._access[cluster.name].authenticate(request.headers, lambda: None)
            try:
                self._require(found, self._place(cluster, path)) if found is not None else None
            except ApiError:
                return False
            return found is not None

        return self._proxied(request, place, may, _ON_API)

    # The proxy.

    async def _proxied(
        self, request: Request, place: Place, may: Callable[[], bool], added: tuple[tuple[bytes, bytes], ...] = ()
    ) -> Answer:
        if request.too_large:
            limit = MAX_BODY if added else BODY_LIMIT
            return _page(
                413, f"Request entity too large: the limit is {limit >> 20} MiB; upload larger files in pieces"
            )
        if self._open >= _MOST:
            return _page(503, f"{_MOST} requests to notebooks are under way, the limit; try again in a moment")
        where = (place.cluster, place.namespace)
        if self._open_in[where] >= MOST_OF_NAMESPACE:
            words = f"{MOST_OF_NAMESPACE} requests to notebooks of namespace {place.namespace} are under way, the limit"
            return _page(503, f"{words}; try again in a moment")
        self._open += 1
        self._open_in[where] += 1
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._open -= 1
                self._open_in[where] -= 1
                if not self._open_in[where]:
                    del self._open_in[where]

        try:
            answer = await self._exchanged(request, place, may, added, release)
        except NotOpen as problem:
            release()
            return _page(503, str(problem), again=problem.soon and request.method == "GET")
        except BaseException:
            release()
            raise
        if isinstance(answer, Response):
            release()
        return answer

    async def _exchanged(
        self,
        request: Request,
        place: Place,
        may: Callable[[], bool],
        added: tuple[tuple[bytes, bytes], ...],
        release: Callable[[], None],
    ) -> Answer:
        socket = asks_for_socket(request.headers)
        try:
            exchange = await connect(self._socket(place))
        except NotThere as problem:
            raise NotOpen(f"Notebook {place.name} starts: {problem}.", soon=True) from None
        try:
            sends = bool(request.body) or request.method in ("POST", "PUT", "PATCH")
            head = request_head(
                request.method,
                _target(request, place),
                request.headers,
                request.headers.get(b"host", b"localhost"),
                len(request.body) if sends else None,
                socket=socket,
            )
            await exchange.ask(head, request.body, within=_ANSWERS_WITHIN)
        except NotThere as problem:
            exchange.close()
            raise NotOpen(f"Notebook {place.name}: {problem}.") from None
        except BaseException:
            exchange.close()
            raise
        if exchange.status == 101 and socket:
            stream = Stream(_never)
            stream.socket = partial(_join, exchange, may, release)
            return stream
        return await _answer(request, exchange, added, release)

    def _socket(self, place: Place) -> Path:
        """Of the pod that runs; raises NotOpen with what keeps it from running."""
        store = self._clusters[place.cluster].store
        entry = store.get(f"{_GROUP}/{_PLURAL}/{place.namespace}/{place.name}")
        stopped = entry is not None and _STOPPED in (entry.obj["metadata"].get("annotations") or {})
        pod = store.get(f"/pods/{place.namespace}/{place.name}-0")
        how = f"gpuaas notebook list -n {place.namespace}"
        if stopped:
            raise NotOpen(f"Notebook {place.name} does not run: it is stopped or waits in its queue ({how}).")
        if pod is None or (pod.obj.get("status") or {}).get("phase") != "Running":
            raise NotOpen(f"Notebook {place.name} starts ({how}).", soon=True)
        found = self._socket_of(place.cluster, pod.obj["metadata"]["uid"])
        if found is None or pod.obj["spec"].get("runtimeClassName") != PROCESS_CLASS:
            raise NotOpen(
                f"Notebook {place.name} runs on a simulated node: it holds quota and GPUs there, but no program runs, so "
                "there is nothing to open. A gpuaas without a fleet runs notebooks on its own machine."
            )
        return found


async def _settled(request: Request, answer: Awaitable[Answer]) -> Answer:
    try:
        return await answer
    except Exception as error:
        return _failed(request, error)


def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return _page(error.code, error.message)
    _log.exception("%s of a notebook", request.method, exc_info=error)
    return _page(500, "The server failed; its log says how.")


def _never(_writer: StreamWriter) -> Callable[[], None]:
    raise AssertionError("a WebSocket is begun by its own protocol")


def _target(request: Request, place: Place) -> bytes:
    """As the client wrote it where that is known, below the notebook's own path."""
    path = request.path
    if path.startswith("/clusters/"):
        path = "/" + path.split("/", 3)[3]
    raw = request.target.partition(b"?")[0]
    base = f"/notebook/{place.namespace}/{place.name}/".encode()
    kept = raw[raw.find(base) :] if base in raw else quote(path, safe="/:@!$&'()*+,;=~-._").encode()
    return kept + (b"?" + request.query.encode("latin-1") if request.query else b"")


def _foreign(request: Request) -> str:
    """Why a request does not come from a page of this very notebook: what changes something, and what stays open, must."""
    origin, site = request.headers.get(b"origin", b""), request.header(b"sec-fetch-site")
    own = b"http://" + request.headers.get(b"host", b"")
    needs = asks_for_socket(request.headers) or request.method not in ("GET", "HEAD")
    if origin and origin != own:
        return f"The Origin header is {request.header(b'origin')}; only pages of this notebook may send this request."
    if needs and not origin and site != "same-origin":
        return "The Origin header is missing; only pages of this notebook may send this request."
    if site not in ("", "none", "same-origin") and request.header(b"sec-fetch-mode") != "navigate":
        return f"The Sec-Fetch-Site header is {site}; from elsewhere this notebook can only be navigated to."
    return ""


def _join(
    exchange: Exchange,
    may: Callable[[], bool],
    release: Callable[[], None],
    transport: asyncio.Transport,
    connections: set[Any],
) -> None:
    Tunnel(exchange, upgraded_head(exchange.fields), may, release, transport, connections)


async def _answer(
    request: Request, exchange: Exchange, added: tuple[tuple[bytes, bytes], ...], release: Callable[[], None]
) -> Answer:
    media = next((value for name, value in exchange.fields if name == b"content-type"), b"")
    fields = (*response_fields(exchange.fields), *added)
    if request.method == "HEAD" or exchange.status in (204, 304):
        exchange.close()
        return Response(exchange.status, b"", media, fields)
    stream = Stream(partial(_begin, exchange, release), media or b"application/octet-stream", fields)
    stream.status = exchange.status
    return stream


def _begin(exchange: Exchange, release: Callable[[], None], writer: StreamWriter) -> Callable[[], None]:
    """The body, no faster than the client takes it."""
    room = asyncio.Event()
    room.set()
    writer.on_pause, writer.on_resume = room.clear, room.set

    async def run(pieces: AsyncGenerator[bytes, None]) -> None:
        try:
            async for piece in pieces:
                writer.write(piece)
                await room.wait()
        except OSError:
            pass
        finally:
            await pieces.aclose()
            exchange.close()
            release()
        writer.close()

    task = asyncio.ensure_future(run(exchange.body()))

    def gone() -> None:
        task.cancel()
        exchange.close()
        release()

    return gone


def _page(status: int, words: str, *, again: bool = False) -> Response:
    refresh = '<meta http-equiv="refresh" content="2">' if again else ""
    style = "body{font:16px system-ui;margin:4rem auto;max-width:40rem}code{white-space:pre-wrap}"
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>Notebook</title><style>{style}</style>'
    )
    body = f"{text}<p>{escape(words)}</p>\n".encode()
    return Response(status, body, _HTML, _PLAIN_PAGE)
