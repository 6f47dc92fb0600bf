"""Signing in and out, as people do it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from .conftest import Served


def test_a_link_signs_in_without_a_warning(served: Served, page: Page) -> None:
    link = served.run("open", "--print").strip()
    assert link.startswith("http://localhost:")
    page.goto(link)
    expect(page).to_have_url(served.address("/"))
    expect(page.locator("body")).to_have_attribute("data-page", "overview")
    assert page.evaluate("isSecureContext")


def test_open_hands_the_link_to_the_browser(served: Served, page: Page, tmp_path: Path) -> None:
    seen = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}\n')
    browser.chmod(0o755)
    said = served.run("open", DISPLAY=":9", BROWSER=f"{browser} %s")
    assert said.strip() == "the dashboard is open in your browser"
    page.goto(seen.read_text())
    expect(page.locator(".user")).to_have_text("admin")


def test_a_link_works_once(served: Served, chromium: Browser, page: Page) -> None:
    link = served.link()
    page.goto(link)
    other = chromium.new_context()
    try:
        again = other.new_page()
        answer = again.goto(link)
        assert answer is not None
        assert answer.status == 403
        expect(again.get_by_role("alert")).to_contain_text("used already")
        again.goto(served.address("/"))
        expect(again).to_have_url(re.compile("/ui/sign-in"))
    finally:
        other.close()


def test_a_token_signs_in_and_leads_to_the_page_that_was_asked_for(served: Served, page: Page) -> None:
    page.goto(served.address("/?kept=1"))
    expect(page).to_have_url(re.compile("/ui/sign-in"))
    page.get_by_role("textbox").fill("no-such-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know this token")
    page.get_by_role("textbox").fill(served.service.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/ui/(\?kept=1)?$"))
    expect(page.locator(".user")).to_have_text("admin")


def test_a_kubeconfig_signs_in(served: Served, page: Page) -> None:
    page.goto(served.address("/sign-in"))
    page.get_by_role("textbox").fill(served.service.kubeconfig.read_text())
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".user")).to_have_text("admin")


def test_the_cookie_is_out_of_reach(served: Served, page: Page, profile: BrowserContext) -> None:
    served.sign_in(page)
    (cookie,) = (each for each in profile.cookies() if "theme" not in each["name"])
    assert cookie["name"].startswith("__Host-gpuaas-")
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"], cookie["path"]) == (True, True, "Strict", "/")
    assert page.evaluate("document.cookie") == ""


def test_signing_out_ends_every_tab(served: Served, page: Page, profile: BrowserContext) -> None:
    served.sign_in(page)
    other = profile.new_page()
    other.goto(served.address("/"))
    page.bring_to_front()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("signed out")
    other.bring_to_front()
    expect(other).to_have_url(re.compile("/ui/sign-in"))


def test_a_removed_user_is_out(served: Served, page: Page) -> None:
    served.sign_in(page, served.user("leaver", "cluster-admin"))
    expect(page.locator(".user")).to_have_text("leaver")
    served.run("user", "rm", "leaver")
    expect(page).to_have_url(re.compile("/ui/sign-in"))
