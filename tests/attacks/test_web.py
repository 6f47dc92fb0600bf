"""The door to the pages under attack: forged origins and hosts, cookies without a token, links, streams, and text as HTML.

Requests are written by hand, as programs and foreign pages send them; what a browser does with them is in tests/browser.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
import yaml
from tests.attacks.harness import bounded
from tests.conformance.service import Service, eventually
from tests.conformance.wire import Answer, Closed, Wire

FORM = "application/x-www-form-urlencoded"
NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"


def job(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "simulated", "command": ["sleep", "infinity"]}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }


class Web:
    """The plain port, by hand."""

    def __init__(self, service: Service) -> None:
        self.service = service
        address = urlsplit(json.loads((service.home / "server.json").read_text())["pages"])
        self.host = address.netloc
        self.port = address.port or 0
        self.origin = f"http://{self.host}"

    def connect(self) -> Wire:
        return Wire("127.0.0.1", self.port, None, 10.0)

    def ask(
        self, method: str, target: str, body: bytes | None = None, *, host: str | None = None, **fields: str
    ) -> Answer:
        """A connection for each: a refused one may be closed. Header names with _ for -."""
        wire = self.connect()
        lines = [f"{method} {target} HTTP/1.1", f"host: {self.host if host is None else host}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        try:
            wire.send(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))
            return wire.read(method=method)
        finally:
            wire.close()

    def post(self, target: str, form: dict[str, str], **fields: str) -> Answer:
        fields = {"origin": self.origin, "sec_fetch_site": "same-origin", "content_type": FORM} | fields
        return self.ask(
            "POST", target, urlencode(form).encode(), **{key: value for key, value in fields.items() if value}
        )

    def link(self, token: str | None = None) -> str:
        return str(self.service.ask("POST", "/ui/link", token=token).json()["path"])

    def sign_in(self, token: str | None = None) -> str:
        """The cookie."""
        answer = self.ask("GET", self.link(token))
        assert answer.status == 303, answer
        return answer.headers["set-cookie"].partition(";")[0]

    def user(self, name: str, *options: str) -> str:
        """A new user's token."""
        file = self.service.home / f"{name}.kubeconfig"
        subprocess.run(
            [sys.executable, "-m", "gpuaas", "user", "add", name, *options, "--out", str(file)],
            env={**os.environ, "GPUAAS_HOME": str(self.service.home), "KUBECONFIG": str(self.service.kubeconfig)},
            check=True,
            capture_output=True,
            timeout=60,
        )
        return str(yaml.safe_load(file.read_text())["users"][0]["user"]["token"])

    def csrf(self, cookie: str) -> str:
        text = self.ask("GET", "/ui/", cookie=cookie).body.decode()
        return text.partition('name="csrf" value="')[2].partition('"')[0]

    def stream(self, cookie: str, page: str = "/") -> Wire:
        wire = self.connect()
        wire.send(
            f"GET /ui/stream?page={page}&since=0 HTTP/1.1\r\nhost: {self.host}\r\ncookie: {cookie}\r\n\r\n".encode()
        )
        return wire


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with bounded(tmp_path_factory.mktemp("web") / "home", "--fleet", "demo") as service:
        found = Web(service)
        cookie = found.sign_in()
        eventually(lambda: found.ask("GET", "/ui/", cookie=cookie).status == 200, lambda: "no page comes")
        yield found


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "", "[::2]"]
)
def test_a_foreign_host_is_refused_on_the_plain_port(web: Web, host: str) -> None:
    """DNS rebinding: a name of the attacker's that leads to 127.0.0.1."""
    cookie = web.sign_in()
    answer = web.ask("GET", "/ui/", host=f"{host}:{web.port}" if host else "", cookie=cookie)
    assert answer.status in (400, 403)
    assert b"csrf" not in answer.body


def test_a_foreign_host_is_refused_over_tls(web: Web) -> None:
    wire = web.service.connect()
    wire.send(b"GET /ui/sign-in HTTP/1.1\r\nhost: evil.example\r\n\r\n")
    assert wire.read().status == 403
    wire.close()


