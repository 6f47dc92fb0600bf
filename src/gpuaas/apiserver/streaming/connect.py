"""The subresources exec, attach and portforward of pods: who may, what was asked, and which protocol is spoken.

As in Kubernetes since 1.35 a WebSocket, which is a GET, needs the verb create beside get: who may only read must not run
commands. Everything that can be refused is refused before the connection leaves HTTP, so that clients get a Status. What
a session does is written to the log when it begins and when it ends: user, pod, container, command.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from gpuaas.apiserver.http import Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.requestinfo import RequestInfo, said
from gpuaas.apiserver.security.authn import asks_for_socket, subprotocols
from gpuaas.apiserver.streaming import channels
from gpuaas.apiserver.streaming.duplex import Carried, Link, SocketLink, Terms
from gpuaas.apiserver.streaming.port_forwards import SpdyForwards, over_channels, port_of
from gpuaas.apiserver.streaming.remote_commands import Remote, SpdyCommand, serve
from gpuaas.base.errors import ApiError, BadRequest, NotImplementedHere

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

_log = logging.getLogger("gpuaas.apiserver.streams")
IDLE: Final = 4 * 3600.0  # seconds, as kubelets have it
MAX_WORDS: Final = 1000
MAX_PORTS: Final = 16
_SALT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_COMMANDS: Final = (channels.V5, channels.V4)
_FORWARD: Final = "portforward.k8s.io"
_TUNNEL: Final = f"SPDY/3.1+{_FORWARD}"
_SHOWN: Final = 200  # characters of a command in the log


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of exec and attach."""

    container: str
    words: Sequence[str]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @property
    def streams(self) -> frozenset[str]:
        wanted = {"error"}
        wanted |= {name for name in ("stdin", "stdout", "stderr") if getattr(self, name)}
        return frozenset(wanted | {"resize"} if self.tty else wanted)


