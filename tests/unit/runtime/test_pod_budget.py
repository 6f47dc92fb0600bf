"""How many pods without a node controllers create ahead, for one owner and in one namespace."""

import asyncio
from typing import Any

import pytest

from gpuaas.client.resources import JOBS, PODS
from gpuaas.kueue.integrations.keys import GROUP_NAME
from gpuaas.runtime import pod_budget
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.pod_budget import TooManyWaiting
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import pod
from gpuaas.testing.time import scenario

Object = dict[str, Any]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_budget, "OF_OWNER", 3)
    monkeypatch.setattr(pod_budget, "OF_NAMESPACE", 5)


def _owned(name: str, owner: str, **more: Any) -> Object:
    made = pod(name, **more)
    reference = {"apiVersion": JOBS.api_version, "kind": "Job", "name": owner, "uid": owner, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


async def _made(deps: Deps, pods: list[Object]) -> tuple[int, list[str]]:
    """How many were created at once, and what was said of the others."""
    done = await asyncio.gather(*(deps.client.create(PODS, one, "default") for one in pods), return_exceptions=True)
    refused = [one for one in done if isinstance(one, BaseException)]
    assert all(isinstance(one, TooManyWaiting) for one in refused)
    return len(done) - len(refused), [str(one) for one in refused]


@scenario
async def test_no_more_wait_than_may_and_who_gets_a_node_makes_room() -> None:
    cluster = FakeCluster()
    deps = Deps.over(cluster, cluster.clock, cluster)
    pods = deps.informers.of(PODS)
    deps.informers.start()
    await pods.synced()
    count, said = await _made(deps, [_owned(f"a{each}", "a") for each in range(10)])
    assert count == 3, "also those that are on their way count"
    assert said[0].startswith("3 pods of Job a wait for a node already, and no more may")
    count, said = await _made(deps, [_owned(f"b{each}", "b") for each in range(10)])
    assert count == 2
    assert said[0].startswith("5 pods of namespace default wait for a node already")
    binding = {"target": {"kind": "Node", "name": "n"}}
    await deps.client.create(PODS, binding, "default", name="a0", subresource="binding")
    await pods.caught_up(cluster.revision)
    count, _ = await _made(deps, [_owned(f"c{each}", "a") for each in range(10)])
    assert count == 1
    await deps.informers.stop()


@scenario
async def test_a_pod_group_may_be_larger_than_what_one_owner_may_have() -> None:
    cluster = FakeCluster()
    deps = Deps.over(cluster, cluster.clock, cluster)
    deps.informers.of(PODS)
    deps.informers.start()
    await deps.informers.synced()
    group = [_owned(f"g{each}", "g", labels={GROUP_NAME: "g"}) for each in range(5)]
    assert await _made(deps, group) == (5, [])
    await deps.informers.stop()
