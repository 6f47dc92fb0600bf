"""The cards page follows the stories of `gpuaas demo sharing` and `gpuaas demo mig`, and changes cards itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Served
from tests.conformance.service import Service, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).parents[2] / "examples"
MERGE = "application/merge-patch+json"


@pytest.fixture
def of(tmp_path: Path) -> Iterator[object]:
    running: list[Service] = []

    def make(name: str) -> Served:
        service = Service(tmp_path / "home", "--fleet", str(EXAMPLES / name / "fleet.yaml"))
        running.append(service)
        service.start()
        return Served(service)

    yield make
    for service in running:
        service.stop()


def patch(served: Served, path: str, body: dict[str, object]) -> None:
    answer = served.service.ask("PATCH", path, body, media=MERGE)
    assert answer.status == 200, answer.body


def running_pods(served: Served) -> list[str]:
    pods = served.service.ask("GET", "/api/v1/namespaces/notebooks/pods").json()["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]


def test_four_notebooks_on_one_card_and_one_is_stopped(of, page: Page) -> None:  # type: ignore[no-untyped-def]
    served: Served = of("sharing")
    served.sign_in(page)
    page.goto(served.address("/cards"))
    cells = page.locator(".card-row .part")
    expect(cells).to_have_count(1)
    for name in ("queue.yaml", "time-slicing-config.yaml"):
        served.run("apply", "-f", str(EXAMPLES / "sharing" / name))
    config = {"spec": {"devicePlugin": {"config": {"name": "time-slicing-config"}}}}
    patch(served, "/apis/nvidia.com/v1/clusterpolicies/cluster-policy", config)
    expect(cells).to_have_count(4)
    served.run("apply", "-f", str(EXAMPLES / "sharing" / "notebooks.yaml"))
    held = page.locator(".card-row .part.held")
    expect(held).to_have_count(4)
    # A pod holds its share from its binding on, a moment before it runs.
    name = eventually(lambda: running_pods(served), "no notebook runs")[0]
    expect(page.locator("#nodes")).to_contain_text(name)
    used = {"metadata": {"annotations": {"gpuaas.dev/gpu-memory-used": "4Gi"}}}
    patch(served, f"/api/v1/namespaces/notebooks/pods/{name}", used)
    expect(page.locator(f".part.held[title*='{name}']")).to_have_attribute("title", pattern("uses 4096 MiB"))


def test_slices_change_and_an_ill_card_is_crossed(of, page: Page) -> None:  # type: ignore[no-untyped-def]
    served: Served = of("mig")
    served.sign_in(page)
    page.goto(served.address("/cards"))
    page.get_by_role("link", name="MIG layout").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Configuration").fill("all-1g.5gb")
    dialog.get_by_role("button", name="Show the effect").click()
    expect(dialog.locator("#effect")).to_have_text("Node gpu has 7 x 1g.5gb; no pod is displaced.")
    dialog.get_by_role("button", name="MIG layout").click()
    expect(page.locator(".card-slots .part")).to_have_count(7)
    for name in ("queue.yaml", "jobs.yaml"):
        served.run("apply", "-f", str(EXAMPLES / "mig" / name))
    expect(page.locator(".card-slots .part.held")).to_have_count(7)
    patch(served, "/api/v1/nodes/gpu", {"metadata": {"labels": {"nvidia.com/mig.config": "all-2g.10gb"}}})
    expect(page.locator(".card-slots .part")).to_have_count(3)
    patch(served, "/api/v1/nodes/gpu", {"metadata": {"annotations": {"gpuaas.dev/card-faults": "0=xid:79"}}})
    expect(page.locator(".part.ill")).to_have_count(3)
    expect(page.locator("#nodes")).to_contain_text("takes no work: Xid 79")


def pattern(words: str):  # type: ignore[no-untyped-def]
    import re

    return re.compile(re.escape(words))
