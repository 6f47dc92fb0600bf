"""A few of the random sequences of module quota; `python -m tests.attacks.quota --count 10000` runs as many as wanted."""

import asyncio
import logging
from pathlib import Path

import pytest
from tests.attacks.attempts import template
from tests.attacks.quota import Arena, run

from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import DEPLOYMENTS, PODS, STATEFUL_SETS
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.job_set import JOB_SETS
from gpuaas.kueue.integrations.leader_worker_set import LEADER_WORKER_SET
from gpuaas.kueue.integrations.ray import CLUSTERS
from gpuaas.kueue.integrations.training import TRAINING_KINDS

COUNT = 150


@pytest.mark.parametrize("everywhere", [False, True], ids=["managed namespace", "manageJobsWithoutQueueName"])
def test_no_sequence_gets_around_quota(everywhere: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    arena = asyncio.run(run(range(COUNT), everywhere))
    assert arena.bindings > 3 * COUNT  # that many pods had to get a node, or nothing was tried
    assert sum(arena.refusals.values()) > COUNT // 4


def kinds() -> list[tuple[Resource, Object]]:
    """Every way to two pods of one GPU each."""
    once = template(1)
    always = {**template(1, restartPolicy="Always"), "metadata": {"labels": {"app": "x"}}}
    replicas = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": always}
    container = {**once["spec"]["containers"][0], "name": "pytorch"}
    one = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {**once["spec"], "containers": [container]}}}
    workers = {
        "groupName": "w",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {},
        "template": once,
    }
    return [
        (JOB_SETS, {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"template": once}}}]}),
        (CLUSTERS, {"headGroupSpec": {"rayStartParams": {}, "template": once}, "workerGroupSpecs": [workers]}),
        (DEPLOYMENTS, replicas),
        (STATEFUL_SETS, {**replicas, "serviceName": "x"}),
        (TRAINING_KINDS[0].resource, {"pytorchReplicaSpecs": {"Master": one, "Worker": one}}),
        (LEADER_WORKER_SET.resource, {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": always["spec"]}}}),
    ]


def test_whoever_has_quota_runs(tmp_path: Path) -> None:
    async def body() -> None:
        arena = Arena(everywhere=False)
        await arena.open(tmp_path)
        try:
            for number, (resource, spec) in enumerate(kinds()):
                whole = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
                metadata = {"name": f"h{number}", "namespace": "blue", "labels": {keys.QUEUE: "lq"}}
                await arena.client.create(resource, {**whole, "metadata": metadata}, "blue")
            await arena.advance(30)
            pods = (await arena.client.list(PODS, "blue")).items
            phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
            assert (len(phases), set(phases.values())) == (2 * len(kinds()), {"Running"}), phases
        finally:
            await arena.close()

    asyncio.run(body())
