"""Pages that stay current: what others do appears, also after a break of the stream, and goes on where it was left."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from playwright.sync_api import expect
from tests.browser.objects import job

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

    from .conftest import Served

kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")


@kubectl
def test_a_job_submitted_by_kubectl_appears(served: Served, page: Page) -> None:
    served.sign_in(page)
    page.goto(served.address("/jobs"))
    expect(page.locator("#rows")).to_be_visible()
    subprocess.run(
        ["kubectl", "apply", "-f", "-"],
        input=yaml.safe_dump(job("from-kubectl")),
        env={**os.environ, "KUBECONFIG": str(served.service.kubeconfig)},
        text=True,
        check=True,
        capture_output=True,
        timeout=60,
    )
    expect(page.locator("#rows")).to_contain_text("from-kubectl", timeout=5_000)


def test_a_break_of_the_stream_loses_nothing(served: Served, page: Page, profile: BrowserContext) -> None:
    served.sign_in(page)
    page.goto(served.address("/jobs"))
    served.apply(job("before-the-break"))
    expect(page.locator("#rows")).to_contain_text("before-the-break")
    profile.set_offline(True)
    page.evaluate("dispatchEvent(new Event('pagehide'))")  # ends the open connection, which going offline does not
    page.evaluate("dispatchEvent(new Event('pageshow'))")
    expect(page.locator("#live")).to_contain_text("connection lost since")
    expect(page.locator("body")).to_have_class("stale")
    served.apply(job("during-the-break"))
    profile.set_offline(False)
    expect(page.locator("#rows")).to_contain_text("during-the-break")
    expect(page.locator("#live")).to_be_hidden()
    expect(page.locator("body")).not_to_have_class("stale")


def test_focus_stays_where_it_was_when_its_fragment_changes(served: Served, page: Page) -> None:
    served.apply(job("focused"))
    served.sign_in(page)
    page.goto(served.address("/jobs"))
    link = page.locator("tr", has_text="focused").get_by_role("link", name="focused")
    link.focus()
    held = link.get_attribute("href")
    served.apply(job("beside-it"))
    expect(page.locator("#rows")).to_contain_text("beside-it")
    assert page.evaluate("document.activeElement.getAttribute('href')") == held


def test_the_keyboard_goes_through_rows(served: Served, page: Page) -> None:
    served.apply(job("first-row"), job("second-row"))
    served.sign_in(page)
    page.goto(served.address("/jobs"))
    expect(page.locator("#rows")).to_contain_text("second-row")
    rows = [page.evaluate("document.activeElement.closest('tr')?.id ?? ''")]
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
        rows.append(page.evaluate("document.activeElement.closest('tr')?.id ?? ''"))
    assert rows[0] == ""
    assert rows[1] == rows[3] != rows[2]
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next and previous row")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_theme_is_kept(served: Served, page: Page) -> None:
    served.sign_in(page)
    page.goto(served.address("/jobs"))
    with page.expect_response("**/ui/theme"):
        page.get_by_role("button", name="Theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_more_windows_than_a_browser_has_connections(served: Served, page: Page, profile: BrowserContext) -> None:
    """Six to a host over HTTP/1.1: windows take turns, all of them become current, and one more still loads."""
    served.sign_in(page)
    windows = [profile.new_page() for _ in range(7)]
    for window in windows:
        window.goto(served.address("/jobs"))
    served.apply(job("seen-by-all"))
    for window in windows:
        expect(window.locator("#rows")).to_contain_text("seen-by-all", timeout=30_000)
        expect(window.locator("body")).not_to_have_class("stale")
    page.goto(served.address("/quota"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
