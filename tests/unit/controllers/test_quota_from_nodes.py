"""Quotas that follow nodes, and flavors that carry how their cards are shared."""

from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.base.quantity import parse_quantity
from gpuaas.client.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import EVENTS, NODES, PODS
from gpuaas.controllers.card_shares import CardShares
from gpuaas.controllers.quota_from_nodes import QuotaFromNodes, with_quota
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.time import Stage, scenario, stage

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


def node(
    name: str, *, pool: str = "a", ready: str = "True", labels: dict[str, str] | None = None, **amounts: str
) -> Any:
    offered = {key.replace("__", "/").replace("_", "."): value for key, value in amounts.items()}
    offered = {"nvidia.com/gpu" if key == "gpu" else key: value for key, value in offered.items()}
    return {
        "metadata": {"name": name, "labels": {"pool": pool, **(labels or {})}},
        "spec": {},
        "status": {
            "allocatable": offered,
            "capacity": offered,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def flavor(name: str, pool: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"pool": pool}}}


def queue(name: str, *flavors: str, follows: bool = True, created: str = "2024-01-01T00:00:00Z") -> Any:
    resources = [{"name": "cpu", "nominalQuota": "1"}, {"name": GPU, "nominalQuota": "1", "borrowingLimit": "2"}]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": one, "resources": resources} for one in flavors]}
    annotations = {"gpuaas.dev/quota-from": "nodes"} if follows else {}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"resourceGroups": [group]}}


def workload(name: str, amount: int, at: str) -> Any:
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at}
        for kind in ("QuotaReserved", "Admitted")
    ]
    given = {"name": "main", "flavors": {GPU: "a"}, "resourceUsage": {GPU: str(amount)}, "count": 1}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
        "status": {"conditions": conditions, "admission": {"clusterQueue": "q", "podSetAssignments": [given]}},
    }


def quotas(on: Stage, name: str) -> dict[str, dict[str, str]]:
    [group] = on.cluster.read(CLUSTER_QUEUES, name)["spec"]["resourceGroups"]
    assert all([one["name"] for one in each["resources"]] == group["coveredResources"] for each in group["flavors"])
    return {each["name"]: {one["name"]: one["nominalQuota"] for one in each["resources"]} for each in group["flavors"]}


def served() -> FakeCluster:
    cluster = FakeCluster(VirtualClock())
    for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS, ADMISSION_CHECKS):
        cluster.serve(resource)
    return cluster


