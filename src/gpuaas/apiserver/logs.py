"""Pod logs: `tailLines`, `sinceSeconds`, `limitBytes`, `timestamps` and `follow` over whatever runs the pod.

An executor offers a `LogSource`; without one a pod has written nothing, and that is said rather than shown as empty.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpuaas.apiserver import websocket
from gpuaas.apiserver.http import Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import BadRequest, Invalid, MethodNotAllowed
from gpuaas.base.fielderrors import forbidden, invalid

if TYPE_CHECKING:
    from gpuaas.apiserver.server import Server

_log = logging.getLogger("gpuaas.apiserver")
TEXT = b"text/plain"


@dataclass(frozen=True, slots=True)
class LogOptions:
    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None  # Unix seconds
    limit_bytes: int | None = None


class LogSource(Protocol):
    def read(self, pod: Any, options: LogOptions) -> AsyncIterator[bytes]:
        """What the container wrote, in pieces; with `follow`, until it ends."""

    def waits_for(self, pod: Any) -> bool:
        """Whether who follows a pod that has not begun may wait for it."""


def log(server: "Server", op: Operation, info: RequestInfo, request: Request) -> Answer:
    if op.verb != "get":
        raise MethodNotAllowed
    entry = op.cluster.store.get(op.key)
    if entry is None:
        raise op.not_found()
    pod = entry.obj
    options = _options(op, info)
    container = _container(op, pod, options.container)
    phase = (pod.get("status") or {}).get("phase")
    source: LogSource | None = op.cluster.logs
    begun = phase not in (None, "Pending")
    if source is None or not (begun or (options.follow and source.waits_for(pod))):
        reason = "ContainerCreating" if pod["spec"].get("nodeName") else "not scheduled to a node yet"
        if not pod["spec"].get("nodeName"):
            return Response(204, b"", b"")
        raise BadRequest(f'container "{container}" in pod "{op.name}" is waiting to start: {reason}')
    if options.previous and not _ended_before(pod, container):
        raise BadRequest(f'previous terminated container "{container}" in pod "{op.name}" not found')
    return websocket.read(request, Stream(lambda writer: _pump(writer, source.read(pod, options)), TEXT))


def _ended_before(pod: Any, container: str) -> bool:
    """Whether it ran once before, so that there can be a log of that."""
    status = pod.get("status") or {}
    known = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return any(each["name"] == container and (each.get("lastState") or {}).get("terminated") for each in known)


def _pump(writer: StreamWriter, pieces: AsyncIterator[bytes]) -> Callable[[], None]:
    """No faster than the client takes them: while its buffers are full no piece is made."""
    room = asyncio.Event()
    room.set()
    writer.on_pause, writer.on_resume = room.clear, room.set

    async def run() -> None:
        try:
            async for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)  # pieces that are there already must not keep others from their turn
                await room.wait()
        except Exception:
            _log.exception("reading a pod's log")
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        writer.close()

    task = asyncio.ensure_future(run())
    return lambda: None if task.done() else (task.cancel(), None)[1]


def _options(op: Operation, info: RequestInfo) -> LogOptions:
    since, tail, limit = info.number("sinceSeconds"), info.number("tailLines"), info.number("limitBytes")
    since_time = info.query.get("sinceTime")
    problems = []
    if tail is not None and tail < 0:
        problems.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and since_time:
        problems.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        problems.append(invalid("sinceSeconds", since, "must be greater than 0"))
    if problems:
        raise Invalid("", "PodLogOptions", op.name, problems)
    try:
        start = (
            op.cluster.clock.now() - since if since is not None else parse_rfc3339(since_time) if since_time else None
        )
    except ValueError as error:
        raise BadRequest(f"sinceTime: {error}") from None
    return LogOptions(
        container=info.query.get("container", ""),
        follow=info.flag("follow"),
        previous=info.flag("previous"),
        timestamps=info.flag("timestamps"),
        tail_lines=tail,
        since=start,
        limit_bytes=limit,
    )


def _container(op: Operation, pod: Any, wanted: str) -> str:
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    init = [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if not wanted:
        if len(names) == 1:
            return str(names[0])
        choices = f"choose one of: [{' '.join(names)}]" + (
            f" or one of the init containers: [{' '.join(init)}]" if init else ""
        )
        raise BadRequest(f"a container name must be specified for pod {op.name}, {choices}")
    if wanted not in names and wanted not in init:
        raise BadRequest(f"container {wanted} is not valid for pod {op.name}")
    return wanted
