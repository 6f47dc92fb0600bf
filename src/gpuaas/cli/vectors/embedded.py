"""An API server of our own in this process, for vectors that are requests to one. No socket, a temporary home."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from gpuaas.apiserver.http import Request, Response
from gpuaas.apiserver.security.identity import MASTERS
from gpuaas.apiserver.server import Server
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import SystemClock
from gpuaas.base.ids import SystemIds
from gpuaas.observe.requests import RequestCounter


class _NoTransport:
    """What a request asks its connection: nothing here, there is none."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class EmbeddedApi:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gpuaas-replay-", ignore_cleanup_errors=True)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open(Path(self._folder.name)))

    async def _open(self, home: Path) -> None:
        clock, ids = SystemClock(), SystemIds()
        trust = Trust(home / "pki", home / "users.json", clock)
        self._parts = await open_cluster(
            "local", home / "store.db", trust, clock, ids, fsync=False, strict=frozenset({"odh"})
        )
        cluster, access = self._parts.cluster, self._parts.access
        self._server = Server({"local": cluster}, {"local": access}, RequestCounter())
        self._token = trust.users.add("replay", ids, groups=(MASTERS,))[1]

    def post(self, path: str, body: Any, query: Mapping[str, str]) -> tuple[int, list[str], Any]:
        """Status, warnings and the decoded answer."""
        request = Request(cast("asyncio.Transport", _NoTransport()))
        request.method, request.path, request.query = "POST", path, urlencode(query)
        request.body = json.dumps(body).encode()
        request.headers = {
            b"authorization": f"Bearer {self._token}".encode(),
            b"content-type": b"application/json",
            b"accept": b"application/json",
        }
        response = self._loop.run_until_complete(self._answered(request))
        warnings = [value.decode().partition('"')[2][:-1] for name, value in response.headers if name == b"warning"]
        return response.status, [warning.replace('\\"', '"') for warning in warnings], json.loads(response.body)

    def close(self) -> None:
        self._loop.run_until_complete(self._parts.close())
        self._loop.close()
        self._folder.cleanup()

    async def _answered(self, request: Request) -> Response:
        answer = self._server.handle(request)
        return cast("Response", await answer if isinstance(answer, Awaitable) else answer)
