"""What pods that were given places promise: each waits for its own, by rank where it has one."""

from typing import Any

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.client.kueue import CLUSTER_QUEUES, KUEUE, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import JOBS, NODES, PODS
from gpuaas.controllers.integrations.places import PlacesController
from gpuaas.kueue.integrations.places import layout
from gpuaas.kueue.status import topology_assignment
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.server import House, job, with_note
from gpuaas.testing.time import scenario, stage

RANK = "rank"
HOST = "kubernetes.io/hostname"


def pod(name: str, rank: int | None = None, place: str = "", phase: str = "Pending") -> Object:
    spec: Object = (
        {"nodeSelector": {"host": place}} if place else {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    )
    labels = {} if rank is None else {RANK: str(rank)}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}


def laid_out(pods: list[Object], **options: Any) -> dict[str, str]:
    assignment = {"topologyAssignment": topology_assignment(["host"], ((("a",), 1), (("b",), 2)))}
    found = layout(assignment, {"podIndexLabel": RANK}, pods, **options)
    return {one["metadata"]["name"]: labels["host"] for one, labels in found}


@pytest.mark.parametrize(
    ("pods", "places"),
    [
        ([pod("x", 2), pod("y", 0), pod("z", 1)], {"x": "b", "y": "a", "z": "b"}),
        ([pod("x"), pod("y"), pod("z")], {"x": "a", "y": "b", "z": "b"}),
        ([pod("x", place="b"), pod("y"), pod("z")], {"y": "a", "z": "b"}),
        ([pod("x", place="b", phase="Failed"), pod("y", place="b"), pod("z")], {"z": "a"}),
        ([pod("x", 0), pod("y", 0)], {"x": "a", "y": "b"}),
        ([pod("w", place="a"), pod("x", place="b"), pod("y", place="b"), pod("z")], {}),
        ([pod("x", 0), pod("y", 1), pod("z", 2, place="a")], {"x": "b", "y": "b"}),
        ([pod("x", 7), pod("y", 0)], {"x": "a", "y": "b"}),
    ],
    ids=[
        "by rank",
        "as they come",
        "beside one that is there",
        "in place of a failed one",
        "ranks that clash",
        "no room",
        "one is not where its rank belongs, since a node was replaced",
        "a rank there is no place for",
    ],
)
def test_pods_get_their_places(pods: list[Object], places: dict[str, str]) -> None:
    assert laid_out(pods) == places


def test_the_first_of_a_set_behind_its_leader_has_the_next_rank() -> None:
    assert laid_out([pod("x", 1), pod("y", 2), pod("z", 3)], first=1) == {"x": "a", "y": "b", "z": "b"}