@pytest.mark.parametrize("target", ["/api", "/apis", "/api/v1/namespaces", "/metrics", "/version", "/readyz", "/uix", "/clusters/local/api/v1/pods", "/ui/../api/v1/pods", "/ui/%2e%2e/api/v1/pods", "/clusters/none/ui/"])  # fmt: skip
def test_the_plain_port_serves_no_api(web: Web, target: str) -> None:
    answer = web.ask("GET", target, authorization=f"Bearer {web.service.token}", cookie=web.sign_in())
    assert answer.status in (404, 303)
    assert b"apiVersion" not in answer.body
    assert b'"kind"' not in answer.body


def test_the_plain_port_makes_no_links(web: Web) -> None:
    answer = web.post("/ui/link", {}, authorization=f"Bearer {web.service.token}")
    assert answer.status in (303, 403, 404)
    assert b"enter" not in answer.body


def test_a_session_is_no_credential_of_the_api(web: Web) -> None:
    answer = web.service.ask("GET", "/api/v1/namespaces", token="", cookie=web.sign_in())
    assert answer.status == 401


def test_a_form_without_the_csrf_token_does_nothing(web: Web) -> None:
    cookie = web.sign_in()
    for csrf in ("", "x", web.csrf(web.sign_in())):  # none, a guess, another session's
        assert web.post("/ui/sign-out", {"csrf": csrf}, cookie=cookie).status == 403
    assert web.ask("GET", "/ui/", cookie=cookie).status == 200


FOREIGN = [
    {"origin": "http://evil.example", "sec_fetch_site": "cross-site"},
    {"origin": "http://localhost:1", "sec_fetch_site": "same-site"},  # another port of this machine: cookies come along
    {"origin": "http://localhost:1", "sec_fetch_site": ""},
    {"origin": "null", "sec_fetch_site": "same-origin"},
    {"origin": "", "sec_fetch_site": ""},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "none"},
]


@pytest.mark.parametrize("fields", FOREIGN)
@pytest.mark.parametrize("target", ["/ui/sign-out", "/ui/theme", "/ui/queues/team-a/stop"])
def test_a_form_of_another_site_does_nothing(web: Web, target: str, fields: dict[str, str]) -> None:
    cookie = web.sign_in()
    form = {"csrf": web.csrf(cookie), "policy": "Hold", "theme": "dark"}
    assert web.post(target, form, cookie=cookie, **fields).status == 403
    assert web.ask("GET", "/ui/", cookie=cookie).status == 200


@pytest.mark.parametrize("fields", FOREIGN[:3])
def test_another_site_signs_nobody_in(web: Web, fields: dict[str, str]) -> None:
    """As themselves or as the attacker: neither by the form nor by a link on a page."""
    answer = web.post("/ui/sign-in", {"token": web.service.token}, **fields)
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)
    link = web.link()
    answer = web.ask("GET", link, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)
    assert web.ask("GET", link).status == 303  # it was not used up


@pytest.mark.parametrize(
    "fields",
    [
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors", "origin": "http://localhost:1"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "object"},
        {"origin": "http://localhost:1"},
    ],
)
@pytest.mark.parametrize("target", ["/ui/", "/ui/stream?page=/&since=0", "/ui/queues/team-a/stop"])
def test_another_site_reads_nothing(web: Web, target: str, fields: dict[str, str]) -> None:
    assert web.ask("GET", target, cookie=web.sign_in(), **fields).status == 403


def test_a_websocket_is_no_way_in(web: Web) -> None:
    fields = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec_websocket_version": "13",
        "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "origin": "http://localhost:1",
    }
    assert web.ask("GET", "/ui/stream?page=/", cookie=web.sign_in(), **fields).status == 403


def test_a_link_from_a_chat_leads_to_the_page(web: Web) -> None:
    """The Strict cookie stays away from such a navigation; the page that comes asks again from here."""
    fields = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    answer = web.ask("GET", "/ui/?group=queue", **fields)
    assert answer.status == 200
    assert b'content="0; url=/ui/?group=queue"' in answer.body


def test_a_link_works_once(web: Web) -> None:
    link = web.link()
    assert web.ask("GET", link).status == 303
    assert web.ask("GET", link).status == 403
    assert web.ask("GET", "/ui/enter/").status == 403


