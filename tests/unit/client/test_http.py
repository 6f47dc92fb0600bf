"""What the HTTPS client promises on the wire, against a server that says exactly what it is told to."""

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import ApiError, Conflict, Expired, Invalid, NotFound, TooManyRequests
from gpuaas.client.answers import to_error
from gpuaas.client.connection import IDLE_CONNECTIONS
from gpuaas.client.http import HttpClient
from gpuaas.client.kubeconfig import Access, KubeconfigError
from gpuaas.client.protocol import PatchKind, Propagation, Resource
from gpuaas.client.resources import CONFIG_MAPS, JOBS, NODES, PODS
from gpuaas.testing.time import scenario


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Server:
    """Answers each request with the next of `answers`: raw bytes, or a function that writes to the connection."""

    answers: list[Any] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    url: str = ""

    def say(self, body: Any, code: int = 200, headers: str = "") -> None:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
        self.answers.append(head.encode() + data)

    def stream(self, *pieces: bytes, end: bool = True) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces]
        self.answers.append([head, *chunks, *([b"0\r\n\r\n"] if end else [None])])

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                method, target, _ = first.split(" ")
                headers = dict(line.split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("Content-Length", 0)))
                self.requests.append(Request(method, target, headers, body))
                answer = self.answers.pop(0)
                for piece in answer if isinstance(answer, list) else [answer]:
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(path: str = "", **access: Any) -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server()
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    client = HttpClient(Access("test", f"http://127.0.0.1:{port}{path}", **access), VirtualClock())
    try:
        yield server, client
    finally:
        await client.close()
        listener.close()
        await asyncio.sleep(0.01)


@scenario
async def test_each_verb_becomes_the_request_kubernetes_expects() -> None:
    async with serving("/clusters/a", token="secret") as (server, client):
        obj = {"metadata": {"name": "x"}}
        for _ in range(8):
            server.say(obj)
        await client.get(JOBS, "x", "team", subresource="status")
        await client.create(CONFIG_MAPS, obj, "team", field_manager="me", dry_run=True)
        await client.create(PODS, obj, "team", name="p", subresource="eviction")
        await client.update(NODES, obj)
        await client.patch(JOBS, "x", {"a": 1}, "team", kind=PatchKind.APPLY, field_manager="me", force=True)
        await client.patch(JOBS, "x", [{"op": "test"}], "team", kind=PatchKind.JSON)
        await client.delete(PODS, "x", "team", propagation=Propagation.ORPHAN, uid="u", grace=0)
        await client.delete_collection(PODS, "team", labels="a=b,c in (d)")
        seen = [f"{request.method} {request.target}" for request in server.requests]
        assert seen == [
            "GET /clusters/a/apis/batch/v1/namespaces/team/jobs/x/status",
            "POST /clusters/a/api/v1/namespaces/team/configmaps?fieldManager=me&dryRun=All",
            "POST /clusters/a/api/v1/namespaces/team/pods/p/eviction",
            "PUT /clusters/a/api/v1/nodes/x",
            "PATCH /clusters/a/apis/batch/v1/namespaces/team/jobs/x?fieldManager=me&force=true",
            "PATCH /clusters/a/apis/batch/v1/namespaces/team/jobs/x",
            "DELETE /clusters/a/api/v1/namespaces/team/pods/x",
            "DELETE /clusters/a/api/v1/namespaces/team/pods?labelSelector=a%3Db%2Cc+in+%28d%29",
        ]
        assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}
        assert server.requests[1].json == {"apiVersion": "v1", "kind": "ConfigMap", **obj}
        assert [server.requests[n].headers["Content-Type"] for n in (4, 5)] == [
            "application/apply-patch+yaml",
            "application/json-patch+json",
        ]
        assert server.requests[6].json == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Orphan",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
        }
        assert server.connections == 1, "one connection serves them all"


@scenario
async def test_a_list_gives_items_with_their_kind_and_the_token_of_the_next_page() -> None:
    async with serving() as (server, client):
        items = [{"metadata": {"name": "a"}}]
        server.say({"kind": "JobList", "metadata": {"resourceVersion": "7", "continue": "more"}, "items": items})
        page = await client.list(JOBS, labels="x=y", limit=1, continue_="last")
        assert server.requests[0].target == "/apis/batch/v1/jobs?labelSelector=x%3Dy&limit=1&continue=last"
        assert (page.resource_version, page.continue_) == ("7", "more")
        assert page.items == [{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "a"}}]


