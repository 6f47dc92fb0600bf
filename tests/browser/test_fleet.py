"""The page of clusters follows what happens: clusters join, a score is patched, the next job goes elsewhere, one is cut off."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Served
from tests.conformance.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLE = Path(__file__).parents[2] / "examples" / "placement-scores"
pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Service(tmp_path_factory.mktemp("fleet") / "home", "--fleet", str(EXAMPLE / "fleet.yaml")) as service:
        yield Served(service)


def kubectl(served: Served, *arguments: str) -> str:
    done = subprocess.run(
        ["kubectl", "--context", "hub", *arguments],
        env={**os.environ, "KUBECONFIG": str(served.service.kubeconfig)},
        text=True, check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def score(served: Served, cluster: str, value: int) -> None:
    patch = f'{{"status":{{"scores":[{{"name":"gpuClusterAvailable","value":{value}}}]}}}}'
    where = ("resource-usage-score", "-n", cluster, "--subresource=status", "--type=merge", "-p", patch)
    kubectl(served, "patch", "addonplacementscore", *where)


def test_the_page_follows_a_fleet_from_the_first_join_on(hub: Served, page: Page) -> None:
    hub.sign_in(page)
    page.goto(hub.address("/fleet"))
    expect(page.locator("#clusters")).to_contain_text("gpuaas fleet join NAME --from KUBECONFIG")
    for name in ("spoke1", "spoke2"):
        hub.run(
            "fleet", "join", name, "--from", str(hub.service.kubeconfig), "--from-context", name,
            "--label", "accelerator=nvidia-l4", "--context", "hub",
        )  # fmt: skip
        expect(page.locator(f"#cluster-{name}")).to_contain_text("available")
        expect(page.locator(f"#cluster-{name}")).to_contain_text("4 of 4 free")
    expect(page.locator("#summary")).to_contain_text("8 of 8 GPUs free on 2 clusters")
    score(hub, "spoke1", 80)
    expect(page.locator("#cluster-spoke1")).to_contain_text("set by hand")
    for file in ("dynamic-placement.yaml", "kueue-resources.yaml"):
        kubectl(hub, "apply", "-f", str(EXAMPLE / file))
    expect(page.locator("#cluster-spoke1")).to_contain_text("kueue-system/dynamic-gpu-placement")
    kubectl(hub, "apply", "-f", str(EXAMPLE / "job-1.yaml"))
    score(hub, "spoke2", 95)
    expect(page.locator("#cluster-spoke2")).to_contain_text("kueue-system/dynamic-gpu-placement")
    expect(page.locator("#cluster-spoke1")).not_to_contain_text("dynamic-gpu-placement")


def test_a_cluster_that_is_drained_says_so(hub: Served, page: Page) -> None:
    hub.sign_in(page)
    page.goto(hub.address("/fleet"))
    hub.run("fleet", "drain", "spoke2", "--context", "hub")
    expect(page.locator("#cluster-spoke2")).to_contain_text("available, drained")
    hub.run("fleet", "drain", "spoke2", "--undo", "--context", "hub")
    expect(page.locator("#cluster-spoke2")).not_to_contain_text("drained")
