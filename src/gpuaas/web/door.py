"""The door to the pages: every request below `/ui` is checked, given its session, routed and answered here.

The same addresses stand on two ports: the API's own, over TLS, and a plain one that is bound to loopback, where nothing
else is served. Order of the checks: the Host header, where the request comes from, the session, the CSRF token of what
changes something, RBAC. What goes wrong becomes a page or a line of text, never a trace.

    GET /ui/…                the pages (package web/pages)         GET /ui/stream?page=…    what changes on one of them
    GET, POST /ui/sign-in    by a token or a kubeconfig file       GET /ui/enter/SECRET     by a one-time link
    POST /ui/link            makes a link (bearer token)           POST /ui/sign-out, /ui/theme
    GET, POST of an action   its effect, then the action itself (module actions)
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from gpuaas.apiserver.access import Access
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.http import Answer, Request, Response
from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.views import Views
from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError, Unauthorized, Unavailable
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Resource
from gpuaas.web import guard, wire
from gpuaas.web.acting import Acting
from gpuaas.web.api import AnswerAs, CallerApi
from gpuaas.web.page import THEMES, Act, Action, Page, Visit
from gpuaas.web.render import Renderer, Static
from gpuaas.web.routes import Routes, filled, named
from gpuaas.web.sessions import Credential, Session, Sessions
from gpuaas.web.signing_in import SigningIn
from gpuaas.web.stream import Hub, Source, TooMany

_log = logging.getLogger("gpuaas.web")
_LONGEST_ADDRESS: Final = 2_000
_KEPT: Final = (b"cache-control", b"public, max-age=31536000, immutable")


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster, as the pages see it."""

    cluster: Cluster
    access: Access
    views: Callable[[], Views | None]
    """None until the engine knows the queues."""


