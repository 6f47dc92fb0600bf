"""Why a server that runs is not ready, in the words of what is wrong."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gpuaas.apiserver.security.certs import Authority
from gpuaas.assembly.home import Home, Running
from gpuaas.base.clock import SystemClock
from gpuaas.cli.ready import unready

_YEAR = 365 * 86_400.0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503 if self.server.server_name == "unwell" else 200)  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(b"etcd failed")

    def log_message(self, *_: object) -> None:
        pass


class _Server(HTTPServer):
    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def serving(home: Home, offset: float, name: str = "") -> Iterator[Running]:
    certificate, key = Authority(home.certificates, SystemClock().now() + offset).serving(["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.server_name = name
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Running(1, f"https://127.0.0.1:{server.server_port}", ("local",), "0")
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.mark.parametrize(
    ("offset", "name", "words", "lasting"),
    [
        (0.0, "", "", False),
        (0.0, "unwell", "/readyz says 503: b'etcd failed'", False),
        (_YEAR, "", "not yet valid", True),
        (-20 * _YEAR, "", "expired", True),
    ],
)
def test_the_reason_is_named(tmp_path: Path, offset: float, name: str, words: str, lasting: bool) -> None:
    home = Home(tmp_path)
    with serving(home, offset, name) as running:
        found = unready(running, home)
    assert words in found.words
    assert bool(found.words) is bool(words)
    assert found.lasting is lasting


def test_a_port_that_nobody_serves(tmp_path: Path) -> None:
    home = Home(tmp_path)
    Authority(home.certificates, SystemClock().now())
    found = unready(Running(1, "https://127.0.0.1:1", ("local",), "0"), home)
    assert "https://127.0.0.1:1 does not answer" in found.words
    assert not found.lasting


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_an_authority_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    home = Home(tmp_path)
    if content is not None:
        home.certificates.mkdir()
        (home.certificates / "ca.crt").write_bytes(content)
    found = unready(Running(1, "https://127.0.0.1:1", ("local",), "0"), home)
    assert "ca.crt cannot be used" in found.words
    assert found.lasting
