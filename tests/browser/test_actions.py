"""Actions state their effect before they are done, and what they say is what happens; with and without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.objects import job, queue
from tests.conformance.service import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .conftest import Served


@pytest.fixture
def scriptless(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def state(served: Served, name: str, namespace: str = "team-a") -> str:
    rows = json.loads(served.run("ps", "-n", namespace, "-o", "json"))
    return next((row["state"] for row in rows if row["job"] == f"job/{name}"), "gone")


def comes_to(served: Served, name: str, wanted: str, namespace: str = "team-a") -> None:
    eventually(lambda: state(served, name, namespace) == wanted, lambda: f"{name}: {state(served, name, namespace)}")


def fill(served: Served, name: str, *, low: int, waiting: int) -> None:
    """A queue of two GPUs, with as many jobs of one GPU that run, and others that wait."""
    served.apply(*queue(name, gpus=2))
    for number in range(low):
        served.apply(job(f"{name}-runs-{number}", queue=name, priority="dev"))
        comes_to(served, f"{name}-runs-{number}", "Running")
    for number in range(waiting):
        served.apply(job(f"{name}-waits-{number}", queue=name, priority="dev"))
        comes_to(served, f"{name}-waits-{number}", "Pending")


def act(served: Served, page: Page, name: str, button: str) -> None:
    page.goto(served.address(f"/jobs/team-a/job/{name}"))
    page.get_by_role("link", name=button).click()


def test_cancel_says_what_starts_and_it_starts(served: Served, page: Page) -> None:
    fill(served, "cancelled", low=2, waiting=1)
    served.sign_in(page)
    act(served, page, "cancelled-runs-0", "Cancel job")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("#effect")).to_have_text(
        "Deletes job/cancelled-runs-0; starts 1 job of team-a, evicts nothing."
    )
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("status").first).to_have_text("job/cancelled-runs-0 is cancelled.")
    comes_to(served, "cancelled-waits-0", "Running")
    assert state(served, "cancelled-runs-0") == "gone"


def test_a_dialog_is_left_without_a_change(served: Served, page: Page) -> None:
    fill(served, "left", low=1, waiting=0)
    served.sign_in(page)
    act(served, page, "left-runs-0", "Cancel job")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("link", name="Do nothing").click()
    expect(dialog).to_be_hidden()
    assert state(served, "left-runs-0") == "Running"


def test_priority_says_who_is_evicted_and_they_are(served: Served, scriptless: Page) -> None:
    """Without JavaScript: links and forms do the same."""
    page = scriptless
    fill(served, "raised", low=2, waiting=1)
    served.sign_in(page)
    act(served, page, "raised-waits-0", "Change priority")
    assert page.locator("datalist option").evaluate_all("all => all.map(each => each.value)") == ["dev", "prod"]
    page.get_by_label("Priority").fill("prod")
    page.get_by_role("button", name="Show the effect").click()
    expect(page.locator("#effect")).to_have_text(
        "Gives job/raised-waits-0 priority 1000; starts 1 job of team-a, evicts 1 job of team-a."
    )
    page.get_by_role("button", name="Change priority").click()
    expect(page.get_by_role("status")).to_contain_text("has priority 1000 (prod)")
    comes_to(served, "raised-waits-0", "Running")
    states = sorted(state(served, f"raised-runs-{number}") for number in range(2))
    assert states[1] == "Running"
    assert states[0] != "Running"


def test_stop_and_resume_say_what_they_do(served: Served, scriptless: Page) -> None:
    page = scriptless
    fill(served, "stopped", low=2, waiting=0)
    served.sign_in(page)
    page.goto(served.address("/queues/stopped/stop"))
    expect(page.locator("#effect")).to_have_text("Stops queue stopped; starts nothing, evicts nothing.")
    page.get_by_label("running jobs are evicted too").check()
    page.get_by_role("button", name="Show the effect").click()
    expect(page.locator("#effect")).to_have_text("Stops queue stopped; starts nothing, evicts 2 jobs of team-a.")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status")).to_have_text("Queue stopped is stopped.")
    comes_to(served, "stopped-runs-0", "Pending")
    comes_to(served, "stopped-runs-1", "Pending")
    page.goto(served.address("/queues/stopped/resume"))
    expect(page.locator("#effect")).to_have_text("Resumes queue stopped; starts 2 jobs of team-a, evicts nothing.")
    page.get_by_role("button", name="Resume").click()
    comes_to(served, "stopped-runs-0", "Running")


def test_an_effect_that_has_changed_is_asked_about_again(served: Served, scriptless: Page) -> None:
    page = scriptless
    fill(served, "moved", low=2, waiting=0)
    served.sign_in(page)
    page.goto(served.address("/jobs/team-a/job/moved-runs-0/cancel"))
    expect(page.locator("#effect")).to_have_text("Deletes job/moved-runs-0; starts nothing, evicts nothing.")
    fill(served, "moved", low=0, waiting=1)
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    expect(page.locator("#effect")).to_have_text("Deletes job/moved-runs-0; starts 1 job of team-a, evicts nothing.")
    assert state(served, "moved-runs-0") == "Running"
    page.get_by_role("button", name="Cancel job").click()
    comes_to(served, "moved-waits-0", "Running")


def test_who_may_only_look_has_no_buttons(served: Served, page: Page) -> None:
    fill(served, "looked-at", low=1, waiting=0)
    served.sign_in(page, served.user("visitor", "view"))
    page.goto(served.address("/jobs/team-a/job/looked-at-runs-0"))
    expect(page.get_by_role("heading", name="looked-at-runs-0")).to_be_visible()
    expect(page.get_by_role("link", name="Cancel job")).to_have_count(0)
    page.goto(served.address("/jobs/team-a/job/looked-at-runs-0/cancel"))
    expect(page.get_by_role("alert")).to_contain_text("may not do that")
    expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
