"""The pages' place in the control plane: below `/ui` of the API's port, and alone on a plain port bound to loopback.

The plain port spares people on this machine the certificate warning of a browser's first visit; it serves the pages, their
streams, and notebooks under host names of their own, and refuses everything else. Templates and pages are loaded beside the first requests (`open`): until then
an answer says that the control plane is starting.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Awaitable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.http import Answer, Request, Response
from gpuaas.apiserver.listener import Listener, listen
from gpuaas.apiserver.notebooks.proxy import BODY_LIMIT, NotebookProxy
from gpuaas.apiserver.server import Server, is_page
from gpuaas.assembly.home import Home, Unusable
from gpuaas.base.clock import Clock
from gpuaas.base.errors import PageNotFound
from gpuaas.views.rows import GROUP

if TYPE_CHECKING:
    from gpuaas.apiserver.views import Views
    from gpuaas.web.door import Door
    from gpuaas.web.kueueviz import KueueViz

_log = logging.getLogger("gpuaas")
_LOOPBACK: Final = "127.0.0.1"
OFF: Final = 0
_STARTING: Final = (
    b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>gpuaas</title>'
    b"<p>The control plane is starting; this page comes in a moment."
)
_NOT_KEPT: Final = ((b"cache-control", b"no-store"), (b"retry-after", b"1"))
_ELSEWHERE: Final = b"only the pages below /ui/ are served on this port; the Kubernetes API has its own, with TLS\n"


class Pages:
    def __init__(
        self, server: Server, clock: Clock, authority: bytes, names: Collection[str], notebooks: NotebookProxy
    ) -> None:
        self._server = server
        self._clock = clock
        self._mark = hashlib.sha256(authority).hexdigest()[:8]
        self._names = names
        self._door: Door | None = None
        self._kueueviz: KueueViz | None = None
        self._plain: Listener | None = None
        self._notebooks = notebooks
        server.pages = self._answer

    @property
    def address(self) -> str:
        """http://localhost:PORT; "" where there is no plain port."""
        return f"http://localhost:{self._plain.port}" if self._plain is not None else ""

    async def listen(self, home: Home, port: int | None) -> None:
        """Opens the plain port: the one that is named, that of the last start, or any. `OFF`: none."""
        if port == OFF:
            return
        wanted = port or home.last_web_port()
        try:
            self._plain = await self._open_plain(wanted)
        except OSError as error:
            if port or not wanted:
                raise Unusable(f"cannot serve the pages on {_LOOPBACK}:{port or 'any port'}: {error}") from None
            self._plain = await self._open_plain(0)
            _log.warning("port %s of the pages is taken: %s serves until the next start", wanted, self._plain.port)
        if port or not home.last_web_port():
            home.remember_web_port(self._plain.port)
        self._notebooks.port = self._plain.port

    async def _open_plain(self, port: int) -> Listener:
        return await listen(self._answer_plain, _LOOPBACK, port, None, self._knows, BODY_LIMIT)

    def _knows(self, request: Request) -> bool:
        """Whether a long body is kept: the pages have no use for one, notebooks are saved whole."""
        return self._notebooks.is_for(request) and self._notebooks.knows(request)

    async def stop(self) -> None:
        if self._door is not None:
            await self._door.hub.stop()
        if self._plain is not None:
            await self._plain.stop()

    def open(self) -> None:
        """Loads them; to be called in a thread, beside the first requests."""
        from gpuaas.web.actions import ACTIONS
        from gpuaas.web.door import Door, Place, Settings
        from gpuaas.web.kueueviz import KueueViz
        from gpuaas.web.pages import DEVELOPMENT, PAGES

        pages = (*PAGES, *DEVELOPMENT) if os.environ.get("GPUAAS_DEVELOPMENT") else PAGES
        settings = Settings(self._mark, self._names, self.address, pages, ACTIONS)
        places = {
            name: Place(cluster, self._server.access[name], partial(_views_of, cluster))
            for name, cluster in self._server.clusters.items()
        }
        self._door = Door(settings, places, self._server.answer_as, self._clock)
        self._kueueviz = KueueViz(places, self._names, self._clock)

    def _answer(self, request: Request, cluster: Cluster, path: str) -> Answer | Awaitable[Answer]:
        return self._asked(request, cluster, path, plain=False)

    def _answer_plain(self, request: Request) -> Answer | Awaitable[Answer]:
        if self._notebooks.is_for(request):
            return self._notebooks.handle(request)
        if request.path == "/":
            return Response(302, b"", b"text/plain", ((b"location", b"/ui/"), *_NOT_KEPT))
        with contextlib.suppress(PageNotFound):
            cluster, path = self._server.cluster_of(request.path)
            if is_page(path):
                return self._asked(request, cluster, path, plain=True)
        return Response(404, _ELSEWHERE, b"text/plain; charset=utf-8")

    def _asked(self, request: Request, cluster: Cluster, path: str, *, plain: bool) -> Answer | Awaitable[Answer]:
        if self._door is None:
            return Response(503, _STARTING, b"text/html; charset=utf-8", _NOT_KEPT)
        if self._kueueviz is not None and not path.startswith("/ui"):
            return self._kueueviz.answer(request, cluster.name, path, plain=plain)
        return self._door.answer(request, cluster.name, path, plain=plain)


def _views_of(cluster: Cluster) -> "Views | None":
    found = cluster.computed.get(GROUP)
    return None if found is None else found.views
