"""Pictures of the pages from a run: `python -m tests.browser.pictures [--to FOLDER] [--jobs N] [--docs]`.

Starts a control plane with simulated nodes, fills it with queues and jobs of several users, and takes a picture of each
page in both themes at three widths. With `--docs` it makes the few that the documentation shows instead (docs/images).
Needs Chromium; where `pngquant` is on the PATH it makes the pictures of the documentation smaller.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.conftest import CHROMIUM, Served
from tests.browser.objects import job
from tests.conformance.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = {
    "overview": "/",
    "quota": "/quota",
    "jobs": "/jobs",
    "nodes": "/nodes",
    "users": "/users",
    "preemptions": "/preemptions",
    "search": "/search?q=train",
    "queue": "/queues/research",
}
WIDTHS = (360, 1024, 1920)
THEMES = ("light", "dark")
DOCS = (("overview", "/", "light", 1440, 800), ("quota", "/quota", "dark", 1200, 760), ("job", "", "light", 1200, 800))
_TEAMS = {"research": 8, "vision": 6, "speech": 2}
_USERS = ("ana", "bob", "chen", "dara")
_NAMES = ("train-llama", "finetune-lora", "eval-suite", "pretrain-vit", "asr-distill", "sweep")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(tempfile.gettempdir()) / "gpuaas-pictures")
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    folder = Path(__file__).parents[2] / "docs" / "images" if asked.docs else asked.to
    folder.mkdir(parents=True, exist_ok=True)
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with Service(Path(home) / "home", "--fleet", "demo") as service:
            served = Served(service)
            fill(served, asked.jobs, pause=3.0 if asked.docs else 0.0)
            pictures = for_docs(browser, served, folder) if asked.docs else of_all(browser, served, folder)
        browser.close()
    print(f"{pictures} pictures in {folder}")


def fill(served: Served, jobs: int, pause: float = 0.0) -> None:
    """Queues that lend each other cards, jobs that run, wait and preempt, each team's by a user of its own."""
    dice = random.Random(7)
    served.apply(*(part for team, gpus in _TEAMS.items() for part in _queue(team, gpus)))
    tokens = {user: served.user(user) for user in _USERS}
    for number in range(jobs):
        team = dice.choice(tuple(_TEAMS)) if number > 4 else "speech"  # which borrows, until the others come
        name, gpus = f"{dice.choice(_NAMES)}-{number}", dice.choice((1, 2, 2, 4))
        made = job(name, gpus=gpus if number > 4 else 4, namespace=team, queue=team)
        path = f"/apis/batch/v1/namespaces/{team}/jobs"
        assert served.service.ask("POST", path, made, token=tokens[dice.choice(_USERS)]).status == 201
        time.sleep(pause if number != 4 else 2)
    time.sleep(3)


def _queue(team: str, gpus: int) -> list[dict[str, Any]]:
    def group(resources: list[str], flavors: dict[str, dict[str, Any]]) -> dict[str, Any]:
        quotas = [
            {"name": flavor, "resources": [{"name": name, "nominalQuota": amount} for name, amount in given.items()]}
            for flavor, given in flavors.items()
        ]
        return {"coveredResources": resources, "flavors": quotas}

    resources = ["cpu", "memory", "nvidia.com/gpu"]
    flavors = {
        "h200": {"cpu": 96, "memory": "900Gi", "nvidia.com/gpu": gpus},
        "a100": {"cpu": 48, "memory": "500Gi", "nvidia.com/gpu": 4},
    }
    labels = {"kueue.openshift.io/managed": "true"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team, "labels": labels}},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": team},
            "spec": {
                "cohortName": "ml",
                "namespaceSelector": {},
                "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                "resourceGroups": [group(resources, flavors)],
            },
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": team, "namespace": team},
            "spec": {"clusterQueue": team},
        },
    ]


def of_all(browser: Browser, served: Served, folder: Path) -> int:
    page = browser.new_page()
    served.sign_in(page)
    paths = {**PAGES, "job": _waiting_job(page, served)}
    for name, path in paths.items():
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1000 if width > 400 else 780})
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                page.goto(served.address(path))
                page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=width < 400)
    return len(paths) * len(WIDTHS) * len(THEMES)


def for_docs(browser: Browser, served: Served, folder: Path) -> int:
    page = browser.new_page()
    served.sign_in(page)
    for name, path, theme, width, height in DOCS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.goto(served.address(path or _waiting_job(page, served)))
        made = folder / f"{name}.png"
        page.screenshot(path=made)
        _smaller(made)
    return len(DOCS)


def _waiting_job(page: Page, served: Served) -> str:
    page.goto(served.address("/jobs?state=Pending"))
    address = page.locator("#rows tbody tr a").first.get_attribute("href")
    assert address is not None
    return address.partition("/ui")[2]


def _smaller(picture: Path) -> None:
    if shutil.which("pngquant"):
        asked = ["pngquant", "--force", "--skip-if-larger", "--output", str(picture), "64", str(picture)]
        subprocess.run(asked, check=False)


if __name__ == "__main__":
    main()
