"""Floods and silence on exec, attach and port-forward: the server's memory and the other clients do not feel them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from tests.attacks.harness import Bystander, bounded
from tests.conformance.service import Service, eventually

from gpuaas.apiserver.streaming import spdy_frames as spdy
from gpuaas.base import websocket_frames as ws

POD = "/api/v1/namespaces/default/pods/work"
HELD = 2.0  # seconds that another client may wait, on a busy machine
MIB = 1 << 20
MASK = b"\1\2\3\4"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with bounded(tmp_path_factory.mktemp("streams") / "home") as service:
        container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
        spec = {"runtimeClassName": "gpuaas-process", "restartPolicy": "Never", "containers": [container]}
        made = service.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "work"}, "spec": spec})
        assert made.status == 201, made.body
        eventually(lambda: service.ask("GET", POD).json()["status"].get("phase") == "Running", "the pod never ran")
        yield service
        service.ask("DELETE", f"{POD}?gracePeriodSeconds=0")
        folders = service.home / "pods" / "local"
        eventually(lambda: not list(folders.iterdir()), "the pod's folder is left, and its process")


def opened(
    service: Service,
    part: str,
    query: list[tuple[str, str]],
    *,
    method: str = "POST",
    token: str = "",
    **headers: str,
) -> tuple[ssl.SSLSocket, bytes]:
    """A connection after its handshake, and the head of the answer."""
    address = urlsplit(service.url)
    assert address.hostname is not None
    plain = socket.create_connection((address.hostname, address.port or 443), 20)
    wire = service.tls().wrap_socket(plain, server_hostname=address.hostname)
    lines = [
        f"{method} {POD}/{part}?{urlencode(query)} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {token or service.token}",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in {"Connection": "Upgrade", **headers}.items()]
    wire.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = wire.recv(1)
        if not piece:
            break
        head += piece
    return wire, head


def by_spdy(service: Service, part: str, query: list[tuple[str, str]], protocol: str) -> ssl.SSLSocket:
    wire, head = opened(service, part, query, Upgrade="SPDY/3.1", X_Stream_Protocol_Version=protocol)
    assert b" 101 " in head, head
    return wire


def by_socket(service: Service, part: str, query: list[tuple[str, str]]) -> ssl.SSLSocket:
    key = {"Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "x", "Sec_WebSocket_Protocol": "v5.channel.k8s.io"}
    wire, head = opened(service, part, query, Upgrade="websocket", **key)
    assert b" 101 " in head, head
    return wire


def command(*words: str, **flags: str) -> list[tuple[str, str]]:
    return [*(("command", word) for word in words), *flags.items(), ("stdout", "true")]


def is_cut_off(wire: ssl.SSLSocket, sent: bytes, times: int) -> bool:
    """Whether the server ends the connection while so much is sent to it."""
    wire.settimeout(20)
    with contextlib.suppress(OSError):
        for _ in range(times):
            wire.sendall(sent)
    try:
        while wire.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


FLOODS = {
    "pings": spdy.ping(1),
    "windows": spdy.control(spdy.WINDOW_UPDATE, 0, bytes(4) + b"\x7f\xff\xff\xff"),
    "settings": spdy.control(spdy.SETTINGS, 0, bytes(4)),
    "resets": spdy.reset(1, 1),
    "unknown frames": spdy.control(99, 0, bytes(10)),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_frames_is_cut_off(service: Service, name: str) -> None:
    with Bystander(service) as other, by_spdy(service, "portforward", [], "portforward.k8s.io") as wire:
        assert is_cut_off(wire, FLOODS[name] * 1000, 1000)
    assert other.worst < HELD


def test_a_flood_of_websocket_pings_is_cut_off(service: Service) -> None:
    with Bystander(service) as other, by_socket(service, "exec", command("sleep", "60")) as wire:
        assert is_cut_off(wire, ws.frame(ws.PING, b"x" * 100, MASK) * 1000, 1000)
    assert other.worst < HELD


BOMB = spdy.Encoder().syn_stream(1, {"streamtype": "x" * 8_000_000})
MALFORMED = {
    "a header bomb": BOMB,
    "a long control frame": b"\x80\x03\x00\x01\x00\xff\xff\xff",
    "another version": b"\x80\x02\x00\x01\x00\x00\x00\x00" * 10,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_spdy_ends_the_connection(service: Service, name: str) -> None:
    with by_spdy(service, "portforward", [], "portforward.k8s.io") as wire:
        assert is_cut_off(wire, MALFORMED[name], 1)


def test_output_that_is_not_read_is_not_kept(service: Service) -> None:
    before = service.rss()
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(by_socket(service, "exec", command("cat", "/dev/zero")))
        with Bystander(service) as other:
            time.sleep(2)  # in which each would write gigabytes
        grown = service.rss() - before
    assert grown < 100 * MIB
    assert other.worst < HELD


def test_input_that_is_not_taken_is_not_kept(service: Service) -> None:
    before = service.rss()
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            wire = stack.enter_context(by_socket(service, "exec", command("sleep", "60", stdin="true")))
            wire.settimeout(0.5)
            with contextlib.suppress(TimeoutError, OSError):
                while True:
                    wire.sendall(ws.frame(ws.BINARY, bytes(64 * 1024), MASK))
        grown = service.rss() - before
    assert grown < 150 * MIB


def test_sessions_of_one_user_run_out_and_come_back(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        heads = []
        for _ in range(70):
            wire, head = opened(
                service, "portforward", [], Upgrade="SPDY/3.1", X_Stream_Protocol_Version="portforward.k8s.io"
            )
            stack.enter_context(wire)
            heads.append(head.split(b" ", 2)[1])
        assert heads.count(b"101") <= 64
        assert heads[-1] == b"429"

    def works() -> bool:
        with contextlib.suppress(AssertionError):
            by_spdy(service, "portforward", [], "portforward.k8s.io").close()
            return True
        return False

    eventually(works, "no session was given back")


REFUSED = [
    ("no words", [("stdout", "true")], 400, "you must specify at least one command"),
    ("no streams", [("command", "ls")], 400, "at least one of stdin, stdout, stderr"),
    ("another container", [*command("ls"), ("container", "x")], 400, "container x is not valid for pod work"),
    ("a NUL", command("a\0b"), 400, "NUL character"),
    ("too many parameters", command(*["x"] * 1001), 400, "a query of 1002 parameters: limit is 1000"),
]


@pytest.mark.parametrize(
    ("query", "status", "words"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_what_cannot_be_is_refused_before_the_upgrade(
    service: Service, query: list[tuple[str, str]], status: int, words: str
) -> None:
    wire, head = opened(service, "exec", query, Upgrade="SPDY/3.1", X_Stream_Protocol_Version="v4.channel.k8s.io")
    with wire:
        assert head.split(b" ", 2)[1] == b"%d" % status
        assert words in wire.recv(65536).decode()


def test_without_an_upgrade_and_without_a_known_protocol(service: Service) -> None:
    answer = service.ask("POST", f"{POD}/exec?{urlencode(command('ls'))}")
    assert (answer.status, answer.json()["message"]) == (400, "Upgrade request required")
    wire, head = opened(service, "exec", command("ls"), Upgrade="SPDY/3.1", X_Stream_Protocol_Version="v9")
    with wire:
        assert b" 403 " in head
        assert b"v4.channel.k8s.io" in head


def test_no_method_leads_around_the_verb_create(service: Service) -> None:
    """HEAD is `get` to RBAC as GET is; who may only get may not run commands by either."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get"]}]
    assert service.ask("POST", f"{rbac}/roles", {"metadata": {"name": "gets"}, "rules": rules}).status == 201
    binding = {
        "metadata": {"name": "gets"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}],
        "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "gets"},
    }
    assert service.ask("POST", f"{rbac}/rolebindings", binding).status == 201
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = service.ask("POST", account, {"spec": {}}).json()["status"]["token"]
    assert service.ask("GET", POD, token=token).status == 200
    key = {"Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "x", "Sec_WebSocket_Protocol": "v5.channel.k8s.io"}
    for method in ("GET", "HEAD", "POST"):
        wire, head = opened(service, "exec", command("true"), method=method, token=token, Upgrade="websocket", **key)
        wire.close()
        assert b" 403 " in head, (method, head)


def test_a_command_whose_output_is_not_asked_for_does_not_wait(service: Service) -> None:
    query = [*(("command", word) for word in ("sh", "-c", "yes | head -c 1000000; exit 6")), ("stderr", "true")]
    with by_socket(service, "exec", query) as wire:
        found = b""
        while b"ExitCode" not in found:
            piece = wire.recv(65536)
            assert piece, found
            found += piece
    assert b'"message":"6"' in found


def test_it_is_all_gone_in_the_end(service: Service) -> None:
    def left() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if b"--beside" in words and str(service.home).encode() in words:
                    found.append(entry.name)
        return found

    eventually(lambda: not left(), lambda: f"left: {left()}")
