"""A server that is asked for reviews, as admission and conversion webhooks are, on the loop of the server under test."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from pathlib import Path

from gpuaas.apiserver.http import Answer, Request
from gpuaas.apiserver.listener import Listener, listen
from gpuaas.apiserver.security.certs import Authority

from .conftest import Api


class ReviewServer:
    def __init__(self, api: Api, folder: Path, serve: Callable[[Request], Answer]) -> None:
        authority = Authority(folder, 1_790_000_000.0)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*authority.serving(["127.0.0.1"]))
        self.trusted = base64.b64encode(authority.certificate).decode()
        self._api = api
        self._listener: Listener = api.run(listen(serve, "127.0.0.1", 0, tls))
        self.url = f"https://127.0.0.1:{self._listener.port}"

    def stop(self) -> None:
        self._api.run(self._listener.stop(0.1))