def test_a_link_is_made_for_whoever_shows_a_good_token(web: Web) -> None:
    assert web.service.ask("POST", "/ui/link", token="wrong").status == 401
    assert web.service.ask("POST", "/ui/link", token="", cookie=web.sign_in()).status == 401
    foreign = web.service.ask("POST", "/ui/link", origin="https://evil.example")
    assert foreign.status == 403


@pytest.mark.parametrize("target", ["/ui/", "/ui/none", "/ui/sign-in", "/ui/static/app.js", "/ui/static/none", "/ui/queues/team-a/stop", "/ui/enter/x"])  # fmt: skip
def test_every_answer_carries_the_policy(web: Web, target: str) -> None:
    for cookie in (web.sign_in(), ""):
        headers = web.ask("GET", target, cookie=cookie).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
            " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("there", ["//evil.example", "https://evil.example", "/\\evil.example", "/ui/../\nx", "/api"])
def test_signing_in_leads_nowhere_else(web: Web, there: str) -> None:
    answer = web.post("/ui/sign-in", {"token": web.service.token, "next": there})
    assert answer.status == 303
    assert answer.headers["location"].startswith("/ui/")
    assert "evil" not in answer.headers["location"]


@pytest.mark.parametrize("name", ["..%2f..%2fdoor.py", "../door.py", "%2e%2e/door.py", "app.js%00", "/etc/passwd"])
def test_static_files_are_those_of_the_folder(web: Web, name: str) -> None:
    assert web.ask("GET", f"/ui/static/{name}").status == 404


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"token=" + b"x" * 20_000, FORM),
        (b"&".join(b"a%d=1" % number for number in range(60)), FORM),
        (b'{"token": "x"}', "application/json"),
        (b"token=" + quote("[" * 10_000 + ":\n").encode(), FORM),
        (b"token=" + quote("a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n").encode(), FORM),
        (b"token=%ff%fe%00%0a:", FORM),
    ],
)
def test_a_strange_form_signs_nobody_in(web: Web, body: bytes, media: str) -> None:
    answer = web.ask("POST", "/ui/sign-in", body, origin=web.origin, content_type=media)
    assert answer.status in (400, 403)
    assert "set-cookie" not in answer.headers


def test_names_that_users_choose_are_text(web: Web) -> None:
    """In the address, in the query, in a field of an action."""
    cookie = web.sign_in()
    for target in (f"/ui/{quote(NASTY, safe='')}", f"/ui/queues/{quote(NASTY, safe='')}/stop", f"/ui/?q={quote(NASTY)}", f"/ui/queues/team-a/stop?policy={quote(NASTY)}", f"/ui/sign-in?next={quote('/ui/' + NASTY)}"):  # fmt: skip
        text = web.ask("GET", target, cookie=cookie).body.decode()
        assert "<script>alert" not in text
        assert "<img" not in text


def test_another_tenant_sees_and_streams_nothing(web: Web) -> None:
    token = web.user("tenant", "--role", "edit", "-n", "team-b")
    assert web.service.ask("POST", "/apis/batch/v1/namespaces/team-a/jobs", job("secret-plan")).status == 201
    admin, tenant = web.sign_in(), web.sign_in(token)
    eventually(lambda: b"secret-plan" in web.ask("GET", "/ui/jobs", cookie=admin).body, lambda: "the job never appears")
    for target in ("/ui/", "/ui/jobs", "/ui/search?q=secret", "/ui/jobs/team-a/job/secret-plan", "/ui/nodes"):
        assert b"secret-plan</" not in web.ask("GET", target, cookie=tenant).body, target
    stream = web.stream(tenant, "/jobs")
    stream.read(whole=False)
    seen = stream.chunk() + stream.chunk()
    assert b"event: fragments" in seen
    assert b"secret-plan" not in seen
    stream.close()
    for target in ("/ui/jobs/team-a/job/secret-plan/cancel", "/ui/queues/team-a/stop"):
        answer = web.ask("GET", target, cookie=tenant)
        assert b"may not do that" in answer.body or answer.status in (403, 404)
        form = {"csrf": web.csrf(tenant), "policy": "Hold", "effect": "x"}
        assert web.post(target, form, cookie=tenant).status in (400, 403, 404)
    assert web.service.ask("GET", "/apis/batch/v1/namespaces/team-a/jobs/secret-plan").status == 200


