"""A notebook in a real browser: opened from the dashboard, over a restart, and what its pages cannot do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.browser.conftest import PATIENCE, Served
from tests.conformance.service import Service, eventually
from tests.conformance.test_notebooks import end_all

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

STANDIN = Path(__file__).parents[1] / "conformance" / "standin_jupyter.py"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A control plane whose node is this machine, with a notebook that is ready."""
    folder = tmp_path_factory.mktemp("nb")
    program = folder / "bin" / "jupyter-lab"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} "$@"\n')
    program.chmod(0o755)
    with Service(folder / "h", "--no-fsync") as service:
        words = ["notebook", "--name", "nb", "--gpus", "0", "--cpu", "100m", "--memory", "64Mi"]
        environment = {**os.environ, "GPUAAS_HOME": str(service.home), "KUBECONFIG": str(service.kubeconfig)}
        environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas", *words], env=environment, capture_output=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        yield Served(service)
        end_all(service)


@pytest.fixture
def quiet(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh profile. Its console is not looked at: refusals that these tests provoke are errors there."""
    context = chromium.new_context(ignore_https_errors=True)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(quiet: BrowserContext) -> Page:
    return quiet.new_page()


def opened(machine: Served, page: Page, profile: BrowserContext) -> Page:
    """The tab in which the notebook opens, by its page of the dashboard."""
    machine.sign_in(page)
    page.goto(machine.address("/notebooks"))
    page.get_by_role("link", name="nb", exact=True).click()
    with profile.expect_page() as found:
        page.locator("#open").click()
    tab = found.value
    tab.wait_for_url("http://nb--default.localhost:*/notebook/default/nb/")
    return tab


def result(machine: Served, tab: Page) -> dict[str, Any]:
    """What a page of the notebook is answered when it acts as the person who opened it."""
    where = urlencode({"api": machine.service.url.replace("127.0.0.1", "localhost"), "ui": machine.plain})
    tab.goto(f"{tab.url.split('/notebook/')[0]}/notebook/default/nb/page?{where}")
    tab.wait_for_function("document.getElementById('result').textContent")
    return dict(json.loads(tab.locator("#result").inner_text()))


def test_it_opens_from_the_dashboard_and_its_pages_reach_nothing_else(
    machine: Served, page: Page, quiet: BrowserContext
) -> None:
    tab = opened(machine, page, quiet)
    found = result(machine, tab)
    assert found["own"].startswith("basic 200"), found
    assert found["api"] == found["write"] == found["ui"] == "failed", found
    assert found["blind"].startswith(("failed", "opaque")), found
    assert found["post"].startswith(("failed", "opaque")), found
    assert "__Host" not in found["cookies"], found
    page.goto(machine.address("/"))
    assert page.locator("html").get_attribute("data-theme") == "auto", "a notebook's page changed the theme"


def test_it_goes_on_over_a_restart(machine: Served, page: Page, quiet: BrowserContext) -> None:
    tab = opened(machine, page, quiet)
    there = tab.url + "kernel"
    before = tab.goto(there)
    assert before is not None
    first = before.json()
    machine.service.stop()
    machine.service.start()
    eventually(lambda: machine.service.ask("POST", "/ui/link").status == 200, "the pages do not come back")
    after = tab.goto(there)
    assert after is not None
    assert after.json() == {"requests": first["requests"] + 1, "pid": first["pid"]}


def test_it_is_stopped_and_started_from_the_dashboard(machine: Served, page: Page) -> None:
    machine.sign_in(page)
    page.goto(machine.address("/notebooks/default/nb"))
    page.get_by_role("link", name="Stop").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("it holds no CPU or GPU").wait_for()
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="Start").click()
    page.locator("#open").wait_for()


def test_another_person_is_not_let_in(machine: Served, page: Page) -> None:
    token = machine.user("eve", "view", "-n", "default")
    machine.sign_in(page, token)
    page.goto(machine.address("/notebooks/default/nb"))
    assert page.locator("#open").count() == 0