@dataclass(frozen=True, slots=True)
class Settings:
    mark: str
    """Of this server, in the names of its cookies."""
    names: Collection[str]
    """By which other machines may reach it."""
    local_address: str
    """Of the plain port: http://localhost:PORT; "" where there is none."""
    pages: tuple[Page, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, below the door."""

    request: Request
    place: Place
    base: str
    path: str  # below base: "/" is the first page
    plain: bool  # whether it came to the plain port

    @property
    def address(self) -> str:
        query = f"?{self.request.query}" if self.request.query else ""
        return f"{self.base}{self.path}{query}"


class Door:
    def __init__(self, settings: Settings, places: Mapping[str, Place], answer_as: AnswerAs, clock: Clock) -> None:
        self.settings = settings
        self.places = dict(places)
        self.clock = clock
        self.renderer = Renderer()
        self.static = Static()
        self.sessions = Sessions(self._known, clock)
        self.hub = Hub(clock, self.sessions.is_over)
        self.pages: Routes[Page] = Routes(settings.pages)
        self.actions: Routes[Action] = Routes(settings.actions)
        self.cookie = f"__Host-gpuaas-{settings.mark}"
        self.theme_cookie = f"{self.cookie}-theme"
        self._answer_as = answer_as
        self._signing_in = SigningIn(self)
        self._acting = Acting(self)
        self._checks = guard.LOCAL_NAMES, frozenset((*guard.LOCAL_NAMES, *settings.names))

    def answer(self, request: Request, cluster: str, path: str, *, plain: bool) -> Answer | Awaitable[Answer]:
        """`path` as below the cluster's own prefix: `/ui` and what follows."""
        base = request.path[: len(request.path) - len(path)] + "/ui"
        asked = Asked(request, self.places[cluster], base, path.removeprefix("/ui") or "/", plain)
        try:
            guard.check_host(request.headers, self._checks[not plain], any_address=not plain)
            answer = self._routed(asked)
        except Exception as error:
            return self._failed(asked, error)
        return self._settled(asked, answer) if isinstance(answer, Awaitable) else answer

    async def _settled(self, asked: Asked, answer: Awaitable[Answer]) -> Answer:
        try:
            return await answer
        except Exception as error:
            return self._failed(asked, error)

    def _failed(self, asked: Asked, error: Exception) -> Response:
        match error:
            case guard.Refused():
                return wire.words(str(error), 403)
            case wire.BadForm():
                return wire.words(str(error), 400)
            case TooMany():
                return wire.words(str(error), 429)
            case ApiError():
                return self.failure(asked, error.code, error.message)
        _log.exception("%s %s", asked.request.method, asked.request.path, exc_info=error)
        return self.failure(asked, 500, "This page failed; the server's log says where.")

    def _routed(self, asked: Asked) -> Answer | Awaitable[Answer]:
        request, path = asked.request, asked.path
        match request.method, path:
            case "GET" | "HEAD", _ if path.startswith("/static/"):
                return self._file(asked, path.removeprefix("/static/"))
            case _, "/sign-in":
                return self._signing_in.form(asked)
            case "GET", _ if path.startswith("/enter/"):
                return self._signing_in.enter(asked, path.removeprefix("/enter/"))
            case "POST", "/link" if not asked.plain:
                return self._signing_in.link(asked)
            case "GET" | "HEAD", "/stream":
                guard.check_origin(request.headers, needed=False)
                return self._stream(asked)
            case "POST", _:
                guard.check_origin(request.headers, needed=True)
                return self._posted(asked)
            case "GET" | "HEAD", _:
                guard.check_navigation(request.headers)
                return self._shown(asked)
        return self.failure(asked, 405, f"{request.method} is not a method of a page.")

    def base_of(self, place: Place) -> str:
        """The shortest one: the first cluster's pages need no name."""
        first = next(iter(self.places.values()))
        return "/ui" if place is first else f"/clusters/{place.cluster.name}/ui"

    # Who asks.

    def session(self, asked: Asked) -> tuple[Session, User] | None:
        session = self.sessions.find(wire.cookie(asked.request.headers, self.cookie))
        if session is None:
            return None
        user = self.sessions.user(session, asked.place.cluster.name)
        return None if user is None else (session, user)

    def _known(self, credential: Credential, cluster: str) -> User | None:
        headers = {b"authorization": b"Bearer " + credential.token.encode("latin-1", "replace")}
        place = self.places.get(cluster)
        if place is None:
            return None
        return place.access.authenticate(headers if credential.token else {}, lambda: credential.certificate or None)

    def _unknown(self, asked: Asked) -> Response:
        """No session: A link on another site leads here without the cookie, which the next request brings."""
        if guard.is_from_elsewhere(asked.request.headers):
            return wire.page(self.renderer.page("continue.html", {**self.plain_names(asked), "here": asked.address}))
        return self._signing_in.ask_for_it(asked)

    # What is shown.

    def visit(self, asked: Asked, session: Session, user: User, parts: Mapping[str, str]) -> Visit:
        views, cluster = asked.place.views(), asked.place.cluster
        if views is None:
            raise Unavailable("The control plane is starting; this page comes when it knows the queues.", retry_after=1)
        return Visit(
            user=user,
            cluster=cluster.name,
            base=asked.base,
            path=asked.path,
            parts=parts,
            query=wire.fields_of(asked.request.query) if asked.request.query else {},
            now=self.clock.now(),
            views=views,
            may=partial(_may, views, user),
            api=CallerApi(self._answer_as, cluster, user, asked.request.transport),
            csrf=session.csrf,
            theme=self.theme(asked),
        )

    def theme(self, asked: Asked) -> str:
        chosen = wire.cookie(asked.request.headers, self.theme_cookie)
        return chosen if chosen in THEMES else THEMES[0]

    def plain_names(self, asked: Asked) -> dict[str, Any]:
        """What a template has without a session."""
        return {
            "theme": self.theme(asked),
            "static": partial(self.static.address, asked.base),
            "url": lambda path: asked.base + path,
        }

    def names(self, asked: Asked, visit: Visit, name: str, title: str) -> dict[str, Any]:
        theme = THEMES[(THEMES.index(visit.theme) + 1) % len(THEMES)]
        return {
            **self.plain_names(asked),
            "visit": visit,
            "title": title,
            "page_name": name,
            "nav": [(each.nav, visit.url(each.path), each.name == name) for each in self.settings.pages if each.nav],
            "act": partial(self._act, visit),
            "next_theme": theme,
            "notices": [],
            "stream": "",
            "revision": 0,
        }

    def _act(self, visit: Visit, name: str, /, job: str = "", **parts: str) -> Act | None:
        if job:
            kind, _, parts["name"] = job.partition("/")
            parts["kind"] = kind
        action = self.actions.by_name[name]
        if not action.allowed(replace(visit, parts=parts)):
            return None
        where = visit.url(filled(action.path, parts))
        return Act(name, where, named(action.title, parts), action.button, action.danger)

    def _shown(self, asked: Asked) -> Answer | Awaitable[Answer]:
        who = self.session(asked)
        if who is None:
            return self._unknown(asked)
        if (action := self.actions.find(asked.path)) is not None:
            return self._acting.ask(asked, *who, *action)
        found = self.pages.find(asked.path)
        if found is None:
            return self.failure(asked, 404, f"There is no page {asked.path}.")
        return self._page(asked, *who, *found)

    async def _page(self, asked: Asked, session: Session, user: User, page: Page, parts: Mapping[str, str]) -> Answer:
        visit = self.visit(asked, session, user, parts)
        revision = asked.place.cluster.store.revision  # before the rows are read: the page is at least as new
        names = await self._names_of(asked, visit, page)
        names["notices"] = session.take_notices()
        if page.fragments:
            names["stream"], names["revision"] = asked.base + "/stream", revision
        return wire.page(self.renderer.page(page.template, names))

    async def _names_of(self, asked: Asked, visit: Visit, page: Page) -> dict[str, Any]:
        loaded = page.load(visit)
        if isinstance(loaded, Awaitable):
            loaded = await loaded
        return {**self.names(asked, visit, page.name, named(page.title, visit.parts)), "page": page, **loaded}

    def _file(self, asked: Asked, name: str) -> Response:
        found = self.static.file(name)
        if found is None:
            return wire.words(f"there is no file {name}", 404)
        return Response(200, *found, (*wire.SECURITY, _KEPT))

    def failure(self, asked: Asked, code: int, text: str) -> Response:
        names = {**self.plain_names(asked), "code": code, "text": text, "again": 2 if code == 503 else 0}
        return wire.page(self.renderer.page("failure.html", names), code)

    # What changes.

    def _stream(self, asked: Asked) -> Answer:
        who = self.session(asked)
        if who is None:
            return wire.words("not signed in", 401)
        query = wire.fields_of(asked.request.query)
        path, _, search = query.get("page", "/")[:_LONGEST_ADDRESS].partition("?")
        found = self.pages.find(path)
        if found is None or not found[0].fragments:
            return wire.words(f"there is no live page {path}", 404)
        session, _ = who
        page, parts = found
        shown = Request(asked.request.transport)
        shown.method, shown.path, shown.query, shown.headers = "GET", path, search, asked.request.headers
        there = replace(asked, request=shown, path=path)
        since = asked.request.header(b"last-event-id") or query.get("since", "")
        store, follows = asked.place.cluster.store, self._prefixes(asked.place.cluster, page.follows)
        source = Source(
            (session.key, asked.place.cluster.name, self.theme(asked), there.address),
            session,
            partial(self._fragments, there, session, page, parts),
            lambda: max((store.changed(each) for each in follows), default=0),
            lambda: store.revision,
        )
        return self.hub.stream(source, natural(since) or 0, http1=asked.plain)

    def _prefixes(self, cluster: Cluster, follows: tuple[Resource, ...]) -> list[str]:
        found = (cluster.catalogue.find(each.group, each.version, each.plural) for each in follows)
        return [each[0].prefix for each in found if each is not None]

    async def _fragments(self, asked: Asked, session: Session, page: Page, parts: Mapping[str, str]) -> dict[str, str]:
        user = self.sessions.user(session, asked.place.cluster.name)  # with the groups of now
        if user is None:
            raise Unauthorized
        names = await self._names_of(asked, self.visit(asked, session, user, parts), page)
        found = {}
        for name in page.fragments:
            found[name] = self.renderer.fragment(page.template, name, names)
            await asyncio.sleep(0)
        return found

    # What is done.

    def _posted(self, asked: Asked) -> Answer | Awaitable[Answer]:
        form = wire.form_of(asked.request)
        who = self.session(asked)
        if who is None:
            return self._unknown(asked)
        session, user = who
        if not secrets.compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
            return self.failure(
                asked, 403, "The form's csrf field is not this session's: open the page again and repeat."
            )
        if asked.path == "/sign-out":
            self.sessions.end(session)
            return wire.redirect(f"{asked.base}/sign-in?out=1", (wire.drop_session(self.cookie),))
        if asked.path == "/theme":
            theme = form.get("theme", "")
            back = self.local_address(asked, form.get("back", ""))
            return wire.redirect(back, (wire.set_theme(self.theme_cookie, theme),) if theme in THEMES else ())
        action = self.actions.find(asked.path)
        if action is None:
            return self.failure(asked, 404, f"There is no action {asked.path}.")
        return self._acting.perform(asked, session, user, *action, form)

    def local_address(self, asked: Asked, address: str) -> str:
        """Where a form leads back to: a page or an action, or else the first page. A one-time link is neither: following
        it would leave the user signed in as the one who made it."""
        start = f"{asked.base}/"
        plain = address.isprintable() and "\\" not in address and len(address) <= _LONGEST_ADDRESS
        if not plain or not address.startswith(start):
            return start
        path = address.removeprefix(asked.base).partition("?")[0].partition("#")[0]
        climbs = any(unquote(part) in (".", "..") for part in path.split("/"))  # a browser would leave these parts out
        known = self.pages.find(path) is not None or self.actions.find(path) is not None
        return address if known and not climbs else start


def _may(views: Views, user: User, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
    return views.may(user, verb, resource, namespace, name)
