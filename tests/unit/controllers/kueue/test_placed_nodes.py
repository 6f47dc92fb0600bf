"""What is promised to workloads with places: failed nodes are replaced or the workload leaves, and others' pods count."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    KUEUE,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.resources import NAMESPACES, NODES, PODS
from gpuaas.controllers.kueue import KueueCore, PlacedNodes, QueueStatuses
from gpuaas.kueue.configuration.settings import Configuration, Configured, NodeRules
from gpuaas.kueue.topology_assignment import hosts_of, unhealthy_of
from gpuaas.runtime.controller import Deps
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


def node(name: str, *, gpus: int = 1, ready: str = "True", taints: list[Object] | None = None) -> Object:
    labels = {HOST: name, "rack": name.split("-")[0], "kind": "gpu"}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    status = {"allocatable": {GPU: str(gpus), "pods": "10"}, "conditions": conditions if ready else []}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}, "status": status}


def workload(name: str, pods: int = 1, **more: Any) -> Object:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}], **more.pop("pod", {})}}
    pod_set = {"name": "main", "count": pods, "template": template, **more.pop("pod_set", {})}
    spec = {"queueName": "main", "podSets": [pod_set], "active": True}
    return {"metadata": {"name": name, "namespace": "team", **more}, "spec": spec}


def pod(name: str, where: str, *, of: str = "w", bound: bool = True, gpus: int = 1, **status: Any) -> Object:
    """A pod on a node, or bound to it and waiting; `of` no workload: somebody else's."""
    containers = [{"name": "c", "resources": {"requests": {GPU: str(gpus)}}}]
    spec = {"containers": containers, **({"nodeName": where} if bound else {"nodeSelector": {HOST: where}})}
    notes = {"kueue.x-k8s.io/workload": of, UNCONSTRAINED: "true"} if of else {}
    meta = {"name": name, "namespace": "team", "annotations": notes}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if bound else "Pending", **status}}


