"""The submit form in a real browser: the prediction, what came of it, and the two halves in step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import Served
from tests.conformance.service import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="module")
def team(served: Served) -> Served:
    """A queue of four GPUs, and a profile of two that goes through it."""
    quotas = [
        {"name": "cpu", "nominalQuota": "100"},
        {"name": "memory", "nominalQuota": "1000Gi"},
        {"name": "nvidia.com/gpu", "nominalQuota": "4"},
    ]
    everywhere = {"tolerations": [{"operator": "Exists"}]}
    flavor = {"name": "forms", "resources": quotas}
    group = {"coveredResources": [each["name"] for each in quotas], "flavors": [flavor]}
    counts = {"minCount": 1, "defaultCount": 1, "maxCount": 4}
    identifiers = [
        {"identifier": "cpu", "displayName": "CPU", **counts},
        {"identifier": "memory", "displayName": "Memory", "minCount": "1Gi", "defaultCount": "1Gi", "maxCount": "8Gi"},
        {"identifier": "nvidia.com/gpu", "displayName": "GPU", "minCount": 1, "defaultCount": 2, "maxCount": 4},
    ]
    scheduling = {"type": "Queue", "kueue": {"localQueueName": "forms"}}
    title = {"opendatahub.io/display-name": "Two GPUs"}
    served.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "forms"}},
        {"apiVersion": QUEUE, "kind": "ResourceFlavor", "metadata": {"name": "forms"}, "spec": everywhere},
        {
            "apiVersion": QUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": "forms"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": QUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "forms", "namespace": "forms"},
            "spec": {"clusterQueue": "forms"},
        },
        {
            "apiVersion": "infrastructure.opendatahub.io/v1",
            "kind": "HardwareProfile",
            "metadata": {"name": "two", "namespace": "forms", "annotations": title},
            "spec": {"identifiers": identifiers, "scheduling": scheduling},
        },
    )
    return served


def fill(team: Served, page: Page, name: str) -> str:
    """Fills the form in for a job with the profile; the sentence of the prediction."""
    page.goto(team.address("/submit?namespace=forms"))
    page.get_by_label("Two GPUs").check()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command of a job").fill("sleep 3600")
    page.get_by_role("button", name="Show what would happen").click()
    return page.locator("#effect").inner_text()


def state(team: Served, name: str) -> str:
    job = team.service.ask("GET", f"/apis/batch/v1/namespaces/forms/jobs/{name}").json()
    return "waits" if job["spec"].get("suspend") else "runs" if (job.get("status") or {}).get("ready") else "starts"


def test_what_the_form_predicts_is_what_happens(team: Served, page: Page) -> None:
    team.sign_in(page)
    for name in ("one", "two"):
        assert fill(team, page, name) == "It would start now in queue forms."
        page.get_by_role("button", name="Submit", exact=True).click()
        page.get_by_text(f"job/{name} is submitted to namespace forms.").wait_for()
        eventually(lambda name=name: state(team, name) == "runs", f"job {name} does not run")
    assert fill(team, page, "three") == "It would wait first in line in queue forms: too little quota is free."
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_text("job/three is submitted").wait_for()
    assert re.match("It would wait behind 1 job in queue forms", fill(team, page, "four"))
    assert state(team, "three") == "waits"
    for name in ("one", "two", "three"):
        team.service.ask("DELETE", f"/apis/batch/v1/namespaces/forms/jobs/{name}?propagationPolicy=Background")


def test_fields_and_manifest_stay_in_step(team: Served, page: Page) -> None:
    team.sign_in(page)
    fill(team, page, "steps")
    manifest = page.locator("#manifest")
    text = manifest.input_value()
    assert "opendatahub.io/hardware-profile-name: two" in text
    manifest.fill(text.replace("name: steps", "name: other").replace("backoffLimit: 0", "backoffLimit: 3"))
    page.get_by_role("button", name="Read it into the form").click()
    assert page.get_by_label("Name", exact=True).input_value() == "other"
    page.get_by_label("Command of a job").fill("python train.py --lr '1 2'")
    page.get_by_role("button", name="Show what would happen").click()
    after = page.locator("#manifest").input_value()
    assert "backoffLimit: 3" in after, "what the fields do not own stays"
    assert "name: other" in after
    assert "1 2" in after


def test_a_pod_that_no_node_can_hold_is_said_to_wait_for_one(team: Served, page: Page) -> None:
    """Quota for more GPUs than any node has: admitted, and yet it would not run."""
    queue = team.service.ask("GET", f"/apis/{QUEUE}/clusterqueues/forms").json()
    for quota in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
        if quota["name"] == "nvidia.com/gpu":
            quota["nominalQuota"] = "400"
    assert team.service.ask("PUT", f"/apis/{QUEUE}/clusterqueues/forms", queue).status == 200
    team.sign_in(page)
    page.goto(team.address("/submit?namespace=forms"))
    page.get_by_label("no profile").check()
    page.get_by_label("Queue", exact=True).select_option("forms")
    page.get_by_label("GPUs, without a profile").fill("99")
    page.get_by_role("button", name="Show what would happen").click()
    said = page.locator("#effect").inner_text()
    assert said.startswith("It would start now in queue forms. Its pods would wait for a node: each asks for 99 GPUs")


def test_what_admission_refuses_is_said_before_the_click(team: Served, page: Page) -> None:
    team.sign_in(page)
    fill(team, page, "big")
    manifest = page.locator("#manifest")
    container = "image: simulated"
    assert container in manifest.input_value()
    more = "resources: {requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: 8}}"
    manifest.fill(manifest.input_value().replace(container, f"{container}\n        {more}"))
    page.get_by_role("button", name="Read it into the form").click()
    assert "must be at most 4 (maxCount of hardware profile 'two')" in page.locator("#problem").inner_text()
    assert page.get_by_role("button", name="Submit", exact=True).count() == 0
    manifest.fill("a: [")
    page.get_by_role("button", name="Read it into the form").click()
    assert "manifest:" in page.locator("#problem").inner_text()


def test_a_notebook_is_asked_for_by_the_same_form(team: Served, page: Page) -> None:
    team.sign_in(page)
    page.goto(team.address("/submit?namespace=forms"))
    page.get_by_label("notebook", exact=True).check()
    page.get_by_label("Two GPUs").check()
    page.get_by_label("Name", exact=True).fill("nb")
    page.get_by_role("button", name="Show what would happen").click()
    assert page.locator("#effect").inner_text() == "It would start now in queue forms."
    page.get_by_role("button", name="Submit", exact=True).click()
    page.locator("#notebook-forms-nb").wait_for()
    page.get_by_role("link", name="nb", exact=True).click()
    page.get_by_text("It runs on a simulated node").wait_for()