def test_streams_are_bounded_and_others_are_served(web: Web) -> None:
    """Of one session four go on, the newest; another session's are not touched."""
    cookie, other = web.sign_in(), web.sign_in()
    untouched = web.stream(other)
    assert untouched.read(whole=False).status == 200
    opened = [web.stream(cookie) for _ in range(40)]
    for each in opened:
        assert each.read(whole=False).status == 200
    for each in opened[:36]:
        seen = b""
        while piece := each.chunk():
            seen += piece
        assert seen.endswith(b"event: crowded\ndata: {}\n\n")
    assert web.ask("GET", "/ui/", cookie=other).status == 200
    assert b"event: hello" in untouched.chunk()
    for each in (*opened, untouched):
        each.close()
    eventually(lambda: _opens(web, cookie), lambda: "streams that were closed are counted")


def _opens(web: Web, cookie: str) -> bool:
    wire = web.stream(cookie)
    try:
        return wire.read(whole=False).status == 200
    finally:
        wire.close()


def test_a_thousand_half_open_streams_cost_nobody_else(web: Web) -> None:
    """Requests for a stream that never end their headers."""
    half = [web.connect() for _ in range(1_000)]
    for each in half:
        each.send(f"GET /ui/stream?page=/ HTTP/1.1\r\nhost: {web.host}\r\n".encode())
    began = time.monotonic()
    assert web.ask("GET", "/ui/", cookie=web.sign_in()).status == 200
    assert time.monotonic() - began < 5
    for each in half:
        each.close()


def test_signing_out_ends_the_streams(web: Web) -> None:
    cookie = web.sign_in()
    stream = web.stream(cookie)
    stream.read(whole=False)
    assert web.post("/ui/sign-out", {"csrf": web.csrf(cookie)}, cookie=cookie).status == 303
    seen = b""
    while piece := stream.chunk():
        seen += piece
    stream.close()
    assert seen.endswith(b"event: end\ndata: {}\n\n")
    assert web.ask("GET", "/ui/", cookie=cookie).status == 303
    assert web.ask("GET", "/ui/stream?page=/", cookie=cookie).status == 401


def test_readers_that_read_nothing_cost_no_memory_and_catch_up(web: Web) -> None:
    """They are passed over while their buffers are full, and get what is newest once they read."""
    cookie = web.sign_in()
    slow = [web.stream(web.sign_in(), "/jobs") for _ in range(30)]
    before = web.service.rss()
    for number in range(200):
        assert web.service.ask("POST", "/apis/batch/v1/namespaces/team-a/jobs", job(f"slow-{number}")).status == 201
    eventually(
        lambda: b"slow-199" in web.ask("GET", "/ui/jobs?q=slow-199", cookie=cookie).body, "the job never appears"
    )
    assert web.service.rss() - before < 150 << 20
    assert web.service.ask("POST", "/apis/batch/v1/namespaces/team-a/jobs", job("and-the-last-one")).status == 201
    seen, end = slow[0].read(whole=False).body, time.monotonic() + 20
    while b"and-the-last-one" not in seen[-2_000_000:] and time.monotonic() < end:
        seen += slow[0].chunk()
    assert b"and-the-last-one" in seen
    for each in slow:
        each.close()


def test_a_server_that_starts_again_knows_no_session(web: Web) -> None:
    """They end cleanly: no credential is kept on disk. Last, because it restarts the server."""
    cookie = web.sign_in()
    stream = web.stream(cookie)
    stream.read(whole=False)
    web.service.stop()
    try:
        while stream.chunk():
            pass
    except Closed:
        pass
    stream.close()
    web.service.start()
    eventually(lambda: web.ask("GET", "/ui/", cookie=cookie).status == 303, lambda: "the session is still known")
    assert web.host == urlsplit(json.loads((web.service.home / "server.json").read_text())["pages"]).netloc