@asynccontextmanager
async def racks(*nodes: Object, rules: NodeRules | None = None, **queue: Any) -> AsyncIterator[Stage]:
    """Nodes of one GPU each unless they say otherwise, a queue over all of them."""
    configured = Configured(Configuration(nodes=rules or NodeRules()))

    def core(deps: Deps) -> KueueCore:
        return KueueCore(deps, configured)

    def placed(deps: Deps) -> PlacedNodes:
        return PlacedNodes(deps, configured)

    cluster = FakeCluster(VirtualClock(1_800_000_000), resources=(*BUILT_IN, *KUEUE))
    async with stage(core, placed, QueueStatuses, cluster=cluster) as world:
        cluster.put(NAMESPACES, namespace("team"))
        for each in nodes:
            cluster.put(NODES, each)
        levels = [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]
        cluster.put(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": levels}})
        flavor = {"topologyName": "racks", "nodeLabels": {"kind": "gpu"}, **queue.pop("flavor", {})}
        cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": flavor})
        quota = {"name": "l4", "resources": [{"name": GPU, "nominalQuota": "100"}]}
        group = {"coveredResources": [GPU], "flavors": [quota]}
        spec = {"resourceGroups": [group], "namespaceSelector": {}, **queue}
        cluster.put(CLUSTER_QUEUES, {"metadata": {"name": "research"}, "spec": spec})
        local = {"metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "research"}}
        cluster.put(LOCAL_QUEUES, local)
        await world.settle()
        yield world


def read(world: Stage, name: str = "w") -> Object:
    return world.cluster.read(WORKLOADS, name, "team")


def nodes_of(world: Stage, name: str = "w") -> set[str]:
    return set(hosts_of(read(world, name)))


def condition(world: Stage, kind: str, name: str = "w") -> tuple[str, str, str] | None:
    found = [each for each in (read(world, name).get("status") or {}).get("conditions") or () if each["type"] == kind]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


async def fail(world: Stage, name: str, ready: str = "False") -> None:
    world.cluster.put(NODES, node(name, ready=ready))
    await world.advance(0.2)


@scenario
async def test_a_node_that_is_gone_is_noted_at_once_and_replaced_a_second_later() -> None:
    async with racks(node("a-1"), node("a-2"), node("b-1")) as world:
        world.cluster.put(WORKLOADS, workload("w", 2))
        await world.settle()
        assert nodes_of(world) == {"a-1", "a-2"}
        world.cluster.remove(NODES, "a-1")
        await world.settle()
        assert unhealthy_of(read(world)) == ["a-1"]
        await world.advance(1.1)
        assert nodes_of(world) == {"a-2", "b-1"}
        assert unhealthy_of(read(world)) == []
        assert condition(world, "Admitted") == ("True", "Admitted", "The workload is admitted")


@scenario
async def test_without_a_replacement_it_leaves_and_queues_again() -> None:
    async with racks(node("a-1"), node("a-2")) as world:
        world.cluster.put(WORKLOADS, workload("w", 2))
        await world.settle()
        world.cluster.remove(NODES, "a-1")
        await world.advance(1.2)
        words = "Workload was evicted as there was no replacement for unhealthy node(s): a-1"
        assert condition(world, "Evicted") == ("True", "NodeFailures", words)
        assert unhealthy_of(read(world)) == []
        assert f"Normal EvictedDueToNodeFailures workload/w {words}" in world.cluster.events("team")


@scenario
async def test_or_waits_for_one_where_the_configuration_says_so_ever_more_patiently() -> None:
    async with racks(node("a-1"), node("a-2"), rules=NodeRules(fail_fast=False)) as world:
        world.cluster.put(WORKLOADS, workload("w", 2))
        await world.settle()
        world.cluster.remove(NODES, "a-1")
        await world.advance(10)
        assert condition(world, "Evicted") is None
        told = [each for each in world.cluster.events("team") if "SecondPassFailed" in each]
        assert told
        assert 'pod set main: topology "racks" doesn\'t allow to fit any of 1 pod(s)' in told[0]
        world.cluster.put(NODES, node("b-1"))
        await world.advance(30)
        assert nodes_of(world) == {"a-2", "b-1"}


@scenario
async def test_a_second_failed_node_before_the_first_is_replaced_evicts_at_once() -> None:
    async with racks(node("a-1"), node("a-2"), node("b-1")) as world:
        world.cluster.put(WORKLOADS, workload("w", 2))
        await world.settle()
        world.cluster.remove(NODES, "a-1")
        world.cluster.remove(NODES, "a-2")
        await world.settle()
        words = "Workload eviction triggered due to multiple TAS assigned node failures, including: a-1, a-2"
        assert condition(world, "Evicted") == ("True", "NodeFailures", words)


@scenario
async def test_a_node_that_is_not_ready_fails_only_when_its_pods_are_gone_and_is_forgiven_when_it_recovers() -> None:
    async with racks(node("a-1"), rules=NodeRules(fail_fast=False)) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        world.cluster.put(PODS, pod("p", "a-1"))
        await fail(world, "a-1")
        assert unhealthy_of(read(world)) == []
        world.cluster.set_status(PODS, "p", "team", phase="Failed")
        await world.advance(0.2)
        assert unhealthy_of(read(world)) == ["a-1"]
        await fail(world, "a-1", ready="True")
        assert unhealthy_of(read(world)) == []


@scenario
async def test_pods_of_an_elastic_job_run_for_each_of_its_slices() -> None:
    async with racks(node("a-1"), rules=NodeRules(fail_fast=False)) as world:
        world.cluster.put(WORKLOADS, workload("w", annotations={"kueue.x-k8s.io/workload-slice-name": "first"}))
        await world.settle()
        made = pod("p", "a-1", of="first")
        made["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-name"] = "first"
        world.cluster.put(PODS, made)
        await fail(world, "a-1")
        assert unhealthy_of(read(world)) == []
        world.cluster.set_status(PODS, "p", "team", phase="Failed")
        await world.advance(0.2)
        assert unhealthy_of(read(world)) == ["a-1"]


NO_EXECUTE = {"key": "maintenance", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "rules", "noted"),
    [
        ([], NodeRules(fail_fast=False), True),
        ([], NodeRules(fail_fast=False, on_taints=False), False),
        ([{"key": "maintenance", "operator": "Exists"}], NodeRules(fail_fast=False), False),
        ([{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}], NodeRules(fail_fast=False), True),
    ],
    ids=["not tolerated", "taints do not count", "tolerated", "tolerated for a while, and no pod is there"],
)
@scenario
async def test_a_taint_fails_a_node_for_those_who_do_not_tolerate_it(
    tolerations: list[Object], rules: NodeRules, noted: bool
) -> None:
    async with racks(node("a-1"), rules=rules) as world:
        world.cluster.put(WORKLOADS, workload("w", pod={"tolerations": tolerations}))
        await world.settle()
        world.cluster.put(NODES, node("a-1", taints=[NO_EXECUTE]))
        await world.settle()
        assert unhealthy_of(read(world)) == (["a-1"] if noted else [])


@scenario
async def test_tolerations_of_the_flavor_count() -> None:
    flavor = {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}
    async with racks(node("a-1"), flavor=flavor) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        world.cluster.put(NODES, node("a-1", taints=[NO_EXECUTE]))
        await world.settle()
        assert unhealthy_of(read(world)) == []


@scenario
async def test_a_workload_of_a_single_pod_keeps_its_place() -> None:
    async with racks(node("a-1"), node("b-1")) as world:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
        world.cluster.put(WORKLOADS, workload("w", ownerReferences=[owner]))
        await world.settle()
        (before,) = nodes_of(world)
        world.cluster.remove(NODES, before)
        await world.advance(1.2)
        assert nodes_of(world) == {before}
        assert unhealthy_of(read(world)) == []


@scenario
async def test_a_pod_bound_to_a_node_that_was_replaced_is_failed() -> None:
    async with racks(node("a-1"), node("b-1")) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        await fail(world, "a-1")
        await world.advance(1.2)
        assert nodes_of(world) == {"b-1"}
        world.cluster.put(PODS, pod("late", "a-1", bound=False))
        await world.advance(0.2)
        status = world.cluster.read(PODS, "late", "team")["status"]
        assert status["phase"] == "Failed"
        assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
            ("TerminatedByKueue", "UnschedulableOnAssignedNode")
        ]


