"""Every page in Chromium, over one cluster with jobs that run, wait and were preempted: that it shows what the engine
knows, stays current, fits a phone, is walked by keyboard, works without JavaScript and has no barrier that axe finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.browser import axe
from tests.browser.objects import job, queue
from tests.conformance.service import eventually

from gpuaas.web.pages import PAGES as REGISTERED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .conftest import Served

PAGES = {each.name: each.path for each in REGISTERED if "{" not in each.path} | {
    "groups": "/jobs?group=queue",
    "no job": "/jobs?q=no-such-job",
    "submit": "/submit?namespace=team-a",
    "profiles": "/profiles?namespace=team-a",
    "search": "/search?q=crowd",
    "queue": "/queues/crowd",
    "waiting job": "/jobs/team-a/job/crowd-waits",
    "running job": "/jobs/team-a/job/crowd-urgent",
    "stop a queue": "/queues/crowd/stop",
    "cancel a job": "/jobs/team-a/job/crowd-waits/cancel",
}
"""Every page that is registered, and those with parts or a query in their address."""


@dataclass
class Crowd:
    """The server and who looks at it."""

    served: Served
    page: Page

    def goto(self, path: str) -> Page:
        self.page.goto(self.served.address(path))
        return self.page

    def asked(self, *arguments: str) -> Any:
        return json.loads(self.served.run(*arguments, "-o", "json"))


@pytest.fixture(scope="module")
def crowded(served: Served) -> Served:
    """Queue `crowd` of two GPUs: a job of priority prod runs and has preempted one of dev, and another waits."""
    served.apply(*queue("crowd", gpus=2))
    served.apply(job("crowd-first", gpus=2, queue="crowd", priority="dev"))
    state(served, "crowd-first", "Running")
    served.apply(job("crowd-waits", gpus=1, queue="crowd", priority="dev"))
    served.apply(job("crowd-urgent", gpus=2, queue="crowd", priority="prod"))
    state(served, "crowd-urgent", "Running")
    state(served, "crowd-first", "Pending")
    return served


@pytest.fixture
def crowd(crowded: Served, page: Page) -> Crowd:
    crowded.sign_in(page)
    return Crowd(crowded, page)


@pytest.fixture(scope="module")
def judge() -> str:
    try:
        return axe.source()
    except axe.Missing as missing:
        pytest.skip(str(missing))


def state(served: Served, name: str, wanted: str) -> None:
    def now() -> str:
        rows = json.loads(served.run("ps", "-n", "team-a", "-o", "json"))
        return next((str(row["state"]) for row in rows if row["job"] == f"job/{name}"), "gone")

    eventually(lambda: now() == wanted, lambda: f"{name} is {now()}, not {wanted}")


# What the first page answers, compared with the engine.


def test_how_many_gpus_are_free_for_me(crowd: Crowd) -> None:
    rows = json.loads(crowd.served.service.ask("GET", "/apis/views.gpuaas.dev/v1alpha1/free").body)["items"]
    crowd.goto("/")
    assert {row["product"] for row in rows} >= {"NVIDIA-H200", "NVIDIA-L4"}
    for row in rows:
        expect(crowd.page.locator(f'[id="free-{row["product"]}"]')).to_have_text(str(row["forYou"]))


def test_why_a_job_waits(crowd: Crowd) -> None:
    (head,) = (
        row for row in crowd.asked("ps", "-n", "team-a") if row["position"] == 1 and row["clusterQueue"] == "crowd"
    )
    why = crowd.asked("why", head["job"], "-n", "team-a")
    crowd.goto("/")
    expect(crowd.page.locator(f'[id="why-team-a-{head["workload"]}"]')).to_contain_text(why["sentence"])
    expect(crowd.page.locator("#waiting")).to_contain_text(why["reason"])


def test_what_was_preempted_in_the_last_hour(crowd: Crowd) -> None:
    ledger = crowd.asked("audit")
    crowd.goto("/")
    expect(crowd.page.locator("#preempted-last-hour")).to_have_text(str(len(ledger)))
    expect(crowd.page.locator("#preempted")).to_contain_text("crowd-first")
    expect(crowd.page.locator("#preempted")).to_contain_text("crowd-urgent")


def test_idleness_is_not_known_yet_and_not_zero(crowd: Crowd) -> None:
    expect(crowd.goto("/").locator("#idle-held")).to_have_text("no telemetry yet")


# The other pages, compared with the commands.


def test_quota_shows_what_queues_shows(crowd: Crowd) -> None:
    crowd.goto("/quota")
    rows = [row for row in crowd.asked("queues") if row["clusterqueue"] == "crowd" and "gpu" in row["resource"]]
    (row,) = rows
    shown = crowd.page.locator("tr", has=crowd.page.get_by_role("link", name="crowd", exact=True))
    expect(shown).to_have_count(1)
    numbers = shown.locator("td.number").all_inner_texts()
    assert numbers[:3] == [row["used"], row["nominal"], row["borrowed"]]


def test_jobs_shows_what_ps_shows(crowd: Crowd) -> None:
    crowd.goto("/jobs?queue=crowd&sort=job")
    rows = sorted(
        (row for row in crowd.asked("ps", "-A") if row["clusterQueue"] == "crowd"), key=lambda row: row["job"]
    )
    shown = crowd.page.locator("#rows tbody tr")
    expect(shown).to_have_count(len(rows))
    for number, row in enumerate(rows):
        cells = shown.nth(number)
        expect(cells).to_contain_text(row["job"].partition("/")[2])
        expect(cells).to_contain_text(row["state"])
        expect(cells).to_contain_text(row["owner"])


def test_a_filter_is_in_the_address_and_groups_lead_to_their_jobs(crowd: Crowd) -> None:
    crowd.goto("/jobs?group=queue")
    crowd.page.locator("#rows").get_by_role("link", name="crowd", exact=True).click()
    expect(crowd.page).to_have_url(re.compile(r"/jobs\?queue=crowd$"))
    crowd.page.locator("#states").get_by_role("link", name="Pending").click()
    expect(crowd.page).to_have_url(re.compile("queue=crowd.*state=Pending|state=Pending.*queue=crowd"))
    expect(crowd.page.locator("#rows")).not_to_contain_text("crowd-urgent")


def test_a_job_shows_why_as_the_command_does_and_the_phase_it_is_in(crowd: Crowd) -> None:
    crowd.goto("/jobs/team-a/job/crowd-waits")
    why = crowd.asked("why", "job/crowd-waits", "-n", "team-a")
    expect(crowd.page.locator("#why")).to_have_text(why["sentence"][:1].upper() + why["sentence"][1:])
    expect(crowd.page.locator("[aria-current=step]")).to_contain_text("Quota")
    crowd.goto("/jobs/team-a/job/crowd-urgent")
    expect(crowd.page.locator("#pods tbody tr")).to_have_count(1)
    expect(crowd.page.locator("[aria-current=step]")).to_contain_text("Finished")


def test_nodes_shows_a_cell_for_each_gpu_and_its_holder(crowd: Crowd) -> None:
    rows = json.loads(crowd.served.service.ask("GET", "/apis/views.gpuaas.dev/v1alpha1/nodes").body)["items"]
    crowd.goto("/nodes")
    for row in (row for row in rows if row["gpus"]):
        cells = crowd.page.locator(f'[id="node-{row["node"]}"] .cell')
        expect(cells).to_have_count(sum(row["gpus"].values()))
        expect(crowd.page.locator(f'[id="node-{row["node"]}"] .cell.held')).to_have_count(sum(row["used"].values()))


def test_preemptions_shows_what_audit_shows(crowd: Crowd) -> None:
    ledger = crowd.asked("audit")
    crowd.goto("/preemptions")
    rows = crowd.page.locator("#ledger tbody tr")
    expect(rows).to_have_count(len(ledger))
    expect(rows.first).to_contain_text(ledger[-1]["rule"])
    expect(crowd.page.locator("#timeline .dot-victim").first).to_be_attached()


def test_search_finds_jobs_queues_and_nodes(crowd: Crowd) -> None:
    crowd.goto("/")
    crowd.page.keyboard.press("/")
    crowd.page.keyboard.type("crowd")
    crowd.page.keyboard.press("Enter")
    expect(crowd.page.locator("#jobs")).to_contain_text("crowd-urgent")
    expect(crowd.page.locator("#queues")).to_contain_text("crowd")
    crowd.goto("/search?q=h200-0")
    expect(crowd.page.locator("#nodes")).to_contain_text("h200-0")


# Live.


@pytest.mark.parametrize(("path", "part"), [("/", "#waiting"), ("/queues/crowd", "#waiting"), ("/jobs", "#rows")])
def test_a_job_that_is_submitted_appears_by_itself(crowd: Crowd, path: str, part: str) -> None:
    name = f"late-{path.strip('/').replace('/', '-') or 'overview'}"
    crowd.goto(path)
    before = crowd.page.locator(part).inner_html()
    crowd.served.apply(job(name, gpus=2, queue="crowd", priority="dev"))
    if path == "/":
        expect(crowd.page.locator(part)).not_to_have_js_property("innerHTML", before)
    else:
        expect(crowd.page.locator(part)).to_contain_text(name)
    crowd.served.run("cancel", f"job/{name}", "-n", "team-a")
    if path != "/":
        expect(crowd.page.locator(part)).not_to_contain_text(name)


# For everybody.


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_axe_finds_no_violation(crowd: Crowd, judge: str, path: str, theme: str) -> None:
    crowd.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    crowd.goto(path)
    assert axe.violations(crowd.page, judge) == []


@pytest.mark.parametrize("width", [360, 1024, 1920])
@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_no_page_scrolls_sideways(crowd: Crowd, path: str, width: int) -> None:
    crowd.page.set_viewport_size({"width": width, "height": 800})
    crowd.goto(path)
    assert crowd.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_the_keyboard_reaches_everything_in_reading_order(crowd: Crowd, path: str) -> None:
    crowd.goto(path)
    wanted = crowd.page.evaluate(
        """() => {
            const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
            const seen = all.filter((each) => !each.disabled && each.type !== "hidden" && each.checkVisibility());
            seen.forEach((each, number) => { each.dataset.walk = number; });
            document.activeElement.blur();
            scrollTo(0, 0);
            return seen.filter((each) => each.type !== "radio").map((each) => each.dataset.walk);
        }"""
    )
    crowd.page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    walked: list[str] = []
    for _ in range(len(wanted) + 5):
        crowd.page.keyboard.press("Tab")
        now = crowd.page.evaluate("[document.activeElement.dataset.walk, document.activeElement.type]")
        if now[0] is None or now[0] in walked:
            break
        if now[1] != "radio":
            walked.append(now[0])
    assert walked == wanted


@pytest.fixture
def scriptless(crowded: Served, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    crowded.sign_in(page)
    yield page
    context.close()


def test_pages_are_links_and_forms_without_javascript(crowded: Served, scriptless: Page) -> None:
    page = scriptless
    for name in ("Quota", "Jobs", "Nodes", "Preemptions"):
        page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Jobs").click()
    page.get_by_label("Filter by name").fill("crowd-urg")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    page.get_by_role("link", name="crowd-urgent").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("crowd-urgent")
    expect(page.locator("#way .stamp").first).to_be_visible()


def test_a_figure_has_its_table_behind_a_button(crowd: Crowd) -> None:
    crowd.goto("/")
    data = crowd.page.locator("#hour-data")
    expect(data.locator("table")).to_be_hidden()
    data.locator("summary").click()
    expect(data.locator("table")).to_be_visible()
    assert data.locator("tbody tr").count() == 12


def test_the_gallery_is_served_in_development_alone(crowd: Crowd) -> None:
    crowd.goto("/gallery")
    expect(crowd.page.get_by_role("alert")).to_contain_text("There is no page /gallery")
