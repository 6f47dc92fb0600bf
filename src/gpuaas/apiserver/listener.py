"""An open port: who speaks HTTP/2 gets that, everybody else HTTP/1.1; all connections end together."""

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from gpuaas.apiserver.http import Connection, Handler, Knows, knows_everybody
from gpuaas.apiserver.load_shedding import Slices
from gpuaas.apiserver.wirelimits import MAX_BODY

if TYPE_CHECKING:
    from gpuaas.apiserver.http2 import Http2Connection

HTTP_2: Final = "h2"
_LOOK_EVERY: Final = 5.0
_HANDSHAKE: Final = 10.0  # seconds for TLS, in which a connection is not counted yet

Connections = set[Any]
"""Of both kinds."""


class Listener:
    """An open port and its connections; `stop` ends them within the grace given."""

    def __init__(self, server: asyncio.Server, connections: "Connections") -> None:
        self._server = server
        self._connections = connections
        self._looking = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in tuple(self._connections):
            connection.look(loop.time())
        self._looking = loop.call_later(_LOOK_EVERY, self._look)

    async def stop(self, grace: float = 1.0) -> None:
        self._server.close()
        self._looking.cancel()
        for connection in tuple(self._connections):
            connection.shut_down()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self._connections and loop.time() < deadline:  # noqa: ASYNC110 - once, at the very end
            await asyncio.sleep(0.005)
        for connection in tuple(self._connections):
            connection.abort()


class _Greeting(asyncio.Protocol):
    """A connection of which it is not known yet which HTTP it speaks: what was agreed on with TLS says so."""

    def __init__(self, handler: Handler, connections: Connections, slices: Slices, knows: Knows, limit: int) -> None:
        self._parts = handler, connections, slices, knows
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = cast("ssl.SSLObject | None", transport.get_extra_info("ssl_object"))
        speaks_2 = tls is not None and tls.selected_alpn_protocol() == HTTP_2
        protocol = _http2()(*self._parts) if speaks_2 else Connection(*self._parts, self._limit)
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)


def _http2() -> "type[Http2Connection]":
    """Loaded when the first client speaks it: a start need not wait for it."""
    from gpuaas.apiserver.http2 import Http2Connection

    return Http2Connection


async def listen(
    handler: Handler,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    knows: Knows = knows_everybody,
    limit: int = MAX_BODY,
) -> Listener:
    """`knows` is asked before a long body is kept; `limit`: bytes of one over HTTP/1.1."""
    connections: Connections = set()
    slices = Slices()
    if tls is not None:
        tls.set_alpn_protocols([HTTP_2, "http/1.1"])
    server = await asyncio.get_running_loop().create_server(
        lambda: _Greeting(handler, connections, slices, knows, limit),
        host,
        port,
        ssl=tls,
        ssl_handshake_timeout=_HANDSHAKE if tls is not None else None,
        backlog=1024,
        reuse_address=True,
    )
    return Listener(server, connections)
