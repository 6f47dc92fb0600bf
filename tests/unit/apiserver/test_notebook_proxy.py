"""What the proxy to notebooks is made of: host names, links and cookies, header fields, and answers that are no HTTP."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuaas.apiserver.notebooks import proxy as proxy_module
from gpuaas.apiserver.notebooks.headers import (
    COOKIE,
    cookie,
    passed_cookies,
    request_head,
    response_fields,
    upgraded_head,
)
from gpuaas.apiserver.notebooks.hosts import host_name, host_of, is_notebook_origin
from gpuaas.apiserver.notebooks.proxy import NotebookProxy
from gpuaas.apiserver.notebooks.sessions import COOKIE_SECONDS, LINK_SECONDS, Place, Sessions
from gpuaas.apiserver.notebooks.upstream import HEAD_LIMIT, NotThere, connect, fetch
from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.base.clock import VirtualClock
from gpuaas.nodefit.names import PROCESS_CLASS

PLACE = Place("local", "team", "nb", "uid-1")
ANN = User("ann", "u-1", ("system:authenticated",))


# Host names.


def test_hosts_tell_notebooks_apart() -> None:
    notebooks = [
        ("local", "team", "nb"),
        ("local", "b", "team--nb"),
        ("local", "nb--b", "team"),
        ("local", "team", "nb."),
        ("local", "team", "n" * 60),
        ("local", "team", "n" * 61),
        ("other", "team", "nb"),
    ]
    hosts = [host_of(*each, is_first=each[0] == "local") for each in notebooks]
    assert hosts[0] == "nb--team.localhost"
    assert len(set(hosts)) == len(hosts)
    assert all(len(host.partition(".")[0]) <= 63 for host in hosts)


@pytest.mark.parametrize(
    ("origin", "theirs"),
    [
        (b"http://nb--team.localhost:8080", True),
        (b"http://NB--team.LOCALHOST:8080", True),
        (b"http://a.localhost.:1", True),
        (b"http://user@a.localhost:1", True),
        (b"http://localhost:8080", False),
        (b"https://127.0.0.1:6443", False),
        (b"https://localhost.example.com", False),
        (b"null", False),
    ],
)
def test_origins_of_notebooks_are_known(origin: bytes, theirs: bool) -> None:
    assert is_notebook_origin(origin) is theirs


def test_a_host_is_read_without_its_port() -> None:
    assert host_name(b"Nb--Team.localhost:80") == "nb--team.localhost"


# Links and cookies.


def sessions(clock: VirtualClock | None = None, key: bytes = b"k" * 32) -> Sessions:
    return Sessions(key, clock or VirtualClock(1_700_000_000.0))


def test_a_link_is_good_once() -> None:
    found = sessions()
    secret = found.link(ANN, PLACE)
    session = found.redeem(secret)
    assert session is not None
    assert (session.place, session.user) == (PLACE, "ann")
    assert found.redeem(secret) is None
    assert found.redeem("") is None


def test_a_link_ends() -> None:
    clock = VirtualClock(1_700_000_000.0)
    found = sessions(clock)
    secret = found.link(ANN, PLACE)
    clock.advance(LINK_SECONDS)
    assert found.redeem(secret) is None


def test_a_cookie_is_read_by_a_server_with_the_same_key_until_it_ends() -> None:
    clock = VirtualClock(1_700_000_000.0)
    first = sessions(clock)
    session = first.redeem(first.link(ANN, PLACE))
    assert session is not None
    text = first.cookie(session)
    assert sessions(clock).read(text) == session
    assert sessions(clock, b"other" * 8).read(text) is None
    clock.advance(COOKIE_SECONDS)
    assert sessions(clock).read(text) is None


def test_a_cookie_that_was_changed_is_not_read() -> None:
    found = sessions()
    session = found.redeem(found.link(ANN, PLACE))
    assert session is not None
    payload, _, signature = found.cookie(session).partition(".")
    forged = urlsafe_b64encode(b'{"place":{},"user":"admin"}').decode()
    for text in ("", ".", payload, f"{forged}.{signature}", f"{payload}.{'0' * 64}", f"{payload}.é", "x" * 10_000):
        assert found.read(text) is None


def test_one_user_cannot_push_out_the_links_of_others() -> None:
    found = sessions()
    kept = found.link(ANN, PLACE)
    for _ in range(2_000):
        found.link(User("eve", "u-2"), PLACE)
    assert found.redeem(kept) is not None


# Header fields.


def test_a_request_passes_on_no_credentials() -> None:
    headers = {
        b"host": b"nb--team.localhost:1",
        b"authorization": b"Bearer secret",
        b"cookie": f"{COOKIE}=a; own=1; __Host-gpuaas-12ab=b; __Secure-gpuaas=c; GPUAAS-x=d; _xsrf=2".encode(),
        b"impersonate-user": b"admin",
        b"x-remote-user": b"admin",
        b"x-forwarded-for": b"1.2.3.4",
        b"connection": b"keep-alive, x-secret",
        b"transfer-encoding": b"chunked",
        b"content-length": b"99",
        b"accept": b"text/html\napplication/json",
    }
    head = request_head("POST", b"/notebook/team/nb/x?a=%2F", headers, b"nb--team.localhost:1", 3, socket=False)
    assert head.decode().split("\r\n") == [
        "POST /notebook/team/nb/x?a=%2F HTTP/1.1",
        "host: nb--team.localhost:1",
        "accept: text/html",
        "accept: application/json",
        "cookie: own=1; _xsrf=2",
        "content-length: 3",
        "connection: close",
        "",
        "",
    ]


def test_an_answer_sets_no_cookie_of_ours_and_none_for_other_hosts() -> None:
    fields = [
        (b"content-type", b"text/html"),
        (b"set-cookie", b"own=1; Path=/; Domain=localhost; HttpOnly"),
        (b"set-cookie", f"{COOKIE}=x; Path=/; Secure".encode()),
        (b"set-cookie", b" gpuaas-theme=x"),
        (b"connection", b"upgrade"),
        (b"x-other", b"1"),
    ]
    assert response_fields(fields) == ((b"set-cookie", b"own=1; Path=/; HttpOnly"), (b"x-other", b"1"))


def test_of_a_handshake_only_the_web_sockets_fields_pass() -> None:
    head = upgraded_head([(b"sec-websocket-accept", b"a"), (b"set-cookie", b"x=1"), (b"server", b"s")])
    assert head.count(b"\r\n") == 5
    assert b"sec-websocket-accept: a" in head


def test_a_cookie_that_is_sent_twice_is_none() -> None:
    assert cookie("a=1; b=2", "a") == "1"
    assert cookie("a=1; a=2", "a") == ""
    assert passed_cookies("") == ""


# The notebook's server.


def serving(answer: bytes, tmp_path: Path, ask: bool = True) -> object:
    """What a client of the proxy learns of a server that sends these bytes."""

    async def run() -> object:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(answer)
                await writer.drain()
                writer.close()
            except OSError:
                return

        server = await asyncio.start_unix_server(serve, tmp_path / "s")
        async with server:
            return await fetch(tmp_path / "s", "/x", within=5.0, limit=1000)

    return asyncio.run(run())


def test_an_answer_is_read(tmp_path: Path) -> None:
    assert serving(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", tmp_path) == (200, b"[]")


def test_early_hints_are_passed_over(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"
    assert serving(answer, tmp_path) == (200, b"[]")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "(closed|broke) the connection"),
        (b"no HTTP\r\n\r\n", "did not answer as HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * (HEAD_LIMIT + 100_000), "headers of more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000, "more than 1000 bytes"),
    ],
)
def test_what_a_tenants_server_may_not_answer(answer: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(NotThere, match=words):
        serving(answer, tmp_path)


def test_a_socket_without_a_server_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotThere, match="does not listen yet"):
        asyncio.run(connect(tmp_path / "none"))


# What may be opened.


class _Store(dict[str, dict[str, Any]]):
    def get(self, key: str, default: Any = None) -> Any:
        return SimpleNamespace(obj=self[key]) if key in self else default


@pytest.mark.parametrize(
    ("template", "pod", "refused"), [("", "", False), (PROCESS_CLASS, "", True), ("", PROCESS_CLASS, True)]
)
def test_opening_a_process_needs_the_right_to_its_class_also_when_the_template_names_another(
    template: str, pod: str, refused: bool
) -> None:
    """Who may edit a notebook could else take the class out of it, and open what still runs as its owner started it."""
    asked: list[Asked] = []
    store = _Store()
    spec = {"template": {"spec": {"runtimeClassName": template}}}
    store["kubeflow.org/notebooks/team/nb"] = {"metadata": {"uid": "uid-1"}, "spec": spec}
    store["/pods/team/nb-0"] = {
        "metadata": {"uid": "p"},
        "spec": {"runtimeClassName": pod},
        "status": {"phase": "Running"},
    }
    cluster: Any = SimpleNamespace(name="local", store=store, mounts={})
    access: Any = SimpleNamespace(rbac=SimpleNamespace(require=lambda _user, what: asked.append(what)))
    users: Any = None
    proxy = NotebookProxy({"local": cluster}, {"local": access}, users, sessions(), lambda *_: None)
    proxy.port = 1
    request: Any = SimpleNamespace(method="POST")
    assert cluster.mounts["notebook-links"](ANN, "/notebook-links/team/nb", request).status == 201
    assert any((one.verb, one.resource) == ("use", "runtimeclasses") for one in asked) is refused


def test_one_namespaces_notebooks_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that opens connections without end would else keep everybody's notebooks out."""
    asyncio.run(_one_namespace_takes_all_it_can(monkeypatch))