@scenario
async def test_the_nominal_quota_is_what_ready_nodes_of_the_flavor_offer() -> None:
    async with stage(QuotaFromNodes, cluster=served()) as on:
        on.cluster.put(RESOURCE_FLAVORS, flavor("a", "a"))
        on.cluster.put(RESOURCE_FLAVORS, flavor("b", "b"))
        on.cluster.put(NODES, node("n1", cpu="8", gpu="4"))
        on.cluster.put(NODES, node("n2", cpu="7500m", gpu="4"))
        on.cluster.put(NODES, node("n3", pool="b", cpu="2", gpu="1"))
        on.cluster.put(NODES, node("lost", ready="Unknown", cpu="8", gpu="4"))
        on.cluster.put(CLUSTER_QUEUES, queue("q", "a", "b"))
        on.cluster.put(CLUSTER_QUEUES, queue("plain", "a", follows=False))
        await on.advance(1)
        assert quotas(on, "q") == {"a": {"cpu": "15500m", GPU: "8"}, "b": {"cpu": "2", GPU: "1"}}
        assert quotas(on, "plain") == {"a": {"cpu": "1", GPU: "1"}}
        first = on.cluster.read(CLUSTER_QUEUES, "q")["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]
        assert first["borrowingLimit"] == "2", "the rest of a quota is the administrator's"
        cut = node("n1", cpu="8")
        cut["status"]["allocatable"][SLICE] = "14"
        on.cluster.put(NODES, cut)
        await on.advance(1)
        assert quotas(on, "q") == {
            "a": {"cpu": "15500m", GPU: "4", SLICE: "14"},
            "b": {"cpu": "2", GPU: "1", SLICE: "0"},
        }, "slices are covered once there are some"
        writes = len(on.cluster.writes)
        await on.advance(60)
        assert len(on.cluster.writes) == writes, "nothing is written while nothing changes"


@scenario
async def test_a_flavor_is_given_to_one_queue_only() -> None:
    async with stage(QuotaFromNodes, cluster=served()) as on:
        on.cluster.put(RESOURCE_FLAVORS, flavor("a", "a"))
        on.cluster.put(NODES, node("n1", cpu="8", gpu="4"))
        on.cluster.put(CLUSTER_QUEUES, queue("z", "a"))
        on.cluster.put(CLUSTER_QUEUES, queue("b", "a", created="2024-02-01T00:00:00Z"))
        await on.advance(1)
        assert quotas(on, "z") == {"a": {"cpu": "8", GPU: "4"}}, "the one that was made first"
        assert quotas(on, "b") == {"a": {"cpu": "1", GPU: "1"}}
        [event] = [one for one in on.cluster.all(EVENTS) if one["reason"] == "FlavorTaken"]
        assert "flavor a follows its nodes in ClusterQueue z already" in event["message"]


@scenario
async def test_what_was_admitted_to_cards_that_are_gone_and_never_started_queues_again() -> None:
    async with stage(QuotaFromNodes, cluster=served()) as on:
        on.cluster.put(RESOURCE_FLAVORS, flavor("a", "a"))
        on.cluster.put(NODES, node("n1", cpu="8", gpu="3"))
        on.cluster.put(CLUSTER_QUEUES, queue("q", "a"))
        for number in range(3):
            on.cluster.put(WORKLOADS, workload(f"w{number}", 1, f"2024-01-01T00:0{number}:00Z"))
        runs = {
            "metadata": {"name": "p", "namespace": "default", "annotations": {"kueue.x-k8s.io/workload": "w2"}},
            "spec": {"nodeName": "n1", "containers": []},
            "status": {"phase": "Running"},
        }
        on.cluster.put(PODS, runs)
        await on.advance(1)
        on.cluster.put(NODES, node("n1", cpu="8", gpu="1"))
        await on.advance(2)
        evicted = {
            one["metadata"]["name"]
            for one in on.cluster.all(WORKLOADS)
            if any(each["type"] == "Evicted" and each["status"] == "True" for each in one["status"]["conditions"])
        }
        assert evicted == {"w0", "w1"}, "w2 runs"


@scenario
async def test_a_flavor_carries_how_its_cards_are_shared() -> None:
    async with stage(CardShares, cluster=served()) as on:
        on.cluster.put(RESOURCE_FLAVORS, flavor("a", "a"))
        on.cluster.put(RESOURCE_FLAVORS, flavor("b", "b"))
        on.cluster.put(NODES, node("n1", gpu="4", labels={"nvidia.com/gpu.replicas": "4"}))
        on.cluster.put(NODES, node("n2", pool="b", gpu="1", labels={"nvidia.com/gpu.replicas": "1"}))
        await on.advance(1)
        read = lambda name: on.cluster.read(RESOURCE_FLAVORS, name)["metadata"].get("annotations") or {}  # noqa: E731
        assert read("a") == {"gpuaas.dev/card-shares": "nvidia.com/gpu=4"}
        assert read("b") == {}
        on.cluster.put(NODES, node("n1", gpu="1"))
        await on.advance(1)
        assert read("a") == {}


@pytest.mark.parametrize("amount", ["8", "8000m", 8])
def test_a_quota_that_is_the_same_is_left_as_it_is_written(amount: Any) -> None:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": amount}]}],
    }
    assert with_quota([group], {"a": {"cpu": parse_quantity("8")}}) == [group]