def with_nodes(house: House, number: int) -> str:
    """A team with a queue `tas` over so many nodes of two cards."""
    team = house.team()
    house.create(
        TOPOLOGIES, {"metadata": {"name": team}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    )
    flavor = {"nodeLabels": {"pool": team}, "topologyName": team}
    house.create(RESOURCE_FLAVORS, {"metadata": {"name": f"{team}-tas"}, "spec": flavor})
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": f"{team}-tas", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    house.create(CLUSTER_QUEUES, {"metadata": {"name": f"{team}-tas"}, "spec": spec})
    house.create(
        LOCAL_QUEUES, {"metadata": {"name": "tas", "namespace": team}, "spec": {"clusterQueue": f"{team}-tas"}}
    )
    for index in range(1, number + 1):
        name = f"{team}-node-{index}"
        capacity = {"nvidia.com/gpu": "2", "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        labels = {"pool": team, "kubernetes.io/hostname": name}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        house.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})
        house.patch(NODES, "", name, {"spec": {"taints": None}})
    return team


def bound(house: House, team: str) -> list[str]:
    """The nodes that pods without gates are bound to, by the pods' names."""
    pods = sorted(house.all(PODS, team), key=lambda each: str(each["metadata"]["name"]))
    free = [each for each in pods if not each["spec"].get("schedulingGates")]
    return [str(each["spec"]["nodeSelector"]["kubernetes.io/hostname"]) for each in free]


def test_nobody_is_sent_to_a_failed_node() -> None:
    assignment = {"topologyAssignment": topology_assignment([HOST], ((("a",), 1), (("b",), 1)))}
    found = layout(assignment, None, [pod("x"), pod("y")], failed=["a"])
    assert [(one["metadata"]["name"], labels) for one, labels in found] == [("y", {HOST: "b"})]


def test_pods_of_a_job_are_bound_to_the_nodes_they_were_given(house: House) -> None:
    team = with_nodes(house, 2)
    made = job(team, "spread", queue="tas", parallelism=2, completions=2, completionMode="Indexed", gpus=2)
    made["spec"]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-preferred-topology": "kubernetes.io/hostname"}
    }
    house.create(JOBS, made)
    house.admitted(team, "spread")
    house.until(lambda: len(bound(house, team)) == 2)
    assert bound(house, team) == [f"{team}-node-1", f"{team}-node-2"]


def test_pods_of_a_job_that_grows_stay_on_their_nodes_and_new_ones_get_others(house: House) -> None:
    team = with_nodes(house, 3)
    made = job(team, "grows", queue="tas", parallelism=1, completions=9, gpus=2)
    house.create(JOBS, with_note(made, "kueue.x-k8s.io/elastic-job", "true"))
    house.until(lambda: bound(house, team) == [f"{team}-node-1"])
    (first,) = house.all(PODS, team)
    house.patch(JOBS, team, "grows", {"spec": {"parallelism": 3}})
    house.until(lambda: sorted(bound(house, team)) == [f"{team}-node-{number}" for number in (1, 2, 3)])
    still = house.get(PODS, team, first["metadata"]["name"])
    assert still["spec"]["nodeSelector"]["kubernetes.io/hostname"] == f"{team}-node-1"


@scenario
async def test_a_place_is_free_when_the_pod_that_had_it_is_gone_not_before() -> None:
    async with stage(PlacesController, cluster=FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))) as world:
        placed = {"name": "main", "count": 1, "topologyAssignment": topology_assignment([HOST], ((("a",), 1),))}
        conditions = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
        status = {"admission": {"clusterQueue": "q", "podSetAssignments": [placed]}, "conditions": conditions}
        spec = {"podSets": [{"name": "main", "count": 1}]}
        world.cluster.put(WORKLOADS, {"metadata": {"name": "w", "namespace": "team"}, "spec": spec, "status": status})
        labels = {"kueue.x-k8s.io/podset": "main"}
        notes = {"kueue.x-k8s.io/workload": "w", "kueue.x-k8s.io/podset-unconstrained-topology": "true"}
        meta = {"namespace": "team", "labels": labels, "annotations": notes}
        old = {"nodeName": "a", "nodeSelector": {HOST: "a"}, "containers": []}
        world.cluster.put(PODS, {"metadata": {**meta, "name": "old", "finalizers": ["x/y"]}, "spec": old})
        gated = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}], "containers": []}
        world.cluster.remove(PODS, "old", "team")
        world.cluster.put(PODS, {"metadata": {**meta, "name": "new"}, "spec": gated})
        await world.settle()
        assert world.cluster.read(PODS, "new", "team")["spec"].get("schedulingGates")
        leaving = world.cluster.read(PODS, "old", "team")
        await world.cluster.patch(PODS, "old", {"metadata": {"finalizers": None}}, "team")
        if world.cluster.exists(PODS, "old", "team"):
            await world.cluster.delete(PODS, "old", "team", grace=0, uid=leaving["metadata"]["uid"])
        await world.settle()
        assert world.cluster.read(PODS, "new", "team")["spec"]["nodeSelector"] == {HOST: "a"}