@scenario
async def test_what_is_packed_is_unpacked() -> None:
    async with serving() as (server, client):
        packed = gzip.compress(msgspec.json.encode({"metadata": {"name": "big"}}))
        server.say(packed, headers="Content-Encoding: gzip\r\n")
        assert (await client.get(PODS, "big", "n"))["metadata"]["name"] == "big"


@scenario
async def test_what_the_server_warns_of_is_told() -> None:
    async with serving() as (server, client):
        said: list[str] = []
        client.on_warning = said.append
        warnings = 'Warning: 299 - "old: use \\"new\\""\r\nWarning: 299 x "second"\r\nWarning: 110 - "stale"\r\n'
        server.say({"metadata": {"name": "x"}}, headers=warnings)
        await client.get(PODS, "x", "n")
        assert said == ['old: use "new"', "second"]


def _event(type_: str, **obj: Any) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


@scenario
async def test_a_watch_gives_events_however_the_pieces_are_cut_and_ends_quietly() -> None:
    async with serving() as (server, client):
        whole = _event("ADDED", n=1) + _event("MODIFIED", n=2) + _event("BOOKMARK", n=3)
        server.stream(*(whole[start : start + 7] for start in range(0, len(whole), 7)))
        seen = [(event.type, event.object["n"]) async for event in client.watch(PODS, resource_version="5")]
        assert seen == [("ADDED", 1), ("MODIFIED", 2), ("BOOKMARK", 3)]
        assert server.requests[0].target == "/api/v1/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true"


@scenario
async def test_a_watch_whose_revision_is_gone_raises_and_one_that_breaks_off_too() -> None:
    async with serving() as (server, client):
        server.stream(_event("ERROR", kind="Status", code=410, reason="Expired", message="too old"))
        with pytest.raises(Expired):
            async for _ in client.watch(PODS):
                pass
        server.stream(_event("ADDED", n=1), end=False)
        with pytest.raises(OSError):
            async for _ in client.watch(PODS):
                pass


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (410, "Gone", Expired),
        (418, "Teapot", ApiError),
        (404, "", NotFound),
    ],
)
def test_a_status_becomes_its_error_and_back(code: int, reason: str, kind: type[ApiError]) -> None:
    details = {"name": "x", "kind": "pods", "retryAfterSeconds": 3}
    error = to_error({"kind": "Status", "code": code, "reason": reason, "message": "words", "details": details})
    assert type(error) is kind
    assert (error.code, error.message, error.retry_after) == (code, "words", 3)
    assert error.status()["code"] == code
    assert error.status()["details"] == details


@scenario
async def test_refusals_are_raised_with_the_servers_words_even_if_they_are_not_a_status() -> None:
    async with serving() as (server, client):
        server.say({"kind": "Status", "message": 'pods "x" not found', "reason": "NotFound", "code": 404}, 404)
        with pytest.raises(NotFound, match='pods "x" not found'):
            await client.get(PODS, "x", "n")
        server.say(b"upstream is down", 503)
        with pytest.raises(ApiError, match="upstream is down") as found:
            await client.get(PODS, "x", "n")
        assert found.value.code == 503


@scenario
async def test_a_kept_connection_that_died_is_replaced_for_reads_and_told_for_writes() -> None:
    async with serving() as (server, client):
        server.say({"n": 1})
        await client.get(PODS, "x", "n")
        server.answers.append([None])  # the server hangs up instead of answering
        server.say({"n": 2})
        assert await client.get(PODS, "x", "n") == {"n": 2}
        assert server.connections == 2
        server.answers.append([None])
        with pytest.raises(ConnectionError):
            await client.create(PODS, {"metadata": {}}, "n")


@scenario
async def test_many_at_once_share_and_reuse_connections() -> None:
    async with serving() as (server, client):
        for _ in range(20):
            server.say({})
        await asyncio.gather(*(client.get(PODS, str(n), "n") for n in range(10)))
        await asyncio.gather(*(client.get(PODS, str(n), "n") for n in range(10)))
        assert server.connections <= 10


