"""Text that users choose is shown as text: in log lines, messages of events, and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from playwright.sync_api import expect
from tests.browser.objects import job
from tests.conformance.service import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from .conftest import Served

NASTY = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def is_text(page: Page) -> None:
    assert page.locator("img").count() == 0
    assert page.locator("main script").count() == 0
    assert page.title() != "owned"


def test_log_lines_and_events_are_text(served: Served, page: Page) -> None:
    made = job("loud")
    made["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", f"echo '{NASTY}'; sleep infinity"]
    served.apply(made)
    workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads"

    def workload() -> dict[str, str] | None:
        items = served.service.ask("GET", workloads).json()["items"]
        named = (each["metadata"] for each in items if each["metadata"]["name"].startswith("job-loud"))
        return next(named, None)

    found = eventually(workload, "the job has no workload")
    served.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "loud.1", "namespace": "team-a"},
            "involvedObject": {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "name": found["name"],
                "namespace": "team-a",
                "uid": found["uid"],
            },
            "reason": "Loud",
            "message": NASTY,
            "type": "Warning",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
    )
    served.sign_in(page)
    page.goto(served.address("/jobs/team-a/job/loud"))
    expect(page.locator("main")).to_contain_text("<img src=x", use_inner_text=True)
    is_text(page)


def test_addresses_are_text(served: Served, page: Page) -> None:
    served.sign_in(page)
    text = quote(NASTY, safe="")
    for path in (f"/search?q={text}", f"/jobs?q={text}", f"/jobs?group={text}", f"/queues/{text}", f"/{text}"):
        page.goto(served.address(path))
        is_text(page)
