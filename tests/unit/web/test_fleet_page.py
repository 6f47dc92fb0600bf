"""The page of clusters over hand-made objects."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from tests.unit.web.kit import Town, names

from gpuaas.base.errors import Forbidden
from gpuaas.client.ocm import DECISIONS, MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, SCORES
from gpuaas.client.protocol import Object, Resource
from gpuaas.web.pages import fleet
from gpuaas.web.render import Renderer


class _Api:
    def __init__(self, objects: dict[Resource, list[Object]]) -> None:
        self._objects = objects

    async def list(self, resource: Resource, namespace: str = "", **_: Any) -> list[Object]:
        if resource not in self._objects:
            raise Forbidden(resource.group, resource.plural, "", "no")
        return self._objects[resource]


def condition(kind: str, status: str, message: str = "", reason: str = "R") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def cluster(name: str, available: str, **annotations: str) -> Object:
    notes = {f"gpuaas.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    said = [condition("ManagedClusterJoined", "True"), condition("ManagedClusterConditionAvailable", available)]
    return {
        "metadata": {"name": name, "annotations": notes},
        "spec": {"hubAcceptsClient": True},
        "status": {"conditions": said},
    }


def score(name: str) -> Object:
    gpus = {"NVIDIA-L4": {"total": 4, "free": 3}}
    summary = {"gpus": gpus, "running": 1, "waiting": 2, "oldestWaitingSeconds": 90, "largestGang": 3}
    metadata = {
        "name": "resource-usage-score",
        "namespace": name,
        "annotations": {"gpuaas.dev/summary": json.dumps(summary)},
    }
    by_hand = condition("Measured", "False", "measured: a=1; set by hand: gpuClusterAvailable")
    scores = [{"name": "gpuClusterAvailable", "value": 95}]
    return {"metadata": metadata, "status": {"scores": scores, "conditions": [by_hand]}}


OBJECTS: dict[Resource, list[Object]] = {
    MANAGED_CLUSTERS: [
        cluster("east", "True"),
        cluster("west", "Unknown", trouble_connection="connection refused; fix: gpuaas fleet join west --from FILE"),
    ],
    SCORES: [score("east")],
    MULTIKUEUE_CLUSTERS: [{"metadata": {"name": "east"}, "status": {"conditions": [condition("Active", "True")]}}],
    DECISIONS: [
        {
            "metadata": {
                "namespace": "kueue-system",
                "labels": {"cluster.open-cluster-management.io/placement": "all"},
            },
            "status": {"decisions": [{"clusterName": "east"}]},
        }
    ],
}


def html(objects: dict[Resource, list[Object]]) -> str:
    api: Any = _Api(objects)
    visit = replace(Town().visit("/fleet"), api=api)
    found: Any = fleet.PAGE.load(visit)
    return Renderer().page(fleet.PAGE.template, {**names(visit, fleet.PAGE), **asyncio.run(found)})


def test_each_cluster_shows_connection_gpus_jobs_score_and_its_placements() -> None:
    page = html(OBJECTS)
    for words in ("3 <span", "of 4 GPUs free on 2 clusters", "3 of 4 free", "kueue-system/all", "connected"):
        assert words in page, words
    assert "1 running · 2 waiting · the oldest for 90s" in page
    assert "set by hand" in page


def test_a_problem_stands_with_its_fix_as_a_command() -> None:
    page = html(OBJECTS)
    assert "1 needs attention" in page
    assert "connection refused" in page
    assert "<code>gpuaas fleet join west --from FILE</code>" in page


def test_who_may_not_see_clusters_is_told_so() -> None:
    assert "You may not list managed clusters." in html({})


def test_a_cluster_that_manages_none_says_how_to_begin() -> None:
    assert "gpuaas fleet join NAME --from KUBECONFIG" in html({each: [] for each in OBJECTS})