@scenario
async def test_a_crowd_waits_for_a_connection_instead_of_opening_one_each() -> None:
    async with serving() as (server, client):
        for number in range(3 * IDLE_CONNECTIONS):
            server.say({"kind": "ConfigMap", "metadata": {"name": f"m{number}"}})
        await asyncio.gather(*(client.get(CONFIG_MAPS, "m", "ns") for _ in range(3 * IDLE_CONNECTIONS)))
        assert len(server.requests) == 3 * IDLE_CONNECTIONS
        assert server.connections < 2 * IDLE_CONNECTIONS


@scenario
async def test_what_is_not_http_is_a_connection_error() -> None:
    async with serving() as (server, client):
        server.answers.append(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        with pytest.raises(ConnectionError, match="is not HTTP"):
            await client.get(PODS, "x", "n")


@scenario
async def test_a_log_comes_in_pieces() -> None:
    async with serving() as (server, client):
        server.stream(b"one\n", b"two\n")
        text = b"".join([piece async for piece in client.log("p", "n", container="c", tail_lines=0, follow=True)])
        assert text == b"one\ntwo\n"
        target = "/api/v1/namespaces/n/pods/p/log?container=c&follow=true&tailLines=0"
        assert server.requests[0].target == target


@scenario
async def test_names_cannot_escape_their_place_in_the_path() -> None:
    async with serving() as (server, client):
        server.say({})
        await client.get(PODS, "../../secrets", "a/b")
        assert server.requests[0].target == "/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fsecrets"


@scenario
async def test_discovery_takes_each_resource_once_in_its_preferred_version() -> None:
    async with serving() as (server, client):

        def resource(name: str, kind: str) -> dict[str, Any]:
            return {"resource": name, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["get", "list"]}

        core = {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("pods", "Pod")]}]}
        versions = [
            {"version": "v2", "resources": [resource("widgets", "Widget")]},
            {"version": "v1", "resources": [resource("widgets", "Widget"), resource("olds", "Old")]},
        ]
        server.say({"items": [core]})
        server.say({"items": [{"metadata": {"name": "example.com"}, "versions": versions}]})
        found = [one.resource for one in await client.discover()]
        assert found == [
            Resource("", "v1", "pods", True, "Pod"),
            Resource("example.com", "v2", "widgets", True, "Widget"),
            Resource("example.com", "v1", "olds", True, "Old"),
        ]


def _plugin(tmp_path: Path, code: str) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    script.write_text(code)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "WHO", "value": "me"}],
    }


PRINT_TOKEN = """
import json, os, pathlib
assert json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"
count = pathlib.Path(__file__).with_suffix(".count")
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
print(json.dumps({"kind": "ExecCredential", "status": {"token": os.environ["WHO"] + str(n)}}))
"""


def test_an_exec_plugin_gives_the_token_and_is_asked_again_after_a_refusal(tmp_path: Path) -> None:
    @scenario
    async def check() -> None:
        async with serving(exec=_plugin(tmp_path, PRINT_TOKEN)) as (server, client):
            server.say({})
            server.say({})
            server.say({"kind": "Status", "code": 401, "reason": "Unauthorized"}, 401)
            server.say({})
            for _ in range(2):
                await client.get(PODS, "x", "n")
            with pytest.raises(ApiError):
                await client.get(PODS, "x", "n")
            await client.get(PODS, "x", "n")
            tokens = [request.headers["Authorization"] for request in server.requests]
            assert tokens == ["Bearer me1", "Bearer me1", "Bearer me1", "Bearer me2"]

    check()


@pytest.mark.parametrize(
    ("code", "words"),
    [("import sys; sys.exit('no access today')", "no access today"), ("print('hello')", "printed no ExecCredential")],
)
def test_a_plugin_that_fails_is_told(tmp_path: Path, code: str, words: str) -> None:
    @scenario
    async def check() -> None:
        async with serving(exec=_plugin(tmp_path, code)) as (_, client):
            with pytest.raises(KubeconfigError, match=words):
                await client.get(PODS, "x", "n")

    check()


def test_impersonation_and_token_files_become_headers(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("from-file\n")
    who = {"as": "ann", "as-groups": ["g1"], "as-uid": "7"}

    @scenario
    async def check() -> None:
        async with serving(token_file=token, impersonate=who) as (server, client):
            server.say({})
            await client.get(PODS, "x", "n")
            headers = server.requests[0].headers
            assert headers["Authorization"] == "Bearer from-file"
            assert [headers[f"Impersonate-{part}"] for part in ("User", "Group", "Uid")] == ["ann", "g1", "7"]

    check()
