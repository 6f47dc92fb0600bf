"""A notebook's server is a tenant's program, and so is its page: neither holds up the server, and neither fills its memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.attacks.harness import Bystander, bounded
from tests.conformance.service import Service, eventually
from tests.conformance.test_notebooks import Browser, end_all, made, opened, program_in

MOST = 128  # exchanges at a time, of a namespace
PATH = "/notebook/default/hostile/"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("hostile")
    program_in(folder)
    with bounded(folder / "h", "--no-fsync") as found:
        made(found, "hostile")
        yield found
        end_all(found)


@pytest.fixture(scope="module")
def browser(service: Service) -> Browser:
    return opened(service, "hostile")


def sent(browser: Browser, path: str, *fields: str) -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", browser.port), timeout=20)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    lines = [f"GET {PATH}{path} HTTP/1.1", f"Host: {browser.host}:{browser.port}", f"Cookie: {cookies}", *fields]
    wire.sendall("\r\n".join([*lines, "", ""]).encode())
    return wire


def status(wire: socket.socket) -> int:
    return int(wire.recv(12).split(b" ")[1])


def swallowed(wire: socket.socket, most: int) -> int:
    """How many bytes the other side takes until it takes no more."""
    gone = 0
    while gone < most:
        try:
            gone += wire.send(bytes(65536))
        except TimeoutError:
            break
    return gone


def test_an_answer_without_end_takes_no_memory_where_nobody_reads_it(service: Service, browser: Browser) -> None:
    before = service.rss()
    with Bystander(service) as other, ExitStack() as stack:
        for _ in range(10):
            wire = stack.enter_context(sent(browser, "endless"))
            assert status(wire) == 200
        time.sleep(1.0)
    assert other.failures == []
    assert service.rss() - before < 40 << 20
    assert other.worst < 2.0


def test_what_is_sent_to_a_server_that_does_not_read_takes_no_memory(service: Service, browser: Browser) -> None:
    fields = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    fields += ["Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", f"Origin: {browser.origin}"]
    before = service.rss()
    with Bystander(service) as other, sent(browser, "deaf", *fields) as wire:
        assert status(wire) == 101
        wire.settimeout(1.0)
        gone = swallowed(wire, 200 << 20)
    assert gone < 40 << 20, "the proxy took it all"
    assert other.failures == []
    assert service.rss() - before < 40 << 20


def test_requests_that_are_never_answered_are_limited_and_let_go(service: Service, browser: Browser) -> None:
    with Bystander(service) as other, ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(sent(browser, "hang"))
        eventually(lambda: browser.ask(f"{PATH}echo")[0] == 503, "there is no limit")
        assert (
            b"128 requests to notebooks of namespace default are under way, the limit" in browser.ask(f"{PATH}echo")[2]
        )
    assert other.failures == []
    eventually(lambda: browser.ask(f"{PATH}echo")[0] == 200, "those who left are still counted")


@pytest.mark.parametrize(
    "cookie", ["x" * 3000, "eyJ9." + "0" * 64, ".", "é.é", '"a"', "e30=.e30=", "A" * 2000 + "." + "b" * 64]
)
def test_a_forged_cookie_is_no_session(service: Service, browser: Browser, cookie: str) -> None:
    forger = Browser(browser.host, browser.port, {"__Host-gpuaas-notebook": cookie})
    forger.cookies = {name: value.encode().decode("latin-1") for name, value in forger.cookies.items()}
    assert forger.ask(f"{PATH}echo")[0] == 401
