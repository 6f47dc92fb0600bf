"""What tests of the pages share: a server in a child with a home of its own, and the system's Chromium.

    def test_it(served: Served, page: Page) -> None:    # `page`: a fresh profile, nobody signed in
        served.sign_in(page)                            # by a one-time link, as the administrator
        page.goto(served.address("/"))

`served` is one server for the module. Where there is no Chromium the tests are skipped;
`.ci/run` installs it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.conformance.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SANDBOX = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses its sandbox to root
PATIENCE = 20_000  # milliseconds until something counts as never coming, on a machine that is busy with other things


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="there is no Chromium on the PATH"))


class Served:
    """A control plane, and how its pages are reached."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def plain(self) -> str:
        """http://localhost:PORT"""
        said = json.loads((self.service.home / "server.json").read_text())
        return str(said["pages"]).removesuffix("/ui/")

    def address(self, path: str = "/") -> str:
        return f"{self.plain}/ui{path}"

    def link(self, token: str | None = None) -> str:
        """A one-time link for whose token it is; the administrator's by default."""
        answer = self.service.ask("POST", "/ui/link", token=token)
        assert answer.status == 200, answer.body
        return self.plain + str(json.loads(answer.body)["path"])

    def user(self, name: str, role: str = "edit", *options: str) -> str:
        """A new user's token."""
        file = self.service.home / f"{name}.kubeconfig"
        self.run("user", "add", name, "--role", role, "--out", str(file), *options)
        return str(yaml.safe_load(file.read_text())["users"][0]["user"]["token"])

    def run(self, *arguments: str, **environment: str) -> str:
        """The `gpuaas` command in this home; what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas", *arguments],
            env={
                **os.environ,
                "GPUAAS_HOME": str(self.service.home),
                "KUBECONFIG": str(self.service.kubeconfig),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"gpuaas {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Creates objects through the API; their kinds' plurals are found by discovery's rule of thumb."""
        for each in objects:
            group = each["apiVersion"]
            root = f"/apis/{group}" if "/" in group else f"/api/{group}"
            namespace = each["metadata"].get("namespace")
            scope = f"/namespaces/{namespace}" if namespace else ""
            answer = self.service.ask("POST", f"{root}{scope}/{each['kind'].lower()}s", each)
            assert answer.status in (201, 409), answer.body

    def sign_in(self, page: Page, token: str | None = None) -> None:
        page.goto(self.link(token))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With the built-in fleet of simulated nodes and the demo's queues."""
    with Service(tmp_path_factory.mktemp("browser") / "home", "--fleet", "demo") as service:
        yield Served(service)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """For a module, not the session: while it runs, Playwright holds the thread's event loop, and no other test gets one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(SANDBOX))
        yield browser
        browser.close()


@pytest.fixture
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh one: no cookies, no exceptions for certificates. A message of the page's own console that says error fails
    the test, so that a violated Content-Security-Policy does not pass unseen."""
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    problems: list[str] = []
    context.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: problems.append(str(error.error)))
    yield context
    context.close()
    unexpected = [each for each in problems if "Failed to load resource" not in each and "ERR_" not in each]
    assert not unexpected, unexpected


@pytest.fixture
def page(profile: BrowserContext) -> Page:
    return profile.new_page()
