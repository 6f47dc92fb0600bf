"""KueueViz's own front end, as its project builds it, against this server.

The build is found in $GPUAAS_KUEUEVIZ: the folder `build` that `npm ci && npx vite build` leaves in cmd/kueueviz/frontend
of the Go module sigs.k8s.io/kueue.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.conftest import Served
from tests.browser.objects import job

if TYPE_CHECKING:
    from playwright.sync_api import Page

BUILD = Path(os.environ.get("GPUAAS_KUEUEVIZ", "/nowhere"))
pytestmark = pytest.mark.skipif(
    not (BUILD / "index.html").exists(), reason="$GPUAAS_KUEUEVIZ names no build of KueueViz's front end"
)


class Files(SimpleHTTPRequestHandler):
    """The build as its image serves it: what is no file is the application."""

    backend = ""

    def do_GET(self) -> None:
        if self.path == "/env.js":
            body = f"window.env = {json.dumps(dict.fromkeys(('VITE_WEBSOCKET_URL', 'REACT_APP_WEBSOCKET_URL'), self.backend))};".encode()
            self.send_response(200)
            self.send_header("content-type", "text/javascript")
            self.end_headers()
            self.wfile.write(body)
            return
        if not (BUILD / self.path.lstrip("/").partition("?")[0]).is_file():
            self.path = "/index.html"
        super().do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def front(served: Served) -> Iterator[str]:
    handler = type("Handler", (Files,), {"backend": served.plain.replace("http", "ws")})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(BUILD)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def sign_in(page: Page, front: str, token: str) -> None:
    page.goto(front)
    page.get_by_label("Bearer Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Logout").wait_for()


HEADINGS = {
    "/": ["team-a", "seen-there"],
    "/workloads": ["job-seen-there"],
    "/local-queues": ["team-a", "default"],
    "/cluster-queues": ["team-a", "team-b", "centre"],
    "/cohorts": ["centre"],
    "/resource-flavors": ["h200", "l4"],
    "/cluster-queue/team-a": ["Resource Quotas", "nvidia.com/gpu", "Local Queues Using This Cluster Queue"],
    "/local-queue/team-a/default": ["Flavor Usage", "Flavors Reservation"],
    "/resource-flavor/h200": ["Queues Using This Flavor", "h200-0"],
    "/cohort/centre": ["team-a", "team-b"],
}


def test_every_page_shows_what_there_is(served: Served, page: Page, front: str) -> None:
    served.apply(job("seen-there"))
    sign_in(page, front, served.service.token)
    for path, words in HEADINGS.items():
        page.goto(front + path)
        for each in words:
            page.get_by_text(each).first.wait_for()
    page.goto(f"{front}/workloads")
    served.apply(job("later-there"))
    page.get_by_text("job-later-there").first.wait_for()  # without a reload
    page.goto(f"{front}/resource-flavors")
    page.get_by_role("button", name="View YAML").first.click()
    page.get_by_text("kind: ResourceFlavor").first.wait_for()


def test_a_tenant_sees_what_rbac_lets_them_see(served: Served, page: Page, front: str) -> None:
    served.apply(job("of-team-a"), job("of-team-b", namespace="team-b"))
    sign_in(page, front, served.user("tenant", "edit", "-n", "team-a"))
    page.goto(f"{front}/workloads")
    page.get_by_text("job-of-team-a").first.wait_for()
    assert page.get_by_text("job-of-team-b").count() == 0


def test_a_token_that_is_not_known_has_to_sign_in_again(page: Page, front: str) -> None:
    sign_in(page, front, "nobody")
    page.get_by_text("Please log in again").first.wait_for()
