"""A story is watched on the dashboard of its own control plane while it is told."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

LIMIT = 120.0


class Told:
    """`gpuaas demo NAME --open` on a terminal of its own, without a display."""

    def __init__(self, name: str) -> None:
        ours, theirs = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
        command = [sys.executable, "-m", "gpuaas", "demo", name, "--open"]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self._terminal = ours
        self.said = ""

    def until(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + LIMIT
        while (found := re.search(pattern, self.said)) is None:
            assert time.monotonic() < deadline, self.said
            self.said += os.read(self._terminal, 4096).decode(errors="replace")
        return found

    def enter(self) -> None:
        os.write(self._terminal, b"\n")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(LIMIT)
        os.close(self._terminal)


@pytest.mark.skipif(sys.platform != "linux", reason="reads a pseudo terminal as Linux has it")
def test_the_story_of_tiers_is_seen(page: Page, profile: BrowserContext) -> None:
    told = Told("sla")
    try:
        link = told.until(r"(http://localhost:\d+/ui/)enter/[\w-]+")
        told.until("press Enter to begin")
        page.goto(link[0])
        jobs, preemptions = page, profile.new_page()
        preemptions.goto(f"{link[1]}preemptions")
        jobs.goto(f"{link[1]}jobs")
        told.enter()
        expect(jobs.locator("#rows")).to_contain_text("raycluster-dev", timeout=LIMIT * 1000)
        told.until("steps happened; press Enter to end")
        expect(jobs.locator("#rows")).to_contain_text("Running")
        expect(jobs.locator("#rows")).not_to_contain_text("raycluster-prod")
        preemptions.bring_to_front()
        expect(preemptions.locator("main")).to_contain_text("raycluster-dev")
        expect(preemptions.locator("main")).to_contain_text("raycluster-prod")
        told.enter()
        told.until("nothing is left behind")
        expect(preemptions.locator("#live")).to_contain_text("connection lost since")
    finally:
        told.end()


_SEEN = """() => {
    window.seen = [];
    const note = () => window.seen.push(document.querySelector("#rows")?.innerText ?? "");
    new MutationObserver(note).observe(document.querySelector("main"), {childList: true, subtree: true, characterData: true});
    note();
}"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads a pseudo terminal as Linux has it")
def test_the_story_of_two_workbenches_is_seen(page: Page) -> None:
    told = Told("private-ai")
    try:
        link = told.until(r"(http://localhost:\d+/ui/)enter/[\w-]+")
        told.until("press Enter to begin")
        page.goto(link[0])
        page.goto(f"{link[1]}jobs")
        page.evaluate(_SEEN)
        told.enter()
        told.until("steps happened; press Enter to end")
        rows = page.locator("#rows")
        expect(rows).to_contain_text("workbench-2", timeout=LIMIT * 1000)
        expect(rows).to_contain_text("by-profile")
        expect(rows).not_to_contain_text("workbench-1")
        assert any("workbench-1" in rows for rows in page.evaluate("window.seen")), "the first was never shown"
        told.enter()
        told.until("nothing is left behind")
    finally:
        told.end()