class PodStreams(Protocol):
    """What an executor offers. All raise ApiError where it cannot be."""

    async def exec(self, pod: Any, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Remote: ...

    async def attach(self, pod: Any, container: str, *, tty: bool, stdin: bool) -> Remote: ...

    async def dial(self, pod: Any, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


async def connect(server: Server, op: Operation, info: RequestInfo, request: Request) -> Answer:
    pod = op.latest().obj
    if op.verb != "create":
        server.access[op.cluster.name].authorize_create(op.user, info)
    streams: PodStreams | None = op.cluster.streams
    if streams is None:
        raise NotImplementedHere(f"{op.subresource} is not offered by this server: no node here runs pods yet")
    upgrade = _upgrade_of(request)
    server.sessions.check(op.user.name)
    if op.subresource == "portforward":
        return _port_forward(server, op, info, request, pod, streams, upgrade)
    return await _command(server, op, info, request, pod, streams, upgrade)


# exec and attach


async def _command(
    server: Server, op: Operation, info: RequestInfo, request: Request, pod: Any, streams: PodStreams,
    upgrade: str,
) -> Answer:  # fmt: skip
    asked = _asked(op, info, pod)
    _check_runs(op, pod, asked.container)
    spoken = _agreed(request, upgrade, _COMMANDS)
    if isinstance(spoken, Response):
        return spoken
    if op.subresource == "exec":
        remote = await streams.exec(pod, asked.container, asked.words, tty=asked.tty, stdin=asked.stdin)
    else:
        remote = await streams.attach(pod, asked.container, tty=asked.tty, stdin=asked.stdin)
    what = f"container {asked.container}" + (f": {_shown(asked.words)}" if asked.words else "")
    carried: Carried
    if upgrade == "spdy":
        carried = SpdyCommand(asked.streams, remote)
    else:
        names = [name if name in asked.streams else "" for name in channels.REMOTE_COMMAND]
        greeting = next(name for name in ("stdout", "stderr", "error") if name in asked.streams)
        closes = spoken == channels.V5
        carried = channels.Channels(names, lambda found: serve(remote, found), closes=closes, greeting=greeting)
    return _begun(server, op, info, _head(request, upgrade, spoken), carried, what)


def _asked(op: Operation, info: RequestInfo, pod: Any) -> Asked:
    words = info.multi.get("command", [])
    if op.subresource == "exec" and not words:
        raise BadRequest("you must specify at least one command for the container")
    if len(words) > MAX_WORDS:
        raise BadRequest(f"a command of {len(words)} words: limit is {MAX_WORDS}")
    flags = {name: said(info.query, name) for name in ("stdin", "stdout", "stderr", "tty")}
    if flags["tty"]:
        flags["stderr"] = False  # of a terminal both are one
    if not (flags["stdin"] or flags["stdout"] or flags["stderr"]):
        raise BadRequest("you must specify at least one of stdin, stdout, stderr")
    return Asked(_container(op, pod, info.query.get("container", "")), words, **flags)


def _container(op: Operation, pod: Any, wanted: str) -> str:
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    if wanted in names:
        return wanted
    if wanted:
        raise BadRequest(f"container {wanted} is not valid for pod {op.name}")
    if len(names) == 1:
        return str(names[0])
    raise BadRequest(f"a container name must be specified for pod {op.name}, choose one of: [{' '.join(names)}]")


def _check_runs(op: Operation, pod: Any, container: str) -> None:
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase in ("Succeeded", "Failed"):
        raise BadRequest(f'cannot {_doing(op)} pod "{op.name}": it has completed; current phase is {phase}')
    found = next((each for each in status.get("containerStatuses") or () if each["name"] == container), None)
    if phase == "Pending" or (found is not None and "running" not in (found.get("state") or {})):
        words = "is not running" if phase == "Running" else "has not started yet"
        raise BadRequest(f'cannot {_doing(op)} container "{container}" of pod "{op.name}": it {words}')


def _doing(op: Operation) -> str:
    return {"exec": "exec into", "attach": "attach to"}.get(op.subresource, "forward ports to")


# port-forward


def _port_forward(
    server: Server, op: Operation, info: RequestInfo, request: Request, pod: Any, streams: PodStreams,
    upgrade: str,
) -> Answer:  # fmt: skip
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase != "Running":
        raise BadRequest(f'cannot forward ports to pod "{op.name}": it is not running; current phase is {phase}')
    known = (_FORWARD,) if upgrade == "spdy" else (_TUNNEL, channels.V4)
    spoken = _agreed(request, upgrade, known)
    if isinstance(spoken, Response):
        return spoken

    seen: set[int] = set()

    async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port not in seen and len(seen) < MAX_PORTS:
            seen.add(port)
            _log.info("portforward: %s port %d", _who(op), port)
        return await streams.dial(op.latest().obj, port)

    carried: Carried
    if spoken == channels.V4:
        ports = _ports(info)
        names, serve_ports = over_channels(dial, ports)
        carried = channels.Channels(names, serve_ports, closes=False)
        what = f"ports {', '.join(map(str, ports))}"
    else:
        carried, what = SpdyForwards(dial), "ports as they are asked for"
    return _begun(server, op, info, _head(request, upgrade, spoken), carried, what)


def _ports(info: RequestInfo) -> list[int]:
    given = [text for each in info.multi.get("ports", ()) for text in each.split(",")]
    ports = [port_of(text) for text in given]
    if not ports or None in ports:
        raise BadRequest(
            f"query parameter \"ports\" is '{','.join(given)[:_SHOWN]}': it must name ports, from 1 to 65535"
        )
    if len(ports) > MAX_PORTS:
        raise BadRequest(f"{len(ports)} ports in one connection: limit is {MAX_PORTS}")
    return [port for port in ports if port is not None]


# The upgrade


def _upgrade_of(request: Request) -> str:
    if not request.target:  # of HTTP/2, where a stream is no connection
        raise BadRequest("Upgrade request required, over HTTP/1.1")
    if asks_for_socket(request.headers):
        if request.header(b"sec-websocket-version") != "13" or b"sec-websocket-key" not in request.headers:
            raise BadRequest("a WebSocket of version 13 with a key was expected")
        return "websocket"
    asks = b"upgrade" in request.headers.get(b"connection", b"").lower()
    if asks and request.headers.get(b"upgrade", b"").lower() == b"spdy/3.1":
        return "spdy"
    raise BadRequest("Upgrade request required")


def _agreed(request: Request, upgrade: str, known: Sequence[str]) -> str | Response:
    """The first protocol the client offers that is spoken here; else the answer that names those."""
    if upgrade == "websocket":
        offered = subprotocols(request.headers)
    else:
        text = request.header(b"x-stream-protocol-version").replace("\n", ",")
        offered = [name.strip() for name in islice(text.split(","), MAX_PORTS) if name.strip()]
    found = next((name for name in offered if name in known), None)
    if found is not None:
        return found
    if upgrade == "spdy" and not offered and _FORWARD in known:
        return _FORWARD  # as kubelets take it
    words = f"unable to upgrade: none of the protocols {offered[:MAX_PORTS]} is spoken here, but {list(known)}"
    accepted = tuple((b"x-accepted-stream-protocol-versions", name.encode()) for name in known)
    return Response(403 if upgrade == "spdy" else 400, words.encode(), b"text/plain", accepted)


def _head(request: Request, upgrade: str, spoken: str) -> bytes:
    lines = [b"HTTP/1.1 101 Switching Protocols", b"connection: Upgrade"]
    if upgrade == "spdy":
        lines += [b"upgrade: SPDY/3.1", b"x-stream-protocol-version: " + spoken.encode()]
    else:
        key = request.headers[b"sec-websocket-key"]
        accepted = b64encode(sha1(key + _SALT, usedforsecurity=False).digest())
        lines += [b"upgrade: websocket", b"sec-websocket-accept: " + accepted]
        lines.append(b"sec-websocket-protocol: " + spoken.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _begun(
    server: Server, op: Operation, info: RequestInfo, head: bytes, carried: Carried, what: str
) -> Stream:  # fmt: skip
    who = f"{_who(op)} {what}"
    is_socket = head.find(b"websocket") >= 0
    access = server.access[op.cluster.name]

    def allowed() -> bool:
        try:
            access.authorize(op.user, info)
            access.authorize_create(op.user, info)
            op.latest()
        except ApiError:
            return False
        return True

    def begin(transport: asyncio.Transport, connections: set[Any]) -> None:
        try:
            end = server.sessions.begin(op.user.name)
        except ApiError:  # others have begun since it was checked
            transport.abort()
            return

        def ended() -> None:
            end()
            _log.info("%s ended: %s", op.subresource, who)

        _log.info("%s begins: %s", op.subresource, who)
        kind = SocketLink if is_socket else Link
        kind(carried, Terms(allowed, IDLE, ended), transport, connections).begin(head)

    stream = Stream(_never)
    stream.socket = begin
    return stream


def _who(op: Operation) -> str:
    return f'user "{_shown([op.user.name])}" pod {op.namespace}/{op.name}'


def _never(_: StreamWriter) -> Callable[[], None]:
    raise RuntimeError("a stream to a pod is no answer over HTTP")


def _shown(words: Sequence[str]) -> str:
    text = " ".join(words)
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "".join(char if char.isprintable() else "?" for char in short)
