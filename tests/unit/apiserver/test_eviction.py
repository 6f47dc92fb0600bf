"""Evictions and disruption budgets: who may go, what it costs, and what is said to who may not."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from .conftest import MERGE, Answer, Api

PODS = "/api/v1/namespaces/{}/pods"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def place(api: Api, request: pytest.FixtureRequest) -> str:
    name = f"e-{zlib.crc32(request.node.name.encode())}"
    assert api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    account = {"metadata": {"name": "default"}}
    api.send("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    return name


def pod(api: Api, place: str, name: str, phase: str = "Running", *, ready: bool = True) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "terminationGracePeriodSeconds": 5}
    made = api.send("POST", PODS.format(place), {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    assert made.status == 201, made
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"status": {"phase": phase, "conditions": conditions}}
    assert api.send("PATCH", f"{PODS.format(place)}/{name}/status", status, MERGE).status == 200


def budget(api: Api, place: str, name: str = "b", spec: dict[str, Any] | None = None, **status: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **(spec or {})}}
    assert api.send("POST", BUDGETS.format(place), body).status == 201
    known = {"observedGeneration": 1, "expectedPods": 3, "currentHealthy": 0, "desiredHealthy": 0, **status}
    path = f"{BUDGETS.format(place)}/{name}/status"
    assert api.send("PATCH", path, {"status": {"disruptionsAllowed": 0, **known}}, MERGE).status == 200


def evict(api: Api, place: str, name: str, **query: str) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place}}
    return api.send("POST", f"{PODS.format(place)}/{name}/eviction", body, **query)


def test_each_eviction_takes_one_of_those_allowed(api: Api, place: str) -> None:
    for name in ("p", "q"):
        pod(api, place, name)
    budget(api, place, disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2)
    assert evict(api, place, "p", dryRun="All").status == 201
    assert evict(api, place, "p").status == 201
    left = api.send("GET", f"{BUDGETS.format(place)}/b").body["status"]
    assert left["disruptionsAllowed"] == 0
    assert list(left["disruptedPods"]) == ["p"]
    gone = api.send("GET", f"{PODS.format(place)}/p").body
    assert gone["metadata"]["deletionTimestamp"]
    said = {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}
    assert said.items() <= gone["status"]["conditions"][-1].items()
    answer = evict(api, place, "q")
    assert (answer.status, answer.message) == (429, REFUSED)
    why = "The disruption budget b needs 2 healthy pods and has 3 currently"
    assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": why}]
    assert "deletionTimestamp" not in api.send("GET", f"{PODS.format(place)}/q").body["metadata"]


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_serve_nobody_may_always_go(api: Api, place: str, phase: str) -> None:
    pod(api, place, "p", phase)
    budget(api, place)
    assert evict(api, place, "p").status == 201


@pytest.mark.parametrize(
    ("spec", "healthy", "code"),
    [({}, 2, 201), ({}, 1, 429), ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 1, 201)],
    ids=["enough others are ready", "too few others are ready", "such pods may always go"],
)
def test_a_pod_that_is_not_ready(api: Api, place: str, spec: dict[str, Any], healthy: int, code: int) -> None:
    pod(api, place, "p", ready=False)
    budget(api, place, spec=spec, currentHealthy=healthy, desiredHealthy=2)
    assert evict(api, place, "p").status == code


def test_a_budget_nobody_has_looked_at_yet_says_so(api: Api, place: str) -> None:
    pod(api, place, "p")
    budget(api, place, disruptionsAllowed=1, observedGeneration=0)
    answer = evict(api, place, "p")
    assert (answer.status, answer.headers["retry-after"]) == (429, ["10"])
    assert "is still being processed by the server" in answer.body["details"]["causes"][0]["message"]


def test_two_budgets_are_one_too_many(api: Api, place: str) -> None:
    pod(api, place, "p")
    for name in ("b", "c"):
        budget(api, place, name, disruptionsAllowed=1)
    answer = evict(api, place, "p")
    assert (answer.status, answer.message.partition(",")[0]) == (
        500,
        "This pod has more than one PodDisruptionBudget",
    )


def test_budgets_for_others_do_not_matter(api: Api, place: str) -> None:
    pod(api, place, "p")
    budget(api, place, spec={"selector": {"matchLabels": {"app": "other"}}})
    assert evict(api, place, "p").status == 201