async def _one_namespace_takes_all_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    async def waits(socket: Path) -> Any:
        asked.append(socket)
        await asyncio.Event().wait()

    monkeypatch.setattr(proxy_module, "connect", waits)
    monkeypatch.setattr(NotebookProxy, "_socket", lambda _self, place: Path(place.namespace))
    store = _Store()
    for namespace in ("team", "other"):
        store[f"kubeflow.org/notebooks/{namespace}/nb"] = {"metadata": {"uid": namespace}, "spec": {}}
    cluster: Any = SimpleNamespace(name="local", store=store, mounts={})
    access: Any = SimpleNamespace(rbac=SimpleNamespace(require=lambda *_: None))
    users: Any = None
    NotebookProxy({"local": cluster}, {"local": access}, users, sessions(), lambda *_: None)
    request: Any = SimpleNamespace(method="GET", headers={b"authorization": b"x"}, too_large=False, path="/", query="")

    def asks(namespace: str) -> asyncio.Future[Any]:
        return asyncio.ensure_future(cluster.mounts["notebook"](ANN, f"/notebook/{namespace}/nb/", request))

    held = [asks("team") for _ in range(proxy_module.MOST_OF_NAMESPACE)]
    await asyncio.sleep(0)
    answer = await asyncio.wait_for(asks("team"), 1)
    assert (answer.status, b"of namespace team" in answer.body) == (503, True)
    theirs = asks("other")
    await asyncio.sleep(0)
    assert asked[-1] == Path("other")
    held.pop().cancel()
    await asyncio.sleep(0)
    again = asks("team")
    await asyncio.sleep(0)
    assert asked[-1] == Path("team")
    for each in (*held, theirs, again):
        each.cancel()
