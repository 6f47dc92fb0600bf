"""`gpuaas doctor`: which state of a cluster gives which finding."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuaas.base.errors import Forbidden
from gpuaas.cli.doctor.command import ask_cluster
from gpuaas.cli.doctor.finding import Finding, worst_first
from gpuaas.cli.doctor.queues import queue_findings

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient


def cluster_queue(name: str, active: str = "True", message: str = "") -> dict[str, Any]:
    condition = {"type": "Active", "status": active, "reason": "Any", "message": message}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def local_queue(cluster: str) -> dict[str, Any]:
    return {"metadata": {"name": "user-queue", "namespace": "default"}, "spec": {"clusterQueue": cluster}}


@pytest.mark.parametrize(
    ("cluster_queues", "local_queues", "level", "mentions"),
    [
        ([], [], "red", "there is no ClusterQueue"),
        ([cluster_queue("a")], [local_queue("a")], "green", "1 ClusterQueue admits jobs"),
        ([cluster_queue("a", "False", "flavor x is missing")], [local_queue("a")], "red", "flavor x is missing"),
        ([cluster_queue("a")], [], "yellow", "no LocalQueue points to ClusterQueue a"),
        ([cluster_queue("a")], [local_queue("a"), local_queue("b")], "red", "names ClusterQueue b"),
    ],
)
def test_queues(cluster_queues: list[Any], local_queues: list[Any], level: str, mentions: str) -> None:
    [finding] = queue_findings(cluster_queues, local_queues)
    assert finding.level == level
    assert mentions in finding.message
    assert bool(finding.fix) == (level != "green")


def test_what_may_not_be_seen_is_left_to_an_administrator() -> None:
    async def check_nodes(client: Any) -> list[Finding]:
        raise Forbidden("", "nodes", "", 'User "ada" cannot list resource "nodes"')

    [finding] = asyncio.run(ask_cluster(cast("HttpClient", None), [check_nodes]))
    assert (finding.level, finding.fix) == ("yellow", "")
    assert "an administrator's doctor can" in finding.message


def test_the_worst_comes_first() -> None:
    findings = [Finding("green", "a", ""), Finding("red", "z", ""), Finding("yellow", "b", "")]
    assert [finding.level for finding in worst_first(findings)] == ["red", "yellow", "green"]
