"""exec, attach and port-forward on the hub for pods that run on workers, with the hub's own credential there.

Who may on the hub has been asked already; on the worker the hub's account needs create on the same subresources. Fits the
API server's PodStreams, as `shadow_pods.HubLogs` fits its LogSource.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.base.errors import ApiError, NotImplementedHere, Unavailable
from gpuaas.client.http import HttpClient
from gpuaas.client.streams import Forwarded, RemoteCommand, forward
from gpuaas.fleet.multikueue.shadow_pods import Found, remote_pod
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.runtime.metadata import key_of

_log = logging.getLogger(__name__)
_PIECE: Final = 64 * 1024
View = Mapping[str, Any]


class HubStreams:
    def __init__(self, inner: Any, connections: Workers, workload_of: Any) -> None:
        """`inner`: of the nodes of this cluster; None where it has none."""
        self._inner = inner
        self._connections = connections
        self._workload_of = workload_of
        self._tasks: set[asyncio.Task[None]] = set()

    async def exec(self, pod: View, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Any:
        there = self._there(pod)
        if there is None:
            return await self._here(pod).exec(pod, container, words, tty=tty, stdin=stdin)
        return await self._open(there, container, words, tty=tty, stdin=stdin)

    async def attach(self, pod: View, container: str, *, tty: bool, stdin: bool) -> Any:
        there = self._there(pod)
        if there is None:
            return await self._here(pod).attach(pod, container, tty=tty, stdin=stdin)
        return await self._open(there, container, None, tty=tty, stdin=stdin)

    async def dial(self, pod: View, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        there = self._there(pod)
        if there is None:
            return await self._here(pod).dial(pod, port)  # type: ignore[no-any-return]
        client, meta = _client_of(there), there.pod["metadata"]
        try:
            far = await Forwarded.open(client, meta["namespace"], meta["name"], port)
        except (ApiError, OSError) as error:
            raise _said(there, error) from None
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs, limit=_PIECE)
        task = asyncio.ensure_future(self._carry(far, port, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.open_connection(sock=ours, limit=_PIECE)

    async def _carry(
        self, far: Forwarded, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await forward(far, reader, writer)
        except (ApiError, OSError) as error:
            _log.info("port %d: %s", port, error)

    async def _open(
        self, there: Found, container: str, words: Sequence[str] | None, *, tty: bool, stdin: bool
    ) -> RemoteCommand:
        client, meta = _client_of(there), there.pod["metadata"]
        try:
            return await RemoteCommand.open(
                client, meta["namespace"], meta["name"], container, words, tty=tty, stdin=stdin
            )
        except (ApiError, OSError) as error:
            raise _said(there, error) from None

    def _there(self, pod: View) -> Found | None:
        return None if pod["spec"].get("nodeName") else remote_pod(self._connections, self._workload_of, key_of(pod))

    def _here(self, pod: View) -> Any:
        if self._inner is None or not pod["spec"].get("nodeName"):
            raise NotImplementedHere(
                f'pod "{pod["metadata"]["name"]}" runs neither on a node of this cluster nor on a worker that is connected'
            )
        return self._inner


def _client_of(there: Found) -> HttpClient:
    client = there.worker.client
    if not isinstance(client, HttpClient):
        raise NotImplementedHere(f"cluster {there.worker.name} is not reached over HTTP")
    return client


def _said(there: Found, error: ApiError | OSError) -> ApiError:
    words = error.message if isinstance(error, ApiError) else str(error) or type(error).__name__
    return Unavailable(f"cluster {there.worker.name}: {words}")
