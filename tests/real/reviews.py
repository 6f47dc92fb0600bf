"""A server that is asked for reviews, as admission and conversion webhooks are."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.certificates import Authority


@dataclass(frozen=True)
class Reviewer:
    url: str
    trusted: str
    """What goes into a caBundle."""


@contextmanager
def reviewing(respond: Callable[[str, dict[str, Any]], Any]) -> Iterator[Reviewer]:
    """`respond` gives the response to a request, by the path it came on."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = respond(self.path.partition("?")[0].strip("/"), review["request"])
            body = json.dumps({**review, "request": None, "response": said}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with tempfile.TemporaryDirectory() as name:
        authority = Authority.make(Path(name))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("hook", "hook"))
        trusted = base64.b64encode(authority.file.read_bytes()).decode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Reviewer(f"https://127.0.0.1:{server.server_address[1]}", trusted)
    finally:
        server.shutdown()
        server.server_close()