@scenario
async def test_nothing_is_done_about_nodes_where_the_configuration_says_so() -> None:
    async with racks(node("a-1"), node("b-1"), rules=NodeRules(replaces=False)) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        world.cluster.remove(NODES, "a-1")
        await world.advance(5)
        assert unhealthy_of(read(world)) == []
        assert nodes_of(world) == {"a-1"}


@scenario
async def test_places_left_for_later_are_chosen_when_the_checks_are_ready() -> None:
    checks = {"admissionChecks": [{"name": "provision"}]}
    async with racks(admissionChecksStrategy=checks) as world:
        check = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
        active = [{"type": "Active", "status": "True", "reason": "Active", "message": ""}]
        world.cluster.put(
            ADMISSION_CHECKS, {"metadata": {"name": "provision"}, "spec": check, "status": {"conditions": active}}
        )
        await world.settle()
        world.cluster.put(WORKLOADS, workload("w", pod_set={"topologyRequest": {"unconstrained": True}}))
        await world.settle()
        (given,) = read(world)["status"]["admission"]["podSetAssignments"]
        assert given["delayedTopologyRequest"] == "Pending"
        update = {"name": "main", "nodeSelector": {"bought": "for-w"}}
        state = {"name": "provision", "state": "Ready", "message": "", "podSetUpdates": [update]}
        state["lastTransitionTime"] = rfc3339(world.clock.now())
        world.cluster.set_status(WORKLOADS, "w", "team", admissionChecks=[state])
        world.cluster.put(NODES, node("a-1"))
        await world.advance(1.1)
        assert condition(world, "Admitted") is None
        fresh = node("b-1")
        fresh["metadata"]["labels"]["bought"] = "for-w"
        world.cluster.put(NODES, fresh)
        await world.advance(5)
        (given,) = read(world)["status"]["admission"]["podSetAssignments"]
        assert given["delayedTopologyRequest"] == "Ready"
        assert nodes_of(world) == {"b-1"}
        assert condition(world, "Admitted") == ("True", "Admitted", "The workload is admitted")


@pytest.mark.parametrize("how", ["ends", "is deleted"])
@scenario
async def test_pods_of_others_take_room_until_they_are_gone(how: str) -> None:
    async with racks(node("a-1")) as world:
        world.cluster.put(PODS, pod("other", "a-1", of=""))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        found = condition(world, "QuotaReserved")
        assert found is not None
        assert 'excluded: resource "nvidia.com/gpu": 1' in found[2]
        if how == "ends":
            world.cluster.set_status(PODS, "other", "team", phase="Succeeded")
        else:
            await world.cluster.delete(PODS, "other", "team", grace=0)
        await world.advance(1.2)
        assert nodes_of(world) == {"a-1"}


@scenario
async def test_placed_pods_count_with_their_workload_only() -> None:
    async with racks(node("a-1", gpus=2)) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        world.cluster.put(PODS, pod("p", "a-1"))
        await world.settle()
        world.cluster.put(WORKLOADS, workload("next"))
        await world.settle()
        assert nodes_of(world, "next") == {"a-1"}


@scenario
async def test_places_another_chose_for_a_running_workload_count() -> None:
    async with racks(node("a-1"), node("b-1")) as world:
        world.cluster.put(WORKLOADS, workload("w"))
        await world.settle()
        admission = read(world)["status"]["admission"]
        (given,) = admission["podSetAssignments"]
        slices = [
            {"domainCount": 1, "valuesPerLevel": [{"universal": "b-1"}], "podCounts": {"universal": 1}},
        ]
        moved = {**given, "topologyAssignment": {"levels": [HOST], "slices": slices}}
        world.cluster.set_status(WORKLOADS, "w", "team", admission={**admission, "podSetAssignments": [moved]})
        world.cluster.put(WORKLOADS, workload("next"))
        await world.settle()
        assert nodes_of(world, "next") == {"a-1"}
