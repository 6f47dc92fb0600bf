"""From other machines the pages come over TLS: with a certificate of one's own, and over HTTP/2."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import CHROMIUM, PATIENCE, SANDBOX, Served
from tests.browser.objects import job
from tests.conformance.service import Service

from gpuaas.apiserver.security.certs import Authority

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAME = "gpus.example.test"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("tls")
    (folder / "pki").mkdir()
    certificate, key = Authority(folder / "pki", 1_790_000_000.0).serving([NAME])
    options = ("--fleet", "demo", "--tls-cert", str(certificate), "--tls-key", str(key), "--web-port", "0")
    with Service(folder / "home", *options) as service:
        yield Served(service)


@pytest.fixture
def page(served: Served) -> Iterator[Page]:
    """A browser that finds the name on this machine, and trusts the certificate's CA as an administrator's people do."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*SANDBOX, f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
        )
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(PATIENCE)
        yield context.new_page()
        browser.close()


def test_each_name_gets_its_certificate(served: Served) -> None:
    address = urlsplit(served.service.url)
    trust = ssl.create_default_context(cafile=str(served.service.home.parent / "pki" / "ca.crt"))
    with (
        socket.create_connection((address.hostname or "", address.port or 0), 10) as plain,
        trust.wrap_socket(plain, server_hostname=NAME) as secure,
    ):
        assert ("DNS", NAME) in secure.getpeercert()["subjectAltName"]  # type: ignore[index]
    assert served.service.ask("GET", "/readyz").status == 200, "the kubeconfig's CA still stands behind 127.0.0.1"


def test_the_pages_come_by_the_certificates_name(served: Served, page: Page) -> None:
    address = urlsplit(served.service.url)
    assert served.plain == served.service.url, "there is no plain port"
    page.goto(served.link().replace(f"{address.hostname}:", f"{NAME}:"))
    page.goto(f"https://{NAME}:{address.port}/ui/jobs")
    assert page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
    served.apply(job("over-tls"))
    expect(page.locator("#rows")).to_contain_text("over-tls")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"https://{NAME}:{address.port}/ui/sign-in?out=1")
